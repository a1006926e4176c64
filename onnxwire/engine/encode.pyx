# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Serialization of messages with their edits; unchanged records are copied.

The length of a nested message precedes it, so the same code runs twice, first to measure and then to write. An
encoding in memory of at most MAX_SINGLE_PASS_BYTES that need not be deterministic is written in one pass, and each
nested message is moved if its length needs more than one byte. No other code may run between and during the passes, not
even a finalizer called by the garbage collector: it could change the elements that are iterated.

The functions `emit_*`, like `put_*` of `encoder.pxd`, put their output: they count its bytes in the measuring pass, and
write them in the writing pass.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_LEN, WIRE_VARINT, read_length, read_record, read_varint, varint_size, write_varint,
)
from onnxwire.engine.canonical cimport canonical_bits, has_canonical_records, raw_at
from onnxwire.engine.compact_overlay cimport CompactOverlay, Entry, base_of_compact, entries_of, fill_slots
from onnxwire.engine.damage cimport decode_error
from onnxwire.engine.document cimport EMPTY, FAR_SKIP_BYTES, Document, FarReads, Span, Spans, advise_copied
from onnxwire.engine.encoder cimport (
    Content, Edits, Encoder, check_source, fetch_for, put_bytes, put_number, put_tag, put_text, put_varint,
    require_records, scratch_of, source_changed_error,
)
from onnxwire.engine.memory cimport free, malloc, realloc
from onnxwire.engine.number_reader cimport NumberReader, next_number, number_error
from onnxwire.engine.number_runs cimport decode_run, locate_run
from onnxwire.engine.overlay cimport MAX_OVERLAY_DEPTH, Element, Elements, Numbers, Overlay, element_at
from onnxwire.engine.overlay_index cimport OverlayIndex, Pair, find_edits, has_edits, is_compact, overlay_of
from onnxwire.engine.partial cimport N_PARTIAL, is_resident
from onnxwire.engine.short_message cimport MAX_NESTED, ShortMessage, chunk_message
from onnxwire.engine.table cimport MESSAGE, Field, Slot, Table, find_field, has_value
from onnxwire.engine.view cimport (
    DROPS_UNKNOWN, HAS_MERGE, HAS_UNKNOWN, Cursor, Record, View, collect_parts, fill, find_overlay, is_unknown,
    next_record, next_usable, scan_slots, start_records,
)

from sys import byteorder

from onnxwire.engine.encoder import NotResident, TooLong
from onnxwire.errors import EditError

cdef bint LITTLE_ENDIAN = byteorder == "little"

cdef extern from "thresholds.h":
    enum:
        MIN_PIECE_BYTES "OW_LONG_BYTES"
        MAX_SMALL_BYTES "OW_MAX_SMALL_BYTES"
        MAX_SINGLE_PASS_BYTES "OW_MAX_SINGLE_PASS_BYTES"

# Flag in an entry of `Encoder.sizes`: the span is copied, and nested messages have no entries.
cdef uint64_t COPIED = <uint64_t>1 << 63


cdef int measure(Encoder self, View message) except -1:
    """Set `total` to the size of the message's encoding."""
    self.is_writing = False
    self.total = 0
    self.n = 0
    return emit_root(self, message)


cdef int write(Encoder self, View message) except -1:
    """Write the message that was measured."""
    cdef uint64_t size = self.total
    self.is_writing = True
    self.total = 0
    self.next = 0
    emit_root(self, message)
    if self.total != size:
        raise source_changed_error()
    return 0


cdef bytes encode_in_one_pass(Encoder self, View message, uint64_t limit):
    """Encode a message in one pass; returns None for more than `limit` bytes, or if bytes are not resident."""
    self.is_single_pass = self.is_writing = self.is_in_memory = True
    self.limit = limit
    self.total = 0
    self.p = self.start
    try:
        emit_root(self, message)
    except TooLong:
        return None
    return PyBytes_FromStringAndSize(<const char*>self.start, self.p - self.start)


cdef int emit_root(Encoder self, View message) except -1:
    """Put a message without a tag and length."""
    cdef Content content
    find_overlay(message)
    content = content_of_view(message)
    if <uint64_t>(content.end - content.start) >= FAR_SKIP_BYTES:
        advise_copied(<Document>content.document)
    self.depth = 0
    return emit_sized(self, &content, 0)


