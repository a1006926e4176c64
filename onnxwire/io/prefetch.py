"""Fetch the payloads of several tensors together, or in the order in which they will be read."""

from __future__ import annotations

from contextlib import nullcontext

from onnxwire.engine.message import Message
from onnxwire.errors import Error
from onnxwire.io.tensor_list import find_tensors, is_external
from onnxwire.messages import TensorProto
from onnxwire.tensor.dtypes import EXTERNAL
from onnxwire.tensor.external_data import locations_of
from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from typing import Any

    from onnxwire.engine.partial import PartialMemory, Range
    from onnxwire.io.remote.file import RemoteFile

_LONG_BYTES = 1 << 16  # shorter messages are fetched with the structure


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
        place = _remote_range(tensor)
        if place is not None:
            memory, start, end = place
            wanted.setdefault(id(memory), (memory.source, memory, []))[2].append((start, end))
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


def scheduled(rows: Iterable[tuple[TensorProto, ...]]) -> AbstractContextManager[object]:
    """Return a context in which payloads are fetched concurrently before they are read.

    rows: tensors, or pairs of compared tensors, in the order in which they are read. Pairs with the same range of the
    same file are not read. Fetched bytes stay in memory only until they are read; faults are left to the code that
    reads the tensors. No-op for local models, and for payloads that were fetched before.
    """
    ranges: dict[tuple[RemoteFile, int, int], None] = {}
    for row in rows:
        places = [place for tensor in row if (place := _place_to_fetch(tensor)) is not None]
        if len(row) == 1 or len(set(places)) == len(places):
            ranges |= dict.fromkeys(places)
    if not ranges:
        return nullcontext()
    from onnxwire.io.remote.schedule import Schedule

    return Schedule(ranges)


def _place_to_fetch(tensor: TensorProto) -> tuple[RemoteFile, int, int] | None:
    """Return the file and range of a payload that has to be fetched by itself; None for any other, and for a fault."""
    if tensor._document.memory is None or not (is_external(tensor) or tensor.ByteSize() >= _LONG_BYTES):
        return None
    try:
        place = _remote_range(tensor)
    except Error:
        return None
    if place is None or not place[0].missing([place[1:]]):
        return None
    return place[0].source, *place[1:]  # type: ignore[return-value]


def _remote_range(tensor: TensorProto) -> tuple[PartialMemory, int, int] | None:
    """Return the memory and range of a payload on a server; None for any other. Raises as `TensorProto.numpy` does."""
    storage = Storage(tensor)
    if storage.source is None:
        return None
    file, offset = storage.source
    if file.memory is None:
        return None
    return file.memory, offset, offset + storage.data_type.count_bytes(storage.count)
