# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The encoding of a short edited message as a list of byte ranges.

Programs edit many small messages, for example to rename each node. `emit_records` (`encode.pyx`) reads the records of
each twice, and measures before it writes: 2,200 instructions for a node. Here the records are read once.
Messages with unknown fields, long values, parts, many records, deep nesting, changed packed numbers, or values in other
files are left to `emit_records`, which puts fields in the same order.
"""
from cpython.object cimport PyTypeObject
from libc.stdint cimport uint32_t

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_FIXED32, WIRE_LEN, WIRE_VARINT, Record, read_length, read_record, read_varint, write_varint,
)
from onnxwire.engine.canonical cimport raw_at
from onnxwire.engine.compact_overlay cimport CompactOverlay, Entry, base_of_compact, entries_of
from onnxwire.engine.document cimport Document
from onnxwire.engine.overlay cimport Element, Elements, Numbers, Overlay, element_at
from onnxwire.engine.overlay_index cimport Pair, find_edits
from onnxwire.engine.table cimport MESSAGE, Field, Slot, find_field
from onnxwire.engine.view cimport is_unknown

cdef extern from "Python.h":
    PyTypeObject* Py_TYPE(PyObject* o)

cdef extern from "thresholds.h":
    enum:
        LONG_BYTES "OW_LONG_BYTES"

cdef enum:
    MAX_FIELDS = 64         # maximum number of fields of a table: a bit each
    MAX_RECORDS = 64        # maximum number of records, those of nested messages included
    MAX_HEAD_BYTES = 20     # maximum size of a tag and a length or number

cdef struct KnownRecord:
    # A record of a known field.
    const uint8_t* start
    const uint8_t* value
    uint32_t slot


cdef struct Changes:
    # The changed fields of an Overlay or CompactOverlay.
    uint64_t touched             # a bit per field
    const Slot* slots            # the slots of an Overlay
    PyObject** owners            # the owners of values (see Overlay), by slot
    const Entry* entries         # the entries of a CompactOverlay, else NULL


cdef bint chunk_message(
    ShortMessage* self, const Table* table, PyObject* document, PyObject* edits, const uint8_t* p, const uint8_t* end
) noexcept:
    """Append the encoding of a message without its tag and length; return whether it is complete.

    document: the document of the message's bytes, unless the edits have another one. edits: an Overlay, a
    CompactOverlay or NULL. p, end: the bytes of the message if `edits` is NULL. If the encoding is not complete, `self`
    is not usable.
    """
    cdef Changes changes
    cdef uint32_t i
    if table.n_fields > MAX_FIELDS:
        return False
    changes.touched = 0
    changes.entries = NULL
    if edits == NULL:
        return chunk_records(self, table, document, &changes, p, end)
    if Py_TYPE(edits) == <PyTypeObject*>CompactOverlay:
        if (<CompactOverlay>edits).table != table:
            return False
        if (<CompactOverlay>edits).base != NULL:
            document = base_of_compact(<CompactOverlay>edits, document)
            if is_file(document):
                return False
        changes.entries = entries_of(<CompactOverlay>edits)
        for i in range((<CompactOverlay>edits).n):
            if changes.entries[i].touched:
                changes.touched |= <uint64_t>1 << changes.entries[i].index
        p = (<CompactOverlay>edits).start
        end = (<CompactOverlay>edits).end
    else:
        if (<Overlay>edits).parts != NULL or (<Overlay>edits).unknown != NULL or (<Overlay>edits).table != table:
            return False
        if (<Overlay>edits).base != NULL:
            document = (<Overlay>edits).base
            if is_file(document):
                return False
        changes.slots = (<Overlay>edits).slots
        changes.owners = (<Overlay>edits).owners
        for i in range(table.n_fields):
            changes.touched |= <uint64_t>(is_touched(edits, i)) << i
        p = (<Overlay>edits).start
        end = (<Overlay>edits).end
    return chunk_records(self, table, document, &changes, p, end)


cdef inline bint is_touched(PyObject* overlay, uint32_t i) noexcept:
    """Return whether the field with the slot i of an Overlay was edited."""
    return (<Overlay>overlay).touched[i] != 0


cdef inline bint is_file(PyObject* document) noexcept:
    """Return whether the bytes of a document are in a file, which must be checked before they are read."""
    return (<Document>document).backing is not None and (<Document>document).backing.descriptor >= 0


# --- chunks

# The functions `add_*` return False if the message can't be encoded here; then `self` is not usable.

cdef inline bint add_chunk(ShortMessage* self, const uint8_t* p, uint64_t n) noexcept:
    """Append a range of bytes. A range that directly follows the last chunk in memory is joined to that chunk."""
    cdef Chunk* last
    self.size += n
    if self.n:
        last = &self.chunks[self.n - 1]
        if last.p + last.n == p:
            last.n += n
            return True
    if self.n == MAX_SHORT_CHUNKS:
        return False
    self.chunks[self.n].p = p
    self.chunks[self.n].n = n
    self.n += 1
    return True


cdef inline bint add_head(ShortMessage* self, const Field* field, int wire, uint64_t value) noexcept:
    """Append a tag and a length or varint."""
    cdef uint8_t* p = self.scratch + self.used
    cdef uint8_t* end
    if self.used > SCRATCH_BYTES - MAX_HEAD_BYTES:
        return False
    end = write_varint(p, <uint64_t>field.number << 3 | wire)
    end = write_varint(end, value)
    self.used = <int>(end - self.scratch)
    return add_chunk(self, p, <uint64_t>(end - p))


cdef inline bint add_number(ShortMessage* self, const Field* field, uint64_t raw) noexcept:
    """Append the record of a number, given its raw bits."""
    cdef uint8_t* p = self.scratch + self.used
    cdef uint8_t* end
    cdef int i
    if field.wire == WIRE_VARINT:
        return add_head(self, field, WIRE_VARINT, raw)
    if self.used > SCRATCH_BYTES - MAX_HEAD_BYTES:
        return False
    end = write_varint(p, <uint64_t>field.number << 3 | field.wire)
    for i in range(4 if field.wire == WIRE_FIXED32 else 8):
        end[i] = <uint8_t>(raw >> 8 * i)
    end += 4 if field.wire == WIRE_FIXED32 else 8
    self.used = <int>(end - self.scratch)
    return add_chunk(self, p, <uint64_t>(end - p))


cdef inline bint add_text(
    ShortMessage* self, const Field* field, const uint8_t* p, uint64_t n, PyObject* owner
) noexcept:
    """Append a string or bytes; owner: that of the value, or NULL if it is in the document of the message."""
    if n >= LONG_BYTES or owner != NULL and Py_TYPE(owner) == <PyTypeObject*>Document and is_file(owner):
        return False
    return add_head(self, field, WIRE_LEN, n) and add_chunk(self, p, n)


# --- messages

cdef bint add_message(
    ShortMessage* self, const Field* field, PyObject* document, PyObject* edits, const uint8_t* p, const uint8_t* end
) noexcept:
    """Append a message with its edits (see chunk_message), tag and length."""
    cdef uint64_t before = self.size
    cdef uint64_t size
    cdef uint8_t* head = self.scratch + self.used
    cdef uint8_t* head_end
    cdef int i = self.n
    # The length is known afterwards: reserve a chunk, and bytes for the tag and length.
    if self.n == MAX_SHORT_CHUNKS or self.used > SCRATCH_BYTES - MAX_HEAD_BYTES or self.depth == MAX_NESTED:
        return False
    self.chunks[i].p = NULL
    self.chunks[i].n = 0
    self.n += 1
    self.used += MAX_HEAD_BYTES
    self.depth += 1
    if not chunk_message(self, field.sub, document, edits, p, end):
        return False
    self.depth -= 1
    size = self.size - before
    head_end = write_varint(head, <uint64_t>field.number << 3 | WIRE_LEN)
    head_end = write_varint(head_end, size)
    self.chunks[i].p = head
    self.chunks[i].n = <uint64_t>(head_end - head)
    self.size += self.chunks[i].n
    return True


cdef bint add_span(
    ShortMessage* self, const Field* field, PyObject* document, const uint8_t* p, uint64_t n
) noexcept:
    """Append a message of a document's bytes, with its tag and length, and with its edits if there are any."""
    cdef Pair pair
    if not find_edits(document, p, p + n, &pair):
        return add_head(self, field, WIRE_LEN, n) and add_chunk(self, p, n)
    if pair.address != <size_t>p:
        return add_message(self, field, document, NULL, p, p + n)
    # The parts of a message after its first part are registered without edits.
    return pair.edits != NULL and add_message(self, field, document, pair.edits, p, p + n)


