# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Finds records that readers of protobuf interpret differently, for checks of untrusted models.

The audit is another pass over the tags of a document, after the scan for its columns. It reads packed varints of fields
of the kind LIST (see `Column` in _sheets.pxd), packed varints of up to MAX_RUN_BYTES in other fields, and at most 4 KiB
of an unknown field, but no other long values. `check` calls it only with untrusted=True.
"""
from cython cimport critical_section
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_LEN, WIRE_START_GROUP, WIRE_VARINT, Record, read_any_tag, read_record, read_varint, varint_size,
)
from onnxwire.checker._facts cimport Facts
from onnxwire.checker._sheets cimport LIST, Sheet
from onnxwire.index.interning cimport grow_array
from onnxwire.engine.document cimport FAR_SKIP_BYTES, advise_far
from onnxwire.engine.memory cimport free
from onnxwire.engine.partial cimport N_PARTIAL, PartialMemory, memory_of
from onnxwire.engine.table cimport BOOL, ENUM, INT32, MESSAGE, UINT32, Field, find_field

cdef enum:
    # An unknown field of zeros is padding; only its first bytes are compared.
    MAX_UNKNOWN_PREFIX_BYTES = 4096
    MAX_RUN_BYTES = 1 << 16  # maximum size of a packed record that is read in a field of another kind than LIST

cdef enum Kind:              # wire_records.py has the same numbers; the comments name the rules that report the kinds
    LONG_TAG = 1             # security-wire-tag-length
    LONG_LENGTH              # security-wire-length-length
    LONG_NUMBER              # security-wire-number-length
    WIDE_NUMBER              # security-wire-number-range
    REPEATED                 # security-wire-field-repeated
    MERGED                   # security-wire-message-merged
    ONEOF                    # security-wire-oneof-repeated
    WIRE_TYPE                # security-wire-type
    UNKNOWN                  # security-wire-unknown-content
    GROUP                    # security-wire-group
    MIXED_PACKING            # security-wire-packed-parts

cdef struct Anomaly:
    int64_t start            # offset of the tag
    int64_t value            # the raw bits of a number, or the length of a length-delimited value; 0 for a group
    int32_t row              # the row of the message
    int32_t number           # the field number
    int16_t sheet            # the index of the message's sheet
    int16_t kind             # a Kind

cdef struct Anomalies:
    Anomaly* items
    int32_t n
    int32_t capacity


cdef int add_anomaly(
    Anomalies* anomalies, Facts facts, Py_ssize_t sheet, int32_t row, const Record* record, Kind kind
) noexcept nogil:
    """Append an anomaly. Return -1 if memory is exhausted."""
    cdef Anomaly* item
    cdef int32_t capacity
    if anomalies.n == anomalies.capacity:
        if anomalies.capacity >= 1 << 29:  # so that the capacity cannot overflow int32
            return -1
        capacity = anomalies.capacity * 2 + 64
        if grow_array(<void**>&anomalies.items, capacity, sizeof(Anomaly)):
            return -1
        anomalies.capacity = capacity
    item = &anomalies.items[anomalies.n]
    item.start = record.start - facts.document.start
    item.value = <int64_t>record.n
    item.row = row
    item.number = <int32_t>(record.tag >> 3)
    item.sheet = <int16_t>sheet
    item.kind = kind
    anomalies.n += 1
    return 0


cdef inline bint is_wide(const Field* field, const Record* record, const uint8_t* end) noexcept nogil:
    """Return whether a number has more bits than its type; end: the end of its varint."""
    if end - record.value == 10 and end[-1] > 1:
        return True
    if field.type == INT32 or field.type == ENUM:
        return <int64_t>record.n != <int32_t>record.n
    if field.type == UINT32:
        return record.n >> 32 != 0
    return field.type == BOOL and record.n > 1


cdef int find_anomaly_in_run(const Field* field, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return the kind of the first anomaly in a packed run, or 0 if there is none.

    LONG_NUMBER is a varint that is invalid or longer than its value requires, WIDE_NUMBER a varint of more than 64 bits
    or an int32 of more than 32 bits.
    """
    cdef const uint8_t* start
    cdef uint64_t value = 0
    while p < end:
        start = p
        p = read_varint(p, end, &value)
        if p == NULL:
            return LONG_NUMBER
        if p - start == 10 and p[-1] > 1:
            return WIDE_NUMBER
        if p - start != varint_size(value):
            return LONG_NUMBER
        if field.type == INT32 and <int64_t>value != <int32_t>value:
            return WIDE_NUMBER
    return 0


cdef inline bint is_short_run(const Record* record, PartialMemory memory) noexcept nogil:
    """Return whether a record of packed numbers is short enough to be read, and resident."""
    return record.n <= MAX_RUN_BYTES and (memory is None or memory.has(record.value, record.n))


cdef bint is_padding(const Record* record) noexcept nogil:
    """Return whether the first bytes of a length-delimited value are zeros."""
    cdef const uint8_t* p = record.value
    cdef const uint8_t* end = p + min(record.n, <uint64_t>MAX_UNKNOWN_PREFIX_BYTES)
    while p < end:
        if p[0]:
            return False
        p += 1
    return True


