# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Memory of a file that is somewhere else, of which only some pages are there.

The addresses of the whole file are reserved, so that a document of it is like any other: spans are addresses. Pages
come as they are asked for, are counted in a map, and stay. What is not there can't be touched (`partial.h`).
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport critical_section, final
from libc.string cimport memcpy

from onnxwire.engine.memory cimport calloc, free, realloc

cdef extern from "partial.h" nogil:
    uint8_t* ow_reserve(size_t size)
    int ow_open_range(uint8_t* start, size_t size, size_t offset, size_t n)
    void ow_populate(uint8_t* start, size_t n)
    void ow_release(uint8_t* start, size_t size)

from onnxwire.errors import ClosedError, SourceError

PAGE_SIZE = PAGE

# All that are open, by their addresses: who reads a value knows where it is, and not always what it belongs to.
cdef PyObject* MEMORIES = NULL
cdef int OPEN = 0


@final
cdef class PartialMemory:
    """Memory reserved for a file of a known size; its bytes are fetched on demand.

    source: an object with three methods. `fetch(memory, ranges)` fetches byte ranges, pairs (start, end) and returns
    when they are resident. `fetch_ahead(memory, start, end, limit)` fetches the bytes that a walk has reached and those
    that it will probably need next, up to the offset `limit`. Both raise SourceError if the bytes cannot be fetched.
    `stepped(start, end, record)` is called for each long value that a walk skips, with the offset of its record.
    """

    @critical_section
    def __cinit__(self, uint64_t size, source):
        global MEMORIES, OPEN
        if size == 0 or size > <uint64_t>1 << 62:
            raise MemoryError
        self.size = size
        self.room = (size + PAGE - 1) // PAGE * PAGE
        self.source = source
        # Touched page by page, so that it costs what is used of it.
        self.pages = <uint64_t*>calloc(<size_t>(self.room // PAGE // 64 + 1), 8)
        if self.pages == NULL:
            raise MemoryError
        self.start = ow_reserve(<size_t>self.room)
        if self.start == NULL:
            raise MemoryError
        self.next = MEMORIES
        MEMORIES = <PyObject*>self
        OPEN += 1

    @critical_section
    def __dealloc__(self):
        self.forget()
        free(self.pages)
        free(self.walked)

    cdef void forget(self) noexcept:
        global OPEN
        cdef PyObject** link = &MEMORIES
        if self.start != NULL:
            while link[0] != <PyObject*>self:
                link = &(<PartialMemory>link[0]).next
            link[0] = self.next
            OPEN -= 1
            ow_release(self.start, <size_t>self.room)
            self.start = NULL

    @critical_section
    def close(self):
        """Let go of the memory, at once or when the last call that waits for bytes of it ends."""
        self.is_closed = True
        self.let_go()
        self.source.close()

    cdef int let_go(self) except -1:
        if self.is_closed and self.exports == 0:
            self.forget()
        return 0

    @critical_section
    def __len__(self):
        return self.size

    @critical_section
    def __getbuffer__(self, Py_buffer* view, int flags):
        # For the document alone, which hands out no byte that is not there: to read one ends the process.
        if not self.lends or flags & PyBUF_WRITABLE == PyBUF_WRITABLE or self.start == NULL:
            raise BufferError("the memory of a file on a server is read through a document, which fetches the bytes")
        PyBuffer_FillInfo(view, self, self.start, <Py_ssize_t>self.size, True, flags)
        self.exports += 1

    @critical_section
    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1
        self.let_go()

    cdef bint has(self, const uint8_t* p, uint64_t n) noexcept nogil:
        """Whether all of some bytes are there."""
        cdef uint64_t page, last
        if n == 0:
            return True
        page = <uint64_t>(p - self.start) // PAGE
        last = (<uint64_t>(p - self.start) + n - 1) // PAGE
        while page <= last:
            if page % 64 == 0 and last - page >= 63:
                if ~self.pages[page // 64]:
                    return False
                page += 64
                continue
            if not self.pages[page // 64] >> (page % 64) & 1:
                return False
            page += 1
        return True

    cdef bint is_walked(self, const uint8_t* p, const uint8_t* end) noexcept nogil:
        """Whether all of some range is there but long values."""
        cdef Py_ssize_t i
        for i in range(self.n_walked):
            if self.walked[i].start <= p and end <= self.walked[i].end:
                return True
        return False

    cdef int add_walked(self, const uint8_t* p, const uint8_t* end) except -1:
        cdef Py_ssize_t capacity
        cdef Walked* walked
        if self.is_walked(p, end):
            return 0
        if self.n_walked == self.walked_capacity:
            capacity = self.walked_capacity * 2 or 8
            walked = <Walked*>realloc(self.walked, <size_t>capacity * sizeof(Walked))
            if walked == NULL:
                raise MemoryError
            self.walked = walked
            self.walked_capacity = capacity
        self.walked[self.n_walked].start = p
        self.walked[self.n_walked].end = end
        self.n_walked += 1
        return 0

    cdef int fetch(self, const uint8_t* p, uint64_t n) except -1:
        """Have some bytes there."""
        if self.has(p, n):
            return 0
        start = p - self.start
        self.exports += 1
        try:
            self.source.fetch(self, [(start, start + n)])
            return self.check(p, n)
        finally:
            self.exports -= 1
            self.let_go()

    cdef int fetch_ahead(self, const uint8_t* p, uint64_t n, const uint8_t* end) except -1:
        """Have the bytes there that a walk has come to, in a message that ends at `end`."""
        if self.has(p, n):
            return 0
        start = p - self.start
        self.exports += 1
        try:
            self.source.fetch_ahead(self, start, start + n, end - self.start)
            return self.check(p, n)
        finally:
            self.exports -= 1
            self.let_go()

    cdef int check(self, const uint8_t* p, uint64_t n) except -1:
        if self.is_closed:
            raise ClosedError("the document was closed while bytes of it were fetched; load it again")
        if not self.has(p, n):
            raise SourceError(5, "bytes that were asked for did not come")
        return 0

    # What the source asks and does.

    @critical_section
    def missing(self, ranges):
        """The ranges to be fetched so that some others are there: whole pages, in order, none of them twice."""
        cdef uint64_t page = 0
        cdef uint64_t last, first
        cdef list found = []
        for start, end in sorted(ranges):
            if not 0 <= start <= end <= self.size:
                raise IndexError("no such offset in the file")
            if start == end:
                continue
            page = max(page, <uint64_t>start // PAGE)
            last = <uint64_t>(end - 1) // PAGE
            while page <= last:
                first = page
                while page <= last and not self.pages[page // 64] >> (page % 64) & 1:
                    page += 1
                if page > first:
                    found.append((first * PAGE, min(page * PAGE, self.size)))
                else:
                    page += 1
        return found

    @critical_section
    def put(self, uint64_t offset, data):
        """Put bytes where they belong: whole pages, or up to the end of the file."""
        cdef Py_buffer buffer
        cdef uint64_t page, last, n
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        self.exports += 1
        try:
            n = <uint64_t>buffer.len
            if self.start == NULL or self.is_closed or n == 0:
                return
            if offset % PAGE or offset > self.size or n > self.size - offset or (n % PAGE and offset + n != self.size):
                raise IndexError("not whole pages of the file")
            page = offset // PAGE
            last = (offset + n - 1) // PAGE
            if ow_open_range(self.start, <size_t>self.room, <size_t>offset, <size_t>((last - page + 1) * PAGE)):
                raise MemoryError
            # What is there already is read by others, who are not to see it change, not even into itself.
            if self.has(self.start + offset, n):
                return
            with nogil:
                # Not in large pages: to find room for them took three times as long as the copy.
                ow_populate(self.start + offset, <size_t>n)
                memcpy(self.start + offset, buffer.buf, <size_t>n)
            while page <= last:
                if not self.pages[page // 64] >> (page % 64) & 1:
                    self.pages[page // 64] |= <uint64_t>1 << (page % 64)
                    self.resident += min(<uint64_t>PAGE, self.size - page * PAGE)
                page += 1
        finally:
            self.exports -= 1
            PyBuffer_Release(&buffer)
            self.let_go()


cdef PartialMemory memory_of(const uint8_t* p):
    """The memory that an address is in, or None."""
    cdef PyObject* memory = MEMORIES
    while memory != NULL:
        if (<PartialMemory>memory).start <= p < (<PartialMemory>memory).start + (<PartialMemory>memory).size:
            return <PartialMemory>memory
        memory = (<PartialMemory>memory).next
    return None


cdef bint is_there(const uint8_t* p, uint64_t n) noexcept:
    """Whether bytes may be read without asking for them."""
    cdef PartialMemory memory
    if OPEN == 0 or n == 0:
        return True
    memory = memory_of(p)
    return memory is None or memory.has(p, n)


cdef int fetch(const uint8_t* p, uint64_t n) except -1:
    """Have bytes there, where they are of such a memory."""
    cdef PartialMemory memory = memory_of(p)
    return 0 if memory is None else memory.fetch(p, n)


cdef object text_there(const uint8_t* p, uint64_t n):
    """A string, fetched first where it is not there; the memory is held until it is read."""
    cdef PartialMemory memory = memory_of(p)
    if memory is not None:
        memory.fetch(p, n)
    return PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>n, "surrogateescape")


cdef object bytes_there(const uint8_t* p, uint64_t n):
    """The same of bytes."""
    cdef PartialMemory memory = memory_of(p)
    if memory is not None:
        memory.fetch(p, n)
    return PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n)
