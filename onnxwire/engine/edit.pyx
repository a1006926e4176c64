# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Edits of a message: setters of singular fields, nested messages, clearing, copying, constructor keywords.

Arguments are checked before the first change: an edit with an invalid argument changes nothing.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.number cimport PyNumber_Index
from cpython.ref cimport Py_CLEAR
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from onnxwire.engine.document cimport EMPTY, EPOCH_CLOSED, part_of_bytes
from onnxwire.engine.encode cimport encode_if_small
from onnxwire.engine.overlay cimport count_clear, exchange, new_overlay, owned, put_value, unlist_absent
from onnxwire.engine.overlay_copy cimport copy_bytes, copy_overlay, copy_span
from onnxwire.engine.overlay_index cimport advance_epoch, edit_again, prefers_compact, register_edit, register_overlay
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.table cimport (
    BOOL, BYTES, DOUBLE, ENUM, FIXED32, FIXED64, FLOAT, INT32, MESSAGE, SFIXED32, SINT32, SINT64, STRING,
    UINT32, UINT64, Slot, has_value,
)
from onnxwire.engine.view cimport (
    use_overlay, document_of, field_value, fill, find_overlay, named_field, new_view, overlay_view,
)

cdef extern from "Python.h":
    int Py_EnterRecursiveCall(const char* where) except *
    void Py_LeaveRecursiveCall()
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    bint PyUnicode_IS_COMPACT_ASCII(object text) noexcept
    const uint8_t* PyUnicode_1BYTE_DATA(object text) noexcept
    Py_ssize_t PyUnicode_GET_LENGTH(object text) noexcept
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    Py_buffer* PyMemoryView_GET_BUFFER(object view)
    int PyGC_Disable()
    int PyGC_Enable()
    unsigned long long PyLong_AsUnsignedLongLong(object value) except? <unsigned long long>-1

from onnxwire.engine.descriptor import INTEGER_RANGES
from onnxwire.errors import (
    FieldAttributeError, FieldBytesError, FieldOverflowError, FieldTextError, FieldTypeError, FieldValueError,
)

ctypedef int (*Setter)(View view, PyObject* value, void* field) except -1


cdef object field_error(const Field* field, type error_class, str reason):
    """Make an error about a field, with its full name."""
    return error_class(reason, (<object>field.descriptor).full_name)


# --- the overlay of a message

cdef Overlay start_edit(View self):
    """Implement `edit` for an absent message, a message without an overlay, or an outdated view.

    Some steps may run other code, which may edit the same message; the state is read again after each of them.
    """
    cdef Document document
    cdef Overlay overlay
    cdef View parent
    while True:
        fill(self)
        if self.overlay == NULL:
            document = <Document>self.document
            return make_overlay(self, document)
        overlay = <Overlay>self.overlay
        if overlay.parent == NULL:
            return overlay
        parent = <View>overlay.parent
        if parent.overlay != NULL and (<Overlay>parent.overlay).parent == NULL:
            put_into_parent(overlay, parent)
        else:
            start_edit(parent)


cdef Overlay make_overlay(View self, Document document):
    """Make and register the overlay of a message of a document's bytes."""
    cdef Overlay overlay = new_overlay(self.table, document.depth + 1)
    memcpy(overlay.slots, self.slots, self.table.n_fields * sizeof(self.slots[0]))
    overlay.start = self.start
    overlay.end = self.end
    overlay.flags = self.flags
    if self.parts != NULL:
        overlay.parts = owned(<object>self.parts)
    register_overlay(document, overlay)
    # If the file was written to, registering may have released another overlay of this address, and run other code.
    document.check_open()
    advance_epoch(document, overlay.address)
    use_overlay(self, overlay)
    self.epoch = document.epoch
    return overlay


cdef int put_into_parent(Overlay self, View parent) except -1:
    """Make an absent message present in its parent, which has an overlay."""
    unlist_absent(self)
    advance_epoch(<Document>parent.document, (<Overlay>parent.overlay).address)
    # The destructor of a released value may read this message, which then must not look absent.
    Py_CLEAR(self.parent)  # `parent` is another reference to it, so no other code runs here
    put_value(<Overlay>parent.overlay, self.field, presence_mark(), 0, <PyObject*>self)
    return 0


