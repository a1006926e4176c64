"""Histograms and heat maps of tensors: what is drawn of them is read, and no more."""

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

BUDGET = 1 << 23  # bytes that a picture may touch
_PAGE = 4096
_BLOCK = 1 << 15  # elements of a sample
_SAMPLES = 64  # blocks of a big tensor that a histogram is made of


def histogram(tensor: TensorProto, bins: int = 64, *, whole: bool = False) -> dict[str, Any]:
    """Count how often values occur.

    tensor: of numbers; complex ones count by magnitude. bins: of the histogram, as for `measure`. whole: read all
    elements; without it, of a tensor of more than 2,097,152 elements 64 blocks at equal distances are read.
    Returns low, high and counts of the histogram, min, max, mean, std, zeros, nan and infinite as `measure` has them,
    and how many elements were read of how many. What there is not one of, because nothing is finite, is None.
    Raises TensorError for strings and for a tensor whose parts do not fit together.
    """
    import numpy as np

    sample, read = tensor, None
    if not whole:
        values = _Values(tensor)
        if values.count > _BLOCK * _SAMPLES:
            # Strangers to the file, so that only they are read.
            sample = from_array(np.concatenate(values.samples()))
            read = _BLOCK * _SAMPLES
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

    axes: that of the rows and that of the columns, by default the last two; a vector is one row. at: for each axis the
    index at which the others are cut, by default 0. window: top, left, bottom and right, the part that is drawn, by
    default all. size: the most rows and columns of cells. extreme: instead of the mean, the value farthest from
    0. Where all of the window would be more than 8 MiB to touch, some lines of each block stand for it.
    Returns values (row by row, None where nothing is finite), height and width in cells, shape of the slice, window,
    axes, at, low and high (the least and the greatest cell, None where there is none), nonfinite (how many elements
    are NaN or infinite), and how many elements were read of how many.
    Raises TensorError for strings, for axes that are not there, and as `numpy` of the tensor does.
    """
    import numpy as np

    values = _Values(tensor)
    rank = len(values.shape)
    # What is not there is an axis of length 1, before the others.
    shape = (1,) * (2 - rank) + values.shape
    added = len(shape) - rank
    rows, columns = axes if axes is not None else (len(shape) - 2, len(shape) - 1)
    if rows == columns or not (0 <= rows < len(shape) and 0 <= columns < len(shape)):
        raise tensor_error(tensor, f"the axes {rows} and {columns} are not two of its {len(shape)}")
    indices = [*(at or ()), *[0] * len(shape)][: len(shape)]
    for axis, (index, length) in enumerate(zip(indices, shape, strict=True)):
        if axis not in (rows, columns) and not 0 <= index < max(length, 1):
            raise tensor_error(tensor, f"index {index} is not on axis {axis}, which has {length}")
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
    # In the order of the file the outer axis comes first, whichever of the two the rows are.
    is_turned = rows > columns
    spans = [(top, bottom), (left, right)]
    outer_axis, inner_axis = (columns, rows) if is_turned else (rows, columns)
    (first, last), (start, end) = spans[::-1] if is_turned else spans
    cells = (min(size[is_turned], last - first), min(size[not is_turned], end - start))
    step = max(values.kind_bits * _product(shape[inner_axis + 1 :]) // 8, 1)
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
            # A sum of the greatest float64s is infinite, and has no color.
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
    """Which elements of a line are read: all of them one after another, and where those of each cell begin."""

    def __init__(self, indices: Array, starts: Array) -> None:
        self.indices = indices
        self.starts = starts


def _picks(outer: int, inner: int, cells: tuple[int, int], step: int) -> tuple[list[Array], _Inner]:
    """The lines of each row of cells, and the elements on them, that are read.

    outer, inner: the lengths of the two axes; step: bytes from one element of a line to the next. Together they touch
    some BUDGET bytes at most.
    """
    import numpy as np

    line = inner * min(step, _PAGE)
    ends = np.linspace(0, outer, cells[0] + 1).astype(np.int64)
    most = max(BUDGET // max(line * cells[0], 1), 1)
    lines = [_spread(int(a), int(b), most) for a, b in pairwise(ends)]
    edges = np.linspace(0, inner, cells[1] + 1).astype(np.int64)
    if line * cells[0] <= BUDGET:
        return lines, _Inner(np.arange(inner), edges[:-1])
    # Even one line a row is too much: of each cell a run of neighbours, which lie on few pages.
    run = max(BUDGET // (cells[0] * cells[1] * min(step, _PAGE)), 1)
    runs = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        middle = max(a, (a + b - run) // 2)
        runs.append(np.arange(middle, min(middle + run, b)))
    starts = np.cumsum([0, *map(len, runs)])[:-1]
    return lines, _Inner(np.concatenate(runs), starts)


def _spread(start: int, end: int, most: int) -> Array:
    """Up to a number of indices between two, at equal distances."""
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
        # As they stand in the file, or decoded once; elements of less than a byte are decoded where they are drawn.
        in_place = self.storage.field in ("raw_data", "external_data")
        self.array: Array | None = None
        if not self.count or not (in_place and (self.storage.data_type.is_packed or self.storage.is_unmapped)):
            self.array = self.storage.array()[0]

    def samples(self) -> list[Array]:
        """Blocks of elements at equal distances, of the tensor's dtype; the first and the last are the ends."""
        starts = [(self.count - _BLOCK) * i // (_SAMPLES - 1) for i in range(_SAMPLES)]
        if self.array is not None:
            flat = self.array.reshape(-1)
            return [flat[start : start + _BLOCK] for start in starts]
        return [self.storage.elements(start, _BLOCK) for start in starts]

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
        """Some elements of some lines; float64, shape (lines, picked).

        shape: of the tensor with the `added` axes before its own. indices: at which the other axes are cut. outer: the
        axis of the lines, which comes before `inner`, the axis along them. start, end: the part of the line that
        `picked` counts from and lies in.
        """
        import numpy as np

        selection: list[int | slice] = list(indices)
        selection[inner] = slice(start, end)
        if self.array is not None:
            selection[outer] = slice(None)
            table = self.array.reshape(shape)[tuple(selection)]
            # Many lines at once, but never the whole of them as floats.
            return _floats(table[lines[:, None], picked[None, :]])
        rows = []
        for line in lines.tolist():
            selection[outer] = line
            rows.append(_floats(self.storage.read(tuple(selection[added:])))[picked])
        return np.stack(rows)


def _floats(array: Array) -> Array:
    """Elements as float64: complex ones by magnitude."""
    import numpy as np

    floats: Array = np.abs(array) if array.dtype.kind == "c" else array
    return floats.astype(np.float64)


def _product(lengths: tuple[int, ...]) -> int:
    product = 1
    for length in lengths:
        product *= length
    return product
