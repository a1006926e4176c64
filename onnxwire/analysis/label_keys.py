"""Keys of attributes and tensors: equal for equal values, whatever their names and storage."""

from __future__ import annotations

from array import array
from hashlib import blake2b

from onnxwire.messages import SparseTensorProto, TensorProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from onnxwire.messages import AttributeProto

_NOT_IN_KEYS = {"name", "g", "graphs"}
_ARRAYS = {"floats", "ints"}


def attribute_key(attribute: AttributeProto, digest: Callable[[TensorProto], Hashable]) -> bytes:
    """Return a digest of the value of an attribute, without its graphs.

    digest: returns a key of a tensor's payload. A NaN is equal to itself, and 0 differs from -0.
    """
    result = blake2b(digest_size=16)

    def add(data: Any) -> None:
        # The length before each value keeps apart values that are split differently.
        view = memoryview(data).cast("B")
        result.update(view.nbytes.to_bytes(8, "little"))
        result.update(view)

    for field, value in attribute.ListFields():
        if field.name in _NOT_IN_KEYS:
            continue
        add(field.name.encode())
        if field.name == "f":
            add(array("f", [value]))
        elif field.name in _ARRAYS:
            add(bytes(memoryview(value)))
        elif field.is_repeated:
            add(len(value).to_bytes(8, "little"))
            for element in value:
                add(_value_key(element, digest))
        else:
            add(_value_key(value, digest))
    return result.digest()


def tensor_key(tensor: Any, digest: Callable[[TensorProto], Hashable]) -> bytes:
    """Return a key of a TensorProto or SparseTensorProto: its type, shape and payload."""
    return repr(_tensor_parts(tensor, digest)).encode()


def _tensor_parts(tensor: Any, digest: Callable[[TensorProto], Hashable]) -> tuple[Hashable, ...]:
    if isinstance(tensor, SparseTensorProto):
        parts = (_tensor_parts(part, digest) for part in (tensor.values, tensor.indices))
        return (tuple(tensor.dims), *parts)
    return tensor.data_type, tuple(tensor.dims), digest(tensor)


def _value_key(value: Any, digest: Callable[[TensorProto], Hashable]) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, int):
        return str(value).encode()
    if isinstance(value, (TensorProto, SparseTensorProto)):
        return tensor_key(value, digest)
    return bytes(value.SerializeToString(deterministic=True))
