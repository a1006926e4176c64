"""Tensors made from arrays: the values that the official reader returns, and the ownership of their memory."""

from __future__ import annotations

import gc

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
import pytest
import stored_tensors
from budget import examples
from hypothesis import given
from hypothesis import strategies as st

import onnxwire
from onnxwire import TensorProto, from_array

DATA_TYPES = stored_tensors.DATA_TYPES
EVERY_TYPE = pytest.mark.parametrize("data_type", DATA_TYPES.values(), ids=DATA_TYPES)
# The types whose elements are numbers of one or more whole bytes.
EVERY_WHOLE_BYTE_TYPE = pytest.mark.parametrize(
    "name", [name for name in DATA_TYPES if stored_tensors.BITS[DATA_TYPES[name]] >= 8 and name != "STRING"]
)


def parse_officially(tensor):
    """Return the message that the official runtime parses from the encoding of a tensor."""
    return onnx.TensorProto.FromString(tensor.SerializeToString())


def read_officially(tensor):
    """Return the array that the official reader makes of a tensor."""
    return onnx.numpy_helper.to_array(parse_officially(tensor))


def memory_layouts(array):
    """Yield the array in different memory layouts."""
    yield array
    yield np.array(array, order="F")
    every_second, reversed_index = (tuple(slice(None, None, step) for _ in array.shape) + (...,) for step in (2, -1))
    spaced_array = np.empty([2 * side for side in array.shape], array.dtype)[every_second]
    spaced_array[...] = array
    yield spaced_array  # gaps between elements
    yield array[reversed_index].copy()[reversed_index]  # each axis stored in reverse
    # The first axis is stored as the last.
    yield np.moveaxis(np.moveaxis(array, 0, -1).copy(), -1, 0) if array.ndim else array.copy()
    if array.dtype.isbuiltin and array.dtype != object:  # big-endian; not for strings
        yield array.astype(array.dtype.newbyteorder(">"))


# --- written values


@EVERY_TYPE
@examples(25)
@given(data=st.data(), name=st.none() | st.text(max_size=3))
def test_the_official_reader_reads_the_array_back(data_type, data, name):
    array = data.draw(stored_tensors.tensor_parts(data_type)).array()
    expected = onnx.numpy_helper.from_array(array, name)
    for same_array_in_layout in memory_layouts(array):
        tensor = from_array(same_array_in_layout, name)
        assert tensor.SerializeToString() == expected.SerializeToString()
        assert (tensor.data_type, tensor.name, tensor.shape) == (data_type, name or "", array.shape)
        stored_tensors.assert_same_array(tensor.numpy(), array)
        if data_type != DATA_TYPES["STRING"]:  # the official reader loses NULs in arrays of strings
            stored_tensors.assert_same_array(read_officially(tensor), array)
            assert bytes(tensor.raw_view) == expected.raw_data
            assert tensor.nbytes == len(expected.raw_data)


@pytest.mark.parametrize("code", "bBhHiIlLqQpPefdFD?")
@pytest.mark.parametrize("order", "<>=")
def test_every_type_of_numpy_that_onnx_has_is_accepted_in_either_byte_order(code, order):
    array = np.arange(6).reshape(2, 3).astype(np.dtype(code).newbyteorder(order))
    expected = array.astype(np.dtype(code).newbyteorder("="))
    tensor = from_array(array)
    np.testing.assert_array_equal(read_officially(tensor), array)
    assert tensor.raw_data == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert tensor.numpy().dtype == expected.dtype


def test_an_array_may_repeat_one_element_by_strides():
    assert from_array(np.broadcast_to(np.float32(1.5), (2, 3))).numpy().tolist() == [[1.5] * 3] * 2


STRINGS = ["", "a", "ä€𝄞", "x" * 300]


@pytest.mark.parametrize(
    "array",
    [
        np.array(STRINGS),
        np.array(STRINGS, object),
        np.array([text.encode() for text in STRINGS]),
        np.array([text.encode() for text in STRINGS], object),
        np.array([STRINGS[0], STRINGS[1].encode(), np.str_(STRINGS[2]), np.bytes_(STRINGS[3])], object),
        np.array(STRINGS).astype(">U300"),
        np.array([text for text in STRINGS for _ in "12"])[::2],
    ],
    ids=["str", "objects", "bytes", "objects of bytes", "mixed", "big-endian", "strided"],
)
def test_arrays_of_text_become_strings(array):
    for shape in ((4,), (2, 2)):
        tensor = from_array(array.reshape(shape), "t")
        assert tensor.data_type == DATA_TYPES["STRING"]
        expected = np.array(STRINGS, object).reshape(shape)
        stored_tensors.assert_same_array(read_officially(tensor), expected)
        stored_tensors.assert_same_array(tensor.numpy(), expected)


def test_bytes_that_are_not_text_are_stored_unchanged():
    array = np.array([b"\xff\0\xfe", b"\0"], object)
    assert list(parse_officially(from_array(array)).string_data) == [b"\xff\0\xfe", b"\0"]
    stored_tensors.assert_same_array(from_array(array).numpy(strings="bytes"), array)


@pytest.mark.parametrize("array", [np.array("text"), np.array(b"text"), np.array("text", object)])
def test_a_string_may_be_of_rank_0(array):
    tensor = from_array(array)
    assert (tensor.shape, list(parse_officially(tensor).string_data)) == ((), [b"text"])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 4)])
