# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The view of a message."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.mem cimport PyObject_Free, PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_CLEAR, Py_DECREF, Py_INCREF, Py_XDECREF, Py_XINCREF
from cython cimport critical_section
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_LEN, WIRE_START_GROUP, Record, read_length, read_record, read_varint,
)
from onnxwire.engine.compact_overlay cimport use_scanner
from onnxwire.engine.damage cimport decode_error
from onnxwire.engine.document cimport EMPTY, EPOCH_CLOSED, FAR_SKIP_BYTES, SLOTS, advise_far, copy_far
from onnxwire.engine.advise cimport OW_FIRST_BYTES, prefetch_block
from onnxwire.engine.free_list cimport as_object, put_free, take_free
from onnxwire.engine.header_copies cimport MAX_HEAD_BYTES, Copy, head_copy, shift_of, shifted
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.view_registry cimport (
    ViewKey, count_registered_views, lookup_view, clear_view_registry, register_view, unregister_view,
)
from onnxwire.engine.partial cimport N_PARTIAL
from onnxwire.engine.fetch_structure cimport fetch_span
from onnxwire.engine.overlay cimport owned, unlist_absent
from onnxwire.engine.overlay_index cimport is_unaffected, overlay_at
from onnxwire.engine.table cimport MESSAGE, TableRef, bit_of, find_field, has_value

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)
    PyTypeObject* Py_TYPE(PyObject* o)
    Py_ssize_t Py_REFCNT(PyObject* o)

from onnxwire.errors import FieldValueError

ctypedef object (*Getter)(object view, void* field)  # see getters.pyx

cdef extern from "thresholds.h":
    enum:
        MIN_CACHED_RECORDS "OW_MIN_CACHED_RECORDS"
        MIN_CACHED_BYTES "OW_MIN_CACHED_BYTES"


# --- creating and freeing views

@cython.no_gc
cdef class View:
    """The base of message classes, without their methods."""


cdef object new_view(Table* table, Document document, const uint8_t* start, const uint8_t* end, Spans parts):
    """Return a view of the span from start to end.

    parts: None, or all spans of the message; the first is the span from start to end.

    While identity is kept, an existing view of the message is returned.
    """
    cdef ViewKey key
    cdef View existing
    if KEEPS_IDENTITY and start != NULL:
        key = ViewKey(<PyObject*>document, start, table)
        existing = lookup_view(&key)
        if existing is not None and (existing.overlay != NULL or is_of_span(existing, end, parts)):
            return existing
        view = make_view(table, <PyObject*>document, start, end, NULL if parts is None else <PyObject*>parts)
        if existing is None:
            register_view(&key, <PyObject*>view)
        return view
    return make_view(table, <PyObject*>document, start, end, NULL if parts is None else <PyObject*>parts)


cdef object make_view(Table* table, PyObject* document, const uint8_t* start, const uint8_t* end, PyObject* parts):
    """Create a view, whether or not one exists; arguments as for `new_view`, borrowed, with NULL for None."""
    cdef PyObject* o = take_free(table.free_views, &table.n_free)
    if o == NULL:
        o = <PyObject*>PyObject_Malloc(<size_t>table.cls.tp_basicsize)
        if o == NULL:
            raise MemoryError
        PyObject_Init(o, table.cls)
    Py_INCREF(<object>document)
    Py_XINCREF(parts)
    (<View>o).document = document
    (<View>o).parts = parts
    (<View>o).overlay = NULL
    (<View>o).table = table
    (<View>o).start = start
    (<View>o).end = end
    (<View>o).epoch = 0
    (<View>o).flags = 0
    (<View>o).slots = (<View>o).own_slots
    return as_object(o)


