# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A walk over the messages of a document, and the texts that it adds to columns."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport MAX_DEPTH, WIRE_LEN, Record, read_length
from onnxwire.arrow._columns cimport Columns, Values, View
from onnxwire.arrow._program cimport Known, Plan, Program
from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field, Slot, Table
from onnxwire.engine.view cimport Cursor, start_records

cdef enum:
    NAMED = 64               # numbers whose texts are kept

cdef struct Message:
    const uint8_t* p
    const uint8_t* end
    PyObject* parts          # Spans of a message that stands in several pieces, else NULL; `Rows.kept` holds them

cdef struct Frame:
    # A message on the way from the root, and the field of the one before it that it is in.
    Table* table
    Field* field             # NULL of the root
    int64_t index

cdef struct Texts:
    # The texts of numbers: of an enum, of data types, of types.
    View[NAMED] views
    bint[NAMED] is_made


cdef class Walk:
    cdef Document document
    cdef Columns columns
    cdef Known known                 # these and what follows, as the program has them
    cdef Table* tables
    cdef Plan* plans
    cdef Table* wanted
    cdef Table* graph_table
    cdef Table* function_table
    cdef Table* node_table
    cdef Frame[MAX_DEPTH + 2] frames
    cdef int depth
    cdef list kept                   # the Spans of messages on the way
    cdef bint is_placed
    cdef char[8192] path_text

    cdef int scan(self, Table* table, const Message* message, Slot* slots, uint32_t* flags) except -1
    cdef int child(
        self, Table* table, const Message* message, const Slot* slots, uint32_t flags, const Field* field, Message* out
    ) except -1
    cdef bint find_element(self, Cursor* cursor, const Field* field, Record* record) except -1
    cdef bint next_message(self, Cursor* cursor, const Field* field, Message* out, Slot* slots) except -1
    cdef int too_deep(self, const uint8_t* p) except -1
    cdef int add_word(self, Values* values, const char* word) except -1
    cdef int add_named(self, Values* values, Texts* texts, int32_t number, name) except -1
    cdef int write_path(self, int depth) except -1
    cdef int make_path(self, int depth, View* view) except -1
    cdef int add_unless_negative(self, Values* values, int64_t number) except -1


cdef inline void start_at(Cursor* cursor, const Message* message, const Slot* slot) noexcept:
    """Stand at the first record of a repeated field."""
    start_records(cursor, message.p, message.end, message.parts, slot.p)


cdef inline bint next_element(Walk walk, Cursor* cursor, const Field* field, Record* record) except -1:
    """The next record of a repeated field of messages or strings, or none."""
    # Mostly they stand one after another, and a tag is a byte.
    record.tag = field.number << 3 | WIRE_LEN
    if cursor.p < cursor.end and cursor.p[0] == record.tag and record.tag < 0x80:
        record.value = read_length(cursor.p + 1, cursor.end, &record.n)
        if record.value != NULL:
            cursor.p = record.value + record.n
            return True
    return walk.find_element(cursor, field, record)
