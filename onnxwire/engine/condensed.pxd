# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The edits of a message that nobody holds, without room for the fields that it does not have."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t

from onnxwire.engine.overlay cimport Overlay
from onnxwire.engine.table cimport Slot, Table


cdef struct Entry:
    # What an overlay has of one field.
    Slot slot
    PyObject* held
    uint32_t index
    bint touched


cdef class Condensed:
    # Made by `condense`, in one piece of memory with its entries.
    cdef Table* table
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef uint32_t flags
    cdef uint32_t n
    cdef Entry* entries


cdef Condensed condense(Overlay overlay)
cdef Overlay expand(Condensed self, uint32_t depth)
cdef bint is_in_place(Overlay self) noexcept
