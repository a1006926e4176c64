# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The wire scanner: varints, tags, lengths, fixed numbers, groups and packed runs of the protobuf encoding.

Public: other Cython projects may `cimport onnxwire._varint`. Everything here is C, needs no GIL and no Python object.

Guarantee of every reader: it reads no byte at or after `end`. It returns the pointer after the bytes that it read, or
NULL if they are damaged; output arguments are then undefined, and `explain` returns the kind of damage.
Source: protobuf.dev, "Encoding".
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire._nesting_limits cimport MAX_DEPTH

cdef enum Wire:
    WIRE_VARINT = 0
    WIRE_FIXED64 = 1
    WIRE_LEN = 2
    WIRE_START_GROUP = 3
    WIRE_END_GROUP = 4
    WIRE_FIXED32 = 5


cdef enum Fault:
    FAULT_NONE = 0
    FAULT_TAG_CUT            # the bytes end inside a tag
    FAULT_TAG_LONG           # a tag of more than 5 bytes or 32 bits
    FAULT_NUMBER_ZERO        # field number 0
    FAULT_WIRE_TYPE          # wire type 6 or 7; detail = the wire type
    FAULT_VARINT_CUT         # the bytes end inside a varint
    FAULT_VARINT_LONG        # a varint of more than 10 bytes
    FAULT_LENGTH_CUT         # the bytes end inside a length
    FAULT_LENGTH_LONG        # a length of more than 10 bytes, or of more than 5 whose value fits in 5
    FAULT_LENGTH_PAST_END    # detail = the number of missing bytes, length = the value of the length
    FAULT_FIXED_CUT          # the bytes end inside a fixed number; length = its size, detail = number of missing bytes
    FAULT_GROUP_OPEN         # a group that is not closed before the end; number = that of the innermost open group
    FAULT_GROUP_STRAY        # an end-group tag where no group is open; detail = its field number
    FAULT_GROUP_OTHER        # an end-group tag of a field, `detail`, that is not the field of the open group, `number`
    FAULT_DEPTH              # messages and groups nested more than MAX_DEPTH levels deep
    FAULT_PACKED_SIZE        # a packed run of `length` bytes, not a multiple of the `detail` bytes of a number
    FAULT_PACKED_CUT         # a packed run of varints that ends inside one
    FAULT_PACKED_LONG        # a packed run with a varint of more than 10 bytes

cdef struct Damage:
    Fault fault
    const uint8_t* at        # the first byte of the faulty record; in a packed run, of the faulty varint or of the run
    uint64_t detail          # see Fault
    uint64_t length          # see Fault
    uint32_t number          # field number of the faulty record; 0 if the tag is unreadable, and for packed runs

cdef struct Record:          # the result of `read_record`
    const uint8_t* start     # first byte of the tag
    const uint8_t* value     # first byte of the value; for a WIRE_LEN, the byte after the length
    uint64_t n               # length of a WIRE_LEN, raw bits of a number, 0 for a group
    uint32_t tag

cdef enum Packed:            # how the varints of a packed run become numbers
    PACKED_64 = 0            # int64, uint64
    PACKED_32 = 1            # int32, uint32, enum: the low 32 bits
    PACKED_BOOL = 2          # one byte, 0 or 1
    PACKED_ZIGZAG64 = 3      # sint64
    PACKED_ZIGZAG32 = 4      # sint32


cdef enum:
    MAX_RUN_PARTS = 4        # maximum number of parts of a packed run that threads decode at the same time

cdef struct PartCounts:      # the number of values in each part of a packed run
    int n                    # number of parts; 0 if the run is not divided
    uint64_t[MAX_RUN_PARTS] counts


