from collections.abc import Callable

# callback: receives the path, the flags of open(2), and whether the path may be relative to an open folder.
def watch_opening(callback: Callable[[object, int, bool], object]) -> None: ...
