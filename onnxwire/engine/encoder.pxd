# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The output of serialization."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport WIRE_FIXED32, WIRE_LEN, WIRE_VARINT, varint_size, write_varint
from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.file_writer cimport FileWriter
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.table cimport Field, Slot, Table

cdef enum:
    BUFFER_BYTES = 1 << 20   # size of the buffer between an encoder and its target


cdef class Piece:
    """A range of bytes of a document or buffer, and its offset in the encoding."""
    cdef readonly uint64_t offset
    cdef readonly Payload payload


cdef struct Content:
    # A message to be encoded or compared: an overlay, or a span of a document. All references are borrowed.
    Table* table
    PyObject* document           # document of the bytes
    PyObject* overlay            # the Overlay of an edited message, or NULL
    PyObject* compact            # CompactOverlay, instead of an overlay; or NULL
    PyObject* parts              # the Spans of a message in several parts, or NULL
    const uint8_t* start
    const uint8_t* end


cdef struct Edits:
    # The edits of an Overlay or CompactOverlay: arrays with an element per field. See Overlay.
    const Slot* slots
    PyObject** owners
    const uint8_t* touched


cdef struct Scratch:
    # Temporary memory for encoding one message.
    uint8_t* p
    size_t size


cdef class Encoder:
    """Encodes a message in two passes, measuring and writing, or in a single pass."""
    cdef bint deterministic
    cdef bint is_writing         # the second pass, or the single one; False while measuring
    cdef bint is_in_memory       # long values are copied, too; therefore all bytes must be resident
    cdef Spans missing           # bytes that `put_missing` added, to be fetched; None if there are none
    cdef bint is_single_pass     # writes without measuring, to a buffer of its own that grows up to `limit` bytes
    cdef uint64_t limit
    cdef int depth               # nesting level of the message that is encoded
    cdef uint64_t total          # bytes measured or written
    # Sizes of messages, except those of `emit_short` (encode.pyx), in the order in which both passes enter them; with
    # the bit COPIED (encode.pyx), the message's span is copied unchanged.
    cdef uint64_t* sizes
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef Py_ssize_t next         # index of the size that the second pass reads next
    cdef Scratch* scratch        # per depth: states of the message's fields, and the Edits of a CompactOverlay
    cdef int n_scratch
    # The output buffer; p: the next byte. `pieces` is None if the buffer is never flushed. Otherwise a full buffer is
    # flushed to `target`, or to `pieces` if there is no target.
    cdef uint8_t* start
    cdef uint8_t* p
    cdef uint8_t* end
    cdef list pieces
    # The Document whose file was found unchanged last; borrowed, because only its address is compared.
    cdef PyObject* unchanged_document
    cdef Piece last_piece
    cdef FileWriter target           # receives the buffer at each flush; if None, `pieces` receives it
    cdef uint64_t flushed            # bytes of the encoding before the buffer

    cdef int flush(self) except -1
    cdef int grow(self, uint64_t n) except -1


cdef object source_changed_error()
cdef int require_records(Encoder self, Content* content) except -1
cdef int fetch_for(Encoder self, error) except -1
cdef int check_source(Encoder self, PyObject* document) except -1
cdef int put_bytes(Encoder self, const uint8_t* p, uint64_t n, PyObject* document, PyObject* owner) except -1
cdef int put_missing(Encoder self, const uint8_t* p, uint64_t n) except -1
cdef uint8_t* scratch_of(Encoder self, size_t size) except NULL


# The functions `put_*`, except `put_missing`, count their output in the measuring pass, and write it in the writing
# pass or the single pass.

cdef inline int put_varint(Encoder self, uint64_t value) except -1:
    cdef uint8_t[10] bytes
    cdef uint8_t* end
    if not self.is_writing:
        self.total += varint_size(value)
        return 0
    if self.end - self.p >= 10:
        end = write_varint(self.p, value)
        self.total += end - self.p
        self.p = end
        return 0
    end = write_varint(bytes, value)
    return put_bytes(self, bytes, end - bytes, NULL, NULL)


cdef inline int put_number(Encoder self, const Field* field, uint64_t raw) except -1:
    """Put the raw bits of a number, without a tag."""
    cdef uint8_t[8] bytes
    cdef int i
    cdef int size = 4 if field.wire == WIRE_FIXED32 else 8
    if field.wire == WIRE_VARINT:
        return put_varint(self, raw)
    if not self.is_writing:
        self.total += size
        return 0
    for i in range(size):
        bytes[i] = <uint8_t>(raw >> 8 * i)
    return put_bytes(self, bytes, size, NULL, NULL)


cdef inline int put_tag(Encoder self, const Field* field, int wire) except -1:
    return put_varint(self, <uint64_t>field.number << 3 | wire)


cdef inline int put_text(
    Encoder self, const Field* field, const uint8_t* p, uint64_t n, PyObject* document, PyObject* owner
) except -1:
    """Put the record of a string or bytes; document and owner as for `put_bytes`."""
    put_tag(self, field, WIRE_LEN)
    put_varint(self, n)
    return put_bytes(self, p, n, document, owner)
