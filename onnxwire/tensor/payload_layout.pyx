# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Determine the layout of a tensor's payload: data type, element count, size in bytes, location, offset and length.

This is the only implementation of these rules besides that in `onnxwire.h`. Readers of a TensorProto in any form (a
message object, the slots that `arrow/_storage` reads, columns of all tensors) fill in a `Layout` or call the
functions on columns. Of payloads, only the lengths of strings are read.

Source: onnx.proto, TensorProto; onnx/external_data_helper.py; onnxruntime's ExternalDataInfo::Create. The rules,
including those for damaged tensors, which the sources do not define:

Elements. The product of dims; 1 without dims, 0 if a dim is 0 or negative, in any order of dims. If there are more than
2**63 - 1 elements, both the count and the size in bytes are 2**63 - 1, even if an element has few bits. `NEGATIVE` and
`EXCESSIVE` report dims that no array can have; readers of elements reject them.

Stored elements. The elements of the segment, if the segment is valid: 0 <= begin <= end <= elements; else all elements.

Bytes. The last byte of sub-byte elements is padded. An unknown data type counts as one byte per element. For strings,
the sum of their lengths.

Inline or external. A tensor is external if and only if its data_location is EXTERNAL, as in the official
runtimes: external_data of an inline tensor is ignored, and so is raw_data of an external tensor.

Size of the payload. Inline: the length of raw_data; if raw_data is absent, or empty although dims and type require
bytes (some writers add an empty raw_data to a typed field), the size that dims and type require. External: the length
in external_data; without a valid length, the size that dims and type require, since the file is not opened, or 0 for
strings, which can't be external.

