"""Computes the distance of two tensors, block by block.

For tensors of one data type, bytes are compared first, and numbers only in blocks that differ.
"""

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

_BLOCK_ELEMENTS = 3 << 16  # number of elements compared at a time; a multiple of 4, so 6-bit types have whole bytes
_SEEK_DATA: int | None = getattr(os, "SEEK_DATA", None)
_MAX_BLOCKS = 1 << 63  # more blocks than any tensor has
_FileId = tuple[int, int]
"""The device and inode of a file, or the id of a remote file's memory and 0."""


@dataclass(frozen=True, slots=True)
class Distance:
    """The distance of two tensors of one shape.

    elements: the number of elements of each tensor. different: the number of differing elements, where NaN equals NaN,
    and -0 equals 0. max_abs: the largest absolute difference of two elements, for complex numbers the magnitude of the
    difference; an exact int for two tensors of one integer type or of BOOL, else a float. It is None for strings, or if
    no element differs, or if every differing pair contains NaN. nan: the number of elements that are NaN in exactly one
    of the tensors.
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
        return text + (f"; {self.nan:,} {'is' if self.nan == 1 else 'are'} NaN in only one tensor" if self.nan else "")

    def plus(self, other: Distance) -> Distance:
        """Return the distance with the differences of another part of the tensors added.

        `self.elements` is the count of the whole tensor; `other.elements` is ignored.
        """
        maxima = [value for value in (self.max_abs, other.max_abs) if value is not None]
        return Distance(
            self.elements, self.different + other.different, max(maxima, default=None), self.nan + other.nan
        )


def distance(old: TensorProto, new: TensorProto, progress: Callable[[int], object] | None = None) -> Distance:
    """Compare the elements of two tensors of one shape, in any storage.

    progress: called with the number of bytes of `old` that were compared since the last call; not called for strings.
    Elements of one data type at the same offset of the same file are not read, nor are blocks inside holes of both
    files. Memory: one block of each tensor; more for typed fields such as float_data and for tensors on servers.
    Raises TensorError for tensors of different shapes and for damaged ones; SourceError and ExternalDataError for
    external data that can't be read.
    """
    import numpy as np

    storages = Storage(old), Storage(new)
    if storages[0].shape != storages[1].shape:
        raise tensor_error(new, f"the shape is {storages[1].shape}, and that of the other tensor {storages[0].shape}")
    types = storages[0].data_type, storages[1].data_type
    count = storages[0].count
    if STRING in types:
        return _string_distance(old, new, count)
    old_side, new_side = _Side(storages[0]), _Side(storages[1])
    is_one_type = types[0] is types[1]
    total = Distance(count)
    if is_one_type and old_side.origin is not None and old_side.origin == new_side.origin:
        if progress is not None:
            progress(types[0].count_bytes(count))
        return total
    start = 0
    while start < count:
        n_hole_blocks = min(old_side.count_hole_blocks(start), new_side.count_hole_blocks(start)) if is_one_type else 0
        if n_hole_blocks:
            end = min(start + n_hole_blocks * _BLOCK_ELEMENTS, count)
            if progress is not None:
                progress(types[0].count_bytes(end) - types[0].count_bytes(start))
            start = end
            continue
        size = min(_BLOCK_ELEMENTS, count - start)
        old_bytes, new_bytes = old_side.read(start, size), new_side.read(start, size)
        # Compare the bytes as arrays, because memoryviews are compared element by element.
        if not is_one_type or not np.array_equal(
            np.frombuffer(old_bytes, np.uint8), np.frombuffer(new_bytes, np.uint8)
        ):
            values = _decode_numbers(old_bytes, types[0], size), _decode_numbers(new_bytes, types[1], size)
            total = total.plus(_distance_of_one_type(*values) if is_one_type else _distance_of_any_types(*values))
        if progress is not None:
            progress(len(old_bytes))
        start += size
    return total


def _string_distance(old: TensorProto, new: TensorProto, count: int) -> Distance:
    """Return the distance of two tensors of which at least one has strings. count: the number of elements."""
    if old.data_type != new.data_type:
        return Distance(count, count)
    pairs = zip(old.string_data, new.string_data, strict=True)
    return Distance(count, sum(old_string != new_string for old_string, new_string in pairs))


class _Side:
    """Reads one of two compared tensors. origin: the file and offset of its elements; None for elements in memory."""

    def __init__(self, storage: Storage) -> None:
        self._reader = BlockReader(storage)
        self._buffer = bytearray(self._count_bytes(_BLOCK_ELEMENTS))
        self.origin: tuple[_FileId, int] | None = None
        if self._reader.file_and_offset is not None:
            file, offset = self._reader.file_and_offset
            if file.memory is not None:
                self.origin = (id(file.memory), 0), offset
                self._may_skip_holes = False
            else:
                status = os.fstat(file.descriptor)
                self.origin = (status.st_dev, status.st_ino), offset
                self._may_skip_holes = status.st_size >= offset + self._count_bytes(storage.count)

    def _count_bytes(self, elements: int) -> int:
        return self._reader.data_type.count_bytes(elements)

    def count_hole_blocks(self, start: int) -> int:
        """Return how many blocks from index `start` on are inside a hole of the file, which reads as zeros."""
        if self._reader.file_and_offset is None or not self._may_skip_holes or _SEEK_DATA is None:
            return 0
        file, offset = self._reader.file_and_offset
        offset += self._count_bytes(start)
        try:
            data_offset = os.lseek(file.descriptor, offset, _SEEK_DATA)
        except OSError as error:
            # ENXIO: no data up to the end. Other errors: the file system does not report holes.
            return _MAX_BLOCKS if error.errno == errno.ENXIO else 0
        return (data_offset - offset) // self._count_bytes(_BLOCK_ELEMENTS)

    def read(self, start: int, count: int) -> memoryview:
        """Return the bytes of elements from index `start`, a multiple of _BLOCK_ELEMENTS; valid until the next call."""
        return self._reader.read(start, count, self._buffer)


def _decode_numbers(data: memoryview, data_type: DataType, count: int) -> Array:
    """Decode elements: integers and booleans as int64 or uint64, others as float64 or complex128."""
    import numpy as np

    array = elements_of(data, count, data_type)
    if data_type.name == "UINT64":
        return array
    if data_type.name == "BOOL" or "INT" in data_type.name:
        return array.astype(np.int64)
    with np.errstate(invalid="ignore"):  # signaling NaNs become quiet
        return array.astype(np.complex128 if data_type.dtype_name.startswith("complex") else np.float64)


def _distance_of_one_type(old_values: Array, new_values: Array) -> Distance:
    """Return the distance of elements of one data type, as `_decode_numbers` returns them.

    The caller ignores the attribute `elements` of the result.
    """
    import numpy as np

    if old_values.dtype.kind not in "iu":
        return _distance_of_any_types(old_values, new_values)
    differs = old_values != new_values
    old_values, new_values = old_values[differs], new_values[differs]
    # Unsigned, since the difference of two int64 can exceed int64; modular arithmetic gives the right result.
    old_bits, new_bits = old_values.view(np.uint64), new_values.view(np.uint64)
    differences = np.where(old_values > new_values, old_bits - new_bits, new_bits - old_bits)
    return Distance(differences.size, differences.size, int(differences.max()) if differences.size else None)


def _distance_of_any_types(old_values: Array, new_values: Array) -> Distance:
    """Return the distance of elements of any two data types, as `_decode_numbers` returns them."""
    import numpy as np

    is_complex = "c" in (old_values.dtype.kind, new_values.dtype.kind)
    old_values, new_values = (
        array.astype(np.complex128 if is_complex else np.float64, copy=False) for array in (old_values, new_values)
    )
    is_old_nan, is_new_nan = np.isnan(old_values), np.isnan(new_values)
    # Equal values can have different bits: zeros of both signs, and NaNs with different payloads.
    is_equal = (old_values == new_values) | (is_old_nan & is_new_nan)
    is_different_number = ~(is_equal | is_old_nan | is_new_nan)
    with np.errstate(invalid="ignore", over="ignore"):
        differences = np.abs(old_values[is_different_number] - new_values[is_different_number])
    differences[np.isnan(differences)] = np.inf  # differences of infinite complex numbers
    return Distance(
        old_values.size,
        int(old_values.size - np.count_nonzero(is_equal)),
        float(differences.max()) if differences.size else None,
        int(np.count_nonzero(is_old_nan ^ is_new_nan)),
    )
