# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Whether two messages are equal: the fields that are there, floats by their bits, then the unknown fields.

The rules are those of protobuf's own runtime.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_END_GROUP, WIRE_LEN, WIRE_START_GROUP, read_any_tag, read_value,
)
from onnxwire.engine.document cimport Document
from onnxwire.engine.encode cimport unknown_fields
from onnxwire.engine.numbers cimport RepeatedScalar
from onnxwire.engine.partial cimport need
from onnxwire.engine.repeated cimport RepeatedSpan
from onnxwire.engine.table cimport MESSAGE, Field, Slot
from onnxwire.engine.view cimport (
    HAS_UNKNOWN, Cursor, Record, View, document_of, field_value, fill, filled, is_touched, new_view, next_usable,
    start_cursor,
)

from onnxwire.errors import DecodeError


cdef bint equal_views(View a, View b, int depth=MAX_DEPTH + 1) except -1:
    """Compare two messages of one class by value.

    Raises DecodeError where one is damaged or nested too deep, and SourceError where its file was changed.
    """
    cdef Document ours
    cdef Document theirs
    document_of(a).check_unchanged()
    document_of(b).check_unchanged()
    ours = filled(a)
    theirs = filled(b)
    # Comparing may run other code, in other threads or in finalizers, which must not close what is compared.
    ours.pins += 1
    theirs.pins += 1
    try:
        return equal_messages(a, b, depth)
    finally:
        ours.pins -= 1
        theirs.pins -= 1


cdef bint equal_messages(View a, View b, int depth) except -1:
    """Compare by value: the fields that are there, floats by their bits, then the unknown fields."""
    cdef Field* field
    cdef Slot* ours
    cdef Slot* theirs
    cdef uint32_t i
    if depth == 0:
        raise DecodeError(f"messages nested more than {MAX_DEPTH} deep are not compared", source=document_of(a).name)
    for i in range(a.table.n_fields):
        # Comparing the field before may have run code that made these other messages.
        fill(a)
        fill(b)
        field = &a.table.fields[i]
        ours = &a.slots[i]
        theirs = &b.slots[i]
        if ours.p == NULL and theirs.p == NULL:
            continue
        if field.repeated:
            if field.size == 0:
                if is_touched(a, field) or is_touched(b, field):
                    if not equal_elements(field_value(a, field), field_value(b, field), depth):
                        return False
                elif not equal_spans(a, b, field, depth):
                    return False
            elif not equal_numbers(field_value(a, field), field_value(b, field)):
                return False
        elif ours.p == NULL or theirs.p == NULL:
            return False
        elif field.type == MESSAGE:
            if not equal_messages(field_value(a, field), field_value(b, field), depth - 1):
                return False
        elif field.size == 0:
            if ours.n != theirs.n or not equal_bytes(ours.p, theirs.p, ours.n):
                return False
        elif field.size == 1:
            if (ours.n == 0) != (theirs.n == 0):
                return False
        elif field.size == 4:
            if <uint32_t>ours.n != <uint32_t>theirs.n:
                return False
        elif ours.n != theirs.n:
            return False
    fill(a)
    fill(b)
    if (a.flags | b.flags) & HAS_UNKNOWN or a.table.has_closed_runs:
        ours_unknown = unknown_fields(a)
        theirs_unknown = unknown_fields(b)
        return ours_unknown == theirs_unknown or unknown_records(ours_unknown) == unknown_records(theirs_unknown)
    return True


