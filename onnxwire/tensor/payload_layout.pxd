# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The layout of a tensor's payload: data type, element count, size in bytes, location, offset and length."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire.engine.table cimport Table
from onnxwire.engine.view cimport View

cdef enum:
    NEGATIVE = 1             # a dim is negative
    EXCESSIVE = 2            # the dims describe more than INT64_MAX elements

    ABSENT = -1              # external_data has no entry for the offset or length
    UNCLEAR = -2             # the entry is not a plain decimal number below 2**63

cdef enum Key:
    LOCATION
    OFFSET
    LENGTH
    CHECKSUM
    NO_KEY                   # any other key; ignored

cdef struct Elements:
    int64_t count            # INT64_MAX if EXCESSIVE, 0 if NEGATIVE
    int flags                # NEGATIVE, EXCESSIVE, or 0

cdef struct Layout:
    # Filled in by readers of a TensorProto, and evaluated by the functions below.
    int32_t data_type
    bint is_external         # data_location is EXTERNAL
    bint has_raw             # raw_data is present, possibly empty
    int64_t raw_size         # the length of raw_data in bytes
    int64_t text_size        # the total length of string_data; only used for STRING
    Elements elements
    bint has_segment
    int64_t begin, end       # the segment: index of the first element, and of the element after the last
    int keys                 # bit set of the keys found in external_data, by `Key`
    bint is_ambiguous        # a key in `keys` is present more than once
    const uint8_t* location  # UTF-8; NULL if absent
    uint64_t location_size
    int64_t offset, length   # the range in the file; negative if ABSENT or UNCLEAR


cdef inline void start_layout(Layout* layout) noexcept nogil:
    """Initialize a layout for a tensor without fields."""
    layout.data_type = 0
    layout.is_external = layout.has_raw = layout.has_segment = layout.is_ambiguous = False
    layout.raw_size = layout.text_size = layout.begin = layout.end = 0
    layout.elements.count = 1
    layout.elements.flags = layout.keys = 0
    layout.location = NULL
    layout.location_size = 0
    layout.offset = layout.length = ABSENT


cdef inline void add_dim(Elements* elements, int64_t dim) noexcept nogil:
    """Multiply an element count by a dim."""
    if dim <= 0:
        elements.count = 0
        elements.flags = (elements.flags | (NEGATIVE if dim < 0 else 0)) & ~EXCESSIVE
    elif elements.count > INT64_MAX // dim:
        elements.count = INT64_MAX
        elements.flags |= EXCESSIVE
    else:
        elements.count *= dim


cdef Key key_of(const uint8_t* key, uint64_t n) noexcept nogil
cdef void add_entry(Layout* layout, Key key, const uint8_t* value, uint64_t n) noexcept nogil
cdef int64_t stored_elements(const Layout* layout) noexcept nogil
cdef int64_t count_bytes(int64_t elements, int32_t data_type) noexcept nogil
cdef int64_t payload_size(const Layout* layout) noexcept nogil
cdef bint is_raw(const Layout* layout) noexcept nogil


cdef struct TensorSlots:
    # The slots of a table with the fields of TensorProto.
    const Table* table
    uint32_t dims, data_type, segment, string_data, name, raw_data, external_data, data_location


cdef bint find_slots(TensorSlots* slots, const Table* table) noexcept
cdef bint read_row(View view, const TensorSlots* slots, Layout* layout, list names, list shapes) except -1
