# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Windows on bytes and numbers that are in memory, as read-only buffers."""
from libc.stdint cimport uint8_t

from onnxwire.engine.document cimport Document

cdef class Payload:
    """A value's bytes, or a field's numbers, where they stand in memory."""
    cdef object owner            # of the memory; None where it is the document's
    cdef readonly Document document
    cdef const uint8_t* p
    cdef Py_ssize_t n            # items
    cdef Py_ssize_t size         # of an item
    cdef char* format            # as of the buffer protocol


cdef Payload new_payload(Document document, const uint8_t* p, Py_ssize_t n, int size, char* format, owner)
cdef int expose(Payload self, Py_buffer* view, int flags) except -1
