# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From messages, with their edits, to bytes."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.file_writer cimport FileWriter
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.table cimport Table
from onnxwire.engine.view cimport View

cdef enum:
    BUFFER = 1 << 20         # bytes that are gathered before they are handed on


cdef class Piece:
    """Bytes that stand somewhere already, and where in the encoding they belong."""
    cdef readonly uint64_t offset
    cdef readonly Payload payload


cdef struct Content:
    # A message to be encoded: an overlay, or a span of a document. Everything is borrowed.
    Table* table
    PyObject* document           # of the bytes
    PyObject* overlay            # or NULL
    PyObject* parts              # or NULL
    const uint8_t* start
    const uint8_t* end


cdef class Encoder:
    """Goes over a message twice in the same way: once to measure, once to write. Or once, where it is not long."""
    cdef bint deterministic
    cdef bint writing
    cdef bint in_memory          # what is written is copied there, so that all of it is needed
    cdef Spans missing           # what of it is not there yet; None where nothing is
    cdef bint growing            # once, into memory of its own that grows up to `limit`
    cdef uint64_t limit
    cdef int depth
    cdef uint64_t total          # bytes measured, or written
    # Of every message that is not copied as it stands, in the order in which they are met; with the bit CANONICAL,
    # one whose span is already what would be written.
    cdef uint64_t* sizes
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef Py_ssize_t next
    # What is written to: `p` to `end` of memory that the encoder fills and, where there are `pieces`, hands on.
    cdef uint8_t* start
    cdef uint8_t* p
    cdef uint8_t* end
    cdef list pieces
    cdef PyObject* checked           # the Document whose file was last seen to be unchanged; only compared
    cdef Piece last
    cdef FileWriter target           # that takes what was gathered at once; without it that goes between the pieces
    cdef uint64_t handed_on

    cdef int measure(self, View message) except -1
    cdef int write(self, View message) except -1
    cdef bytes write_at_once(self, View message, uint64_t limit)
    cdef int emit_root(self, View message) except -1
    cdef int flush(self) except -1
    cdef int grow(self, uint64_t n) except -1


cdef int measure_there(Encoder encoder, View message) except -1
cdef uint64_t encoded_size(View message) except? 0xFFFFFFFF
cdef bytes encode(View message, bint deterministic)
cdef bytes encode_small(View message, Encoder encoder)
cdef bytes unknown_fields(View message)
