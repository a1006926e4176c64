# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""An audit hook that runs before Python opens a file for writing, or truncates a file.

Compiled, because Python calls audit hooks for every event, including each call of `id`.
"""
import os
from libc.string cimport strcmp

cdef extern from "Python.h":
    ctypedef int (*AuditHook)(const char* event, object arguments, void* data) except -1
    int PySys_AddAuditHook(AuditHook hook, void* data) except -1

cdef object CALLBACK = None
cdef int WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


cdef int hook(const char* event, object arguments, void* data) except -1:
    """Call CALLBACK for the event `open` with flags for writing, and for `os.truncate`."""
    if event[0] != c"o":
        return 0
    if strcmp(event, b"open") == 0 and len(arguments) == 3:
        path, mode, flags = arguments
        if isinstance(flags, int) and flags & WRITE_FLAGS:
            # The event of os.open has the mode None. Only os.open accepts `dir_fd`, to which its path may be relative.
            CALLBACK(path, flags, mode is None)
    elif strcmp(event, b"os.truncate") == 0 and len(arguments) == 2:
        CALLBACK(arguments[0], 0, False)
    return 0


def watch_opening(callback):
    """Call a function before a file is opened for writing, or truncated.

    callback: receives the path (or the descriptor that is truncated), the flags of open(2) (0 for os.truncate), and
    whether the path may be relative to an open folder (`dir_fd`, which the audit event omits). If the callback raises,
    the call that opens or truncates the file raises this exception. Only the first call in a process has an effect,
    which lasts until the process ends.
    """
    global CALLBACK
    if CALLBACK is None:
        CALLBACK = callback
        PySys_AddAuditHook(hook, NULL)
