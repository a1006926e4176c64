# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated strings, bytes and messages, and what they share with those over numbers."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._document cimport Spans
from onnxwire._overlay cimport Elements
from onnxwire._table cimport Field
from onnxwire._view cimport Cursor, View


@cython.no_gc
cdef class Repeated:
    cdef View message            # points up; the message does not know of it
    cdef Field* field
    cdef const uint8_t* first    # the record that `store` was made from
    cdef object store            # what was made on the way: Spans of the elements, or their Numbers; else None


# Adds no member, so that the free list of the base serves it.
cdef class RepeatedSpan(Repeated):

    cdef Spans make_index(self)
    cdef object element(self, Py_ssize_t i)
    cdef Elements edit(self)
    cdef int splice(self, Py_ssize_t start, Py_ssize_t stop, Elements incoming) except -1


cdef class SpanIterator:
    cdef RepeatedSpan sequence
    cdef Cursor cursor
    cdef const uint8_t* first    # the record, or the Elements, that it began with
    cdef Elements elements
    cdef uint32_t changes
    cdef uint32_t epoch
    cdef Py_ssize_t i
    cdef uint64_t left
    cdef uint8_t tag             # of the records, where it is one byte; else 0, which is no tag

    cdef int check_unchanged(self) except -1


cdef Py_ssize_t place_of(place, uint64_t n) except -1
cdef object changed_error(const Field* field)
cdef int extend_spans(View message, Field* field, values) except -1
cdef void* span_getter() noexcept
