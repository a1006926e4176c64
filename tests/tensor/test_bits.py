"""Packed elements of 2, 4 and 6 bits, compared with plain Python and with the official helpers."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import numpy_helper

from onnxwire.tensor.bits import pack, unpack

WIDTHS = [2, 4, 6]  # bits of an element
# Name of a type of ml_dtypes → bits of an element.
DTYPES = {
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
LONG_COUNT = 200_003  # a prime number of elements, so many that they are converted without the GIL
GUARD = 0xA5  # the initial value of bytes in and around outputs, which shows whether a call wrote to them


def packed_size(n: int, bits: int) -> int:
    """Return the number of bytes of n packed elements."""
    return -(-n * bits // 8)


def plain_unpack(data: bytes, n: int, bits: int, start: int) -> list[int]:
    """Return n elements from index `start`, read from one large integer."""
    stream = int.from_bytes(data, "little")
    return [stream >> (start + i) * bits & (1 << bits) - 1 for i in range(n)]


def plain_pack(elements: bytes, bits: int) -> bytes:
    """Return the packed low bits of elements, computed with one large integer."""
    stream = sum((element & (1 << bits) - 1) << i * bits for i, element in enumerate(elements))
    return stream.to_bytes(packed_size(len(elements), bits), "little")


def official_unpack(data: np.ndarray, n: int, bits: int) -> np.ndarray:
    return {2: numpy_helper._unpack_2bit, 4: numpy_helper._unpack_4bit, 6: numpy_helper._unpack_6bit}[bits](data, [n])


def official_pack(elements: np.ndarray, bits: int) -> np.ndarray:
    kernels = {2: numpy_helper._pack_2bitx4, 4: numpy_helper._pack_4bitx2, 6: numpy_helper._pack_6bit}
    return kernels[bits](elements)


def exact_copy(data: bytes) -> np.ndarray:
    """Return a copy in memory of exactly the size of the data, so that a sanitizer detects reads beyond its end."""
    return np.frombuffer(data, np.uint8).copy()


def make_guarded(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a buffer of n bytes in the middle of an array of guard bytes, and the array."""
    guarded_array = np.full(n + 64, GUARD, np.uint8)
    return guarded_array[32 : 32 + n], guarded_array


def random_bytes(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 256, n, np.uint8)


@pytest.mark.parametrize("bits", WIDTHS)
@given(n=st.integers(0, 130), start=st.integers(0, 70), extra_bytes=st.integers(0, 20), data=st.data())
def test_unpacking_equals_plain_python(bits, n, start, extra_bytes, data):
    size = packed_size(start + n, bits) + extra_bytes
    source = exact_copy(data.draw(st.binary(min_size=size, max_size=size)))
    expected = plain_unpack(source.tobytes(), n, bits, start)
    out = np.empty(n, np.uint8)
    unpack(source, out, bits, start)
    assert out.tolist() == expected
    guarded_out, guarded_array = make_guarded(n)
    unpack(source, guarded_out, bits, start)
    assert guarded_out.tolist() == expected
    assert (guarded_array[:32] == GUARD).all() and (guarded_array[32 + n :] == GUARD).all()


@pytest.mark.parametrize("bits", WIDTHS)
@given(elements=st.binary(max_size=130))
def test_packing_equals_plain_python(bits, elements):
    source = exact_copy(elements)
    out = np.full(packed_size(len(elements), bits), GUARD, np.uint8)
    pack(source, out, bits)
    assert out.tobytes() == plain_pack(elements, bits)
    guarded_out, guarded_array = make_guarded(len(out))
    pack(source, guarded_out, bits)
    assert guarded_out.tobytes() == out.tobytes()
    assert (guarded_array[:32] == GUARD).all() and (guarded_array[32 + len(out) :] == GUARD).all()


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 1000, LONG_COUNT])
def test_packing_and_unpacking_equal_the_official_helpers(bits, n):
    packed_bytes = random_bytes(packed_size(n, bits))
    out = np.empty(n, np.uint8)
    unpack(packed_bytes, out, bits)
    np.testing.assert_array_equal(out, official_unpack(packed_bytes, n, bits))
    elements = random_bytes(n)
    packed_elements = np.empty(len(packed_bytes), np.uint8)
    pack(elements, packed_elements, bits)
    np.testing.assert_array_equal(packed_elements, official_pack(elements, bits))


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("start", [0, 1, 2, 3, 5, 16, 99_999])
def test_a_long_run_can_be_read_from_any_element(bits, start):
    packed_bytes = random_bytes(packed_size(LONG_COUNT, bits))
    out = np.empty(LONG_COUNT - start, np.uint8)
    unpack(packed_bytes, out, bits, start)
    np.testing.assert_array_equal(out, official_unpack(packed_bytes, LONG_COUNT, bits)[start:])


