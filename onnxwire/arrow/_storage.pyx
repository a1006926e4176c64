# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The payloads of tensors: fills in a `Layout` from the slots of a TensorProto, and adds it to columns."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport WIRE_LEN, Record, read_varint
from onnxwire.arrow._columns cimport add_null, add_number
from onnxwire.arrow._program cimport WIDEST
from onnxwire.arrow._walk cimport next_element, start_at
from onnxwire.engine.damage cimport decode_error, packed_error
from onnxwire.engine.partial cimport need
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor, next_usable
from onnxwire.tensor.payload_layout cimport (
    ABSENT, LENGTH, OFFSET, Key, Layout, add_dim, add_entry, is_raw, key_of, payload_size, start_layout,
    stored_elements,
)

from onnxwire.tensor.dtypes import STRING as _STRING

cdef int32_t STRING = _STRING.number
cdef const char* INLINE = "inline"
cdef const char* EXTERNAL = "external"


cdef int add_size(
    Walk walk, Values* values, const Message* message, const Slot* slots, uint32_t flags, known
) except -1:
    """Add the size of a tensor's payload alone."""
    cdef Layout layout
    read_layout(walk, message, slots, flags, known, &layout)
    return add_number(values, payload_size(&layout))


cdef int add_elements(Walk walk, Values* values, const Message* message, const Slot* slots, uint32_t flags) except -1:
    """Add the element count of a tensor alone."""
    cdef Layout layout
    read_layout(walk, message, slots, flags, None, &layout)
    return add_number(values, stored_elements(&layout))


cdef int add_storage(
    Walk walk, Column* column, const Message* message, const Slot* slots, uint32_t flags, known
) except -1:
    """Add the size of a tensor's payload, and where it is.

    known: the size of a raw_data that was left out of the document, or None.
    """
    cdef Layout layout
    read_layout(walk, message, slots, flags, known, &layout)
    add_number(&column.rows, payload_size(&layout))
    walk.add_word(&(column + 1).rows, EXTERNAL if layout.is_external else INLINE)
    if layout.location != NULL:
        walk.columns.add_text(&(column + 2).rows, layout.location, layout.location_size)
        if layout.offset == ABSENT:
            layout.offset = 0
        walk.add_unless_negative(&(column + 3).rows, layout.offset)
        return walk.add_unless_negative(&(column + 4).rows, layout.length)
    add_null(&(column + 2).rows)
    if not walk.is_placed or not is_raw(&layout):
        add_null(&(column + 3).rows)
        return walk.add_unless_negative(&(column + 4).rows, layout.length)
    add_number(&(column + 3).rows, slots[walk.known.raw_data.slot].p - walk.document.start)
    return add_number(&(column + 4).rows, layout.raw_size)


cdef int read_layout(
    Walk walk, const Message* message, const Slot* slots, uint32_t flags, known, Layout* layout
) except -1:
    """Fill in the layout of a tensor; known: as of `add_storage`."""
    cdef Slot slot = slots[walk.known.data_location.slot]
    cdef Slot[WIDEST] inner
    cdef Message segment
    start_layout(layout)
    layout.data_type = <int32_t>slots[walk.known.data_type.slot].n
    read_dims(walk, message, &slots[walk.known.dims.slot], layout)
    if slots[walk.known.segment.slot].p != NULL:
        layout.has_segment = True
        walk.child(walk.wanted, message, slots, flags, walk.known.segment, &segment)
        walk.scan(walk.known.segment.sub, &segment, inner, &flags)
        layout.begin = <int64_t>inner[walk.known.begin.slot].n
        layout.end = <int64_t>inner[walk.known.end.slot].n
    if slot.p != NULL and slot.n == 1:
        layout.is_external = True
        return read_entries(walk, message, &slots[walk.known.external_data.slot], layout)
    slot = slots[walk.known.raw_data.slot]
    layout.has_raw = slot.p != NULL or known is not None
    layout.raw_size = <int64_t>slot.n if known is None else known
    if layout.data_type == STRING and layout.raw_size == 0:
        read_strings(walk, message, &slots[walk.known.string_data.slot], layout)
    return 0


cdef int read_entries(Walk walk, const Message* message, const Slot* slot, Layout* layout) except -1:
    """Add the entries of external_data."""
    cdef Slot[WIDEST] inner
    cdef Cursor cursor
    cdef Message entry
    cdef Slot* key
    cdef Slot* value
    cdef Key which
    if slot.p == NULL:
        return 0
    start_at(&cursor, message, slot)
    while walk.next_message(&cursor, walk.known.external_data, &entry, inner):
        key = &inner[walk.known.key.slot]
        value = &inner[walk.known.value.slot]
        which = key_of(key.p, key.n)
        if which == OFFSET or which == LENGTH:
            need(value.p, value.n)
        add_entry(layout, which, value.p, value.n)
    return 0


cdef int read_strings(Walk walk, const Message* message, const Slot* slot, Layout* layout) except -1:
    """Add up the lengths of string_data."""
    cdef Cursor cursor
    cdef Record record
    if slot.p == NULL:
        return 0
    start_at(&cursor, message, slot)
    while next_element(walk, &cursor, walk.known.string_data, &record):
        layout.text_size += <int64_t>record.n
    return 0


cdef int read_dims(Walk walk, const Message* message, const Slot* slot, Layout* layout) except -1:
    """Count the elements that the dims call for."""
    cdef Field* field = walk.known.dims
    cdef Cursor cursor
    cdef Record record
    cdef const uint8_t* p
    cdef uint64_t number = 0
    cdef int found
    if slot.p == NULL:
        return 0
    start_at(&cursor, message, slot)
    while True:
        found = next_usable(&cursor, field, &record)
        if found < 0:
            raise decode_error(walk.document, cursor.p, cursor.end)
        if found == 0:
            return 0
        if record.tag & 7 != WIRE_LEN:
            add_dim(&layout.elements, <int64_t>record.n)
            continue
        p = record.value
        need(p, record.n)
        while p < record.value + record.n:
            p = read_varint(p, record.value + record.n, &number)
            if p == NULL:
                raise packed_error(walk.document, record.value, record.value + record.n, 0)
            add_dim(&layout.elements, <int64_t>number)
