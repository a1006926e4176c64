# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The view of a message, and the getters of singular fields."""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.mem cimport PyObject_Free, PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset

from onnxwire._document cimport FAR, Steps, decode_error, prepare_step
from onnxwire._table cimport (
    BOOL, BYTES, DOUBLE, ENUM, FIXED32, FIXED64, FLOAT, FREE_LIST, INT32, INT64, MESSAGE, SFIXED32, SFIXED64, SINT32,
    SINT64, STRING, UINT32, UINT64, TableRef, find_field, has_value,
)
from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_FIXED32, WIRE_FIXED64, WIRE_VARINT, read_long_tag, zigzag32, zigzag64,
)

from onnxwire.errors import InUseError

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)
    PyTypeObject* Py_TYPE(PyObject* o)

ctypedef object (*Getter)(object view, void* field)

cdef enum:
    KEEP_RECORDS = 64     # slots of a message with at least so many records are kept by the document
    KEEP_BYTES = 256      # and are looked for where the message is at least so long
    BRIEF = 60            # characters of one value in a repr


# --- making and unmaking views

cdef object new_view(Table* table, Document document, const uint8_t* start, const uint8_t* end, Spans parts):
    """Make a view of the span; of `parts`, the first of which is the span, where they are not None."""
    cdef PyObject* o
    if table.n_dead:
        table.n_dead -= 1
        o = table.dead[table.n_dead]
    else:
        o = <PyObject*>PyObject_Malloc(<size_t>table.cls.tp_basicsize)
        if o == NULL:
            raise MemoryError
    PyObject_Init(o, table.cls)
    Py_INCREF(document)
    (<Message>o).document = <PyObject*>document
    (<Message>o).parts = NULL
    if parts is not None:
        Py_INCREF(parts)
        (<Message>o).parts = <PyObject*>parts
    (<Message>o).table = table
    (<Message>o).start = start
    (<Message>o).end = end
    (<Message>o).epoch = 0
    (<Message>o).flags = 0
    view = <object>o
    Py_DECREF(view)
    return view


cdef void dealloc_view(PyObject* o) noexcept:
    cdef Table* table = (<Message>o).table
    cdef PyObject* cls = <PyObject*>Py_TYPE(o)
    Py_DECREF(<object>(<Message>o).document)
    if (<Message>o).parts != NULL:
        Py_DECREF(<object>(<Message>o).parts)
    if table.n_dead < FREE_LIST:
        table.dead[table.n_dead] = o
        table.n_dead += 1
    else:
        PyObject_Free(o)
    Py_DECREF(<object>cls)


# --- filling the slots

cdef const uint8_t* scan_slots(
    const Table* table, const uint8_t* p, const uint8_t* end, Slot* slots, uint32_t* flags, uint64_t* records,
    Steps* steps
) noexcept nogil:
    """Fill the slots from one span; returns NULL, or the start of the first faulty record.

    The rules of presence live here: the last value of a singular field wins, the last member of a oneof wins, and what
    has another wire type than its field, or an enum value that a closed enum does not have, is an unknown field.
    """
    cdef const uint8_t* record
    cdef const uint8_t* value
    cdef Field* field
    cdef Slot* slot
    cdef uint64_t n = 0
    cdef uint32_t tag
    cdef uint32_t i
    cdef int wire
    while p < end:
        record = p
        tag = p[0]
        p += 1
        if tag >= 0x80:
            p = read_long_tag(record, end, &tag)
            if p == NULL:
                return record
        if tag < 8:
            return record
        wire = tag & 7
        value = p
        if wire == WIRE_LEN:
            p = read_length(p, end, &n)
            if p == NULL:
                return record
            value = p
            p += n
            if n >= FAR and p < end:
                prepare_step(steps, p)
        elif wire == WIRE_VARINT:
            p = read_varint(p, end, &n)
            if p == NULL:
                return record
        elif wire == WIRE_FIXED32:
            if end - p < 4:
                return record
            n = load32(p)
            p += 4
        elif wire == WIRE_FIXED64:
            if end - p < 8:
                return record
            n = load64(p)
            p += 8
        else:
            p = skip_value(p, end, tag, MAX_DEPTH)
            if p == NULL:
                return record
        records[0] += 1
        field = find_field(table, tag >> 3)
        if field == NULL:
            flags[0] |= HAS_UNKNOWN
            continue
        slot = &slots[field.slot]
        if field.repeated:
            if wire != field.wire and (wire != WIRE_LEN or field.size == 0):
                flags[0] |= HAS_UNKNOWN
                continue
            if slot.p == NULL:
                slot.p = record
            slot.n += 1
            continue
        if wire != field.wire or (field.closed and not has_value(field, <int32_t>n)):
            flags[0] |= HAS_UNKNOWN
            continue
        if slot.p != NULL and field.kind == MESSAGE:
            flags[0] |= HAS_MERGE
        for i in range(field.n_peers):
            slots[field.peers[i]].p = NULL
        slot.p = value
        slot.n = n
    return NULL


