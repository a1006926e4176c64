# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Canonical encoding: the bytes that protobuf's deterministic serializer writes."""
from libc.string cimport memcpy

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_FIXED32, WIRE_LEN, WIRE_VARINT, load64, read_length, read_long_tag, read_varint, skip_value,
    varint_size,
)
from onnxwire.engine.table cimport BOOL, ENUM, INT32, SINT32, SINT64, UINT32, find_field, has_value


cdef uint64_t canonical_bits(const Field* field, uint64_t raw) noexcept nogil:
    """Return the bits that the official serializer writes for the number that a record stores as the bits `raw`."""
    if field.type == BOOL:
        return raw != 0
    if field.type == INT32 or field.type == ENUM:
        return <uint64_t><int64_t><int32_t>raw
    if field.type == UINT32 or field.type == SINT32:
        return <uint32_t>raw
    return raw


cdef uint64_t raw_at(const Field* field, const uint8_t* items, Py_ssize_t i) noexcept nogil:
    """Return the bits that a record stores for the number at index i of `items`, an array of C numbers."""
    cdef uint64_t bits64 = 0
    cdef uint32_t bits32 = 0
    if field.size == 8:
        memcpy(&bits64, items + i * 8, 8)
        if field.type == SINT64:
            bits64 = (bits64 << 1) ^ (0 - (bits64 >> 63))
        return bits64
    if field.size == 1:
        return items[i]
    memcpy(&bits32, items + i * 4, 4)
    if field.type == SINT32:
        return <uint32_t>((bits32 << 1) ^ (0 - (bits32 >> 31)))
    if field.wire == WIRE_FIXED32 or field.type == UINT32:
        return bits32
    return <uint64_t><int64_t><int32_t>bits32


cdef bint has_canonical_records(const Table* table, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return whether the records of a message are canonical. The content of nested messages is not checked.

    Canonical records have the shortest tags and lengths, and numbers as the official serializer writes them. They are
    in the order of their field numbers, followed by unknown fields, whose values may have any valid form. A singular
    field has at most one record, a packed field has at most one run, which is not empty, and a oneof has at most one
    member. The result is also False for some canonical records, such as members of two oneofs.
    """
    cdef const uint8_t* record
    cdef const uint8_t* value
    cdef const Field* field
    cdef uint64_t n
    cdef uint32_t tag
    cdef uint32_t last_number = 0
    cdef bint has_oneof_member = False
    cdef bint has_unknown_field = False
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
            has_unknown_field = True
            p = skip_value(p, end, tag, MAX_DEPTH) if tag > 7 else NULL
            if p == NULL:
                return False
            continue
        if has_unknown_field or field.number < last_number:
            return False
        if field.number == last_number and (not field.repeated or (field.size and field.packed)):
            return False
        last_number = field.number
        if field.n_peers:
            if has_oneof_member:
                return False
            has_oneof_member = True
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
            if field.size and not is_canonical_run(field, value, p):
                return False
        elif tag & 7 == WIRE_VARINT:
            p = read_varint(value, end, &n)
            if p == NULL or not is_canonical_varint(field, n, value, p):
                return False
        elif end - p < field.size:
            return False
        else:
            p += field.size
    return True


cdef inline bint is_canonical_varint(
    const Field* field, uint64_t raw, const uint8_t* start, const uint8_t* end
) noexcept nogil:
    """Return whether the official serializer writes a field's value `raw` as the varint from start to end."""
    # The tenth byte may contain bits above the 64 of the value.
    return (
        varint_size(raw) == end - start and (end - start < 10 or (end - 1)[0] == 1)
        and canonical_bits(field, raw) == raw and not (field.closed and not has_value(field, <int32_t>raw))
    )


cdef bint is_canonical_run(const Field* field, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return whether a packed run of a field is canonical; an empty run is not."""
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
        if p == NULL or not is_canonical_varint(field, n, start, p):
            return False
    return True