cdef bint add_assigned(
    ShortMessage* self, const Field* field, PyObject* document, const uint8_t* p, uint64_t n, PyObject* owner
) noexcept:
    """Append a value or element of a message field of an overlay; owner: see Overlay; NULL for a span of `document`."""
    if owner == NULL:
        return document != NULL and n < LONG_BYTES and add_span(self, field, document, p, n)
    if Py_TYPE(owner) == <PyTypeObject*>Overlay:
        return add_message(self, field, NULL, owner, NULL, NULL)
    return n < LONG_BYTES and not is_file(owner) and add_span(self, field, owner, p, n)


cdef bint add_touched(ShortMessage* self, const Field* field, PyObject* document, const Changes* changes) noexcept:
    """Append a changed field."""
    cdef const Slot* slot = NULL
    cdef PyObject* owner = NULL
    cdef const Entry* entry
    cdef const Element* element
    cdef Py_ssize_t i, n
    if changes.entries == NULL:
        slot = &changes.slots[field.slot]
        owner = changes.owners[field.slot]
    else:
        entry = changes.entries
        while entry.index != field.slot:
            entry += 1
        slot = &entry.slot
        owner = entry.owner
    if slot.p == NULL:
        return True
    if not field.repeated:
        if field.size:
            return add_number(self, field, slot.n)
        if field.type == MESSAGE:
            return add_assigned(self, field, document, slot.p, slot.n, owner)
        return add_text(self, field, slot.p, slot.n, owner)
    if field.size:
        n = (<Numbers>owner).n
        if field.packed or n > MAX_SHORT_CHUNKS:
            return False
        for i in range(n):
            if not add_number(self, field, raw_at(field, (<Numbers>owner).items, i)):
                return False
        return True
    n = (<Elements>owner).n
    if n > MAX_SHORT_CHUNKS:
        return False
    for i in range(n):
        element = element_at(<Elements>owner, i)
        if field.type == MESSAGE:
            if not add_assigned(self, field, document, element.p, element.n, element.owner):
                return False
        elif not add_text(self, field, element.p, element.n, element.owner):
            return False
    return True


