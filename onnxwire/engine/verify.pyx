# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Verification: one walk over every message, field and packed run of a document."""
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from onnxwire._varint cimport (
    FAULT_DEPTH, MAX_DEPTH, WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN, WIRE_START_GROUP, WIRE_VARINT, Damage, check_varints,
    read_length, read_long_tag, read_varint, skip_group,
)
from onnxwire.engine.damage cimport damage_error, decode_error, packed_error
from onnxwire.engine.document cimport Document, Span
from onnxwire.engine.partial cimport LONG
from onnxwire.engine.fetch_structure cimport WHOLE, fetch_structure
from onnxwire.engine.table cimport Field, Table, find_field
from onnxwire.engine.view cimport table_of

cdef enum What:
    SOUND
    BAD_RECORD           # explain() tells the rest
    BAD_RUN              # explain_packed() tells the rest
    TOO_DEEP

cdef struct Finding:
    What what
    const uint8_t* start
    const uint8_t* end   # of the message or packed run that `start` lies in
    int size             # of the run's numbers, 0 for varints
    int depth            # levels that could still open
    uint64_t least       # bytes of the values, not messages, to be noted
    Span* values
    Py_ssize_t n_values
    Py_ssize_t most      # that there is room for


cdef const uint8_t* check_message(
    const Table* table, const uint8_t* p, const uint8_t* end, int depth, Finding* finding
) noexcept nogil:
    """Check every record between p and end; returns end, or NULL and the finding.

    depth: levels of messages and groups that may still open.
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
            if n >= finding.least and finding.n_values < finding.most and (field == NULL or field.sub == NULL):
                finding.values[finding.n_values].p = value
                finding.values[finding.n_values].n = n
                finding.n_values += 1
            if field == NULL:
                continue
            if field.sub != NULL:
                if depth == 0:
                    finding.what = TOO_DEEP
                    finding.start = record
                    return NULL
                if check_message(field.sub, value, p, depth - 1, finding) == NULL:
                    return NULL
            elif field.repeated and field.size:
                finding.size = 0 if field.wire == WIRE_VARINT else field.size
                if (finding.size and n % finding.size) or (finding.size == 0 and not check_varints(value, p)):
                    finding.what = BAD_RUN
                    finding.start = value
                    finding.end = p
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
    finding.what = BAD_RECORD
    finding.start = record
    finding.end = end
    finding.depth = depth
    return NULL


cdef bint is_sound(const Table* table, const uint8_t* p, const uint8_t* end, int depth) noexcept nogil:
    """Return whether all records between p and end, nested ones included, are sound; depth: as of check_message."""
    cdef Finding finding
    finding.least = <uint64_t>-1
    finding.n_values = finding.most = 0
    return p == end or check_message(table, p, end, depth, &finding) != NULL


@critical_section
def verify_document(Document document, cls):
    """Check all bytes of a document as a message of a class; raises DecodeError at the first fault."""
    document.check_open()
    document.set_root(cls)
    check_document(document, table_of(cls))


@critical_section
def find_long_values(Document document, cls, uint64_t least, Py_ssize_t most):
    """Check a document as `verify_document` does, and list its long values: (start, end) of each, in order.

    least: bytes of a value that is listed, of a field that is no message; most: values that are listed at most.
    """
    cdef Finding finding
    document.check_open()
    document.set_root(cls)
    finding.least = least
    finding.n_values = 0
    finding.most = most
    finding.values = <Span*>malloc(<size_t>(most or 1) * sizeof(Span))
    if finding.values == NULL:
        raise MemoryError
    try:
        check_all(document, table_of(cls), &finding)
        return [
            (finding.values[i].p - document.start, finding.values[i].p - document.start + finding.values[i].n)
            for i in range(finding.n_values)
        ]
    finally:
        free(finding.values)


cdef int check_document(Document document, Table* table) except -1:
    """Check all bytes of an open document as a message; raises DecodeError at the first fault."""
    cdef Finding finding
    finding.least = WHOLE
    finding.n_values = finding.most = 0
    return check_all(document, table, &finding)


cdef int check_all(Document document, Table* table, Finding* finding) except -1:
    cdef Damage damage
    cdef const uint8_t* sound
    fetch_structure(document, table, LONG, WHOLE, NULL, NULL)
    document.check_open()
    document.pins += 1
    with nogil:
        # An empty document may have no address at all.
        sound = document.end
        if document.start < document.end:
            sound = check_message(table, document.start, document.end, MAX_DEPTH, finding)
    document.pins -= 1
    if sound != NULL or document.start == document.end:
        return 0
    if finding.what == TOO_DEEP:
        memset(&damage, 0, sizeof(damage))
        damage.fault = FAULT_DEPTH
        damage.at = finding.start
        raise damage_error(document, damage, document.end)
    if finding.what == BAD_RUN:
        raise packed_error(document, finding.start, finding.end, finding.size)
    raise decode_error(document, finding.start, finding.end, finding.depth)
