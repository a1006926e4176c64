# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The base of message classes, with the methods of protobuf's Python messages."""
cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport WIRE_LEN
from onnxwire.engine.document cimport EMPTY, Document, part_of_bytes
from onnxwire.engine.edit cimport (
    clear_field, content_copy, content_of, depth_of, exchange_content, field_error, share_memory, start_edit,
)
from onnxwire.engine.encode cimport encode, encoded_size, unknown_fields
from onnxwire.engine.equal cimport equal_views
from onnxwire.engine.header_copies cimport copied_bytes
from onnxwire.engine.merge cimport discard_unknown, merge
from onnxwire.engine.overlay cimport MAX_OVERLAY_DEPTH, Overlay, new_overlay
from onnxwire.engine.partial cimport is_resident
from onnxwire.engine.payload cimport new_payload
from onnxwire.engine.table cimport BYTES, MESSAGE, STRING, Field, Slot
from onnxwire.engine.text_form cimport text_form
from onnxwire.engine.verify cimport check_document
from onnxwire.engine.view cimport (
    HAS_UNKNOWN, Cursor, Record, View, document_of, field_value, fill, filled_document, find_value_owner, is_touched,
    named_field, new_view, next_record, overlay_view, start_cursor, table_of,
)

from onnxwire.errors import FieldTypeError, FieldValueError, InUseError

# Whether parsing verifies all bytes, so that damage in nested messages raises an error at once, as with protobuf.
cdef bint VERIFIES_ON_PARSE = False

cdef enum:
    MAX_VALUE_CHARS = 60  # maximum characters of one value in a repr; longer bytes and lists are abbreviated, too
    SNIFFED_BYTES = 256   # bytes at the start of a string that `_is_doubtful` examines


cdef str field_repr(View self, Field* field):
    """Return one field of a repr, abbreviated if it is long."""
    cdef Slot slot = self.slots[field.slot]
    cdef str name = (<object>field.descriptor).name
    cdef str text
    cdef Cursor cursor
    cdef Record record
    # The number of values; of an unedited field, the bytes of strings and packed runs, and 1 per other record.
    cdef uint64_t size = 0
    if field.type == MESSAGE:
        kind = (<object>field.descriptor).message_type.name
        return f"{name}=[{slot.n:,} {kind}]" if field.repeated else f"{name}={kind}(...)"
    if field.repeated and is_touched(self, field):
        size = len(field_value(self, field))
        if size > MAX_VALUE_CHARS:
            return f"{name}=[{size:,} values]"
    elif field.repeated:
        start_cursor(&cursor, self, slot.p)
        while size <= 4 * MAX_VALUE_CHARS and next_record(&cursor, field.number, &record) > 0:
            size += record.n if record.tag & 7 == WIRE_LEN else 1
        if size > 4 * MAX_VALUE_CHARS:
            return f"{name}=[...]"
    if not field.repeated and field.wire == WIRE_LEN and slot.n > MAX_VALUE_CHARS:
        return f"{name}=<{slot.n:,} bytes>"
    text = repr(field_value(self, field))
    return f"{name}={text}" if len(text) <= MAX_VALUE_CHARS else f"{name}={text[:MAX_VALUE_CHARS]}..."


