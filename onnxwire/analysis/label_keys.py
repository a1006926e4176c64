"""Keys of attributes and tensors: equal for equal values, regardless of names and storage."""

from __future__ import annotations

from array import array
from functools import lru_cache
from hashlib import blake2b

from onnxwire.messages import SparseTensorProto, TensorProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from onnxwire.messages import AttributeProto

_SKIPPED_FIELDS = {"name", "g", "graphs"}
_NUMBER_FIELDS = {"floats", "ints"}
# Maximum size of an encoded tensor whose key is cached. A tensor with a location of external data is longer, so its key
# is not cached.
_MAX_TINY_BYTES = 16


def attribute_key(attribute: AttributeProto, payload_key: Callable[[TensorProto], Hashable]) -> bytes:
    """Return a key of an attribute without its name and its graphs: a digest of 16 bytes.

    payload_key: returns a key of a tensor's payload. Floats are compared by their bits: NaNs with the same bits are
    equal, and 0 differs from -0.
    """
    result = blake2b(digest_size=16)

    def add(data: Any) -> None:
        """Add a buffer and its length to the digest."""
        # Without the length before each value, "ab", "c" and "a", "bc" would have one digest.
        view = memoryview(data).cast("B")
        result.update(view.nbytes.to_bytes(8, "little"))
        result.update(view)

    for field, value in attribute.ListFields():
        if field.name in _SKIPPED_FIELDS:
            continue
        add(field.name.encode())
        if field.name == "f":
            add(array("f", [value]))
        elif field.name in _NUMBER_FIELDS:
            add(bytes(memoryview(value)))
        elif field.is_repeated:
            add(len(value).to_bytes(8, "little"))
            for element in value:
                key = _value_key(element, payload_key)
                result.update(len(key).to_bytes(8, "little") + key)
        else:
            add(_value_key(value, payload_key))
    return result.digest()


def tensor_key(tensor: Any, payload_key: Callable[[TensorProto], Hashable]) -> bytes:
    """Return a key of a TensorProto or SparseTensorProto: its type, shape and payload."""
    if tensor.ByteSize() <= _MAX_TINY_BYTES:
        encoded = tensor.SerializeToString(deterministic=True)
        return _tiny_key(isinstance(tensor, SparseTensorProto), encoded, payload_key)
    return repr(_tensor_parts(tensor, payload_key)).encode()


@lru_cache(1024)
def _tiny_key(is_sparse: bool, encoded: bytes, payload_key: Callable[[TensorProto], Hashable]) -> bytes:
    """Return the key of an encoded tensor. The cache serves damaged files, which can have a million equal tensors."""
    tensor = (SparseTensorProto if is_sparse else TensorProto).FromString(encoded)
    return repr(_tensor_parts(tensor, payload_key)).encode()


def _tensor_parts(tensor: Any, payload_key: Callable[[TensorProto], Hashable]) -> tuple[Hashable, ...]:
    """Return the parts of a tensor's key; the key is the `repr` of the parts."""
    if isinstance(tensor, SparseTensorProto):
        parts = (_tensor_parts(part, payload_key) for part in (tensor.values, tensor.indices))
        return (tuple(tensor.dims), *parts)
    return tensor.data_type, tuple(tensor.dims), payload_key(tensor)


def _value_key(value: Any, payload_key: Callable[[TensorProto], Hashable]) -> bytes:
    """Return a key of an int, a str, bytes, a tensor or another message in an attribute."""
    if isinstance(value, (TensorProto, SparseTensorProto)):
        return tensor_key(value, payload_key)
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, int):
        return str(value).encode()
    return bytes(value.SerializeToString(deterministic=True))
