"""The decoder of packed varints returns, with every set of vector instructions, the numbers of a decoder in Python.

Several threads decode a long run like one thread, and varints of more than 10 bytes raise DecodeError.
"""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wire import varint

import onnxwire
from onnxwire._varint import decode_packed, packed_levels

# Integer type of protobuf → numpy dtype.
DTYPES = {
    "int64": "i8",
    "uint64": "u8",
    "int32": "i4",
    "uint32": "u4",
    "bool": "?",
    "sint64": "i8",
    "sint32": "i4",
}


def value_of(integer_type: str, raw_value: int) -> int:
    """Return the number that a varint encodes, according to protobuf's encoding specification."""
    bits = 32 if integer_type.endswith("32") else 64
    if integer_type == "bool":
        return int(raw_value != 0)
    if integer_type.startswith("sint"):
        raw_value &= (1 << bits) - 1
        return (raw_value >> 1) ^ -(raw_value & 1)
    raw_value &= (1 << bits) - 1
    return raw_value - (1 << bits) if integer_type.startswith("int") and raw_value >> (bits - 1) else raw_value


def decode_in_python(data: bytes) -> list[int]:
    """Return the varints of a run as uint64; stop before the first one that is truncated or has more than 10 bytes."""
    numbers, raw_value, shift = [], 0, 0
    for byte in data:
        if shift == 70:  # ten bytes of seven bits
            break
        raw_value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            numbers.append(raw_value & (1 << 64) - 1)
            raw_value, shift = 0, 0
    return numbers


varints = st.builds(varint, st.integers(0, (1 << 64) - 1) | st.integers(0, 300), st.integers(0, 10))
runs = st.lists(varints, max_size=300).map(b"".join)


@pytest.mark.parametrize("integer_type", DTYPES)
@pytest.mark.parametrize("level", packed_levels())
@given(data=runs | st.binary(max_size=400) | st.binary(max_size=200).map(lambda b: b + bytes(200)))
# Varints of 10 bytes, alone and across the border of a block of 64 bytes, and varints of more than 10 bytes.
@example(data=b"\x80" * 9 + b"\x01")
@example(data=b"\x00" * 63 + b"\x80" * 9 + b"\x01" + b"\x01" * 100)
@example(data=b"\x01" * 100 + b"\xff" * 11 + b"\x01" * 100)
@example(data=b"\xff" * 200)
@example(data=b"\xff" * 200 + bytes(100))
def test_every_instruction_level_decodes_as_python_does(integer_type: str, level: int, data: bytes) -> None:
    numbers = np.frombuffer(decode_packed(data, integer_type, level), DTYPES[integer_type])
    assert numbers.tolist() == [value_of(integer_type, raw_value) for raw_value in decode_in_python(data)]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 71, 72, 73, 128, 135, 136, 137, 1000])
def test_runs_of_any_length_are_decoded_completely(size: int) -> None:
    # A multiplicative hash of i, shifted so that the varints have 1 to 10 bytes.
    numbers = [(i * 0x9E3779B97F4A7C15 >> (i % 64)) & (1 << 64) - 1 for i in range(size)]
    data = b"".join(varint(number) for number in numbers)
    for level in packed_levels():
        assert np.frombuffer(decode_packed(data, "uint64", level), "u8").tolist() == numbers


@pytest.mark.parametrize("offset", range(0, 140, 3))
def test_a_varint_of_eleven_bytes_in_a_packed_run_raises_decode_error(offset: int) -> None:
    run = b"\x01" * offset + b"\x80" * 10 + b"\x01" + b"\x02" * 80
    data = b"\x3a" + varint(len(run)) + run  # the packed field int64_data
    with pytest.raises(onnxwire.DecodeError, match="more than 10 bytes") as excinfo:
        onnxwire.verify(data, onnxwire.TensorProto)
    assert excinfo.value.offset == len(data) - len(run) + offset
    with pytest.raises(onnxwire.DecodeError, match="more than 10 bytes"):
        list(onnxwire.TensorProto.FromString(data).int64_data)


def long_run() -> bytes:
    """Return 4 MB of varints of 1 to 10 bytes: large enough for several threads."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 1 << 64, 70_000, np.uint64, endpoint=False) >> rng.integers(0, 64, 70_000, np.uint64)
    return b"".join(varint(int(number)) for number in numbers) * 12


def test_several_threads_decode_a_run_like_one_thread() -> None:
    run = long_run()
    for end in (len(run), 2 << 20, (2 << 20) + 1, 3_333_333):
        part = run[:end].rstrip(bytes(range(128, 256)))  # ends after a complete varint
        tensor = onnxwire.TensorProto.FromString(b"\x3a" + varint(len(part)) + part)
        assert bytes(memoryview(tensor.int64_data)) == decode_packed(part, "int64")
        assert len(tensor.int64_data) == len(decode_packed(part, "int64")) // 8


@pytest.mark.parametrize("share", range(1, 8, 2))
@pytest.mark.parametrize("damaged_bytes", [b"\x80" * 10 + b"\x01", b"\xff" * 3_000_000 + b"\x01"])
def test_damage_in_the_share_of_any_thread_raises_decode_error(share: int, damaged_bytes: bytes) -> None:
    """share: the damage is inserted after this number of eighths of the run."""
    run = long_run()
    offset = run.index(b"\x01", len(run) * share // 8) + 1  # after a complete varint, as 1 is less than 128
    run = run[:offset] + damaged_bytes + run[offset:]
    tensor = onnxwire.TensorProto.FromString(b"\x3a" + varint(len(run)) + run)
    with pytest.raises(onnxwire.DecodeError, match="more than 10 bytes"):
        memoryview(tensor.int64_data)
