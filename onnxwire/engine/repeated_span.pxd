# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated strings, bytes and messages."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.document cimport Document, Span, Spans
from onnxwire.engine.overlay cimport Elements, Overlay
from onnxwire.engine.repeated cimport Repeated
from onnxwire.engine.view cimport Cursor


# Adds no member, so that it can use the free list of the base.
cdef class RepeatedSpan(Repeated):

    cdef Elements elements(self)
    cdef Spans known_index(self)
    cdef Spans make_index(self)
    cdef Spans walk(self)
    cdef Elements gather(self, Py_ssize_t n_more)
    cdef void gather_run(self, Cursor* cursor, Elements elements) noexcept
    cdef object element(self, Py_ssize_t i)
    cdef Elements start_edit(self, Py_ssize_t n_more)
    cdef bint append_first(self, const uint8_t* p, uint64_t size, owner) except -1
    cdef int store_elements(self, Overlay overlay, Elements elements) except -1


cdef class SpanIterator:
    cdef RepeatedSpan sequence   # None at the end
    cdef Cursor cursor
    cdef object parts            # Spans that the cursor points into, or None
    cdef const uint8_t* first    # the first record; NULL before the cursor is set
    cdef PyObject* document      # the message's document at the last step; borrowed, only compared
    cdef uint32_t epoch          # the message's epoch at the last step
    cdef Py_ssize_t i            # the index of the next element, or ENDED
    cdef uint8_t tag             # the tag of the records, if it is one byte; else 0, which is not a tag

    cdef object next_element(self)
    cdef bint follow_message(self) except -1
    cdef object next_record(self)
    cdef object next_edited(self)
    cdef bint reads_same_records(self) noexcept
    cdef int seek(self) except -1
    cdef bint peek(self, Span* element) except -1
    cdef void skip(self, const Span* element) noexcept
    cdef Py_ssize_t skip_until(self, const Span* element, const uint8_t* limit) noexcept


cdef void* span_getter() noexcept
