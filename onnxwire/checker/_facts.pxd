# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Declares `Facts`, a whole document as columns of numbers: a sheet for each message type, a row for each message."""
from cython cimport final
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from onnxwire.index.interning cimport Texts, is_utf8
from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field, Slot, Table

cdef enum:               # flags of a row
    CLASH = 1            # the wire data has two members of a oneof
    MERGED = 2           # the message is encoded in several pieces
    UNKNOWN = 4          # a record of the message is an unknown field, by its number, wire type or enum value

cdef enum Column:        # what one row of a field's column contains
    NUMBER               # int64: the value, or the raw bits of a float; 0 if absent
    TEXT                 # int32: the id of the string; 0 if absent or empty
    SPAN                 # Slot: offset and length of the bytes
    CHILD                # int32: the row of the message in its sheet; -1 if absent
    CHILDREN             # Run: n rows in their sheet from `first` on, not counting rows of other fields between them
    LIST                 # Run: rows in the field's own list, without gaps
    PAYLOAD              # Records: numbers or bytes that are not read

cdef struct Run:
    # The elements of a repeated field in one message.
    int32_t first        # row of the first element; arbitrary if n is 0
    int32_t n

cdef struct Records:
    # The records of a payload field in one message.
    int64_t first        # offset of the first record's tag
    int64_t records      # number of records
    int64_t items        # number of elements; -1 if it is unknown, since packed varints were not counted
    int64_t size         # number of bytes of the values

cdef struct List:
    # The elements of one repeated string or number field, of all messages.
    int32_t n
    int32_t capacity
    int32_t* parent      # row of the message
    int32_t* index       # index in the field
    int64_t* start       # offset of the value
    int64_t* value       # id of the string, or the number

cdef struct Part:
    # A further piece of a message that is encoded in several pieces: not the first piece.
    const uint8_t* p     # the first byte
    uint64_t n           # number of bytes
    int32_t next         # the index of the message's next Part, -1 for none
    int32_t last         # in the message's first Part: the index of its last Part

cdef struct Sheet:
    const Table* table
    int32_t n            # number of rows
    int32_t capacity
    int32_t n_scanned    # the number of scanned rows
    const uint8_t** p    # first byte of the message
    uint64_t* length     # number of bytes
    int32_t* parent      # row in the sheet of the parent's type; -1 for the root
    int32_t* index       # index in the repeated field; 0 for a singular field
    int16_t* edge        # index in `edge_names` of the field that contains the message; -1 for the root
    uint8_t* depth       # number of messages around the message
    uint8_t* flags       # CLASH, MERGED and UNKNOWN
    uint32_t* present    # bit i is set if the field of slot i is present
    int32_t* part        # index in `parts` of the first further piece, -1 for none; NULL while no row has any
    int32_t n_initialized  # the number of rows whose columns are initialized
    Column* kinds        # indexed by slot
    void** columns
    List* lists          # indexed by slot
    Sheet** child_sheets  # the sheets of message fields, by slot
    int16_t* edges       # for message fields, the index in `edge_names`, by slot

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
    cdef list edge_names                # "GraphProto.node"
    cdef list edge_owners               # (index in `sheets`, slot) of each edge
    cdef readonly dict edge_numbers     # indices in `edge_names` by name; must not be changed
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
    cdef int edge(self, str name) except -1
    cdef object buffer(self, const void* p, Py_ssize_t n, int size)
