# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Fetching the bytes of a message except its long values, and those of one record."""
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field, Table

cdef enum:
    MAX_HEAD_BYTES = 32      # upper bound of the size in bytes of a tag and the length or number after it


cdef struct SkipLengths:
    # The lengths in bytes from which values are skipped, by type.
    uint64_t string          # strings
    uint64_t packed          # packed varints
    # Bytes, packed numbers of fixed size, and values of unknown fields; also messages if `is_deep` of walk_message is
    # False.
    uint64_t data
    # Returns whether the packed numbers, or bytes, of a repeated field are never skipped; NULL if those of every field
    # may be skipped.
    # context: its second argument.
    bint (*is_read_entirely)(const Field* field, void* context) noexcept
    void* context


cdef uint64_t NO_LIMIT  # the skip length for values that are never skipped

cdef int fetch_span(Document document, const Table* table, const uint8_t* p, const uint8_t* end) except -1
cdef int check_range(Document document, uint64_t offset, uint64_t end) except -1
cdef int fetch_record(Document document, uint64_t offset, uint64_t end) except -1
cdef int walk_message(
    Document document, const Table* table, const uint8_t* p, const uint8_t* end, bint is_deep,
    const SkipLengths* skip_lengths
) except -1
cdef int fetch_structure(
    Document document, const Table* table, uint64_t string, uint64_t packed,
    bint (*is_read_entirely)(const Field* field, void* context) noexcept, void* context
) except -1
