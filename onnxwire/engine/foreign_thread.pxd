# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Entry into Python for threads that may lack the GIL, also while the interpreter exits."""

from cpython.object cimport PyObject

cdef extern from "foreign_thread.h":
    ctypedef struct Entry "OwEntry":
        pass

cdef bint enter_python(Entry* entry) noexcept nogil
cdef void leave_python(Entry* entry) noexcept nogil
cdef void release_reference(PyObject* o) noexcept nogil
