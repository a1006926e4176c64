from collections.abc import Callable

# Calls a function before a file is opened for writing, or truncated. callback: receives the path (or the descriptor
# that is truncated), the flags of open(2) (0 for os.truncate), and whether the path may be relative to an open folder.
def watch_opening(callback: Callable[[object, int, bool], object]) -> None: ...
