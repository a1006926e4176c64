"""Moves payloads between a model's file and files beside it, on the way to a new file.

The model itself is not changed: what is saved is a copy, which shares its bytes, with other fields in its tensors. All
that is written goes from file to file. New files take their places when all of them are on the disk, the model last.
"""

from __future__ import annotations

import errno
import math
import os
import re
from contextlib import ExitStack, suppress
from hashlib import sha1

from onnxwire._save import write_payload
from onnxwire.atomic_file import AtomicFile, temporary_name
from onnxwire.dtypes import FIELDS, STRING
from onnxwire.errors import Error, FieldTypeError, FieldValueError, SaveError
from onnxwire.external import fault_of, reference_of
from onnxwire.index import describe, find_tensors, is_external
from onnxwire.tensor import EXTERNAL, Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from onnxwire._message import Message
    from onnxwire._transfer import Target
    from onnxwire.index import TensorInfo
    from onnxwire.messages import TensorProto

    Choice = str | Callable[[TensorInfo], str | None] | None
    """Which file payloads go to: one, one a tensor by a pattern, whichever a function names, or the model's own."""

_PIECE = 1 << 20
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 100  # characters of a tensor's name in a file's name


class _Move:
    """A payload, where it is now, and its new place; tensor: the one in the copy."""

    def __init__(self, source: TensorProto, tensor: TensorProto) -> None:
        self.tensor = tensor
        self.storage = Storage(source)
        self.size = self.storage.kind.count_bytes(self.storage.count)
        self.offset = 0

    @property
    def origin(self) -> object:
        """What the same payload of another tensor has the same of, so that it is written once."""
        if self.storage.file is not None:
            file, offset, length = self.storage.file
            return id(file), offset, length
        return id(self)


class _DataFile:
    """A file beside the model that is to be written."""

    def __init__(self, location: str, align: int) -> None:
        self.location = location
        self.size = 0
        self.moves: list[_Move] = []
        self._align = align
        self._places: dict[object, int] = {}

    def add(self, move: _Move, limit: float) -> bool:
        """Give a payload its place; False where the file would become longer than `limit` and is not empty."""
        start = self._places.get(move.origin)
        if start is None:
            start = self.size + -self.size % self._align
            if self.size and start + move.size > limit:
                return False
            self._places[move.origin] = start
            self.size = start + move.size
        move.offset = start
        self.moves.append(move)
        return True

    def write(self, target: Target) -> None:
        """Write all payloads, each at its place."""
        for move in self.moves:
            if move.offset < target.position:
                continue  # one that another tensor has too
            # A new file reads as zeros between them, and takes no room for these on the disk.
            target.seek(move.offset)
            if move.storage.is_remote and move.storage.file is not None:
                file, offset, length = move.storage.file
                target.copy(file.descriptor, offset, length)
            else:
                write_payload(target, move.storage.payload())


