# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Copies of the bytes that follow long values of a mapped file: the headers of tensors.

A header that is read in the mapping takes a page fault, a page table of its own, and a call of madvise that prevents
the mapping of the values around it: 6 to 9 µs. Reading it from the file into dense memory takes 1 µs. The addresses in
views, slots and spans are those of the mapping. A reader of headers looks up the copy of an address, and the readers
that do not know of copies read the same bytes in the mapping.
"""
from libc.string cimport memmove

from onnxwire.engine.memory cimport free, malloc, realloc

cdef extern from "header_copies.h" nogil:
    bint ow_is_file(int fd, uint64_t device, uint64_t inode)
    long long ow_read_cached(int fd, uint8_t* out, size_t n, uint64_t offset)
    long long ow_read_range(int fd, uint8_t* out, size_t n, uint64_t offset)
    void ow_request_ranges(
        int fd, OwHeaders* headers, const uint8_t* start, const uint8_t* p, const uint8_t* end, size_t before, size_t n
    )
    void ow_record_jump(OwHeaders* headers, const uint8_t* p)


cdef size_t search_copies(HeaderCopies* self, const uint8_t* p) noexcept nogil:
    """Return the index of the last copy that begins at an address or below it, else 0. There must be a copy."""
    cdef size_t low = 0, high = self.n - 1, middle
    if self.last + 1 < self.n and self.items[self.last + 1].p <= p:
        low = self.last + 1
        if low == high or p < self.items[low + 1].p:
            return low
    while low < high:
        middle = (low + high + 1) // 2
        if self.items[middle].p <= p:
            low = middle
        else:
            high = middle - 1
    return low


cdef uint8_t* unused_memory(HeaderCopies* self) noexcept nogil:
    """Return memory for one more copy, and make space for its entry. Returns NULL if an allocation fails."""
    cdef size_t capacity
    cdef void* moved
    cdef CopyBlock* block
    if self.n == self.capacity:
        capacity = self.capacity * 2 + BLOCK_COPIES
        moved = realloc(self.items, capacity * sizeof(Copy))
        if moved == NULL:
            return NULL
        self.items = <Copy*>moved
        self.capacity = capacity
    if self.block_left == 0:
        block = <CopyBlock*>malloc(sizeof(CopyBlock))
        if block == NULL:
            return NULL
        block.next = self.blocks
        self.blocks = block
        self.block_left = BLOCK_COPIES
    return &self.blocks.bytes[(self.block_left - 1) * COPY_BYTES]


cdef const Copy* make_copy(HeaderCopies* self, const uint8_t* p, OwHeaders* headers) noexcept nogil:
    """Copy the header at an address. If it is not in the page cache, also request the headers that probably follow.

    headers: the headers that the walk jumped to. The caller sets `self.is_checked` to False if other code may have run
    since the last call. Returns a copy as `head_copy` does; NULL if it can't be made.
    """
    cdef size_t before = min(<size_t>(p - self.start), <size_t>COPIED_BEFORE_BYTES)
    cdef size_t n = min(<size_t>(self.end - p) + before, <size_t>COPY_BYTES)
    cdef uint64_t offset = <uint64_t>(p - self.start) - before
    cdef uint8_t* out
    cdef size_t i = 0
    cdef long long n_read
    if self.descriptor < 0:
        return NULL
    if not self.is_checked:
        self.is_checked = ow_is_file(self.descriptor, self.device, self.inode)
        if not self.is_checked:
            return NULL
    out = unused_memory(self)
    if out == NULL:
        return NULL
    ow_record_jump(headers, p)
    n_read = ow_read_cached(self.descriptor, out, n, offset)
    if n_read < <long long>n:
        ow_request_ranges(self.descriptor, headers, self.start, p, self.end, before, n)
        n_read = ow_read_range(self.descriptor, out, n, offset)
    if n_read < <long long>n:
        return NULL
    if self.n and self.items[0].p <= p - before:
        i = search_copies(self, p - before) + 1
    memmove(&self.items[i + 1], &self.items[i], (self.n - i) * sizeof(Copy))
    self.items[i] = Copy(p - before, out, n, False)
    self.n += 1
    self.block_left -= 1
    self.last = i
    return &self.items[i]


cdef bint is_cached(const HeaderCopies* self, uint64_t offset) noexcept nogil:
    """Return whether a byte of the file is in the page cache."""
    cdef uint8_t byte
    return self.descriptor >= 0 and ow_read_cached(self.descriptor, &byte, 1, offset) == 1


cdef void free_copies(HeaderCopies* self) noexcept nogil:
    """Free all copies, and make no more."""
    cdef CopyBlock* block
    self.descriptor = -1
    self.n = self.capacity = self.last = self.block_left = 0
    free(self.items)
    self.items = NULL
    while self.blocks != NULL:
        block = self.blocks
        self.blocks = block.next
        free(block)
