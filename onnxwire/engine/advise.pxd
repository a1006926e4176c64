"""Advice to the kernel about memory."""
from libc.stdint cimport uint8_t

cdef extern from "advise.h" nogil:
    int ow_narrow(const uint8_t* p, const uint8_t* end)
    void ow_enlarge(void* p, size_t size)
