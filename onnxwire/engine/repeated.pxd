# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The common base of the sequences over repeated fields."""
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor, View


@cython.no_gc
cdef class Repeated:
    cdef View message            # the message has no reference back
    cdef Field* field
    cdef Document document       # the document that contains the records
    cdef const uint8_t* first    # the first record, or NULL
    cdef const uint8_t* end      # the end of the records, if the message has one span
    cdef object parts            # Spans of a message in several parts, else None
    cdef uint64_t n_records
    cdef object index_or_numbers  # index or decoded numbers of the records: Spans or Numbers; None if not yet created
    cdef object edited_elements  # the elements after a change: Elements or Numbers; None before
    cdef uint64_t state          # the state of the field when the sequence was created; see state_of
    cdef bint is_detached        # `edited_elements` no longer belongs to the message

    cdef void start(self, Cursor* cursor) noexcept
    cdef Py_ssize_t find(self, value) except -2
    cdef object convert(self, values)
    cdef int splice(self, Py_ssize_t start, Py_ssize_t stop, incoming) except -1
    cdef int replace(self, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n, incoming) except -1


cdef enum:
    ENDED = -1           # the index of an exhausted iterator


cdef struct Slice:
    Py_ssize_t start
    Py_ssize_t stop
    Py_ssize_t step
    Py_ssize_t n                 # number of elements


cdef void point_at(Repeated self, View message, Field* field)
cdef bint refresh(Repeated self) except -1
cdef Py_ssize_t index_in(const Field* field, index, uint64_t n) except -1
cdef int unpack_slice(Slice* indices, key) except -1
cdef void adjust_slice(Slice* indices, Py_ssize_t n) noexcept
cdef object changed_error(const Field* field)
cdef int update_count(Repeated self, Py_ssize_t n) except -1
