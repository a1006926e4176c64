# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""FileWriter: buffered writing, and copying of ranges from file to file."""
from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef struct Range:
    # n bytes of a file to be copied. source: the file's descriptor. p: the same bytes in memory, or NULL.
    int source
    uint64_t offset
    uint64_t n
    const uint8_t* p


@final
cdef class FileWriter:
    cdef readonly int descriptor
    cdef readonly object failure        # the OSError of a failed write, or None; errors of reading are not stored
    cdef object progress                # called with `written_end`; or None
    cdef bint is_fresh                  # the file had no bytes from the start offset on: skipped ranges read as zeros
    cdef readonly bint is_stream        # the file is a pipe or device, written at its current position
    cdef bint is_busy                   # a method is running, or an error occurred: no method may start
    cdef uint64_t written_end           # the offset after the last byte written to the file or skipped as a hole
    cdef uint64_t reported_end          # the offset up to which progress was called and writeback started
    cdef uint8_t* buffer
    cdef uint64_t n_buffered            # bytes in the buffer
    cdef Range pending_range            # follows the buffer; not written yet because the next range may continue it

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
    cdef int write_pending(self) except -1
