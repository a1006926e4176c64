"""Arrays of tensors, compared with the official arrays: every type and storage, indices, strings and segments."""

from __future__ import annotations

import os

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
import stored_tensors
import wire
from budget import examples
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices
from test_bundled_files import EVERY_FILE, ONNX_FOLDER, classes_of, read

import onnxwire
from onnxwire import TensorProto

EVERY_TYPE = pytest.mark.parametrize("data_type", stored_tensors.DATA_TYPES.values(), ids=stored_tensors.DATA_TYPES)
STRING = stored_tensors.DATA_TYPES["STRING"]
BIT_MULTIPLIER = 0x9E3779B97F4A7C15F39CC0605CEDC835  # the multiples of this number have varied bits


def parse_each_storage(tensor):
    """Return the parsed message of each inline storage of a tensor."""
    return [TensorProto.FromString(data) for data in tensor.inline()]


def string_tensor(*values, dims=None):
    """Return a tensor of strings, given as bytes."""
    return TensorProto(
        name="w", data_type=STRING, dims=[len(values)] if dims is None else dims, string_data=list(values)
    )


# --- complete arrays


@EVERY_FILE
def test_every_tensor_of_the_file_is_the_official_array(file):
    our_class, official_class = classes_of(file)
    data = read(file)
    message = onnxwire.load(os.path.join(ONNX_FOLDER, file), our_class) if data else our_class.FromString(data)
    official_tensors = stored_tensors.tensors_in(official_class.FromString(data))
    folder = os.path.join(ONNX_FOLDER, os.path.dirname(file))
    for (path, tensor), (official_path, expected) in zip(
        stored_tensors.tensors_in(message), official_tensors, strict=True
    ):
        assert path == official_path
        stored_tensors.assert_same_array(tensor.numpy(), onnx.numpy_helper.to_array(expected, folder))


@EVERY_TYPE
@examples(25)
@given(data=st.data())
def test_the_array_of_each_storage_equals_the_official_one(data_type, data):
    tensor = data.draw(stored_tensors.tensor_parts(data_type))
    expected = tensor.array()
    for our_tensor in parse_each_storage(tensor):
        assert our_tensor.shape == expected.shape
        assert our_tensor.dtype == expected.dtype
        stored_tensors.assert_same_array(our_tensor.numpy(), expected)
        stored_tensors.assert_same_array(np.asarray(our_tensor), expected)


@EVERY_TYPE
@examples(15)
@given(data=st.data())
def test_the_bytes_of_each_storage_are_those_of_raw_data(data_type, data):
    if data_type == STRING:
        return
    tensor = data.draw(stored_tensors.tensor_parts(data_type))
    for our_tensor in parse_each_storage(tensor):
        assert our_tensor.nbytes == len(tensor.raw)
        view = our_tensor.raw_view
        assert (view.format, view.ndim, view.readonly, bytes(view)) == ("B", 1, True, tensor.raw)
        packed_array = our_tensor.numpy(packed=True)
        assert (packed_array.dtype, packed_array.shape) == (np.uint8, (len(tensor.raw),))
        assert packed_array.tobytes() == tensor.raw


@EVERY_TYPE
@examples(15)
@given(data=st.data())
def test_an_array_of_a_typed_field_in_pieces_is_complete(data_type, data):
    """Packed runs and single values of a repeated field may alternate, with other records between them."""
    tensor = data.draw(stored_tensors.tensor_parts(data_type))
    n_first = data.draw(st.integers(0, len(tensor.elements)))
    if stored_tensors.BITS[data_type] < 6:
        n_first -= n_first % 4  # so that no entry contains elements of both parts
    first_part, second_part = (
        tensor._replace(elements=part, dims=[len(part)])
        for part in (tensor.elements[:n_first], tensor.elements[n_first:])
    )
    for first_is_packed in (True, False):
        for second_is_packed in (True, False):
            our_tensor = TensorProto.FromString(
                first_part.typed_records(first_is_packed)
                + tensor.message()
                + second_part.typed_records(second_is_packed)
            )
            stored_tensors.assert_same_array(our_tensor.numpy(), tensor.array())


