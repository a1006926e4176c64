# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Copy-on-write copies of overlays: a copy shares the message's bytes and the assigned str, bytes and memoryviews."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.overlay cimport Overlay


cdef Document copy_span(Document document, const uint8_t* start, const uint8_t* end, uint32_t depth)
cdef int copy_bytes(
    Overlay copy, Document base, const uint8_t* start, const uint8_t* end, PyObject* parts
) except -1
cdef Overlay copy_overlay(Overlay self, Document document, uint32_t depth)
