"""Histograms and heat maps of tensors, read only as far as they are drawn."""

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

MAX_READ_BYTES = 1 << 23  # maximum bytes read for one picture, in whole pages
_PAGE_BYTES = 4096
_BLOCK_ELEMENTS = 1 << 15
_BLOCK_COUNT = 64  # blocks that represent a big tensor in a histogram


def histogram(tensor: TensorProto, bins: int = 64, *, whole: bool = False) -> dict[str, Any]:
    """Compute a histogram of the values of a tensor.

    tensor: a tensor of numbers; complex numbers are measured by magnitude. bins: the number of bins, as for `measure`.
    whole: read all elements; otherwise, for a tensor of more than 2,097,152 elements, only 64 blocks at equal distances
    are read.
    Returns low, high and counts of the histogram, min, max, mean, std, zeros, nan and infinite as in `measure`,
    read (the number of elements read) and elements (of all). Values that are undefined without finite elements are
    None. Raises TensorError for strings and for a tensor with an inconsistent description.
    """
    import numpy as np

    sample, read = tensor, None
    if not whole:
        values = _Values(tensor)
        if values.count > _BLOCK_ELEMENTS * _BLOCK_COUNT:
            # A new tensor, so that only the samples are read.
            sample = from_array(np.concatenate(values.samples()))
            read = _BLOCK_ELEMENTS * _BLOCK_COUNT
    found = measure(sample, bins=bins)
    spread = found.histogram
    return {
        "low": spread.low if spread is not None else None,
        "high": spread.high if spread is not None else None,
        "counts": list(spread.counts) if spread is not None else [],
        "min": found.min,
        "max": found.max,
        "mean": found.mean if found.mean is not None and math.isfinite(found.mean) else None,
        "std": found.std if found.std is not None and math.isfinite(found.std) else None,
        "zeros": found.zeros,
        "nan": found.nan,
        "infinite": found.inf,
        "read": found.count if read is None else read,
        "elements": found.count if read is None else values.count,
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
    """Draw two axes of a tensor as a picture of cells, each the mean of a block of elements.

    axes: the axes of the rows and of the columns, by default the last two; a vector is one row. at: for each axis the
    index of the slice, by default 0. window: top, left, bottom and right of the drawn part, by default all. size: the
    maximum number of rows and columns of cells. extreme: use the value farthest from 0 instead of the mean. If the
    window occupies more than 8 MiB, each block is represented by some of its lines.
    Returns values (row by row, None for a cell without finite elements), height and width in cells, shape of the
    slice, window, axes, at, low and high (the least and the greatest cell, None if there is none), nonfinite (the
    number of NaN and infinite elements), read (the number of elements read) and elements (of the window).
    Raises TensorError for strings and for axes that do not exist, and the exceptions of `TensorProto.numpy`.
    """
    import numpy as np

    values = _Values(tensor)
    rank = len(values.shape)
    # Scalars and vectors get leading axes of length 1.
    shape = (1,) * (2 - rank) + values.shape
    added = len(shape) - rank
    rows, columns = axes if axes is not None else (len(shape) - 2, len(shape) - 1)
    if rows == columns or not (0 <= rows < len(shape) and 0 <= columns < len(shape)):
        raise tensor_error(tensor, f"the axes {rows} and {columns} are not two of its {len(shape)}")
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
        empty = {"height": 0, "width": 0, "values": [], "low": None, "high": None, "nonfinite": 0, "read": 0}
        return result | empty
    # The axis that comes first in the file is read line by line, whether it is the axis of rows or of columns.
    is_turned = rows > columns
    spans = [(top, bottom), (left, right)]
    outer_axis, inner_axis = (columns, rows) if is_turned else (rows, columns)
    (first, last), (start, end) = spans[::-1] if is_turned else spans
    cells = (min(size[is_turned], last - first), min(size[not is_turned], end - start))
    step = max(values.kind_bits * math.prod(shape[inner_axis + 1 :]) // 8, 1)
    outer, inner = _picks(last - first, end - start, cells, step)
    picture = np.full(cells, np.nan)
    nonfinite = read = 0
    for i, lines in enumerate(outer):
        block = values.read(shape, added, indices, outer_axis, inner_axis, first + lines, start, end, inner.indices)
        read += block.size
        sound = np.isfinite(block)
        nonfinite += int(block.size - sound.sum())
        counts = np.add.reduceat(sound.sum(0), inner.starts)
        if extreme:
            highest = np.maximum.reduceat(np.where(sound, block, -np.inf).max(0), inner.starts)
            lowest = np.minimum.reduceat(np.where(sound, block, np.inf).min(0), inner.starts)
            line = np.where(highest >= -lowest, highest, lowest)
        else:
            # A sum of huge float64 values is infinite: that cell has no color.
            with np.errstate(over="ignore"):
                sums = np.add.reduceat(np.where(sound, block, 0).sum(0), inner.starts)
            line = sums / np.maximum(counts, 1)
        picture[i] = np.where(counts > 0, line, np.nan)
    if is_turned:
        picture = picture.T
    seen = picture[np.isfinite(picture)]
    return result | {
        "height": picture.shape[0],
        "width": picture.shape[1],
        "values": [float(f"{value:.6g}") if math.isfinite(value) else None for value in picture.ravel().tolist()],
        "low": float(seen.min()) if seen.size else None,
        "high": float(seen.max()) if seen.size else None,
        "nonfinite": nonfinite,
        "read": read,
    }


class _Inner:
    """The elements of a line that are read. starts: the first index of each cell in `indices`."""

    def __init__(self, indices: Array, starts: Array) -> None:
        self.indices = indices
        self.starts = starts


def _picks(outer: int, inner: int, cells: tuple[int, int], step: int) -> tuple[list[Array], _Inner]:
    """Choose the lines of each row of cells, and the elements of a line, within MAX_READ_BYTES.

    outer, inner: the lengths of the two axes; step: bytes from one element of a line to the next.
    """
    import numpy as np

    line = inner * min(step, _PAGE_BYTES)
    ends = np.linspace(0, outer, cells[0] + 1).astype(np.int64)
    most = max(MAX_READ_BYTES // max(line * cells[0], 1), 1)
    lines = [_spread(int(a), int(b), most) for a, b in pairwise(ends)]
    edges = np.linspace(0, inner, cells[1] + 1).astype(np.int64)
    if line * cells[0] <= MAX_READ_BYTES:
        return lines, _Inner(np.arange(inner), edges[:-1])
    # Even one line per row of cells is too much: read a run of neighbours per cell, which are on few pages.
    run = max(MAX_READ_BYTES // (cells[0] * cells[1] * min(step, _PAGE_BYTES)), 1)
    runs = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        middle = max(a, (a + b - run) // 2)
        runs.append(np.arange(middle, min(middle + run, b)))
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    return lines, _Inner(np.concatenate(runs), starts)


def _spread(start: int, end: int, most: int) -> Array:
    """Return up to `most` indices from start to end, at equal distances."""
    import numpy as np

    count = min(most, end - start)
    return start + (np.arange(count) * 2 + 1) * (end - start) // (2 * count)


class _Values:
    """The elements of a tensor as floats."""

    def __init__(self, tensor: TensorProto) -> None:
        self.storage = Storage(tensor)
        self.shape = self.storage.shape
        self.count = self.storage.count
        self.kind_bits = self.storage.data_type.bits
        if self.storage.data_type is STRING:
            raise tensor_error(tensor, "strings have no histogram and no heat map", TensorError)
        # Read from the file if possible, otherwise decode once. Packed sub-byte elements are decoded when they are
        # drawn.
        in_place = self.storage.field in ("raw_data", "external_data")
        self.array: Array | None = None
        if not self.count or not (in_place and (self.storage.data_type.is_packed or self.storage.is_unmapped)):
            self.array = self.storage.array()[0]

    def samples(self) -> list[Array]:
        """Return blocks of elements at equal distances, from the first to the last, in the tensor's dtype."""
        starts = [(self.count - _BLOCK_ELEMENTS) * i // (_BLOCK_COUNT - 1) for i in range(_BLOCK_COUNT)]
        if self.array is not None:
            flat = self.array.reshape(-1)
            return [flat[start : start + _BLOCK_ELEMENTS] for start in starts]
        return [self.storage.elements(start, _BLOCK_ELEMENTS) for start in starts]

    def read(
        self,
        shape: tuple[int, ...],
        added: int,
        indices: list[int],
        outer: int,
        inner: int,
        lines: Array,
        start: int,
        end: int,
        picked: Array,
    ) -> Array:
        """Read some elements of some lines; float64, shape (lines, picked).

        shape: the shape of the tensor with the `added` leading axes. indices: the indices of the slice on the other
        axes. outer: the axis across lines; inner: the axis along a line, after `outer`. start, end: the part of each
        line that `picked` indexes.
        """
        import numpy as np

        selection: list[int | slice] = list(indices)
        selection[inner] = slice(start, end)
        if self.array is not None:
            selection[outer] = slice(None)
            table = self.array.reshape(shape)[tuple(selection)]
            # Index before converting, so that only the picked elements become floats.
            return _floats(table[lines[:, None], picked[None, :]])
        rows = []
        for line in lines.tolist():
            selection[outer] = line
            rows.append(_floats(self.storage.read(tuple(selection[added:])))[picked])
        return np.stack(rows)


def _floats(array: Array) -> Array:
    """Convert elements to float64: complex ones to their magnitude."""
    import numpy as np

    floats: Array = np.abs(array) if array.dtype.kind == "c" else array
    return floats.astype(np.float64)
