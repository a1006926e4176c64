# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The view of a message: a document, a span of it, and one slot per field, filled by one pass over the span's tags."""
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport WIRE_LEN, Record
from onnxwire.engine.document cimport Document, FarReads, Span, Spans
from onnxwire.engine.header_copies cimport HIGHEST, HeaderCopies, copied_bytes
from onnxwire.engine.overlay cimport Overlay
from onnxwire.engine.partial cimport LONG_BYTES, N_PARTIAL, fetched_bytes, fetched_text
from onnxwire.engine.table cimport Field, Slot, Table
from onnxwire.engine.view_registry cimport ViewKey
from onnxwire.engine.texts cimport MAX_CACHED_TEXT_BYTES, MIN_CACHED_TEXT_BYTES, new_text

cdef enum:
    HAS_UNKNOWN = 1      # a record is an unknown field, by its number, wire type or enum value
    HAS_MERGE = 2        # a singular message field occurs more than once
    DROPS_UNKNOWN = 4    # the unknown fields of the bytes were discarded


cdef class View:
    # Created by `make_view`, not by Cython's constructor, as an instance of a class that `make_class` made: such a
    # class has memory for all slots, a free list, no __dict__, and is not tracked by the garbage collector. Therefore
    # the members are C pointers; `document`, `parts` and `overlay` are owned references.
    cdef PyObject* document      # owns the bytes, unless the overlay has a `base`; its epoch is compared in any case
    cdef PyObject* parts         # Spans of a message in several parts, to be merged; else NULL
    cdef PyObject* overlay       # Overlay of a message that was edited or is absent; else NULL
    cdef Table* table
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef uint32_t epoch          # the document's epoch when the slots were filled; 0 before
    cdef uint32_t flags          # HAS_UNKNOWN, HAS_MERGE and DROPS_UNKNOWN; valid if the slots are filled
    cdef Slot* slots             # table.n_fields slots: `own_slots`, or the overlay's
    cdef Slot[1] own_slots       # the first of as many slots as the table has fields


cdef struct Cursor:
    # A position in the records of a message, of one span or of several parts.
    const uint8_t* p
    const uint8_t* end
    # The part that p is in, or NULL if there is one span; owned by the message, which must outlive the cursor.
    const Span* part
    const Span* last_part        # NULL if there is one span
    HeaderCopies* copies         # where records from the address `first_copy` on are read if they were copied
    const uint8_t* first_copy


# Whether reading a message twice returns the same view, as long as it is referenced.
cdef bint KEEPS_IDENTITY

cdef object new_view(Table* table, Document document, const uint8_t* start, const uint8_t* end, Spans parts)
cdef object make_view(Table* table, PyObject* document, const uint8_t* start, const uint8_t* end, PyObject* parts)
cdef object overlay_view(Table* table, Document document, Overlay overlay)
cdef void use_overlay(View self, Overlay overlay) noexcept
cdef void set_document(View self, PyObject* document) noexcept
cdef ViewKey overlay_key(const Table* table, const void* document, Overlay overlay) noexcept
cdef uint64_t state_of(View self, const Field* field) noexcept
cdef void dealloc_view(PyObject* o) noexcept
cdef int refresh(View self) except -1
cdef bint find_overlay(View self) except -1
cdef const uint8_t* scan_slots(
    const Table* table, const uint8_t* p, const uint8_t* end, Slot* slots, uint32_t* flags, uint64_t* records,
    FarReads* far
) noexcept nogil
cdef int next_record(Cursor* cursor, uint32_t number, Record* record) noexcept nogil
cdef bint is_unknown(const Field* field, const Record* record) noexcept nogil
cdef bint is_peer(const Field* field, const Field* other) noexcept nogil
cdef Spans collect_parts(Cursor* cursor, const Table* table, const Field* field)
cdef object field_value(View self, Field* field)
cdef Field* named_field(View self, name) except? NULL
cdef Table* table_of(cls) except NULL


cdef inline Field* same_named_field(View self, name) noexcept:
    """Return the field whose name is the object `name` itself, as for interned literals in code; else NULL."""
    cdef uint32_t i
    for i in range(self.table.n_fields):
        if self.table.field_names[i] == <PyObject*>name:
            return &self.table.fields[i]
    return NULL


cdef inline Document filled_document(View self):
    """Fill the slots and return the document of the message's bytes.

    Filling can change the document of a view, so call this before using the document.
    """
    fill(self)
    return document_of(self)


cdef inline Document document_of(View self):
    """Return the document of the message's bytes at the time of the last `fill`."""
    return <Document>base_of(self)


cdef inline PyObject* base_of(View self) noexcept:
    """Return `document_of` as a borrowed reference."""
    if self.overlay != NULL and (<Overlay>self.overlay).base != NULL:
        return (<Overlay>self.overlay).base
    return self.document