cdef object overlay_view(Table* table, Document document, Overlay overlay):
    """Return a view of the message of an overlay; while identity is kept, return an existing one."""
    cdef ViewKey key
    cdef View existing = None
    if KEEPS_IDENTITY:
        key = overlay_key(table, <PyObject*>document, overlay)
        existing = lookup_view(&key)
        if existing is not None and existing.overlay == <PyObject*>overlay:
            if existing.document != <PyObject*>document:
                # The message was created on its own and then added to another message.
                set_document(existing, <PyObject*>document)
                existing.epoch = 0
            return existing
    view = make_view(table, <PyObject*>document, NULL, NULL, NULL)
    use_overlay(<View>view, overlay)
    (<View>view).epoch = document.epoch
    if KEEPS_IDENTITY and existing is None:
        register_view(&key, <PyObject*>view)
    return view


# --- one view per message

KEEPS_IDENTITY = False


@critical_section
def keep_identity(turned_on):
    """Turn identity of views on or off. While it is on, a message has one view. Existing views are not registered."""
    global KEEPS_IDENTITY
    KEEPS_IDENTITY = turned_on
    if not turned_on:
        clear_view_registry()


def count_views():
    """Return the number of registered views; 0 while identity is not kept."""
    with critical_section(EMPTY):
        return count_registered_views()


cdef ViewKey overlay_key(const Table* table, const void* document, Overlay overlay) noexcept:
    """Return the key, in the registry, of the views of an overlay."""
    if overlay.address != NULL:
        return ViewKey(document, overlay.address, table)
    return ViewKey(<PyObject*>overlay, NULL, table)


cdef ViewKey key_of(View self) noexcept:
    """Return the key of a view in the registry; the first edit of the message does not change it."""
    if self.overlay != NULL:
        return overlay_key(self.table, self.document, <Overlay>self.overlay)
    return ViewKey(self.document, self.start, self.table)


cdef bint is_of_span(View self, const uint8_t* end, Spans parts) noexcept:
    """Return whether a view has this end and these parts. The caller has found the view by its start.

    Of several parts, only their number and the start of the last are compared.
    """
    if self.parts == NULL or parts is None:
        return self.end == end and self.parts == NULL and parts is None
    return (<Spans>self.parts).n == parts.n and (
        (<Spans>self.parts).items[parts.n - 1].p == parts.items[parts.n - 1].p
    )


cdef uint64_t state_of(View self, const Field* field) noexcept:
    """Return a number that changes when the message is replaced or the field is cleared."""
    cdef uint64_t state
    if self.overlay == NULL:
        return 0
    state = <uint64_t>(<Overlay>self.overlay).generation << 32
    if (<Overlay>self.overlay).clears != NULL:
        state |= (<Overlay>self.overlay).clears[field.slot]
    return state


cdef void unregister(PyObject* o) noexcept:
    """Remove a view from the registry."""
    cdef ViewKey key
    with critical_section(EMPTY):
        key = key_of(<View>o)
        unregister_view(&key, o)


cdef void dealloc_view(PyObject* o) noexcept:
    """Implement tp_dealloc of the message classes."""
    cdef Table* table = (<View>o).table
    cdef PyObject* cls = <PyObject*>Py_TYPE(o)
    if KEEPS_IDENTITY:
        unregister(o)
    Py_DECREF(<object>(<View>o).document)
    if (<View>o).parts != NULL:
        Py_DECREF(<object>(<View>o).parts)
    if (<View>o).overlay != NULL:
        Py_DECREF(<object>(<View>o).overlay)
    if not put_free(table.free_views, &table.n_free, o):
        PyObject_Free(o)
        Py_DECREF(<object>cls)


# --- filling the slots

cdef enum:
    MAX_SHORT_STEPS = 4      # maximum number of copies in succession without a long value in between


cdef const uint8_t* scan_slots(
    const Table* table, const uint8_t* p, const uint8_t* end, Slot* slots, uint32_t* flags, uint64_t* records,
    FarReads* far
) noexcept nogil:
    """Fill the slots from one span; return NULL, or the start of the first damaged record.

    Implements protobuf's rules of presence: the last value of a singular field wins, the last member of a oneof wins,
    and a record with another wire type than its field, or with a value that its closed enum does not have, is an
    unknown field. Numbers of a repeated field may be packed or not, and their enum values are not examined here.
    slots: zeroed, or filled from the message's spans before this one. HAS_UNKNOWN and HAS_MERGE are added to `flags`,
    and the number of records to `records`.
    """
    return scan(table, p, end, slots, flags, records, far, NULL)


