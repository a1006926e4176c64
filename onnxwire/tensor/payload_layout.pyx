# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The layout of a tensor's payload: data type, element count, size in bytes, location, offset and length.

The one implementation of these rules. Readers of a TensorProto in any form (a message object, the slots of a walk,
columns of all tensors) fill in a `Layout` or call the functions on columns; nothing of a payload is read.

Source: onnx.proto, TensorProto; onnx/external_data_helper.py; onnxruntime's ExternalDataInfo::Create. Where these leave
a damaged tensor undefined, the rules are:

Elements. The product of dims; 1 without dims, 0 if a dim is 0 or negative. More than 2**63 - 1 elements count as
2**63 - 1 elements and bytes: the one clamp, whatever the order of dims and the size of an element. `NEGATIVE` and
`EXCESSIVE` report dims that no array can have; those who read elements refuse them.

Stored elements. Those of the segment, if there is one with 0 <= begin <= end <= elements; else all elements.

Bytes. Of elements with less than a byte, the last byte is padded. A data type that ONNX does not have counts as one
byte an element, since its size is not known. Strings have the sum of their lengths.

Inline or external. A tensor is external if and only if its data_location is EXTERNAL, as the official runtimes have
it: external_data alone means nothing, and raw_data beside EXTERNAL is ignored.

Size of the payload. Inline: the length of raw_data, unless it is absent, or empty although dims and type call for
bytes, as some writers leave it beside a typed field; then what dims and type call for. External: the length that
external_data states, or, without a valid one, what dims and type call for, since the file is not opened; 0 for strings,
which no file can hold.

