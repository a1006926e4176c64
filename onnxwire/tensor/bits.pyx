# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Elements of 2, 4 or 6 bits as tensors store them: packed low bits first, without a gap, across bytes.

Unpacked, an element takes the low bits of a byte of its own. Zeros above them are what ml_dtypes itself stores for
int4, uint4, int2, uint2, float4_e2m1fn, float6_e2m3fn and float6_e3m2fn, negative ones included (it ignores those bits
where it reads), so elements can be viewed as any of these: `out.view(ml_dtypes.int4)`.
"""
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint64_t

cdef extern from "bits.h" nogil:
    void ow_unpack(const uint8_t* p, const uint8_t* end, int shift, uint8_t* out, size_t n, int bits)
    void ow_pack(const uint8_t* p, uint8_t* out, size_t n, int bits)

cdef Py_ssize_t LONG_RUN = 1 << 16  # elements; less takes no longer than to let other threads run


def unpack(source, out, int bits, Py_ssize_t start=0):
    """Fill `out` with the elements from `start` on of a packed run, one byte each.

    source: C-contiguous buffer of at least ceil((start + n) * bits / 8) bytes. out: writable C-contiguous buffer of n
    one-byte elements, apart from source, whose high bits become zero. bits: 2, 4 or 6. start: counted in elements; need
    not begin a byte.
    Raises ValueError, and writes nothing, where a size does not fit.
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
    cdef const uint8_t* p = <const uint8_t*>packed.buf
    cdef const uint8_t* end = p + packed.len
    cdef uint8_t* out = <uint8_t*>elements.buf
    cdef Py_ssize_t n = elements.len
    cdef uint64_t held
    check_elements(elements, bits)
    # Memory ends long before 2^61 bytes, so no product of a length that a buffer has and a few bits runs over.
    held = <uint64_t>packed.len * 8 / bits
    if start < 0 or <uint64_t>start > held or <uint64_t>n > held - start:
        raise ValueError(f"{packed.len} bytes hold {held} elements of {bits} bits, not {n} from element {start} on")
    if n == 0:
        return 0
    p += <uint64_t>start * bits / 8
    start = <uint64_t>start * bits % 8
    if n < LONG_RUN:
        ow_unpack(p, end, start, out, n, bits)
    else:
        with nogil:
            ow_unpack(p, end, start, out, n, bits)
    return 0


def pack(source, out, int bits):
    """Pack one-byte elements, and fill the last byte up with zero bits.

    source: C-contiguous buffer of n one-byte elements, of which only the low `bits` bits count. out: writable
    C-contiguous buffer of exactly ceil(n * bits / 8) bytes, apart from source. bits: 2, 4 or 6.
    Raises ValueError, and writes nothing, where a size does not fit.
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
    cdef const uint8_t* p = <const uint8_t*>elements.buf
    cdef uint8_t* out = <uint8_t*>packed.buf
    cdef Py_ssize_t n = elements.len
    cdef uint64_t needed
    check_elements(elements, bits)
    needed = (<uint64_t>n * bits + 7) / 8
    if <uint64_t>packed.len != needed:
        raise ValueError(f"{n} elements of {bits} bits take {needed} bytes, not {packed.len}")
    if n < LONG_RUN:
        ow_pack(p, out, n, bits)
    else:
        with nogil:
            ow_pack(p, out, n, bits)
    return 0


cdef int check_elements(Py_buffer* elements, int bits) except -1:
    if bits != 2 and bits != 4 and bits != 6:
        raise ValueError(f"elements of 2, 4 or 6 bits are packed, not of {bits}")
    if elements.itemsize != 1:
        raise ValueError(f"unpacked elements take a byte each, not {elements.itemsize}")
    return 0