cdef inline PyObject* find_value_owner(View self, const Field* field) noexcept:
    """Return the owner of a field's value in the overlay (see Overlay), borrowed, or NULL."""
    return NULL if self.overlay == NULL else (<Overlay>self.overlay).owners[field.slot]


cdef inline object text_at(View self, const uint8_t* p, uint64_t n, PyObject* owner):
    """Return the value of a string in a message; owner: that of an edited value (see overlay.pxd), or NULL."""
    if owner != NULL and PyUnicode_CheckExact(<object>owner):
        return <object>owner
    if p >= (<Document>self.document).far.first_copy:
        p = copied_bytes((<Document>self.document).far.copies, p, n)
    if MIN_CACHED_TEXT_BYTES <= n <= MAX_CACHED_TEXT_BYTES:
        return (<Document>self.document).short_text(p, n)
    if n >= LONG_BYTES:
        check_source(base_of(self), owner)
        return fetched_text(p, n)
    return new_text(p, n)


cdef inline int check_source(PyObject* document, PyObject* owner) except -1:
    """Raise SourceError if the file of a long value was changed; owner: as for `text_at`."""
    if owner == NULL:
        return (<Document>document).check_unchanged()
    if isinstance(<object>owner, Document):
        return (<Document>owner).check_unchanged()
    return 0


cdef inline object bytes_at(PyObject* document, const uint8_t* p, uint64_t n, PyObject* owner):
    """Return the value of a bytes field; document: that of the message's bytes; owner: as for `text_at`."""
    if owner != NULL and PyBytes_CheckExact(<object>owner):
        return <object>owner
    if n >= LONG_BYTES:
        check_source(document, owner)
        return fetched_bytes(p, n)
    return PyBytes_FromStringAndSize(<const char*>p, <Py_ssize_t>n)


cdef inline bint is_touched(View self, const Field* field) noexcept:
    """Return whether the field, or another member of its oneof, was edited."""
    return self.overlay != NULL and (<Overlay>self.overlay).touched[field.slot]


cdef inline int fill(View self) except -1:
    """Fill the slots if they are outdated; raise ClosedError if the document was closed."""
    if self.epoch != (<Document>self.document).epoch:
        return refresh(self)
    return 0


cdef inline void use_copies(Cursor* cursor, Document document) noexcept:
    """Make a cursor read records in the document's copies of headers. Afterwards no `nogil` block may use it."""
    cursor.copies = document.far.copies
    cursor.first_copy = document.far.first_copy


cdef inline const uint8_t* copied_value(const Cursor* cursor, const Record* record) noexcept:
    """Return the address of a copy of a record's value, or the value's own address if it was not copied."""
    return record.value if record.value < cursor.first_copy else copied_bytes(cursor.copies, record.value, record.n)


cdef inline void start_cursor(Cursor* cursor, View self, const uint8_t* first) noexcept:
    """Set a cursor to the record at `first`, or to the start of the message if that is NULL."""
    start_records(cursor, self.start, self.end, self.parts, first)
    use_copies(cursor, document_of(self))


cdef inline void start_records(
    Cursor* cursor, const uint8_t* start, const uint8_t* end, PyObject* parts, const uint8_t* first
) noexcept:
    """Set a cursor in a message given by its span, and by its Spans or NULL; first: as for `start_cursor`."""
    cdef const Span* part = NULL
    cursor.p = start
    cursor.end = end
    cursor.last_part = NULL
    cursor.copies = NULL
    cursor.first_copy = HIGHEST
    if parts != NULL:
        # If the bytes were changed meanwhile, `first` may be outside of every part: then there are no records.
        part = (<Spans>parts).items
        if first != NULL:
            part += (<Spans>parts).last_up_to(first)
        cursor.last_part = (<Spans>parts).items + (<Spans>parts).n - 1
        cursor.p = part.p
        cursor.end = part.p + part.n
    cursor.part = part
    if first != NULL:
        cursor.p = first if cursor.p <= first < cursor.end else cursor.end


cdef inline int next_usable(Cursor* cursor, const Field* field, Record* record) noexcept nogil:
    """Read the next record with elements of a repeated field, packed runs included; returns as `next_record`."""
    cdef int status
    while True:
        status = next_record(cursor, field.number, record)
        if status <= 0 or record.tag & 7 == field.wire or record.tag & 7 == WIRE_LEN:
            return status


cdef inline bint is_long(View self, uint64_t size) noexcept:
    """Return whether the message has at least `size` bytes in all its parts together."""
    cdef uint64_t n_bytes = <uint64_t>(self.end - self.start)
    cdef Py_ssize_t i = 1
    while n_bytes < size and self.parts != NULL and i < (<Spans>self.parts).n:
        n_bytes += (<Spans>self.parts).items[i].n
        i += 1
    return n_bytes >= size
