"""Convert TensorProto to numpy arrays: every data type, from every field and from external data."""

from __future__ import annotations

from onnxwire.errors import TensorError, count_text
from onnxwire.tensor.dtypes import STRING, name_of
from onnxwire.tensor.error import tensor_error
from onnxwire.tensor.storage import (
    Storage,
    count_elements,
    data_type_of,
    expand_index,
    stored_count_and_shape,
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
    """The methods of a TensorProto that return its elements."""

    __slots__ = ()

    @property
    def raw_view(self: TensorFields) -> memoryview:
        """The payload in the format of raw_data, a read-only memoryview of `nbytes` bytes.

        It shares the tensor's bytes if they are stored in that format, in the message or in a mapped file; otherwise it
        is a copy. Raises the errors of `numpy`, and TensorError for strings.
        """
        return Storage(self).payload().toreadonly()

    def numpy(
        self: TensorFields,
        *,
        copy: bool = False,
        writable: bool = False,
        packed: bool = False,
        strings: Literal["str", "bytes"] = "str",
    ) -> Array:
        """Return the elements as an array of `shape` and `dtype`.

        By default, the array is read-only and shares the tensor's bytes if they are stored in numpy's format: in
        raw_data, in mapped external data, and in float_data or double_data if it is one packed run. Pages of a mapped
        file are read when they are accessed. Elements of less than a byte are unpacked to one byte each.
        If the tensor is a chunk, which has a `segment`, the array has the shape (end - begin,).

        copy: return a writable copy. writable: return a writable array, copied only if necessary; changing it does not
        change the tensor. packed: return the payload's bytes, uint8 of shape (nbytes,). strings: the Python type of the
        elements of a STRING tensor; "bytes" also allows elements that are not valid UTF-8.
        Raises TensorError if type, dims and elements of the tensor do not fit together, and for `packed` with a STRING
        tensor; SourceError and ExternalDataError for external data that can't be read; FieldTypeError if a STRING
        tensor is read with another value of `strings`. Source: onnx.proto, TensorProto.
        """
        storage = Storage(self)
        array = storage.bytes_array() if packed else storage.array(strings)[0]
        if copy or writable:
            return array.copy() if copy or not array.flags.writeable else array
        array.flags.writeable = False
        return array

    def read(self: TensorFields, index: Index) -> Array:
        """Return a copy of `numpy()[index]`, without reading all bytes of raw_data or external data.

        The selected elements and small gaps between them are read; from a server, whole memory pages.
        index: ints, slices and an Ellipsis, as in numpy.
        Raises IndexError as numpy does, TypeError for any other index, and the errors of `numpy`.
        """
        import numpy as np

        storage = Storage(self)
        if storage.data_type is STRING or not (storage.is_unmapped or storage.is_remote or storage.data_type.is_packed):
            expand_index(index, storage.shape)
            return np.array(storage.array()[0][index], storage.data_type.dtype)
        return storage.read(index)


class Tensor(TensorReader):
    """The methods of a TensorProto, including the array protocols of other libraries."""

    __slots__ = ()

    @property
    def shape(self: TensorFields) -> tuple[int, ...]:
        """The dims as a tuple: () for a scalar."""
        return tuple(self.dims)

    @property
    def dtype(self: TensorFields) -> np.dtype[Any]:
        """The dtype of `numpy()`: of numpy or ml_dtypes, object for strings.

        Raises TensorError for an unknown data type.
        """
        return data_type_of(self).dtype

    @property
    def nbytes(self: TensorFields) -> int:
        """The size of the payload in bytes, as in raw_data; for strings the sum of their lengths.

        Except for strings, the size is computed from dims and data type, without reading the payload. Raises
        TensorError for invalid dims, data type or segment.
        """
        data_type = data_type_of(self)
        if data_type is STRING:
            return sum(map(len, self.string_data))
        return data_type.count_bytes(stored_count_and_shape(self, data_type)[0])

    def __array__(self: TensorFields, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        import numpy as np

        storage = Storage(self)
        array, is_copy = storage.array()
        target = array.dtype if dtype is None else np.dtype(dtype)
        if copy is False and (is_copy or array.dtype != target):
            raise ValueError(f"an array of {target} can't share the tensor's bytes; allow a copy")
        if array.dtype != target:
            return array.astype(target)
        if copy:
            return array if array.flags.writeable else array.copy()
        array.flags.writeable = False
        return array

    def __dlpack__(self: TensorFields, **options: Any) -> object:
        """Return a DLPack capsule of `numpy()`, for `from_dlpack` of any library.

        Raises BufferError with copy=False for elements that are not stored in numpy's format, and the errors of `numpy`
        and `to_capsule`, such as BufferError for strings.
        """
        from onnxwire.tensor.dlpack import to_capsule

        if options.get("copy") is False and Storage(self).array()[1]:
            raise BufferError("a capsule can't share the tensor's bytes; allow a copy")
        return to_capsule(self.numpy(), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device of the CPU, (1, 0)."""
        return 1, 0


def join_segments(tensors: Iterable[TensorFields]) -> Array:
    """Join the chunks of a tensor that is stored in segments.

    tensors: chunks of the same data type and dims, whose segments cover all elements once.
    Returns a new array of shape dims. Raises TensorError if the chunks do not fit together or there are none,
    and the errors of `numpy`.
    """
    import numpy as np

    chunks = sorted(tensors, key=lambda tensor: (tensor.segment.begin, tensor.segment.end))
    if not chunks:
        raise TensorError("there are no chunks to join")
    data_type, shape, end = data_type_of(chunks[0]), tuple(chunks[0].dims), 0
    for chunk in chunks:
        if data_type_of(chunk) is not data_type or tuple(chunk.dims) != shape:
            raise tensor_error(
                chunk, f"type or dims differ from those of the first chunk: {name_of(data_type.number)} {list(shape)}"
            )
        if chunk.segment.begin != end:
            raise tensor_error(
                chunk,
                f"the chunk begins at index {chunk.segment.begin:,}, and the chunks before it have "
                f"{count_text(end, 'element')}",
            )
        end = chunk.segment.end
    n_elements = count_elements(chunks[0], data_type)
    if end != n_elements:
        n_text = count_text(n_elements, "element")
        raise tensor_error(chunks[-1], f"the last chunk ends at {end:,}, and the tensor has {n_text}")
    return np.concatenate([chunk.numpy() for chunk in chunks]).reshape(shape)
