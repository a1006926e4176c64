"""Statistics of tensors agree with those of numpy; indexes of elements, threads, progress and errors."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import onnxwire
from onnxwire.analysis.statistics import BLOCK_ELEMENTS, Statistics, measure, measure_all, split_index
from onnxwire.errors import TensorError
from onnxwire.tensor.dtypes import BY_NAME, DATA_TYPES

NUMERIC_TYPES = [data_type for data_type in DATA_TYPES if data_type.name != "STRING"]
COUNT = 3 * BLOCK_ELEMENTS + 7  # not a whole number of blocks


def random_array(data_type) -> np.ndarray:
    """Make random elements of a type. Types of up to 16 bits, except BOOL, have every bit pattern."""
    rng = np.random.default_rng(1)
    if data_type.name == "BOOL":
        return rng.integers(0, 2, COUNT).astype(bool)
    if data_type.dtype_name.startswith("complex"):
        return (rng.standard_normal(COUNT) + 1j * rng.standard_normal(COUNT)).astype(data_type.dtype)
    if data_type.bits <= 16:
        codes = rng.integers(0, 1 << data_type.bits, COUNT).astype(np.uint16 if data_type.bits == 16 else np.uint8)
        codes[: 1 << data_type.bits] = np.arange(1 << data_type.bits)
        return codes.view(data_type.dtype)
    if data_type.dtype.kind in "iu":
        info = np.iinfo(data_type.dtype)
        return rng.integers(info.min, info.max, COUNT, data_type.dtype, endpoint=True)
    return rng.standard_normal(COUNT).astype(data_type.dtype)


def as_float64(array: np.ndarray) -> np.ndarray:
    """Return the elements as float64; complex numbers as magnitudes."""
    if array.dtype.kind == "c":
        return np.abs(array.astype(np.complex128))
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


@pytest.mark.parametrize("data_type", NUMERIC_TYPES, ids=lambda data_type: data_type.name)
def test_every_numeric_type_is_measured_as_numpy_measures_it(data_type) -> None:
    array = random_array(data_type)
    numbers = as_float64(array)
    finite = numbers[np.isfinite(numbers)]
    measured = measure(onnxwire.from_array(array))
    assert (measured.min, measured.max) == (finite.min(), finite.max())
    scale = max(abs(measured.min), abs(measured.max))
    assert measured.mean == pytest.approx(finite.mean(), rel=1e-9, abs=1e-12 * scale)
    assert measured.std == pytest.approx(finite.std(), rel=1e-9)
    counts = measured.count, measured.zeros, measured.nan, measured.inf
    assert counts == (COUNT, (numbers == 0).sum(), np.isnan(numbers).sum(), np.isinf(numbers).sum())


@pytest.mark.parametrize("name", ["INT64", "UINT64", "INT32", "UINT32", "INT8", "UINT8", "INT16", "UINT16"])
def test_the_range_and_the_mean_of_integers_are_exact(name: str) -> None:
    array = random_array(BY_NAME[name])
    measured = measure(onnxwire.from_array(array))
    integers = [int(value) for value in array]
    assert (measured.min, measured.max, measured.mean) == (min(integers), max(integers), sum(integers) / len(integers))
    assert isinstance(measured.min, int)


@pytest.mark.parametrize("name", ["FLOAT", "FLOAT16", "BFLOAT16", "INT8", "UINT4", "BOOL", "INT64", "COMPLEX64"])
def test_the_histogram_has_every_finite_element(name: str) -> None:
    array = random_array(BY_NAME[name])
    numbers = as_float64(array)
    measured = measure(onnxwire.from_array(array), bins=37)
    histogram = measured.histogram
    assert sum(histogram.counts) == np.isfinite(numbers).sum()
    assert len(histogram.edges) == len(histogram.counts) + 1
    expected_counts = np.histogram(numbers[np.isfinite(numbers)], histogram.edges)[0]
    # Elements at an edge can be rounded to either side.
    assert np.abs(expected_counts - histogram.counts).sum() <= 0.001 * COUNT


def test_integers_that_differ_little_have_one_bin_per_value() -> None:
    histogram = measure(onnxwire.from_array(np.array([1, 3, 3, 4], np.int8)), bins=50).histogram
    assert (histogram.low, histogram.high, histogram.counts) == (1, 5, (1, 0, 2, 1))


def test_equal_elements_are_in_one_bin() -> None:
    histogram = measure(onnxwire.from_array(np.full(10, 2.5, np.float32)), bins=4).histogram
    assert (histogram.low, histogram.high, sum(histogram.counts), max(histogram.counts)) == (2, 3, 10, 10)


@pytest.mark.parametrize("limits", [(0.0, 5e-324), (-1.7e308, 1.7e308), (0.0, 1.0), (-1e-300, 1e300)])
def test_bins_can_be_as_narrow_or_wide_as_floats_allow(limits: tuple[float, float]) -> None:
    histogram = measure(onnxwire.from_array(np.array([*limits, limits[1]])), bins=8).histogram
    assert (histogram.counts[0], histogram.counts[-1], sum(histogram.counts)) == (1, 2, 3)
    assert all(math.isfinite(edge) for edge in histogram.edges)


def test_infinities_and_nans_are_counted_but_not_measured() -> None:
    array = np.array([1, np.nan, -np.inf, 3, np.inf, -0.0], np.float16)
    measured = measure(onnxwire.from_array(array), bins=4)
    std = float(np.std([0, 1, 3]))
    assert measured == Statistics(
        count=6,
        min=-0.0,
        max=3,
        mean=4 / 3,
        std=pytest.approx(std),
        zeros=1,
        nan=1,
        inf=2,
        histogram=measured.histogram,
    )
    assert sum(measured.histogram.counts) == 3


@pytest.mark.parametrize("array", [np.empty((0, 3), np.float32), np.full(3, np.nan), np.array(np.inf)])
def test_an_array_without_a_finite_element_has_neither_range_nor_mean(array: np.ndarray) -> None:
    measured = measure(onnxwire.from_array(array), bins=8)
    assert (measured.min, measured.max, measured.mean, measured.std, measured.histogram) == (None,) * 5
    assert measured.count == array.size


def test_the_deviation_is_accurate_far_from_zero() -> None:
    array = np.random.default_rng(0).standard_normal(200_000) + 1e9
    assert measure(onnxwire.from_array(array)).std == pytest.approx(array.std(), rel=1e-6)


def test_strings_are_an_error() -> None:
    with pytest.raises(TensorError, match="strings have neither"):
        measure(onnxwire.from_array(np.array(["a"])))


@pytest.mark.parametrize("name", ["FLOAT", "FLOAT16", "BFLOAT16", "FLOAT8E5M2", "INT4", "BOOL", "UINT64", "COMPLEX128"])
def test_elements_of_typed_fields_are_measured_too(name: str) -> None:
    array = random_array(BY_NAME[name])[:9]
    typed = onnx.helper.make_tensor("w", BY_NAME[name].number, [9], array if name != "INT4" else array.astype(int))
    tensor = onnxwire.TensorProto.FromString(typed.SerializeToString())
    assert not tensor.HasField("raw_data")
    assert measure(tensor) == measure(onnxwire.from_array(tensor.numpy()))


@pytest.mark.parametrize("index", [..., 3, (slice(2, None), ..., 1), (slice(None, None, -2), 0), (..., slice(1, 2))])
def test_an_index_selects_the_measured_elements(index) -> None:
    array = np.random.default_rng(0).standard_normal((5, 40, 3, 500)).astype(np.float32)
    measured = measure(onnxwire.from_array(array), index, bins=5)
    selected = array[index].astype(np.float64)
    assert (measured.count, measured.min, measured.max) == (selected.size, selected.min(), selected.max())
    assert measured.mean == pytest.approx(selected.mean(), abs=1e-12)
    assert sum(measured.histogram.counts) == selected.size


def test_an_index_is_split_into_small_indexes_in_order() -> None:
    array = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    for index in (..., 2, (slice(None, None, -1), slice(1, 4)), (..., -1), (slice(0, 0),)):
        for limit in (1, 4, 7, 30, 1000):
            blocks = [array[block_index].reshape(-1) for block_index in split_index(index, array.shape, limit)]
            assert all(0 < block_index.size <= limit for block_index in blocks)
            assert np.array_equal(np.concatenate([[], *blocks]), array[index].reshape(-1))


def save_model(folder: Path) -> str:
    """Save a model with weights inline and in another file, and with strings in an attribute; return its path."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(9).astype(np.float32), rng.standard_normal(COUNT).astype(np.float16)]
    weights = [numpy_helper.from_array(array, f"w{i}") for i, array in enumerate(arrays)]
    value = numpy_helper.from_array(np.array(["a", "b"], object), "words")
    node = onnx.helper.make_node("Constant", [], ["c"], value=value)
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [], weights))
    path = folder / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.data", size_threshold=1024)
    return str(path)