@EVERY_TYPE
@given(data=st.data())
@examples(10)
def test_an_edited_tensor_has_a_new_array(data_type, data):
    first, second = data.draw(stored_tensors.tensor_parts(data_type)), data.draw(stored_tensors.tensor_parts(data_type))
    for message in second.inline():
        our_tensor = parse_each_storage(first)[-1]
        array_before = our_tensor.numpy()
        our_tensor.Clear()
        our_tensor.MergeFromString(message)
        stored_tensors.assert_same_array(our_tensor.numpy(), second.array())
        stored_tensors.assert_same_array(array_before, first.array())


def test_dims_may_be_changed():
    tensor = TensorProto(data_type=stored_tensors.DATA_TYPES["INT8"], dims=[2, 3], raw_data=bytes(range(6)))
    tensor.dims[:] = [3, 2]
    assert tensor.shape == (3, 2)
    assert tensor.numpy().tolist() == [[0, 1], [2, 3], [4, 5]]


# The high bits of each last byte are padding.
@pytest.mark.parametrize(
    "name, data, expected",
    [
        ("UINT4", b"\xf1", [1]),
        ("INT2", b"\xfd", [1]),
        ("UINT2", b"\xe4\xfe", [0, 1, 2, 3, 2]),
        ("FLOAT6E2M3", b"\xc8", [1]),
    ],
)
def test_nonzero_padding_bits_are_ignored(name, data, expected):
    tensor = TensorProto(data_type=stored_tensors.DATA_TYPES[name], dims=[len(expected)], raw_data=data)
    assert tensor.numpy().astype(float).tolist() == expected


# --- private memory


@EVERY_TYPE
@pytest.mark.parametrize("keywords", [{"writable": True}, {"copy": True}], ids=["writable", "copy"])
@given(data=st.data())
@examples(10)
def test_writing_to_private_memory_does_not_change_the_tensor(keywords, data_type, data):
    tensor = data.draw(stored_tensors.tensor_parts(data_type))
    for message in tensor.inline():
        bytes_before = bytes(message)
        our_tensor = TensorProto.FromString(message)
        array = our_tensor.numpy(**keywords)
        stored_tensors.assert_same_array(array, tensor.array())
        assert array.flags.writeable
        assert not np.shares_memory(array, np.frombuffer(message, np.uint8))
        array[...] = "other" if data_type == STRING else np.ones((), array.dtype)
        stored_tensors.assert_same_array(our_tensor.numpy(), tensor.array())
        assert message == bytes_before == our_tensor.SerializeToString()


# --- __array__


@EVERY_TYPE
@given(data=st.data())
@examples(10)
def test_numpy_converts_a_tensor_as_it_converts_its_array(data_type, data):
    tensor = data.draw(stored_tensors.tensor_parts(data_type))
    kind = tensor.array().dtype.kind
    other_dtype = object if kind == "O" else np.complex128 if kind == "c" else np.float32
    for our_tensor in parse_each_storage(tensor):
        array = our_tensor.numpy()
        with np.errstate(all="ignore"):
            stored_tensors.assert_same_array(np.asarray(our_tensor, dtype=other_dtype), array.astype(other_dtype))
        copied_array = np.array(our_tensor)
        stored_tensors.assert_same_array(copied_array, array)
        assert copied_array.flags.writeable
        assert not np.shares_memory(copied_array, array)


def test_numpy_makes_no_copy_if_copies_are_forbidden():
    parts = stored_tensors.TensorParts(stored_tensors.DATA_TYPES["INT32"], [3], [1, 2, 3])
    raw_tensor = parse_each_storage(parts)[-1]  # the last storage is raw_data
    assert np.shares_memory(np.array(raw_tensor, copy=False), raw_tensor.numpy())
    assert np.shares_memory(raw_tensor.__array__(), raw_tensor.numpy())
    assert not np.shares_memory(raw_tensor.__array__(copy=True), raw_tensor.numpy())
    with pytest.raises(ValueError):
        np.array(raw_tensor, dtype=np.float64, copy=False)
    with pytest.raises(ValueError):
        raw_tensor.__array__(np.float64, copy=False)
    int4_tensor = TensorProto(data_type=stored_tensors.DATA_TYPES["INT4"], dims=[2], raw_data=b"\x21")
    with pytest.raises(ValueError):
        np.array(int4_tensor, copy=False)
    numbers = TensorProto(int64_data=[1, 2]).int64_data
    assert numbers.__array__(np.int64, copy=False).tolist() == [1, 2]
    with pytest.raises(ValueError, match="allow a copy"):
        numbers.__array__(np.float64, copy=False)


