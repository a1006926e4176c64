"""Histograms and heat maps of tensors agree with numpy's results; the areas of a treemap agree with the sizes."""

from __future__ import annotations

import json
from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

import onnxwire
from onnxwire.errors import TensorError
from onnxwire.viewer import tensor_pictures
from onnxwire.viewer.tensor_pictures import heat_map, histogram
from onnxwire.viewer.treemap import lay_out

RANDOM = np.random.default_rng(6)


def tensor_of(array, name="w"):
    """Return a tensor as loaded from a file."""
    return onnxwire.TensorProto.FromString(onnxwire.from_array(array, name).SerializeToString())


def block_means(matrix, height, width):
    """Compute the means of the blocks that `height` by `width` cells represent, without the code under test."""
    rows = np.linspace(0, matrix.shape[0], height + 1).astype(int)
    columns = np.linspace(0, matrix.shape[1], width + 1).astype(int)
    return [matrix[a:b, c:d].mean() for a, b in pairwise(rows) for c, d in pairwise(columns)]


def test_histogram_counts_every_element():
    array = RANDOM.normal(size=(50, 40)).astype(np.float32)
    result = histogram(tensor_of(array), bins=16)
    assert result["counts"] == np.histogram(array.astype(float), 16)[0].tolist()
    assert (result["min"], result["max"]) == (array.min(), array.max())
    assert result["mean"] == pytest.approx(array.mean(dtype=float))
    assert (result["read"], result["elements"]) == (2000, 2000)


def test_histogram_omits_non_finite_elements():
    result = histogram(tensor_of(np.array([1, 2, np.nan, np.inf, -np.inf, 0], np.float32)))
    assert (sum(result["counts"]), result["nan"], result["infinite"], result["zeros"]) == (3, 1, 2, 1)
    assert histogram(tensor_of(np.array([np.nan], np.float32)))["min"] is None


def test_the_greatest_floats_have_pictures_too():
    max_float = np.finfo(np.float64).max
    tensor = tensor_of(np.array([[-max_float, max_float, max_float, max_float]]))
    for answer in (histogram(tensor), heat_map(tensor), heat_map(tensor, size=(1, 1))):
        json.dumps(answer, allow_nan=False)
    assert sum(histogram(tensor)["counts"]) == 4


def test_histogram_of_a_big_tensor_is_made_of_samples():
    array = np.ones(10_000_000, np.int8)
    array[-1] = 2
    result = histogram(tensor_of(array))
    assert result["read"] < 3_000_000 < result["elements"] == 10_000_000
    assert (result["min"], result["max"]) == (1, 2)
    assert histogram(tensor_of(array), whole=True)["read"] == 10_000_000


def test_strings_have_no_picture():
    for function in (histogram, heat_map):
        with pytest.raises(TensorError, match="strings"):
            function(tensor_of(np.array(["a"])))


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.int64, np.float16, ml_dtypes.bfloat16, ml_dtypes.int4, bool]
)
def test_cells_are_the_means_of_blocks(dtype):
    array = RANDOM.integers(0, 7, size=(37, 53)).astype(dtype)
    result = heat_map(tensor_of(array), size=(10, 20))
    assert (result["height"], result["width"]) == (10, 20)
    np.testing.assert_allclose(result["values"], block_means(array.astype(float), 10, 20), rtol=1e-5)
    assert result["read"] == result["elements"] == 37 * 53


def test_a_small_slice_has_one_cell_per_element():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    result = heat_map(tensor_of(array), at=(1, 0, 0))
    assert result["values"] == array[1].ravel().tolist()
    assert (result["axes"], result["shape"], result["low"], result["high"]) == ([1, 2], [3, 4], 12, 23)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.int4])
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 0), (0, 2), (2, 1)])
def test_any_two_axes_can_be_drawn(axes, dtype):
    array = RANDOM.integers(-8, 8, size=(4, 5, 6)).astype(dtype)
    at = (2, 3, 4)
    index = [slice(None) if axis in axes else at[axis] for axis in range(3)]
    matrix = array[tuple(index)]
    matrix = matrix.T if axes[0] > axes[1] else matrix
    assert heat_map(tensor_of(array), axes, at)["values"] == matrix.astype(float).ravel().tolist()


