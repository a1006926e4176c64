"""Lock a file that is being written. The system releases the lock when the descriptor is closed or the process ends."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import fcntl


def try_lock(descriptor: int, *, result_if_unsupported: bool = True) -> bool:
    """Lock an open file exclusively, without waiting. Return False if another descriptor has locked the file.

    result_if_unsupported: the result on Windows, and after any other error, as on file systems that have no locks.
    """
    if sys.platform == "win32":
        return result_if_unsupported
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return result_if_unsupported
    return True
