# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Diagnosis of damaged bytes, and packed runs of varints."""
from libc.string cimport memset

cdef extern from "_packed.h" nogil:
    int ow_best_level()
    uint64_t ow_decode_varints(
        const uint8_t* p, const uint8_t* end, int packed, void* out, uint64_t capacity, int level
    )
    uint64_t ow_count_varints(const uint8_t* p, const uint8_t* end)

cdef extern from "_parallel.h" nogil:
    int ow_count_processors()
    void ow_in_parallel(void (*task)(void* argument) noexcept nogil, void* arguments, size_t size, int n)

cdef extern from "engine/thresholds.h":
    enum:
        THREAD_RUN_BYTES "OW_THREAD_RUN_BYTES"

cdef int LEVEL = ow_best_level()  # the instruction level of `_packed.h` that is used

NESTING_LIMIT = MAX_DEPTH  # for Python, which cannot read a C enum


cdef Damage explain(const uint8_t* p, const uint8_t* end, int depth) noexcept nogil:
    """Return the damage of the record at p, in which groups may open `depth` levels; FAULT_NONE if there is none."""
    cdef Damage damage
    cdef const uint8_t* start = p
    cdef const uint8_t* after
    cdef uint32_t[MAX_DEPTH + 1] numbers
    cdef uint64_t length = 0
    cdef uint32_t tag = 0
    cdef int level = 0
    if depth > MAX_DEPTH:
        depth = MAX_DEPTH
    memset(&damage, 0, sizeof(damage))
    while True:
        damage.at = p
        after = read_any_tag(p, end, &tag) if level else read_tag(p, end, &tag)
        if after == NULL:
            damage.number = 0
            if level and p == end:
                damage.number = numbers[level]
                damage.fault = FAULT_GROUP_OPEN
                damage.at = start
            else:
                damage.fault = explain_tag(p, end)
            return damage
        damage.number = tag >> 3
        if tag & 7 == WIRE_START_GROUP:
            if level >= depth:
                damage.fault = FAULT_DEPTH
                return damage
            level += 1
            numbers[level] = tag >> 3
            p = after
        elif tag & 7 == WIRE_END_GROUP:
            if level == 0 or numbers[level] != tag >> 3:
                damage.fault = FAULT_GROUP_STRAY if level == 0 else FAULT_GROUP_OTHER
                damage.detail = tag >> 3
                if level:
                    damage.number = numbers[level]
                return damage
            level -= 1
            p = after
        else:
            p = skip_value(after, end, tag, 0)
            if p == NULL:
                break
        if level == 0:
            return damage

    # A value that can't be skipped: `after` is the byte after its tag.
    if tag & 7 == WIRE_VARINT:
        damage.fault = FAULT_VARINT_CUT if is_cut(after, end) else FAULT_VARINT_LONG
    elif tag & 7 == WIRE_LEN:
        p = read_varint(after, end, &length)
        if p == NULL:
            damage.fault = FAULT_LENGTH_CUT if is_cut(after, end) else FAULT_LENGTH_LONG
        elif length > <uint64_t>(end - p):
            damage.fault = FAULT_LENGTH_PAST_END
            damage.length = length
            damage.detail = length - <uint64_t>(end - p)
        else:
            damage.fault = FAULT_LENGTH_LONG
    elif tag & 7 == WIRE_FIXED32 or tag & 7 == WIRE_FIXED64:
        damage.fault = FAULT_FIXED_CUT
        damage.length = 4 if tag & 7 == WIRE_FIXED32 else 8
        damage.detail = damage.length - <uint64_t>(end - after)
    else:
        damage.fault = FAULT_WIRE_TYPE
        damage.detail = tag & 7
    return damage