class Relocation:
    """A copy of a message whose payloads are in other places, and the files that these are in.

    message: what is saved; path: where to, None for a file object; the rest as for `onnxwire.save`. copy: the message
    to be written, after `write`; size: bytes of all files but its own.
    Raises TensorError where a tensor that is to be moved has parts that do not fit together, SaveError for a file that
    is not the model's to write over, FieldValueError for a name that no file may have.
    """

    def __init__(
        self,
        message: Message,
        path: str | None,
        choice: Choice,
        *,
        threshold: int = 1024,
        align: int = 4096,
        shard_size: int | None = None,
        checksum: bool = False,
        overwrite: bool = False,
    ) -> None:
        if align < 1:
            raise FieldValueError(f"align is 1 or more bytes, not {align}")
        self._source = message
        self._path = path
        self._checksum = checksum
        self._stack = ExitStack()
        self._replaced: list[tuple[str, str]] = []  # places, and where their old files are meanwhile
        self._new: list[str] = []
        self.copy = type(message)()
        self.copy.CopyFrom(message)
        shards: dict[str, list[_DataFile]] = {}
        choose = _chooser(choice)
        for (place, source), (_, tensor) in zip(find_tensors(message), find_tensors(self.copy), strict=True):
            info = describe(source, place)
            is_moved = tensor.data_type != STRING.number and info.nbytes >= max(threshold, 1)
            location = choose(info) if is_moved else None
            if location is None:
                if is_external(tensor):
                    _take_in(tensor)
                continue
            move, files = _Move(source, tensor), shards.setdefault(location, [_DataFile(location, align)])
            if not any(file.add(move, shard_size or math.inf) for file in files[-1:]):
                files.append(_DataFile(location, align))
                files[-1].add(move, math.inf)
        self._files = [file for files in shards.values() for file in _numbered(files)]
        for file in self._files:
            for move in file.moves:
                _refer(move, file.location, "0" * 40 if checksum else None)
        self.size = sum(file.size for file in self._files)
        if self._files:
            self._check_places(overwrite)

    def _place(self, file: _DataFile) -> str:
        return os.path.join(os.path.dirname(os.path.abspath(self._path or "")), file.location)

    def _check_places(self, overwrite: bool) -> None:
        """Refuse files outside the model's folder, and those that hold what is not the model's."""
        if self._path is None:
            raise FieldTypeError("external data needs a path to save to: its files are beside the model's")
        folder = os.path.realpath(os.path.dirname(os.path.abspath(self._path)))
        owned: set[str] | None = None
        seen: dict[str, str] = {}
        for file in self._files:
            location, place = file.location, self._place(file)
            fault = fault_of(location)
            real = os.path.realpath(place) if not fault else ""
            if not fault and real != os.path.join(folder, os.path.normpath(location)):
                fault = "a symbolic link leads elsewhere"
            if not fault and real == os.path.realpath(self._path):
                fault = "that is the model itself"
            # Some file systems make no difference between the two.
            if not fault and seen.setdefault(location.casefold(), location) != location:
                fault = f"it differs from {seen[location.casefold()]!r} in case only"
            if fault:
                raise FieldValueError(f"external data can't be saved to {location!r}: {fault}")
            if overwrite or not os.path.exists(place):
                continue
            if owned is None:
                owned = self._owned_files()
            if real not in owned:
                reason = "there is a file that is not the model's; allow it with overwrite=True, or choose another name"
                raise SaveError(errno.EEXIST, reason, place)

    def _owned_files(self) -> set[str]:
        """The files that the message, or the model that it replaces, has its data in."""
        from onnxwire.model import load

        owned = _files_of(self._source)
        if self._path is not None and os.path.isfile(self._path):
            with suppress(Error), load(self._path, type(self._source)) as old:
                owned |= _files_of(old)
        return owned

    def write(self, progress: Callable[[int], object] | None = None) -> None:
        """Write all files of external data, which have no names yet; progress: given the bytes so far."""
        done = 0
        for file in self._files:
            place = self._place(file)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            report = None if progress is None else lambda written, before=done: progress(before + written)
            target = self._stack.enter_context(AtomicFile(place, file.size, report))
            file.write(target)
            target.finish()
            done += file.size
            if self._checksum:
                digest = _digest(target.descriptor)
                for move in file.moves:
                    move.tensor.external_data[-1].value = digest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Put the files in their places; where the block, or this, fails, the old ones are there."""
        if error is not None:
            self._stack.__exit__(kind, error, traceback)
            return
        try:
            for file in self._files:
                self._keep_old(self._place(file))
            self._stack.close()
        except BaseException:
            self.undo()
            raise

    def _keep_old(self, place: str) -> None:
        """Have a second name for what is written over, until the model is in its place too."""
        if not os.path.lexists(place):
            self._new.append(place)
            return
        second = temporary_name(place)
        with suppress(OSError):  # a file system without hard links
            os.link(place, second)
            self._replaced.append((place, second))

    def undo(self) -> None:
        """Take the new files away and put the old ones back: the model that they go with could not be saved."""
        for place, second in self._replaced:
            with suppress(OSError):
                os.replace(second, place)
        for place in self._new:
            with suppress(OSError):
                os.unlink(place)

    def forget_old(self) -> None:
        """Remove what was written over: the model is in its place."""
        for _, second in self._replaced:
            with suppress(OSError):
                os.unlink(second)


def _numbered(files: list[_DataFile]) -> list[_DataFile]:
    """Give shards names such as weights-00001-of-00003.data."""
    if len(files) > 1:
        stem, suffix = os.path.splitext(files[0].location)
        for number, file in enumerate(files, 1):
            file.location = f"{stem}-{number:05}-of-{len(files):05}{suffix}"
    return files


def _chooser(choice: Choice) -> Callable[[TensorInfo], str | None]:
    """The function that tells the file of a tensor."""
    if choice is None:
        return lambda info: None
    if callable(choice):
        return choice
    location = os.fspath(choice)
    if "{name}" not in location:
        return lambda info: location
    taken: set[str] = set()

    def name_of(info: TensorInfo) -> str:
        stem = _UNFIT.sub("_", info.name or info.path)[-_LONGEST:].strip(".") or "tensor"
        name, number = stem, 1
        while name.casefold() in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name.casefold())
        return location.replace("{name}", name)

    return name_of


def _take_in(tensor: TensorProto) -> None:
    """Make external data inline."""
    payload = Storage(tensor).payload()
    tensor._share("raw_data", payload)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def _refer(move: _Move, location: str, checksum: str | None) -> None:
    """Make a tensor name its external data. Source: onnx.proto, TensorProto.external_data."""
    tensor = move.tensor
    for field in ("raw_data", *FIELDS, "external_data"):
        tensor.ClearField(field)  # type: ignore[arg-type]
    entries = [("location", location), ("offset", str(move.offset)), ("length", str(move.size))]
    if checksum is not None:
        entries.append(("checksum", checksum))
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
    tensor.data_location = EXTERNAL


def _files_of(message: Message) -> set[str]:
    """The files of external data that a message names."""
    found = set()
    folder = getattr(message._document.files, "folder", None)
    if folder is not None:
        for _, tensor in find_tensors(message):
            if is_external(tensor):
                with suppress(Error):
                    found.add(os.path.realpath(os.path.join(folder, reference_of(tensor).location)))
    return found


def _digest(descriptor: int) -> str:
    """The SHA-1 of all that is in an open file. Source: onnx.proto, TensorProto.external_data."""
    digest = sha1(usedforsecurity=False)
    offset = 0
    while data := os.pread(descriptor, _PIECE, offset):
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()
