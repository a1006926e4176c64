# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The getters of singular fields; `closure` is the Field."""
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from onnxwire._varint cimport zigzag32, zigzag64
from onnxwire.engine.document cimport PARTS, Document, Spans
from onnxwire.engine.overlay cimport (
    AbsentKey, Overlay, find_absent, list_absent, new_overlay, owned, unlist_absent,
)
from onnxwire.engine.table cimport (
    BOOL, BYTES, DOUBLE, ENUM, FIXED32, FIXED64, FLOAT, INT32, INT64, SFIXED32, SFIXED64, SINT32, SINT64, STRING,
    UINT32, UINT64, Field, Slot,
)
from onnxwire.engine.view cimport (
    HAS_MERGE, KEEPS_IDENTITY, Cursor, View, base_of, bytes_at, collect_parts, document_of, fill, find_value_owner,
    make_view, new_view, overlay_key, overlay_view, start_cursor, state_of, text_at,
)
from onnxwire.engine.view_registry cimport ViewKey, lookup_view

cdef extern from "thresholds.h":
    enum:
        MIN_CACHED_PARTS "OW_MIN_CACHED_PARTS"


cdef object get_default(void* closure):
    return <object>(<Field*>closure).default


cdef object get_int64(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return <int64_t>slot.n if slot.p != NULL else get_default(closure)


cdef object get_uint64(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return slot.n if slot.p != NULL else get_default(closure)


cdef object get_int32(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return <int32_t>slot.n if slot.p != NULL else get_default(closure)


cdef object get_uint32(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return <uint32_t>slot.n if slot.p != NULL else get_default(closure)


cdef object get_sint64(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return zigzag64(slot.n) if slot.p != NULL else get_default(closure)


cdef object get_sint32(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return zigzag32(slot.n) if slot.p != NULL else get_default(closure)


cdef object get_bool(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    return slot.n != 0 if slot.p != NULL else get_default(closure)


cdef object get_float(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    cdef uint32_t bits = <uint32_t>slot.n
    cdef float value
    if slot.p == NULL:
        return get_default(closure)
    memcpy(&value, &bits, 4)
    return value


cdef object get_double(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    cdef double value
    if slot.p == NULL:
        return get_default(closure)
    memcpy(&value, &slot.n, 8)
    return value


cdef object get_string(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    if slot.p == NULL:
        return get_default(closure)
    return text_at(self, slot.p, slot.n, find_value_owner(self, <Field*>closure))


cdef object get_bytes(View self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    if slot.p == NULL:
        return get_default(closure)
    return bytes_at(base_of(self), slot.p, slot.n, find_value_owner(self, <Field*>closure))


cdef int resolve_absent(View self, const Field* field) except -1:
    """If the message of a field was read while it was absent, update its view: the message is present now."""
    cdef AbsentKey key = absent_key(self, field)
    cdef Overlay overlay = find_absent(&key)
    cdef ViewKey view_key
    cdef View view
    if overlay is None:
        return 0
    view_key = overlay_key(field.sub, NULL, overlay)
    view = lookup_view(&view_key)
    if view is not None:
        fill(view)
        fill(self)
    return 0


cdef object get_message(View self, void* closure):
    """Return a view of the message of a field; the message may be absent."""
    fill(self)
    cdef Field* field = <Field*>closure
    if KEEPS_IDENTITY and self.slots[field.slot].p != NULL:
        resolve_absent(self, field)
    cdef Slot slot = self.slots[field.slot]
    cdef PyObject* owner = find_value_owner(self, field)
    cdef Document document
    cdef Spans parts
    if owner != NULL:
        return assigned_message(self, field, slot.p, slot.n, <object>owner)
    if slot.p == NULL:
        return absent_view(self, field)
    if not (KEEPS_IDENTITY or self.flags & HAS_MERGE):
        return make_view(field.sub, base_of(self), slot.p, slot.p + slot.n, NULL)
    document = document_of(self)
    if self.flags & HAS_MERGE:
        parts = parts_of(self, field, document)
        if parts.n > 1:
            return new_view(field.sub, document, parts.items[0].p, parts.items[0].p + parts.items[0].n, parts)
    return new_view(field.sub, document, slot.p, slot.p + slot.n, None)


cdef Spans parts_of(View self, Field* field, Document document):
    """Return the parts of a singular message field of a message with HAS_MERGE.

    The document caches the result if there are at least MIN_CACHED_PARTS parts.
    """
    cdef Slot slot = self.slots[field.slot]
    cdef Spans parts = document.cached(PARTS, slot.p)
    cdef Cursor cursor
    # If the bytes were replaced, the cache entry may be outdated.
    if parts is not None and parts.items[parts.n - 1].p == slot.p and parts.items[parts.n - 1].n == slot.n:
        return parts
    start_cursor(&cursor, self, NULL)
    parts = collect_parts(&cursor, self.table, field)
    if parts.n >= MIN_CACHED_PARTS:
        document.add_cached(PARTS, slot.p, parts)
    return parts


cdef object assigned_message(View self, Field* field, const uint8_t* p, uint64_t n, owner):
    """Return a view of a message that was assigned to a field; owner: its Overlay, or the Document of its span."""
    if isinstance(owner, Overlay):
        return overlay_view(field.sub, <Document>self.document, <Overlay>owner)
    return new_view(field.sub, <Document>owner, p, p + n, None)


cdef object absent_view(View self, Field* field):
    """Return a view of an absent message, whose first edit adds it to the parent; its views share one overlay."""
    cdef uint32_t depth
    cdef uint64_t state = state_of(self, field)
    cdef AbsentKey key = absent_key(self, field)
    cdef AbsentKey parent_key
    cdef Overlay overlay = find_absent(&key)
    if overlay is not None:
        # The memory that a key refers to may have been freed and reused: compare with the parent's key.
        parent_key = absent_key(<View>overlay.parent, field)
        if overlay.expected_state == state and parent_key.owner == key.owner and parent_key.address == key.address:
            return overlay_view(field.sub, <Document>self.document, overlay)
        unlist_absent(overlay)
    depth = (<Overlay>self.overlay).depth if self.overlay != NULL else (<Document>self.document).depth
    overlay = new_overlay(field.sub, depth + 1)
    overlay.parent = owned(self)
    overlay.expected_state = state
    overlay.field = field
    list_absent(overlay, &key)
    return overlay_view(field.sub, <Document>self.document, overlay)


cdef AbsentKey absent_key(View self, const Field* field) noexcept:
    """Return the key of the absent message of a field."""
    cdef AbsentKey key
    key.field = field
    key.owner = self.document
    key.address = self.start
    if self.overlay != NULL:
        key.address = (<Overlay>self.overlay).address
        if key.address == NULL:
            key.owner = self.overlay
    return key


cdef void* singular_getter(int field_type) noexcept:
    """Return the getter of singular fields of a type."""
    if field_type == INT64 or field_type == SFIXED64:
        return <void*>get_int64
    if field_type == UINT64 or field_type == FIXED64:
        return <void*>get_uint64
    if field_type == INT32 or field_type == SFIXED32 or field_type == ENUM:
        return <void*>get_int32
    if field_type == UINT32 or field_type == FIXED32:
        return <void*>get_uint32
    if field_type == SINT64:
        return <void*>get_sint64
    if field_type == SINT32:
        return <void*>get_sint32
    if field_type == BOOL:
        return <void*>get_bool
    if field_type == FLOAT:
        return <void*>get_float
    if field_type == DOUBLE:
        return <void*>get_double
    if field_type == STRING:
        return <void*>get_string
    if field_type == BYTES:
        return <void*>get_bytes
    return <void*>get_message
