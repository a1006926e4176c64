# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Canonical encoding: the bytes that protobuf's deterministic serializer writes."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire.engine.table cimport Field, Table

# raw: the bits that a record stores for a number. items: an array of C numbers.
cdef uint64_t canonical_bits(const Field* field, uint64_t raw) noexcept nogil
cdef uint64_t raw_at(const Field* field, const uint8_t* items, Py_ssize_t i) noexcept nogil
cdef bint has_canonical_records(const Table* table, const uint8_t* p, const uint8_t* end) noexcept nogil
