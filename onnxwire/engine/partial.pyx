# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Memory for a remote file; only some of its pages are resident.

Address space for the whole file is reserved, so that the document of the file can store spans as addresses, as all
documents do. Pages are fetched on demand, marked in a bitmap, and never evicted. Access to other pages ends the process
(`partial.h`).
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cpython.object cimport PyObject
from cython cimport critical_section, final
from libc.string cimport memcpy, memmove

from onnxwire.engine.memory cimport calloc, free, realloc

cdef extern from "partial.h" nogil:
    uint8_t* ow_reserve(size_t size)
    int ow_make_accessible(uint8_t* start, size_t size, size_t offset, size_t n)
    void ow_populate(uint8_t* start, size_t n)
    void ow_release(uint8_t* start, size_t size)

from errno import EIO

from onnxwire.errors import ClosedError, SourceError

PAGE_SIZE = PAGE_BYTES

# The open memories in ascending order of their addresses; borrowed. Code that reads a value finds its memory here,
# because it may not know the document.
cdef PyObject** MEMORIES = NULL
cdef int N_PARTIAL = 0
cdef int MEMORIES_CAPACITY = 0


cdef int count_below(const uint8_t* p) noexcept:
    """Return the number of open memories that start at an address or below it."""
    cdef int low = 0, high = N_PARTIAL, middle
    while low < high:
        middle = (low + high) // 2
        if (<PartialMemory>MEMORIES[middle]).start <= p:
            low = middle + 1
        else:
            high = middle
    return low


