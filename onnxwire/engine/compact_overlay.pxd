# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""CompactOverlay: the edits of a message that has no view, with entries for the edited and present fields only."""
from cython cimport final
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.overlay cimport Overlay
from onnxwire.engine.table cimport Slot, Table


cdef struct Entry:
    # The state of one field of an overlay.
    Slot slot
    PyObject* held
    uint32_t clears
    uint16_t index
    uint8_t touched


@final
cdef class CompactOverlay:
    # Created by `compact` in one allocation with its entries.
    cdef Table* table
    cdef const uint8_t* start    # the bytes that it is registered for
    cdef const uint8_t* end
    cdef PyObject* data          # bytes: the content that ParseFromString replaced them with, or NULL; owned
    cdef uint32_t generation
    cdef uint32_t flags
    cdef uint32_t n
    cdef Entry* entries


cdef CompactOverlay compact(Overlay overlay, Document document)
cdef Overlay expand(CompactOverlay self, Document document)
cdef bint is_in_place(Overlay self) noexcept
