# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Values in memory as read-only buffers, without a copy."""
from libc.stdint cimport uint8_t

from onnxwire.engine.document cimport Document

cdef class Payload:
    """A value's bytes, or a field's numbers, as a buffer."""
    cdef object owner            # the owner of the memory; None if the document owns it
    cdef readonly Document document    # the document that owns the memory, or None
    cdef const uint8_t* p
    cdef Py_ssize_t n            # number of items
    cdef Py_ssize_t size         # bytes per item
    cdef char* format            # the format of an item, defined by the buffer protocol


cdef Payload new_payload(Document document, const uint8_t* p, Py_ssize_t n, int size, char* format, owner)
cdef int expose(Payload self, Py_buffer* view, int flags) except -1
