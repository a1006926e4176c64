# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated fields."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from onnxwire._document cimport Spans
from onnxwire._message cimport Cursor, Message
from onnxwire._table cimport Field


cdef class Repeated:
    cdef Message message         # points up; the message does not know of it
    cdef Field* field
    cdef const uint8_t* first    # the first record, NULL where there is none
    cdef uint64_t n_records
    cdef object store            # what was made on the way: Spans of the elements, or their Numbers; else None


# Adds no member, so that the free list of the base serves it.
cdef class RepeatedSpan(Repeated):

    cdef Spans make_index(self)


cdef class SpanIterator:
    cdef Message message
    cdef Field* field
    cdef Cursor cursor
    cdef uint64_t left
    cdef uint8_t tag             # of the records, where it is one byte; else 0, which is no tag


cdef class Numbers:
    """A decoded array in C memory."""
    cdef void* items
    cdef Py_ssize_t n
    cdef int kind

    @staticmethod
    cdef Numbers allocate(Py_ssize_t n, const Field* field)


cdef class RepeatedScalar(Repeated):
    cdef const uint8_t* items    # the elements, NULL before they are asked for; may be unaligned
    cdef Py_ssize_t n            # elements
    cdef Py_ssize_t[1] shape     # for buffers handed out

    cdef uint64_t count_elements(self, const uint8_t** window) except? 0xFFFFFFFF
    cdef int decode(self) except -1
    cdef void adopt(self, Numbers numbers)
    cdef object item(self, Py_ssize_t i)


cdef class ScalarIterator:
    cdef RepeatedScalar sequence
    cdef Py_ssize_t i


cdef void* repeated_getter(int kind) noexcept
