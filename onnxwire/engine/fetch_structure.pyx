# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A walk that fetches all bytes of a message of a remote document except its long values.

It skips long values that are not messages, by default those of 64 KiB and more. Their tags and lengths, and all other
values, are resident afterwards. A walk that is not deep also skips long nested messages. The other walks of the engine
enter and skip the same values, because they use the same tables, so they read only bytes that were fetched. A reader of
a long value calls `ensure_resident` (`engine/partial`) first.
"""
from libc.stdint cimport uint32_t

from onnxwire._varint cimport (
    WIRE_END_GROUP, WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN, WIRE_START_GROUP, WIRE_VARINT, read_any_tag, read_length,
    read_varint,
)
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.partial cimport LONG_BYTES, N_PARTIAL, PartialMemory, fetch, memory_of
from onnxwire.engine.table cimport MESSAGE, STRING, find_field

cdef uint64_t NO_LIMIT = <uint64_t>-1  # the skip length for values that are never skipped

cdef enum:
    MAX_MESSAGE_LEVELS = 1000  # a message nested deeper is fetched without a walk
    MAX_EXTRA_GROUP_LEVELS = 200  # levels that groups may have besides; a group nested deeper counts as damage


cdef struct Level:
    # A message or group that the walk has entered.
    const Table* table       # NULL in a group
    const uint8_t* record    # the record of the message or group
    const uint8_t* p         # the next record in it
    const uint8_t* end       # the end of the message, or of the message around a group


cdef int fetch_span(Document document, const Table* table, const uint8_t* p, const uint8_t* end) except -1:
    """Fetch the records of a message and of its nested messages, without long values, before they are read.

    The long nested messages of a root message are not fetched now, but when they are read.
    """
    cdef PartialMemory memory = memory_of(p)
    cdef SkipLengths skip_lengths
    cdef bint is_root
    if memory is None or memory.is_walked(p, end):
        return 0
    is_root = p == document.start and end == document.end
    if memory.root_table == table if is_root else memory.has(p, <uint64_t>(end - p)):
        return 0
    skip_lengths.string = skip_lengths.packed = skip_lengths.data = LONG_BYTES
    skip_lengths.is_read_entirely = NULL
    skip_lengths.context = NULL
    walk_message(document, table, p, end, not is_root, &skip_lengths)
    if is_root:
        memory.root_table = table
    else:
        memory.add_walked(p, end)
    return 0


cdef int fetch_structure(
    Document document, const Table* table, uint64_t string, uint64_t packed,
    bint (*is_read_entirely)(const Field* field, void* context) noexcept, void* context
) except -1:
    """Fetch all of a document except long values, before a walk over all of it.

    No-op for a document that is not remote.
    string, packed: lengths in bytes from which strings and packed varints are skipped. is_read_entirely, context: as in
    SkipLengths.
    """
    cdef SkipLengths skip_lengths
    if N_PARTIAL == 0 or memory_of(document.start) is None:
        return 0
    skip_lengths.string = string
    skip_lengths.packed = packed
    skip_lengths.data = LONG_BYTES
    skip_lengths.is_read_entirely = is_read_entirely
    skip_lengths.context = context
    return walk_message(document, table, document.start, document.end, True, &skip_lengths)


cdef int check_range(Document document, uint64_t offset, uint64_t end) except -1:
    """Raise ClosedError, or IndexError for an end outside the document and for an offset that is not before the end."""
    document.check_open()
    if end > <uint64_t>(document.end - document.start) or offset >= end:
        raise IndexError("no such offset in the document")
    return 0


cdef int fetch_record(Document document, uint64_t offset, uint64_t end) except -1:
    """Fetch the tag and the number or length at an offset, or a whole group. The document must be pinned."""
    cdef const uint8_t* p = document.start + offset
    if N_PARTIAL:
        fetch(p, min(end - offset, <uint64_t>MAX_HEAD_BYTES))
        if p[0] & 7 == WIRE_START_GROUP:
            fetch(p, end - offset)
    return 0


cdef int walk_message(
    Document document, const Table* table, const uint8_t* p, const uint8_t* end, bint is_deep,
    const SkipLengths* skip_lengths
) except -1:
    """Fetch the bytes between the long values of a message.

    is_deep: whether to walk also the nested messages; otherwise long ones are skipped. After a damaged record, the rest
    of the message is not fetched, because no reader continues there. Raises MemoryError and the errors of the source.
    """
    cdef PartialMemory memory = memory_of(p)
    cdef Level* levels = NULL
    cdef Py_ssize_t capacity = 0
    cdef Py_ssize_t depth = 0
    if memory is None or p >= end:
        return 0
    # Other code may run while bytes are fetched; the pin prevents it from closing the document.
    document.pins += 1
    try:
        grow_levels(&levels, &capacity)
        levels[0].table = table
        levels[0].record = levels[0].p = p
        levels[0].end = end
        while depth >= 0:
            if depth + 1 == capacity:
                grow_levels(&levels, &capacity)
            if levels[depth].p < levels[depth].end:
                depth += walk_record(memory, &levels[depth], depth, is_deep, skip_lengths, end)
                continue
            if levels[depth].table == NULL:
                # A group without an end: its message is damaged.
                levels[depth - 1].p = levels[depth - 1].end
            depth -= 1
        return 0
    finally:
        document.pins -= 1
        free(levels)


cdef int grow_levels(Level** levels, Py_ssize_t* capacity) except -1:
    """Double the capacity of an array of levels."""
    cdef Py_ssize_t new_capacity = capacity[0] * 2 or 16
    cdef Level* new_levels = <Level*>realloc(levels[0], <size_t>new_capacity * sizeof(Level))
    if new_levels == NULL:
        raise MemoryError
    levels[0] = new_levels
    capacity[0] = new_capacity
    return 0


cdef int walk_record(
    PartialMemory memory, Level* level, Py_ssize_t depth, bint is_deep, const SkipLengths* skip_lengths,
    const uint8_t* readahead_end
) except -2:
    """Fetch the next record without a long value, or enter it.

    Returns the change of the depth: 1, 0, or -1 at the end of a group.
    level: the last entered Level of an array that has space for one more. readahead_end: the end of the walked message,
    up to which bytes may be fetched in advance.
    """
    cdef const uint8_t* record = level.p
    cdef const uint8_t* end = level.end
    cdef const uint8_t* p
    cdef const uint8_t* value
    cdef const Field* field
    cdef uint64_t n = 0
    cdef uint64_t skip_length
    cdef uint32_t tag = 0
    cdef uint64_t head_size = min(<uint64_t>MAX_HEAD_BYTES, <uint64_t>(end - record))
    if not memory.has(record, head_size):
        memory.fetch_ahead(record, head_size, readahead_end)
    p = read_any_tag(record, end, &tag)
    if p == NULL or (tag < 8 and level.table != NULL):
        level.p = end
        return 0
    if tag & 7 == WIRE_VARINT:
        p = read_varint(p, end, &n)
    elif tag & 7 == WIRE_FIXED32:
        p = p + 4 if end - p >= 4 else NULL
    elif tag & 7 == WIRE_FIXED64:
        p = p + 8 if end - p >= 8 else NULL
    elif tag & 7 == WIRE_START_GROUP and depth < MAX_MESSAGE_LEVELS + MAX_EXTRA_GROUP_LEVELS:
        # The end of a group is not known yet; it is at most the end of the message.
        level.p = p
        level[1].table = NULL
        level[1].record = record
        level[1].p = p
        level[1].end = end
        return 1
    elif tag & 7 == WIRE_END_GROUP and level.table == NULL:
        (level - 1).p = p
        return -1
    elif tag & 7 == WIRE_LEN:
        value = read_length(p, end, &n)
        p = value
        if value != NULL:
            p += n
            field = find_field(level.table, tag >> 3) if level.table != NULL else NULL
            if field != NULL and field.type == MESSAGE and n >= LONG_BYTES and is_deep and depth < MAX_MESSAGE_LEVELS:
                level.p = p
                level[1].table = field.sub
                level[1].record = record
                level[1].p = value
                level[1].end = p
                return 1
            skip_length = skip_lengths.data
            if field != NULL and field.type == MESSAGE and is_deep:
                skip_length = NO_LIMIT
            elif field != NULL and field.type == STRING:
                skip_length = skip_lengths.string
            elif field != NULL and field.repeated:
                if skip_lengths.is_read_entirely != NULL and skip_lengths.is_read_entirely(field, skip_lengths.context):
                    skip_length = NO_LIMIT
                elif field.size and field.wire == WIRE_VARINT:
                    skip_length = skip_lengths.packed
            if n < skip_length:
                if not memory.has(value, n):
                    memory.fetch_ahead(value, n, readahead_end)
            elif is_deep:
                memory.source.note_skipped_value(value - memory.start, p - memory.start, level.record - memory.start)
    else:
        p = NULL
    level.p = end if p == NULL else p
    return 0
