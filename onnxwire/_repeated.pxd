# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated strings, bytes and messages, and what they share with those over numbers."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._document cimport Document, Spans
from onnxwire._overlay cimport Elements
from onnxwire._table cimport Field
from onnxwire._view cimport Cursor, View


@cython.no_gc
cdef class Repeated:
    cdef View message            # points up; the message does not know of it
    cdef Field* field
    cdef Document document       # of the bytes
    cdef const uint8_t* first    # the first record, NULL where there is none
    cdef const uint8_t* end      # of the records, NULL for a message in several pieces
    cdef uint64_t n_records
    cdef object store            # what was made of the records on the way: Spans, or Numbers; else None
    cdef object bound            # Elements or Numbers that the sequence is of; None as long as it is of records
    cdef uint32_t state          # of the field, where there was nothing yet; see state_of
    cdef bint is_detached        # they are no longer the message's

    cdef object take(self, values)
    cdef int splice(self, Py_ssize_t start, Py_ssize_t stop, incoming) except -1
    cdef int replace(self, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n, incoming) except -1


# Adds no member, so that the free list of the base serves it.
cdef class RepeatedSpan(Repeated):

    cdef Elements elements(self)
    cdef Spans make_index(self)
    cdef Spans walk(self, Cursor* cursor)
    cdef Elements gather(self, Spans index)
    cdef object element(self, Py_ssize_t i)
    cdef Elements start_edit(self)


cdef class SpanIterator:
    cdef RepeatedSpan sequence
    cdef Cursor cursor
    cdef object parts            # Spans that the cursor points into, or None
    cdef Elements elements       # None as long as it is of records
    cdef uint32_t changes
    cdef uint32_t epoch
    cdef Py_ssize_t i
    cdef uint64_t left
    cdef uint8_t tag             # of the records, where it is one byte; else 0, which is no tag

    cdef int look_again(self) except -1


cdef void bind(Repeated self, View message, Field* field)
cdef bint is_of_records(Repeated self) except -1
cdef Py_ssize_t place_of(const Field* field, place, uint64_t n) except -1
cdef object changed_error(const Field* field)
cdef object iterable(const Field* field, values)
cdef int tell_length(Repeated self, Py_ssize_t n) except -1
cdef void* span_getter() noexcept
