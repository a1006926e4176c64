# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Packed runs of numbers, and their conversion to arrays."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from onnxwire._varint cimport (
    PACKED_32, PACKED_64, PACKED_BOOL, PACKED_ZIGZAG32, PACKED_ZIGZAG64, WIRE_VARINT, Packed,
    count_parts, decode_parts, load32, load64, read_varint, zigzag32, zigzag64,
)
from onnxwire.engine.damage cimport packed_error
from onnxwire.engine.table cimport BOOL, INT64, SINT32, SINT64, UINT64, has_value

from sys import byteorder

cdef bint LITTLE_ENDIAN = byteorder == "little"

cdef extern from "thresholds.h":
    enum:
        NOGIL_RUN_BYTES "OW_NOGIL_RUN_BYTES"
        LONG_BYTES "OW_LONG_BYTES"


cdef Packed packed_form(int field_type) noexcept nogil:
    """Return the conversion of varints to numbers for a field type of wire type WIRE_VARINT."""
    if field_type == SINT64:
        return PACKED_ZIGZAG64
    if field_type == SINT32:
        return PACKED_ZIGZAG32
    if field_type == BOOL:
        return PACKED_BOOL
    if field_type == INT64 or field_type == UINT64:
        return PACKED_64
    return PACKED_32


cdef void write_number(void* out, const Field* field, uint64_t raw) noexcept nogil:
    """Write one number, given its raw bits."""
    cdef uint32_t low = <uint32_t>raw
    cdef int64_t wide
    cdef int32_t narrow
    if field.type == BOOL:
        (<uint8_t*>out)[0] = raw != 0
    elif field.type == SINT64:
        wide = zigzag64(raw)
        memcpy(out, &wide, 8)
    elif field.type == SINT32:
        narrow = zigzag32(raw)
        memcpy(out, &narrow, 4)
    elif field.size == 8:
        memcpy(out, &raw, 8)
    else:
        memcpy(out, &low, 4)


cdef uint64_t store_run(
    uint8_t* out, const Field* field, const uint8_t* p, uint64_t n, uint64_t capacity, const PartCounts* counts
) noexcept nogil:
    """Write the numbers of a packed run of n bytes, at most `capacity` numbers; return how many were written.

    counts: for a run of varints, the number of values in each part that a thread decodes, as filled in by
    `count_parts`, or NULL; otherwise ignored.
    """
    cdef uint64_t count = 0
    if field.wire == WIRE_VARINT:
        return decode_parts(p, p + n, packed_form(field.type), out, capacity, counts)
    if LITTLE_ENDIAN:
        count = min(n // field.size, capacity)
        memcpy(out, p, count * field.size)
        return count
    while count < capacity and n - count * field.size >= field.size:
        write_number(
            out + count * field.size, field,
            load64(p + count * 8) if field.size == 8 else load32(p + count * 4)
        )
        count += 1
    return count


cdef uint64_t store_long_run(
    uint8_t* out, const Field* field, const uint8_t* p, uint64_t n, uint64_t capacity, const PartCounts* counts
) noexcept:
    """Write the numbers of a packed run as `store_run` does; without the GIL if the run is long."""
    cdef uint64_t count
    if n < NOGIL_RUN_BYTES:
        return store_run(out, field, p, n, capacity, counts)
    with nogil:
        count = store_run(out, field, p, n, capacity, counts)
    return count


cdef uint64_t remove_unknown(int32_t* values, uint64_t n, const Field* field) noexcept nogil:
    """Remove values that are not in the closed enum of a field; return the number of remaining values."""
    cdef uint64_t n_kept = 0
    cdef uint64_t i
    for i in range(n):
        if has_value(field, values[i]):
            values[n_kept] = values[i]
            n_kept += 1
    return n_kept


# --- the run before Numbers, which is not decoded yet

cdef int locate_run(const Field* field, Numbers numbers, Document document, Span* run) except -1:
    """Set `run` to the packed run before the numbers: the bytes after its length prefix, up to `run_end`.

    Raises DecodeError as `check_run` does, and SourceError if the file of a long run was changed.
    """
    cdef uint64_t n = 0
    cdef const uint8_t* p = read_varint(numbers.origin, numbers.run_end, &n)
    if p != NULL:
        p = read_varint(p, numbers.run_end, &n)
    run.p = numbers.run_end if p == NULL else p
    run.n = <uint64_t>(numbers.run_end - run.p)
    if run.n >= LONG_BYTES:
        document.check_unchanged()
    return check_run(field, document, run)


cdef int check_run(const Field* field, Document document, const Span* run) except -1:
    """Raise DecodeError if the last number of a packed run is not complete."""
    if field.wire != WIRE_VARINT and run.n % field.size:
        raise packed_error(document, run.p, run.p + run.n, field.size)
    if field.wire == WIRE_VARINT and run.n and run.p[run.n - 1] >= 0x80:
        raise packed_error(document, run.p, run.p + run.n, 0)
    return 0


cdef int decode_run(const Field* field, Numbers numbers, Document document) except -1:
    """Decode the run before the numbers, and insert the decoded numbers before them.

    Raises the errors of `locate_run`, DecodeError for a damaged run, and MemoryError; `numbers` is then unchanged. Runs
    no other code, so that the encoder can call it; therefore the GIL is not released.
    """
    cdef size_t size = field.size
    cdef PartCounts counts
    cdef Span run
    cdef Numbers decoded
    cdef uint64_t n
    locate_run(field, numbers, document, &run)
    counts.n = 0
    n = count_parts(run.p, run.p + run.n, &counts) if field.wire == WIRE_VARINT else run.n // size
    decoded = Numbers.allocate(<Py_ssize_t>n + numbers.n, field)
    if store_run(decoded.items, field, run.p, run.n, n, &counts) != n:
        raise packed_error(document, run.p, run.p + run.n, 0)
    memcpy(decoded.items + n * size, numbers.items, <size_t>numbers.n * size)
    numbers.items, decoded.items = decoded.items, numbers.items
    numbers.allocation, decoded.allocation = decoded.allocation, numbers.allocation
    numbers.n += <Py_ssize_t>n
    numbers.run_end = NULL
    return 0
