"""Fetching the payloads of several tensors together."""

from __future__ import annotations

from onnxwire.messages import TensorProto
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.engine.partial import PartialMemory, Range


def prefetch(tensors: Iterable[TensorProto]) -> None:
    """Fetch the payloads of some tensors of a model on a server together, which takes less time than one by one.

    tensors: any TensorProtos. What is fetched stays in memory until the model is closed. Of tensors in local files and
    in memory nothing is done. Raises what `numpy` raises, of the tensors' parts and for what can't be fetched.
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