external_data. The last entry of a repeated key counts, as in the official readers; but reading the elements of such an
ambiguous tensor raises an error. An offset or length is a number below 2**63 in ASCII decimal digits, leading zeros
allowed. It is UNCLEAR if the text is empty, contains any other character, or is a larger number. Without an entry it is
ABSENT: readers then begin at offset 0, or read to the end of the file. An empty location counts as absent.
"""
cimport cython
from libc.stdint cimport int8_t
from libc.string cimport memcmp, strlen

from onnxwire._varint cimport MAX_DEPTH, WIRE_LEN, Record, read_record, read_varint
from onnxwire.engine.partial cimport LONG_BYTES, N_PARTIAL
from onnxwire.engine.table cimport BYTES, ENUM, INT32, INT64, MESSAGE, Field, Slot, Table, find_field
from onnxwire.engine.table cimport STRING as STRING_FIELD
from onnxwire.engine.view cimport Cursor, copied_value, fill, next_record, next_usable, start_cursor, text_at

from onnxwire.tensor.dtypes import BY_NUMBER
from onnxwire.tensor.dtypes import EXTERNAL as _EXTERNAL
from onnxwire.tensor.dtypes import STRING as _STRING

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL

cdef enum:
    N_TYPES = 64             # number of elements of BITS; above the largest number of a data type

cdef enum:                   # field numbers of TensorProto
    DIMS = 1
    DATA_TYPE = 2
    SEGMENT = 3
    STRING_DATA = 6
    NAME = 8
    RAW_DATA = 9
    EXTERNAL_DATA = 13
    DATA_LOCATION = 14

cdef enum:                   # field numbers of StringStringEntryProto
    ENTRY_KEY = 1
    ENTRY_VALUE = 2

cdef int32_t[N_TYPES] BITS   # size of an element in bits, by data type; 8 for unknown types, 0 for STRING
cdef int32_t STRING = _STRING.number
cdef int64_t EXTERNAL = _EXTERNAL

for _number in range(N_TYPES):
    BITS[_number] = BY_NUMBER[_number].bits if _number in BY_NUMBER else 8
if max(BY_NUMBER) >= N_TYPES:
    raise ImportError("N_TYPES is too small")

cdef const char** KEY_NAMES = ["location", "offset", "length", "checksum"]  # by `Key`


cdef Key key_of(const uint8_t* key, uint64_t n) noexcept nogil:
    """Return the `Key` of an entry of external_data. key: the n bytes of the text of its key."""
    cdef int i
    for i in range(<int>NO_KEY):
        if n == strlen(KEY_NAMES[i]) and memcmp(key, KEY_NAMES[i], n) == 0:
            return <Key>i
    return NO_KEY


cdef void add_entry(Layout* layout, Key key, const uint8_t* value, uint64_t n) noexcept nogil:
    """Add an entry of external_data, whose value is n bytes of text. Entries must be added in order."""
    if key == NO_KEY:
        return
    if layout.keys >> <int>key & 1:
        layout.is_ambiguous = True
    layout.keys |= 1 << <int>key
    if key == LOCATION:
        layout.location = value if n else NULL
        layout.location_size = n
    elif key == OFFSET:
        layout.offset = parse_number(value, n)
    elif key == LENGTH:
        layout.length = parse_number(value, n)


cdef int64_t parse_number(const uint8_t* text, uint64_t n) noexcept nogil:
    """Parse decimal digits. Return UNCLEAR for any other text, and for numbers of 2**63 or more."""
    cdef int64_t number = 0
    cdef uint64_t i
    cdef int digit
    if n == 0:
        return UNCLEAR
    for i in range(n):
        digit = text[i] - c"0"
        if digit < 0 or digit > 9 or number > (INT64_MAX - digit) // 10:
            return UNCLEAR
        number = number * 10 + digit
    return number


cdef int64_t stored_elements(const Layout* layout) noexcept nogil:
    """Return the number of elements in the payload: those of the segment, if it is valid."""
    if layout.has_segment and 0 <= layout.begin <= layout.end <= layout.elements.count:
        return layout.end - layout.begin
    return layout.elements.count


cdef inline int32_t bits_of(int32_t data_type) noexcept nogil:
    """Return the size of an element in bits."""
    return BITS[data_type] if 0 <= data_type < N_TYPES else 8


cdef int64_t count_bytes(int64_t elements, int32_t data_type) noexcept nogil:
    """Return the size of elements in bytes, at most INT64_MAX. elements: 0 or more."""
    cdef int32_t bits = bits_of(data_type)
    cdef int64_t tail_bytes = (elements % 8 * bits + 7) // 8
    return INT64_MAX if bits and elements // 8 > (INT64_MAX - tail_bytes) // bits else elements // 8 * bits + tail_bytes


cdef inline int64_t required_bytes(const Layout* layout) noexcept nogil:
    """Return the size that dims and type require, or the total length of strings; 0 for strings in external data."""
    cdef int64_t elements
    if layout.data_type == STRING:
        return 0 if layout.is_external else layout.text_size
    elements = stored_elements(layout)
    if elements == INT64_MAX and layout.elements.flags & EXCESSIVE:
        return INT64_MAX
    return count_bytes(elements, layout.data_type)


cdef bint is_raw(const Layout* layout) noexcept nogil:
    """Return whether the payload is raw_data."""
    return layout.has_raw and not layout.is_external and (layout.raw_size > 0 or required_bytes(layout) == 0)


cdef int64_t payload_size(const Layout* layout) noexcept nogil:
    """Return the size of the payload in bytes."""
    if layout.is_external:
        return layout.length if layout.length >= 0 else required_bytes(layout)
    return layout.raw_size if layout.has_raw and layout.raw_size > 0 else required_bytes(layout)


# --- Message objects.

@cython.final
@cython.freelist(8)
cdef class PayloadLayout:
    """The layout of one TensorProto, determined without reading the payload or opening its file.

    data_type, shape: those of the TensorProto. raw: the `Message._payload` of raw_data if that is the payload, else
    None. location: str; None for inline tensors, and if external_data names no file. offset, length: the range in the
    file; None if invalid; a length of None also means that there is no entry.
    """
    cdef Layout layout
    cdef readonly tuple shape
    cdef readonly object raw
    cdef readonly object location

    def __cinit__(self):
        start_layout(&self.layout)

    @property
    def nbytes(self):
        """The size of the payload in bytes."""
        return payload_size(&self.layout)

    @property
    def data_type(self):
        """The number of the data type."""
        return self.layout.data_type

    @property
    def is_external(self):
        """Whether the payload is in another file."""
        return self.layout.is_external

    @property
    def is_ambiguous(self):
        """Whether location, offset, length or checksum is present more than once in external_data."""
        return self.layout.is_ambiguous

    @property
    def offset(self):
        """The offset of the payload in its file."""
        cdef int64_t offset = self.layout.offset
        return 0 if offset == ABSENT else None if offset < 0 else offset

    @property
    def length(self):
        """The length in external_data."""
        return None if self.layout.length < 0 else self.layout.length


cpdef PayloadLayout layout_of(tensor):
    """Return the layout of the payload of a TensorProto."""
    cdef PayloadLayout result = PayloadLayout.__new__(PayloadLayout)
    cdef Layout* layout = &result.layout
    cdef int64_t data_location = tensor.data_location
    dims = tensor.dims
    result.shape = tuple(dims) if len(dims) else ()
    layout.data_type = tensor.data_type
    for dim in result.shape:
        add_dim(&layout.elements, dim)
    if tensor.HasField("segment"):
        segment = tensor.segment
        layout.has_segment = True
        layout.begin = segment.begin
        layout.end = segment.end
    if data_location == EXTERNAL:
        layout.is_external = True
        result.location = read_entries(tensor, layout) or None
        return result
    raw = tensor._payload("raw_data")
    if raw is not None:
        layout.has_raw = True
        layout.raw_size = len(raw)
    if layout.data_type == STRING and layout.raw_size == 0:
        for text in tensor.string_data:
            layout.text_size += len(text)
    if raw is not None and is_raw(layout):
        result.raw = raw
    return result


# --- Many message objects.

cdef bint find_slots(TensorSlots* slots, const Table* table) noexcept:
    """Set `slots` to the slots of a table. Return False if a field is absent or has another type."""
    slots.table = table
    return (
        find_slot(&slots.dims, table, DIMS, INT64, True)
        and find_slot(&slots.data_type, table, DATA_TYPE, INT32, False)
        and find_slot(&slots.segment, table, SEGMENT, MESSAGE, False)
        and find_slot(&slots.string_data, table, STRING_DATA, BYTES, True)
        and find_slot(&slots.name, table, NAME, STRING_FIELD, False)
        and find_slot(&slots.raw_data, table, RAW_DATA, BYTES, False)
        and find_slot(&slots.external_data, table, EXTERNAL_DATA, MESSAGE, True)
        and find_slot(&slots.data_location, table, DATA_LOCATION, ENUM, False)
    )


cdef inline bint find_slot(uint32_t* slot, const Table* table, int number, int type, bint repeated) noexcept:
    cdef const Field* field = find_field(table, number)
    if field == NULL or field.type != type or field.repeated != repeated:
        return False
    slot[0] = field.slot
    return True


cdef bint read_row(View view, const TensorSlots* slots, Layout* layout, list names, list shapes) except -1:
    """Read the layout of an unedited TensorProto that is one span, and append its name and shape to the lists.

    Returns False, and appends nothing, if the tensor must be read by `layout_of`. The location in the layout is valid
    until other Python code runs, which may edit or close the document.
    """
    cdef const Slot* name
    cdef const Slot* raw
    cdef const Slot* location_slot
    start_layout(layout)
    fill(view)
    # With a file on a server, reading a value may fetch bytes, and so run other code.
    if N_PARTIAL or view.overlay != NULL or view.parts != NULL:
        return False
    shape = shape_of(view)
    fill(view)
    name = &view.slots[slots.name]
    if view.overlay != NULL or name.n >= LONG_BYTES:
        return False
    text = "" if name.p == NULL else text_at(view, name.p, name.n, NULL)
    # Creating the shape and the name may run other code, such as finalizers, so the slots are read again. No other
    # code runs from here on.
    fill(view)
    raw = &view.slots[slots.raw_data]
    location_slot = &view.slots[slots.data_location]
    if (
        view.overlay != NULL or view.parts != NULL or view.slots[slots.segment].p != NULL
        or view.slots[slots.string_data].p != NULL or raw.p != NULL and raw.n == 0
    ):
        return False
    for dim in <tuple>shape:
        add_dim(&layout.elements, dim)
    if view.slots[slots.data_type].p != NULL:
        layout.data_type = <int32_t>view.slots[slots.data_type].n
    if location_slot.p != NULL and <int64_t>location_slot.n == EXTERNAL:
        layout.is_external = True
        if not scan_entries(view, &view.slots[slots.external_data], layout):
            return False
    elif raw.p != NULL:
        layout.has_raw = True
        layout.raw_size = <int64_t>raw.n
    names.append(text)
    shapes.append(shape)
    return True


cdef bint scan_entries(View view, const Slot* entries, Layout* layout) noexcept:
    """Add the entries of external_data from the bytes of a tensor; return False if an entry is long or damaged."""
    cdef Cursor cursor
    cdef Record record
    cdef Record member
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef uint64_t _i
    cdef Record key
    cdef Record value
    if entries.p == NULL:
        return True
    start_cursor(&cursor, view, entries.p)
    for _i in range(entries.n):
        if next_record(&cursor, EXTERNAL_DATA, &record) <= 0 or record.tag & 7 != WIRE_LEN or record.n >= LONG_BYTES:
            return False
        key.value = value.value = NULL
        key.n = value.n = 0
        p = record.value
        end = p + record.n
        while p < end:
            p = read_record(p, end, MAX_DEPTH, &member)
            if p == NULL:
                return False
            if member.tag == (ENTRY_KEY << 3 | WIRE_LEN):
                key = member
            elif member.tag == (ENTRY_VALUE << 3 | WIRE_LEN):
                value = member
        add_entry(layout, key_of(key.value, key.n), value.value, value.n)
    return True


cdef tuple shape_of(View view):
    """Return the dims of a TensorProto as a tuple."""
    cdef const Field* field = find_field(view.table, DIMS)
    cdef const Slot* slot
    cdef Cursor cursor
    cdef Record record
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef uint64_t number, _i
    cdef list dims = []  # created first: the garbage collector may run other code
    fill(view)
    slot = &view.slots[field.slot]
    if slot.p == NULL:
        return ()
    if view.overlay != NULL:
        return tuple((<object>view).dims)
    start_cursor(&cursor, view, slot.p)
    for _i in range(slot.n):
        if next_usable(&cursor, field, &record) <= 0:
            return tuple((<object>view).dims)  # raises the error
        if record.tag & 7 != WIRE_LEN:
            dims.append(<int64_t>record.n)
            continue
        p = copied_value(&cursor, &record)  # the value in the document, or a copy of it
        end = p + record.n
        while p < end:
            p = read_varint(p, end, &number)
            if p == NULL:
                return tuple((<object>view).dims)
            dims.append(<int64_t>number)
    return tuple(dims)


cdef read_entries(tensor, Layout* layout):
    """Add the entries of external_data. Return the location as str, or None."""
    cdef Py_ssize_t n = 0
    cdef const uint8_t* text
    cdef Key key
    location = None
    for entry in tensor.external_data:
        name, value = entry.key, entry.value
        # Text that is not ASCII is neither a known key nor a number, and may contain lone surrogates.
        if not (<str>name).isascii():
            continue
        text = <const uint8_t*>PyUnicode_AsUTF8AndSize(name, &n)
        key = key_of(text, n)
        if key == LOCATION:
            location = value  # returned; the layout does not refer to it
            n = 0
        elif (<str>value).isascii():
            text = <const uint8_t*>PyUnicode_AsUTF8AndSize(value, &n)
        else:
            n = 0
        add_entry(layout, key, text, n)
    return location


def count_elements(dims):
    """Return (count, is_negative, is_excessive) for dims; see the module's docstring."""
    cdef Elements elements
    elements.count = 1
    elements.flags = 0
    for dim in dims:
        add_dim(&elements, dim)
    return elements.count, elements.flags & NEGATIVE != 0, elements.flags & EXCESSIVE != 0


