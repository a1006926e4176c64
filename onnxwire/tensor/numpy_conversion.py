"""TensorProto to numpy and back: every data type, wherever its elements are stored."""

from __future__ import annotations

from onnxwire.errors import TensorError
from onnxwire.tensor.dtypes import STRING, name_of
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import (
    Storage,
    count_elements,
    data_type_of,
    expand_index,
    stored_part,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    import numpy as np
    import numpy.typing as npt

    from onnxwire.tensor.fields import TensorFields
    from onnxwire.tensor.storage import Array, Index


class TensorReader:
    """The methods of a TensorProto that give its elements."""

    __slots__ = ()

    @property
    def raw_view(self: TensorFields) -> memoryview:
        """The payload as raw_data has it, a read-only memoryview of `nbytes` bytes.

        Of raw_data and of external data it is a window, of the other fields a copy. Raises as `numpy` does.
        """
        return Storage(self).payload()

    def numpy(
        self: TensorFields,
        *,
        copy: bool = False,
        writable: bool = False,
        packed: bool = False,
        strings: Literal["str", "bytes"] = "str",
    ) -> Array:
        """The elements as an array of `shape` and `dtype`.

        It is read-only, and no byte is copied where the elements stand as numpy wants them: in raw_data, external data,
        and packed float_data, double_data and int32_data of their own types. Pages of a mapped file are read when they
        are touched. Elements of less than a byte are unpacked, one a byte.
        A tensor with a `segment` gives that chunk, of shape (end - begin,).

        copy: give an array of its own, which may be written to. writable: the same, but copied only where need be; the
        tensor does not change with it. packed: the payload's bytes as they are, uint8 of shape (nbytes,). strings: what
        the elements of a STRING tensor are; "bytes" also gives those that are not valid UTF-8.
        Raises TensorError where the tensor's parts do not fit together, SourceError and ExternalDataError for external
        data that can't be had. Source: onnx.proto, TensorProto.
        """
        storage = Storage(self)
        array, is_own = (storage.bytes_array(), False) if packed else storage.array(strings)
        if copy or writable:
            return array.copy() if copy or not is_own else array
        array.flags.writeable = False
        return array

    def read(self: TensorFields, index: Index) -> Array:
        """`numpy()[index]` as an array of its own, for which only those elements' bytes are read.

        index: ints, slices and an Ellipsis, as numpy takes them. Of a file that is not mapped (`load(..., mmap=False)`)
        elements that lie close to one another are read at once.
        Raises IndexError as numpy does, TypeError for any other index, and what `numpy` raises.
        """
        import numpy as np

        storage = Storage(self)
        if storage.data_type is STRING or not (
            storage.is_unmapped or storage.is_fetched or storage.data_type.is_packed
        ):
            expand_index(index, storage.shape)
            return np.array(storage.array()[0][index], storage.data_type.dtype)
        return storage.read(index)


class Tensor(TensorReader):
    """The methods of a TensorProto, beside its fields: also those by which other libraries know arrays."""

    __slots__ = ()

    @property
    def shape(self: TensorFields) -> tuple[int, ...]:
        """The dims, as numpy has them: () for a scalar."""
        return tuple(self.dims)

    @property
    def dtype(self: TensorFields) -> np.dtype[Any]:
        """The numpy dtype of `numpy()`; one of ml_dtypes where numpy has none, object for strings.

        Raises TensorError for a data type that ONNX does not have.
        """
        return data_type_of(self).dtype

    @property
    def nbytes(self: TensorFields) -> int:
        """The bytes of the payload: what raw_data has, or would have; of strings their lengths together.

        Known from dims and data type, without a look at the payload. Raises TensorError where these are none.
        """
        data_type = data_type_of(self)
        if data_type is STRING:
            return sum(map(len, self.string_data))
        return data_type.count_bytes(stored_part(self, data_type)[0])

    def __array__(self: TensorFields, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        import numpy as np

        storage = Storage(self)
        array, is_own = storage.array()
        wanted = array.dtype if dtype is None else np.dtype(dtype)
        if copy is False and (is_own or array.dtype != wanted):
            raise ValueError(f"the tensor's bytes are not an array of {wanted} as they stand; allow the copy")
        if array.dtype != wanted:
            return array.astype(wanted)
        if copy:
            return array if is_own else array.copy()
        array.flags.writeable = False
        return array

    def __dlpack__(self: TensorFields, **options: Any) -> object:
        """A DLPack capsule of `numpy()`, for `from_dlpack` of any library; raises BufferError for strings."""
        from onnxwire.tensor.dlpack import to_capsule

        return to_capsule(self.numpy(), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The processor: (1, 0)."""
        return 1, 0


def join_segments(tensors: Iterable[TensorFields]) -> Array:
    """The whole of a tensor that was stored in chunks.

    tensors: of one data type and dims, each with the segment that it holds; together all elements, none of them twice.
    Returns an array of its own, of shape dims. Raises TensorError where they are not such.
    """
    import numpy as np

    chunks = sorted(tensors, key=lambda tensor: (tensor.segment.begin, tensor.segment.end))
    if not chunks:
        raise TensorError("there are no chunks to join")
    data_type, shape, end = data_type_of(chunks[0]), tuple(chunks[0].dims), 0
    for chunk in chunks:
        if data_type_of(chunk) is not data_type or tuple(chunk.dims) != shape:
            raise tensor_error(chunk, f"the chunks are of different types or dims: {name_of(data_type.number)} {shape}")
        if chunk.segment.begin != end:
            raise tensor_error(
                chunk, f"the chunk begins at {chunk.segment.begin:,}, and the one before it ends at {end:,}"
            )
        end = chunk.segment.end
    if end != count_elements(chunks[0], data_type):
        raise tensor_error(chunks[-1], f"the last chunk ends at {end:,}, and the tensor is longer")
    return np.concatenate([chunk.numpy() for chunk in chunks]).reshape(shape)
