# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A walk over the messages of a document, which reads fields, and adds texts such as paths to columns."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport MAX_DEPTH, WIRE_LEN, Record, read_length
from onnxwire.arrow._columns cimport Columns, StringView, Values
from onnxwire.arrow._program cimport MAX_FIELDS, Fields, Program
from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field, Slot, Table
from onnxwire.engine.view cimport Cursor, start_records

cdef enum:
    CACHED_NUMBERS = 64      # the texts of the numbers 0 to 63 are cached

cdef struct Message:
    # A message of the document.
    Table* table
    const uint8_t* p         # the bytes of the message; its first span, if there are several
    const uint8_t* end
    PyObject* parts          # Spans of a message in several pieces, owned by `Walk.parts`; else NULL
    uint32_t flags           # the flags that `scan_slots` sets, such as HAS_MERGE
    Slot[MAX_FIELDS] slots

cdef struct PathStep:
    # A message on the path from the root, and the field of its parent that contains it.
    Table* table
    Field* field             # NULL for the root
    int64_t index            # the index of the message in a repeated field; 0 in a singular field

cdef struct Texts:
    # Cached texts of numbers, such as the names of an enum's values.
    StringView[CACHED_NUMBERS] views
    bint[CACHED_NUMBERS] is_cached

cdef struct Numbers:
    # A position in a repeated field of numbers.
    Cursor cursor
    const Field* field
    uint64_t records         # number of remaining records
    const uint8_t* run       # the value of the packed record that contains p
    const uint8_t* p         # the next number; equal to `end` if the next record has to be read
    const uint8_t* end


cdef class Walk:
    cdef Document document
    cdef Columns columns
    cdef Program program
    cdef Fields* fields
    cdef PathStep[MAX_DEPTH + 2] path
    cdef int depth                   # number of messages on the path, including the root
    cdef list parts                  # the Spans of messages on the path
    cdef bint has_file_offsets
    cdef char[8192] path_text        # memory for `make_path`

    cdef int fill(self, Message* message) except -1
    cdef int child(self, const Message* message, const Field* field, Message* out) except -1
    cdef bint find_element(self, Cursor* cursor, const Field* field, Record* record) except -1
    cdef bint next_message(self, Cursor* cursor, const Field* field, Message* out) except -1
    cdef bint next_number(self, Numbers* numbers, int64_t* number) except -1
    cdef int raise_too_deep(self, const uint8_t* p) except -1
    cdef int add_c_string(self, Values* values, const char* text) except -1
    cdef int add_named(self, Values* values, Texts* texts, int32_t number, name) except -1
    cdef int make_path(self, int depth, StringView* view) except -1
    cdef int add_unless_negative(self, Values* values, int64_t number) except -1


cdef inline bint has(const Message* message, const Field* field) noexcept nogil:
    """Return whether a field is present."""
    return message.slots[field.slot].p != NULL


cdef inline void set_span(Message* message, Table* table, const Record* record) noexcept nogil:
    """Make a message of a record. Its slots are not filled."""
    message.table = table
    message.p = record.value
    message.end = record.value + record.n
    message.parts = NULL


cdef inline void start_at(Cursor* cursor, const Message* message, const Field* field) noexcept:
    """Move a cursor to the first record of a repeated field, or to the end of the message if there is none."""
    start_records(cursor, message.p, message.end, message.parts, message.slots[field.slot].p)
    if not has(message, field):
        cursor.p = cursor.end
        cursor.part = cursor.last_part


cdef inline void start_numbers(Numbers* numbers, const Message* message, const Field* field) noexcept:
    """Set the position before the first number of a repeated field."""
    start_at(&numbers.cursor, message, field)
    numbers.field = field
    numbers.records = message.slots[field.slot].n if has(message, field) else 0
    numbers.run = numbers.p = numbers.end = NULL


cdef inline bint next_element(Walk walk, Cursor* cursor, const Field* field, Record* record) except -1:
    """Read the next record of a repeated field of messages or strings. Return False after the last record."""
    # Common case: the records are adjacent, and the tag is one byte.
    record.tag = field.number << 3 | WIRE_LEN
    if cursor.p < cursor.end and cursor.p[0] == record.tag and record.tag < 0x80:
        record.value = read_length(cursor.p + 1, cursor.end, &record.n)
        if record.value != NULL:
            cursor.p = record.value + record.n
            return True
    return walk.find_element(cursor, field, record)
