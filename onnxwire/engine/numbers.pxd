# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated numbers."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.payload cimport Payload
from onnxwire.engine.overlay cimport Numbers
from onnxwire.engine.repeated cimport Repeated
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor, Record, View


cdef class RepeatedScalar(Repeated):
    # What `decode` found: the elements, which may be unaligned, and how many; NULL before, though records may have been
    # counted. They are the document's, or those of `store` or `bound`; of the last they hold until other code runs,
    # which may exchange or move them.
    cdef const uint8_t* items
    cdef Py_ssize_t n

    cdef bint fetch_runs(self) except -1
    cdef uint64_t count_elements(self, const uint8_t** window) except? 0xFFFFFFFF
    cdef bint refresh_records(self) except -1
    cdef int decode(self) except -1
    cdef void look_at_bound(self) noexcept
    cdef Numbers copy(self)
    cdef int decode_records(self) except -1
    cdef bint adopt_kept(self) except -1
    cdef void adopt(self, Numbers numbers)
    cdef object item(self, Py_ssize_t i)
    cdef Payload window(self)
    cdef Numbers start_edit(self, Py_ssize_t room)


cdef class ScalarIterator:
    cdef RepeatedScalar sequence
    cdef PyObject* document      # of the message when it was last looked at; borrowed, to be compared only
    cdef uint32_t epoch          # the same
    cdef Py_ssize_t i

    cdef object next_number(self)


cdef object get_numbers(View self, void* closure)
