# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Where the bytes of a saved file go."""
from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef struct Range:
    # Bytes of a file that are still to be copied; the same bytes in memory, or NULL.
    int source
    uint64_t offset
    uint64_t n
    const uint8_t* p


@final
cdef class FileWriter:
    cdef readonly int descriptor
    cdef readonly object failure        # the OSError that writing ended with, None before; of reading it is none
    cdef object progress
    cdef bint fresh                     # empty before, so what is not written reads as zeros
    cdef bint stream
    cdef bint busy                      # nobody else may enter meanwhile, and nobody at all after an error
    cdef uint64_t written
    cdef uint64_t reported              # the part of `written` that progress and the disk know of
    cdef uint8_t* buffer
    cdef uint64_t used
    cdef Range pending                  # comes after the buffer; kept back because the next may continue it

    cdef int put(self, const uint8_t* p, uint64_t n) except -1
    cdef int put_at(self, const uint8_t* p, uint64_t n, uint64_t offset) except -1
    cdef int put_range(self, int source, uint64_t offset, uint64_t n, const uint8_t* p) except -1
    cdef int finish_all(self) except -1

    cdef int enter(self) except -1
    cdef int fail(self, int64_t code) except -1
    cdef int advance(self, uint64_t n) except -1
    cdef int write_out(self, const uint8_t* p, uint64_t n) except -1
    cdef int flush(self) except -1
    cdef int append(self, const uint8_t* p, uint64_t n) except -1
    cdef int read_in(self, int source, uint64_t offset, uint64_t n) except -1
    cdef int copy_data(self, int source, uint64_t offset, uint64_t n) except -1
    cdef int settle(self) except -1