cdef Content content_of_view(View message) noexcept:
    """Return the Content of the message of a view."""
    cdef Content content
    content.table = message.table
    content.document = message.document
    content.overlay = message.overlay
    content.compact = NULL
    if content.overlay != NULL and (<Overlay>content.overlay).base != NULL:
        content.document = (<Overlay>content.overlay).base
    content.parts = message.parts
    content.start = message.start
    content.end = message.end
    return content


# --- messages

cdef int emit_sized(Encoder self, Content* content, uint32_t number) except -1:
    """Put a message after its tag and length; without them if `number`, the number of its field, is 0."""
    cdef Py_ssize_t index = self.n
    cdef uint64_t before = self.total
    cdef uint64_t size
    cdef uint64_t* sizes
    cdef Py_ssize_t capacity
    cdef bint is_copied = False
    if self.depth > MAX_OVERLAY_DEPTH:
        raise EditError(f"messages nested more than {MAX_OVERLAY_DEPTH:,} deep are not written")
    if not self.deterministic and emit_short(self, content, number):
        return 0
    if self.is_single_pass:
        return emit_in_one_pass(self, content, number)
    if self.is_writing:
        if self.next == self.n:
            raise source_changed_error()
        size = self.sizes[self.next]
        self.next += 1
        if number:
            put_varint(self, <uint64_t>number << 3 | WIRE_LEN)
            put_varint(self, size & ~COPIED)
        before = self.total
        if size & COPIED:
            put_bytes(self, content.start, <uint64_t>(content.end - content.start), content.document, NULL)
        else:
            self.depth += 1
            emit(self, content, &is_copied)
            self.depth -= 1
        if self.total - before != size & ~COPIED:
            raise source_changed_error()
        return 0
    if self.n == self.capacity:
        capacity = self.capacity * 2 or 64
        sizes = <uint64_t*>realloc(self.sizes, <size_t>capacity * sizeof(uint64_t))
        if sizes == NULL:
            raise MemoryError
        self.sizes = sizes
        self.capacity = capacity
    self.n += 1
    self.depth += 1
    emit(self, content, &is_copied)
    self.depth -= 1
    size = self.total - before
    if is_copied:
        # The second pass does not enter this message: drop the sizes of nested messages.
        self.n = index + 1
        size |= COPIED
    self.sizes[index] = size
    if number:
        put_varint(self, <uint64_t>number << 3 | WIRE_LEN)
        put_varint(self, size & ~COPIED)
    return 0


cdef bint emit_short(Encoder self, const Content* content, uint32_t number) except -1:
    """Put a short edited message, as `emit_sized` does; return False if it must be put by `emit`."""
    cdef ShortMessage short
    cdef Pair pair
    cdef PyObject* edits = content.overlay if content.overlay != NULL else content.compact
    cdef uint64_t n_free
    cdef int i
    if N_PARTIAL or content.parts != NULL or self.depth > MAX_OVERLAY_DEPTH - MAX_NESTED:
        return False
    if edits == NULL and not find_edits(content.document, content.start, content.end, &pair):
        return False
    short.size = short.n = short.records = short.depth = short.used = 0
    if not chunk_message(&short, content.table, content.document, edits, content.start, content.end):
        return False
    if content.document != NULL and content.document != self.unchanged_document:
        check_source(self, content.document)
    if number:
        put_varint(self, <uint64_t>number << 3 | WIRE_LEN)
        put_varint(self, short.size)
    self.total += short.size
    if not self.is_writing:
        return True
    n_free = <uint64_t>(self.end - self.p)
    if self.is_single_pass and n_free < short.size:
        self.grow(short.size)
    elif n_free < short.size:
        self.total -= short.size  # `put_bytes` adds it
        for i in range(short.n):
            put_bytes(self, short.chunks[i].p, short.chunks[i].n, NULL, NULL)
        return True
    for i in range(short.n):
        memcpy(self.p, short.chunks[i].p, short.chunks[i].n)
        self.p += short.chunks[i].n
    return True


cdef int emit_in_one_pass(Encoder self, Content* content, uint32_t number) except -1:
    """Put a message in a single pass; its length is inserted afterwards."""
    cdef bint ignored = False
    cdef Py_ssize_t offset
    cdef uint64_t size
    cdef int extra
    if number == 0:
        return emit(self, content, &ignored)
    put_varint(self, <uint64_t>number << 3 | WIRE_LEN)
    put_varint(self, 0)  # one byte for the length
    offset = self.p - self.start
    self.depth += 1
    emit(self, content, &ignored)
    self.depth -= 1
    size = <uint64_t>(self.p - self.start - offset)
    extra = varint_size(size) - 1
    if extra:
        self.grow(extra)
        memmove(self.start + offset + extra, self.start + offset, <size_t>size)
        self.p += extra
    write_varint(self.start + offset - 1, size)
    return 0


