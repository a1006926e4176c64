"""An index of every tensor of a model, made without reading one."""

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
from onnxwire.tensor.external_data import locations_of
from onnxwire.tensor.payload_layout import layout_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, overload

    from onnxwire.io.source import Source

_SHOWN = 20  # tensors in a text
_BATCH = 1024  # tensors that are put into columns at a time

_ALIGNED = 1 << 16  # what no mapping needs more of: the step at which Windows maps files


class TensorInfo(
    namedtuple("TensorInfo", ("path", "name", "data_type", "shape", "nbytes", "file", "offset", "location"))
):
    """Where a tensor is, and what it is.

    path: where it is in the message, such as `graph.node[3].attribute[0].t`. name, data_type, shape: as in the
    TensorProto. nbytes: the bytes of its payload, at most 2**63 - 1: those of raw_data, or those that external_data
    states, else what data type and dims call for. file: the file that holds the payload, or None where it is nowhere
    but in memory. offset: of the payload's first byte in the file, None where the elements are not one run of bytes
    there. location: what the tensor names as external data, or None.
    """

    __module__ = "onnxwire"

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


_made = tuple.__new__  # of a TensorInfo: its own goes through a function of Python's


class TensorList(Sequence[TensorInfo]):
    """The tensors of a model, as a sequence that keeps columns and makes a TensorInfo when it is asked for one.

    A damaged file may have millions of them, in two bytes each; here one takes some 60 bytes beside its name and shape.
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
        self._files: list[tuple[str | None, str | None]] = []  # and locations, each pair of them once
        found: Iterable[tuple[int, Any]] = [(0, message)]
        if not isinstance(message, TensorProto):
            self._paths = paths = Paths()
            found = Search(message, [TensorProto], paths)
        known: dict[tuple[str | None, str | None], int] = {}
        entries = ((number, *_entry(tensor)) for number, tensor in found)
        while some := list(islice(entries, _BATCH)):
            numbers, names, types, shapes, sizes, files, offsets, locations = zip(*some, strict=True)
            self._numbers.extend(numbers)
            self._names += names
            self._types.extend(types)
            self._shapes += shapes
            self._sizes.extend(sizes)
            self._offsets.extend(-1 if offset is None else offset for offset in offsets)
            self._file_numbers.extend(known.setdefault(pair, len(known)) for pair in zip(files, locations, strict=True))
        self._files += known

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

    def _infos(self, part: slice | None = None) -> Iterator[TensorInfo]:
        columns: list[Any] = [
            self._numbers, self._names, self._types, self._shapes, self._sizes, self._offsets, self._file_numbers
        ]  # fmt: skip
        if part is not None:
            columns = [column[part] for column in columns]
        for number, name, data_type, shape, nbytes, offset, file_number in zip(*columns, strict=True):
            file, location = self._files[file_number]
            path = self._paths[number]
            at = None if offset < 0 else offset
            yield _made(TensorInfo, (path, name, data_type, shape, nbytes, file, at, location))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorList | list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<{len(self):,} tensors>" if len(self) > _SHOWN else repr(list(self))


def tensors(source: Source | Message, type: type[Message] = ModelProto) -> Sequence[TensorInfo]:
    """List every tensor wherever it is: initializers, sparse ones, attributes, subgraphs, functions, training graphs.

    source: a message, or what `load` takes; type: the class of its root message. Order: by path in the document.
    Payloads are stepped over, and external files not opened; what is wrong with a tensor is not looked for.
    Returns a sequence that can't be changed; `list` makes one that can.
    Raises what `load` raises, and DecodeError for damaged bytes on the way, or messages nested more than 100 deep.
    """
    if isinstance(source, Message):
        return TensorList(source)
    from onnxwire.io.load import load

    with load(source, type) as message:
        return TensorList(message)


def find_tensors(message: Message) -> Iterator[tuple[str, TensorProto]]:
    """Find every tensor with its path, one after another; the message itself, where it is one, with the path ""."""
    return iter([("", message)]) if isinstance(message, TensorProto) else Search(message, [TensorProto])


def describe(tensor: TensorProto, path: str) -> TensorInfo:
    """The entry of a tensor."""
    return _made(TensorInfo, (path, *_entry(tensor)))


def _entry(
    tensor: TensorProto,
) -> tuple[str, int, tuple[int, ...], int, str | None, int | None, str | None]:
    """What a TensorInfo has but the path; a damaged file may have millions of tensors."""
    layout = layout_of(tensor)
    location, raw = layout.location, layout.raw
    file = offset = None
    if location is not None:
        folder = getattr(tensor._document.files, "folder", None)
        file = location if folder is None else os.path.join(folder, location)
        offset = layout.offset
    elif raw is not None and (document := raw.document) is not None:
        span = raw.span
        # Of bytes that were made in memory, the offset tells nothing.
        if span is not None and document.root is not None:
            file, offset = document.name, span[0]
    return tensor.name, layout.data_type, layout.shape, layout.nbytes, file, offset, location


def is_external(tensor: TensorProto) -> bool:
    """Whether the payload is in another file."""
    return tensor.data_location == EXTERNAL


def find_locations(message: Message) -> Iterator[tuple[str, str]]:
    """The path of each tensor whose payload is in another file, and the location of that."""
    for path, tensor in find_tensors(message):
        if is_external(tensor):
            for location in locations_of(tensor):
                yield path, location


def tensor_bytes(tensor: TensorProto) -> int:
    """The size of a tensor's payload, as `TensorInfo.nbytes` has it."""
    return layout_of(tensor).nbytes