@pytest.mark.parametrize("name", ["FLOAT", "INT32", "INT64", "DOUBLE", "UINT64", "COMPLEX64", "COMPLEX128"])
def test_of_the_typed_fields_only_a_packed_run_of_floats_can_be_shared(name):
    parts = stored_tensors.TensorParts(stored_tensors.DATA_TYPES[name], [3], [1, 2, 3])
    packed_tensor, unpacked_tensor, _ = parse_each_storage(parts)
    edited_tensor, *_ = parse_each_storage(parts)
    getattr(edited_tensor, parts.field.name).reverse()
    is_varint = name in ("INT32", "INT64", "UINT64")
    for tensor, is_shared in ((packed_tensor, not is_varint), (unpacked_tensor, False), (edited_tensor, False)):
        if is_shared:
            assert np.shares_memory(np.array(tensor, copy=False), tensor.numpy())
        else:
            with pytest.raises(ValueError, match="can't share"):
                np.array(tensor, copy=False)
        copied_array = np.array(tensor, copy=True)
        stored_tensors.assert_same_array(copied_array, tensor.numpy())
        assert copied_array.flags.writeable and tensor.numpy(writable=True).flags.writeable


def test_tensors_are_operands_of_numpy():
    tensor = TensorProto(data_type=stored_tensors.DATA_TYPES["INT64"], dims=[2, 2], int64_data=[1, 2, 3, 4])
    assert np.add(tensor, 1).tolist() == [[2, 3], [4, 5]]
    assert np.stack([tensor, tensor]).shape == (2, 2, 2)


# --- strings


def test_strings_are_str_or_bytes():
    tensor = string_tensor(b"a", "ä€𝄞".encode(), b"", b"nul\0", dims=[2, 2])
    assert tensor.numpy().tolist() == tensor.numpy(strings="str").tolist() == [["a", "ä€𝄞"], ["", "nul\0"]]
    byte_strings = tensor.numpy(strings="bytes")
    assert byte_strings.dtype == object
    assert byte_strings.tolist() == [[b"a", "ä€𝄞".encode()], [b"", b"nul\0"]]
    assert tensor.dtype == object


