# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated numbers."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._overlay cimport Numbers
from onnxwire._repeated cimport Repeated
from onnxwire._table cimport Field
from onnxwire._view cimport Cursor, Record, View


cdef class RepeatedScalar(Repeated):
    cdef const uint8_t* items    # the elements, NULL before they are asked for; may be unaligned
    cdef Py_ssize_t n            # elements

    cdef uint64_t count_elements(self, const uint8_t** window) except? 0xFFFFFFFF
    cdef void start(self, Cursor* cursor) noexcept
    cdef bint looks_at_records(self) except -1
    cdef int decode(self) except -1
    cdef int decode_records(self) except -1
    cdef void adopt(self, Numbers numbers)
    cdef object item(self, Py_ssize_t i)
    cdef Numbers start_edit(self)


cdef class ScalarIterator:
    cdef RepeatedScalar sequence
    cdef bint is_bound           # its numbers may change
    cdef uint32_t changes
    cdef uint32_t epoch
    cdef Py_ssize_t i

    cdef int look_again(self) except -1


cdef object get_numbers(View self, void* closure)
