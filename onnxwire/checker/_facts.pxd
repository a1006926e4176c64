# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Declares `Facts`, a whole document as columns of numbers: a sheet for each message type, a row for each message."""
from cython cimport final
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from onnxwire.checker._sheets cimport List, Sheet
from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field
from onnxwire.index.interning cimport Texts

cdef struct Part:
    # A further piece of a message that is encoded in several pieces: not the first piece.
    const uint8_t* p     # the first byte
    uint64_t n           # number of bytes
    int32_t next         # the index of the message's next Part, -1 for none
    int32_t last         # in the message's first Part: the index of its last Part

cdef struct Unknown:
    # A record that is an unknown field, by its number, wire type or enum value.
    int64_t start        # offset of its tag
    int64_t value        # the value of a varint; 0 for another wire type
    int32_t row          # row of the message
    int32_t number       # field number
    int16_t sheet        # index of the message's sheet
    int16_t wire         # wire type

cdef enum:
    QUEUE_LENGTH = 16    # a power of 2

cdef struct QueuedString:
    # A string whose id is not yet stored in its column.
    const uint8_t* p     # the first byte
    uint64_t n           # number of bytes
    Sheet* sheet
    uint32_t slot
    uint32_t hash
    int32_t row          # the row in the sheet or in the field's list


@final
cdef class Facts:
    cdef Document document
    cdef readonly object root           # class of the root message
    # Whether offsets refer to the caller's bytes; False if the message was encoded for the check.
    cdef readonly bint is_placed
    cdef Sheet* sheets
    cdef Py_ssize_t n_sheets
    cdef object tables                  # keeps the C tables alive
    cdef dict sheet_numbers             # full name without the package -> index in `sheets`
    cdef list names                     # the names of the sheets
    cdef list parent_field_names        # all fields that contain messages, such as "GraphProto.node"
    cdef list parent_field_owners       # (index in `sheets`, slot) of each of them
    cdef readonly dict parent_field_numbers  # indices in `parent_field_names` by name; must not be changed
    cdef list field_names               # field names of each sheet by slot: "GraphProto.node"
    cdef list short_names               # the same without the message type: "node"
    cdef Part* parts
    cdef int32_t n_parts
    cdef int32_t parts_capacity
    cdef Unknown* unknown
    cdef int32_t n_unknown
    cdef int32_t unknown_capacity
    cdef Texts texts
    cdef QueuedString[QUEUE_LENGTH] queued  # a ring
    cdef uint32_t n_queued              # number of strings that were queued so far
    cdef uint32_t n_interned            # number of queued strings whose ids are stored

    cdef Sheet* sheet(self, str name) except NULL
    cdef int slot(self, Sheet* sheet, str name) except -1
    cdef void* column(self, str sheet_name, str field) except NULL
    cdef void* column_of(self, Sheet* sheet, uint32_t slot) except NULL
    cdef List* list_of(self, str sheet_name, str field) except NULL
    cdef int parent_field(self, str name) except -1
    cdef object buffer(self, const void* p, Py_ssize_t n, int size)
