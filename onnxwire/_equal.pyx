# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Whether two messages are equal: the fields that are there, floats by their bits, then the unknown fields.

The rules are those of protobuf's own runtime.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from onnxwire._document cimport Document
from onnxwire._message cimport (
    HAS_UNKNOWN, Cursor, Message, Record, document_of, field_value, fill, new_view, next_record, start_cursor,
)
from onnxwire._repeated cimport RepeatedScalar
from onnxwire._table cimport MESSAGE, Field, Slot, Table, find_field, has_value
from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_END_GROUP, WIRE_FIXED32, WIRE_LEN, WIRE_START_GROUP, WIRE_VARINT, load32, load64, read_any_tag,
    read_length, read_varint, skip_value,
)

from onnxwire.errors import DecodeError


def equal_views(Message a, Message b):
    """Compare two messages of one class by value; raises DecodeError where one is damaged or nested too deep."""
    cdef Document ours = document_of(a)
    cdef Document theirs = document_of(b)
    # Comparing may run other code, in other threads or in finalizers, which must not close what is compared.
    ours.pins += 1
    theirs.pins += 1
    try:
        return equal_messages(a, b, MAX_DEPTH + 1)
    finally:
        ours.pins -= 1
        theirs.pins -= 1


cdef bint equal_messages(Message a, Message b, int depth) except -1:
    """Compare by value: the fields that are there, floats by their bits, then the unknown fields."""
    cdef Field* field
    cdef Slot* ours
    cdef Slot* theirs
    cdef uint32_t i
    if depth == 0:
        raise DecodeError(f"messages nested more than {MAX_DEPTH} deep are not compared", source=document_of(a).name)
    fill(a)
    fill(b)
    for i in range(a.table.n_fields):
        field = &a.table.fields[i]
        ours = &a.slots[i]
        theirs = &b.slots[i]
        if ours.p == NULL and theirs.p == NULL:
            continue
        if field.repeated:
            if field.size == 0:
                if not equal_spans(a, b, field, depth):
                    return False
            elif not equal_numbers(field_value(a, field), field_value(b, field)):
                return False
        elif ours.p == NULL or theirs.p == NULL:
            return False
        elif field.kind == MESSAGE:
            if not equal_messages(field_value(a, field), field_value(b, field), depth - 1):
                return False
        elif field.size == 0:
            if ours.n != theirs.n or memcmp(ours.p, theirs.p, ours.n) != 0:
                return False
        elif field.size == 1:
            if (ours.n == 0) != (theirs.n == 0):
                return False
        elif field.size == 4:
            if <uint32_t>ours.n != <uint32_t>theirs.n:
                return False
        elif ours.n != theirs.n:
            return False
    if (a.flags | b.flags) & HAS_UNKNOWN or has_closed_runs(a.table):
        return same_bytes(a, b) or unknown_records(a) == unknown_records(b)
    return True


cdef bint same_bytes(Message a, Message b) noexcept:
    """Whether two messages of one span each are the same byte for byte."""
    return (
        a.parts == NULL and b.parts == NULL and a.end - a.start == b.end - b.start
        and memcmp(a.start, b.start, <size_t>(a.end - a.start)) == 0
    )


cdef bint has_closed_runs(const Table* table) noexcept nogil:
    """Whether unknown values may hide in packed runs, which fill no flag."""
    cdef uint32_t i
    for i in range(table.n_fields):
        if table.fields[i].closed and table.fields[i].repeated:
            return True
    return False


cdef bint equal_spans(Message a, Message b, Field* field, int depth) except -1:
    """Compare the elements of a repeated string, bytes or message, pair by pair."""
    cdef Cursor[2] cursors
    cdef Record[2] records
    cdef uint64_t n = a.slots[field.slot].n
    if a.slots[field.slot].p == NULL or b.slots[field.slot].p == NULL or b.slots[field.slot].n != n:
        return False
    start_cursor(&cursors[0], a, a.slots[field.slot].p)
    start_cursor(&cursors[1], b, b.slots[field.slot].p)
    while n:
        if not next_span(&cursors[0], field.number, &records[0]):
            return False
        if not next_span(&cursors[1], field.number, &records[1]):
            return False
        if field.kind == MESSAGE:
            if not equal_messages(
                new_view(field.sub, document_of(a), records[0].value, records[0].value + records[0].n, None),
                new_view(field.sub, document_of(b), records[1].value, records[1].value + records[1].n, None),
                depth - 1,
            ):
                return False
        elif records[0].n != records[1].n or memcmp(records[0].value, records[1].value, records[0].n) != 0:
            return False
        n -= 1
    return True