cdef inline const uint8_t* read_long_varint(const uint8_t* p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Read a varint of up to 10 bytes; bits above 64 are dropped."""
    cdef uint64_t result = 0
    cdef int shift = 0
    while p < end and shift < 70:
        result |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            value[0] = result
            return p + 1
        p += 1
        shift += 7
    return NULL


cdef inline const uint8_t* read_varint(const uint8_t* p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """Read a varint."""
    if p < end and p[0] < 0x80:
        value[0] = p[0]
        return p + 1
    return read_long_varint(p, end, value)


cdef inline const uint8_t* read_long_tag(const uint8_t* p, const uint8_t* end, uint32_t* tag) noexcept nogil:
    """Read a tag of up to 5 bytes and 32 bits; the caller checks for number 0."""
    cdef uint64_t result = 0
    cdef int shift = 0
    while p < end and shift < 35:
        result |= <uint64_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            if result >> 32:
                return NULL
            tag[0] = <uint32_t>result
            return p + 1
        p += 1
        shift += 7
    return NULL


cdef inline const uint8_t* read_any_tag(const uint8_t* p, const uint8_t* end, uint32_t* tag) noexcept nogil:
    """Read a tag: number = tag >> 3, wire type = tag & 7. Number 0 is accepted."""
    if p < end and p[0] < 0x80:
        tag[0] = p[0]
        return p + 1
    return read_long_tag(p, end, tag)


cdef inline const uint8_t* read_tag(const uint8_t* p, const uint8_t* end, uint32_t* tag) noexcept nogil:
    """Read a tag like `read_any_tag`; return NULL for number 0."""
    p = read_any_tag(p, end, tag)
    return p if p != NULL and tag[0] > 7 else NULL


cdef inline const uint8_t* read_length(const uint8_t* p, const uint8_t* end, uint64_t* length) noexcept nogil:
    """Read a length; on success there are at least `length` bytes between the returned pointer and `end`.

    protobuf readers accept lengths of up to 5 bytes; this function accepts longer ones if the value does not fit in 5.
    """
    cdef const uint8_t* start = p
    if p < end and p[0] < 0x80:
        length[0] = p[0]
        p += 1
    else:
        p = read_long_varint(p, end, length)
        if p == NULL or (p - start > 5 and length[0] >> 35 == 0):
            return NULL
    if length[0] > <uint64_t>(end - p):
        return NULL
    return p


cdef inline uint32_t load32(const uint8_t* p) noexcept nogil:
    """Return the little-endian 32-bit number at p, which may be unaligned."""
    return p[0] | <uint32_t>p[1] << 8 | <uint32_t>p[2] << 16 | <uint32_t>p[3] << 24


cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    """Return the little-endian 64-bit number at p, which may be unaligned."""
    return load32(p) | <uint64_t>load32(p + 4) << 32


cdef inline int32_t zigzag32(uint64_t raw) noexcept nogil:
    """Decode the varint of a sint32."""
    cdef uint32_t low = <uint32_t>raw
    return <int32_t>((low >> 1) ^ (0 - (low & 1)))


cdef inline int64_t zigzag64(uint64_t raw) noexcept nogil:
    """Decode the varint of a sint64."""
    return <int64_t>((raw >> 1) ^ (0 - (raw & 1)))


cdef inline const uint8_t* skip_group(
    const uint8_t* p, const uint8_t* end, uint32_t number, int depth
) noexcept nogil:
    """Skip past the end of the group `number`, whose start tag was just read.

    depth: levels of groups that may be open at once, this one included. As in protobuf's parser, fields with number 0
    inside a group are skipped like any other.
    """
    cdef uint32_t[MAX_DEPTH] numbers
    cdef uint32_t tag
    cdef int level = 0
    if depth > MAX_DEPTH:
        depth = MAX_DEPTH
    if depth < 1:
        return NULL
    numbers[0] = number
    while level >= 0:
        p = read_any_tag(p, end, &tag)
        if p == NULL:
            return NULL
        if tag & 7 == WIRE_START_GROUP:
            level += 1
            if level >= depth:
                return NULL
            numbers[level] = tag >> 3
        elif tag & 7 == WIRE_END_GROUP:
            if numbers[level] != tag >> 3:
                return NULL
            level -= 1
        else:
            p = skip_value(p, end, tag, depth)
            if p == NULL:
                return NULL
    return p


cdef inline const uint8_t* read_value(
    const uint8_t* p, const uint8_t* end, uint32_t tag, int depth, const uint8_t** value, uint64_t* n
) noexcept nogil:
    """Read the value after a tag into `value` and `n`, defined as in Record; a group may open `depth` levels."""
    cdef int wire = tag & 7
    value[0] = p
    n[0] = 0
    if wire == WIRE_LEN:
        p = read_length(p, end, n)
        value[0] = p
        return p if p == NULL else p + n[0]
    if wire == WIRE_VARINT:
        return read_varint(p, end, n)
    if wire == WIRE_FIXED32:
        if end - p < 4:
            return NULL
        n[0] = load32(p)
        return p + 4
    if wire == WIRE_FIXED64:
        if end - p < 8:
            return NULL
        n[0] = load64(p)
        return p + 8
    if wire == WIRE_START_GROUP:
        return skip_group(p, end, tag >> 3, depth)
    return NULL


cdef inline const uint8_t* read_record(const uint8_t* p, const uint8_t* end, int depth, Record* record) noexcept nogil:
    """Read the record of a message at p; a group may open `depth` levels."""
    record.start = p
    p = read_tag(p, end, &record.tag)
    return p if p == NULL else read_value(p, end, record.tag, depth, &record.value, &record.n)


cdef inline const uint8_t* skip_value(const uint8_t* p, const uint8_t* end, uint32_t tag, int depth) noexcept nogil:
    """Skip the value after a tag; a group may open `depth` levels."""
    cdef const uint8_t* value
    cdef uint64_t n
    return read_value(p, end, tag, depth, &value, &n)


cdef Damage explain(const uint8_t* p, const uint8_t* end, int depth) noexcept nogil
cdef Damage explain_packed(const uint8_t* p, const uint8_t* end, int size) noexcept nogil
cdef uint64_t count_varints(const uint8_t* p, const uint8_t* end) noexcept nogil
cdef uint64_t count_parts(const uint8_t* p, const uint8_t* end, PartCounts* counts) noexcept nogil
cdef bint check_varints(const uint8_t* p, const uint8_t* end) noexcept nogil
cdef uint64_t decode_varints(
    const uint8_t* p, const uint8_t* end, Packed packed, void* out, uint64_t capacity
) noexcept nogil
cdef uint64_t decode_parts(
    const uint8_t* p, const uint8_t* end, Packed packed, void* out, uint64_t capacity, const PartCounts* counts
) noexcept nogil


cdef inline int varint_size(uint64_t value) noexcept nogil:
    """Return the number of bytes of the shortest varint of a value."""
    cdef int size = 1
    while value >= 0x80:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* p, uint64_t value) noexcept nogil:
    """Write the shortest varint of a value, at most 10 bytes; return the address after it."""
    while value >= 0x80:
        p[0] = <uint8_t>(value | 0x80)
        value >>= 7
        p += 1
    p[0] = <uint8_t>value
    return p + 1