cdef struct Kept:
    # What stands behind the slots in the document's store.
    const Table* table
    uint32_t flags


cdef int refresh(Message self) except -1:
    """Fill the slots, from the document's store where it has them."""
    cdef Document document = <Document>self.document
    cdef Table* table = self.table
    cdef size_t size = table.n_fields * sizeof(Slot)
    cdef const uint8_t* fault
    cdef const Span* part
    cdef Py_ssize_t i
    cdef uint64_t records = 0
    cdef bytes kept
    cdef Kept tail
    document.check_open()
    if table.wide and total_size(self) >= KEEP_BYTES:
        kept = document.fills.get(<size_t>self.start)
        if kept is not None and <size_t>len(kept) == size + sizeof(Kept):
            memcpy(&tail, PyBytes_AS_STRING(kept) + size, sizeof(Kept))
            # Where the bytes were changed, the address may have come to hold another message.
            if tail.table == table:
                memcpy(self.slots, PyBytes_AS_STRING(kept), size)
                self.flags = tail.flags
                self.epoch = document.epoch
                return 0
    memset(self.slots, 0, size)
    self.flags = 0
    if self.parts == NULL:
        fault = scan_slots(table, self.start, self.end, self.slots, &self.flags, &records, &document.steps)
        if fault != NULL:
            raise decode_error(document, fault, self.end)
    else:
        for i in range((<Spans>self.parts).n):
            part = &(<Spans>self.parts).items[i]
            fault = scan_slots(table, part.p, part.p + part.n, self.slots, &self.flags, &records, &document.steps)
            if fault != NULL:
                raise decode_error(document, fault, part.p + part.n)
    if records >= KEEP_RECORDS and total_size(self) >= KEEP_BYTES:
        table.wide = True
        tail.table = table
        tail.flags = self.flags
        kept = PyBytes_FromStringAndSize(NULL, size + sizeof(Kept))
        memcpy(PyBytes_AS_STRING(kept), self.slots, size)
        memcpy(PyBytes_AS_STRING(kept) + size, &tail, sizeof(Kept))
        document.fills[<size_t>self.start] = kept
    self.epoch = document.epoch
    return 0


cdef int next_record(Cursor* cursor, uint32_t number, Record* record) noexcept nogil:
    """Read the next record of a field, of any field where number is 0.

    Returns 1 and the record; 0 at the end; -1 on damage, with the cursor still at the faulty record.
    """
    cdef const uint8_t* p
    cdef const uint8_t* end
    while True:
        while cursor.p >= cursor.end:
            if cursor.part == cursor.last_part or cursor.part == NULL:
                return 0
            cursor.part += 1
            cursor.p = cursor.part.p
            cursor.end = cursor.p + cursor.part.n
        end = cursor.end
        record.start = cursor.p
        record.n = 0
        p = read_tag(cursor.p, end, &record.tag)
        if p == NULL:
            return -1
        record.value = p
        if record.tag & 7 == WIRE_LEN:
            p = read_length(p, end, &record.n)
            if p == NULL:
                return -1
            record.value = p
            p += record.n
        elif record.tag & 7 == WIRE_VARINT:
            p = read_varint(p, end, &record.n)
        elif record.tag & 7 == WIRE_FIXED32 and end - p >= 4:
            record.n = load32(p)
            p += 4
        elif record.tag & 7 == WIRE_FIXED64 and end - p >= 8:
            record.n = load64(p)
            p += 8
        else:
            p = skip_value(p, end, record.tag, MAX_DEPTH)
        if p == NULL:
            return -1
        cursor.p = p
        if number == 0 or record.tag >> 3 == number:
            return 1


