# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Scans payloads of messages for counts, extremes, last values and strings.

Each function that Python calls scans a field of the messages of one type. name, field: the names of the type and the
field. is_selected: a bool column of the rows to scan. The number of scanned bytes is limited for each message and for
all messages together.
"""
from cython cimport critical_section
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_LEN, WIRE_VARINT, Record, count_varints, read_record, read_varint,
)
from onnxwire.checker._facts cimport Facts, Part
from onnxwire.checker._sheets cimport PAYLOAD, Records, Sheet
from onnxwire.index.interning cimport is_utf8
from onnxwire.engine.partial cimport N_PARTIAL, PartialMemory, memory_of
from onnxwire.engine.table cimport INT32, Slot

from onnxwire.checker import limits

cdef int64_t MAX_SCANNED_BYTES = limits.MAX_SCANNED_BYTES
cdef int64_t MAX_COUNTED_BYTES = limits.MAX_COUNTED_BYTES
cdef int64_t MAX_TOTAL_BYTES = limits.MAX_TOTAL_SCANNED_BYTES

cdef struct Walk:
    # A position between two records of a message.
    const uint8_t* p
    const uint8_t* end
    const Part* part     # the next piece of the message, NULL if none
    const Part* parts    # the pieces of all messages
    int64_t n_remaining  # number of remaining records of the field
    uint32_t number      # the field number


cdef struct Value:
    # The value of a record.
    const uint8_t* p     # the start of a varint, or of a length-delimited value
    const uint8_t* end


cdef void start_walk(Facts facts, Sheet* sheet, int32_t row, uint32_t slot, Walk* walk) noexcept nogil:
    """Set the position of a walk to the first record of a payload field."""
    cdef Records* records = &(<Records*>sheet.columns[slot])[row]
    cdef const uint8_t* first = facts.document.start + records.first
    walk.p = sheet.p[row]
    walk.end = walk.p + sheet.length[row]
    walk.part = NULL
    walk.parts = facts.parts
    if sheet.part != NULL and sheet.part[row] >= 0:
        walk.part = &facts.parts[sheet.part[row]]
    if walk.p <= first < walk.end:
        walk.p = first
    walk.n_remaining = records.records
    walk.number = sheet.table.fields[slot].number


cdef bint next_value(Walk* walk, uint32_t wire, Value* value) noexcept nogil:
    """Read the value of the field's next record, packed or of the wire type. Return False if there is none."""
    cdef const uint8_t* p
    cdef Record record
    while walk.n_remaining > 0:
        if walk.p >= walk.end:
            if walk.part == NULL:
                return False
            walk.p = walk.part.p
            walk.end = walk.p + walk.part.n
            walk.part = &walk.parts[walk.part.next] if walk.part.next >= 0 else NULL
            continue
        p = read_record(walk.p, walk.end, MAX_DEPTH, &record)
        if p == NULL:
            return False
        walk.p = p
        if record.tag >> 3 == walk.number and (record.tag & 7 == WIRE_LEN or record.tag & 7 == wire):
            value.p = record.value
            value.end = p
            walk.n_remaining -= 1
            return True
    return False


cdef uint32_t payload_slot(Facts facts, Sheet* sheet, str field) except? 0xFFFFFFFF:
    """Return the slot of a field whose column has Records. Raises ValueError for another field."""
    cdef uint32_t slot = <uint32_t>facts.slot(sheet, field)
    if sheet.kinds[slot] != PAYLOAD:
        raise ValueError(f"the field {field} is not read as a payload")
    facts.column_of(sheet, slot)
    return slot