def plain_number(str text):
    """Parse an offset or length. Return None if it is not a plain decimal number below 2**63."""
    cdef Py_ssize_t n = 0
    cdef const char* p
    cdef int64_t number
    if not text.isascii():
        return None
    p = PyUnicode_AsUTF8AndSize(text, &n)
    number = parse_number(<const uint8_t*>p, n)
    return None if number < 0 else number


# --- Columns of many tensors.

def element_column(const int32_t[:] counts, const int32_t[:] starts, const int64_t[::1] sizes):
    """Return the element counts of many shapes: a buffer of int64, -1 for negative or excessive dims.

    counts: the number of dims of each shape. starts: the index in `sizes` of the first dim of each shape. sizes: the
    dims of all shapes.
    """
    cdef Py_ssize_t n = counts.shape[0]
    cdef bytearray column = bytearray(n * 8)
    cdef int64_t* results = <int64_t*><char*>column
    cdef Elements elements
    cdef Py_ssize_t row, k
    if starts.shape[0] < n:
        raise IndexError("a row is missing")
    for row in range(n):
        elements.count = 1
        elements.flags = 0
        if counts[row] > 0:
            if starts[row] < 0 or counts[row] > sizes.shape[0] - starts[row]:
                raise IndexError("the sizes of a row are missing")
            for k in range(starts[row], starts[row] + counts[row]):
                add_dim(&elements, sizes[k])
        results[row] = elements.count if elements.flags == 0 else -1
    return column


def byte_column(const int64_t[::1] elements, const int8_t[:] data_types):
    """Return the sizes of many payloads in bytes: a buffer of int64, -1 for unknown or excessive sizes.

    elements: the element count of each payload, -1 if unknown. data_types: the data type of each payload. Sizes of
    2**63 bytes and more are excessive.
    """
    cdef Py_ssize_t n = elements.shape[0]
    cdef bytearray column = bytearray(n * 8)
    cdef int64_t* results = <int64_t*><char*>column
    cdef int64_t size
    cdef Py_ssize_t row
    if data_types.shape[0] < n:
        raise IndexError("a row is missing")
    for row in range(n):
        results[row] = -1
        if elements[row] >= 0:
            size = count_bytes(elements[row], data_types[row])
            # Only elements of more than one byte can overflow.
            results[row] = -1 if size == INT64_MAX and bits_of(data_types[row]) > 8 else size
    return column
