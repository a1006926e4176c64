# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The walk that fetches all of a message except its long values."""
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field, Table


cdef struct Wanted:
    # The lengths in bytes from which values are skipped, by type.
    uint64_t text            # strings
    uint64_t run             # packed numbers
    uint64_t data            # bytes, and values of unknown fields
    bint (*is_read)(const Field* field, void* context) noexcept  # packed numbers without a limit; or NULL
    void* context


cdef uint64_t NO_LIMIT

cdef int fetch_span(Document document, const Table* table, const uint8_t* p, const uint8_t* end) except -1
cdef int walk(
    Document document, const Table* table, const uint8_t* p, const uint8_t* end, bint is_deep, const Wanted* wanted
) except -1
cdef int fetch_structure(
    Document document, const Table* table, uint64_t text, uint64_t run,
    bint (*is_read)(const Field* field, void* context) noexcept, void* context
) except -1
