"""Create messages from numpy arrays."""

from __future__ import annotations

from onnxwire.errors import TensorError
from onnxwire.tensor.dtypes import BY_DTYPE_NAME, STRING
from onnxwire.tensor.sparse_tensor import find_unordered_row
from onnxwire.tensor.storage import pack_elements, swap_if_big_endian

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy.typing as npt

    from onnxwire.messages import SparseTensorProto, TensorProto


def from_array(array: npt.ArrayLike, name: str | None = None) -> TensorProto:
    """Create a TensorProto that shares the memory of an array. Do not change the array before the tensor is saved.

    array: any argument of numpy.asarray, of any shape; its dtype is bool, an integer, a float of up to 64 bits,
    complex64, complex128, a dtype of ml_dtypes that ONNX has, or str, bytes or object for strings. It is copied if it
    is not C-contiguous, is big-endian, or has elements of less than 8 bits, which are packed; strings are stored in
    string_data.
    Raises TensorError for a dtype that ONNX does not have, and for an object that can't be stored as a string.
    Source: onnx.proto, TensorProto.raw_data.
    """
    import numpy as np

    from onnxwire.messages import TensorProto

    array = np.asarray(array)
    if array.dtype.kind in "OUS":
        strings = [_encode_string(value, name or "") for value in array.reshape(-1).tolist()]
        return TensorProto(dims=array.shape, data_type=STRING.number, string_data=strings, name=name or None)
    data_type = BY_DTYPE_NAME.get(array.dtype.name)
    if data_type is None:
        raise TensorError(f"numpy's {array.dtype} is not an ONNX type; convert the array to one", name or "")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    shape = array.shape
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = (
        pack_elements(flat, data_type.bits)
        if data_type.is_packed
        else swap_if_big_endian(flat, data_type).view(np.uint8)
    )
    tensor = TensorProto(dims=shape, data_type=data_type.number, name=name or None)
    tensor._share("raw_data", flat.data)
    return tensor


def _encode_string(value: object, name: str) -> bytes:
    """Return the bytes of an element of string_data; name: the tensor's name, for the TensorError."""
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TensorError(
            f"an array of objects contains the type {type(value).__name__}; only str and bytes are allowed", name
        )
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise TensorError(f"a str can't be encoded as UTF-8: {error}", name) from None


def from_coo(
    values: npt.ArrayLike, indices: npt.ArrayLike, shape: tuple[int, ...], name: str | None = None
) -> SparseTensorProto:
    """Create a SparseTensorProto from values and their coordinates. Memory is shared as in `from_array`.

    values: shape (nnz,), of a dtype that from_array accepts. indices: integers, coordinates of shape (nnz, rank) or
    linear indices of shape (nnz,); sorted if necessary. shape: the shape of the dense tensor. name: the name of
    `values`.
    Raises TensorError for shapes that do not fit together, for a `shape` that is empty, negative or too large, for
    indices that are not integers, are outside `shape` or are duplicates, and as `from_array` does.
    Source: onnx.proto, SparseTensorProto.
    """
    import numpy as np

    from onnxwire.messages import SparseTensorProto

    values, coordinates, rank = np.asarray(values), np.asarray(indices), len(shape)
    if not coordinates.size:
        coordinates = coordinates.astype(np.int64)
    if coordinates.dtype.kind not in "iu":
        raise TensorError(f"indices must be integers, not {coordinates.dtype}", name or "")
    if values.ndim != 1 or coordinates.shape not in ((len(values),), (len(values), rank)):
        raise TensorError(
            f"values of shape {values.shape} and indices of shape {coordinates.shape} do not fit together; "
            f"they must be (nnz,) and (nnz, {rank}) or (nnz,)",
            name or "",
        )
    coordinates = coordinates.astype(np.int64, copy=False)
    if (
        rank
        and find_unordered_row(coordinates.reshape(len(values), -1) if coordinates.size else coordinates[:, None])
        is not None
    ):
        order = np.lexsort([coordinates] if coordinates.ndim == 1 else list(coordinates.T[::-1]))
        values, coordinates = values[order], coordinates[order]
    sparse = SparseTensorProto(dims=shape, values=from_array(values, name), indices=from_array(coordinates))
    sparse.to_coo(strings="bytes")  # raises for indices outside the shape, and duplicates
    return sparse


def from_dense(array: npt.ArrayLike, name: str | None = None) -> SparseTensorProto:
    """Create a SparseTensorProto from the nonzero elements of an array.

    array, name: as for `from_array`. Raises TensorError for an array without dimensions, and as `from_array` does.
    """
    import numpy as np

    array = np.asarray(array)
    if not array.ndim:
        raise TensorError("a sparse tensor can't have the dims []; reshape the array to (1,)", name or "")
    coordinates = np.nonzero(array)
    return from_coo(array[coordinates], np.stack(coordinates, axis=1), array.shape, name)
