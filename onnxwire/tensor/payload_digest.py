"""Update digests with tensors' payloads. External data is read in chunks."""

from __future__ import annotations

from onnxwire.tensor.dtypes import BY_NUMBER, STRING
from onnxwire.tensor.payload_layout import count_elements
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class Digest(Protocol):
        """An object of hashlib or xxhash."""

        def update(self, data: Any, /) -> None:
            """Add bytes."""

    from onnxwire.messages import TensorProto

_CHUNK_BYTES = 1 << 22
_MAX_SMALL_BYTES = 1 << 12  # raw_data of up to this size is read without a Storage
_INLINE_TENSOR_FIELDS = frozenset({"dims", "data_type", "name", "doc_string", "metadata_props", "raw_data"})
"""A tensor that has only fields of this set has no stored elements, or has its elements in raw_data."""


def add_payload(digest: Digest, tensor: TensorProto) -> None:
    """Update a digest with the payload of a tensor in the format of raw_data, or with its strings.

    Each string is added after its length as 8 bytes, little-endian.

    Raises TensorError for a tensor without a valid payload, SourceError and ExternalDataError for external data that
    cannot be read.
    """
    data = small_payload(tensor)
    if data is not None:
        digest.update(data)
        return
    storage = Storage(tensor)
    if storage.data_type is STRING:
        for text in tensor.string_data:
            digest.update(len(text).to_bytes(8, "little"))
            digest.update(text)
        return
    if storage.file_and_offset is None:
        digest.update(storage.payload())
        return
    file, start = storage.file_and_offset
    size = storage.data_type.count_bytes(storage.count)
    if file.memory is not None:
        for chunk in file.memory.source.chunks(start, start + size):
            digest.update(chunk)
        return
    # The file is read rather than mapped: if it is truncated meanwhile, an error is raised instead of a fatal signal.
    buffer = memoryview(bytearray(min(size, _CHUNK_BYTES)))
    for chunk_start in range(0, size, _CHUNK_BYTES):
        chunk = buffer[: size - chunk_start]
        file.read_into(start + chunk_start, chunk)
        digest.update(chunk)


def small_payload(tensor: TensorProto) -> bytes | None:
    """Return raw_data if it is the payload, small, not empty, and of the size that type and dims require; else None.

    A model may contain 100,000 such tensors; reading them through a Storage takes ten times as long.
    """
    data_type = BY_NUMBER.get(tensor.data_type)
    if data_type is None or data_type is STRING or not _INLINE_TENSOR_FIELDS.issuperset(tensor._present()):
        return None
    elements, is_negative, is_excessive = count_elements(tensor.dims)
    if not elements or is_negative or is_excessive:
        return None
    size = data_type.count_bytes(elements)
    data = tensor.raw_data if size <= _MAX_SMALL_BYTES and tensor.HasField("raw_data") else b""
    return data if len(data) == size else None