cdef int expand_edits(CompactOverlay compacted, Edits* edits, uint8_t* memory) except -1:
    """Set `edits` to arrays with the entries of a compact overlay.

    memory: zeroed memory for the arrays: a Slot, a pointer and a byte per field.
    """
    cdef Slot* slots = <Slot*>memory
    cdef PyObject** owners = <PyObject**>(slots + compacted.table.n_fields)
    cdef uint8_t* touched = <uint8_t*>(owners + compacted.table.n_fields)
    cdef const Entry* entry
    cdef uint32_t i
    for i in range(compacted.n):
        entry = &entries_of(compacted)[i]
        slots[entry.index] = entry.slot
        owners[entry.index] = entry.owner
        touched[entry.index] = entry.touched
    edits[0] = Edits(slots, owners, touched)
    return 0


cdef int emit(Encoder self, Content* content, bint* is_copied) except -1:
    """Put the content of a message; while measuring, set `is_copied` if its span can be copied unchanged."""
    cdef Overlay overlay
    cdef CompactOverlay compacted
    cdef Edits edits
    cdef Document document = <Document>content.document
    if content.document != NULL and content.document != self.unchanged_document:
        check_source(self, content.document)
    if content.overlay != NULL:
        overlay = <Overlay>content.overlay
        content.start = overlay.start
        content.end = overlay.end
        content.parts = overlay.parts
        if overlay.base != NULL:
            content.document = overlay.base
        if N_PARTIAL and overlay.start != NULL:
            require_records(self, content)
        edits = Edits(overlay.slots, overlay.owners, overlay.touched)
        if self.deterministic or overlay.start == NULL:
            return emit_fields(self, content, &edits, overlay.slots, overlay.flags)
        return emit_records(self, content, &edits, overlay.flags)
    if content.compact != NULL:
        compacted = <CompactOverlay>content.compact
        if N_PARTIAL and compacted.start != NULL:
            require_records(self, content)
        expand_edits(
            compacted, &edits,
            # The arrays, the `states` of `emit_records`, and one byte, so that the size is not 0.
            scratch_of(self, content.table.n_fields * (sizeof(Slot) + sizeof(PyObject*) + 2) + 1),
        )
        if self.deterministic or compacted.start == NULL:
            fill_slots(compacted, content.document, <Slot*>edits.slots)
            return emit_fields(self, content, &edits, edits.slots, compacted.flags)
        return emit_records(self, content, &edits, compacted.flags)
    if N_PARTIAL and (self.deterministic or content.parts != NULL or has_edits(document, content.start, content.end)):
        require_records(self, content)
    if content.parts != NULL or has_edits(document, content.start, content.end):
        if self.deterministic:
            return emit_scanned(self, content)
        return emit_records(self, content, NULL, 0) if content.parts != NULL else emit_around_edits(self, content)
    if not self.deterministic:
        is_copied[0] = True
        return put_bytes(self, content.start, <uint64_t>(content.end - content.start), content.document, NULL)
    if not self.is_writing and has_canonical_records(content.table, content.start, content.end):
        return measure_canonical(self, content, is_copied)
    return emit_scanned(self, content)


cdef int emit_span(
    Encoder self, const Field* field, Document document, const uint8_t* p, uint64_t n, Spans parts
) except -1:
    """Put a message of a document's bytes, with its edits."""
    cdef Pair pair
    cdef PyObject* index = <PyObject*>document.overlays
    if index == <PyObject*>None or not (<OverlayIndex>index).find(p, &pair):
        pair.address = 0
    return emit_edited_span(self, field, document, p, n, parts, &pair)


cdef int emit_edited_span(
    Encoder self, const Field* field, Document document, const uint8_t* p, uint64_t n, Spans parts, Pair* pair
) except -1:
    """Put a message of a document's bytes; pair: the first edits at or after p, or a Pair with address 0."""
    cdef Content content
    cdef Overlay overlay = None
    content.table = field.sub
    content.document = <PyObject*>document
    content.overlay = content.compact = NULL
    content.parts = <PyObject*>parts if parts is not None else NULL
    content.start = p
    content.end = p + n
    if pair.address == <size_t>p:
        if pair.edits == NULL:
            return 0  # a further part of a message that was already put
        if is_compact(pair):
            if (<CompactOverlay>pair.edits).table == field.sub:
                content.compact = pair.edits
                content.document = base_of_compact(<CompactOverlay>pair.edits, content.document)
                content.parts = NULL  # the message has other content than the bytes of `parts`
                content.start = (<CompactOverlay>pair.edits).start
                content.end = (<CompactOverlay>pair.edits).end
        else:
            overlay = overlay_of(pair, document)
            # If the file was written to, another message may be at this address now.
            if overlay.table == field.sub:
                content.overlay = <PyObject*>overlay
    return emit_sized(self, &content, field.number)


