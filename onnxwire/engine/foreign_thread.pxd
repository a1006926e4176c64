# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Entry into Python for threads that may lack the GIL, also while the interpreter exits."""

cdef extern from "foreign_thread.h":
    ctypedef struct Entry "OwEntry":
        pass

cdef bint enter_python(Entry* entry) noexcept nogil
cdef void leave_python(Entry* entry) noexcept nogil
