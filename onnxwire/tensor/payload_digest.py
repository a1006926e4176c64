"""The digest of a tensor's payload, read from where it is stored, a chunk at a time."""

from __future__ import annotations

from onnxwire.tensor.dtypes import STRING
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


def add_payload(digest: Digest, tensor: TensorProto) -> None:
    """Update a digest with the payload of a tensor, in the layout of raw_data; strings one by one, each after its
    length.

    Raises TensorError for a tensor without a valid payload, SourceError and ExternalDataError for external data that
    cannot be read.
    """
    storage = Storage(tensor)
    if storage.data_type is STRING:
        for text in tensor.string_data:
            digest.update(len(text).to_bytes(8, "little"))
            digest.update(text)
        return
    if storage.source is None:
        digest.update(storage.payload())
        return
    file, start = storage.source
    size = storage.data_type.count_bytes(storage.count)
    if file.memory is not None:
        for chunk in file.memory.source.chunks(start, start + size):
            digest.update(chunk)
        return
    # Read rather than mapped: a file that is truncated meanwhile is then an error, not the end of the process.
    buffer = memoryview(bytearray(min(size, _CHUNK_BYTES)))
    for first in range(0, size, _CHUNK_BYTES):
        chunk = buffer[: size - first]
        file.read_into(start + first, chunk)
        digest.update(chunk)