@final
cdef class PartialMemory:
    """Memory reserved for a file of a known size; its bytes are fetched on demand.

    source: the object that fetches bytes, by these methods. `fetch(memory, ranges)` fetches byte ranges, pairs (start,
    end), and returns when they are resident. `fetch_ahead(memory, start, end, limit)` fetches the bytes that a walk has
    reached, and bytes that it will probably need next, up to the offset `limit`. `read_into(start, out)` fills
    the buffer `out`, and `chunks(start, end)` yields buffers; their bytes do not become resident. All of them raise
    SourceError if bytes cannot be fetched. `note_skipped_value(start, end, record)` is called for each long value that
    a walk through nested messages skips: its start and end, and the offset at which the record of the enclosing message
    begins. `close()` is called when the memory is closed.
    """

    @critical_section
    def __cinit__(self, uint64_t size, source):
        global MEMORIES, N_PARTIAL, MEMORIES_CAPACITY
        cdef PyObject** new_memories
        cdef int i
        if size == 0 or size > <uint64_t>1 << 62:
            raise MemoryError
        if N_PARTIAL == MEMORIES_CAPACITY:
            new_memories = <PyObject**>realloc(MEMORIES, (2 * <size_t>MEMORIES_CAPACITY + 8) * sizeof(PyObject*))
            if new_memories == NULL:
                raise MemoryError
            MEMORIES = new_memories
            MEMORIES_CAPACITY = 2 * MEMORIES_CAPACITY + 8
        self.size = size
        self.reserved = (size + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES
        self.source = source
        # calloc maps zero pages, so that only the used part of the bitmap takes memory.
        self.pages = <uint64_t*>calloc(<size_t>(self.reserved // PAGE_BYTES // 64 + 1), 8)
        if self.pages == NULL:
            raise MemoryError
        self.start = ow_reserve(<size_t>self.reserved)
        if self.start == NULL:
            raise MemoryError
        i = count_below(self.start)
        memmove(&MEMORIES[i + 1], &MEMORIES[i], <size_t>(N_PARTIAL - i) * sizeof(PyObject*))
        MEMORIES[i] = <PyObject*>self
        N_PARTIAL += 1

    @critical_section
    def __dealloc__(self):
        self.release()
        free(self.pages)
        free(self.walked_ranges)

    cdef void release(self) noexcept:
        """Release the address space. No-op if it is released."""
        global N_PARTIAL
        cdef int i
        if self.start != NULL:
            i = count_below(self.start)
            memmove(&MEMORIES[i - 1], &MEMORIES[i], <size_t>(N_PARTIAL - i) * sizeof(PyObject*))
            N_PARTIAL -= 1
            ow_release(self.start, <size_t>self.reserved)
            self.start = NULL

    @critical_section
    def close(self):
        """Release the memory as soon as no exported buffer, and no call that waits for bytes, uses it."""
        self.is_closed = True
        self.release_if_unused()
        self.source.close()

    cdef int release_if_unused(self) except -1:
        """Release the address space of a closed memory if no buffer or call uses it."""
        if self.is_closed and self.exports == 0:
            self.release()
        return 0

    @critical_section
    def __len__(self):
        return self.size

    @critical_section
    def __getbuffer__(self, Py_buffer* view, int flags):
        # Only a document may get the buffer, because it fetches bytes before it exposes them.
        if not self.allows_buffer or flags & PyBUF_WRITABLE == PyBUF_WRITABLE or self.start == NULL:
            raise BufferError("the memory of a file on a server is read through a document, which fetches the bytes")
        PyBuffer_FillInfo(view, self, self.start, <Py_ssize_t>self.size, True, flags)
        self.exports += 1

    @critical_section
    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1
        self.release_if_unused()

    cdef uint64_t absent_end(self, uint64_t page, uint64_t last_page) noexcept nogil:
        """Return the index of the first resident page from `page` on, or last_page + 1 if there is none."""
        while page <= last_page and not self.pages[page // 64] >> (page % 64) & 1:
            page += 1
        return page

    cdef bint has(self, const uint8_t* p, uint64_t n) noexcept nogil:
        """Return whether all bytes of a range are resident."""
        cdef uint64_t page, last_page
        if n == 0:
            return True
        page = <uint64_t>(p - self.start) // PAGE_BYTES
        last_page = (<uint64_t>(p - self.start) + n - 1) // PAGE_BYTES
        while page <= last_page:
            if page % 64 == 0 and last_page - page >= 63:
                if ~self.pages[page // 64]:
                    return False
                page += 64
                continue
            if not self.pages[page // 64] >> (page % 64) & 1:
                return False
            page += 1
        return True

    cdef bint is_walked(self, const uint8_t* p, const uint8_t* end) noexcept nogil:
        """Return whether a range is part of one walked range."""
        cdef Py_ssize_t i
        for i in range(self.n_walked_ranges):
            if self.walked_ranges[i].start <= p and end <= self.walked_ranges[i].end:
                return True
        return False

    cdef int add_walked(self, const uint8_t* p, const uint8_t* end) except -1:
        """Record that all bytes of a range are resident, except long values."""
        cdef Py_ssize_t capacity
        cdef WalkedRange* new_ranges
        if self.is_walked(p, end):
            return 0
        if self.n_walked_ranges == self.walked_capacity:
            capacity = self.walked_capacity * 2 or 8
            new_ranges = <WalkedRange*>realloc(self.walked_ranges, <size_t>capacity * sizeof(WalkedRange))
            if new_ranges == NULL:
                raise MemoryError
            self.walked_ranges = new_ranges
            self.walked_capacity = capacity
        self.walked_ranges[self.n_walked_ranges].start = p
        self.walked_ranges[self.n_walked_ranges].end = end
        self.n_walked_ranges += 1
        return 0

    cdef int fetch(self, const uint8_t* p, uint64_t n) except -1:
        """Fetch the bytes of a range that are not resident."""
        if self.has(p, n):
            return 0
        start = p - self.start
        self.exports += 1
        try:
            self.source.fetch(self, [(start, start + n)])
            return self.check_fetched(p, n)
        finally:
            self.exports -= 1
            self.release_if_unused()

    cdef int fetch_ahead(self, const uint8_t* p, uint64_t n, const uint8_t* end) except -1:
        """Fetch the bytes that a walk has reached, with readahead in the message, which ends at `end`."""
        if self.has(p, n):
            return 0
        start = p - self.start
        self.exports += 1
        try:
            self.source.fetch_ahead(self, start, start + n, end - self.start)
            return self.check_fetched(p, n)
        finally:
            self.exports -= 1
            self.release_if_unused()

    cdef int check_fetched(self, const uint8_t* p, uint64_t n) except -1:
        """Raise if the memory was closed during a request, or the requested bytes are not resident."""
        if self.is_closed:
            raise ClosedError("the document was closed while bytes of it were fetched; load it again")
        if not self.has(p, n):
            raise SourceError(EIO, "the server did not return the requested bytes")
        return 0

    # The following methods are called by Python modules, such as that of the source.

    @critical_section
    def missing(self, ranges):
        """Return the pages of byte ranges that are not resident, as ascending and disjoint byte ranges."""
        cdef uint64_t page = 0
        cdef uint64_t last_page, first_page
        cdef list missing_ranges = []
        for start, end in sorted(ranges):
            if not 0 <= start <= end <= self.size:
                raise IndexError("no such offset in the file")
            if start == end:
                continue
            page = max(page, <uint64_t>start // PAGE_BYTES)
            last_page = <uint64_t>(end - 1) // PAGE_BYTES
            while page <= last_page:
                first_page = page
                page = self.absent_end(page, last_page)
                if page > first_page:
                    missing_ranges.append((first_page * PAGE_BYTES, min(page * PAGE_BYTES, self.size)))
                else:
                    page += 1
        return missing_ranges

    @critical_section
    def put(self, uint64_t offset, data):
        """Store fetched bytes: whole pages, or up to the end of the file."""
        cdef Py_buffer buffer
        cdef uint64_t page, first_page, last_page, n, start, length
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        self.exports += 1
        try:
            n = <uint64_t>buffer.len
            if self.start == NULL or self.is_closed or n == 0:
                return
            if offset > self.size or n > self.size - offset:
                raise IndexError("no such offset in the file")
            if offset % PAGE_BYTES or (n % PAGE_BYTES and offset + n != self.size):
                raise IndexError("not whole pages of the file")
            page = offset // PAGE_BYTES
            last_page = (offset + n - 1) // PAGE_BYTES
            length = (last_page - page + 1) * PAGE_BYTES
            if ow_make_accessible(self.start, <size_t>self.reserved, <size_t>offset, <size_t>length):
                raise MemoryError
            while page <= last_page:
                # Resident pages are not written again, because other threads may read them.
                first_page = page
                page = self.absent_end(page, last_page)
                if page == first_page:
                    page += 1
                    continue
                start = first_page * PAGE_BYTES
                length = min(page * PAGE_BYTES, offset + n) - start
                with nogil:
                    # Huge pages are not used: allocating them took three times as long as the copy.
                    ow_populate(self.start + start, <size_t>length)
                    memcpy(self.start + start, <const uint8_t*>buffer.buf + (start - offset), <size_t>length)
                while first_page < page:
                    if not self.pages[first_page // 64] >> (first_page % 64) & 1:
                        self.pages[first_page // 64] |= <uint64_t>1 << (first_page % 64)
                        self.resident += min(<uint64_t>PAGE_BYTES, self.size - first_page * PAGE_BYTES)
                    first_page += 1
        finally:
            self.exports -= 1
            PyBuffer_Release(&buffer)
            self.release_if_unused()


cdef PartialMemory memory_of(const uint8_t* p):
    """Return the memory that contains an address, or None."""
    cdef int i = count_below(p) - 1
    cdef PartialMemory memory = <PartialMemory>MEMORIES[i] if i >= 0 else None
    return memory if memory is not None and p < memory.start + memory.size else None


cdef bint is_resident(const uint8_t* p, uint64_t n) noexcept:
    """Return whether all bytes of a range are resident; True for memory that is not a PartialMemory."""
    cdef PartialMemory memory
    if N_PARTIAL == 0 or n == 0:
        return True
    memory = memory_of(p)
    return memory is None or memory.has(p, n)


cdef int fetch(const uint8_t* p, uint64_t n) except -1:
    """Fetch the bytes of a range that are not resident. No-op for memory that is not a PartialMemory."""
    cdef PartialMemory memory = memory_of(p)
    return 0 if memory is None else memory.fetch(p, n)


cdef object fetched_text(const uint8_t* p, uint64_t n):
    """Return a string, fetched first if it is not resident. Keeps the memory alive until the string is decoded."""
    cdef PartialMemory memory = memory_of(p)
    if memory is not None:
        memory.fetch(p, n)
    return PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>n, "surrogateescape")


cdef object fetched_bytes(const uint8_t* p, uint64_t n):
    """Return bytes, fetched first if they are not resident."""
    cdef PartialMemory memory = memory_of(p)
    if memory is not None:
        memory.fetch(p, n)
    return PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n)
