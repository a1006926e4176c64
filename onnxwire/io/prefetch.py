"""Fetch the payloads of several tensors together."""

from __future__ import annotations

from onnxwire.engine.message import Message
from onnxwire.io.tensor_list import find_tensors
from onnxwire.messages import TensorProto
from onnxwire.tensor.dtypes import EXTERNAL
from onnxwire.tensor.external_data import locations_of
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from onnxwire.engine.partial import PartialMemory, Range


def prefetch(tensors: Iterable[TensorProto]) -> None:
    """Fetch the payloads of several tensors of a model on a server in parallel.

    tensors: any TensorProtos. Fetched bytes stay in memory until the model is closed. Tensors in local files and in
    memory are skipped. Raises as `TensorProto.numpy` does.
    """
    found = list(tensors)
    for tensor in found:
        if not isinstance(tensor, TensorProto):
            raise TypeError(f"expected TensorProtos, not {type(tensor).__name__}")
    open_external(found)
    wanted: dict[int, tuple[Any, PartialMemory, list[Range]]] = {}
    for tensor in found:
        storage = Storage(tensor)
        if storage.source is None:
            continue
        file, offset = storage.source
        if file.memory is not None:
            span = offset, offset + storage.data_type.count_bytes(storage.count)
            wanted.setdefault(id(file.memory), (file.memory.source, file.memory, []))[2].append(span)
    if wanted:
        from onnxwire.io.remote.file import fetch_all

        fetch_all(list(wanted.values()))


def open_external(source: Message | Iterable[TensorProto]) -> None:
    """Open the external data files of tensors, or of all tensors of a message, concurrently if they are on servers.

    No-op for local models. Faults are left to the code that reads the tensors.
    """
    if isinstance(source, Message):
        if source._document.memory is None:
            return
        source = (tensor for _, tensor in find_tensors(source))
    by_files: dict[int, tuple[Any, list[str]]] = {}
    for tensor in source:
        files = tensor._document.files if tensor._document.memory is not None else None
        if files is not None and tensor.data_location == EXTERNAL:
            by_files.setdefault(id(files), (files, []))[1].extend(locations_of(tensor))
    for files, locations in by_files.values():
        files.open_all(locations)