def test_a_window_restricts_the_heat_map():
    array = np.arange(10_000, dtype=np.float32).reshape(100, 100)
    result = heat_map(tensor_of(array), window=(10, 20, 14, 23))
    assert result["values"] == array[10:14, 20:23].ravel().tolist()
    transposed_result = heat_map(tensor_of(array), (1, 0), window=(10, 20, 14, 23))
    assert transposed_result["values"] == array.T[10:14, 20:23].ravel().tolist()


def test_extremes_are_farthest_from_zero():
    array = np.zeros((8, 8), np.float32)
    array[0, 0], array[7, 7], array[0, 1] = -5, 3, 4
    assert heat_map(tensor_of(array), size=(2, 2), extreme=True)["values"] == [-5, 0, 0, 3]


def test_cells_without_a_finite_element_have_no_value():
    array = np.array([[np.nan, 1], [np.inf, np.nan]], np.float32)
    result = heat_map(tensor_of(array))
    assert (result["values"], result["nonfinite"]) == ([None, 1, None, None], 3)


@pytest.mark.parametrize("shape", [(), (5,), (0, 3), (1, 1, 1, 7)])
def test_every_shape_has_a_picture(shape):
    result = heat_map(tensor_of(np.ones(shape, np.float32)))
    assert len(result["values"]) == result["height"] * result["width"] == np.ones(shape).size


def test_invalid_axes_and_indices_are_rejected():
    tensor = tensor_of(np.ones((2, 3, 4), np.float32))
    for axes, at in [((0, 0), None), ((0, 3), None), ((1, 2), (2,)), ((-1, 0), None)]:
        with pytest.raises(TensorError):
            heat_map(tensor, axes, at)


def test_each_line_of_a_narrow_window_counts_as_a_page(monkeypatch):
    monkeypatch.setattr(tensor_pictures, "MAX_READ_BYTES", 1 << 18)  # 64 pages
    array = np.zeros((1000, 1024), np.float32)  # a page per line
    assert heat_map(tensor_of(array), window=(0, 7, 1000, 8), size=(16, 16))["read"] == 64


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
@pytest.mark.parametrize("shape", [(4000, 1000), (8, 500_000), (500_000, 8)])
def test_a_big_slice_is_read_partially(monkeypatch, axes, shape):
    monkeypatch.setattr(tensor_pictures, "MAX_READ_BYTES", 1 << 18)  # 1/32 of its value, so that small arrays suffice
    array = np.broadcast_to(np.arange(shape[0], dtype=np.float32)[:, None], shape)
    result = heat_map(tensor_of(array), axes, size=(16, 16))
    assert result["read"] * 4 <= 1 << 19  # the bytes read are at most twice MAX_READ_BYTES
    picture = np.reshape(result["values"], (result["height"], result["width"]))
    picture = picture if axes == (0, 1) else picture.T
    # Samples represent each block.
    means = np.reshape(block_means(array, *picture.shape), picture.shape)
    np.testing.assert_allclose(picture, means, atol=shape[0] / 30)


def test_areas_of_a_treemap_are_proportional_to_the_sizes():
    sizes = [60, 30, 20, 10, 5, 5, 1, 0]
    rectangles = lay_out(sizes, 400, 300)
    assert [rectangle.width * rectangle.height for rectangle in rectangles] == pytest.approx(
        [size * 400 * 300 / 131 for size in sizes]
    )
    assert max(rectangle.x + rectangle.width for rectangle in rectangles) == pytest.approx(400)
    assert max(rectangle.y + rectangle.height for rectangle in rectangles) == pytest.approx(300)


def test_a_treemap_of_nothing_is_empty():
    assert lay_out([], 10, 10) == []
    assert [rectangle.width * rectangle.height for rectangle in lay_out([0, 0], 10, 10)] == [0, 0]
