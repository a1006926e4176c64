# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The output of serialization: bytes are counted in the first pass and written in the second, or in a single pass."""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cython cimport critical_section
from libc.string cimport memcpy, memset

from onnxwire.engine.document cimport Document
from onnxwire.engine.fetch_structure cimport fetch_span
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.partial cimport N_PARTIAL, PartialMemory, fetch, is_resident, memory_of
from onnxwire.engine.payload cimport new_payload

from onnxwire.errors import EditError

cdef extern from "thresholds.h":
    enum:
        MIN_PIECE_BYTES "OW_LONG_BYTES"


@cython.final
@cython.no_gc
cdef class Piece:
    pass


@cython.final
@cython.no_gc
@cython.freelist(8)
cdef class Encoder:

    @critical_section
    def __cinit__(self, bint deterministic):
        self.deterministic = deterministic

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_scratch):
            free(self.scratch[i].p)
        free(self.scratch)
        free(self.sizes)
        if self.is_single_pass:
            free(self.start)

    cdef int flush(self) except -1:
        """Empty the buffer into the target or the pieces; in a single pass, grow it instead.

        Raises TooLong if a single pass exceeds `limit`; in two passes, EditError if `pieces` is None.
        """
        cdef Py_ssize_t n = self.p - self.start
        if self.is_single_pass:
            return self.grow(1)
        if self.pieces is None:
            raise source_changed_error()  # the buffer has the measured size
        if n and self.target is not None:
            self.target.put_at(self.start, <uint64_t>n, self.flushed)
        elif n:
            self.pieces.append(PyBytes_FromStringAndSize(<const char*>self.start, n))
        self.flushed += n
        self.p = self.start
        return 0

    cdef int grow(self, uint64_t n) except -1:
        """Grow the buffer to have space for n more bytes; raises TooLong beyond `limit`."""
        cdef uint64_t used = <uint64_t>(self.p - self.start)
        cdef uint64_t capacity = <uint64_t>(self.end - self.start)
        cdef uint8_t* start
        if n > self.limit - used:
            raise TooLong
        if n > capacity - used:
            capacity = max(2 * capacity, used + n, <uint64_t>256)
            capacity = min(capacity, self.limit)
            start = <uint8_t*>realloc(self.start, <size_t>capacity)
            if start == NULL:
                raise MemoryError
            self.start = start
            self.p = start + used
            self.end = start + capacity
        return 0


class TooLong(Exception):
    """The message can't be written in one pass: it is too long, or not all of its bytes are resident."""


class NotResident(Exception):
    """Bytes must be fetched before a message can be encoded or compared. args: (document, table, start, end).

    document: the Document of the bytes; not used if `table` is None. table: the address of the message's Table, if its
    structure must be fetched; None if all bytes must be. start, end: addresses.
    """


cdef int require_records(Encoder self, Content* content) except -1:
    """Raise NotResident unless a message's structure, or for a deterministic encoding the whole message, is resident.

    In a single pass, raise TooLong instead.
    """
    cdef Spans parts
    cdef Py_ssize_t i
    if content.parts == NULL:
        return require_span(self, content, content.start, content.end)
    parts = <Spans>content.parts
    for i in range(parts.n):
        require_span(self, content, parts.items[i].p, parts.items[i].p + parts.items[i].n)
    return 0


cdef int require_span(Encoder self, Content* content, const uint8_t* p, const uint8_t* end) except -1:
    """Do the same as `require_records` for one span of the message."""
    cdef PartialMemory memory = None if p == end else memory_of(p)
    cdef bint is_root
    if memory is None or memory.has(p, <uint64_t>(end - p)):
        return 0
    is_root = p == memory.start and end == memory.start + memory.size
    if not self.deterministic and (memory.is_walked(p, end) or is_root and memory.root_table == content.table):
        return 0
    if self.is_single_pass:
        raise TooLong
    raise NotResident(
        <Document>content.document, None if self.deterministic else <size_t>content.table, <size_t>p, <size_t>end
    )


cdef int fetch_for(Encoder self, error) except -1:
    """Fetch the bytes that the NotResident `error` names; if `error` is None, the bytes in `missing`."""
    cdef Document document
    cdef Spans missing
    cdef Py_ssize_t i
    if error is None:
        missing = self.missing
        for i in range(missing.n):
            fetch(missing.items[i].p, missing.items[i].n)
        return 0
    owner, table, start, end = error.args
    document = owner
    if table is None:
        return fetch(<const uint8_t*><size_t>start, <uint64_t>(end - start))
    return fetch_span(
        document, <const Table*><size_t>table, <const uint8_t*><size_t>start, <const uint8_t*><size_t>end
    )