cdef int emit_assigned(
    Encoder self, const Field* field, Document document, const uint8_t* p, uint64_t n, PyObject* owner
) except -1:
    """Put the value or element of a message field of an overlay; document: the document of the overlay's bytes."""
    cdef Content content
    if owner == NULL:
        return emit_span(self, field, document, p, n, None)
    if not isinstance(<object>owner, Overlay):
        return emit_span(self, field, <Document>owner, p, n, None)
    content.table = field.sub
    content.document = <PyObject*>EMPTY
    content.overlay = owner
    content.compact = NULL
    content.parts = NULL
    content.start = content.end = NULL
    return emit_sized(self, &content, field.number)


# --- edited messages: unchanged records are copied, touched fields (see Overlay in overlay.pxd) are encoded

cdef enum:
    IN_BYTES = 1     # the field has records
    DONE = 2         # the field was put


cdef inline int next_any_record(Cursor* cursor, Record* record) noexcept nogil:
    """Read the next record of any field, as `next_record` does; inline for a message in one part."""
    cdef const uint8_t* p
    if cursor.part != NULL:
        return next_record(cursor, 0, record)
    if cursor.p >= cursor.end:
        return 0
    p = read_record(cursor.p, cursor.end, MAX_DEPTH, record)
    if p == NULL:
        return -1
    cursor.p = p
    return 1


cdef int emit_around_edits(Encoder self, Content* content) except -1:
    """Put a span that was not edited itself: copy its records, except for edited messages in them.

    The records after the last edit are not visited.
    """
    cdef Document document = <Document>content.document
    cdef const uint8_t* p = content.start
    cdef const uint8_t* copy_start = p   # start of consecutive records to be copied
    cdef const uint8_t* following
    cdef Record record
    cdef Pair pair
    cdef Field* field
    while p < content.end and find_edits(content.document, p, content.end, &pair):
        following = find_containing(p, content.end, pair.address, &record)
        if following == NULL:
            raise decode_error(document, record.start, content.end)
        p = following
        if record.tag & 7 != WIRE_LEN:
            continue
        field = find_field(content.table, record.tag >> 3)
        if is_unknown(field, &record) or field.type != MESSAGE:
            continue
        # The first edit may be at an address between two values, if the file was written to.
        if pair.address < <size_t>record.value and not find_edits(
            content.document, record.value, record.value + record.n, &pair
        ):
            continue
        copy_records(self, content, &copy_start, record.start)
        emit_edited_span(self, field, document, record.value, record.n, None, &pair)
        copy_start = p
    return copy_records(self, content, &copy_start, content.end)


cdef const uint8_t* find_containing(
    const uint8_t* p, const uint8_t* end, size_t address, Record* record
) noexcept nogil:
    """Read the first length-delimited record that ends at or after an address, or the last record if there is none.

    Requires p < end. Returns the end of the record, or NULL for a damaged record; its start is stored in `record`.
    """
    cdef const uint8_t* value
    cdef uint64_t n
    while True:
        # The common case: a tag of one byte, whose field number is not 0, and a length.
        if p[0] < 0x80 and p[0] & 7 == WIRE_LEN and p[0] > 7:
            value = read_length(p + 1, end, &n)
            if value != NULL and <size_t>(value + n) < address and value + n < end:
                p = value + n
                continue
        record.start = p
        p = read_record(p, end, MAX_DEPTH, record)
        if p == NULL or p == end or record.tag & 7 == WIRE_LEN and address <= <size_t>(record.value + record.n):
            return p