cdef inline const uint8_t* scan_with_copies(
    const Table* table, const uint8_t* p, const uint8_t* end, Slot* slots, uint32_t* flags, uint64_t* records,
    FarReads* far
) noexcept:
    """Fill the slots as `scan_slots` does; read the headers after long values in copies, made if necessary."""
    cdef const uint8_t* far_record = NULL
    cdef const uint8_t* fault
    if far.copies != NULL:
        far.copies.is_checked = False
    if p >= far.first_copy:
        return scan_copies(table, head_copy(far.copies, p), p, end, slots, flags, records, far)
    fault = scan(table, p, end, slots, flags, records, far, &far_record)
    if far_record == NULL:
        return fault
    return scan_copies(table, copy_far(far, far_record), far_record, end, slots, flags, records, far)


cdef const uint8_t* scan_copies(
    const Table* table, const Copy* copy, const uint8_t* p, const uint8_t* end, Slot* slots, uint32_t* flags,
    uint64_t* records, FarReads* far
) noexcept:
    """Implement `scan_with_copies` from p on; copy: a copy of the record at p, or NULL."""
    cdef const uint8_t* fault
    cdef const uint8_t* far_record
    cdef int short_steps = 0
    while True:
        far_record = NULL
        if copy == NULL:
            fault = scan(table, p, end, slots, flags, records, far, &far_record)
            if far_record == NULL or fault != NULL:
                return fault
            p = far_record
        else:
            fault = scan_copy(table, copy, &p, end, slots, flags, records, &far_record)
            if fault != NULL or p == end:
                return fault
        if far_record != NULL:
            copy = copy_far(far, p)
            short_steps = 0
        elif short_steps < MAX_SHORT_STEPS and <size_t>(p - far.copies.start) >= OW_FIRST_BYTES:
            copy = copy_far(far, p)
            short_steps += 1
        else:
            # p is in the first bytes of the file, which were requested when it was opened, or after many short records.
            copy = NULL


cdef const uint8_t* scan(
    const Table* table, const uint8_t* p, const uint8_t* end, Slot* slots, uint32_t* flags, uint64_t* records,
    FarReads* far, const uint8_t** far_record
) noexcept nogil:
    """Fill the slots as `scan_slots` does. If far_record is not NULL, end after a long value, and set *far_record to
    the next record.
    """
    cdef const uint8_t* start
    cdef const uint8_t* value
    cdef const uint8_t* end_of_block
    cdef Record record
    cdef Field* field
    cdef Slot* slot
    cdef uint64_t count = 0
    cdef uint64_t n = 0
    cdef uint32_t i
    while p < end:
        # Bytes in memory are often in the processor's cache, those of a mapped file rarely.
        end_of_block = end if far_record == NULL or far.copies == NULL else prefetch_block(p, end)
        while p < end_of_block:
            start = p
            count += 1
            if p[0] < 0x80 and table.quick[p[0]]:
                # The common case: a tag of one byte, with the wire type of its field.
                field = &table.fields[table.quick[p[0]] - 1]
                value = p + 1
                if field.wire == WIRE_LEN:
                    value = read_length(value, end, &n)
                    if value == NULL:
                        return start
                    p = value + n
                    if n >= FAR_SKIP_BYTES and p < end:
                        if far_record == NULL:
                            advise_far(far, p)
                        else:
                            far_record[0] = end = end_of_block = p
                else:
                    p = read_varint(value, end, &n)
                    if p == NULL:
                        return start
            else:
                p = read_record(p, end, MAX_DEPTH, &record)
                if p == NULL:
                    return start
                if record.tag & 7 == WIRE_LEN and record.n >= FAR_SKIP_BYTES and p < end:
                    if far_record == NULL:
                        advise_far(far, p)
                    else:
                        far_record[0] = end = end_of_block = p
                field = known_field(table, &record)
                if field == NULL:
                    flags[0] |= HAS_UNKNOWN
                    continue
                value = record.value
                n = record.n
            slot = &slots[field.slot]
            if field.repeated:
                if slot.p == NULL:
                    slot.p = start
                slot.n += 1
                continue
            if slot.p != NULL and field.type == MESSAGE:
                flags[0] |= HAS_MERGE
            for i in range(field.n_peers):
                slots[field.peers[i]].p = NULL
            slot.p = value
            slot.n = n
    records[0] += count
    return NULL


