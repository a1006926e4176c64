"""The distance of two tensors: compares bytes block by block, and numbers only in blocks that differ."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from onnxwire.errors import count_text
from onnxwire.tensor.block_reader import BlockReader
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import Storage, elements_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import numpy as np

    from onnxwire.messages import TensorProto
    from onnxwire.tensor.dtypes import DataType

    Array = np.ndarray[Any, Any]

_BLOCK = 3 << 16  # elements at a time: whole bytes of any data type, also of 6 bits
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)
_ALL_BLOCKS = 1 << 63  # above the size of any tensor
_Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance of two tensors of one shape.

    elements: the number of elements; different: the number of differing elements, where NaN equals NaN, and -0 equals
    0. max_abs: the largest absolute difference of two elements, exact for integers of one type, the magnitude for
    complex numbers; None for strings, and if every differing pair contains NaN. nan: the number of elements that are
    NaN in exactly one of the tensors.
    """

    elements: int
    different: int = 0
    max_abs: float | None = None
    nan: int = 0

    def describe(self) -> str:
        """Return a text such as "3 of 10 elements differ, by up to 0.5"."""
        verb = "differs" if self.different == 1 else "differ"
        text = f"{self.different:,} of {count_text(self.elements, 'element')} {verb}"
        text += f", by up to {self.max_abs:.6g}" if isinstance(self.max_abs, float) else ""
        text += f", by up to {self.max_abs:,}" if isinstance(self.max_abs, int) else ""
        return text + (f"; {self.nan:,} NaN in one only" if self.nan else "")

    def plus(self, other: Distance) -> Distance:
        """Combine the distances of two parts; `elements` already counts the whole tensor."""
        known = [value for value in (self.max_abs, other.max_abs) if value is not None]
        return Distance(self.elements, self.different + other.different, max(known, default=None), self.nan + other.nan)


def distance(old: TensorProto, new: TensorProto, progress: Callable[[int], object] | None = None) -> Distance:
    """Compare the elements of two tensors of one shape, in any storage.

    progress: called with the bytes of `old` that were compared since the last call. Elements at the same offset of the
    same file are not read, nor are holes in both files. Memory: one block of each tensor, except for typed fields such
    as float_data.
    Raises TensorError for tensors of different shapes and for damaged ones; SourceError and ExternalDataError for
    external data that can't be read.
    """
    import numpy as np

    stores = Storage(old), Storage(new)
    if stores[0].shape != stores[1].shape:
        raise tensor_error(new, f"the shape is {stores[1].shape}, and that of the other tensor {stores[0].shape}")
    types = stores[0].data_type, stores[1].data_type
    count = stores[0].count
    if STRING in types:
        return _string_distance(old, new, count)
    first, second = _Side(stores[0]), _Side(stores[1])
    is_one_type = types[0] is types[1]
    total = Distance(count)
    if is_one_type and first.origin is not None and first.origin == second.origin:
        if progress is not None:
            progress(types[0].count_bytes(count))
        return total
    start = 0
    while start < count:
        empty = min(first.holes(start), second.holes(start)) if is_one_type else 0
        if empty:
            end = min(start + empty * _BLOCK, count)
            if progress is not None:
                progress(types[0].count_bytes(end) - types[0].count_bytes(start))
            start = end
            continue
        size = min(_BLOCK, count - start)
        ours, theirs = first.read(start, size), second.read(start, size)
        # As arrays, because memoryviews are compared element by element.
        if not is_one_type or not np.array_equal(np.frombuffer(ours, np.uint8), np.frombuffer(theirs, np.uint8)):
            values = _values(ours, types[0], size), _values(theirs, types[1], size)
            total = total.plus(_same_type(*values) if is_one_type else _any_type(*values))
        if progress is not None:
            progress(len(ours))
        start += size
    return total