cdef bint is_cut(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return whether the faulty varint at p is cut by the end; otherwise it is too long."""
    return end - p < 10


cdef Fault explain_tag(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return the fault of the tag at p that `read_tag` rejects."""
    cdef uint32_t tag = 0
    if read_long_tag(p, end, &tag) != NULL:
        return FAULT_NUMBER_ZERO
    return FAULT_TAG_CUT if end - p < 5 and count_varints(p, end) == 0 else FAULT_TAG_LONG


cdef Damage explain_packed(const uint8_t* p, const uint8_t* end, int size) noexcept nogil:
    """Return the damage of a packed run, FAULT_NONE if there is none; size: bytes per fixed number, 0 for varints."""
    cdef Damage damage
    cdef uint64_t ignored
    memset(&damage, 0, sizeof(damage))
    damage.at = p
    damage.length = <uint64_t>(end - p)
    if size:
        if damage.length % <uint64_t>size:
            damage.fault = FAULT_PACKED_SIZE
            damage.detail = <uint64_t>size
        return damage
    while p < end:
        damage.at = p
        p = read_varint(p, end, &ignored)
        if p == NULL:
            damage.fault = FAULT_PACKED_CUT if is_cut(damage.at, end) else FAULT_PACKED_LONG
            return damage
    return damage


cdef struct RunPart:
    # A part of a packed run that starts and ends between varints; one thread counts and decodes it.
    const uint8_t* p
    const uint8_t* end
    Packed packed
    void* out
    uint64_t capacity
    uint64_t n               # numbers counted or decoded


cdef int divide_run(RunPart* parts, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Divide a run of at least 2 * THREAD_RUN_BYTES bytes into parts of complete varints; return their number."""
    cdef int max_threads = min(ow_count_processors(), <int>MAX_RUN_PARTS)
    cdef int n = <int>min(<uint64_t>(end - p) // THREAD_RUN_BYTES, <uint64_t>max_threads)
    cdef int i
    for i in range(n):
        parts[i].p = p
        p += (end - p) // (n - i)
        while p < end and (p - 1)[0] >= 0x80:
            p += 1
        parts[i].end = p
    return n


cdef void count_part(void* argument) noexcept nogil:
    cdef RunPart* part = <RunPart*>argument
    part.n = ow_count_varints(part.p, part.end)


cdef void decode_part(void* argument) noexcept nogil:
    cdef RunPart* part = <RunPart*>argument
    part.n = ow_decode_varints(part.p, part.end, part.packed, part.out, part.capacity, LEVEL)


cdef uint64_t count_varints(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Count the bytes that end a varint, which is the number of values of an undamaged packed run."""
    cdef PartCounts counts
    return count_parts(p, end, &counts)


cdef uint64_t count_parts(const uint8_t* p, const uint8_t* end, PartCounts* counts) noexcept nogil:
    """Count like `count_varints`; set `counts` to the count of each part that a thread decodes later."""
    cdef RunPart[MAX_RUN_PARTS] parts
    cdef uint64_t total = 0
    cdef int i
    counts.n = 0
    if end - p < 2 * THREAD_RUN_BYTES:
        return ow_count_varints(p, end)
    counts.n = divide_run(parts, p, end)
    ow_in_parallel(count_part, parts, sizeof(RunPart), counts.n)
    for i in range(counts.n):
        counts.counts[i] = parts[i].n
        total += parts[i].n
    return total


cdef bint check_varints(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return whether the run consists of complete varints of at most 10 bytes each."""
    cdef const uint8_t* start = p
    cdef const uint8_t* byte
    if p == end:
        return True
    if (end - 1)[0] >= 0x80:
        return False
    # A faulty varint has ten consecutive continuation bytes. Of the three runs of eight among them, one starts at
    # an offset that is a multiple of three, so it is enough to test every third offset, and then up to two bytes on
    # each side.
    while end - p >= 8:
        if load64(p) & <uint64_t>0x8080808080808080 == <uint64_t>0x8080808080808080:
            byte = p
            while byte > start and (byte - 1)[0] >= 0x80 and p - byte < 2:
                byte -= 1
            if end - byte >= 10 and byte[8] >= 0x80 and byte[9] >= 0x80:
                return False
        p += 3
    return True


cdef int size_of(Packed packed) noexcept nogil:
    """Return the size of a decoded number in bytes."""
    return 1 if packed == PACKED_BOOL else 4 if packed == PACKED_32 or packed == PACKED_ZIGZAG32 else 8


cdef uint64_t decode_varints(
    const uint8_t* p, const uint8_t* end, Packed packed, void* out, uint64_t capacity
) noexcept nogil:
    """Decode a packed run to at most `capacity` numbers; return the number of values written.

    Stops at a varint that has more than 10 bytes or is cut by the end. Runs of megabytes are divided among
    threads.
    """
    return decode_parts(p, end, packed, out, capacity, NULL)


cdef uint64_t decode_parts(
    const uint8_t* p, const uint8_t* end, Packed packed, void* out, uint64_t capacity, const PartCounts* counts
) noexcept nogil:
    """Decode like `decode_varints`, without counting the values again if `counts` has their number.

    counts: as filled in by `count_parts`, or NULL. If it does not agree with the bytes, which may have changed, the
    numbers are undefined; at most `capacity` of them are written.
    """
    cdef RunPart[MAX_RUN_PARTS] parts
    cdef uint64_t total = 0
    cdef uint64_t n_before
    cdef int i
    cdef int n
    if end - p < 2 * THREAD_RUN_BYTES:
        return ow_decode_varints(p, end, packed, out, capacity, LEVEL)
    n = divide_run(parts, p, end)
    if counts != NULL and counts.n == n:
        for i in range(n):
            parts[i].n = counts.counts[i]
    else:
        ow_in_parallel(count_part, parts, sizeof(RunPart), n)
    for i in range(n):
        n_before = min(total, capacity)
        parts[i].packed = packed
        parts[i].out = <uint8_t*>out + n_before * <uint64_t>size_of(packed)
        parts[i].capacity = min(parts[i].n, capacity - n_before)
        total = n_before + parts[i].capacity
    ow_in_parallel(decode_part, parts, sizeof(RunPart), n)
    total = 0
    for i in range(n):
        total += parts[i].n
        if parts[i].n < parts[i].capacity:
            break
    return total


def packed_levels():
    """Return the instruction levels of `_packed.h` that this build and processor support; the last one is used."""
    return list(range(LEVEL + 1))


def decode_packed(const uint8_t[::1] data, str kind, int level=-1):
    """Decode a packed run of varints at one instruction level, for tests and benchmarks.

    data: the run's bytes; kind: "int64", "uint64", "int32", "uint32", "bool", "sint64" or "sint32"; level: one of
    `packed_levels()`, by default the last.
    Returns the bytes of an array of native numbers, up to the first damaged varint.
    """
    cdef Packed packed = {
        "int64": PACKED_64, "uint64": PACKED_64, "int32": PACKED_32, "uint32": PACKED_32, "bool": PACKED_BOOL,
        "sint64": PACKED_ZIGZAG64, "sint32": PACKED_ZIGZAG32,
    }[kind]
    cdef Py_ssize_t size = size_of(packed)
    cdef const uint8_t* p = NULL
    if level < 0 or level > LEVEL:
        level = LEVEL
    if data.shape[0]:
        p = &data[0]
    cdef uint64_t count = ow_count_varints(p, p + data.shape[0])
    cdef bytearray out = bytearray(count * size)
    cdef char* numbers = out
    with nogil:
        count = ow_decode_varints(p, p + data.shape[0], packed, numbers, count, level)
    return bytes(out[: count * size])
