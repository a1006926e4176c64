# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Verification of a document, or of records."""
from libc.stdint cimport uint8_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Table

cdef int check_document(Document document, Table* table) except -1
# depth: maximum number of further nested levels of messages and groups.
cdef bint is_valid(const Table* table, const uint8_t* p, const uint8_t* end, int depth) noexcept nogil
