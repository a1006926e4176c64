# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Canonical encoding: the bytes that protobuf's deterministic serializer writes."""
from libc.string cimport memcpy

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_FIXED32, WIRE_LEN, WIRE_VARINT, load64, read_length, read_long_tag, read_varint, skip_value,
    varint_size,
)
from onnxwire.engine.table cimport BOOL, ENUM, INT32, SINT32, SINT64, UINT32, find_field, has_value


cdef uint64_t canonical(const Field* field, uint64_t raw) noexcept nogil:
    """Return the raw bits that the official serializer writes for the value of a record's raw bits."""
    if field.type == BOOL:
        return raw != 0
    if field.type == INT32 or field.type == ENUM:
        return <uint64_t><int64_t><int32_t>raw
    if field.type == UINT32 or field.type == SINT32:
        return <uint32_t>raw
    return raw


cdef uint64_t raw_at(const Field* field, const uint8_t* items, Py_ssize_t i) noexcept nogil:
    """Return the raw bits of a number of a native array."""
    cdef uint64_t wide = 0
    cdef uint32_t narrow = 0
    if field.size == 8:
        memcpy(&wide, items + i * 8, 8)
        if field.type == SINT64:
            wide = (wide << 1) ^ (0 - (wide >> 63))
        return wide
    if field.size == 1:
        return items[i]
    memcpy(&narrow, items + i * 4, 4)
    if field.type == SINT32:
        return <uint32_t>((narrow << 1) ^ (0 - (narrow >> 31)))
    if field.wire == WIRE_FIXED32 or field.type == UINT32:
        return narrow
    return <uint64_t><int64_t><int32_t>narrow


cdef bint is_plain(const Table* table, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return whether the records of a message are canonical, not looking into nested messages."""
    cdef const uint8_t* record
    cdef const uint8_t* value
    cdef const Field* field
    cdef uint64_t n
    cdef uint32_t tag
    cdef uint32_t last = 0
    cdef bint in_oneof = False
    cdef bint in_unknown = False
    while p < end:
        record = p
        tag = p[0]
        p += 1
        if tag >= 0x80:
            p = read_long_tag(record, end, &tag)
            if p == NULL or varint_size(tag) != p - record:
                return False
        field = find_field(table, tag >> 3)
        if field == NULL:
            in_unknown = True
            p = skip_value(p, end, tag, MAX_DEPTH) if tag > 7 else NULL
            if p == NULL:
                return False
            continue
        if in_unknown or field.number < last:
            return False
        if field.number == last and (not field.repeated or (field.size and field.packed)):
            return False
        last = field.number
        if field.n_peers:
            if in_oneof:
                return False
            in_oneof = True
        if field.repeated and field.size and field.packed:
            if tag & 7 != WIRE_LEN:
                return False
        elif tag & 7 != field.wire:
            return False
        value = p
        if tag & 7 == WIRE_LEN:
            p = read_length(value, end, &n)
            if p == NULL or varint_size(n) != p - value:
                return False
            value = p
            p += n
            if field.size and not is_plain_run(field, value, p):
                return False
        elif tag & 7 == WIRE_VARINT:
            p = read_varint(value, end, &n)
            if p == NULL or not is_plain_varint(field, n, value, p):
                return False
        elif end - p < field.size:
            return False
        else:
            p += field.size
    return True


cdef inline bint is_plain_varint(
    const Field* field, uint64_t raw, const uint8_t* start, const uint8_t* end
) noexcept nogil:
    # The tenth byte has room for bits above the 64 of the value.
    return (
        varint_size(raw) == end - start and (end - start < 10 or (end - 1)[0] == 1) and canonical(field, raw) == raw
        and not (field.closed and not has_value(field, <int32_t>raw))
    )


cdef bint is_plain_run(const Field* field, const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef const uint8_t* start
    cdef uint64_t n
    if p == end:
        return False
    if field.wire != WIRE_VARINT:
        return (end - p) % field.size == 0
    while p < end:
        # Eight one-byte varints at once.
        if end - p >= 8 and not field.closed and field.type != BOOL and load64(p) & <uint64_t>0x8080808080808080 == 0:
            p += 8
            continue
        start = p
        p = read_varint(p, end, &n)
        if p == NULL or not is_plain_varint(field, n, start, p):
            return False
    return True
