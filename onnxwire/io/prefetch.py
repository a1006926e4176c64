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
    memory are skipped. Raises TypeError for other objects, and the errors of `TensorProto.numpy`.
    """
    tensor_list = list(tensors)
    for tensor in tensor_list:
        if not isinstance(tensor, TensorProto):
            raise TypeError(f"expected TensorProtos, not {type(tensor).__name__}")
    open_external(tensor_list)
    ranges_by_memory: dict[int, tuple[Any, PartialMemory, list[Range]]] = {}
    for tensor in tensor_list:
        remote_range = _remote_range(tensor)
        if remote_range is not None:
            memory, start, end = remote_range
            ranges_by_memory.setdefault(id(memory), (memory.source, memory, []))[2].append((start, end))
    if ranges_by_memory:
        from onnxwire.io.remote.file import fetch_all

        fetch_all(list(ranges_by_memory.values()))


def open_external(source: Message | Iterable[TensorProto]) -> None:
    """Open concurrently those external data files of tensors, or of all tensors of a message, that are on servers.

    No-op for local models. Faults are ignored; the code that reads the tensors reports them.
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


def fetch_in_order(rows: Iterable[tuple[TensorProto, ...]]) -> AbstractContextManager[object]:
    """Return a context in which payloads of at most 8 MiB are fetched concurrently before they are read.

    rows: tuples of one tensor, or of two tensors to compare, in the order in which they are read. Two tensors with the
    same range of the same file are equal, and are not fetched. Fetched bytes stay in memory only until they are read.
    Faults are ignored; the code that reads the tensors reports them. No-op for local models, for larger payloads, which
    are fetched in concurrent pieces in any case, and for payloads that were fetched before.
    """
    ranges: dict[tuple[RemoteFile, int, int], None] = {}
    for row in rows:
        payload_ranges = [payload_range for tensor in row if (payload_range := _range_to_fetch(tensor)) is not None]
        if len(row) == 1 or len(set(payload_ranges)) == len(payload_ranges):
            ranges |= dict.fromkeys(payload_ranges)
    if not ranges:
        return nullcontext()
    from onnxwire.io.remote.schedule import Schedule

    return Schedule(ranges)


def _range_to_fetch(tensor: TensorProto) -> tuple[RemoteFile, int, int] | None:
    """Return the file and range of a payload that has to be fetched by itself; None for other and faulty tensors."""
    if tensor._document.memory is None or not (is_external(tensor) or tensor.ByteSize() >= _LONG_BYTES):
        return None
    try:
        remote_range = _remote_range(tensor)
    except Error:
        return None
    if remote_range is None or not remote_range[0].missing([remote_range[1:]]):
        return None
    return remote_range[0].source, *remote_range[1:]  # type: ignore[return-value]


def _remote_range(tensor: TensorProto) -> tuple[PartialMemory, int, int] | None:
    """Return the memory and range of a payload on a server, else None. Raises the errors of `TensorProto.numpy`."""
    storage = Storage(tensor)
    if storage.file_and_offset is None:
        return None
    file, offset = storage.file_and_offset
    if file.memory is None:
        return None
    return file.memory, offset, offset + storage.data_type.count_bytes(storage.count)