cdef const uint8_t* scan_copy(
    const Table* table, const Copy* copy, const uint8_t** next, const uint8_t* end, Slot* slots, uint32_t* flags,
    uint64_t* records, const uint8_t** far_record
) noexcept nogil:
    """Fill the slots from the records whose tag and number or length are in a copy; returns as `scan_slots`.

    next: the address of the first record, and afterwards of the first record that was not scanned. far_record: set to
    the latter address if that record follows a long value.
    """
    cdef size_t shift = shift_of(copy)
    cdef const uint8_t* p = shifted(next[0], 0 - shift)
    cdef const uint8_t* copy_end = shifted(end, 0 - shift)
    # The tag, and the number or length, of a record that starts before `limit` are in the copy.
    cdef const uint8_t* limit = copy.bytes + copy.n - MAX_HEAD_BYTES + 1
    cdef Record record
    cdef Field* field
    if <size_t>(copy_end - p) <= <size_t>(copy.bytes + copy.n - p):
        limit = copy_end
    while p < limit and p[0] & 7 != WIRE_START_GROUP:  # a group may end after the copy
        p = read_record(p, copy_end, MAX_DEPTH, &record)
        if p == NULL:
            return shifted(record.start, shift)
        record.start = shifted(record.start, shift)
        record.value = shifted(record.value, shift)
        records[0] += 1
        field = known_field(table, &record)
        if field == NULL:
            flags[0] |= HAS_UNKNOWN
        else:
            put_record(field, &record, slots, flags)
        if record.tag & 7 == WIRE_LEN and record.n >= FAR_SKIP_BYTES and p < copy_end:
            far_record[0] = shifted(p, shift)
            break
    next[0] = shifted(p, shift)
    return NULL


cdef inline Field* known_field(const Table* table, const Record* record) noexcept nogil:
    """Return the field of a record; NULL for an unknown field."""
    cdef Field* field = find_field(table, record.tag >> 3)
    cdef uint32_t wire = record.tag & 7
    if (
        field == NULL
        or wire != field.wire and not (field.repeated and wire == WIRE_LEN and field.size)
        or not field.repeated and field.closed and not has_value(field, <int32_t>record.n)
    ):
        return NULL
    return field


cdef inline void put_record(const Field* field, const Record* record, Slot* slots, uint32_t* flags) noexcept nogil:
    """Put a record of a known field into its slot."""
    cdef Slot* slot = &slots[field.slot]
    cdef uint32_t i
    if field.repeated:
        if slot.p == NULL:
            slot.p = record.start
        slot.n += 1
        return
    if slot.p != NULL and field.type == MESSAGE:
        flags[0] |= HAS_MERGE
    for i in range(field.n_peers):
        slots[field.peers[i]].p = NULL
    slot.p = record.value
    slot.n = record.n


cdef struct CachedTail:
    # The bytes after the slots in an entry of the cache SLOTS.
    const Table* table
    uint32_t flags


