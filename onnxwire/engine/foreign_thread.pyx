# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Entry into Python for threads that may lack the GIL, also while the interpreter exits."""
from cpython.object cimport PyObject

import atexit
import os
from time import sleep

cdef extern from "Python.h":
    void Py_DECREF(PyObject* o)

cdef extern from "foreign_thread.h":
    enum:
        OW_CLOSED
    long ow_add(long* p, long n) nogil
    bint ow_enter_python(long* n_entered, Entry* entry) nogil
    void ow_leave_python(long* n_entered, Entry* entry) nogil

# Number of threads for which `enter_python` acquired the GIL and which have not left; plus OW_CLOSED once Python exits.
cdef long N_ENTERED = 0


cdef bint enter_python(Entry* entry) noexcept nogil:
    """Acquire the GIL unless this thread has it. Returns False if it can't be acquired because Python exits."""
    return ow_enter_python(&N_ENTERED, entry)


cdef void leave_python(Entry* entry) noexcept nogil:
    """Release the GIL if `enter_python` acquired it. Call this once for each `enter_python` that returned True."""
    ow_leave_python(&N_ENTERED, entry)


cdef void release_reference(PyObject* o) noexcept nogil:
    """Release a reference from any thread. No-op if Python exits and this thread lacks the GIL."""
    cdef Entry entry
    if enter_python(&entry):
        with gil:
            Py_DECREF(o)
        leave_python(&entry)


def refuse_threads():
    """Refuse threads without the GIL from now on, and wait until all threads that have entered leave."""
    if ow_add(&N_ENTERED, OW_CLOSED) >= OW_CLOSED:  # a second call
        ow_add(&N_ENTERED, -OW_CLOSED)
    while ow_add(&N_ENTERED, 0) != OW_CLOSED:
        sleep(0.001)


def reset_entered_threads():
    """Reset the number of entered threads in a forked process: it has no other threads."""
    ow_add(&N_ENTERED, -ow_add(&N_ENTERED, 0))


atexit.register(refuse_threads)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=reset_entered_threads)
