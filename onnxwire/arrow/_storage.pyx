# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Read the layout of a TensorProto's payload, and add its storage, location, offset and length to columns."""
from libc.stdint cimport int32_t, int64_t

from onnxwire._varint cimport Record
from onnxwire.arrow._columns cimport add_null, add_number
from onnxwire.arrow._program cimport Fields
from onnxwire.arrow._walk cimport Numbers, has, next_element, start_at, start_numbers
from onnxwire.engine.partial cimport ensure_resident
from onnxwire.engine.table cimport Slot
from onnxwire.engine.view cimport Cursor
from onnxwire.tensor.payload_layout cimport (
    ABSENT, LENGTH, OFFSET, Key, add_dim, add_entry, is_raw, key_of, start_layout,
)

from onnxwire.tensor.dtypes import STRING as _STRING

cdef int32_t STRING = _STRING.number
cdef const char* INLINE = "inline"
cdef const char* EXTERNAL = "external"


cdef int add_location(Walk walk, Column* column, const Message* message, Layout* layout) except -1:
    """Add the storage, location, offset and length of a tensor to four adjacent columns. column: the first of them."""
    walk.add_c_string(&column.rows, EXTERNAL if layout.is_external else INLINE)
    if layout.location != NULL:
        walk.columns.add_text(&(column + 1).rows, layout.location, layout.location_size)
        walk.add_unless_negative(&(column + 2).rows, 0 if layout.offset == ABSENT else layout.offset)
        return walk.add_unless_negative(&(column + 3).rows, layout.length)
    add_null(&(column + 1).rows)
    if not walk.has_file_offsets or not is_raw(layout):
        add_null(&(column + 2).rows)
        return walk.add_unless_negative(&(column + 3).rows, layout.length)
    add_number(&(column + 2).rows, message.slots[walk.fields.raw_data.slot].p - walk.document.start)
    return add_number(&(column + 3).rows, layout.raw_size)


cdef int read_layout(Walk walk, const Message* message, omitted_size, Layout* layout) except -1:
    """Fill in the layout of a tensor.

    omitted_size: the size in bytes of raw_data if `to_arrow` omitted it when it encoded the message, else None.
    """
    cdef Fields* fields = walk.fields
    cdef const Slot* slot = &message.slots[fields.data_location.slot]
    cdef Numbers dims
    cdef int64_t dim
    cdef Message segment
    cdef Cursor cursor
    cdef Record record
    start_layout(layout)
    layout.data_type = <int32_t>message.slots[fields.data_type.slot].n
    start_numbers(&dims, message, fields.dims)
    while walk.next_number(&dims, &dim):
        add_dim(&layout.elements, dim)
    if has(message, fields.segment):
        layout.has_segment = True
        walk.child(message, fields.segment, &segment)
        layout.begin = <int64_t>segment.slots[fields.segment_begin.slot].n
        layout.end = <int64_t>segment.slots[fields.segment_end.slot].n
    if slot.p != NULL and slot.n == 1:  # DataLocation.EXTERNAL
        layout.is_external = True
        return read_entries(walk, message, layout)
    slot = &message.slots[fields.raw_data.slot]
    layout.has_raw = slot.p != NULL or omitted_size is not None
    layout.raw_size = <int64_t>slot.n if omitted_size is None else omitted_size
    if layout.data_type == STRING and layout.raw_size == 0:
        start_at(&cursor, message, fields.string_data)
        while next_element(walk, &cursor, fields.string_data, &record):
            layout.text_size += <int64_t>record.n
    return 0


cdef int read_entries(Walk walk, const Message* message, Layout* layout) except -1:
    """Add the entries of external_data to a layout."""
    cdef Fields* fields = walk.fields
    cdef Cursor cursor
    cdef Message entry
    cdef Slot* value
    cdef Key key
    start_at(&cursor, message, fields.external_data)
    while walk.next_message(&cursor, fields.external_data, &entry):
        value = &entry.slots[fields.entry_value.slot]
        key = key_of(entry.slots[fields.entry_key.slot].p, entry.slots[fields.entry_key.slot].n)
        if key == OFFSET or key == LENGTH:
            ensure_resident(value.p, value.n)
        add_entry(layout, key, value.p, value.n)
    return 0
