"""List every tensor of a model without reading payloads."""

from __future__ import annotations

import os
from array import array
from collections import namedtuple
from collections.abc import Sequence
from itertools import islice

from onnxwire.engine.message import Message
from onnxwire.engine.search import Paths, Search
from onnxwire.messages import ModelProto, TensorProto
from onnxwire.tensor.dtypes import EXTERNAL
from onnxwire.tensor.payload_layout import inline_row, layout_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, overload

    from onnxwire.io.source import Source

_MAX_SHOWN = 20  # tensors in a repr
_BATCH_TENSORS = 1024  # that are appended to the columns at a time

_MAX_ALIGNMENT = 1 << 16  # the granularity of mappings on Windows, the largest of all systems


class TensorInfo(
    namedtuple("TensorInfo", ("path", "name", "data_type", "shape", "nbytes", "file", "offset", "location"))
):
    """The description of one tensor and the position of its payload.

    path: the tensor's position in the message, such as `graph.node[3].attribute[0].t`. name, data_type, shape: as in
    the TensorProto. nbytes: the size of the payload in bytes, at most 2**63 - 1: the length of raw_data or the length
    in external_data, else the size that follows from data type and dims. file: the file that contains the payload;
    None if it is in memory only. offset: the offset of the payload's first byte in the file; None if the elements are
    not contiguous there. location: the location in external_data, or None.
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
        """The largest power of two, up to 65,536, that divides the offset."""
        return None if self.offset is None else min(self.offset & -self.offset or _MAX_ALIGNMENT, _MAX_ALIGNMENT)


_new_tuple = tuple.__new__  # faster than TensorInfo.__new__, which is a Python function


class TensorList(Sequence[TensorInfo]):
    """The tensors of a model as a sequence that stores columns and creates a TensorInfo on access.

    A damaged file may contain millions of tensors of two bytes; a row takes about 60 bytes plus name and shape.
    """

    def __init__(self, message: Message) -> None:
        self._paths: Paths | list[str] = [""]
        self._numbers = array("I")
        self._names: list[str] = []
        self._types = array("i")
        self._shapes: list[tuple[int, ...]] = []
        self._sizes = array("q")
        self._offsets = array("q")
        self._file_numbers = array("I")
        self._files: list[tuple[str | None, str | None]] = []  # distinct pairs of file and location
        numbered_tensors: Iterable[tuple[int, Any]] = [(0, message)]
        if not isinstance(message, TensorProto):
            self._paths = paths = Paths()
            numbered_tensors = Search(message, [TensorProto], paths)
        file_numbers: dict[tuple[str | None, str | None], int] = {}
        entries = ((number, *_entry(tensor)) for number, tensor in numbered_tensors)
        while batch := list(islice(entries, _BATCH_TENSORS)):
            numbers, names, types, shapes, sizes, files, offsets, locations = zip(*batch, strict=True)
            self._numbers.extend(numbers)
            self._names += names
            self._types.extend(types)
            self._shapes += shapes
            self._sizes.extend(sizes)
            self._offsets.extend(-1 if offset is None else offset for offset in offsets)
            self._file_numbers.extend(
                file_numbers.setdefault(pair, len(file_numbers)) for pair in zip(files, locations, strict=True)
            )
        self._files += file_numbers

    def __len__(self) -> int:
        return len(self._numbers)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> TensorInfo: ...

        @overload
        def __getitem__(self, index: slice) -> list[TensorInfo]: ...

    def __getitem__(self, index: int | slice) -> TensorInfo | list[TensorInfo]:
        if isinstance(index, slice):
            return list(self._infos(index))
        row = range(len(self))[index]
        return next(self._infos(slice(row, row + 1)))

    def __iter__(self) -> Iterator[TensorInfo]:
        return self._infos()

    def _infos(self, rows: slice | None = None) -> Iterator[TensorInfo]:
        columns: list[Any] = [
            self._numbers, self._names, self._types, self._shapes, self._sizes, self._offsets, self._file_numbers
        ]  # fmt: skip
        if rows is not None:
            columns = [column[rows] for column in columns]
        for number, name, data_type, shape, nbytes, offset, file_number in zip(*columns, strict=True):
            file, location = self._files[file_number]
            path = self._paths[number]
            payload_offset = None if offset < 0 else offset
            yield _new_tuple(TensorInfo, (path, name, data_type, shape, nbytes, file, payload_offset, location))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorList | list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} tensors>" if len(self) > _MAX_SHOWN else repr(list(self))


def tensors(source: Source | Message, type: type[Message] = ModelProto) -> Sequence[TensorInfo]:
    """List all tensors: initializers, sparse tensors and attributes, also in subgraphs, functions and training graphs.

    source: a message, or any source of `load`; type: the class of the source's root message. Order: by path in the
    document. Payloads are skipped, external files are not opened, and faults of tensors are not reported.
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
    return _new_tuple(TensorInfo, (path, *_entry(tensor)))


def _entry(
    tensor: TensorProto,
) -> tuple[str, int, tuple[int, ...], int, str | None, int | None, str | None]:
    """Return the fields of a TensorInfo except the path."""
    row = inline_row(tensor)
    if row is not None:
        return *row, None
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
