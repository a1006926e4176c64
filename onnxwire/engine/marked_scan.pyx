# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A scan for messages of certain types in the bytes of a message, without views."""
from libc.stdint cimport uint32_t, uint64_t

from onnxwire._varint cimport WIRE_LEN, read_length, read_tag, skip_value
from onnxwire.engine.table cimport Field, find_field


cdef const uint8_t* find_marked(
    const Table* table, const uint8_t* p, const uint8_t* end, const Table* tables, const uint8_t* marks, int depth
) noexcept nogil:
    """Return the first record between p and end, at any depth, whose value is a message with a table marked IS_TARGET.

    table: that of the message between p and end. tables, marks: all tables of the schema, and the marks of each table.
    depth: maximum number of nested levels.
    Returns `end` if there is no such record. A record that is damaged or nested too deeply is returned as well: the
    caller reads it with views, which raise the error.
    """
    cdef const uint8_t* record
    cdef const uint8_t* value
    cdef const uint8_t* target_record
    cdef Field* field
    cdef uint64_t n
    cdef uint32_t tag
    cdef uint8_t mark
    while p < end:
        # Most records have a tag and a length of one byte, and no message as value.
        while end - p > 1 and p[0] < 0x80 and p[1] < 0x80 and table.quick[p[0]]:
            field = &table.fields[table.quick[p[0]] - 1]
            if field.wire != WIRE_LEN or field.sub != NULL or p[1] > end - p - 2:
                break
            p += 2 + p[1]
        if p == end:
            return end
        record = p
        p = read_tag(p, end, &tag)
        if p == NULL:
            return record
        if tag & 7 != WIRE_LEN:
            p = skip_value(p, end, tag, depth)
            if p == NULL:
                return record
            continue
        value = p = read_length(p, end, &n)
        if p == NULL:
            return record
        p += n
        field = find_field(table, tag >> 3)
        if field == NULL or field.sub == NULL:
            continue
        mark = marks[field.sub - tables]
        if mark & IS_TARGET:
            return record
        if mark & CONTAINS_TARGET:
            if depth == 0:
                return record
            target_record = find_marked(field.sub, value, p, tables, marks, depth - 1)
            if target_record != p:
                return target_record
    return end
