"""Advice to the kernel and the processor about memory."""
from libc.stdint cimport uint8_t, uint64_t

cdef extern from "advise.h" nogil:
    int ow_narrow(const uint8_t* p, const uint8_t* end)
    ctypedef struct OwHeaders:
        pass
    uint64_t OW_FAR_FILE_BYTES
    size_t OW_FIRST_BYTES
    int ow_open_far(const uint8_t* p, size_t size)
    void ow_request_headers(OwHeaders* headers, const uint8_t* p, const uint8_t* end)
    void ow_request_huge_pages(void* p, size_t size)
    void prefetch "ow_prefetch"(const void* p)
    const uint8_t* prefetch_block "ow_prefetch_block"(const uint8_t* p, const uint8_t* end)
