"""Histograms and heat maps of tensors, which can be computed from some of the elements."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from onnxwire.analysis.statistics import measure
from onnxwire.errors import TensorError
from onnxwire.messages import TensorProto
from onnxwire.messages.constructors import from_array
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import Storage

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# Maximum number of bytes of a mapped payload that are read for one heat map, except that at least one element per cell
# is read. An element or line that is a page or more from the next one counts as at least a page.
MAX_READ_BYTES = 1 << 23
_PAGE_BYTES = 4096  # size of a page of memory
_SAMPLE_ELEMENTS = 1 << 15  # number of adjacent elements of a sample
_SAMPLE_COUNT = 64  # number of samples that represent a large tensor in a histogram


def histogram(tensor: TensorProto, bins: int = 64, *, whole: bool = False) -> dict[str, Any]:
    """Compute a histogram of the values of a tensor.

    tensor: a tensor of numbers; complex numbers are measured by magnitude. bins: the maximum number of bins; integers
    of a smaller range have one bin per value. whole: read all elements; otherwise, of a tensor of more than 2,097,152
    elements, only 64 samples of 32,768 adjacent elements at equal distances are read.
    Returns low, high and counts of the histogram, min, max, mean, std, zeros and nan as in `measure`, infinite (`inf`
    in `measure`), read (the number of elements read) and elements (the number of all). Without finite elements, counts
    is empty, and low, high, min, max, mean and std are None. A mean or std that is not finite is None, too.
    Raises TensorError for strings, and the exceptions of `TensorProto.numpy`.
    """
    import numpy as np

    measured_tensor, n_read = tensor, None
    if not whole:
        values = _Values(tensor)
        if values.count > _SAMPLE_ELEMENTS * _SAMPLE_COUNT:
            # Measure a new tensor that contains only the samples.
            measured_tensor = from_array(np.concatenate(values.samples()))
            n_read = _SAMPLE_ELEMENTS * _SAMPLE_COUNT
    statistics = measure(measured_tensor, bins=bins)
    value_histogram = statistics.histogram
    return {
        "low": value_histogram.low if value_histogram is not None else None,
        "high": value_histogram.high if value_histogram is not None else None,
        "counts": list(value_histogram.counts) if value_histogram is not None else [],
        "min": statistics.min,
        "max": statistics.max,
        "mean": statistics.mean if statistics.mean is not None and math.isfinite(statistics.mean) else None,
        "std": statistics.std if statistics.std is not None and math.isfinite(statistics.std) else None,
        "zeros": statistics.zeros,
        "nan": statistics.nan,
        "infinite": statistics.inf,
        "read": statistics.count if n_read is None else n_read,
        "elements": statistics.count if n_read is None else values.count,
    }


def heat_map(
    tensor: TensorProto,
    axes: tuple[int, int] | None = None,
    at: tuple[int, ...] | None = None,
    window: tuple[int, int, int, int] | None = None,
    size: tuple[int, int] = (96, 96),
    *,
    extreme: bool = False,
) -> dict[str, Any]:
    """Draw two axes of a tensor as a picture of cells, each the mean of the finite elements of a block.

    tensor: as for `histogram`. axes: the axes of the rows and of the columns, by default the last two; a vector is one
    row. at: for each axis, the index of the drawn slice, by default 0; those of the two drawn axes are ignored. window:
    top, left, bottom and right of the drawn part, by default all. size: the maximum number of rows and columns of
    cells. extreme: use the finite value farthest from 0 instead of the mean.
    In a large window (see MAX_READ_BYTES), a block is represented by some of its lines, or some elements of one line; a
    line runs along the axis that comes later in the shape.
    Returns values (row by row, None for a cell without finite elements or whose sum overflows), height and width in
    cells, shape of the slice, window, axes, at, low and high (the least and the greatest cell, None if there is none),
    read (the number of elements from which the cells were computed), nonfinite (how many of these are NaN or infinite)
    and elements (the number of elements of the window).
    Raises TensorError for strings, for axes that are equal or do not exist and for an index out of range, and the
    exceptions of `TensorProto.numpy`.
    """
    import numpy as np

    values = _Values(tensor)
    rank = len(values.shape)
    # Scalars and vectors get leading axes of length 1.
    shape = (1,) * (2 - rank) + values.shape
    n_added_axes = len(shape) - rank
    rows, columns = axes if axes is not None else (len(shape) - 2, len(shape) - 1)
    if rows == columns or not (0 <= rows < len(shape) and 0 <= columns < len(shape)):
        raise tensor_error(tensor, f"{rows} and {columns} are not two different axes from 0 to {len(shape) - 1}")
    indices = [*(at or ()), *[0] * len(shape)][: len(shape)]
    for axis, (index, length) in enumerate(zip(indices, shape, strict=True)):
        if axis not in (rows, columns) and not 0 <= index < max(length, 1):
            raise tensor_error(tensor, f"index {index} is out of range for axis {axis} of length {length}")
    top, left, bottom, right = window or (0, 0, shape[rows], shape[columns])
    top, left = max(top, 0), max(left, 0)
    bottom, right = min(bottom, shape[rows]), min(right, shape[columns])
    result: dict[str, Any] = {
        "axes": [rows, columns],
        "at": indices,
        "shape": [shape[rows], shape[columns]],
        "window": [top, left, bottom, right],
        "elements": max(bottom - top, 0) * max(right - left, 0),
    }
    if not result["elements"] or 0 in shape:
        empty_picture = {"height": 0, "width": 0, "values": [], "low": None, "high": None, "nonfinite": 0, "read": 0}
        return result | empty_picture
    # A line runs along the axis that comes later in the shape, whose elements are closer together in the file.
    is_transposed = rows > columns
    axis_windows = [(top, bottom), (left, right)]
    outer_axis, inner_axis = (columns, rows) if is_transposed else (rows, columns)
    (first_line, stop_line), (start, end) = axis_windows[::-1] if is_transposed else axis_windows
    cell_counts = (min(size[is_transposed], stop_line - first_line), min(size[not is_transposed], end - start))
    step, line_step = (
        max(values.element_bits * math.prod(shape[axis + 1 :]) // 8, 1) for axis in (inner_axis, outer_axis)
    )
    line_groups, line_elements = _choose_elements(stop_line - first_line, end - start, cell_counts, step, line_step)
    cells_picture = np.full(cell_counts, np.nan)
    nonfinite = n_read = 0
    for i, lines in enumerate(line_groups):
        block = values.read(
            shape, n_added_axes, indices, outer_axis, inner_axis, first_line + lines, start, end, line_elements.indices
        )
        n_read += block.size
        is_finite = np.isfinite(block)
        nonfinite += int(block.size - is_finite.sum())
        counts = np.add.reduceat(is_finite.sum(0), line_elements.starts)
        if extreme:
            max_values = np.maximum.reduceat(np.where(is_finite, block, -np.inf).max(0), line_elements.starts)
            min_values = np.minimum.reduceat(np.where(is_finite, block, np.inf).min(0), line_elements.starts)
            row_values = np.where(max_values >= -min_values, max_values, min_values)
        else:
            # A sum of huge float64 values may be infinite: such a cell has no color.
            with np.errstate(over="ignore"):
                sums = np.add.reduceat(np.where(is_finite, block, 0).sum(0), line_elements.starts)
            row_values = sums / np.maximum(counts, 1)
        cells_picture[i] = np.where(counts > 0, row_values, np.nan)
    if is_transposed:
        cells_picture = cells_picture.T
    finite_cells = cells_picture[np.isfinite(cells_picture)]
    return result | {
        "height": cells_picture.shape[0],
        "width": cells_picture.shape[1],
        "values": [float(f"{value:.6g}") if math.isfinite(value) else None for value in cells_picture.ravel().tolist()],
        "low": float(finite_cells.min()) if finite_cells.size else None,
        "high": float(finite_cells.max()) if finite_cells.size else None,
        "nonfinite": nonfinite,
        "read": n_read,
    }


class _LineElements:
    """The elements that are read from each line.

    indices: the indices of the elements. starts: for each cell, the position of its first element in `indices`.
    """

    def __init__(self, indices: Array, starts: Array) -> None:
        self.indices = indices
        self.starts = starts


def _choose_elements(
    n_lines: int, n_elements: int, cell_counts: tuple[int, int], step: int, line_step: int
) -> tuple[list[Array], _LineElements]:
    """Choose the lines of each row of cells, and the elements of a line; see MAX_READ_BYTES.

    n_lines, n_elements: the number of lines in the window, and of elements of a line; cell_counts: the numbers of rows
    and columns of cells; step: bytes from one element of a line to the next; line_step: bytes from one line to the
    next.
    """
    import numpy as np

    line_bytes = max(n_elements * min(step, _PAGE_BYTES), min(line_step, _PAGE_BYTES))
    ends = np.linspace(0, n_lines, cell_counts[0] + 1).astype(np.int64)
    max_lines = max(MAX_READ_BYTES // max(line_bytes * cell_counts[0], 1), 1)
    lines = [_spread_indices(int(start), int(end), max_lines) for start, end in pairwise(ends)]
    edges = np.linspace(0, n_elements, cell_counts[1] + 1).astype(np.int64)
    if line_bytes * cell_counts[0] <= MAX_READ_BYTES:
        return lines, _LineElements(np.arange(n_elements), edges[:-1])
    # Even one line per row of cells is too much: read a run of adjacent elements per cell, which is on few pages.
    run_elements = max(MAX_READ_BYTES // (cell_counts[0] * cell_counts[1] * min(step, _PAGE_BYTES)), 1)
    runs = []
    for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        run_start = max(start, (start + end - run_elements) // 2)
        runs.append(np.arange(run_start, min(run_start + run_elements, end)))
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    return lines, _LineElements(np.concatenate(runs), starts)


def _spread_indices(start: int, end: int, max_count: int) -> Array:
    """Return up to `max_count` indices from start to end: the middles of parts of equal length."""
    import numpy as np

    count = min(max_count, end - start)
    return start + (np.arange(count) * 2 + 1) * (end - start) // (2 * count)


class _Values:
    """The elements of a tensor; `read` converts them to floats.

    array: all elements, mapped or decoded; None if each read decodes the necessary elements.
    """

    def __init__(self, tensor: TensorProto) -> None:
        self.storage = Storage(tensor)
        self.shape = self.storage.shape
        self.count = self.storage.count
        self.element_bits = self.storage.data_type.bits
        if self.storage.data_type is STRING:
            raise tensor_error(tensor, "strings have no histogram and no heat map", TensorError)
        # Payloads of packed sub-byte elements, and payloads in files that are not mapped, are read for each sample or
        # line. All other tensors are arrays: payloads in a mapping or in memory without a copy, typed fields decoded
        # once.
        is_payload = self.storage.field in ("raw_data", "external_data")
        self.array: Array | None = None
        if not self.count or not (is_payload and (self.storage.data_type.is_packed or self.storage.is_unmapped)):
            self.array = self.storage.array()[0]

    def samples(self) -> list[Array]:
        """Return samples at equal distances, from the first to the last element, as arrays of the tensor's dtype."""
        starts = [(self.count - _SAMPLE_ELEMENTS) * i // (_SAMPLE_COUNT - 1) for i in range(_SAMPLE_COUNT)]
        if self.array is not None:
            flat = self.array.reshape(-1)
            return [flat[start : start + _SAMPLE_ELEMENTS] for start in starts]
        return [self.storage.elements(start, _SAMPLE_ELEMENTS) for start in starts]

    def read(
        self,
        shape: tuple[int, ...],
        n_added_axes: int,
        indices: list[int],
        outer_axis: int,
        line_axis: int,
        lines: Array,
        start: int,
        end: int,
        element_indices: Array,
    ) -> Array:
        """Read some elements of some lines; float64, shape (len(lines), len(element_indices)).

        shape: the shape of the tensor with `n_added_axes` leading axes of length 1. indices: the indices of the slice
        on the other axes. outer_axis: the axis across lines; line_axis: the axis along a line, after `outer_axis`.
        lines: the indices of the lines on `outer_axis`.
        start, end: the part of each line that `element_indices` refers to.
        """
        import numpy as np

        selection: list[int | slice] = list(indices)
        selection[line_axis] = slice(start, end)
        if self.array is not None:
            selection[outer_axis] = slice(None)
            slice_array = self.array.reshape(shape)[tuple(selection)]
            # Index before converting, so that only the selected elements are converted.
            return _floats(slice_array[lines[:, None], element_indices[None, :]])
        rows = []
        for line in lines.tolist():
            selection[outer_axis] = line
            rows.append(_floats(self.storage.read(tuple(selection[n_added_axes:])))[element_indices])
        return np.stack(rows)


def _floats(array: Array) -> Array:
    """Convert elements to float64; complex numbers to their magnitude."""
    import numpy as np

    floats: Array = np.abs(array) if array.dtype.kind == "c" else array
    return floats.astype(np.float64)