cdef int put_singular(View self, const Field* field, const uint8_t* p, uint64_t n, PyObject* owner) except -1:
    """Set a singular field whose type is not a message, as `put_value` does."""
    cdef Document document = <Document>self.document
    cdef Slot slot
    if self.overlay == NULL:
        slot.p = p
        slot.n = n
        # The message of an up-to-date view without an overlay was not edited, so only messages of outdated views are
        # looked up.
        if self.epoch != document.epoch and self.parts == NULL and document.epoch != EPOCH_CLOSED and edit_again(
            document, self.table, self.start, field, &slot, owner
        ):
            return 0
        fill(self)
        if self.overlay == NULL and self.parts == NULL and prefers_compact() and register_edit(
            <Document>self.document, self.table, self.start, self.end, self.flags, field, &slot, owner
        ):
            return 0
    put_value(edit(self), field, p, n, owner)
    return 0


cdef uint32_t depth_of(View self):
    """Return the depth of the message's overlay, or the depth that its first edit would give it."""
    return (<Overlay>self.overlay).depth if self.overlay != NULL else (<Document>self.document).depth + 1


cdef object new_message(Table* table):
    """Return a new empty message."""
    return overlay_view(table, EMPTY, new_overlay(table, 0))


# --- values of singular fields

cdef int read_integer(const Field* field, object value, int64_t* low) except -1:
    """Convert an int to 64 bits in `low`; returns 1 for 2**63 to 2**64 - 1 (the bits are a uint64), else 0."""
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        if isinstance(value, bool):
            raise field_error(field, FieldTypeError, "expected an int, found a bool")
        try:
            value = PyNumber_Index(value)
        except TypeError:
            raise field_error(field, FieldTypeError, f"expected an int, found {type(value).__name__}") from None
    low[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow == 0:
        return 0
    if overflow > 0 and value >> 64 == 0:
        low[0] = <int64_t>PyLong_AsUnsignedLongLong(value)
        return 1
    raise range_error(field, value)


cdef object range_error(const Field* field, value):
    """Return the error for an int that the type of a field can't store."""
    return field_error(field, FieldValueError, f"{value} is out of the range of {INTEGER_RANGES[field.type][0]}")


cdef int read_number(const Field* field, object value, uint64_t* raw) except -1:
    """Convert a Python number, or the name of an enum value, to raw bits.

    raw: the bits of a fixed-size number, or the number that a varint encodes.
    """
    cdef int field_type = field.type
    cdef int64_t low = 0
    cdef bint exceeds_int64
    cdef double real
    cdef float single
    cdef uint32_t bits
    if field_type == FLOAT or field_type == DOUBLE:
        try:
            if not PyFloat_CheckExact(value) and type(value).__name__ == "ndarray":
                raise TypeError  # float() would accept an array of one number
            real = PyFloat_AsDouble(value)
        except OverflowError as error:
            raise field_error(field, FieldOverflowError, str(error)) from None
        except TypeError:
            raise field_error(field, FieldTypeError, f"expected a float, found {type(value).__name__}") from None
        except ValueError as error:
            raise field_error(field, FieldValueError, str(error)) from None
        if field_type == DOUBLE:
            memcpy(raw, &real, 8)
            return 0
        single = <float>real
        memcpy(&bits, &single, 4)
        raw[0] = bits
        return 0
    if field_type == BOOL:
        if value is True or value is False:
            raw[0] = value is True
            return 0
        raw[0] = read_bool(field, value)
        return 0
    if field_type == ENUM and isinstance(value, str):
        value = enum_number(field, value)
    exceeds_int64 = read_integer(field, value, &low)
    if field_type == UINT64 or field_type == FIXED64:
        if not exceeds_int64 and low < 0:
            raise range_error(field, value)
    elif exceeds_int64:
        raise range_error(field, value)
    elif field_type == UINT32 or field_type == FIXED32:
        if low < 0 or low > 0xFFFFFFFF:
            raise range_error(field, value)
    elif field_type == INT32 or field_type == SINT32 or field_type == SFIXED32 or field_type == ENUM:
        if low != <int32_t>low:
            raise range_error(field, value)
        if field_type == SINT32:
            low = <uint32_t>((<uint32_t>low << 1) ^ <uint32_t>(<int32_t>low >> 31))
        elif field_type == SFIXED32:
            low = <uint32_t>low
        elif field.closed and not has_value(field, <int32_t>low):
            raise field_error(field, FieldValueError, f"{value} is not a value of {enum_of(field).full_name}")
    elif field_type == SINT64:
        low = <int64_t>((<uint64_t>low << 1) ^ <uint64_t>(low >> 63))
    raw[0] = <uint64_t>low
    return 0


cdef bint read_bool(const Field* field, value) except? True:
    """Convert a numpy bool or an int to a bool."""
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    try:
        if type(value).__name__ == "ndarray":
            raise TypeError  # an array of one int has __index__
        number = PyNumber_Index(value)
    except TypeError:
        raise field_error(field, FieldTypeError, f"expected a bool, found {type(value).__name__}") from None
    if not -1 << 63 <= number < 1 << 63:
        raise field_error(field, FieldOverflowError, f"expected a bool, found {number}")
    return number != 0


cdef object enum_of(const Field* field):
    return (<object>field.descriptor).enum_type


cdef object enum_number(const Field* field, label):
    """Return the number of the enum value with the name `label`."""
    row = enum_of(field).values_by_name.get(label)
    if row is not None:
        return row.number
    try:
        str.encode(label)
    except UnicodeEncodeError as error:
        raise FieldTextError(error, (<object>field.descriptor).full_name) from None
    raise field_error(field, FieldValueError, f"{label!r} is not a name of {enum_of(field).full_name}")


cdef object read_text(const Field* field, object value, const uint8_t** p, uint64_t* n):
    """Set `p` and `n` to the bytes of a str, in UTF-8, or of bytes; returns the object that owns the bytes."""
    cdef Py_ssize_t size = 0
    if field.type == STRING:
        if PyUnicode_CheckExact(value) and PyUnicode_IS_COMPACT_ASCII(value):
            p[0] = PyUnicode_1BYTE_DATA(value)
            n[0] = PyUnicode_GET_LENGTH(value)
            return value
        if not PyUnicode_CheckExact(value):
            if isinstance(value, str):
                value = str.__str__(value)
            elif isinstance(value, bytes):
                try:
                    value = bytes.decode(value, "utf-8")
                except UnicodeDecodeError as error:
                    raise FieldBytesError(error, (<object>field.descriptor).full_name) from None
            else:
                raise field_error(field, FieldTypeError, f"expected str, found {type(value).__name__}")
        try:
            p[0] = <const uint8_t*>PyUnicode_AsUTF8AndSize(value, &size)
        except UnicodeEncodeError as error:
            raise FieldTextError(error, (<object>field.descriptor).full_name) from None
        n[0] = size
        return value
    if not PyBytes_CheckExact(value):
        if not isinstance(value, bytes):
            raise field_error(field, FieldTypeError, f"expected bytes, found {type(value).__name__}")
        value = bytes(memoryview(value))
    p[0] = <const uint8_t*>PyBytes_AS_STRING(value)
    n[0] = PyBytes_GET_SIZE(value)
    return value


# --- setters of singular fields; `closure` is the Field

cdef object deletion_error(const Field* field):
    """Return the error for `del message.field`."""
    return field_error(field, FieldAttributeError, f"fields can't be deleted; use ClearField({name_of(field)!r})")


cdef object name_of(const Field* field):
    return (<object>field.descriptor).name


cdef int set_number(View self, PyObject* value, void* closure) except -1:
    cdef Field* field = <Field*>closure
    cdef uint64_t raw = 0
    if value == NULL:
        raise deletion_error(field)
    read_number(field, <object>value, &raw)
    return put_singular(self, field, presence_mark(), raw, NULL)


cdef int set_text(View self, PyObject* value, void* closure) except -1:
    cdef Field* field = <Field*>closure
    cdef const uint8_t* p = NULL
    cdef uint64_t n = 0
    if value == NULL:
        raise deletion_error(field)
    owner = read_text(field, <object>value, &p, &n)
    return put_singular(self, field, p, n, <PyObject*>owner)


cdef int share_memory(View self, const Field* field, memory) except -1:
    """Set a bytes field to the memory of a memoryview of bytes, which is not copied."""
    cdef const uint8_t* p = <const uint8_t*>PyMemoryView_GET_BUFFER(memory).buf
    cdef uint64_t n = <uint64_t>PyMemoryView_GET_BUFFER(memory).len
    cdef Document document = (<Payload>memory.obj).document if isinstance(memory.obj, Payload) else None
    # A fork owns the bytes even after the document is closed, and `save` copies them from file to file.
    owner = memory if document is None else document.fork(depth_of(self))
    put_value(edit(self), field, p if n else presence_mark(), n, <PyObject*>owner)
    return 0


cdef int refuse_assignment(View self, PyObject* value, void* closure) except -1:
    """Implement the setter of repeated fields and message fields: raise FieldAttributeError."""
    cdef Field* field = <Field*>closure
    if value == NULL:
        raise deletion_error(field)
    if field.repeated:
        name = name_of(field)
        remedy = f"assign to {name}[:], or use ClearField({name!r}) and extend"
        raise field_error(field, FieldAttributeError, f"a repeated field can't be assigned to; {remedy}")
    remedy = "use CopyFrom, or assign to the fields of the message"
    raise field_error(field, FieldAttributeError, f"a message field can't be assigned to; {remedy}")


cdef void* singular_setter(int field_type) noexcept:
    """Return the setter for singular fields of a type; the one for MESSAGE also serves all repeated fields."""
    if field_type == MESSAGE:
        return <void*>refuse_assignment
    if field_type == STRING or field_type == BYTES:
        return <void*>set_text
    return <void*>set_number


# --- messages in messages

cdef object copy_message(View source, uint32_t depth, const uint8_t** p, uint64_t* n):
    """Copy a message for a field of an overlay at `depth`.

    Returns an Overlay, or a Document and the span `p`, `n` in it.
    """
    cdef Document document
    cdef int is_collecting
    if find_overlay(source) or source.parts != NULL:
        data = encode_if_small(source, None)
        if data is not None:
            document = part_of_bytes(data, None, depth + 1, document_of(source))
            p[0] = document.start
            n[0] = <uint64_t>len(data)
            return document
        p[0] = presence_mark()
        n[0] = 0
        return content_copy(source, depth + 1)
    p[0] = source.start
    n[0] = <uint64_t>(source.end - source.start)
    document = <Document>source.document
    if document.overlays is None:
        return copy_span(document, source.start, source.end, depth + 1)
    # The garbage collector could run code that edits the document.
    is_collecting = PyGC_Disable()
    try:
        return copy_span(document, source.start, source.end, depth + 1)
    finally:
        if is_collecting:
            PyGC_Enable()


cdef Overlay content_copy(View source, uint32_t depth):
    """Return an overlay with a copy of a message's content."""
    # The garbage collector could run code that changes the elements that are copied here.
    cdef int is_collecting = PyGC_Disable()
    try:
        return content_copy_without_gc(source, depth)
    finally:
        if is_collecting:
            PyGC_Enable()


cdef Overlay content_copy_without_gc(View source, uint32_t depth):
    """Implement `content_copy` while the garbage collector is disabled."""
    cdef Overlay content
    fill(source)
    if source.overlay != NULL:
        return copy_overlay(<Overlay>source.overlay, <Document>source.document, depth)
    content = new_overlay(source.table, depth)
    copy_bytes(content, <Document>source.document, source.start, source.end, source.parts)
    content.flags = source.flags
    memcpy(content.slots, source.slots, source.table.n_fields * sizeof(source.slots[0]))
    return content


cdef Overlay content_of(Table* table, Document document, uint32_t depth):
    """Return an overlay with the content of a whole document.

    Raises DecodeError for damage outside nested messages.
    """
    cdef View view = new_view(table, document, document.start, document.end, None)
    cdef Overlay content = new_overlay(table, depth)
    fill(view)
    content.base = owned(document)
    content.start = view.start
    content.end = view.end
    content.flags = view.flags
    memcpy(content.slots, view.slots, table.n_fields * sizeof(view.slots[0]))
    return content


cdef int exchange_content(View self, Overlay content, bint detach_views) except -1:
    """Exchange the content of a message with that of an overlay; every view of the message reads the new content.

    detach_views: whether to detach sequences and views of absent messages that were read from the message, as
    protobuf's Clear and ParseFromString do.
    """
    cdef Overlay overlay = edit(self)
    advance_epoch(<Document>self.document, overlay.address)
    overlay.generation += detach_views
    exchange(overlay, content)
    return 0


cdef int put_message(View self, const Field* field, View source) except -1:
    """Set a singular field to a copy of a message."""
    cdef const uint8_t* p = NULL
    cdef uint64_t n = 0
    # Copy first: `self` may be an absent part of `source`, and the edit makes it present.
    owner = copy_message(source, depth_of(self), &p, &n)
    cdef Overlay overlay = edit(self)
    advance_epoch(<Document>self.document, overlay.address)
    put_value(overlay, field, p, n, <PyObject*>owner)
    return 0


cdef int clear_field(View self, const Field* field) except -1:
    """Make a field absent."""
    cdef Overlay overlay
    fill(self)
    if field.repeated or field.type == MESSAGE:
        overlay = edit(self)
        # Detach sequences and messages that were read from the field, including views of the absent message.
        count_clear(overlay, field.slot)
        advance_epoch(<Document>self.document, overlay.address)
        if overlay.slots[field.slot].p != NULL or overlay.owners[field.slot] != NULL:
            put_value(overlay, field, NULL, 0, NULL)
    elif self.slots[field.slot].p != NULL:
        put_singular(self, field, NULL, 0, NULL)
    elif self.overlay != NULL:
        edit(self)  # an absent message becomes present
    return 0


# --- constructor keywords

cdef int set_field(View self, Field* field, value) except -1:
    """Set a field of a new message to the value of a constructor keyword; None leaves it absent."""
    if value is None:
        return 0
    if not field.repeated:
        if field.type == MESSAGE:
            return set_message(self, field, value)
        return (<Setter>field.set)(self, <PyObject*>value, field)
    if field.type == MESSAGE:
        value = [
            message_of_dict(field, element) if isinstance(element, dict) else element
            for element in iterate(field, value)
        ]
    field_value(self, field).extend(value)
    return 0


cdef object iterate(const Field* field, values):
    """Return an iterator over new values of a repeated field; raises FieldTypeError if they are not iterable."""
    try:
        return iter(values)
    except TypeError as error:
        raise field_error(field, FieldTypeError, f"expected an iterable; {error}") from None


cdef object message_of_dict(const Field* field, values):
    """Return a new message of a field's type with the fields of a dict."""
    element = new_message(field.sub)
    Py_EnterRecursiveCall(b" while a message was made of a dict")
    try:
        set_fields(element, values)
    finally:
        Py_LeaveRecursiveCall()
    return element


cdef int set_message(View self, Field* field, value) except -1:
    """Set a message field to a copy of a message, or to a message with the fields of a dict."""
    if isinstance(value, dict):
        value = message_of_dict(field, value)
    elif type(value) is not <object>field.sub.cls:
        raise field_error(
            field, FieldTypeError,
            f"expected {(<object>field.sub.cls).__name__} or a dict of its fields, found {type(value).__name__}"
        )
    return put_message(self, field, value)


cdef int set_fields(View self, values) except -1:
    """Set fields of a new message from a mapping of names to values."""
    cdef Field* field
    for name, value in values.items():
        field = named_field(self, name)
        if field == NULL:
            raise FieldValueError(f'Protocol message {type(self).__name__} has no "{name}" field; it is a oneof.')
        set_field(self, field, value)
    return 0