cdef int refresh(View self) except -1:
    """Fill the slots from the overlay, the document's cache, or the bytes, in this order."""
    cdef uint64_t records = 0
    if self.overlay != NULL:
        return refresh_any(self)
    if (<Document>self.document).overlays is not None:
        if is_unaffected(<Document>self.document, self.epoch, self.start):
            self.epoch = (<Document>self.document).epoch
            return 0
        return refresh_any(self)
    # The common case: a short message in a document without edits. The document has no cached slots of short messages.
    if (
        self.end - self.start < MIN_CACHED_BYTES and self.parts == NULL
        and (<Document>self.document).epoch != EPOCH_CLOSED
        and self.start < (<Document>self.document).far.first_copy and not N_PARTIAL
    ):
        memset(self.slots, 0, self.table.n_fields * sizeof(Slot))
        self.flags = 0
        if scan(
            self.table, self.start, self.end, self.slots, &self.flags, &records, &(<Document>self.document).far, NULL
        ) == NULL:
            self.epoch = (<Document>self.document).epoch
            return 0
    return refresh_any(self)


cdef int refresh_any(View self) except -1:
    """Implement `refresh` without its shortcuts."""
    cdef Document document = <Document>self.document
    cdef Table* table = self.table
    cdef size_t size = table.n_fields * sizeof(Slot)
    cdef const uint8_t* fault
    cdef const Span* part
    cdef Py_ssize_t i
    cdef uint64_t records = 0
    cdef bytes entry
    cdef CachedTail tail
    if self.overlay != NULL or document.overlays is not None or document.epoch == EPOCH_CLOSED:
        # This may turn a view of an absent message into a view of bytes whose slots are filled.
        if find_overlay(self) or self.epoch == (<Document>self.document).epoch:
            return 0
        document = <Document>self.document
    if document.cached_tables & bit_of(table) and is_long(self, MIN_CACHED_BYTES):
        entry = document.cached(SLOTS, self.start)
        if entry is not None and <size_t>len(entry) == size + sizeof(CachedTail):
            memcpy(&tail, PyBytes_AS_STRING(entry) + size, sizeof(CachedTail))
            if tail.table == table:
                memcpy(self.slots, PyBytes_AS_STRING(entry), size)
                self.flags = tail.flags
                self.epoch = document.epoch
                return 0
    if N_PARTIAL and fetch_records(self, document):
        return fill(self)
    memset(self.slots, 0, size)
    self.flags = 0
    if self.parts == NULL:
        fault = scan_with_copies(table, self.start, self.end, self.slots, &self.flags, &records, &document.far)
        if fault != NULL:
            raise decode_error(document, fault, self.end)
    else:
        for i in range((<Spans>self.parts).n):
            part = &(<Spans>self.parts).items[i]
            fault = scan_with_copies(table, part.p, part.p + part.n, self.slots, &self.flags, &records, &document.far)
            if fault != NULL:
                raise decode_error(document, fault, part.p + part.n)
    self.epoch = document.epoch
    if records >= MIN_CACHED_RECORDS and is_long(self, MIN_CACHED_BYTES):
        document.cached_tables |= bit_of(table)
        tail.table = table
        tail.flags = self.flags
        entry = PyBytes_FromStringAndSize(NULL, size + sizeof(CachedTail))
        memcpy(PyBytes_AS_STRING(entry), self.slots, size)
        memcpy(PyBytes_AS_STRING(entry) + size, &tail, sizeof(CachedTail))
        document.add_cached(SLOTS, self.start, entry)
        # `add_cached` may have run code that edited the message.
        return fill(self)
    return 0


cdef bint fetch_records(View self, Document document) except -1:
    """Fetch the records of a message; return whether code that ran meanwhile replaced or edited the message."""
    cdef const uint8_t* start = self.start
    cdef Spans parts
    cdef Py_ssize_t i
    if self.parts == NULL:
        fetch_span(document, self.table, start, self.end)
    else:
        parts = <Spans>self.parts
        for i in range(parts.n):
            fetch_span(document, self.table, parts.items[i].p, parts.items[i].p + parts.items[i].n)
    document.check_open()
    return self.start != start or <PyObject*>document != self.document or find_overlay(self)


