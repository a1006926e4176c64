# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A scan for messages of certain types in the bytes of a message, without views."""
from libc.stdint cimport uint8_t

from onnxwire.engine.table cimport Table

cdef enum Mark:              # the marks of a table, one bit each
    IS_TARGET = 1            # messages of the table are searched for
    CONTAINS_TARGET = 2      # messages of the table can contain messages that are searched for

cdef const uint8_t* find_marked(
    const Table* table, const uint8_t* p, const uint8_t* end, const Table* tables, const uint8_t* marks, int depth
) noexcept nogil
