# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Copy-on-write copies of overlays: a copy shares the message's bytes and the assigned str, bytes and memoryviews."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_XINCREF
from libc.string cimport memcpy

from onnxwire.engine.compact_overlay cimport compact, is_in_place
from onnxwire.engine.document cimport Spans
from onnxwire.engine.overlay cimport MAX_OVERLAY_DEPTH, Element, Elements, Numbers, element_at, new_overlay, owned
from onnxwire.engine.overlay_index cimport OverlayIndex, Pair, index_of, make_index, overlay_of
from onnxwire.engine.table cimport Field, Slot

from onnxwire.errors import FieldValueError


cdef int copy_edits(Document document, const uint8_t* start, const uint8_t* end, Document fork) except -1:
    """Copy into a fork the edits of all messages whose first byte is in [start, end]."""
    cdef OverlayIndex index = index_of(document)
    cdef Overlay overlay
    cdef Overlay copy
    cdef Pair pair
    while index is not None and index.find(start, &pair) and pair.address <= <size_t>end:
        start = <const uint8_t*>pair.address + 1
        overlay = overlay_of(&pair, document)
        if overlay is None:
            # The pair is for a part of a message that is not its first part.
            make_index(fork).put(pair.address, pair.end, NULL)
            continue
        if is_in_place(overlay):
            # Nested messages in these bytes have separate overlays in this document; the loop copies them too.
            copy = new_overlay(overlay.table, fork.depth + 1)
            copy.start = overlay.start
            copy.end = overlay.end
            copy.parts = overlay.parts
            Py_XINCREF(copy.parts)
            copy_fields(overlay, copy, document)
        else:
            # The overlay has other content: skip the messages in the bytes at its address, which are no longer part of
            # this message.
            copy = copy_overlay(overlay, document, fork.depth + 1)
            start = <const uint8_t*>pair.end + 1
        copy.address = <const uint8_t*>pair.address
        copy.address_end = <const uint8_t*>pair.end
        compacted = compact(copy, fork)
        make_index(fork).put(pair.address, pair.end, <PyObject*>copy if compacted is None else <PyObject*>compacted)
    return 0


cdef Document copy_span(Document document, const uint8_t* start, const uint8_t* end, uint32_t depth):
    """Fork a document, with copies of the edits in one of its spans; raises FieldValueError for too deep nesting."""
    cdef Document fork
    if depth > MAX_OVERLAY_DEPTH:
        raise FieldValueError(f"messages nested more than {MAX_OVERLAY_DEPTH:,} deep are not made", "")
    fork = document.fork(depth)
    copy_edits(document, start, end, fork)
    return fork


cdef Overlay copy_overlay(Overlay self, Document document, uint32_t depth):
    """Return a copy of an overlay; document: the document of the overlay's views."""
    cdef Overlay copy = new_overlay(self.table, depth)
    if self.start != NULL:
        copy_bytes(copy, <Document>self.base if self.base != NULL else document, self.start, self.end, self.parts)
    copy_fields(self, copy, document)
    return copy


cdef int copy_bytes(
    Overlay copy, Document base, const uint8_t* start, const uint8_t* end, PyObject* parts
) except -1:
    """Set the bytes of an overlay to those of a message, in a fork of `base` with the edits of nested messages.

    Raises FieldValueError for too deep nesting.
    """
    cdef Document fork
    cdef Py_ssize_t k
    if copy.depth >= MAX_OVERLAY_DEPTH:
        raise FieldValueError(f"messages nested more than {MAX_OVERLAY_DEPTH:,} deep are not made", "")
    fork = base.fork(copy.depth + 1)
    # Start at `start + 1`: the overlay at `start` is that of the message itself.
    copy_edits(base, start + 1, end, fork)
    if parts != NULL:
        copy.parts = owned(<object>parts)
        for k in range(1, (<Spans>parts).n):
            copy_edits(
                base, (<Spans>parts).items[k].p + 1, (<Spans>parts).items[k].p + (<Spans>parts).items[k].n, fork
            )
    copy.base = owned(fork)
    copy.start = start
    copy.end = end
    return 0


cdef int copy_fields(Overlay self, Overlay copy, Document document) except -1:
    """Copy the flags, unknown fields, slots, values and `touched` of an overlay."""
    cdef uint32_t i
    copy.flags = self.flags
    if self.unknown != NULL:
        copy.unknown = owned(<object>self.unknown)
    memcpy(copy.slots, self.slots, self.table.n_fields * sizeof(Slot))
    memcpy(copy.touched, self.touched, self.table.n_fields)
    for i in range(self.table.n_fields):
        if self.owners[i] != NULL:
            owner = copy_field(&self.table.fields[i], <object>self.owners[i], &self.slots[i], document, copy.depth)
            copy.owners[i] = owned(owner)
    return 0


cdef object copy_field(const Field* field, object owner, const Slot* slot, Document document, uint32_t depth):
    """Return a copy of the value of a field."""
    cdef Numbers numbers
    if field.repeated:
        if field.size == 0:
            return copy_elements(<Elements>owner, document, depth)
        numbers = Numbers.allocate((<Numbers>owner).n, field)
        memcpy(numbers.items, (<Numbers>owner).items, <size_t>numbers.n * numbers.size)
        if (<Numbers>owner).run_end != NULL:
            numbers.origin = (<Numbers>owner).origin
            numbers.run_end = (<Numbers>owner).run_end
        return numbers
    return copy_value(owner, slot.p, slot.n, document, depth)


cdef object copy_value(object owner, const uint8_t* p, uint64_t n, Document document, uint32_t depth):
    """Return a copy of a message, or `owner` itself if it is a str, bytes or a memoryview."""
    if isinstance(owner, Overlay):
        return copy_overlay(<Overlay>owner, document, depth + 1)
    if isinstance(owner, Document):
        return copy_span(<Document>owner, p, p + n, depth + 1)
    return owner


cdef Elements copy_elements(Elements self, Document document, uint32_t depth):
    """Return a copy of the elements of a field; document: the document of the overlay's views."""
    cdef Elements copy = Elements.__new__(Elements)
    cdef Element* element
    cdef Py_ssize_t i
    # Consecutive elements of one document share a fork while their addresses ascend. last: the end of the last element
    # that was copied to `fork`.
    cdef PyObject* source = NULL
    cdef const uint8_t* last = NULL
    cdef Document fork = None
    copy.reserve(self.n)
    for i in range(self.n):
        element = element_at(self, i)
        if element.owner == NULL:
            copy.add(element.p, element.n, None)
        elif not isinstance(<object>element.owner, Document):
            owner = copy_value(<object>element.owner, element.p, element.n, document, depth)
            copy.add(element.p, element.n, owner)
        else:
            if element.owner != source or element.p <= last:
                fork = (<Document>element.owner).fork(depth + 1)
                source = element.owner
            copy_edits(<Document>element.owner, element.p, element.p + element.n, fork)
            copy.add(element.p, element.n, fork)
            last = element.p + element.n
    return copy
