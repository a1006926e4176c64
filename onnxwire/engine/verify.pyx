# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Verification of a document: one walk over all messages, fields and packed runs."""
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from onnxwire._varint cimport (
    FAULT_DEPTH, MAX_DEPTH, WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN, WIRE_START_GROUP, WIRE_VARINT, Damage, check_varints,
    read_length, read_long_tag, read_varint, skip_group,
)
from onnxwire.engine.damage cimport damage_error, decode_error, packed_error
from onnxwire.engine.document cimport Document, Span
from onnxwire.engine.memory cimport free, malloc
from onnxwire.engine.partial cimport LONG_BYTES
from onnxwire.engine.fetch_structure cimport NO_LIMIT, fetch_structure
from onnxwire.engine.table cimport Field, Table, find_field
from onnxwire.engine.view cimport table_of

cdef enum FaultKind:
    BAD_RECORD           # `decode_error` determines the fault
    BAD_RUN              # a packed run; `packed_error` determines the fault
    TOO_DEEP             # a message that is nested too deeply

cdef struct Result:
    FaultKind kind
    const uint8_t* start  # the damaged or too deeply nested record, or the start of the damaged packed run
    const uint8_t* end   # BAD_RECORD, BAD_RUN: the end of the message or packed run that contains `start`
    int size             # BAD_RUN: bytes per number of the run, 0 for varints
    int depth            # BAD_RECORD: number of nested levels that were allowed below the record's message
    uint64_t min_bytes   # the minimum size of a value in `values`; NO_LIMIT to list none
    Span* values         # the list of long values that are not messages
    Py_ssize_t n_values
    Py_ssize_t max_values  # capacity of `values`


cdef const uint8_t* check_message(
    const Table* table, const uint8_t* p, const uint8_t* end, int depth, Result* result
) noexcept nogil:
    """Check all records between p and end; return end, or NULL with the fault in `result`. Add long values to `result`.

    depth: maximum number of further nested levels of messages and groups.
    """
    cdef const uint8_t* record
    cdef const uint8_t* value
    cdef Field* field
    cdef uint64_t n
    cdef uint32_t tag
    while p < end:
        record = p
        tag = p[0]
        p += 1
        if tag >= 0x80:
            p = read_long_tag(record, end, &tag)
        if p == NULL or tag < 8:
            break
        if tag & 7 == WIRE_LEN:
            p = read_length(p, end, &n)
            if p == NULL:
                break
            value = p
            p += n
            field = find_field(table, tag >> 3)
            if n >= result.min_bytes and result.n_values < result.max_values and (field == NULL or field.sub == NULL):
                result.values[result.n_values].p = value
                result.values[result.n_values].n = n
                result.n_values += 1
            if field == NULL:
                continue
            if field.sub != NULL:
                if depth == 0:
                    result.kind = TOO_DEEP
                    result.start = record
                    return NULL
                if check_message(field.sub, value, p, depth - 1, result) == NULL:
                    return NULL
            elif field.repeated and field.size:
                result.size = 0 if field.wire == WIRE_VARINT else field.size
                if (result.size and n % result.size) or (result.size == 0 and not check_varints(value, p)):
                    result.kind = BAD_RUN
                    result.start = value
                    result.end = p
                    return NULL
        elif tag & 7 == WIRE_VARINT:
            p = read_varint(p, end, &n)
        elif tag & 7 == WIRE_FIXED32:
            p = p + 4 if end - p >= 4 else NULL
        elif tag & 7 == WIRE_FIXED64:
            p = p + 8 if end - p >= 8 else NULL
        elif tag & 7 == WIRE_START_GROUP:
            p = skip_group(p, end, tag >> 3, depth)
        else:
            p = NULL
        if p == NULL:
            break
    else:
        return end
    result.kind = BAD_RECORD
    result.start = record
    result.end = end
    result.depth = depth
    return NULL


cdef bint is_valid(const Table* table, const uint8_t* p, const uint8_t* end, int depth) noexcept nogil:
    """Return whether all records between p and end, nested ones included, are valid; depth: as for check_message."""
    cdef Result result
    result.min_bytes = NO_LIMIT
    result.n_values = result.max_values = 0
    return p == end or check_message(table, p, end, depth, &result) != NULL


@critical_section
def verify_document(Document document, cls):
    """Check all bytes of a document, parsed as a message of a class; raise DecodeError for the first fault."""
    document.check_open()
    document.set_root(cls)
    check_document(document, table_of(cls))


@critical_section
def find_long_values(Document document, cls, uint64_t min_bytes, Py_ssize_t max_values):
    """Check a document as `verify_document` does, and return the offsets (start, end) of its first long values.

    min_bytes: the minimum size of a listed value. Messages, and values in groups, are not listed. max_values: maximum
    length of the list.
    """
    cdef Result result
    document.check_open()
    document.set_root(cls)
    result.min_bytes = min_bytes
    result.n_values = 0
    result.max_values = max_values
    result.values = <Span*>malloc(<size_t>(max_values or 1) * sizeof(Span))
    if result.values == NULL:
        raise MemoryError
    try:
        check_all(document, table_of(cls), &result)
        return [
            (result.values[i].p - document.start, result.values[i].p - document.start + result.values[i].n)
            for i in range(result.n_values)
        ]
    finally:
        free(result.values)


cdef int check_document(Document document, Table* table) except -1:
    """Check all bytes of an open document as a message; raise DecodeError for the first fault."""
    cdef Result result
    result.min_bytes = NO_LIMIT
    result.n_values = result.max_values = 0
    return check_all(document, table, &result)


cdef int check_all(Document document, Table* table, Result* result) except -1:
    """Check an open document and list its long values in `result`; raise DecodeError for the first fault."""
    cdef Damage damage
    cdef const uint8_t* checked_end
    fetch_structure(document, table, LONG_BYTES, NO_LIMIT, NULL, NULL)
    document.check_open()
    document.pins += 1
    with nogil:
        # The address of an empty document may be NULL.
        checked_end = document.end
        if document.start < document.end:
            checked_end = check_message(table, document.start, document.end, MAX_DEPTH, result)
    document.pins -= 1
    if checked_end != NULL or document.start == document.end:
        return 0
    if result.kind == TOO_DEEP:
        memset(&damage, 0, sizeof(damage))
        damage.fault = FAULT_DEPTH
        damage.at = result.start
        raise damage_error(document, damage, document.end)
    if result.kind == BAD_RUN:
        raise packed_error(document, result.start, result.end, result.size)
    raise decode_error(document, result.start, result.end, result.depth)