cdef int emit_records(Encoder self, Content* content, const Edits* edits, uint32_t flags) except -1:
    """Put the records of a message, each touched field in place of its first record; edits: NULL if there are none.

    A touched field without records is put before the first record of a field with a higher number, or after all known
    fields.
    """
    cdef Document document = <Document>content.document
    cdef const Table* table = content.table
    cdef bint drops_unknown = flags & DROPS_UNKNOWN
    cdef const uint8_t* copy_start = NULL  # start of consecutive records to be copied
    cdef const uint8_t* copy_end = NULL
    cdef uint8_t* states = NULL          # IN_BYTES and DONE per field
    cdef Py_ssize_t n_known = 0          # number of records of known fields that were not read yet
    # Touched fields without records were put up to this index; n_fields if all were, or if there are none.
    cdef uint32_t next_new = table.n_fields
    cdef Cursor cursor
    cdef Record record
    cdef Pair pair
    cdef Field* field
    cdef int status
    if edits != NULL:
        if content.compact != NULL:
            states = <uint8_t*>edits.touched + table.n_fields  # both arrays are in one allocation
        else:
            states = scratch_of(self, table.n_fields + 1)
        n_known = mark_known(content, states)
        for i in range(table.n_fields):
            if edits.touched[i] and not states[i] & IN_BYTES:
                next_new = 0
                break
        if n_known == 0:
            next_new = emit_new(self, content, edits, states, next_new, 0xFFFFFFFF)
    start_records(&cursor, content.start, content.end, content.parts, NULL)
    while True:
        status = next_any_record(&cursor, &record)
        if status < 0:
            raise decode_error(document, cursor.p, cursor.end)
        if status == 0:
            break
        field = find_field(table, record.tag >> 3)
        if is_unknown(field, &record):
            field = NULL
        if record.start != copy_end:
            copy_records(self, content, &copy_start, copy_end)
            copy_start = record.start
            copy_end = record.start
        if field == NULL:
            if drops_unknown:
                copy_records(self, content, &copy_start, copy_end)
            else:
                copy_end = cursor.p
            continue
        if next_new < table.n_fields and table.fields[next_new].number < field.number:
            copy_records(self, content, &copy_start, copy_end)
            next_new = emit_new(self, content, edits, states, next_new, field.number)
            copy_start = copy_end = record.start
        n_known -= 1
        if edits != NULL and edits.touched[field.slot]:
            copy_records(self, content, &copy_start, copy_end)
            if field.closed and record.tag & 7 == WIRE_LEN and not drops_unknown:
                emit_unknown_enum_values(self, field, &record)
            if not states[field.slot] & DONE:
                states[field.slot] |= DONE
                emit_touched(self, content, edits, field)
        elif field.type == MESSAGE and find_edits(<PyObject*>document, record.value, record.value + record.n, &pair):
            copy_records(self, content, &copy_start, copy_end)
            emit_edited_span(self, field, document, record.value, record.n, None, &pair)
        else:
            copy_end = cursor.p
        if n_known == 0 and next_new < table.n_fields:
            copy_records(self, content, &copy_start, copy_end)
            next_new = emit_new(self, content, edits, states, next_new, 0xFFFFFFFF)
            copy_start = copy_end = cursor.p
    copy_records(self, content, &copy_start, copy_end)
    if content.overlay != NULL:
        put_unknown(self, <Overlay>content.overlay)
    return 0


cdef int copy_records(Encoder self, Content* content, const uint8_t** copy_start, const uint8_t* end) except -1:
    """Put the bytes from `copy_start`, if that is not NULL, to `end`, and set `copy_start` to `end`."""
    if copy_start[0] != NULL and end > copy_start[0]:
        put_bytes(self, copy_start[0], <uint64_t>(end - copy_start[0]), content.document, NULL)
    copy_start[0] = end
    return 0


cdef Py_ssize_t mark_known(Content* content, uint8_t* states) except -1:
    """Set IN_BYTES for the fields that have records; returns the number of records of known fields."""
    cdef Py_ssize_t n_known = 0
    cdef Cursor cursor
    cdef Record record
    cdef Field* field
    start_records(&cursor, content.start, content.end, content.parts, NULL)
    while next_any_record(&cursor, &record) > 0:
        field = find_field(content.table, record.tag >> 3)
        if not is_unknown(field, &record):
            states[field.slot] |= IN_BYTES
            n_known += 1
    return n_known


cdef int64_t emit_new(
    Encoder self, Content* content, const Edits* edits, uint8_t* states, uint32_t next_new, uint32_t number
) except -1:
    """Put touched fields without records: those with an index of at least `next_new` and a number below `number`.

    Returns the value of `next_new` for the next call.
    """
    while next_new < content.table.n_fields and content.table.fields[next_new].number < number:
        if edits.touched[next_new] and not states[next_new] & IN_BYTES:
            emit_touched(self, content, edits, &content.table.fields[next_new])
        next_new += 1
    return next_new


