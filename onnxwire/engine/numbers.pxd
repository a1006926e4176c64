# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated numbers."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport PartCounts
from onnxwire.engine.payload cimport Payload
from onnxwire.engine.overlay cimport Numbers
from onnxwire.engine.repeated cimport Repeated
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor, Record, View


cdef class RepeatedScalar(Repeated):
    # The result of `decode`: the elements, which may be unaligned, and their number. Before the first `decode`, and
    # from some changes of the field to the next `decode`, `items` is NULL; `n` may be set nevertheless. The elements
    # are in memory of the document, of `index_or_numbers` or of `edited_elements` (see Repeated). The memory of
    # `edited_elements` is valid until other code runs, which may replace or move it.
    cdef const uint8_t* items
    cdef Py_ssize_t n

    cdef bint fetch_runs(self) except -1
    cdef uint64_t count_elements(self, const uint8_t** fixed_run, PartCounts* counts) except? 0xFFFFFFFF
    cdef bint refresh_records(self) except -1
    cdef int decode(self) except -1
    cdef int decode_with_capacity(self, Py_ssize_t n_more) except -1
    cdef void load_edited(self) noexcept
    cdef Numbers copy(self)
    cdef Numbers writable_numbers(self, Py_ssize_t n_more)
    cdef int decode_records(self, Py_ssize_t n_more) except -1
    cdef bint use_cached(self) except -1
    cdef void use_decoded(self, Numbers numbers)
    cdef object item(self, Py_ssize_t i)
    cdef Payload make_payload(self)
    cdef Numbers start_append(self, Py_ssize_t n_more)
    cdef Numbers numbers_after_run(self, Py_ssize_t n_more)
    cdef Numbers start_edit(self, Py_ssize_t n_more)


cdef class ScalarIterator:
    cdef RepeatedScalar sequence
    cdef PyObject* document      # the message's document at the last step; borrowed, and only compared
    cdef uint32_t epoch          # the message's epoch at the last step
    cdef Py_ssize_t i            # the index of the next number, or ENDED of repeated.pxd

    cdef object next_number(self)


cdef object get_numbers(View self, void* closure)