@critical_section
def measure_numbers(Facts facts, str name, str field, const uint8_t[::1] is_selected):
    """Return the count, minimum, maximum and last value of a varint field.

    Returns two buffers. The first has four columns of int64, one after the other: the count, -1 if the elements were
    not counted; the minimum, maximum and last one of the scanned values, 0 if there are none. Values of types other
    than int32 are compared as uint64, and returned as the int64 with the same bits. The second buffer is a column of
    bool: whether the field has values and all were scanned.
    """
    cdef Sheet* sheet = facts.sheet(name)
    cdef uint32_t slot = payload_slot(facts, sheet, field)
    cdef bint is_narrow = sheet.table.fields[slot].type == INT32
    cdef Py_ssize_t n = sheet.n
    cdef bytearray buffers = bytearray(n * 32)
    cdef bytearray flags = bytearray(n)
    cdef int64_t* counts = <int64_t*><char*>buffers
    cdef int64_t* minima = counts + n
    cdef int64_t* maxima = minima + n
    cdef int64_t* last_values = maxima + n
    cdef uint8_t* is_complete = <uint8_t*><char*>flags
    cdef int64_t total_bytes_left = MAX_TOTAL_BYTES
    cdef int64_t bytes_left, size, n_scanned
    cdef uint64_t raw = 0
    cdef int64_t number
    cdef const uint8_t* p
    cdef const uint8_t* stop
    cdef Records* records
    cdef Walk walk
    cdef Value value
    cdef Py_ssize_t row
    cdef PartialMemory memory = memory_of(facts.document.start) if N_PARTIAL else None
    if is_selected.shape[0] < n:
        raise IndexError("a column has fewer rows than the sheet")
    facts.document.check_open()
    facts.document.pins += 1
    with nogil:
        for row in range(n):
            records = &(<Records*>sheet.columns[slot])[row]
            counts[row] = records.items
            if not is_selected[row] or records.size == 0:
                if records.size == 0:
                    counts[row] = 0
                continue
            size = records.size
            bytes_left = min(MAX_SCANNED_BYTES, total_bytes_left)
            if records.items < 0 and size <= MAX_COUNTED_BYTES and size <= total_bytes_left:
                counts[row] = 0
            elif bytes_left <= 0:
                continue
            total_bytes_left -= size if counts[row] == 0 else min(bytes_left, size)
            n_scanned = 0
            start_walk(facts, sheet, <int32_t>row, slot, &walk)
            while next_value(&walk, WIRE_VARINT, &value):
                p = value.p
                if memory is not None and not memory.has(p, <uint64_t>(value.end - p)):
                    counts[row] = records.items
                    break
                if records.items < 0 and counts[row] >= 0:
                    counts[row] += <int64_t>count_varints(p, value.end)
                stop = value.end if value.end - p <= bytes_left else p + bytes_left
                bytes_left -= stop - p
                while p < stop:
                    p = read_varint(p, value.end, &raw)
                    if p == NULL:
                        break
                    number = <int32_t>raw if is_narrow else <int64_t>raw
                    if n_scanned == 0:
                        minima[row] = maxima[row] = number
                    elif is_narrow:
                        minima[row] = min(minima[row], number)
                        maxima[row] = max(maxima[row], number)
                    else:
                        minima[row] = <int64_t>min(<uint64_t>minima[row], raw)
                        maxima[row] = <int64_t>max(<uint64_t>maxima[row], raw)
                    last_values[row] = number
                    n_scanned += 1
                if bytes_left <= 0 and (counts[row] < 0 or records.items >= 0):
                    break
            is_complete[row] = n_scanned == counts[row]
    facts.document.pins -= 1
    return buffers, flags