cdef int put_unknown(Encoder self, Overlay overlay) except -1:
    """Put the unknown fields that were merged into an overlay."""
    cdef object unknown
    if overlay.unknown == NULL:
        return 0
    unknown = <object>overlay.unknown
    return put_bytes(
        self, <const uint8_t*>PyBytes_AS_STRING(unknown), PyBytes_GET_SIZE(unknown), NULL, overlay.unknown
    )


cdef int emit_touched(Encoder self, Content* content, const Edits* edits, const Field* field) except -1:
    """Put an edited field."""
    cdef const Slot* slot = &edits.slots[field.slot]
    cdef PyObject* owner = edits.owners[field.slot]
    cdef Elements elements
    cdef Element* element
    cdef Py_ssize_t i
    if slot.p == NULL:
        return 0
    if not field.repeated:
        if field.size:
            put_tag(self, field, field.wire)
            return put_number(self, field, slot.n)
        if field.type == MESSAGE:
            return emit_assigned(self, field, <Document>content.document, slot.p, slot.n, owner)
        return put_text(self, field, slot.p, slot.n, content.document, owner)
    if field.size:
        return emit_numbers(self, content, field, <Numbers>owner)
    elements = <Elements>owner
    for i in range(elements.n):
        element = element_at(elements, i)
        if field.type == MESSAGE:
            emit_assigned(self, field, <Document>content.document, element.p, element.n, element.owner)
        else:
            put_text(self, field, element.p, element.n, content.document, element.owner)
    return 0


cdef int emit_numbers(Encoder self, Content* content, const Field* field, Numbers numbers) except -1:
    """Put repeated numbers, packed if the field is."""
    cdef const uint8_t* items
    cdef uint64_t size = 0
    cdef uint64_t chunk_size
    cdef Span run = Span(NULL, 0)    # undecoded packed numbers, which precede `items`
    cdef Py_ssize_t n
    cdef Py_ssize_t i
    if numbers.run_end != NULL:
        if self.deterministic:
            decode_run(field, numbers, <Document>content.document)
        else:
            locate_run(field, numbers, <Document>content.document, &run)
    items = numbers.items
    n = numbers.n
    if n == 0 and run.n == 0:
        return 0
    if not field.packed:
        for i in range(n):
            put_tag(self, field, field.wire)
            put_number(self, field, raw_at(field, items, i))
        return 0
    if field.wire == WIRE_VARINT:
        for i in range(n):
            size += varint_size(raw_at(field, items, i))
    else:
        size = <uint64_t>n * field.size
    put_tag(self, field, WIRE_LEN)
    put_varint(self, run.n + size)
    if run.n:
        put_bytes(self, run.p, run.n, content.document, NULL)
    if not self.is_writing:
        self.total += size
        return 0
    if field.wire != WIRE_VARINT and LITTLE_ENDIAN:
        # The numbers are copied, whatever their size, because they may change.
        while size:
            chunk_size = min(size, <uint64_t>MIN_PIECE_BYTES - 1)
            put_bytes(self, items, chunk_size, NULL, NULL)
            items += chunk_size
            size -= chunk_size
        return 0
    for i in range(n):
        put_number(self, field, raw_at(field, items, i))
    return 0


# --- all fields in the order of their numbers, as the official serializer writes them

cdef int emit_scanned(Encoder self, Content* content) except -1:
    """Put the fields of a message that has no overlay."""
    cdef const Table* table = content.table
    cdef Slot* slots = <Slot*>malloc((table.n_fields or 1) * sizeof(Slot))
    cdef const uint8_t* fault = NULL
    cdef const uint8_t* end = content.end
    cdef Spans parts
    cdef FarReads far
    cdef uint32_t flags = 0
    cdef uint64_t records = 0
    cdef Py_ssize_t i
    if slots == NULL:
        raise MemoryError
    memset(slots, 0, table.n_fields * sizeof(Slot))
    memset(&far, 0, sizeof(far))
    try:
        if content.parts == NULL:
            fault = scan_slots(table, content.start, content.end, slots, &flags, &records, &far)
        else:
            parts = <Spans>content.parts
            for i in range(parts.n):
                end = parts.items[i].p + parts.items[i].n
                fault = scan_slots(table, parts.items[i].p, end, slots, &flags, &records, &far)
                if fault != NULL:
                    break
        if fault != NULL:
            raise decode_error(<Document>content.document, fault, end)
        return emit_fields(self, content, NULL, slots, flags)
    finally:
        free(slots)


