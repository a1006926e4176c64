# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Computes minimum, maximum, total, number of zeros, and sum of squared distances from the mean, of blocks of numbers.

Implemented as several plain loops over a block, because compilers vectorize each of them.
"""
from libc.stdint cimport INT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    # The number of partial sums in float64. They allow vector instructions and reduce rounding errors.
    LANES = 8

ctypedef fused Number:
    int8_t
    uint8_t
    int16_t
    uint16_t
    int32_t
    uint32_t
    int64_t
    uint64_t
    float
    double


cdef void find_range(const Number* p, Py_ssize_t n, Number* low, Number* high) noexcept nogil:
    """Find the minimum and the maximum of n > 0 numbers, none of which is NaN."""
    cdef Number minimum = p[0], maximum = p[0]
    cdef Py_ssize_t i
    cdef int32_t bits, low_bits = INT32_MAX, high_bits = -INT32_MAX - 1
    if Number is float:
        # Map floats to integers in the same order: compilers vectorize the minimum of integers, but not that of floats.
        for i in range(n):
            bits = (<const int32_t*>p)[i]
            bits ^= bits >> 31 & INT32_MAX
            low_bits = bits if bits < low_bits else low_bits
            high_bits = bits if bits > high_bits else high_bits
        low_bits ^= low_bits >> 31 & INT32_MAX
        high_bits ^= high_bits >> 31 & INT32_MAX
        memcpy(&minimum, &low_bits, 4)
        memcpy(&maximum, &high_bits, 4)
    else:
        for i in range(n):
            minimum = p[i] if p[i] < minimum else minimum
            maximum = p[i] if p[i] > maximum else maximum
    low[0] = minimum
    high[0] = maximum


cdef object sum_numbers(const Number* p, Py_ssize_t n):
    """Return the results of `sum_block` for n > 0 numbers."""
    cdef Number low, high
    cdef double[LANES] sums
    cdef int64_t total = 0, upper_total = 0, zeros = 0
    cdef double float_total = 0, float_squares = 0, mean, distance
    cdef Py_ssize_t n_groups = n // LANES
    cdef Py_ssize_t i, k
    with nogil:
        find_range(p, n, &low, &high)
        for i in range(n):
            zeros += p[i] == 0
        if Number is float or Number is double:
            for k in range(LANES):
                sums[k] = 0
            for i in range(n_groups):
                for k in range(LANES):
                    sums[k] += p[i * LANES + k]
            for i in range(n_groups * LANES, n):
                sums[0] += p[i]
            for k in range(LANES):
                float_total += sums[k]
        else:
            for i in range(n):
                if Number is int64_t or Number is uint64_t:
                    # The sums of the upper and of the lower 32 bits of a block do not overflow.
                    upper_total += <int64_t>(p[i] >> 32)
                    total += <uint32_t>p[i]
                else:
                    total += p[i]
            float_total = 4294967296.0 * upper_total + total
        mean = float_total / n
        for k in range(LANES):
            sums[k] = 0
        for i in range(n_groups):
            for k in range(LANES):
                distance = p[i * LANES + k] - mean
                sums[k] += distance * distance
        for i in range(n_groups * LANES, n):
            distance = p[i] - mean
            sums[0] += distance * distance
        for k in range(LANES):
            float_squares += sums[k]
    if Number is float or Number is double:
        return low, high, zeros, float_total, float_squares
    else:
        return low, high, zeros, (<object>upper_total << 32) + total, float_squares


def sum_block(const uint8_t[::1] data, str kind):
    """Compute the minimum, the maximum, the number of zeros and the sums of a block of numbers.

    data: the aligned bytes of 1 to 2**22 numbers. kind: the numpy type of the numbers: f4, f8, or i or u followed by 1,
    2, 4 or 8.
    Returns the minimum, the maximum, the number of zeros, the total, and the sum of the squared distances from the
    mean. The total of integers is exact. If a float is not finite, the total is not finite, and the other results are
    undefined. Raises TypeError for another `kind`.
    """
    cdef Py_ssize_t n = data.shape[0]
    cdef const uint8_t* p = &data[0]
    if kind == "f4":
        return sum_numbers(<const float*>p, n // 4)
    if kind == "f8":
        return sum_numbers(<const double*>p, n // 8)
    if kind == "i1":
        return sum_numbers(<const int8_t*>p, n)
    if kind == "u1":
        return sum_numbers(p, n)
    if kind == "i2":
        return sum_numbers(<const int16_t*>p, n // 2)
    if kind == "u2":
        return sum_numbers(<const uint16_t*>p, n // 2)
    if kind == "i4":
        return sum_numbers(<const int32_t*>p, n // 4)
    if kind == "u4":
        return sum_numbers(<const uint32_t*>p, n // 4)
    if kind == "i8":
        return sum_numbers(<const int64_t*>p, n // 8)
    if kind == "u8":
        return sum_numbers(<const uint64_t*>p, n // 8)
    raise TypeError(kind)