@pytest.mark.parametrize("name, bits", DTYPES.items())
def test_elements_are_the_bytes_that_ml_dtypes_stores(name, bits):
    dtype = np.dtype(getattr(ml_dtypes, name))
    codes = np.arange(1 << bits, dtype=np.uint8)
    packed_bytes = np.empty(packed_size(len(codes), bits), np.uint8)
    pack(codes, packed_bytes, bits)
    out = np.empty(len(codes), np.uint8)
    unpack(packed_bytes, out, bits)
    values = out.view(dtype).astype(np.float32)
    assert len(set(values.tolist())) == len(codes) - name.startswith("float")  # 0.0 == -0.0
    np.testing.assert_array_equal(values.astype(dtype).view(np.uint8), out)


@pytest.mark.parametrize("name, bits", DTYPES.items())
def test_high_bits_of_numpys_elements_are_not_packed(name, bits):
    dtype = np.dtype(getattr(ml_dtypes, name))
    # The sign of a negative integer fills the high bits of its byte.
    values = np.negative(np.arange(1 << bits, dtype=np.uint8).view(dtype))
    out = np.empty(packed_size(len(values), bits), np.uint8)
    pack(values.view(np.uint8), out, bits)
    assert out.tobytes() == plain_pack(values.view(np.uint8).tobytes(), bits)


@pytest.mark.parametrize("bits", WIDTHS)
def test_a_source_that_is_too_short_raises_and_no_byte_is_written(bits):
    for n, start in [(1, 0), (16, 0), (17, 3), (1000, 5), (LONG_COUNT, 0)]:
        source = random_bytes(packed_size(start + n, bits) - 1)
        out = np.full(n, GUARD, np.uint8)
        with pytest.raises(ValueError, match=f"elements? of {bits} bits; requested: {n:,} from index {start}"):
            unpack(source, out, bits, start)
        assert (out == GUARD).all()


@pytest.mark.parametrize("start", [-1, -8, 9, (1 << 63) - 1, -1 << 63])
def test_a_start_outside_the_source_raises(start):
    out = np.full(1, GUARD, np.uint8)
    for buffer in (out, out[:0]):
        with pytest.raises(ValueError, match="from index"):
            unpack(bytes(4), buffer, 4, start)
    assert out[0] == GUARD


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("difference", [-1, 1])
def test_packing_into_a_buffer_of_another_size_raises_and_no_byte_is_written(bits, difference):
    for n in (1, 16, 17, 1000, LONG_COUNT):
        out = np.full(packed_size(n, bits) + difference, GUARD, np.uint8)
        with pytest.raises(ValueError, match=f"required for {n:,} elements? of {bits} bits"):
            pack(random_bytes(n), out, bits)
        assert (out == GUARD).all()


@pytest.mark.parametrize("bits", [-2, 0, 1, 3, 5, 7, 8, 16])
def test_unsupported_widths_raise(bits):
    with pytest.raises(ValueError, match=f"not {bits}"):
        unpack(bytes(64), bytearray(4), bits)
    with pytest.raises(ValueError, match=f"not {bits}"):
        pack(bytes(4), bytearray(64), bits)


def test_arrays_of_elements_wider_than_a_byte_raise():
    with pytest.raises(ValueError, match="one byte each"):
        unpack(bytes(64), np.zeros(4, np.uint16), 4)
    with pytest.raises(ValueError, match="one byte each"):
        pack(np.zeros(4, np.int32), bytearray(8), 4)


def test_memory_that_is_read_only_or_has_gaps_is_refused():
    with pytest.raises((BufferError, ValueError)):
        unpack(bytes(2), bytes(4), 4)
    with pytest.raises((BufferError, ValueError)):
        unpack(bytes(2), np.zeros(8, np.uint8)[::2], 4)
    with pytest.raises((BufferError, ValueError)):
        pack(np.zeros(8, np.uint8)[::2], bytearray(2), 4)


def test_arrays_of_any_rank_are_filled_in_order():
    source = random_bytes(12)
    out = np.empty((2, 3, 4), np.uint8)
    unpack(source, out, 4)
    np.testing.assert_array_equal(out.ravel(), official_unpack(source, 24, 4))