cdef int audit_span(
    Facts facts, Py_ssize_t sheet, int32_t row, const uint8_t* p, const uint8_t* end, uint32_t* seen,
    uint32_t* packed, PartialMemory memory, Anomalies* anomalies
) noexcept nogil:
    """Add the anomalies of one span of a message. Returns -1 if memory is exhausted.

    seen: bits, by slot, of the fields that occurred before, except repeated strings, bytes and messages. packed: bits
    of repeated fields whose last record is packed. Empty packed records are ignored. memory: the memory of a remote
    file, otherwise None.
    """
    cdef Sheet* columns = &facts.sheets[sheet]
    cdef Record record
    cdef Field* field
    cdef const uint8_t* tag_end
    cdef uint32_t tag = 0, bit, i
    cdef int wire, kind
    while p < end:
        p = read_record(p, end, MAX_DEPTH, &record)
        if p == NULL:
            return 0  # not possible: the scan for the columns has read the same bytes
        wire = record.tag & 7
        tag_end = read_any_tag(record.start, end, &tag)
        if (
            tag_end - record.start != varint_size(record.tag)
            and add_anomaly(anomalies, facts, sheet, row, &record, LONG_TAG)
        ):
            return -1
        if wire == WIRE_LEN:
            if record.n >= FAR_SKIP_BYTES and p < end:
                advise_far(&facts.document.far, p)
            if (
                record.value - tag_end != varint_size(record.n)
                and add_anomaly(anomalies, facts, sheet, row, &record, LONG_LENGTH)
            ):
                return -1
        elif wire == WIRE_VARINT:
            if p - tag_end != varint_size(record.n) and add_anomaly(anomalies, facts, sheet, row, &record, LONG_NUMBER):
                return -1
        elif wire == WIRE_START_GROUP and add_anomaly(anomalies, facts, sheet, row, &record, GROUP):
            return -1
        field = find_field(columns.table, record.tag >> 3)
        if field == NULL:
            if wire == WIRE_LEN and record.n and (
                (memory is not None and not memory.has(record.value, min(record.n, <uint64_t>MAX_UNKNOWN_PREFIX_BYTES)))
                or not is_padding(&record)
            ) and add_anomaly(anomalies, facts, sheet, row, &record, UNKNOWN):
                return -1
            continue
        if wire != field.wire and not (field.repeated and wire == WIRE_LEN and field.size):
            if add_anomaly(anomalies, facts, sheet, row, &record, WIRE_TYPE):
                return -1
            continue
        if (
            wire == WIRE_VARINT and is_wide(field, &record, p)
            and add_anomaly(anomalies, facts, sheet, row, &record, WIDE_NUMBER)
        ):
            return -1
        if field.repeated:
            if (
                wire == WIRE_LEN and field.wire == WIRE_VARINT
                and (columns.kinds[field.slot] == LIST or is_short_run(&record, memory))
            ):
                kind = find_anomaly_in_run(field, record.value, p)
                if kind and add_anomaly(anomalies, facts, sheet, row, &record, <Kind>kind):
                    return -1
            bit = <uint32_t>1 << field.slot
            if field.size and (wire != WIRE_LEN or record.n):
                # Elements one by one are usual, a second packed record or a mixture of both is not.
                if seen[0] & bit and (wire == WIRE_LEN or packed[0] & bit) and (
                    add_anomaly(anomalies, facts, sheet, row, &record, MIXED_PACKING)
                ):
                    return -1
                seen[0] |= bit
                packed[0] = packed[0] | bit if wire == WIRE_LEN else packed[0] & ~bit
            continue
        bit = <uint32_t>1 << field.slot
        if seen[0] & bit:
            if add_anomaly(anomalies, facts, sheet, row, &record, MERGED if field.type == MESSAGE else REPEATED):
                return -1
        for i in range(field.n_peers):
            if seen[0] >> field.peers[i] & 1:
                if add_anomaly(anomalies, facts, sheet, row, &record, ONEOF):
                    return -1
                break
        seen[0] |= bit
    return 0


@critical_section
def audit_wire(Facts facts):
    """Return the records that readers interpret differently, as bytes of structs Anomaly.

    facts: the columns of a document. Raises ClosedError if the document is closed, and MemoryError if memory is
    exhausted.
    """
    cdef Anomalies anomalies
    cdef Sheet* columns
    cdef Py_ssize_t sheet
    cdef int32_t row, part
    cdef uint32_t seen, packed
    cdef int failed = 0
    cdef PartialMemory memory = memory_of(facts.document.start) if N_PARTIAL else None
    anomalies.items = NULL
    anomalies.n = anomalies.capacity = 0
    facts.document.check_open()
    facts.document.pins += 1
    with nogil:
        for sheet in range(facts.n_sheets):
            columns = &facts.sheets[sheet]
            for row in range(columns.n):
                seen = packed = 0
                failed = audit_span(
                    facts, sheet, row, columns.p[row], columns.p[row] + columns.length[row], &seen, &packed, memory,
                    &anomalies,
                )
                part = columns.part[row] if columns.part != NULL else -1
                while part >= 0 and not failed:
                    failed = audit_span(
                        facts, sheet, row, facts.parts[part].p, facts.parts[part].p + facts.parts[part].n, &seen,
                        &packed, memory, &anomalies,
                    )
                    part = facts.parts[part].next
                if failed:
                    break
            if failed:
                break
    facts.document.pins -= 1
    try:
        if failed:
            raise MemoryError
        return (<char*>anomalies.items)[:anomalies.n * <Py_ssize_t>sizeof(Anomaly)] if anomalies.n else b""
    finally:
        free(anomalies.items)