@critical_section
def measure_bytes(Facts facts, str name, str field, const uint8_t[::1] is_selected, const int64_t[::1] ends):
    """Return the greatest byte in the first 64 KiB of a bytes field, and the last used byte of the field.

    ends: for each row, the number of used bytes; 0 for a row whose last byte is not needed. Returns a buffer of two
    columns of uint8, one after the other; 0 for a byte that does not exist or is not read.
    """
    cdef Sheet* sheet = facts.sheet(name)
    cdef Slot* spans = <Slot*>facts.column(name, field)
    cdef Py_ssize_t n = sheet.n
    cdef bytearray columns = bytearray(n * 2)
    cdef uint8_t* max_bytes = <uint8_t*><char*>columns
    cdef uint8_t* last_bytes = max_bytes + n
    cdef int64_t total_bytes_left = MAX_TOTAL_BYTES
    cdef const uint8_t* p
    cdef const uint8_t* stop
    cdef uint8_t max_byte
    cdef int64_t size
    cdef Py_ssize_t row
    cdef PartialMemory memory = memory_of(facts.document.start) if N_PARTIAL else None
    if is_selected.shape[0] < n or ends.shape[0] < n:
        raise IndexError("a column has fewer rows than the sheet")
    facts.document.check_open()
    facts.document.pins += 1
    with nogil:
        for row in range(n):
            p = facts.document.start + <size_t>spans[row].p
            size = <int64_t>spans[row].n
            if memory is not None and not memory.has(p, <uint64_t>size):
                continue
            if 0 < ends[row] <= size:
                last_bytes[row] = p[ends[row] - 1]
            if is_selected[row] and total_bytes_left > 0:
                size = min(size, min(MAX_SCANNED_BYTES, total_bytes_left))
                total_bytes_left -= size
                stop = p + size
                max_byte = 0
                while p < stop:
                    max_byte = max(max_byte, p[0])
                    p += 1
                max_bytes[row] = max_byte
    facts.document.pins -= 1
    return columns


@critical_section
def measure_strings(Facts facts, str name, str field, const uint8_t[::1] is_selected):
    """Find the first string that is not valid UTF-8, and the first with a leading byte-order mark or a trailing NUL.

    Scans the first 1 MiB of the field. Returns a buffer of two columns of int64, one after the other: the indices of
    these strings, -1 for none.
    """
    cdef Sheet* sheet = facts.sheet(name)
    cdef uint32_t slot = payload_slot(facts, sheet, field)
    cdef Py_ssize_t n = sheet.n
    cdef bytearray columns = bytearray(n * 16)
    cdef int64_t* first_invalid = <int64_t*><char*>columns
    cdef int64_t* first_bom_or_nul = first_invalid + n
    cdef int64_t total_bytes_left = MAX_TOTAL_BYTES
    cdef int64_t bytes_left, index, size
    cdef const uint8_t* p
    cdef Walk walk
    cdef Value value
    cdef Py_ssize_t row
    cdef PartialMemory memory = memory_of(facts.document.start) if N_PARTIAL else None
    if is_selected.shape[0] < n:
        raise IndexError("a column has fewer rows than the sheet")
    facts.document.check_open()
    facts.document.pins += 1
    with nogil:
        for row in range(n):
            first_invalid[row] = first_bom_or_nul[row] = -1
            bytes_left = min(MAX_COUNTED_BYTES, total_bytes_left)
            if not is_selected[row] or bytes_left <= 0:
                continue
            index = -1
            start_walk(facts, sheet, <int32_t>row, slot, &walk)
            while next_value(&walk, WIRE_LEN, &value):
                index += 1
                p = value.p
                size = value.end - p
                if memory is not None and not memory.has(p, <uint64_t>size):
                    continue
                if first_bom_or_nul[row] < 0 and (
                    (size >= 1 and p[size - 1] == 0)
                    or (size >= 3 and p[0] == 0xEF and p[1] == 0xBB and p[2] == 0xBF)
                ):
                    first_bom_or_nul[row] = index
                # One byte more per string, so that the number of empty strings is limited, too.
                bytes_left -= size + 1
                total_bytes_left -= size + 1
                if bytes_left < 0:
                    break
                if first_invalid[row] < 0 and not is_utf8(p, value.end):
                    first_invalid[row] = index
                if first_invalid[row] >= 0 and first_bom_or_nul[row] >= 0:
                    break
    facts.document.pins -= 1
    return columns