@cython.no_gc
cdef class Message(View):
    """A view of one message of a document; the base class of the message classes of a schema.

    Fields are attributes, decoded when they are read, with protobuf's defaults if they are absent. Methods are those of
    protobuf's Python messages. Edits are stored in an overlay beside the bytes, which never change; every view of the
    message shows the edits.
    """

    @classmethod
    @critical_section
    def FromString(cls, data):
        """Make the message that is encoded in `data`.

        data: a bytes-like object; bytes are shared, other buffers are copied.
        Raises FieldTypeError for an object of another type, and DecodeError if records of the message itself are
        damaged. Nested messages are parsed when they are read; `onnxwire.verify` checks them, too, as this method does
        after `verify_on_parse(True)`.
        """
        cdef Document document = Document(exact_bytes(cls, data))
        if VERIFIES_ON_PARSE:
            document.set_root(cls)
            check_document(document, table_of(cls))
        return root_view(document, cls)

    @property
    @critical_section
    def _document(self):
        """The Document that contains the message."""
        return document_of(self)

    @property
    @critical_section
    def _is_doubtful(self):
        """Whether the bytes may be those of another type.

        True if the message has no known field, or has an unknown field, or if the first SNIFFED_BYTES of a singular
        string contain a byte below 0x20 other than tab, line feed and carriage return. A string that is not resident is
        not checked.
        """
        cdef Slot* slot
        cdef const uint8_t* p
        cdef uint64_t k
        cdef uint32_t i
        cdef bint is_known = False
        fill(self)
        for i in range(self.table.n_fields):
            slot = &self.slots[i]
            if slot.p == NULL:
                continue
            is_known = True
            if self.table.fields[i].type == STRING and not self.table.fields[i].repeated:
                if not is_resident(slot.p, min(slot.n, <uint64_t>SNIFFED_BYTES)):
                    continue
                p = slot.p  # may be read from a copy of a header; see header_copies.pyx
                if p >= (<Document>self.document).far.first_copy:
                    p = copied_bytes((<Document>self.document).far.copies, p, min(slot.n, <uint64_t>SNIFFED_BYTES))
                for k in range(min(slot.n, <uint64_t>SNIFFED_BYTES)):
                    if p[k] < 0x20 and p[k] != 9 and p[k] != 10 and p[k] != 13:
                        return True
        return not is_known or self.flags & HAS_UNKNOWN != 0

    @property
    @critical_section
    def _span(self):
        """The offsets of the message in its document, (start, end); None if it was edited or has several parts."""
        cdef Document document = filled_document(self)
        if self.parts != NULL or self.overlay != NULL:
            return None
        return self.start - document.start, self.end - document.start

    @critical_section
    def _payload(self, name):
        """Return the Payload of a present singular string or bytes field, else None."""
        cdef Field* field = named_field(self, name)
        cdef PyObject* owner
        cdef Slot* slot
        fill(self)
        if field == NULL or field.repeated or field.type == MESSAGE or field.wire != WIRE_LEN:
            return None
        slot = &self.slots[field.slot]
        if slot.p == NULL:
            return None
        owner = find_value_owner(self, field)
        return new_payload(document_of(self), slot.p, slot.n, 1, b"B", None if owner == NULL else <object>owner)

    @critical_section
    def _share(self, name, data):
        """Set a bytes field to a contiguous buffer without a copy; the caller must not change its memory afterwards."""
        cdef Field* field = named_field(self, name)
        if field == NULL or field.repeated or field.type != BYTES:
            raise FieldValueError(f"{name} is not a singular bytes field")
        share_memory(self, field, memoryview(data).cast("B"))

    @critical_section
    def _present(self):
        """Return the names of the fields that ListFields returns, by field number, without decoding singular values."""
        cdef Field* field
        cdef uint32_t i
        cdef list names = []
        fill(self)
        for i in range(self.table.n_fields):
            field = &self.table.fields[i]
            if self.slots[i].p != NULL and (not field.repeated or field_value(self, field)):
                names.append((<object>field.descriptor).name)
        return names

    @critical_section
    def _unknown_fields(self):
        """Return the unknown fields as bytes, as SerializeToString writes them."""
        return unknown_fields(self)

    @critical_section
    def HasField(self, field_name):
        """Return whether a singular field, or a member of the oneof of that name, is present.

        Raises ValueError for a name that the message does not have, and for a repeated field.
        """
        cdef Field* field = named_field(self, field_name)
        if field == NULL:
            return self.WhichOneof(field_name) is not None
        if field.repeated:
            raise field_error(field, FieldValueError, "a repeated field has no presence")
        fill(self)
        return self.slots[field.slot].p != NULL

    @critical_section
    def WhichOneof(self, oneof_group):
        """Return the name of the present member of a oneof, or None.

        Raises ValueError for a name that is not a oneof of the message.
        """
        if named_field(self, oneof_group) != NULL:
            raise FieldValueError(f'Protocol message {type(self).__name__} has no oneof "{oneof_group}".')
        if isinstance(oneof_group, bytes):
            oneof_group = oneof_group.decode()
        oneof = (<object>self.table.descriptor).oneofs_by_name[oneof_group]
        fill(self)
        for member in oneof.fields:
            if self.slots[named_field(self, member.name).slot].p != NULL:
                return member.name
        return None

    @critical_section
    def ListFields(self):
        """Return (FieldDescriptor, value) of each present field, by field number; repeated fields if not empty."""
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

    @critical_section
    def ByteSize(self):
        """Return the number of bytes that SerializeToString returns."""
        return encoded_size(self)

    @critical_section
    def SerializeToString(self, deterministic=None):
        """Return the encoding of the message, as bytes.

        Unedited messages are copied from the document, with their unknown fields and the order of their records.
        deterministic: encode everything anew, with fields by number and numbers in their shortest form, as protobuf's
        serializer does.
        Raises EditError for messages nested more than 500 deep, DecodeError if bytes that must be read are damaged, and
        SourceError if the document's file was changed.
        """
        return encode(self, bool(deterministic))

    SerializePartialToString = SerializeToString

    # --- edits

    @critical_section
    def ParseFromString(self, data):
        """Replace the message's content by the message encoded in `data`; return the size of `data` in bytes.

        data: as for FromString. Raises the errors of FromString; the message is then unchanged.
        """
        cdef Document document = make_part(self, data)
        exchange_content(self, content_of(self.table, document, depth_of(self)), True)
        return len(document)

    @critical_section
    def MergeFromString(self, data):
        """Merge the message encoded in `data` into this one, as MergeFrom does; return the size of `data`."""
        cdef Document document = make_part(self, data)
        merge(self, root_view(document, type(self)), True, MAX_OVERLAY_DEPTH)
        return len(document)

    @critical_section
    def MergeFrom(self, other):
        """Merge a message of the same class into this one.

        Singular values of `other` replace those of this message, singular messages are merged, elements of repeated
        fields and unknown fields are appended.
        """
        require_same_class(self, other, "MergeFrom")
        merge(self, detached_copy(other), False, MAX_OVERLAY_DEPTH)

    @critical_section
    def CopyFrom(self, other):
        """Replace the message's content by that of `other`, a message of the same class; bytes are shared."""
        require_same_class(self, other, "CopyFrom")
        if not is_same_message(self, other):
            exchange_content(self, content_copy(other, depth_of(self)), False)

    @critical_section
    def Clear(self):
        """Remove all fields, unknown fields included."""
        exchange_content(self, new_overlay(self.table, depth_of(self)), True)

    @critical_section
    def ClearField(self, field_name):
        """Remove a field, or the present member of a oneof.

        Raises ValueError for a name that the message does not have.
        """
        cdef Field* field = named_field(self, field_name)
        if field == NULL:
            field_name = self.WhichOneof(field_name)
            if field_name is None:
                if self.overlay != NULL:
                    start_edit(self)
                return
            field = named_field(self, field_name)
        clear_field(self, field)

    @critical_section
    def SetInParent(self):
        """Add an absent message to its parent, as an empty message."""
        start_edit(self)

    @critical_section
    def DiscardUnknownFields(self):
        """Remove the unknown fields of the message and of all messages in it."""
        discard_unknown(self, MAX_OVERLAY_DEPTH)

    @critical_section
    def IsInitialized(self, errors=None):
        """Return True: no message of onnxwire has required fields."""
        fill(self)
        return True

    @critical_section
    def FindInitializationErrors(self):
        """Return []: no message of onnxwire has required fields."""
        return []

    @critical_section
    def close(self):
        """Close the message's document; every view of the document raises ClosedError from then on.

        No-op for new messages and copies, whose bytes other messages may share.
        Raises InUseError while arrays, memoryviews or calls use the document's bytes or its external data.
        """
        (<Document>self.document).close()

    @critical_section
    def __enter__(self):
        return self

    @critical_section
    def __exit__(self, error_class, error, traceback):
        try:
            (<Document>self.document).close()
        except InUseError:
            # The exception of the block takes precedence over InUseError; the last array that uses the bytes releases
            # them.
            if error is None:
                raise

    @critical_section
    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        return equal_views(self, other)

    @critical_section
    def __hash__(self):
        raise TypeError(f"unhashable type: '{type(self).__name__}'")

    @critical_section
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
                    fields.append(field_repr(self, &self.table.fields[i]))
                except ValueError as error:
                    fields.append(f"<{error}>")
        return f"{type(self).__qualname__}({', '.join(fields)})"

    @critical_section
    def __str__(self):
        """Return the text format, like protobuf's messages; raises DecodeError if the message is damaged."""
        return text_form(self)

    @critical_section
    def __contains__(self, field_name):
        """Return HasField(field_name)."""
        return self.HasField(field_name)

    @critical_section
    def __deepcopy__(self, memo=None):
        return detached_copy(self)

    __copy__ = __deepcopy__

    @critical_section
    def __reduce__(self):
        return type(self).FromString, (self.SerializeToString(),)


