# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Memory of a file that is somewhere else, of which only some pages are there."""
from cython cimport final
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

cdef extern from "thresholds.h":
    enum:
        LONG "OW_LONG"       # a value of so many bytes is not there before it is asked for
        PAGE "OW_PAGE"       # the unit of what is there


cdef struct Walked:
    # A range in which everything is there but long values.
    const uint8_t* start
    const uint8_t* end


@final
cdef class PartialMemory:
    cdef uint8_t* start              # NULL after it was let go of
    cdef uint64_t size               # of the file
    cdef uint64_t room               # of the addresses: whole pages
    cdef uint64_t* pages             # a bit a page: 1 where it is there
    cdef Walked* walked
    cdef Py_ssize_t n_walked, walked_capacity
    cdef Py_ssize_t exports          # buffers, and calls that wait for bytes
    cdef bint is_closed
    cdef bint lends                  # a document asks for the buffer
    cdef PyObject* next              # of the list of those that are open; borrowed
    cdef const void* root            # the table by which the records of the whole file were walked, or NULL
    cdef readonly uint64_t resident  # bytes that are there
    cdef readonly object source      # where the bytes come from

    cdef bint has(self, const uint8_t* p, uint64_t n) noexcept nogil
    cdef bint is_walked(self, const uint8_t* p, const uint8_t* end) noexcept nogil
    cdef int add_walked(self, const uint8_t* p, const uint8_t* end) except -1
    cdef int fetch(self, const uint8_t* p, uint64_t n) except -1
    cdef int fetch_ahead(self, const uint8_t* p, uint64_t n, const uint8_t* end) except -1
    cdef int check(self, const uint8_t* p, uint64_t n) except -1
    cdef int let_go(self) except -1
    cdef void forget(self) noexcept


# How many such memories there are; 0 in a program that opens local files.
cdef int OPEN

cdef PartialMemory memory_of(const uint8_t* p)
cdef bint is_there(const uint8_t* p, uint64_t n) noexcept
cdef int fetch(const uint8_t* p, uint64_t n) except -1
cdef object text_there(const uint8_t* p, uint64_t n)
cdef object bytes_there(const uint8_t* p, uint64_t n)


cdef inline int need(const uint8_t* p, uint64_t n) except -1:
    """Have a value's bytes there, which must be asked for before any of them is read.

    Other code may run meanwhile, but not where the bytes are of a file that is all there. Raises ClosedError where it
    closed the document. What lies in a walked message and is not long is there without asking.
    """
    if n >= LONG and OPEN:
        return fetch(p, n)
    return 0
