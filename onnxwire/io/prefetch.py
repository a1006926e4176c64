"""Fetch the payloads of several tensors together."""

from __future__ import annotations

from onnxwire.messages import TensorProto
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.engine.partial import PartialMemory, Range


def prefetch(tensors: Iterable[TensorProto]) -> None:
    """Fetch the payloads of several tensors of a model on a server in parallel.

    tensors: any TensorProtos. Fetched bytes stay in memory until the model is closed. Tensors in local files and in
    memory are skipped. Raises as `TensorProto.numpy` does.
    """
    wanted: dict[int, tuple[PartialMemory, list[Range]]] = {}
    for tensor in tensors:
        if not isinstance(tensor, TensorProto):
            raise TypeError(f"expected TensorProtos, not {type(tensor).__name__}")
        storage = Storage(tensor)
        if storage.source is None:
            continue
        file, offset = storage.source
        if file.memory is not None:
            span = offset, offset + storage.data_type.count_bytes(storage.count)
            wanted.setdefault(id(file.memory), (file.memory, []))[1].append(span)
    for memory, ranges in wanted.values():
        memory.source.fetch(memory, ranges)