cdef bint find_overlay(View self) except -1:
    """Find the overlay of the message, without reading its bytes; return whether it has one.

    Fills the slots of a view that has an overlay, or had one before.
    """
    cdef Document document = <Document>self.document
    cdef Overlay overlay
    if document.epoch == EPOCH_CLOSED:
        document.check_open()
    if self.overlay != NULL:
        if self.epoch != document.epoch:
            follow(self)
        return self.overlay != NULL
    if document.overlays is None:
        return False
    overlay = overlay_at(document, self.start)
    # If the bytes were replaced, the address may be the start of another message now.
    if overlay is None or overlay.table != self.table:
        return False
    use_overlay(self, overlay)
    self.epoch = document.epoch
    return True


cdef void use_overlay(View self, Overlay overlay) noexcept:
    """Make a view read from an overlay."""
    cdef PyObject* old = self.overlay
    cdef PyObject* parts = self.parts
    self.overlay = owned(overlay)
    self.parts = overlay.parts
    Py_XINCREF(self.parts)
    self.start = overlay.start
    self.end = overlay.end
    self.flags = overlay.flags
    self.slots = overlay.slots
    Py_XDECREF(parts)
    Py_XDECREF(old)


cdef int follow(View self) except -1:
    """Refresh a view with an overlay: its bytes may have been replaced, or an absent message may exist by now."""
    cdef Overlay overlay = <Overlay>self.overlay
    cdef View parent
    cdef View current
    cdef PyObject* old
    cdef ViewKey key
    if overlay.parent == NULL:
        use_overlay(self, overlay)
        self.epoch = (<Document>self.document).epoch
        return 0
    parent = <View>overlay.parent
    fill(parent)
    if overlay.expected_state != state_of(parent, overlay.field):
        # The parent was replaced, so that the absent message is no longer part of it.
        unlist_absent(overlay)
        Py_CLEAR(overlay.parent)
        self.epoch = (<Document>self.document).epoch
        return 0
    if parent.slots[overlay.field.slot].p == NULL:
        set_document(self, parent.document)
        self.epoch = (<Document>self.document).epoch
        return 0
    unlist_absent(overlay)
    current = field_value(parent, overlay.field)
    if current is self:
        return 0  # code that `fill` ran has refreshed this view already
    fill(current)
    if KEEPS_IDENTITY:
        key = key_of(self)
        unregister_view(&key, <PyObject*>self)
    if current.overlay != NULL:
        use_overlay(self, <Overlay>current.overlay)
    else:
        # Do not use `overlay`: `fill` may have run code that refreshed this view already.
        old = self.overlay
        self.overlay = NULL
        self.start = current.start
        self.end = current.end
        self.flags = current.flags
        self.slots = self.own_slots
        memcpy(self.own_slots, current.own_slots, self.table.n_fields * sizeof(Slot))
        Py_XINCREF(current.parts)
        Py_XDECREF(self.parts)
        self.parts = current.parts
        Py_XDECREF(old)
    set_document(self, current.document)
    self.epoch = current.epoch
    if KEEPS_IDENTITY:
        key = key_of(self)
        if Py_REFCNT(<PyObject*>current) == 1:
            # There is no other reference to the new view, so `self` becomes the view of the message.
            unregister_view(&key, <PyObject*>current)
        if lookup_view(&key) is None:
            register_view(&key, <PyObject*>self)
    return 0


cdef void set_document(View self, PyObject* document) noexcept:
    """Set the document of a view."""
    cdef PyObject* old = self.document
    Py_XINCREF(document)
    self.document = document
    Py_XDECREF(old)


