# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""CompactOverlay: the edits of a message without views.

Unless `has_all`, fields that are read from the message's bytes have no entry.
"""
from cython cimport final
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from onnxwire.engine.document cimport EMPTY, Document, FarReads
from onnxwire.engine.overlay cimport Overlay
from onnxwire.engine.table cimport Field, Slot, Table


cdef extern from "Python.h":
    PyTypeObject* Py_TYPE(PyObject* o)


cdef struct Entry:
    # The state of one field of an overlay.
    Slot slot
    PyObject* owner              # see Overlay
    uint32_t clears              # number of times that the field was cleared
    uint16_t index               # `Field.slot` of the field
    uint8_t touched              # see Overlay


@final
cdef class CompactOverlay:
    # Created by `compact` and `compact_edit`, with memory for all entries.
    cdef Table* table
    cdef PyObject* base          # owner of content that replaced the message's bytes: bytes or a Document; or NULL
    cdef const uint8_t* start    # the content: the message's bytes, or those that replaced them; NULL if none
    cdef const uint8_t* end
    cdef uint32_t generation     # see Overlay
    cdef uint32_t flags          # see View
    cdef uint32_t n              # number of entries
    cdef uint8_t has_all         # there is an entry for each present field, not only for edited ones
    cdef uint8_t is_first_edit   # whether `compact_edit` created it
    # n entries follow, ascending by `index`


# The type of `scan_slots` in engine/view.pyx. That module imports this one, and sets the function by `use_scanner`.
ctypedef const uint8_t* (*SlotScanner)(
    const Table*, const uint8_t*, const uint8_t*, Slot*, uint32_t*, uint64_t*, FarReads*
) noexcept nogil

cdef void use_scanner(SlotScanner scan) noexcept
cdef CompactOverlay compact(Overlay overlay, Document document)
cdef CompactOverlay compact_edit(
    Table* table, const uint8_t* start, const uint8_t* end, uint32_t flags, const Field* field, const Slot* slot,
    PyObject* owner
)
cdef Overlay expand(CompactOverlay self, Document document, const uint8_t* address, const uint8_t* address_end)
cdef bint is_in_place(Overlay self) noexcept
cdef int fill_slots(CompactOverlay self, PyObject* document, Slot* slots) except -1


cdef inline PyObject* base_of_compact(CompactOverlay self, PyObject* document) noexcept:
    """Return the document of the content, or EMPTY if there are no bytes or `base` is a bytes object.

    document: the document that has the overlay in its index.
    """
    if self.base == NULL and self.start != NULL:
        return document
    if self.base != NULL and Py_TYPE(self.base) == <PyTypeObject*>Document:
        return self.base
    return <PyObject*>EMPTY


cdef inline Entry* entries_of(CompactOverlay self) noexcept:
    return <Entry*>(<char*><PyObject*>self + (<PyTypeObject*>CompactOverlay).tp_basicsize)


cdef inline Entry* find_entry(CompactOverlay self, uint32_t index) noexcept:
    """Return the entry of the field with an index (Field.slot), or NULL."""
    cdef uint32_t i
    for i in range(self.n):
        if entries_of(self)[i].index == index:
            return &entries_of(self)[i]
    return NULL
