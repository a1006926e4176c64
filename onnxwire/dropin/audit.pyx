# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, freethreading_compatible=False
"""Tells before Python opens a file to write it.

In C, because Python calls an audit hook for other events too, some as frequent as `id`.
"""
import os
from libc.string cimport strcmp

cdef extern from "Python.h":
    ctypedef int (*AuditHook)(const char* event, object arguments, void* data) except -1
    int PySys_AddAuditHook(AuditHook hook, void* data) except -1

cdef object CALLED = None
cdef int WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


cdef int hook(const char* event, object arguments, void* data) except -1:
    if event[0] != c"o":
        return 0
    if strcmp(event, b"open") == 0 and len(arguments) == 3:
        path, mode, flags = arguments
        if isinstance(flags, int) and flags & WRITING:
            # Only os.open has no mode.
            CALLED(path, flags, mode is None)
    elif strcmp(event, b"os.truncate") == 0 and len(arguments) == 2:
        CALLED(arguments[0], 0, False)
    return 0


def watch_opening(called):
    """Call a function with path and flags of a file that is about to be opened for writing, or cut.

    Its third argument is whether the path may be one in an open folder, of which Python does not tell (`dir_fd`).
    It can't be taken back, and only the first call does anything; what the function raises, opening raises.
    """
    global CALLED
    if CALLED is None:
        CALLED = called
        PySys_AddAuditHook(hook, NULL)