def test_all_numeric_tensors_are_measured_inline_and_external(tmp_path: Path) -> None:
    with onnxwire.load(save_model(tmp_path)) as model:
        measured = measure_all(model, bins=10)
        assert [entry.info.name for entry in measured] == ["words", "w0", "w1"]
        assert measured[0].statistics is None
        for entry, tensor in zip(measured[1:], model.graph.initializer, strict=True):
            array = tensor.numpy().astype(np.float64)
            assert entry.statistics.mean == pytest.approx(array.mean(), abs=1e-12)
            assert sum(entry.statistics.histogram.counts) == array.size


def test_the_number_of_threads_does_not_change_the_result(tmp_path: Path) -> None:
    with onnxwire.load(save_model(tmp_path)) as model:
        assert measure_all(model, bins=9, threads=1) == measure_all(model, bins=9, threads=5)


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    with onnxwire.load(save_model(tmp_path)) as model:
        measure_all(model, progress=lambda done_bytes, total: calls.append((done_bytes, total)))
    # w0 has 9 elements of 4 bytes, and w1 COUNT elements of 2 bytes. Strings are not measured.
    assert calls[-1] == (4 * 9 + 2 * COUNT, 4 * 9 + 2 * COUNT)
    assert calls == sorted(calls)


def test_an_error_of_a_thread_is_raised(tmp_path: Path) -> None:
    path = save_model(tmp_path)
    with onnxwire.load(path) as model:
        os.truncate(tmp_path / "m.data", 1000)
        with pytest.raises(onnxwire.Error, match=r"m\.data"):
            measure_all(model, threads=2)


def test_an_exception_of_the_callback_propagates() -> None:
    def fail(done_bytes: int, total: int) -> None:
        raise RuntimeError("enough")

    tensor = onnxwire.from_array(np.zeros(5, np.float32))
    with pytest.raises(RuntimeError, match="enough"):
        measure(tensor, progress=fail)
