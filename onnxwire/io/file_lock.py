"""The lock of a file that is being written, which ends with its descriptor, by whatever way the process ends."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import fcntl


def lock(descriptor: int) -> bool:
    """Lock an open file for writing; False where another descriptor has it locked.

    True without a lock on file systems that have none, and on Windows.
    """
    if sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass
    return True