cdef object source_changed_error():
    """Return the error for bytes that the two passes read differently."""
    return EditError("the bytes of the document changed while they were written; the output is not usable")


cdef int check_source(Encoder self, PyObject* document) except -1:
    """Raise SourceError if the file of a document that is about to be read was changed."""
    if (<Document>document).backing is None or (<Document>document).backing.descriptor < 0:
        return 0  # bytes in memory; `unchanged_document` is not replaced, so that its file is not checked again
    self.unchanged_document = document
    return (<Document>document).check_unchanged()


cdef int put_bytes(Encoder self, const uint8_t* p, uint64_t n, PyObject* document, PyObject* owner) except -1:
    """Put bytes. owner: the object that owns the bytes, or NULL if `document` owns them.

    Both may be NULL for fewer than MIN_PIECE_BYTES bytes, since these are copied at once.
    """
    cdef size_t chunk_size
    cdef PyObject* source = document
    if owner != NULL:
        source = owner if isinstance(<object>owner, Document) else NULL
    if source != NULL and source != self.unchanged_document:
        check_source(self, source)
    self.total += n
    if n >= MIN_PIECE_BYTES:
        if self.pieces is not None and self.is_writing:
            self.flush()
            return put_piece(self, p, n, document, owner)
        if N_PARTIAL and self.is_in_memory and not is_resident(p, n):
            return put_missing(self, p, n)
    if not self.is_writing:
        return 0
    if self.is_single_pass:
        self.grow(n)
    while n:
        if self.p == self.end:
            self.flush()
        chunk_size = <size_t>(self.end - self.p)
        if n < chunk_size:
            chunk_size = n
        memcpy(self.p, p, chunk_size)
        self.p += chunk_size
        p += chunk_size
        n -= chunk_size
    return 0


cdef int put_missing(Encoder self, const uint8_t* p, uint64_t n) except -1:
    """Add bytes to `missing`: they must be fetched before they can be copied.

    Raises TooLong in a single pass, and EditError in the second of two passes.
    """
    if self.is_single_pass:
        raise TooLong
    if self.is_writing:
        raise source_changed_error()
    if self.missing is None:
        self.missing = Spans()
    return self.missing.append(p, n)


cdef int put_piece(Encoder self, const uint8_t* p, uint64_t n, PyObject* document, PyObject* owner) except -1:
    """Add a Piece, or extend the last one."""
    cdef Piece piece
    cdef Payload payload
    self.flushed += n
    if self.last_piece is not None and self.last_piece.offset + <uint64_t>self.last_piece.payload.n == self.total - n:
        payload = self.last_piece.payload
        if owner == NULL and payload.document is <Document>document and payload.p + payload.n == p:
            payload.n += n
            return 0
    payload = new_payload(
        <Document>document if document != NULL else None, p, <Py_ssize_t>n, 1, b"B",
        None if owner == NULL else <object>owner,
    )
    piece = Piece.__new__(Piece)
    piece.offset = self.total - n
    piece.payload = payload
    self.pieces.append(piece)
    self.last_piece = piece
    return 0


cdef uint8_t* scratch_of(Encoder self, size_t size) except NULL:
    """Return zeroed memory for the message at the current depth; size: a number of bytes, at least 1."""
    cdef Scratch* scratch
    cdef uint8_t* p
    if self.depth >= self.n_scratch:
        scratch = <Scratch*>realloc(self.scratch, <size_t>(self.depth + 1) * sizeof(Scratch))
        if scratch == NULL:
            raise MemoryError
        self.scratch = scratch
        memset(&scratch[self.n_scratch], 0, <size_t>(self.depth + 1 - self.n_scratch) * sizeof(Scratch))
        self.n_scratch = self.depth + 1
    scratch = &self.scratch[self.depth]
    if scratch.size < size:
        p = <uint8_t*>realloc(scratch.p, size)
        if p == NULL:
            raise MemoryError
        scratch.p = p
        scratch.size = size
    memset(scratch.p, 0, size)
    return scratch.p