cdef Spans collect_parts(Message self, Field* field):
    """The spans that make up a singular message field: those since another member of its oneof stood last."""
    cdef Spans parts = Spans()
    cdef Cursor cursor
    cdef Record record
    cdef Field* peer
    start_cursor(&cursor, self, NULL)
    while next_record(&cursor, 0, &record) > 0:
        peer = find_field(self.table, record.tag >> 3)
        if peer == NULL or record.tag & 7 != peer.wire or (peer.closed and not has_value(peer, <int32_t>record.n)):
            continue
        if peer == field:
            parts.append(record.value, record.n)
        elif is_peer(field, peer):
            parts.n = 0
    return parts


cdef bint is_peer(const Field* field, const Field* other) noexcept nogil:
    cdef uint32_t i
    for i in range(field.n_peers):
        if field.peers[i] == other.slot:
            return True
    return False


# --- getters of singular fields, one a kind; `closure` is the Field

cdef object get_default(void* closure):
    return <object>(<Field*>closure).default


cdef object get_int64(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return <int64_t>slot.n if slot.p != NULL else get_default(closure)


cdef object get_uint64(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return slot.n if slot.p != NULL else get_default(closure)


cdef object get_int32(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return <int32_t>slot.n if slot.p != NULL else get_default(closure)


cdef object get_uint32(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return <uint32_t>slot.n if slot.p != NULL else get_default(closure)


cdef object get_sint64(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return zigzag64(slot.n) if slot.p != NULL else get_default(closure)


cdef object get_sint32(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return zigzag32(slot.n) if slot.p != NULL else get_default(closure)


cdef object get_bool(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return slot.n != 0 if slot.p != NULL else get_default(closure)


cdef object get_float(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    cdef uint32_t bits = <uint32_t>slot.n
    cdef float value
    if slot.p == NULL:
        return get_default(closure)
    memcpy(&value, &bits, 4)
    return value


cdef object get_double(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    cdef double value
    if slot.p == NULL:
        return get_default(closure)
    memcpy(&value, &slot.n, 8)
    return value


cdef object get_string(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    if slot.p == NULL:
        return get_default(closure)
    return PyUnicode_DecodeUTF8(<char*>slot.p, slot.n, "surrogateescape")


cdef object get_bytes(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    if slot.p == NULL:
        return get_default(closure)
    return PyBytes_FromStringAndSize(<char*>slot.p, slot.n)


cdef object get_message(Message self, void* closure):
    fill(self)
    cdef Field* field = <Field*>closure
    cdef Slot* slot = &self.slots[field.slot]
    cdef Spans parts
    if slot.p == NULL:
        return new_view(field.sub, <Document>self.document, self.end, self.end, None)
    if self.flags & HAS_MERGE:
        parts = collect_parts(self, field)
        if parts.n > 1:
            return new_view(
                field.sub, <Document>self.document, parts.items[0].p, parts.items[0].p + parts.items[0].n, parts
            )
    return new_view(field.sub, <Document>self.document, slot.p, slot.p + slot.n, None)


cdef void* singular_getter(int kind) noexcept:
    """The getter for a kind."""
    if kind == INT64 or kind == SFIXED64:
        return <void*>get_int64
    if kind == UINT64 or kind == FIXED64:
        return <void*>get_uint64
    if kind == INT32 or kind == SFIXED32 or kind == ENUM:
        return <void*>get_int32
    if kind == UINT32 or kind == FIXED32:
        return <void*>get_uint32
    if kind == SINT64:
        return <void*>get_sint64
    if kind == SINT32:
        return <void*>get_sint32
    if kind == BOOL:
        return <void*>get_bool
    if kind == FLOAT:
        return <void*>get_float
    if kind == DOUBLE:
        return <void*>get_double
    if kind == STRING:
        return <void*>get_string
    if kind == BYTES:
        return <void*>get_bytes
    return <void*>get_message


# --- values

cdef Table* table_of(cls) except NULL:
    """The table of a class that `make_classes` made."""
    table = getattr(cls, "_table", None)
    if not isinstance(table, TableRef) or not issubclass(cls, Message):
        raise TypeError(f"expected a message class, not {cls!r}")
    return (<TableRef>table).table


cdef object field_value(Message self, Field* field):
    """What the attribute of the field gives."""
    return (<Getter>field.get)(self, field)


cdef Field* named_field(Message self, name) except? NULL:
    """The field of a name, NULL for the name of a oneof; raises as protobuf does for any other."""
    cdef PyObject* place
    cdef Py_ssize_t i
    if isinstance(name, bytes):
        name = name.decode("utf-8", "surrogateescape")
    if not isinstance(name, str):
        raise ValueError(f"Expected a field name, but got non-string argument {name!r}.")
    place = PyDict_GetItemWithError(<object>self.table.names, name)
    if place == NULL:
        raise ValueError(f'Protocol message {type(self).__name__} has no "{name}" field.')
    i = <object>place
    return &self.table.fields[i] if i >= 0 else NULL


cdef str brief(Message self, Field* field):
    """One field for a repr; big values are counted, not read."""
    cdef Slot* slot = &self.slots[field.slot]
    cdef str name = (<object>field.descriptor).name
    cdef str text
    cdef Cursor cursor
    cdef Record record
    cdef uint64_t size = 0
    if field.kind == MESSAGE:
        kind = (<object>field.descriptor).message_type.name
        return f"{name}=[{slot.n:,} {kind}]" if field.repeated else f"{name}={kind}(...)"
    if field.repeated:
        start_cursor(&cursor, self, slot.p)
        while size <= 4 * BRIEF and next_record(&cursor, field.number, &record) > 0:
            size += record.n if record.tag & 7 == WIRE_LEN else 1
        if size > 4 * BRIEF:
            return f"{name}=[...]"
    if not field.repeated and field.wire == WIRE_LEN and slot.n > BRIEF:
        return f"{name}=<{slot.n:,} bytes>"
    text = repr(field_value(self, field))
    return f"{name}={text}" if len(text) <= BRIEF else f"{name}={text[:BRIEF]}..."


@cython.no_gc
cdef class Message:
    """A view of one message of a document. The classes of the messages of a schema derive from it.

    Nothing is decoded before it is asked for; fields are attributes, with protobuf's defaults where they are absent.
    Methods are those of protobuf's Python messages.
    """

    def __cinit__(self):
        raise TypeError("Message is the base of message classes and has no instances of its own")

    @classmethod
    def FromString(cls, data):
        """Make the message that is encoded in `data`.

        data: a bytes-like object; bytes are shared, anything else is copied.
        Raises DecodeError where the message's own records are damaged; those of messages in it are looked at when
        they are asked for (`onnxwire.verify` looks at all).
        """
        if not isinstance(data, bytes):
            if isinstance(data, str) or data is None:
                raise TypeError(f"expected bytes, {type(data).__name__} found")
            data = bytes(memoryview(data))
        return root_view(Document(data), cls)

    @property
    def _document(self):
        return document_of(self)

    @property
    def _is_doubtful(self):
        """Whether the message may be of another type: it has no known field, an unknown one, or no text in a string."""
        cdef Slot* slot
        cdef uint64_t k
        cdef uint32_t i
        cdef bint is_known = False
        fill(self)
        for i in range(self.table.n_fields):
            slot = &self.slots[i]
            if slot.p == NULL:
                continue
            is_known = True
            if self.table.fields[i].kind == STRING and not self.table.fields[i].repeated:
                for k in range(min(slot.n, <uint64_t>KEEP_BYTES)):
                    if slot.p[k] < 0x20 and slot.p[k] != 9 and slot.p[k] != 10 and slot.p[k] != 13:
                        return True
        return not is_known or self.flags & HAS_UNKNOWN != 0

    def _span(self, name=None):
        """Where in the document the message stands, or the last value of its singular field `name`: (start, end).

        None where it stands in several pieces or the field is absent.
        """
        cdef Field* field
        cdef Slot* slot
        cdef Document document = document_of(self)
        fill(self)
        if name is None:
            return None if self.parts != NULL else (self.start - document.start, self.end - document.start)
        field = named_field(self, name)
        if field == NULL:
            return None
        slot = &self.slots[field.slot]
        if field.repeated or field.wire != WIRE_LEN or slot.p == NULL:
            return None
        return slot.p - document.start, slot.p + slot.n - document.start

    def HasField(self, field_name):
        """Tell whether a singular field, or a member of the oneof of that name, is there.

        Raises ValueError for a name that the message does not have, and for a repeated field.
        """
        cdef Field* field = named_field(self, field_name)
        if field == NULL:
            return self.WhichOneof(field_name) is not None
        if field.repeated:
            raise ValueError(f"Field {(<object>field.descriptor).full_name} does not have presence.")
        fill(self)
        return self.slots[field.slot].p != NULL

    def WhichOneof(self, oneof_group):
        """The name of the member of a oneof that is there, or None.

        Raises ValueError for a name that is no oneof of the message.
        """
        if named_field(self, oneof_group) != NULL:
            raise ValueError(f'Protocol message {type(self).__name__} has no oneof "{oneof_group}".')
        if isinstance(oneof_group, bytes):
            oneof_group = oneof_group.decode()
        oneof = (<object>self.table.descriptor).oneofs_by_name[oneof_group]
        fill(self)
        for row in oneof.fields:
            if self.slots[named_field(self, row.name).slot].p != NULL:
                return row.name
        return None

    def ListFields(self):
        """List (FieldDescriptor, value) of every field that is there, by field number; repeated ones if not empty."""
        cdef Field* field
        cdef uint32_t i
        cdef list fields = []
        fill(self)
        for i in range(self.table.n_fields):
            field = &self.table.fields[i]
            if self.slots[i].p == NULL:
                continue
            value = field_value(self, field)
            if not field.repeated or value:
                fields.append((<object>field.descriptor, value))
        return fields

    def ByteSize(self):
        """The number of bytes that SerializeToString returns."""
        document_of(self).check_open()
        return total_size(self)

    def SerializeToString(self):
        """The message's encoding: its bytes, exactly as they stand in the document."""
        cdef Py_ssize_t i
        parts = []
        document_of(self).check_open()
        if self.parts == NULL:
            return PyBytes_FromStringAndSize(<const char*>self.start, self.end - self.start)
        for i in range((<Spans>self.parts).n):
            parts.append(PyBytes_FromStringAndSize(
                <const char*>(<Spans>self.parts).items[i].p, (<Spans>self.parts).items[i].n
            ))
        return b"".join(parts)

    def close(self):
        """Close the document that the message is a view of; every view of it raises ClosedError from then on.

        Raises InUseError while arrays or memoryviews look into it.
        """
        document_of(self).close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        try:
            document_of(self).close()
        except InUseError:
            # What the block itself raised matters more; the bytes go with the last array that looks into them.
            if error is None:
                raise

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        from onnxwire._equal import equal_views
        return equal_views(self, other)

    def __hash__(self):
        raise TypeError(f"unhashable type: '{type(self).__name__}'")

    def __repr__(self):
        cdef uint32_t i
        try:
            fill(self)
        except ValueError as error:
            return f"<{type(self).__qualname__}: {error}>"
        fields = []
        for i in range(self.table.n_fields):
            if self.slots[i].p != NULL:
                try:
                    fields.append(brief(self, &self.table.fields[i]))
                except ValueError as error:
                    fields.append(f"<{error}>")
        return f"{type(self).__qualname__}({', '.join(fields)})"

    def __deepcopy__(self, memo):
        return type(self).FromString(self.SerializeToString())

    def __reduce__(self):
        return type(self).FromString, (self.SerializeToString(),)


def root_view(Document document, cls):
    """The view of a whole document as a message of a class; its own records are looked at now."""
    view = new_view(table_of(cls), document, document.start, document.end, None)
    document.root = cls
    fill(view)
    return view