cdef int next_record(Cursor* cursor, uint32_t number, Record* record) noexcept nogil:
    """Read the next record of the field `number`, or of any field if that is 0.

    Returns 1 and the record; 0 at the end; -1 on damage, with the cursor at the damaged record.
    """
    cdef const uint8_t* p
    while True:
        while cursor.p >= cursor.end:
            if cursor.part == cursor.last_part or cursor.part == NULL:
                return 0
            cursor.part += 1
            cursor.p = cursor.part.p
            cursor.end = cursor.p + cursor.part.n
        if cursor.p >= cursor.first_copy:
            p = read_copied(cursor, record)
        else:
            p = read_record(cursor.p, cursor.end, MAX_DEPTH, record)
        if p == NULL:
            return -1
        cursor.p = p
        if number == 0 or record.tag >> 3 == number:
            return 1


cdef const uint8_t* read_copied(Cursor* cursor, Record* record) noexcept nogil:
    """Read a record as `read_record` does, in a copy of its tag and its number or length, if there is one."""
    cdef const Copy* copy = head_copy(cursor.copies, cursor.p)
    cdef size_t shift = shift_of(copy)
    cdef const uint8_t* p = shifted(cursor.p, 0 - shift)
    if copy == NULL or p[0] & 7 == WIRE_START_GROUP:
        return read_record(cursor.p, cursor.end, MAX_DEPTH, record)
    p = read_record(p, shifted(cursor.end, 0 - shift), MAX_DEPTH, record)
    if p == NULL:
        return NULL
    record.start = cursor.p
    record.value = shifted(record.value, shift)
    return shifted(p, shift)


cdef bint is_unknown(const Field* field, const Record* record) noexcept nogil:
    """Return whether a record is an unknown field: by its number, wire type, or value of a closed enum.

    Unknown values in a packed run of a closed enum are unknown fields, too, but are not detected here.
    """
    cdef int wire = record.tag & 7
    if field == NULL:
        return True
    if wire != field.wire:
        return not (field.repeated and wire == WIRE_LEN and field.size)
    return field.closed and not has_value(field, <int32_t>record.n)


cdef Spans collect_parts(Cursor* cursor, const Table* table, const Field* field):
    """Return the spans of a singular message field, starting after the last record of another member of its oneof."""
    cdef Spans parts = Spans()
    cdef Record record
    cdef Field* peer
    while next_record(cursor, 0, &record) > 0:
        peer = find_field(table, record.tag >> 3)
        if is_unknown(peer, &record):
            continue
        if peer == field:
            parts.append(record.value, record.n)
        elif is_peer(field, peer):
            parts.n = 0
    return parts


cdef bint is_peer(const Field* field, const Field* other) noexcept nogil:
    """Return whether two fields are members of one oneof."""
    cdef uint32_t i
    for i in range(field.n_peers):
        if field.peers[i] == other.slot:
            return True
    return False


# --- values

cdef Table* table_of(cls) except NULL:
    """Return the table of a message class; raise TypeError for other objects."""
    table = getattr(cls, "_table", None)
    if not isinstance(table, TableRef) or not issubclass(cls, View):
        raise TypeError(f"expected a message class, not {cls!r}")
    return (<TableRef>table).table


cdef object field_value(View self, Field* field):
    """Return the value of a field, as its attribute does."""
    return (<Getter>field.get)(self, field)


cdef Field* named_field(View self, name) except? NULL:
    """Return the field of a name, or NULL for the name of a oneof; raise FieldValueError for other names."""
    cdef PyObject* index
    cdef Py_ssize_t i
    cdef Field* field = same_named_field(self, name)
    if field != NULL:
        return field
    if isinstance(name, bytes):
        name = name.decode("utf-8", "surrogateescape")
    if not isinstance(name, str):
        raise FieldValueError(f"Expected a field name, but got non-string argument {name!r}.")
    index = PyDict_GetItemWithError(<object>self.table.names, name)
    if index == NULL:
        raise FieldValueError(f'Protocol message {type(self).__name__} has no "{name}" field.')
    i = <object>index
    return &self.table.fields[i] if i >= 0 else NULL


use_scanner(scan_slots)
forbid_instantiation(View, b"the message classes of a table")