cdef int emit_fields(
    Encoder self, Content* content, const Edits* edits, const Slot* slots, uint32_t flags
) except -1:
    """Put the fields by their numbers, then the unknown fields; edits: NULL if there are none."""
    cdef const Table* table = content.table
    cdef const Field* field
    cdef uint32_t i
    for i in range(table.n_fields):
        field = &table.fields[i]
        if slots[i].p == NULL:
            continue
        if edits != NULL and edits.touched[i]:
            emit_touched(self, content, edits, field)
        else:
            emit_unchanged(self, content, field, &slots[i], flags)
    return emit_all_unknown(self, content, flags)


cdef int emit_all_unknown(Encoder self, Content* content, uint32_t flags) except -1:
    """Put the unknown fields of the message's bytes, then the unknown fields that were merged in."""
    if (flags & HAS_UNKNOWN or content.table.has_closed_runs) and not flags & DROPS_UNKNOWN and content.start != NULL:
        emit_unknown(self, content)
    if content.overlay != NULL:
        put_unknown(self, <Overlay>content.overlay)
    return 0


cdef int emit_unchanged(Encoder self, Content* content, const Field* field, const Slot* slot, uint32_t flags) except -1:
    """Put a field that was not edited."""
    cdef Document document = <Document>content.document
    cdef Cursor cursor
    cdef Record record
    cdef Spans parts
    cdef uint64_t n_left = slot.n
    if field.repeated and field.size:
        return emit_unchanged_numbers(self, content, field, slot)
    if field.repeated:
        start_records(&cursor, content.start, content.end, content.parts, slot.p)
        while n_left:
            if next_usable(&cursor, field, &record) <= 0:
                raise decode_error(document, cursor.p, cursor.end)
            n_left -= 1
            if field.type == MESSAGE:
                emit_span(self, field, document, record.value, record.n, None)
            else:
                put_text(self, field, record.value, record.n, content.document, NULL)
        return 0
    if field.size:
        put_tag(self, field, field.wire)
        return put_number(self, field, canonical_bits(field, slot.n))
    if field.type != MESSAGE:
        return put_text(self, field, slot.p, slot.n, content.document, NULL)
    if flags & HAS_MERGE:
        start_records(&cursor, content.start, content.end, content.parts, NULL)
        parts = collect_parts(&cursor, content.table, field)
        if parts.n > 1:
            return emit_span(self, field, document, parts.items[0].p, parts.items[0].n, parts)
    return emit_span(self, field, document, slot.p, slot.n, None)


cdef int emit_unchanged_numbers(Encoder self, Content* content, const Field* field, const Slot* slot) except -1:
    """Put repeated numbers that were not edited, in canonical form."""
    cdef NumberReader reader
    cdef uint64_t size = 0
    cdef uint64_t raw = 0
    cdef int status
    cdef bint is_measuring = field.packed
    memset(&reader, 0, sizeof(reader))
    while True:
        # Two passes over packed numbers, the first for the length of their run.
        start_records(&reader.cursor, content.start, content.end, content.parts, slot.p)
        reader.n_records_left = slot.n
        reader.run = reader.p = reader.end = NULL
        if field.packed and not is_measuring:
            put_tag(self, field, WIRE_LEN)
            put_varint(self, size)
        status = next_number(&reader, field, &raw)
        while status > 0:
            if is_measuring:
                size += varint_size(raw) if field.wire == WIRE_VARINT else field.size
            else:
                if not field.packed:
                    put_tag(self, field, field.wire)
                put_number(self, field, raw)
            status = next_number(&reader, field, &raw)
        if status < 0:
            raise number_error(<Document>content.document, &reader, field)
        if not is_measuring or size == 0:
            return 0
        is_measuring = False


cdef int emit_unknown(Encoder self, Content* content) except -1:
    """Put the unknown fields of the bytes; put unknown values in a packed run of a closed enum as single records."""
    cdef Cursor cursor
    cdef Record record
    cdef Field* field
    start_records(&cursor, content.start, content.end, content.parts, NULL)
    while next_record(&cursor, 0, &record) > 0:
        field = find_field(content.table, record.tag >> 3)
        if is_unknown(field, &record):
            put_bytes(self, record.start, <uint64_t>(cursor.p - record.start), content.document, NULL)
        elif field.closed and record.tag & 7 == WIRE_LEN:
            emit_unknown_enum_values(self, field, &record)
    return 0