@pytest.mark.parametrize("dtype", ["f4", "U3", "S3", "O", ml_dtypes.int4])
def test_an_empty_array_becomes_a_tensor_of_its_shape(shape, dtype):
    tensor = from_array(np.empty(shape, dtype))
    assert read_officially(tensor).shape == tensor.numpy().shape == shape


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(2, "M8[s]"),
        np.zeros(2, "m8"),
        np.zeros(2, "V3"),
        np.zeros(2, [("a", "f4")]),
        np.zeros(2, ml_dtypes.float8_e3m4),
        np.zeros(2, ml_dtypes.float8_e4m3),
        np.zeros(2, ml_dtypes.float8_e4m3b11fnuz),
        np.array([1, 2], object),
        np.array(["a", None], object),
        np.array(["\ud800"], object),
        np.array(["\ud800"]),
        *([np.zeros(2, np.longdouble)] if np.dtype(np.longdouble) != np.float64 else []),
    ],
    ids=lambda array: str(array.dtype),
)
def test_an_array_that_no_onnx_type_can_store_is_refused(array):
    with pytest.raises(onnxwire.TensorError) as error_info:
        from_array(array, "w0")
    assert error_info.value.tensor == "w0"
    assert array.dtype == object or str(array.dtype) in str(error_info.value) or array.dtype.kind == "U"


# --- the owner of the memory


@EVERY_WHOLE_BYTE_TYPE
def test_a_tensor_shares_the_memory_of_the_array(name, tmp_path):
    array_of_ones = stored_tensors.TensorParts(DATA_TYPES[name], [2, 3], [1] * 6).array()
    array = np.zeros((2, 3), array_of_ones.dtype)
    tensor = from_array(array)
    assert np.shares_memory(tensor.numpy(), array)
    assert np.shares_memory(np.frombuffer(tensor.raw_view, np.uint8), array)
    array[...] = array_of_ones
    stored_tensors.assert_same_array(tensor.numpy(), array_of_ones)
    stored_tensors.assert_same_array(tensor.read(...), array_of_ones)
    stored_tensors.assert_same_array(read_officially(tensor), array_of_ones)
    onnxwire.save(tensor, tmp_path / "t.pb")
    stored_tensors.assert_same_array(onnxwire.load(tmp_path / "t.pb", TensorProto).numpy(), array_of_ones)


@pytest.mark.parametrize("n", [1, 5, 100_000])
def test_a_tensor_that_was_added_to_a_model_is_saved_with_it(n, tmp_path):
    array = np.arange(n, dtype=np.float32)
    model = onnxwire.ModelProto()
    model.graph.initializer.append(from_array(array, "w"))
    model.graph.node.add().attribute.add(name="value").t.CopyFrom(from_array(array[::-1]))
    onnxwire.save(model, tmp_path / "m.onnx")
    loaded_model = onnx.load(tmp_path / "m.onnx")
    stored_tensors.assert_same_array(onnx.numpy_helper.to_array(loaded_model.graph.initializer[0]), array)
    stored_tensors.assert_same_array(onnx.numpy_helper.to_array(loaded_model.graph.node[0].attribute[0].t), array[::-1])


def test_an_encoding_does_not_change_with_the_array():
    array = np.zeros(3, np.int64)
    tensor = from_array(array)
    encoded = tensor.SerializeToString()
    array[:] = 7
    assert onnx.numpy_helper.to_array(onnx.TensorProto.FromString(encoded)).tolist() == [0, 0, 0]
    assert read_officially(tensor).tolist() == [7, 7, 7]


def test_an_array_of_a_tensor_keeps_the_memory_of_the_original_array():
    tensor = from_array(np.arange(10_000, dtype=np.int32))
    array = tensor.numpy()
    del tensor
    gc.collect()
    np.empty(10_000, np.int32)[:] = -1  # overwrites the memory if it was released
    assert array.tolist() == list(range(10_000))


def test_a_read_only_array_is_shared():
    array = np.frombuffer(b"\1\0\2\0", np.int16)
    tensor = from_array(array)
    assert np.shares_memory(tensor.numpy(), array)
    copied_array = tensor.numpy(writable=True)
    copied_array[:] = 0
    assert array.tolist() == [1, 2]


def test_a_tensor_from_an_array_can_be_edited_like_any_other():
    array = np.ones(4, np.float32)
    tensor = from_array(array, "w")
    tensor.name = "v"
    tensor.dims[:] = [2, 2]
    assert parse_officially(tensor).name == "v"
    assert read_officially(tensor).tolist() == [[1, 1], [1, 1]]
    tensor.raw_data = bytes(16)
    assert not tensor.numpy().any()
    assert array.tolist() == [1] * 4


def test_an_array_of_a_tensor_makes_a_tensor_without_a_copy():
    data = TensorProto(data_type=DATA_TYPES["DOUBLE"], dims=[2], raw_data=bytes(16)).SerializeToString()
    tensor = from_array(TensorProto.FromString(data).numpy())
    assert np.shares_memory(tensor.numpy(), np.frombuffer(data, np.uint8))
    assert tensor.SerializeToString() == data


@EVERY_TYPE
def test_a_tensor_from_an_array_can_be_copied_and_compared(data_type):
    array = stored_tensors.TensorParts(
        data_type, [3], [b"a", b"b", b"c"] if data_type == DATA_TYPES["STRING"] else [1, 0, 1]
    ).array()
    tensor = from_array(array, "w")
    copy = TensorProto()
    copy.CopyFrom(tensor)
    assert copy == tensor == TensorProto.FromString(tensor.SerializeToString())
    assert tensor.ByteSize() == len(tensor.SerializeToString())
    assert onnxwire.from_text(onnxwire.to_text(tensor), TensorProto) == tensor
