# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The object whose lock is the engine's section (`section.h`), and the release of this lock in a forked process."""
import os

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    static void ow_unlock_after_fork(PyObject *owner)
    {
        if (!ow_is_inside(PyThreadState_GetUnchecked(), owner))
            memset(&owner->ob_mutex, 0, sizeof(PyMutex));
    }
    #else
    static void ow_unlock_after_fork(PyObject *owner) { (void)owner; }
    #endif
    """
    void unlock_after_fork "ow_unlock_after_fork"(object owner)


# An object that nothing else locks; None where the GIL is the section.
SECTION = object() if FREE_THREADED else None


def unlock_section():
    """Unlock the section in a forked process if a thread that does not exist in this process had locked it."""
    unlock_after_fork(SECTION)


if FREE_THREADED and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=unlock_section)
