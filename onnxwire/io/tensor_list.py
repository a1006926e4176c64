"""List every tensor of a model without reading payloads."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Sequence
from functools import partial

from onnxwire.engine.message import Message
from onnxwire.engine.search import Paths, Search
from onnxwire.io._tensor_rows import TensorRows
from onnxwire.messages import ModelProto, TensorProto
from onnxwire.tensor.dtypes import EXTERNAL
from onnxwire.tensor.payload_layout import layout_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import overload

    from onnxwire.io.source import Source

_MAX_SHOWN = 20  # maximum number of tensors that a repr lists

_MAX_OFFSET_ALIGNMENT = 1 << 16  # the granularity of mappings on Windows, the largest of all systems


class TensorInfo(
    namedtuple("TensorInfo", ("path", "name", "data_type", "shape", "nbytes", "file", "offset", "location"))
):
    """The description of one tensor and the position of its payload.

    path: the tensor's position in the message, such as `graph.node[3].attribute[0].t`. name, data_type, shape: as in
    the TensorProto. nbytes: the size of the payload in bytes, at most 2**63 - 1: the length of raw_data or the length
    in external_data; else the total length of the strings in string_data, or the size that follows from data type and
    dims. file: the name of the document that contains raw_data, or the path of the external file; None otherwise, such
    as for typed fields and edited data. offset: the offset of the payload's first byte in the file; None without a
    file, and if the offset in external_data is invalid. location: the location in external_data, or None.
    """

    __module__ = "onnxwire"

    # Plain annotations: importing dataclasses or typing would take longer than importing this module.
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
        """The largest power of two, up to 65,536, that divides the offset; None without an offset."""
        if self.offset is None:
            return None
        # x & -x is the lowest bit of x that is set.
        return min(self.offset & -self.offset or _MAX_OFFSET_ALIGNMENT, _MAX_OFFSET_ALIGNMENT)


_new_tuple = tuple.__new__  # faster than TensorInfo.__new__, which is a Python function


class TensorList(Sequence[TensorInfo]):
    """The tensors of a model as a sequence that stores rows and creates a TensorInfo on access.

    A damaged file may contain millions of tensors of two bytes; a row takes about 60 bytes plus name and shape.
    """

    def __init__(self, message: Message) -> None:
        if isinstance(message, TensorProto):
            self._rows = TensorRows(_fields_of)
            self._rows.add(message)
            return
        paths = Paths()
        self._rows = TensorRows(_fields_of, paths)
        search = Search(message, [TensorProto], paths)
        while self._rows.read_batch(search):
            pass

    def __len__(self) -> int:
        return len(self._rows)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> TensorInfo: ...

        @overload
        def __getitem__(self, index: slice) -> list[TensorInfo]: ...

    def __getitem__(self, index: int | slice) -> TensorInfo | list[TensorInfo]:
        rows = range(len(self))[index]
        if isinstance(rows, range):
            return [_new_tuple(TensorInfo, self._rows[row]) for row in rows]
        return _new_tuple(TensorInfo, self._rows[rows])

    def __iter__(self) -> Iterator[TensorInfo]:
        return map(partial(_new_tuple, TensorInfo), iter(self._rows))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorList | list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} tensors>" if len(self) > _MAX_SHOWN else repr(list(self))


def tensors(source: Source | Message, type: type[Message] = ModelProto) -> Sequence[TensorInfo]:
    """List all tensors: initializers, sparse tensors and attributes, also in subgraphs, functions and training graphs.

    source: a message, or any source of `load`; type: the class of the source's root message. Order: depth first, by
    field number and index. Payloads are skipped, external files are not opened, and faults of tensors are not reported.
    Returns an immutable sequence of TensorInfo.
    Raises the errors of `load`, and DecodeError for damaged bytes and for messages nested more than 100 levels deep.
    """
    if isinstance(source, Message):
        return TensorList(source)
    from onnxwire.io.load import load

    with load(source, type) as message:
        return TensorList(message)


def find_tensors(message: Message) -> Iterator[tuple[str, TensorProto]]:
    """Iterate over (path, tensor) for every tensor; a message that is a TensorProto itself has the path ""."""
    return iter([("", message)]) if isinstance(message, TensorProto) else Search(message, [TensorProto])


def describe(tensor: TensorProto, path: str) -> TensorInfo:
    """Return the TensorInfo of a tensor."""
    rows = TensorRows(_fields_of)
    rows.add(tensor)
    return _new_tuple(TensorInfo, (path, *rows[0][1:]))


def _fields_of(
    tensor: TensorProto,
) -> tuple[str, int, tuple[int, ...], int, str | None, int | None, str | None]:
    """Return the fields of a TensorInfo except the path, for any tensor."""
    layout = layout_of(tensor)
    location, raw = layout.location, layout.raw
    file = offset = None
    if location is not None:
        folder = getattr(tensor._document.files, "folder", None)
        file = location if folder is None else os.path.join(folder, location)
        offset = layout.offset
    elif raw is not None and (document := raw.document) is not None:
        span = raw.span
        # Offsets in the encoding of an edited message are meaningless to the caller.
        if span is not None and document.root is not None:
            file, offset = document.name, span[0]
    return tensor.name, layout.data_type, layout.shape, layout.nbytes, file, offset, location


def is_external(tensor: TensorProto) -> bool:
    """Return whether the payload is in another file."""
    return tensor.data_location == EXTERNAL


def tensor_bytes(tensor: TensorProto) -> int:
    """Return the size of a tensor's payload in bytes, as in `TensorInfo.nbytes`."""
    return layout_of(tensor).nbytes
