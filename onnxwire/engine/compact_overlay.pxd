# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The edits of a message that nobody holds, without room for the fields that it does not have."""
from cython cimport final
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.overlay cimport Overlay
from onnxwire.engine.table cimport Slot, Table


cdef struct Entry:
    # What an overlay has of one field.
    Slot slot
    PyObject* held
    uint32_t clears
    uint16_t index
    uint8_t touched


@final
cdef class CompactOverlay:
    # Made by `condense`, in one piece of memory with its entries.
    cdef Table* table
    cdef const uint8_t* start    # the bytes that it is registered for
    cdef const uint8_t* end
    cdef PyObject* data          # bytes: what the message became instead, or NULL; owned
    cdef uint32_t generation
    cdef uint32_t flags
    cdef uint32_t n
    cdef Entry* entries


cdef CompactOverlay compact(Overlay overlay, Document document)
cdef Overlay expand(CompactOverlay self, Document document)
cdef bint is_in_place(Overlay self) noexcept
