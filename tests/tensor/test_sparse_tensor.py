"""Sparse tensors: conversion to dense arrays, conversion to and from coordinates, and errors."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
import stored_tensors
import wire
from budget import examples
from hypothesis import example, given
from hypothesis import strategies as st

import onnxwire
from onnxwire import SparseTensorProto, TensorProto, from_array, from_coo

DATA_TYPES = stored_tensors.DATA_TYPES
EVERY_TYPE = pytest.mark.parametrize("data_type", DATA_TYPES.values(), ids=DATA_TYPES)


def coordinates(linear_index, dims):
    """Return the coordinates of the element at a linear index of an array; the last dimension varies fastest."""
    result = []
    for dim in reversed(dims):
        linear_index, coordinate = divmod(linear_index, dim)
        result.insert(0, coordinate)
    return result


def make_int64_tensor(values, dims):
    """Return an INT64 tensor with its elements in int64_data."""
    return TensorProto(data_type=DATA_TYPES["INT64"], dims=dims, int64_data=values)


def make_sparse(values, indices, dims):
    """Make a SparseTensorProto, encode it and parse the bytes. values, indices: a TensorProto, or None if absent."""
    message = SparseTensorProto(dims=dims)
    if values is not None:
        message.values.CopyFrom(values)
    if indices is not None:
        message.indices.CopyFrom(indices)
    return SparseTensorProto.FromString(message.SerializeToString())


@st.composite
def sparse_parts(draw, data_type):
    """Draw the dims, the sorted linear indices and the values (TensorParts) of a sparse tensor."""
    dims = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    linear_indices = sorted(draw(st.sets(st.integers(0, math.prod(dims) - 1), max_size=9)))
    return dims, linear_indices, draw(stored_tensors.tensor_parts(data_type, dims=[len(linear_indices)]))


def make_dense(dims, linear_indices, values):
    """Return the dense array, computed element by element."""
    array = np.zeros(dims, values.dtype)
    if values.dtype == object:
        array[...] = ""
    for index, value in zip(linear_indices, values, strict=True):
        array[tuple(coordinates(index, dims))] = value
    return array


@EVERY_TYPE
@examples(20)
@given(data=st.data())
def test_linear_indices_and_coordinates_define_the_same_array(data_type, data):
    dims, linear_indices, parts = data.draw(sparse_parts(data_type))
    values = parts.array()
    coordinate_array = np.array([coordinates(index, dims) for index in linear_indices], np.int64).reshape(
        len(linear_indices), len(dims)
    )
    for message in parts.inline():
        for indices in (
            make_int64_tensor(linear_indices, [len(linear_indices)]),
            make_int64_tensor(coordinate_array.flatten(), coordinate_array.shape),
            from_array(coordinate_array),
        ):
            our_tensor = make_sparse(TensorProto.FromString(message), indices, dims)
            values_read, coordinates_read = our_tensor.to_coo()
            stored_tensors.assert_same_array(values_read, values)
            stored_tensors.assert_same_array(coordinates_read, coordinate_array)
            stored_tensors.assert_same_array(our_tensor.numpy(), make_dense(dims, linear_indices, values))


@EVERY_TYPE
@examples(20)
@given(data=st.data())
def test_coordinates_make_a_sparse_tensor(data_type, data):
    dims, linear_indices, parts = data.draw(sparse_parts(data_type))
    values = parts.array()
    coordinate_array = np.array([coordinates(index, dims) for index in linear_indices], np.int64).reshape(
        len(linear_indices), len(dims)
    )
    our_tensor = from_coo(values, coordinate_array, dims, "s")
    official = onnx.SparseTensorProto.FromString(our_tensor.SerializeToString())
    assert (official.values.name, list(official.dims)) == ("s", dims)
    stored_tensors.assert_same_array(onnx.numpy_helper.to_array(official.values), values)
    stored_tensors.assert_same_array(onnx.numpy_helper.to_array(official.indices), coordinate_array)
    if linear_indices:
        onnx.checker.check_sparse_tensor(official)
    values_read, coordinates_read = our_tensor.to_coo()
    stored_tensors.assert_same_array(values_read, values)
    stored_tensors.assert_same_array(coordinates_read, coordinate_array)
    stored_tensors.assert_same_array(our_tensor.numpy(), make_dense(dims, linear_indices, values))
    stored_tensors.assert_same_array(
        SparseTensorProto.FromString(our_tensor.SerializeToString()).numpy(), our_tensor.numpy()
    )


def test_a_sparse_tensor_without_values_needs_no_indices():
    our_tensor = make_sparse(TensorProto(data_type=DATA_TYPES["FLOAT"], dims=[0]), None, [2, 3])
    values, indices = our_tensor.to_coo()
    assert (values.shape, values.dtype) == ((0,), np.float32)
    assert (indices.shape, indices.dtype) == ((0, 2), np.int64)
    stored_tensors.assert_same_array(our_tensor.numpy(), np.zeros((2, 3), np.float32))


def test_writing_to_the_dense_array_does_not_change_the_tensor():
    our_tensor = from_coo(np.ones(1, np.float32), np.array([[1]]), (3,))
    array = our_tensor.numpy()
    array[:] = 5
    assert our_tensor.numpy().tolist() == [0, 1, 0]


def test_coordinates_are_read_without_memory_for_the_dense_array():
    values, coordinate_array = np.array([1.5, 2.5]), np.array([[0, 5], [10**9 - 1, 10**9 - 1]])
    our_tensor = from_coo(values, coordinate_array, (10**9, 10**9))
    stored_tensors.assert_same_array(our_tensor.to_coo()[1], coordinate_array)
    tensor_with_linear_indices = make_sparse(
        from_array(values), make_int64_tensor([5, 10**18 - 1], [2]), [10**9, 10**9]
    )
    stored_tensors.assert_same_array(tensor_with_linear_indices.to_coo()[1], coordinate_array)
    with pytest.raises((onnxwire.Error, MemoryError)):
        our_tensor.numpy()


ONE_VALUE = TensorProto(data_type=DATA_TYPES["FLOAT"], dims=[1], float_data=[1], name="w0")
TWO_VALUES = TensorProto(data_type=DATA_TYPES["FLOAT"], dims=[2], float_data=[1, 2], name="w0")
# By fault: values, indices and dims.
INCONSISTENT_PARTS = {
    "no values": (None, make_int64_tensor([0], [1]), [2]),
    "fewer values than their dims": (
        TensorProto(data_type=DATA_TYPES["FLOAT"], dims=[2], float_data=[1], name="w0"),
        make_int64_tensor([0, 1], [2]),
        [4],
    ),
    "values of rank 2": (
        TensorProto(data_type=DATA_TYPES["FLOAT"], dims=[1, 1], float_data=[1], name="w0"),
        make_int64_tensor([0], [1]),
        [2],
    ),
    "values of rank 0": (
        TensorProto(data_type=DATA_TYPES["FLOAT"], float_data=[1], name="w0"),
        make_int64_tensor([0], [1]),
        [2],
    ),
    "no indices": (ONE_VALUE, None, [2]),
    "too few indices": (TWO_VALUES, make_int64_tensor([0], [1]), [4]),
    "too many indices": (ONE_VALUE, make_int64_tensor([0, 1], [2]), [4]),
    "fewer indices than their dims": (TWO_VALUES, make_int64_tensor([0], [2]), [4]),
    "too few coordinates": (TWO_VALUES, make_int64_tensor([0, 0], [1, 2]), [4, 4]),
    "coordinates of another rank": (TWO_VALUES, make_int64_tensor([0, 1], [2, 1]), [4, 4]),
    "coordinates of rank 3": (ONE_VALUE, make_int64_tensor([0, 0], [1, 2, 1]), [4, 4]),
    "a single index of rank 0": (ONE_VALUE, make_int64_tensor([0], []), [4]),
    "indices of another type": (ONE_VALUE, TensorProto(data_type=DATA_TYPES["INT32"], dims=[1], int32_data=[0]), [4]),
    "float indices": (ONE_VALUE, TensorProto(data_type=DATA_TYPES["DOUBLE"], dims=[1], double_data=[0]), [4]),
    "an index too large": (ONE_VALUE, make_int64_tensor([16], [1]), [4, 4]),
    "a negative index": (ONE_VALUE, make_int64_tensor([-1], [1]), [4, 4]),
    "the least index": (ONE_VALUE, make_int64_tensor([-(1 << 63)], [1]), [4, 4]),
    "a coordinate too large": (ONE_VALUE, make_int64_tensor([0, 4], [1, 2]), [4, 4]),
    "a coordinate too large though the linear index is not": (ONE_VALUE, make_int64_tensor([0, 7], [1, 2]), [4, 4]),
    "a negative coordinate": (ONE_VALUE, make_int64_tensor([1, -1], [1, 2]), [4, 4]),
    "no dims": (ONE_VALUE, make_int64_tensor([0], [1]), []),
    "a zero dim": (ONE_VALUE, make_int64_tensor([0], [1]), [0]),
    "a negative dim": (ONE_VALUE, make_int64_tensor([0], [1]), [-4]),
    "two negative dims": (ONE_VALUE, make_int64_tensor([0], [1]), [-4, -4]),
    "dims beyond int64": (ONE_VALUE, make_int64_tensor([0], [1]), [1 << 32, 1 << 32]),
    "an index twice": (TWO_VALUES, make_int64_tensor([3, 3], [2]), [4]),
    "a coordinate twice": (TWO_VALUES, make_int64_tensor([0, 3, 0, 3], [2, 2]), [4, 4]),
    "indices that descend": (TWO_VALUES, make_int64_tensor([3, 2], [2]), [4]),
    "coordinates that descend": (TWO_VALUES, make_int64_tensor([0, 3, 0, 2], [2, 2]), [4, 4]),
}


@pytest.mark.parametrize("message", [make_sparse(*row) for row in INCONSISTENT_PARTS.values()], ids=INCONSISTENT_PARTS)
def test_inconsistent_values_indices_and_dims_raise(message):
    for read in (message.to_coo, message.numpy):
        with pytest.raises(onnxwire.TensorError) as error_info:
            read()
        assert not message.values.name or "w0" in str(error_info.value)


def test_more_dims_than_numpy_allows_raise():
    dims = [1] * 65
    with_linear_index = make_sparse(ONE_VALUE, make_int64_tensor([0], [1]), dims)
    with_coordinates = make_sparse(ONE_VALUE, make_int64_tensor([0] * 65, [1, 65]), dims)
    assert with_coordinates.to_coo()[1].shape == (1, 65)
    for read in (with_linear_index.to_coo, with_linear_index.numpy, with_coordinates.numpy):
        with pytest.raises(onnxwire.TensorError, match="numpy has no array of dims"):
            read()


@pytest.mark.parametrize(
    "values, indices, shape",
    [
        (np.ones(2), np.array([[0]]), (3,)),
        (np.ones(1), np.array([[3]]), (3,)),
        (np.ones(1), np.array([[-1]]), (3,)),
        (np.ones(1), np.array([[0, 0]]), (3,)),
        (np.ones((1, 1)), np.array([[0]]), (3,)),
        (np.ones(1), np.array([[0.0]]), (3,)),
        (np.ones(1), np.array([[0]]), ()),
        (np.ones(1), np.array([[0]]), (-3,)),
        (np.ones(1), np.array([[0, 0]]), (1 << 32, 1 << 32)),
        (np.ones(2), np.array([[1], [1]]), (3,)),
    ],
)
def test_from_coo_refuses_inconsistent_arguments(values, indices, shape):
    with pytest.raises(onnxwire.TensorError, match="w0"):
        from_coo(values, indices, shape, "w0")


@pytest.mark.parametrize("array", [np.float32(3), np.zeros(()), 1, "text"])
def test_from_dense_refuses_a_scalar(array):
    with pytest.raises(onnxwire.TensorError, match=r"'w0': a sparse tensor can't have the dims \[\]; reshape"):
        onnxwire.from_dense(array, "w0")


def test_from_coo_sorts_unsorted_indices():
    our_tensor = from_coo(np.array([1.0, 2.0]), np.array([[1, 1], [0, 2]]), (2, 3))
    onnx.checker.check_sparse_tensor(onnx.SparseTensorProto.FromString(our_tensor.SerializeToString()))
    assert our_tensor.numpy().tolist() == [[0, 0, 2], [0, 1, 0]]


@given(
    st.one_of(make(SparseTensorProto.DESCRIPTOR) for make in (wire.valid_wire, wire.malformed_wire, wire.damaged_wire))
)
@example(b"\x1a\x0c\x01" + b"\xff" * 10 + b"\x01")  # a packed run of dims with a varint that is too long
@examples(500)
def test_any_bytes_raise_only_errors_of_onnxwire(data):
    try:
        message = SparseTensorProto.FromString(data)
    except onnxwire.DecodeError:
        return
    for read in (message.to_coo, message.numpy):
        try:
            if read == message.to_coo or math.prod(map(abs, message.dims)) < 1 << 20:
                read()
        except onnxwire.Error as error:
            assert str(error)