cdef bint next_span(Cursor* cursor, uint32_t number, Record* record) noexcept nogil:
    """Read the next length-delimited record of a field."""
    while next_record(cursor, number, record) > 0:
        if record.tag & 7 == WIRE_LEN:
            return True
    return False


cdef bint equal_numbers(RepeatedScalar a, RepeatedScalar b) except -1:
    """Whether two sequences of one field hold the same bits."""
    a.decode()
    b.decode()
    return a.n == b.n and memcmp(a.items, b.items, <size_t>a.n * a.field.size) == 0


# --- unknown fields

cdef bint is_unknown(const Field* field, const Record* record) noexcept nogil:
    """Whether the record is kept as an unknown field; packed runs of closed enums are looked into elsewhere."""
    cdef int wire = record.tag & 7
    if field == NULL:
        return True
    if wire != field.wire:
        return not (field.repeated and wire == WIRE_LEN and field.size)
    return field.closed and not has_value(field, <int32_t>record.n)


cdef list unknown_records(Message self):
    """The unknown fields as (number, wire type, value), sorted by number and wire type; see unknown_record.

    The unknown values of a packed run of a closed enum count one by one, as if they had not been packed.
    """
    cdef Cursor cursor
    cdef Record record
    cdef Field* field
    cdef const uint8_t* p
    cdef uint64_t value
    cdef list records = []
    start_cursor(&cursor, self, NULL)
    while next_record(&cursor, 0, &record) > 0:
        field = find_field(self.table, record.tag >> 3)
        if is_unknown(field, &record):
            p = record.start
            records.append(unknown_record(&p, cursor.p))
        elif field.closed and record.tag & 7 == WIRE_LEN:
            p = record.value
            while p != NULL and p < record.value + record.n:
                p = read_varint(p, record.value + record.n, &value)
                if p != NULL and not has_value(field, <int32_t>value):
                    records.append((record.tag >> 3, WIRE_VARINT, value))
    records.sort(key=number_and_wire)
    return records


cdef tuple unknown_record(const uint8_t** p, const uint8_t* end):
    """Read one record, and move p behind it.

    The value is an int, bytes, or for a group the sorted list of its records; an end of group is (number, wire type).
    """
    cdef const uint8_t* start
    cdef uint32_t tag = 0
    cdef uint64_t value = 0
    cdef list records
    start = read_any_tag(p[0], end, &tag)
    p[0] = start if start == NULL or tag & 7 == WIRE_END_GROUP else skip_value(start, end, tag, MAX_DEPTH)
    if p[0] == NULL:
        raise DecodeError("bytes that changed while they were read")
    if tag & 7 == WIRE_END_GROUP:
        return tag >> 3, WIRE_END_GROUP
    if tag & 7 == WIRE_LEN:
        start = read_length(start, p[0], &value)
        return tag >> 3, WIRE_LEN, PyBytes_FromStringAndSize(<const char*>start, p[0] - start)
    if tag & 7 == WIRE_START_GROUP:
        records = []
        record = unknown_record(&start, p[0])
        while len(record) == 3:
            records.append(record)
            record = unknown_record(&start, p[0])
        records.sort(key=number_and_wire)
        return tag >> 3, WIRE_START_GROUP, records
    if tag & 7 == WIRE_VARINT:
        read_varint(start, p[0], &value)
    else:
        value = load32(start) if tag & 7 == WIRE_FIXED32 else load64(start)
    return tag >> 3, tag & 7, value


def number_and_wire(tuple record):
    return record[:2]
