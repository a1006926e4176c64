# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The view of a message: a document, a span of it, and one slot a field, filled by one pass over the span's tags."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._document cimport Document, Span, Spans
from onnxwire._table cimport Field, Slot, Table
from onnxwire._varint cimport WIRE_LEN, load32, load64, read_length, read_tag, read_varint, skip_value

cdef enum:
    HAS_UNKNOWN = 1      # some record is no known field's: number, wire type or enum value
    HAS_MERGE = 2        # some singular message field stands more than once


cdef class Message:
    # Never made by Cython's own constructor but by `new_view`, as an instance of a class that `make_class` made: that
    # class has room for all slots, a free list, no __dict__, and is not tracked by the garbage collector. The members
    # are C pointers for that reason; `document` and `parts` are owned references.
    cdef PyObject* document
    cdef PyObject* parts         # Spans of a message that stands in several pieces, to be merged; else NULL
    cdef Table* table
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef uint32_t epoch          # the document's, once the slots are filled
    cdef uint32_t flags
    cdef Slot[1] slots           # table.n_fields of them


cdef struct Cursor:
    # A place in the records of a message, of one span or of several parts.
    const uint8_t* p
    const uint8_t* end
    const Span* part             # the one that p is in; they belong to the message, which must outlive the cursor
    const Span* last_part        # part == last_part where there is but one span


cdef struct Record:
    const uint8_t* start         # its tag
    const uint8_t* value         # the value; behind the length of a WIRE_LEN
    uint64_t n                   # length of a WIRE_LEN, raw bits of a number
    uint32_t tag


cdef object new_view(Table* table, Document document, const uint8_t* start, const uint8_t* end, Spans parts)
cdef int refresh(Message self) except -1
cdef int next_record(Cursor* cursor, uint32_t number, Record* record) noexcept nogil
cdef object field_value(Message self, Field* field)
cdef Table* table_of(cls) except NULL
cdef void dealloc_view(PyObject* o) noexcept
cdef void* singular_getter(int kind) noexcept


cdef inline Document document_of(Message self):
    return <Document>self.document


cdef inline int fill(Message self) except -1:
    """Make sure that the slots are filled and the document is open."""
    if self.epoch != (<Document>self.document).epoch:
        return refresh(self)
    return 0


cdef inline void start_cursor(Cursor* cursor, Message self, const uint8_t* first) noexcept:
    """Stand at the record at `first`, or at the message's start where it is NULL."""
    cdef const Span* part = NULL
    cursor.p = self.start
    cursor.end = self.end
    cursor.last_part = NULL
    if self.parts != NULL:
        part = (<Spans>self.parts).items
        cursor.last_part = part + (<Spans>self.parts).n - 1
        # Bytes that were changed meanwhile may have moved the record out of every part: then there are no records.
        while first != NULL and part != cursor.last_part and not part.p <= first < part.p + part.n:
            part += 1
        cursor.p = part.p
        cursor.end = part.p + part.n
    cursor.part = part
    if first != NULL:
        cursor.p = first if cursor.p <= first < cursor.end else cursor.end


cdef inline uint64_t total_size(Message self) noexcept:
    """Bytes of the message, of all its parts."""
    cdef uint64_t size = <uint64_t>(self.end - self.start)
    cdef Py_ssize_t i
    if self.parts != NULL:
        for i in range(1, (<Spans>self.parts).n):
            size += (<Spans>self.parts).items[i].n
    return size
