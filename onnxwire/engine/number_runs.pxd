# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Packed runs of numbers, and their conversion to arrays."""
from libc.stdint cimport int32_t, uint8_t, uint64_t

from onnxwire._varint cimport PartCounts
from onnxwire.engine.document cimport Document, Span
from onnxwire.engine.overlay cimport Numbers
from onnxwire.engine.table cimport Field

cdef void write_number(void* out, const Field* field, uint64_t raw) noexcept nogil
cdef uint64_t store_long_run(
    uint8_t* out, const Field* field, const uint8_t* p, uint64_t n, uint64_t capacity, const PartCounts* counts
) noexcept
cdef uint64_t remove_unknown(int32_t* values, uint64_t n, const Field* field) noexcept nogil
cdef int locate_run(const Field* field, Numbers numbers, Document document, Span* run) except -1
cdef int check_run(const Field* field, Document document, const Span* run) except -1
cdef int decode_run(const Field* field, Numbers numbers, Document document) except -1