@critical_section
def root_view(Document document, cls):
    """Return the view of a whole document as a message of a class.

    Raises DecodeError for damage outside nested messages.
    """
    view = new_view(table_of(cls), document, document.start, document.end, None)
    document.set_root(cls)
    fill(view)
    return view


@critical_section
def verify_on_parse(turned_on):
    """Turn verification of all bytes by FromString, ParseFromString and MergeFromString on or off."""
    global VERIFIES_ON_PARSE
    VERIFIES_ON_PARSE = turned_on


cdef object exact_bytes(cls, data):
    """Return the bytes from which a message is made: `data` itself if it is bytes, or a copy of another buffer."""
    if isinstance(data, bytes):
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        raise FieldTypeError(f"{cls.__name__} is made from bytes, not {type(data).__name__}") from None


cdef Document make_part(View self, data):
    """Create a document of bytes that replace or are merged into a message (see `part_of_bytes`)."""
    cdef Document document = part_of_bytes(exact_bytes(type(self), data), type(self), depth_of(self), document_of(self))
    if VERIFIES_ON_PARSE:
        check_document(document, self.table)
    return document


cdef View detached_copy(View self):
    """Return a copy of a message; the copy is not part of another message."""
    cdef Overlay content = content_copy(self, 0)
    return overlay_view(self.table, EMPTY, content)


cdef bint is_same_message(View self, View other) except -1:
    """Return whether two views of one class are of the same message."""
    fill(self)
    fill(other)
    if self.overlay != NULL or other.overlay != NULL:
        return self.overlay == other.overlay
    return self.document == other.document and self.start == other.start


cdef int require_same_class(View self, other, str method) except -1:
    """Raise FieldTypeError unless both messages have one class; method: the called method, for the error."""
    if type(self) is not type(other):
        raise FieldTypeError(
            f"Parameter to {method}() must be instance of same class: expected {type(self).__name__}, found "
            f"{type(other).__name__}"
        )
    return 0


# The public module, for pickles and reprs.
(<PyTypeObject*>Message).tp_name = b"onnxwire.Message"
