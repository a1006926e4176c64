# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Copies of the bytes that follow long values of a mapped file: the headers of tensors."""
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.advise cimport OwHeaders

cdef extern from *:
    """
    #define OW_HIGHEST ((const uint8_t *)UINTPTR_MAX)
    """
    const uint8_t* HIGHEST "OW_HIGHEST"    # the highest of all addresses

cdef extern from "thresholds.h":
    enum:
        COPY_BYTES "OW_COPY_BYTES"  # maximum size of a copy
        COPIED_BEFORE_BYTES "OW_COPIED_BEFORE_BYTES"  # maximum number of bytes of a copy that precede the header

cdef enum:
    MAX_HEAD_BYTES = 16      # upper bound of the bytes of a tag and the number or length after it
    BLOCK_COPIES = 32        # copies in one allocation


cdef struct Copy:
    const uint8_t* p         # address in the mapping
    const uint8_t* bytes     # address of the copy; it does not move
    size_t n                 # bytes of the copy
    bint is_advised          # `advise_copied` has advised the kernel about `p`


cdef struct CopyBlock:
    # Memory for the bytes of several copies.
    CopyBlock* next
    uint8_t[BLOCK_COPIES * COPY_BYTES] bytes


cdef struct HeaderCopies:
    # The copies of one mapping. Modified with the GIL only; a `nogil` block must not use them.
    int descriptor           # of the mapped file, from whose first byte the mapping starts; -1: no more copies are made
    uint64_t device, inode   # of that file
    bint is_checked          # the descriptor refers to that file, and no other code has run since this was checked
    const uint8_t* start     # the mapping
    const uint8_t* end
    Copy* items              # by ascending address
    size_t n
    size_t capacity
    size_t last              # index of the copy that was found or made last: most searches are for ascending addresses
    CopyBlock* blocks
    size_t block_left        # number of unused copies in the first block


cdef const Copy* make_copy(HeaderCopies* self, const uint8_t* p, OwHeaders* headers) noexcept nogil
cdef bint is_cached(const HeaderCopies* self, uint64_t offset) noexcept nogil
cdef void free_copies(HeaderCopies* self) noexcept nogil
cdef size_t search_copies(HeaderCopies* self, const uint8_t* p) noexcept nogil


cdef inline const Copy* copy_around(HeaderCopies* self, const uint8_t* p) noexcept nogil:
    """Return a copy that contains the byte at an address, or NULL; there must be at least one copy."""
    cdef size_t i = self.last
    if p < self.items[0].p:
        return NULL
    if p < self.items[i].p or i + 1 < self.n and p >= self.items[i + 1].p:
        i = search_copies(self, p)
        self.last = i
    return &self.items[i] if <size_t>(p - self.items[i].p) < self.items[i].n else NULL


cdef inline const Copy* head_copy(HeaderCopies* self, const uint8_t* p) noexcept nogil:
    """Return a copy with the first MAX_HEAD_BYTES at an address, or all bytes up to the file's end; else NULL.

    There must be at least one copy.
    """
    cdef const Copy* copy = copy_around(self, p)
    if copy != NULL and copy.n - <size_t>(p - copy.p) < MAX_HEAD_BYTES and copy.p + copy.n < self.end:
        return NULL
    return copy


cdef inline size_t shift_of(const Copy* copy) noexcept nogil:
    """Return the difference between addresses in the mapping and in the copy; 0 for NULL."""
    return 0 if copy == NULL else <size_t>copy.p - <size_t>copy.bytes


cdef inline const uint8_t* shifted(const uint8_t* p, size_t shift) noexcept nogil:
    """Add a difference to an address; the result may be outside of the memory that contains the address."""
    return <const uint8_t*>(<size_t>p + shift)


cdef inline const uint8_t* copied_bytes(HeaderCopies* self, const uint8_t* p, uint64_t n) noexcept nogil:
    """Return the address of a copy of a range; the range's own address if it was not copied.

    There must be at least one copy.
    """
    cdef const Copy* copy = copy_around(self, p)
    if copy == NULL or copy.n - <size_t>(p - copy.p) < n:
        return p
    return copy.bytes + (p - copy.p)
