# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Iteration over the numbers of a field in the bytes of a message."""
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor


cdef struct NumberReader:
    # Iterates over the numbers of a field, packed or not.
    Cursor cursor
    uint64_t n_records_left      # number of records that were not read yet
    const uint8_t* run           # the start of the packed run that was read last, or NULL
    const uint8_t* p             # the position of the next number of the run; `end` after its last number
    const uint8_t* end           # the end of the run


cdef int next_number(NumberReader* reader, const Field* field, uint64_t* raw) noexcept nogil
cdef object number_error(Document document, const NumberReader* reader, const Field* field)
