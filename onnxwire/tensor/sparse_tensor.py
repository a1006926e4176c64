"""Convert SparseTensorProto to numpy: coordinates and values, or a dense array."""

from __future__ import annotations

import math

from onnxwire.errors import TensorError, count_text
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import Storage, data_type_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    import numpy as np
    import numpy.typing as npt

    from onnxwire.tensor.fields import SparseTensorFields


class SparseTensorReader:
    """The methods of a SparseTensorProto that return its elements."""

    __slots__ = ()

    def to_coo(
        self: SparseTensorFields, *, strings: Literal["str", "bytes"] = "str"
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the values, shape (nnz,), and their coordinates, int64 of shape (nnz, rank); both read-only.

        nnz: the number of values. Linear indices are converted to new arrays of coordinates. Values, and indices that
        are coordinates, share bytes as the arrays of TensorProto.numpy do. strings: as for TensorProto.numpy.
        Raises TensorError if the dims are absent, negative, too large, or too many for numpy, if values, indices and
        dims do not fit together, the indices are not INT64, an index is outside the dims, or the indices are not
        strictly ascending; and the errors of TensorProto.numpy.
        Source: onnx.proto, SparseTensorProto.
        """
        import numpy as np

        from onnxwire.tensor.payload_layout import count_elements

        values, indices, shape = self.values, self.indices, tuple(self.dims)
        rank, storage = len(shape), Storage(values)
        if len(storage.shape) != 1:
            raise self._error(f"the values of a sparse tensor have one dimension, not the dims {list(values.dims)}")
        _, is_negative, is_excessive = count_elements(shape)
        if not shape or is_negative or is_excessive:
            raise self._error(f"a sparse tensor can't have the dims {list(shape)}")
        nnz = storage.shape[0]
        if not self.HasField("indices"):
            if nnz:
                raise self._error(f"there are no indices for {count_text(nnz, 'value')}; each value needs an index")
            coordinates: np.ndarray[Any, Any] = np.empty((0, rank), np.int64)
        else:
            if data_type_of(indices).name != "INT64":
                raise self._error(f"the indices of a sparse tensor are INT64, not {data_type_of(indices).name}")
            if tuple(indices.dims) not in ((nnz,), (nnz, rank)):
                required = f"dims [{nnz}] or [{nnz}, {rank}]"
                raise self._error(
                    f"the indices of {count_text(nnz, 'value')} must have {required}, not {list(indices.dims)}"
                )
            try:
                coordinates = indices.numpy()
            except TensorError as error:
                raise self._error(f"its indices: {error.reason}") from None
            self._check_coordinates(coordinates, shape)
            if coordinates.ndim == 1:
                try:
                    coordinates = (
                        np.stack(np.unravel_index(coordinates, shape), axis=1) if nnz else np.empty((0, rank), np.int64)
                    )
                except ValueError as error:
                    raise self._error(f"numpy has no array of dims {list(shape)}: {error}") from None
        coordinates.flags.writeable = False
        return values.numpy(strings=strings), coordinates

    def _check_coordinates(self: SparseTensorFields, coordinates: np.ndarray[Any, Any], shape: tuple[int, ...]) -> None:
        """Raise TensorError for indices outside the dims, and indices that are not strictly ascending.

        coordinates: linear indices, shape (nnz,), or coordinates, shape (nnz, rank). shape: the dims.
        """
        import numpy as np

        matrix, limits = (coordinates, shape) if coordinates.ndim == 2 else (coordinates[:, None], (math.prod(shape),))
        outside_rows = np.flatnonzero(((matrix < 0) | (matrix >= np.array(limits, np.int64))).any(axis=1))
        if len(outside_rows):
            index = coordinates[outside_rows[0]].tolist()
            raise self._error(f"index {index} of value {outside_rows[0]:,} is outside the dims {list(shape)}")
        row = find_unordered_row(matrix)
        if row is not None:
            previous, index = coordinates[row - 1 : row + 1].tolist()
            raise self._error(f"index {index} of value {row:,} follows {previous}; indices must be strictly ascending")

    def _error(self: SparseTensorFields, reason: str) -> TensorError:
        return tensor_error(self.values, reason)

    def numpy(self: SparseTensorFields, *, strings: Literal["str", "bytes"] = "str") -> np.ndarray[Any, Any]:
        """Return a new dense array of `shape` and `dtype`. Elements without a value are 0, or empty strings.

        Raises the errors of `to_coo`, and TensorError if memory is exhausted and for more dims than numpy allows.
        """
        import numpy as np

        values, coordinates = self.to_coo(strings=strings)
        try:
            if values.dtype == object:
                dense = np.full(tuple(self.dims), "" if strings == "str" else b"", object)
            else:
                dense = np.zeros(tuple(self.dims), values.dtype)
        except MemoryError:
            raise self._error(
                f"the dense tensor of dims {list(self.dims)} is too large for memory; use to_coo"
            ) from None
        except ValueError as error:
            raise self._error(f"numpy has no array of dims {list(self.dims)}: {error}; use to_coo") from None
        dense[tuple(coordinates.T)] = values
        return dense


class SparseTensor(SparseTensorReader):
    """The methods of a SparseTensorProto, including numpy's array protocol."""

    __slots__ = ()

    @property
    def shape(self: SparseTensorFields) -> tuple[int, ...]:
        """The dims of the dense tensor."""
        return tuple(self.dims)

    @property
    def dtype(self: SparseTensorFields) -> np.dtype[Any]:
        """The numpy dtype of the values."""
        return data_type_of(self.values).dtype

    def __array__(
        self: SparseTensorFields, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("a dense array of a sparse tensor is always a copy; allow the copy")
        dense = self.numpy()
        return dense if dtype is None else dense.astype(dtype, copy=False)


def find_unordered_row(matrix: np.ndarray[Any, Any]) -> int | None:
    """Return the index of the first row that is not lexicographically greater than the previous row, or None.

    matrix: integers of shape (rows, columns).
    """
    import numpy as np

    increases = matrix[1:] > matrix[:-1]
    decreases = matrix[1:] < matrix[:-1]
    # The order of two rows is that of the first column in which they differ.
    first_columns = np.argmax(increases | decreases, axis=1) if len(increases) else np.empty(0, np.int64)
    rows = np.flatnonzero(~increases[np.arange(len(increases)), first_columns])
    return int(rows[0]) + 1 if len(rows) else None
