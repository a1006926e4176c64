# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Pack and unpack elements of 2, 4 or 6 bits: low bits first, without gaps, across bytes.

An unpacked element is in the low bits of its own byte; the high bits are zero. ml_dtypes uses this format for int4,
uint4, int2, uint2, float4_e2m1fn, float6_e2m3fn and float6_e3m2fn, also for negative numbers (it ignores the high bits
on reading), so elements can be viewed as any of these: `out.view(ml_dtypes.int4)`.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.errors import count_text

cdef extern from "bits.h" nogil:
    void ow_unpack(const uint8_t* p, const uint8_t* end, int shift, uint8_t* out, size_t n, int bits)
    void ow_pack(const uint8_t* p, uint8_t* out, size_t n, int bits)

cdef Py_ssize_t MIN_NOGIL_ELEMENTS = 1 << 16  # converting fewer elements takes no longer than releasing the GIL


def unpack(source, out, int bits, Py_ssize_t start=0):
    """Unpack elements into `out`, one byte each.

    source: C-contiguous buffer of at least ceil((start + n) * bits / 8) bytes. out: writable C-contiguous buffer of n
    one-byte elements, which must not overlap source; their high bits become zero. bits: 2, 4 or 6. start: the index of
    the first element, which need not begin at a byte boundary.
    Raises ValueError, and writes nothing, if a size or `start` does not fit or `bits` is another number.
    """
    cdef Py_buffer packed, elements
    PyObject_GetBuffer(source, &packed, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &elements, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            unpack_buffer(&packed, &elements, bits, start)
        finally:
            PyBuffer_Release(&elements)
    finally:
        PyBuffer_Release(&packed)


cdef int unpack_buffer(Py_buffer* packed, Py_buffer* elements, int bits, Py_ssize_t start) except -1:
    """Do the work of `unpack` on acquired buffers."""
    cdef const uint8_t* p = <const uint8_t*>packed.buf
    cdef const uint8_t* end = p + packed.len
    cdef uint8_t* out = <uint8_t*>elements.buf
    cdef Py_ssize_t n = elements.len
    cdef uint64_t n_stored
    check_elements(elements, bits)
    # No buffer has 2**61 bytes, so these products can't overflow.
    n_stored = <uint64_t>packed.len * 8 / bits
    if start < 0 or <uint64_t>start > n_stored or <uint64_t>n > n_stored - start:
        raise ValueError(
            f"source has {count_text(packed.len, 'byte')} with {count_text(n_stored, 'element')} of {bits} bits; "
            f"requested: {n:,} from index {start:,}"
        )
    if n == 0:
        return 0
    p += <uint64_t>start * bits / 8
    start = <uint64_t>start * bits % 8  # from here on a number of bits
    if n < MIN_NOGIL_ELEMENTS:
        ow_unpack(p, end, start, out, n, bits)
    else:
        with nogil:
            ow_unpack(p, end, start, out, n, bits)
    return 0


def pack(source, out, int bits):
    """Pack one-byte elements. Pad the last byte with zero bits.

    source: C-contiguous buffer of n one-byte elements, whose high bits are ignored. out: writable C-contiguous buffer
    of exactly ceil(n * bits / 8) bytes, which must not overlap source. bits: 2, 4 or 6.
    Raises ValueError, and writes nothing, if a size does not fit or `bits` is another number.
    """
    cdef Py_buffer elements, packed
    PyObject_GetBuffer(source, &elements, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(out, &packed, PyBUF_SIMPLE | PyBUF_WRITABLE)
        try:
            pack_buffer(&elements, &packed, bits)
        finally:
            PyBuffer_Release(&packed)
    finally:
        PyBuffer_Release(&elements)


cdef int pack_buffer(Py_buffer* elements, Py_buffer* packed, int bits) except -1:
    """Do the work of `pack` on acquired buffers."""
    cdef const uint8_t* p = <const uint8_t*>elements.buf
    cdef uint8_t* out = <uint8_t*>packed.buf
    cdef Py_ssize_t n = elements.len
    cdef uint64_t required_bytes
    check_elements(elements, bits)
    required_bytes = (<uint64_t>n * bits + 7) / 8
    if <uint64_t>packed.len != required_bytes:
        raise ValueError(
            f"out has {count_text(packed.len, 'byte')}; required for {count_text(n, 'element')} of {bits} bits: "
            f"{required_bytes:,}"
        )
    if n < MIN_NOGIL_ELEMENTS:
        ow_pack(p, out, n, bits)
    else:
        with nogil:
            ow_pack(p, out, n, bits)
    return 0


cdef int check_elements(Py_buffer* elements, int bits) except -1:
    """Raise ValueError unless `bits` is supported and unpacked elements take a byte each."""
    if bits != 2 and bits != 4 and bits != 6:
        raise ValueError(f"bits must be 2, 4 or 6, not {bits}")
    if elements.itemsize != 1:
        raise ValueError(f"unpacked elements must have one byte each, not {elements.itemsize}")
    return 0
