"""Makes messages of numpy arrays."""

from __future__ import annotations

from onnxwire.errors import TensorError
from onnxwire.tensor.dtypes import BY_DTYPE_NAME, STRING
from onnxwire.tensor.sparse_tensor import first_fault
from onnxwire.tensor.storage import little_endian, packed_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import numpy.typing as npt

    from onnxwire.messages import SparseTensorProto, TensorProto


def from_array(array: npt.ArrayLike, name: str | None = None) -> TensorProto:
    """Make a TensorProto of an array, whose memory it shares; do not change it before the tensor is saved.

    array: what numpy.asarray takes, of any shape; its dtype is bool, an integer, a float of up to 64 bits, a complex
    number, a dtype of ml_dtypes that ONNX has, or str, bytes or object for strings. It is copied where it is not
    contiguous, has big-endian elements, or such of less than 8 bits, which are packed; strings go to string_data.
    Raises TensorError for a dtype that ONNX has no name for.
    Source: onnx.proto, TensorProto.raw_data.
    """
    import numpy as np

    from onnxwire.messages import TensorProto

    array = np.asarray(array)
    if array.dtype.kind in "OUS":
        strings = [_encoded(value, name or "") for value in array.reshape(-1).tolist()]
        return TensorProto(dims=array.shape, data_type=STRING.number, string_data=strings, name=name or None)
    data_type = BY_DTYPE_NAME.get(array.dtype.name)
    if data_type is None:
        raise TensorError(f"numpy's {array.dtype} is not an ONNX type; cast the array to one that is", name or "")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    shape = array.shape
    flat = np.ascontiguousarray(array).reshape(-1)
    flat = packed_bytes(flat, data_type.bits) if data_type.is_packed else little_endian(flat, data_type).view(np.uint8)
    tensor = TensorProto(dims=shape, data_type=data_type.number, name=name or None)
    tensor._share("raw_data", flat.data)
    return tensor


def _encoded(value: object, name: str) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TensorError(f"an array of objects holds a {type(value).__name__}; ONNX has strings only", name)
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise TensorError(f"a str has no UTF-8 form: {error}", name) from None


def from_coo(
    values: npt.ArrayLike, indices: npt.ArrayLike, shape: tuple[int, ...], name: str | None = None
) -> SparseTensorProto:
    """Make a SparseTensorProto of values and their coordinates; as for `from_array`, memory is shared where it can be.

    values: shape (nnz,), of a dtype that from_array takes. indices: integers, coordinates of shape (nnz, rank) or
    linear ones of shape (nnz,); they are sorted where they are not. shape: of the dense tensor. name: becomes that of
    `values`.
    Raises TensorError for shapes that do not fit together, indices outside `shape`, and indices that repeat.
    Source: onnx.proto, SparseTensorProto.
    """
    import numpy as np

    from onnxwire.messages import SparseTensorProto

    values, coordinates, rank = np.asarray(values), np.asarray(indices), len(shape)
    if not coordinates.size:
        coordinates = coordinates.astype(np.int64)
    if coordinates.dtype.kind not in "iu":
        raise TensorError(f"indices are integers, not {coordinates.dtype}", name or "")
    if values.ndim != 1 or coordinates.shape not in ((len(values),), (len(values), rank)):
        raise TensorError(
            f"values of shape {values.shape} and indices of shape {coordinates.shape} do not fit together; "
            f"they are (nnz,) and (nnz, {rank}) or (nnz,)",
            name or "",
        )
    coordinates = coordinates.astype(np.int64, copy=False)
    if (
        rank
        and first_fault(coordinates.reshape(len(values), -1) if coordinates.size else coordinates[:, None]) is not None
    ):
        order = np.lexsort([coordinates] if coordinates.ndim == 1 else list(coordinates.T[::-1]))
        values, coordinates = values[order], coordinates[order]
    sparse = SparseTensorProto(dims=shape, values=from_array(values, name), indices=from_array(coordinates))
    sparse.to_coo(strings="bytes")  # raises for what is outside the shape or stands twice
    return sparse


def from_dense(array: npt.ArrayLike, name: str | None = None) -> SparseTensorProto:
    """Make a SparseTensorProto of the elements of an array that are not 0, with coordinates.

    array, name: as for `from_array`, the array with a dimension at least. Raises TensorError as that does.
    """
    import numpy as np

    array = np.asarray(array)
    if not array.ndim:
        raise TensorError("a sparse tensor can't have the dims []; reshape the array to (1,)", name or "")
    coordinates = np.nonzero(array)
    return from_coo(array[coordinates], np.stack(coordinates, axis=1), array.shape, name)
