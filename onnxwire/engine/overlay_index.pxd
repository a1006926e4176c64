# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The overlays of a document: a dict by the first byte of each message, and a sorted array for range queries."""
from cython cimport final
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t

from onnxwire.engine.compact_overlay cimport CompactOverlay
from onnxwire.engine.document cimport Document
from onnxwire.engine.overlay cimport Overlay


cdef struct Pair:
    size_t address
    size_t end                   # end of the bytes that were registered
    PyObject* edits              # Overlay or CompactOverlay; NULL for a further piece of a message; borrowed


@final
cdef class OverlayIndex:
    """The overlays of a document, sorted by address."""
    cdef Pair* pairs
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    # Recent additions, at most MERGE_BATCH, sorted too and merged together: one addition does not move all pairs.
    cdef Pair* late
    cdef Py_ssize_t n_late

    cdef bint find(self, const uint8_t* p, Pair* found) noexcept
    cdef int put(self, const Pair* pair) except -1
    cdef int merge_late(self) except -1


@final
cdef class RecentOverlays:
    """A ring buffer of the addresses of the overlays that were made last."""
    cdef size_t* addresses
    cdef size_t n
    cdef size_t capacity
    cdef size_t next             # index of the oldest, once the ring is full


cdef OverlayIndex index_of(Document document)
cdef int register_overlay(Document document, Overlay overlay) except -1
cdef bint has_edits(Document document, const uint8_t* start, const uint8_t* end) except -1
cdef Overlay overlay_at(Document document, const uint8_t* start)
cdef Overlay overlay_of(Pair* pair, Document document)
