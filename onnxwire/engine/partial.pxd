# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Memory for a remote file; only some of its pages are resident."""
from cython cimport final
from libc.stdint cimport uint8_t, uint64_t

cdef extern from "thresholds.h":
    enum:
        LONG_BYTES "OW_LONG_BYTES"  # length in bytes from which a value is fetched on demand only
        PAGE_BYTES "OW_PAGE_BYTES"  # bytes per page


cdef struct WalkedRange:
    # A range whose records a walk has fetched: all bytes are resident, except those of long values.
    const uint8_t* start
    const uint8_t* end


@final
cdef class PartialMemory:
    cdef uint8_t* start              # NULL after the memory was released
    cdef uint64_t size               # the size of the file
    cdef uint64_t reserved           # bytes of reserved address space: size, rounded up to pages
    cdef uint64_t* pages             # one bit per page: 1 if it is resident
    cdef WalkedRange* walked_ranges
    cdef Py_ssize_t n_walked_ranges, walked_capacity
    cdef Py_ssize_t exports          # exported buffers, and calls in progress; the memory is not released while > 0
    cdef bint is_closed
    cdef bint allows_buffer          # whether the memory may be exported: only while a document requests the buffer
    # The table of the root message, if `fetch_span` (fetch_structure.pyx) has fetched that message's records; or NULL.
    cdef const void* root_table
    cdef readonly uint64_t resident  # number of resident bytes
    cdef readonly object source      # the object that fetches bytes

    cdef uint64_t absent_end(self, uint64_t page, uint64_t last_page) noexcept nogil
    cdef bint has(self, const uint8_t* p, uint64_t n) noexcept nogil
    cdef bint is_walked(self, const uint8_t* p, const uint8_t* end) noexcept nogil
    cdef int add_walked(self, const uint8_t* p, const uint8_t* end) except -1
    cdef int fetch(self, const uint8_t* p, uint64_t n) except -1
    cdef int fetch_ahead(self, const uint8_t* p, uint64_t n, const uint8_t* end) except -1
    cdef int check_fetched(self, const uint8_t* p, uint64_t n) except -1
    cdef int release_if_unused(self) except -1
    cdef void release(self) noexcept


# Number of open partial memories (a variable); 0 in a program that opens only local files.
cdef int N_PARTIAL

cdef PartialMemory memory_of(const uint8_t* p)
cdef bint is_resident(const uint8_t* p, uint64_t n) noexcept
cdef int fetch(const uint8_t* p, uint64_t n) except -1
cdef object fetched_text(const uint8_t* p, uint64_t n)
cdef object fetched_bytes(const uint8_t* p, uint64_t n)


cdef inline int ensure_resident(const uint8_t* p, uint64_t n) except -1:
    """Fetch the bytes of a value that are not resident; call this before any of them is read.

    Values shorter than LONG_BYTES were fetched with their message (`fetch_structure`). For a remote file, other code
    may run while bytes are fetched; raises ClosedError if that code closed the document, and SourceError if the bytes
    cannot be fetched.
    """
    if n >= LONG_BYTES and N_PARTIAL:
        return fetch(p, n)
    return 0