def _string_distance(old: TensorProto, new: TensorProto, count: int) -> Distance:
    if old.data_type != new.data_type:
        return Distance(count, count)
    pairs = zip(old.string_data, new.string_data, strict=True)
    return Distance(count, sum(ours != theirs for ours, theirs in pairs))


class _Side:
    """One of the two tensors. origin: the file and offset of its elements, None for elements in memory."""

    def __init__(self, storage: Storage) -> None:
        self._reader = BlockReader(storage)
        self._buffer = bytearray(self._count_bytes(_BLOCK))
        self.origin: tuple[_Pair, int] | None = None
        if self._reader.source is not None:
            file, offset = self._reader.source
            if file.memory is not None:
                self.origin = (id(file.memory), 0), offset
                self._is_whole = False
            else:
                status = os.fstat(file.descriptor)
                self.origin = (status.st_dev, status.st_ino), offset
                self._is_whole = status.st_size >= offset + self._count_bytes(storage.count)

    def _count_bytes(self, elements: int) -> int:
        return self._reader.data_type.count_bytes(elements)

    def holes(self, start: int) -> int:
        """Return how many blocks from index `start` on are holes of the file, which read as zeros."""
        if self._reader.source is None or not self._is_whole or _SEEK_DATA is None:
            return 0
        file, offset = self._reader.source
        offset += self._count_bytes(start)
        try:
            found = os.lseek(file.descriptor, offset, _SEEK_DATA)
        except OSError as error:
            # ENXIO: no data up to the end. Other errors: the file system has no such information.
            return _ALL_BLOCKS if error.errno == errno.ENXIO else 0
        return (found - offset) // self._count_bytes(_BLOCK)

    def read(self, start: int, count: int) -> memoryview:
        """Return the bytes of elements from index `start`, a multiple of _BLOCK; valid until the next call."""
        return self._reader.read(start, count, self._buffer)


def _values(data: memoryview, data_type: DataType, count: int) -> Array:
    """Decode elements: integers as int64 or uint64, others as float64 or complex128."""
    import numpy as np

    array = elements_of(data, count, data_type)
    if data_type.name == "UINT64":
        return array
    if data_type.name == "BOOL" or "INT" in data_type.name:
        return array.astype(np.int64)
    with np.errstate(invalid="ignore"):  # signaling NaNs become quiet
        return array.astype(np.complex128 if data_type.dtype_name.startswith("complex") else np.float64)


def _same_type(ours: Array, theirs: Array) -> Distance:
    """Return the distance of elements of one data type."""
    import numpy as np

    if ours.dtype.kind not in "iu":
        return _any_type(ours, theirs)
    differs = ours != theirs
    ours, theirs = ours[differs], theirs[differs]
    # Unsigned, since the difference of two int64 can exceed int64; modular arithmetic gives the right result.
    wide, other = ours.view(np.uint64), theirs.view(np.uint64)
    gaps = np.where(ours > theirs, wide - other, other - wide)
    return Distance(gaps.size, gaps.size, int(gaps.max()) if gaps.size else None)


def _any_type(ours: Array, theirs: Array) -> Distance:
    """Return the distance of elements of any two data types."""
    import numpy as np

    is_complex = "c" in (ours.dtype.kind, theirs.dtype.kind)
    ours, theirs = (array.astype(np.complex128 if is_complex else np.float64, copy=False) for array in (ours, theirs))
    nan, other_nan = np.isnan(ours), np.isnan(theirs)
    same = (ours == theirs) | (nan & other_nan)
    # Equal values can have different bits: zeros of both signs, and NaNs with different payloads.
    comparable = ~(same | nan | other_nan)
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(ours[comparable] - theirs[comparable])
    gaps[np.isnan(gaps)] = np.inf  # differences of infinite complex numbers
    return Distance(
        ours.size,
        int(ours.size - np.count_nonzero(same)),
        float(gaps.max()) if gaps.size else None,
        int(np.count_nonzero(nan ^ other_nan)),
    )