@pytest.mark.parametrize("data", [b"\xff", b"ok\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_strings_that_are_not_utf8_are_returned_as_bytes_only(data):
    tensor = string_tensor(b"first", data)
    with pytest.raises(onnxwire.TensorError, match="UTF-8") as error_info:
        tensor.numpy()
    assert error_info.value.tensor == "w"
    assert "bytes" in str(error_info.value)
    with pytest.raises(onnxwire.TensorError):
        np.asarray(tensor)
    assert tensor.numpy(strings="bytes").tolist() == [b"first", data]


# --- read


def basic_indices_of(shape):
    """Return a strategy for basic indices of ints, slices and Ellipsis; slices may have steps and exceed the shape."""
    bound = st.none() | st.integers(-7, 7)
    step = st.sampled_from([None, 1, 2, 3, -1, -2, 9])
    slices = st.lists(st.builds(slice, bound, bound, step), min_size=0, max_size=len(shape)).map(tuple)
    return basic_indices(shape) | slices | st.just(...) | st.just(())


def with_ellipsis(index):
    """Return the index in a form for which numpy returns an array instead of a scalar."""
    index = index if isinstance(index, tuple) else (index,)
    return index if any(part is ... for part in index) else (*index, ...)


@EVERY_TYPE
@examples(40)
@given(data=st.data())
def test_read_returns_the_elements_of_the_array_at_the_index(data_type, data):
    tensor = data.draw(stored_tensors.tensor_parts(data_type))
    index = data.draw(basic_indices_of(tensor.array().shape))
    expected = tensor.array()[with_ellipsis(index)]
    for our_tensor in parse_each_storage(tensor):
        elements = our_tensor.read(index)
        assert type(elements) is np.ndarray
        stored_tensors.assert_same_array(elements, expected)
        assert elements.flags.writeable
        assert not np.shares_memory(elements, our_tensor.numpy())


@EVERY_TYPE
def test_read_returns_every_range(data_type):
    """Ranges of types of less than 8 bits begin and end at every bit of a byte at which an element can begin."""
    if data_type == STRING:
        return
    mask = 1 if data_type == stored_tensors.DATA_TYPES["BOOL"] else (1 << stored_tensors.BITS[data_type]) - 1
    tensor = stored_tensors.TensorParts(data_type, [11], [i * BIT_MULTIPLIER >> 7 & mask for i in range(11)])
    expected = tensor.array()
    for our_tensor in parse_each_storage(tensor):
        for begin in range(12):
            for end in range(begin, 12):
                stored_tensors.assert_same_array(our_tensor.read(slice(begin, end)), expected[begin:end])
            stored_tensors.assert_same_array(our_tensor.read(slice(begin, None, -1)), expected[begin::-1])


@pytest.mark.parametrize("index", [2, -3, (0, 3), (0, 0, 0), slice(0, 1, 0), "a", 1.0, (..., ...), (slice("a"), 0)])
def test_read_refuses_the_indices_that_numpy_refuses(index):
    tensor = TensorProto(data_type=stored_tensors.DATA_TYPES["INT8"], dims=[2, 3], raw_data=bytes(6))
    with pytest.raises(Exception) as expected:
        tensor.numpy()[index]
    with pytest.raises((expected.type, TypeError)):
        tensor.read(index)


@pytest.mark.parametrize("index", [None, (0, None), [0, 1], np.array([True, False]), (0, [1, 1]), True, np.int64(1)])
def test_read_refuses_an_index_or_returns_the_elements_that_numpy_selects(index):
    tensor = TensorProto(data_type=stored_tensors.DATA_TYPES["INT8"], dims=[2, 3], raw_data=bytes(range(6)))
    try:
        elements = tensor.read(index)
    except (TypeError, IndexError):
        assert type(index) is not np.int64
    else:
        stored_tensors.assert_same_array(elements, np.asarray(tensor.numpy()[index]))


# --- segments


@EVERY_TYPE
@examples(15)
@given(data=st.data(), begin=st.integers(0, 9))
def test_a_segment_is_read_as_a_vector(data_type, data, begin):
    tensor = data.draw(stored_tensors.tensor_parts(data_type, max_side=3))
    n = len(tensor.elements)
    chunk = tensor._replace(dims=[1000, 2])
    # The fields are segment (3), and its begin (1) and end (2).
    segment = wire.len_record(3, wire.varint_record(1, begin) + wire.varint_record(2, begin + n))
    for message in chunk.inline():
        our_tensor = TensorProto.FromString(message + segment)
        stored_tensors.assert_same_array(our_tensor.numpy(), tensor.array().reshape(n))
        stored_tensors.assert_same_array(our_tensor.read(slice(1, None)), tensor.array().reshape(n)[1:])
        if data_type != STRING:
            assert our_tensor.nbytes == len(tensor.raw)


@pytest.mark.parametrize("begin, end", [(2, 1), (-1, 1), (5, 7), (0, 1 << 62), (-(1 << 63), (1 << 63) - 1)])
def test_a_segment_with_invalid_bounds_raises(begin, end):
    tensor = TensorProto(name="w", data_type=stored_tensors.DATA_TYPES["INT8"], dims=[6], raw_data=b"\1\2")
    tensor.segment.begin, tensor.segment.end = begin, end
    with pytest.raises(onnxwire.TensorError, match="segment") as error_info:
        tensor.numpy()
    assert error_info.value.tensor == "w"


def test_a_segment_with_too_few_bytes_raises():
    tensor = TensorProto(name="w", data_type=stored_tensors.DATA_TYPES["INT16"], dims=[6], raw_data=b"\1\2")
    tensor.segment.begin, tensor.segment.end = 1, 3
    with pytest.raises(onnxwire.TensorError) as error_info:
        tensor.numpy()
    assert {"2", "4"} <= stored_tensors.numbers_in(error_info.value.reason)
