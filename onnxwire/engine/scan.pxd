# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Scans of the bytes of messages."""
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.table cimport Table
from onnxwire.engine.view cimport View

cdef enum:
    MAX_FILTER_NAMES = 32    # maximum number of names of a filter


cdef class NameFilter:
    cdef list encoded_names                  # owns the memory of the names
    cdef char* names[MAX_FILTER_NAMES]
    cdef uint64_t[MAX_FILTER_NAMES] sizes    # the lengths of the names in bytes
    cdef int n                               # number of names
    cdef uint64_t signatures                 # bitwise OR of the signatures of all names (see scan.pyx)

    cdef bint contains(self, const uint8_t* p, uint64_t n) noexcept
    cdef bint selects(self, View view) except -1
    cdef bint scan(self, const Table* table, const uint8_t* p, const uint8_t* end, int depth) noexcept


# Whether a message has one span, and neither it nor a message in it was edited. If so, all bytes of the message except
# long values are resident.
cdef bint is_unedited(View view) except -1