cdef bint equal_spans(View a, View b, Field* field, int depth) except -1:
    """Compare the elements of a repeated string, bytes or message, pair by pair."""
    # What the cursors stand in, which may become another message's while elements are compared.
    cdef Document ours = document_of(a)
    cdef Document theirs = document_of(b)
    cdef object _our_parts = None if a.parts == NULL else <object>a.parts
    cdef object _their_parts = None if b.parts == NULL else <object>b.parts
    cdef Cursor[2] cursors
    cdef Record[2] records
    cdef uint64_t n = a.slots[field.slot].n
    if a.slots[field.slot].p == NULL or b.slots[field.slot].p == NULL or b.slots[field.slot].n != n:
        return False
    start_cursor(&cursors[0], a, a.slots[field.slot].p)
    start_cursor(&cursors[1], b, b.slots[field.slot].p)
    while n:
        if next_usable(&cursors[0], field, &records[0]) <= 0 or next_usable(&cursors[1], field, &records[1]) <= 0:
            return False
        if field.type == MESSAGE:
            if not equal_messages(
                new_view(field.sub, ours, records[0].value, records[0].value + records[0].n, None),
                new_view(field.sub, theirs, records[1].value, records[1].value + records[1].n, None),
                depth - 1,
            ):
                return False
        elif records[0].n != records[1].n or not equal_bytes(records[0].value, records[1].value, records[0].n):
            return False
        n -= 1
    return True


cdef bint equal_bytes(const uint8_t* a, const uint8_t* b, uint64_t n) except -1:
    if a == b:
        return True
    need(a, n)
    need(b, n)
    return memcmp(a, b, n) == 0


cdef bint equal_elements(RepeatedSpan a, RepeatedSpan b, int depth) except -1:
    """Compare the elements of a field that was changed, pair by pair."""
    cdef Py_ssize_t n = len(a)
    cdef Py_ssize_t i
    if len(b) != n:
        return False
    for i in range(n):
        if a.field.type == MESSAGE:
            # Elements that were put in may be of other files than the message.
            if not equal_views(a.element(i), b.element(i), depth - 1):
                return False
        elif a.element(i) != b.element(i):
            return False
    return True


cdef bint equal_numbers(RepeatedScalar a, RepeatedScalar b) except -1:
    """Whether two sequences of one field hold the same bits."""
    a.decode()
    b.decode()
    # Both may have let other code run, which may have changed, and moved, what was put in.
    a.look_at_bound()
    b.look_at_bound()
    return a.n == b.n and memcmp(a.items, b.items, <size_t>a.n * a.field.size) == 0


# --- unknown fields

cdef list unknown_records(bytes data):
    """Unknown fields as (number, wire type, value), sorted by number and wire type; see unknown_record."""
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef const uint8_t* end = p + PyBytes_GET_SIZE(data)
    cdef list records = []
    while p < end:
        records.append(unknown_record(&p, end))
    records.sort(key=number_and_wire)
    return records


cdef tuple unknown_record(const uint8_t** p, const uint8_t* end):
    """Read one record, and move p past it.

    The value is an int, bytes, or for a group the sorted list of its records; an end of group is (number, wire type).
    """
    cdef const uint8_t* start
    cdef const uint8_t* value
    cdef uint32_t tag = 0
    cdef uint64_t n = 0
    cdef list records
    start = read_any_tag(p[0], end, &tag)
    p[0] = start
    if start != NULL and tag & 7 != WIRE_END_GROUP:
        p[0] = read_value(start, end, tag, MAX_DEPTH, &value, &n)
    if p[0] == NULL:
        raise DecodeError("bytes that changed while they were read")
    if tag & 7 == WIRE_END_GROUP:
        return tag >> 3, WIRE_END_GROUP
    if tag & 7 == WIRE_LEN:
        return tag >> 3, WIRE_LEN, PyBytes_FromStringAndSize(<const char*>value, <Py_ssize_t>n)
    if tag & 7 == WIRE_START_GROUP:
        records = []
        record = unknown_record(&start, p[0])
        while len(record) == 3:
            records.append(record)
            record = unknown_record(&start, p[0])
        records.sort(key=number_and_wire)
        return tag >> 3, WIRE_START_GROUP, records
    return tag >> 3, tag & 7, n


@critical_section
def number_and_wire(tuple record):
    return record[:2]
