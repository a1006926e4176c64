"""An index of every tensor of a model, made without reading one."""

from __future__ import annotations

import os
from collections import namedtuple

from onnxwire._message import Message
from onnxwire._search import Search
from onnxwire.dtypes import BY_NUMBER, STRING
from onnxwire.external import plain_number
from onnxwire.messages import ModelProto, TensorProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.source import Source

_ALIGNED = 1 << 16  # what no mapping needs more of: the step at which Windows maps files


class TensorInfo(
    namedtuple("TensorInfo", ("path", "name", "data_type", "shape", "nbytes", "file", "offset", "location"))
):
    """Where a tensor is, and what it is.

    path: its place in the message, such as `graph.node[3].attribute[0].t`. name, data_type, shape: as in the
    TensorProto. nbytes: the bytes of its payload. file: the file that holds the payload, or None where it is nowhere
    but in memory. offset: of the payload's first byte in the file, None where the elements are not one run of bytes
    there. location: what the tensor names as external data, or None.
    """

    # Typed here: dataclasses and typing.NamedTuple take longer to import than all the rest.
    __slots__ = ()
    path: str
    name: str
    data_type: int
    shape: tuple[int, ...]
    nbytes: int
    file: str | None
    offset: int | None
    location: str | None

    @property
    def alignment(self) -> int | None:
        """The largest power of two, up to 65,536, that divides the offset."""
        return None if self.offset is None else min(self.offset & -self.offset or _ALIGNED, _ALIGNED)


def tensors(source: Source | Message, type: type[Message] = ModelProto) -> list[TensorInfo]:
    """List every tensor wherever it is: initializers, sparse ones, attributes, subgraphs, functions, training graphs.

    source: a message, or what `load` takes; type: the class of its root message. Order: by place in the document.
    Payloads are stepped over, and external files not opened; what is wrong with a tensor is not looked for.
    Raises what `load` raises, and DecodeError for damaged bytes on the way.
    """
    if isinstance(source, Message):
        return [describe(tensor, path) for path, tensor in find_tensors(source)]
    from onnxwire.model import load

    with load(source, type) as message:
        return [describe(tensor, path) for path, tensor in find_tensors(message)]


def find_tensors(message: Message) -> list[tuple[str, TensorProto]]:
    """Every tensor with its path; the message itself, where it is one, with the path ""."""
    if isinstance(message, TensorProto):
        return [("", message)]
    return list(Search(message, [TensorProto]))


def describe(tensor: TensorProto, path: str) -> TensorInfo:
    """The entry of a tensor."""
    entries = {entry.key: entry.value for entry in tensor.external_data} if is_external(tensor) else {}
    location = entries.get("location")
    file, offset = None, None
    payload = tensor._payload("raw_data")
    if location is not None:
        folder = getattr(tensor._document.files, "folder", None)
        file = location if folder is None else os.path.join(folder, location)
        offset = plain_number(entries.get("offset", "0"))
    elif payload is not None and payload.document is not None:
        span = payload.span
        # Of bytes that were made in memory, the place tells nothing.
        if span is not None and payload.document.root is not None:
            file, offset = payload.document.name, span[0]
    return TensorInfo(path, tensor.name, tensor.data_type, tensor.shape, tensor_bytes(tensor), file, offset, location)


def is_external(tensor: TensorProto) -> bool:
    """Whether the payload is in another file."""
    return tensor.data_location == TensorProto.EXTERNAL


def tensor_bytes(tensor: TensorProto) -> int:
    """The size of a tensor's payload: of its bytes, here or in another file, else what its type and shape call for."""
    payload = tensor._payload("raw_data")
    if payload is not None:
        return len(payload)
    if is_external(tensor):
        for entry in tensor.external_data:
            if entry.key == "length" and (length := plain_number(entry.value)) is not None:
                return length
    if tensor.data_type == STRING.number:
        return sum(len(text) for text in tensor.string_data)
    elements = 1
    for dim in tensor.dims:
        # A shape that no memory could hold is a damaged one, and is not worth exact numbers.
        elements = min(elements * max(dim, 0), 1 << 63)
    kind = BY_NUMBER.get(tensor.data_type)
    return kind.count_bytes(elements) if kind is not None else elements
