"""SparseTensorProto to numpy and back: coordinates and values, or dense."""

from __future__ import annotations

import math

from onnxwire.errors import TensorError
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import Storage, kind_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    import numpy as np
    import numpy.typing as npt

    from onnxwire.messages import SparseTensorProto

_MAX_COUNT = (1 << 63) - 1


class SparseTensor:
    """The methods of a SparseTensorProto, beside its fields."""

    __slots__ = ()

    @property
    def shape(self: SparseTensorProto) -> tuple[int, ...]:  # type: ignore[misc]
        """The dims of the dense tensor."""
        return tuple(self.dims)

    @property
    def dtype(self: SparseTensorProto) -> np.dtype[Any]:  # type: ignore[misc]
        """The numpy dtype of the values."""
        return kind_of(self.values).dtype

    def to_coo(  # type: ignore[misc]
        self: SparseTensorProto, *, strings: Literal["str", "bytes"] = "str"
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The values, shape (nnz,), and their coordinates, int64 of shape (nnz, rank); both read-only.

        Linear indices are turned into coordinates; nothing else is copied. strings: as for TensorProto.numpy.
        Raises TensorError where values, indices and dims do not fit together, or an index is outside the dims.
        Source: onnx.proto, SparseTensorProto.
        """
        import numpy as np

        values, indices, shape = self.values, self.indices, self.shape
        rank, storage = len(shape), Storage(values)
        if len(storage.shape) != 1:
            raise self._error(f"the values of a sparse tensor have one dimension, not the dims {list(values.shape)}")
        if not shape or min(shape) < 0 or math.prod(shape) > _MAX_COUNT:
            raise self._error(f"a sparse tensor can't have the dims {list(shape)}")
        nnz = storage.shape[0]
        if not self.HasField("indices"):
            if nnz:
                raise self._error(f"{nnz:,} values call for as many indices; there are none")
            places: np.ndarray[Any, Any] = np.empty((0, rank), np.int64)
        else:
            if kind_of(indices).name != "INT64":
                raise self._error(f"the indices of a sparse tensor are INT64, not {kind_of(indices).name}")
            if indices.shape not in ((nnz,), (nnz, rank)):
                wanted = f"dims [{nnz}] or [{nnz}, {rank}]"
                raise self._error(f"{nnz:,} values call for indices of {wanted}, not {list(indices.shape)}")
            try:
                places = indices.numpy()
            except TensorError as error:
                raise self._error(f"of its indices: {error.reason}") from None
            self._check_places(places, shape)
            if places.ndim == 1:
                places = np.stack(np.unravel_index(places, shape), axis=1) if nnz else np.empty((0, rank), np.int64)
        places.flags.writeable = False
        return values.numpy(strings=strings), places

    def _check_places(self: SparseTensorProto, places: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:  # type: ignore[misc]
        """Raise TensorError for indices outside the dims, and for such that do not ascend."""
        import numpy as np

        table, limits = (places, shape) if places.ndim == 2 else (places[:, None], (math.prod(shape),))
        outside = np.flatnonzero(((table < 0) | (table >= np.array(limits, np.int64))).any(axis=1))
        if len(outside):
            bad = places[outside[0]].tolist()
            raise self._error(f"index {bad} of value {outside[0]:,} is outside the dims {list(shape)}")
        fault = first_fault(table)
        if fault is not None:
            raise self._error(
                f"index {places[fault].tolist()} of value {fault:,} comes after {places[fault - 1].tolist()}; the "
                "indices ascend, and none stands twice"
            )

    def _error(self: SparseTensorProto, reason: str) -> TensorError:  # type: ignore[misc]
        return tensor_error(self.values, reason)

    def numpy(  # type: ignore[misc]
        self: SparseTensorProto, *, strings: Literal["str", "bytes"] = "str"
    ) -> np.ndarray[Any, Any]:
        """The dense array, of `shape` and `dtype`, new memory; what has no value is 0, or an empty string.

        Raises TensorError as `to_coo` does, and where memory has no room for it.
        """
        import numpy as np

        values, places = self.to_coo(strings=strings)
        try:
            if values.dtype == object:
                dense = np.full(self.shape, "" if strings == "str" else b"", object)
            else:
                dense = np.zeros(self.shape, values.dtype)
        except (MemoryError, ValueError):
            raise self._error(
                f"the dense tensor of dims {list(self.shape)} is too large for memory; use to_coo"
            ) from None
        dense[tuple(places.T)] = values
        return dense

    def __array__(  # type: ignore[misc]
        self: SparseTensorProto, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a sparse tensor is made dense in new memory; allow the copy")
        dense = self.numpy()
        return dense if dtype is None else dense.astype(dtype, copy=False)


def first_fault(table: np.ndarray[Any, Any]) -> int | None:
    """The first row that does not come after the one before it, column by column; None where all do."""
    import numpy as np

    steps = table[1:] > table[:-1]
    falls = table[1:] < table[:-1]
    # What counts is the first column in which two rows differ.
    first = np.argmax(steps | falls, axis=1) if len(steps) else np.empty(0, np.int64)
    faults = np.flatnonzero(~steps[np.arange(len(steps)), first])
    return int(faults[0]) + 1 if len(faults) else None