external_data. Of a key that is present more than once the last entry counts, as in the official readers, and the
description is ambiguous: reading such a tensor is refused. An offset or length is ASCII decimal digits below 2**63,
leading zeros allowed; a sign, white space, underscores, other digits, an empty text and larger numbers make it UNCLEAR.
Without an entry, the offset is 0 and the length ABSENT: up to the end of the file. An empty location is none.
"""
cimport cython
from libc.stdint cimport int8_t
from libc.string cimport memcmp, strlen

from onnxwire.tensor.dtypes import BY_NUMBER
from onnxwire.tensor.dtypes import EXTERNAL as _EXTERNAL
from onnxwire.tensor.dtypes import STRING as _STRING

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL

cdef enum:
    N_TYPES = 64             # more than there are data types

cdef int32_t[N_TYPES] BITS   # of an element, by data type; 8 for numbers that are none
cdef int32_t STRING = _STRING.number
cdef int64_t EXTERNAL = _EXTERNAL

for _number in range(N_TYPES):
    BITS[_number] = BY_NUMBER[_number].bits if _number in BY_NUMBER else 8
if max(BY_NUMBER) >= N_TYPES:
    raise ImportError("N_TYPES is too small")

cdef const char** WORDS = ["location", "offset", "length", "checksum"]


cdef Key key_of(const uint8_t* key, uint64_t n) noexcept nogil:
    """The key of an entry of external_data."""
    cdef int i
    for i in range(<int>NO_KEY):
        if n == strlen(WORDS[i]) and memcmp(key, WORDS[i], n) == 0:
            return <Key>i
    return NO_KEY


cdef void add_entry(Layout* layout, Key key, const uint8_t* value, uint64_t n) noexcept nogil:
    """Add an entry of external_data, in the order of entries."""
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
    """The number of decimal digits; UNCLEAR for any other text, and 2**63 or more."""
    cdef int64_t number = 0
    cdef uint64_t i
    cdef int digit
    if n == 0:
        return UNCLEAR
    for i in range(n):
        digit = text[i] - 48
        if digit < 0 or digit > 9 or number > (INT64_MAX - digit) // 10:
            return UNCLEAR
        number = number * 10 + digit
    return number


cdef int64_t stored_elements(const Layout* layout) noexcept nogil:
    """The elements that the payload holds."""
    if layout.has_segment and 0 <= layout.begin <= layout.end <= layout.elements.count:
        return layout.end - layout.begin
    return layout.elements.count


cdef inline int32_t bits_of(int32_t data_type) noexcept nogil:
    return BITS[data_type] if 0 <= data_type < N_TYPES else 8


cdef int64_t count_bytes(int64_t elements, int32_t data_type) noexcept nogil:
    """The bytes of elements, INT64_MAX where there are more; elements: 0 or more."""
    cdef int32_t bits = bits_of(data_type)
    cdef int64_t rest = (elements % 8 * bits + 7) // 8
    return INT64_MAX if bits and elements // 8 > (INT64_MAX - rest) // bits else elements // 8 * bits + rest


cdef inline int64_t called_for(const Layout* layout) noexcept nogil:
    """The bytes that dims and type call for, or that strings have."""
    cdef int64_t elements
    if layout.data_type == STRING:
        return 0 if layout.is_external else layout.text_size
    elements = stored_elements(layout)
    if elements == INT64_MAX and layout.elements.flags & EXCESSIVE:
        return INT64_MAX
    return count_bytes(elements, layout.data_type)


cdef bint is_raw(const Layout* layout) noexcept nogil:
    """Whether the payload is raw_data."""
    return layout.has_raw and not layout.is_external and (layout.raw_size > 0 or called_for(layout) == 0)


cdef int64_t payload_size(const Layout* layout) noexcept nogil:
    """The bytes of the payload."""
    if layout.is_external:
        return layout.length if layout.length >= 0 else called_for(layout)
    return layout.raw_size if layout.has_raw and layout.raw_size > 0 else called_for(layout)


# --- of message objects

@cython.final
@cython.freelist(8)
cdef class PayloadLayout:
    """The layout of one TensorProto, without a look at the payload or its file.

    data_type, shape: those of the TensorProto. raw: the raw_data that is the payload, as `Message._payload` has it, or
    None. location: str, None where external_data names no file, and of inline tensors. offset, length: in the file,
    None where they are unclear, or there is no entry of the length.
    """
    cdef Layout layout
    cdef readonly tuple shape
    cdef readonly object raw
    cdef readonly object location

    def __cinit__(self):
        start_layout(&self.layout)

    @property
    def nbytes(self):
        """The bytes of the payload."""
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
        """Whether a key of external_data is present more than once."""
        return self.layout.is_ambiguous

    @property
    def offset(self):
        """The offset of the payload in its file."""
        cdef int64_t offset = self.layout.offset
        return 0 if offset == ABSENT else None if offset < 0 else offset

    @property
    def length(self):
        """The bytes of the payload, as external_data states them."""
        return None if self.layout.length < 0 else self.layout.length


cpdef PayloadLayout layout_of(tensor):
    """The layout of the payload of a TensorProto."""
    cdef PayloadLayout found = PayloadLayout.__new__(PayloadLayout)
    cdef Layout* layout = &found.layout
    cdef int64_t data_location = tensor.data_location
    dims = tensor.dims
    found.shape = tuple(dims) if len(dims) else ()
    layout.data_type = tensor.data_type
    for dim in found.shape:
        add_dim(&layout.elements, dim)
    if tensor.HasField("segment"):
        segment = tensor.segment
        layout.has_segment = True
        layout.begin = segment.begin
        layout.end = segment.end
    if data_location == EXTERNAL:
        layout.is_external = True
        found.location = read_entries(tensor, layout) or None
        return found
    raw = tensor._payload("raw_data")
    if raw is not None:
        layout.has_raw = True
        layout.raw_size = len(raw)
    if layout.data_type == STRING and layout.raw_size == 0:
        for text in tensor.string_data:
            layout.text_size += len(text)
    if raw is not None and is_raw(layout):
        found.raw = raw
    return found


cdef read_entries(tensor, Layout* layout):
    """Add the entries of external_data; returns the location, a str, or None."""
    cdef Py_ssize_t n = 0
    cdef const uint8_t* text
    cdef Key key
    location = None
    for entry in tensor.external_data:
        name, value = entry.key, entry.value
        # What is not ASCII is neither a key nor a number, and may not even be UTF-8.
        if not (<str>name).isascii():
            continue
        text = <const uint8_t*>PyUnicode_AsUTF8AndSize(name, &n)
        key = key_of(text, n)
        if key == LOCATION:
            location = value
            n = 0
        elif (<str>value).isascii():
            text = <const uint8_t*>PyUnicode_AsUTF8AndSize(value, &n)
        else:
            n = 0
        add_entry(layout, key, text, n)
    return location


def count_elements(dims):
    """The elements that dims call for: (count, is_negative, is_excessive); see the head of this module."""
    cdef Elements elements
    elements.count = 1
    elements.flags = 0
    for dim in dims:
        add_dim(&elements, dim)
    return elements.count, elements.flags & NEGATIVE != 0, elements.flags & EXCESSIVE != 0


def plain_number(str text):
    """The number that an offset or length states; None where it is not a plain decimal number below 2**63."""
    cdef Py_ssize_t n = 0
    cdef const char* p
    cdef int64_t number
    if not text.isascii():
        return None
    p = PyUnicode_AsUTF8AndSize(text, &n)
    number = parse_number(<const uint8_t*>p, n)
    return None if number < 0 else number


# --- of columns

def element_column(const int32_t[:] counts, const int32_t[:] first, const int64_t[::1] sizes):
    """The element counts of many shapes: a buffer of int64, -1 where dims are negative or call for too many elements.

    counts, first: of each shape, how many of `sizes` are its dims, and the index of the first.
    """
    cdef Py_ssize_t n = counts.shape[0]
    cdef bytearray column = bytearray(n * 8)
    cdef int64_t* results = <int64_t*><char*>column
    cdef Elements elements
    cdef Py_ssize_t row, k
    if first.shape[0] < n:
        raise IndexError("a row is missing")
    for row in range(n):
        elements.count = 1
        elements.flags = 0
        if counts[row] > 0:
            if first[row] < 0 or counts[row] > sizes.shape[0] - first[row]:
                raise IndexError("the sizes of a row are missing")
            for k in range(first[row], first[row] + counts[row]):
                add_dim(&elements, sizes[k])
        results[row] = elements.count if elements.flags == 0 else -1
    return column


def byte_column(const int64_t[::1] elements, const int8_t[:] data_types):
    """The bytes of many payloads: a buffer of int64, -1 where the elements are -1 or their bytes 2**63 or more."""
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
            # Only more than a byte an element can be too much.
            results[row] = -1 if size == INT64_MAX and bits_of(data_types[row]) > 8 else size
    return column