cdef bint add_fields(
    ShortMessage* self, const Table* table, PyObject* document, const Changes* changes, uint64_t fields
) noexcept:
    """Append changed fields, given as bits, in the order of their numbers."""
    cdef uint32_t i = 0
    while fields:
        if fields & 1 and not add_touched(self, &table.fields[i], document, changes):
            return False
        fields >>= 1
        i += 1
    return True


cdef bint chunk_records(
    ShortMessage* self, const Table* table, PyObject* document, const Changes* changes, const uint8_t* p,
    const uint8_t* end
) noexcept:
    """Append the records of a message, each changed field in place of its first record.

    A changed field without records is inserted where ascending field numbers place it, as by `emit_records`.
    """
    cdef KnownRecord[MAX_RECORDS] known
    cdef const Field* field
    cdef Record record
    cdef Pair pair
    cdef uint64_t present = 0    # a bit per field that has records
    cdef uint64_t added          # a bit per changed field without records that was not appended yet
    cdef uint64_t below          # the bits of `added` with lower numbers than the next record
    cdef uint64_t n = 0
    cdef uint32_t i
    cdef int count = 0
    cdef int k
    cdef const uint8_t* following
    cdef bint has_nested
    if <uint64_t>(end - p) >= LONG_BYTES:
        return False
    has_nested = p != end and find_edits(document, p + 1, end, &pair)
    while p < end:
        if self.records == MAX_RECORDS:
            return False
        self.records += 1
        known[count].start = p
        i = table.quick[p[0]] if p[0] < 0x80 else 0
        if i:
            i -= 1
            field = &table.fields[i]
            p += 1
            if field.wire == WIRE_LEN:
                p = read_length(p, end, &n)
                known[count].value = p
                if p != NULL:
                    p += n
            else:
                p = read_varint(p, end, &n)
        else:
            p = read_record(p, end, MAX_DEPTH, &record)
            if p == NULL:
                return False
            field = find_field(table, record.tag >> 3)
            if is_unknown(field, &record) or field.closed and record.tag & 7 == WIRE_LEN:
                return False
            known[count].value = record.value
            i = field.slot
        if p == NULL:
            return False
        known[count].slot = i
        present |= <uint64_t>1 << i
        count += 1
    added = changes.touched & ~present
    if count == 0:
        return add_fields(self, table, document, changes, added)
    present = changes.touched & present  # changed fields with records that are not appended yet
    for k in range(count):
        i = known[k].slot
        following = known[k + 1].start if k + 1 < count else end
        if added:
            below = added & ((<uint64_t>1 << i) - 1)
            if below:
                if not add_fields(self, table, document, changes, below):
                    return False
                added &= ~below
        if changes.touched >> i & 1:
            if present >> i & 1:
                present &= ~(<uint64_t>1 << i)
                if not add_touched(self, &table.fields[i], document, changes):
                    return False
            continue
        field = &table.fields[i]
        if has_nested and field.type == MESSAGE and find_edits(document, known[k].value, following, &pair):
            if not add_span(self, field, document, known[k].value, <uint64_t>(following - known[k].value)):
                return False
        elif not add_chunk(self, known[k].start, <uint64_t>(following - known[k].start)):
            return False
    return add_fields(self, table, document, changes, added)