cdef int emit_unknown_enum_values(Encoder self, const Field* field, const Record* record) except -1:
    """Put the unknown values of a packed run of a closed enum."""
    cdef const uint8_t* p = record.value
    cdef const uint8_t* end = record.value + record.n
    cdef uint64_t value
    if not is_resident(p, record.n):
        if self.is_single_pass:
            raise TooLong  # give up the single pass; the two-pass encoder can fetch
        raise NotResident(None, None, <size_t>p, <size_t>end)
    while p != NULL and p < end:
        p = read_varint(p, end, &value)
        if p != NULL and not has_value(field, <int32_t>value):
            put_tag(self, field, WIRE_VARINT)
            put_varint(self, value)
    return 0


# --- deterministic encoding of spans that may be canonical

cdef int measure_canonical(Encoder self, Content* content, bint* is_copied) except -1:
    """Measure an unedited message with canonical records.

    The encoding may differ from the bytes of the message only in nested messages.
    Set `is_copied` if all nested messages are copied, too, so that the whole span is.
    """
    cdef uint64_t total = self.total + <uint64_t>(content.end - content.start)
    cdef Py_ssize_t index
    cdef bint are_all_copied = True
    cdef Cursor cursor
    cdef Record record
    cdef Field* field
    start_records(&cursor, content.start, content.end, NULL, NULL)
    while next_record(&cursor, 0, &record) > 0:
        field = find_field(content.table, record.tag >> 3)
        if field == NULL or field.type != MESSAGE:
            continue
        index = self.n
        self.total = 0
        emit_span(self, field, <Document>content.document, record.value, record.n, None)
        are_all_copied = are_all_copied and self.sizes[index] & COPIED
        total += self.total - <uint64_t>(cursor.p - record.start)
    self.total = total
    is_copied[0] = are_all_copied
    return 0


# --- in memory

cdef uint64_t encoded_size(View message) except? 0xFFFFFFFF:
    """Return the number of bytes of a message's encoding."""
    cdef Encoder encoder = Encoder(False)
    measure_and_fetch(encoder, message)
    return encoder.total


cdef int measure_and_fetch(Encoder encoder, View message) except -1:
    """Measure a message, and fetch the bytes that writing needs. Other code can run only before the last measurement.
    """
    while True:
        encoder.missing = None
        try:
            measure(encoder, message)
            if encoder.missing is None:
                return 0
            error = None
        except NotResident as not_resident:
            error = not_resident
        fetch_for(encoder, error)


cdef bytes encode(View message, bint deterministic):
    """Return the encoding of a message."""
    cdef Encoder encoder = Encoder(deterministic)
    cdef bytes data
    if not deterministic:
        data = encode_in_one_pass(encoder, message, MAX_SINGLE_PASS_BYTES)
        if data is not None:
            return data
        encoder = Encoder(False)
    encoder.is_in_memory = True
    measure_and_fetch(encoder, message)
    if encoder.total > <uint64_t>0x7FFFFFFFFFFFFFFF:
        raise MemoryError
    data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>encoder.total)
    encoder.start = encoder.p = <uint8_t*>PyBytes_AS_STRING(data)
    encoder.end = encoder.p + encoder.total
    write(encoder, message)
    return data


cdef bytes encode_if_small(View message, Encoder encoder):
    """Return the encoding of a message, or None if it is empty.

    Returns None also for a message that is longer than MAX_SMALL_BYTES or not resident.
    encoder: an Encoder to reuse, or None.
    """
    cdef bytes data
    if encoder is None:
        encoder = Encoder(False)
    data = encode_in_one_pass(encoder, message, MAX_SMALL_BYTES)
    return data or None


cdef bytes unknown_fields(View message):
    """Return the encoding of a message's unknown fields."""
    cdef Content content
    while True:
        fill(message)
        if message.flags & HAS_UNKNOWN == 0 and not message.table.has_closed_runs:
            return b""
        content = content_of_view(message)
        try:
            return content_unknown_fields(&content, message.flags)
        except NotResident as not_resident:
            error = not_resident
        fetch_for(None, error)


cdef bytes content_unknown_fields(Content* content, uint32_t flags):
    """Return the encoding of the unknown fields of a Content; raises NotResident if bytes must be fetched first."""
    cdef Encoder encoder = Encoder(True)
    cdef const Span* missing
    cdef bytes data
    encoder.is_in_memory = True
    emit_all_unknown(encoder, content, flags)
    if encoder.missing is not None:
        missing = encoder.missing.items
        raise NotResident(None, None, <size_t>missing.p, <size_t>(missing.p + missing.n))
    data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>encoder.total)
    encoder.start = encoder.p = <uint8_t*>PyBytes_AS_STRING(data)
    encoder.end = encoder.p + encoder.total
    encoder.is_writing = True
    emit_all_unknown(encoder, content, flags)
    return data
