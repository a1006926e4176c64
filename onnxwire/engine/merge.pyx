# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Messages that are merged into others, and unknown fields that are discarded."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR
from libc.stdint cimport uint32_t

from onnxwire.engine.canonical cimport canonical
from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.edit cimport edit, put_message
from onnxwire.engine.encode cimport unknown_fields
from onnxwire.engine.numbers cimport RepeatedScalar, get_numbers
from onnxwire.engine.overlay cimport DEEPEST, Element, Elements, Overlay, owned, put_value, set_mark
from onnxwire.engine.repeated cimport RepeatedSpan
from onnxwire.engine.table cimport MESSAGE, Field, Slot, find_field
from onnxwire.engine.view cimport (
    DROPS_UNKNOWN, HAS_UNKNOWN, Cursor, Record, document_of, field_value, fill, get_message, held_value, is_peer,
    is_unknown, next_record, start_cursor,
)

cdef extern from "Python.h":
    void PyBytes_Concat(PyObject** data, object more) except *

from onnxwire.errors import EditError


cdef int merge(View self, View other, bint is_read, int depth) except -1:
    """Merge a message into another; `other` must be a copy that nobody else knows of.

    Singular values replace those that are there, messages are merged, elements and unknown fields are added.
    is_read: `other` is what was just read from bytes, whose records count one after another, not a message.
    """
    cdef Overlay overlay
    cdef Field* field
    cdef PyObject* held
    cdef Slot* slot
    cdef bytes unknown
    cdef uint32_t i
    if depth == 0:
        raise EditError(f"messages nested more than {DEEPEST:,} deep are not merged")
    fill(other)
    overlay = edit(self)
    for i in range(self.table.n_fields):
        field = &self.table.fields[i]
        slot = &other.slots[i]
        if slot.p == NULL:
            continue
        if field.repeated and (field.size or field.type == MESSAGE):
            field_value(self, field).extend(field_value(other, field))
        elif field.repeated:
            add_texts(field_value(self, field), field_value(other, field))
        elif field.type == MESSAGE:
            if overlay.slots[i].p == NULL or is_read and field.n_peers and has_peer(other, field):
                put_message(self, field, get_message(other, field))
            else:
                merge(get_message(self, field), get_message(other, field), is_read, depth - 1)
        elif field.size:
            put_value(overlay, field, set_mark(), canonical(field, slot.n), NULL)
        else:
            held = held_value(other, field)
            owner = <object>held if held != NULL else document_of(other)
            put_value(overlay, field, slot.p, slot.n, <PyObject*>owner)
    unknown = unknown_fields(other)
    if unknown:
        if overlay.unknown == NULL:
            overlay.unknown = owned(unknown)
        else:
            # Which makes them longer where they are as long as nobody else has them.
            PyBytes_Concat(&overlay.unknown, unknown)
        overlay.flags |= HAS_UNKNOWN
        (<Document>self.document).next_epoch()
    return 0


cdef bint has_peer(View self, const Field* field):
    """Whether the bytes of a message have another member of a field's oneof, after which what was there is gone."""
    cdef Cursor cursor
    cdef Record record
    cdef Field* other
    start_cursor(&cursor, self, NULL)
    while next_record(&cursor, 0, &record) > 0:
        other = find_field(self.table, record.tag >> 3)
        if not is_unknown(other, &record) and is_peer(field, other):
            return True
    return False


cdef int add_texts(RepeatedSpan target, RepeatedSpan source) except -1:
    """Add strings or bytes as they stand, be they UTF-8 or not."""
    cdef Elements incoming = Elements.__new__(Elements)
    cdef Elements elements = source.elements()
    cdef Element* element
    cdef Spans index
    cdef Py_ssize_t i
    if elements is None:
        index = source.make_index()
        for i in range(index.n):
            incoming.insert(i, index.items[i].p, index.items[i].n, source.document)
    else:
        for i in range(elements.n):
            element = &elements.items[i]
            incoming.insert(
                i, element.p, element.n, source.document if element.held == NULL else <object>element.held
            )
    return target.splice(len(target), len(target), incoming)


cdef int discard_unknown(View self, int depth) except -1:
    """Discard the unknown fields of a message and of all messages in it."""
    cdef Overlay overlay
    cdef Field* field
    cdef uint32_t i
    if depth == 0:
        raise EditError(f"messages nested more than {DEEPEST:,} deep are not gone through")
    fill(self)
    if self.overlay != NULL:
        edit(self)  # which puts it in place where it is not there
    if unknown_fields(self):
        overlay = edit(self)
        overlay.flags = overlay.flags & ~<uint32_t>HAS_UNKNOWN | DROPS_UNKNOWN
        Py_CLEAR(overlay.unknown)
        (<Document>self.document).next_epoch()
        for i in range(self.table.n_fields):
            field = &self.table.fields[i]
            # Their runs are not copied as they stand: unknown values may be among them.
            if field.closed and field.repeated and overlay.slots[i].p != NULL:
                (<RepeatedScalar>get_numbers(self, field)).start_edit()
    for i in range(self.table.n_fields):
        field = &self.table.fields[i]
        fill(self)
        if field.type != MESSAGE or self.slots[i].p == NULL:
            continue
        if field.repeated:
            for element in field_value(self, field):
                discard_unknown(element, depth - 1)
        else:
            discard_unknown(get_message(self, field), depth - 1)
    return 0
