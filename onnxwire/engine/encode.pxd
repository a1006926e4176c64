# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Serialization of messages with their edits."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.compact_overlay cimport CompactOverlay
from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.file_writer cimport FileWriter
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.table cimport Field, Slot, Table
from onnxwire.engine.view cimport Cursor, View

cdef enum:
    BUFFER_BYTES = 1 << 20   # size of the buffer between an encoder and its target


cdef class Piece:
    """A range of bytes of a document or buffer, and its offset in the encoding."""
    cdef readonly uint64_t offset
    cdef readonly Payload payload


cdef struct Content:
    # A message to be encoded: an overlay, or a span of a document. All references are borrowed.
    Table* table
    PyObject* document           # document of the bytes
    PyObject* overlay            # or NULL
    PyObject* compact            # CompactOverlay, instead of an overlay; or NULL
    PyObject* parts              # or NULL
    const uint8_t* start
    const uint8_t* end


cdef struct Edits:
    # The fields of an Overlay or CompactOverlay.
    const Slot* slots
    PyObject** held
    const uint8_t* touched


cdef struct Scratch:
    uint8_t* p
    size_t size


cdef struct NumberReader:
    # Iterates over the numbers of a field, packed or not.
    Cursor cursor
    uint64_t left                # remaining records
    const uint8_t* run           # the packed run that `p` is in, or NULL
    const uint8_t* p
    const uint8_t* end


cdef class Encoder:
    """Encodes a message in two passes, measuring and writing, or a short one in a single pass."""
    cdef bint deterministic
    cdef bint writing
    cdef bint in_memory          # long values are copied too, so that all bytes must be resident
    cdef Spans missing           # bytes that are not resident; None if all are
    cdef bint growing            # single pass, into a buffer of its own that grows up to `limit`
    cdef uint64_t limit
    cdef int depth
    cdef uint64_t total          # bytes measured or written
    # Sizes of all messages with a length, in the order of the passes; with the bit CANONICAL, the message's span is
    # copied unchanged.
    cdef uint64_t* sizes
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef Py_ssize_t next
    cdef Scratch* scratch        # per depth, for the message there: states of its fields, and Edits of a CompactOverlay
    cdef int n_scratch
    # The output buffer; p: the next byte. If there are `pieces`, a full buffer is flushed to them or to `target`.
    cdef uint8_t* start
    cdef uint8_t* p
    cdef uint8_t* end
    cdef list pieces
    cdef PyObject* checked           # the last Document whose file was found unchanged; only compared
    cdef Piece last
    cdef FileWriter target           # receives the buffer at each flush; if None, `pieces` does
    cdef uint64_t flushed            # bytes of the encoding before the buffer

    cdef int measure(self, View message) except -1
    cdef int write(self, View message) except -1
    cdef bytes write_at_once(self, View message, uint64_t limit)
    cdef int emit_root(self, View message) except -1
    cdef int flush(self) except -1
    cdef int grow(self, uint64_t n) except -1


cdef int measure_resident(Encoder encoder, View message) except -1
cdef uint64_t encoded_size(View message) except? 0xFFFFFFFF
cdef bytes encode(View message, bint deterministic)
cdef bytes encode_small(View message, Encoder encoder)
cdef bytes unknown_fields(View message)
cdef bytes unknown_of(Content* content, uint32_t flags)
cdef int require_records(Encoder self, Content* content) except -1
cdef int expand_edits(CompactOverlay compacted, Edits* edits, uint8_t* memory) except -1
cdef int put_missing(Encoder self, const uint8_t* p, uint64_t n) except -1
cdef int fetch_for(Encoder self, error) except -1
cdef int next_number(NumberReader* reader, const Field* field, uint64_t* raw) noexcept nogil
cdef object number_error(Document document, const NumberReader* reader, const Field* field)
