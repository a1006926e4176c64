"""Moves payloads between a model's file and files beside it, on the way to a new file.

The model itself is not changed: what is saved is a copy, which shares its bytes, with other fields in its tensors. All
that is written goes from file to file. New files take their places when all of them are on the disk, the model last.
"""

from __future__ import annotations

import errno
import math
import os
import posixpath
import re
from contextlib import suppress
from hashlib import sha1

from onnxwire.atomic_file import RANDOM, SUFFIX, AtomicFile, temporary_name, temporary_start
from onnxwire.dtypes import FIELDS, STRING
from onnxwire.errors import Error, FieldTypeError, FieldValueError, SaveError
from onnxwire.external import fault_of, reference_of
from onnxwire.index import describe, find_tensors, is_external
from onnxwire.tensor import EXTERNAL, Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from onnxwire._message import Message
    from onnxwire._transfer import Target
    from onnxwire.index import TensorInfo
    from onnxwire.messages import TensorProto

    Choice = str | os.PathLike[str] | Callable[[TensorInfo], str | None] | None
    """Which file payloads go to: one, one a tensor by a pattern, whichever a function names, or the model's own."""

_PIECE = 1 << 20
_OLD = ".old"  # behind a temporary name: the only copy of something, which no save takes for stale
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
            move.storage.write(target)


class Relocation:
    """A copy of a message whose payloads are in other places, and the files that these are in.

    message: what is saved; path: where to, None for a file object; the rest as for `onnxwire.save`. copy: the message
    to be written, after `write`; size: bytes of all files but its own.
    `write` makes the files ready, `publish` puts them in their places, when the model is ready too; then either
    `forget_old` or `undo` is the last step, as it fares.
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
        if align < 1 or (shard_size is not None and shard_size < 1):
            raise FieldValueError("align and shard_size are 1 byte or more")
        self._path = None if path is None else os.path.abspath(path)
        self._checksum = checksum
        self._ready: list[AtomicFile] = []
        self._replaced: list[tuple[str, str]] = []  # places, and where their old files are meanwhile; "" for none
        self._folders: list[str] = []  # that were made
        self.copy = type(message)()
        self.copy.CopyFrom(message)
        shards: dict[str, list[_DataFile]] = {}
        choose = _chooser(choice, os.path.basename(path or ""))
        for (place, source), (_, tensor) in zip(find_tensors(message), find_tensors(self.copy), strict=True):
            info = describe(source, place)
            is_moved = tensor.data_type != STRING.number and info.nbytes >= max(threshold, 1)
            location = choose(info) if is_moved else None
            if location is None:
                if is_external(tensor):
                    take_in(tensor)
                continue
            location = _normal(location)
            move, files = _Move(source, tensor), shards.setdefault(location, [_DataFile(location, align)])
            if not files[-1].add(move, shard_size or math.inf):
                files.append(_DataFile(location, align))
                files[-1].add(move, math.inf)
        self._files = [file for files in shards.values() for file in _numbered(files)]
        for file in self._files:
            for move in file.moves:
                refer(move.tensor, file.location, move.offset, move.size, "0" * 40 if checksum else None)
        self.size = sum(file.size for file in self._files)
        if self._files:
            self._check_places(type(message), overwrite)

    def _place(self, file: _DataFile) -> str:
        return os.path.join(os.path.dirname(self._path or ""), file.location)

    def _check_places(self, cls: type[Message], overwrite: bool) -> None:
        """Refuse names that are one another's, and files that hold what is not the model's."""
        if self._path is None or (os.path.exists(self._path) and not os.path.isfile(self._path)):
            raise FieldTypeError("external data is saved beside a model; save that to a path of a file")
        # Some file systems make no difference between upper and lower case.
        names = {os.path.basename(self._path).casefold(): "the model itself"}
        for file in self._files:
            other = names.setdefault(file.location.casefold(), file.location)
            if other is not file.location:
                raise _unfit(file.location, f"that is {other}")
        for file in self._files:
            above = os.path.dirname(file.location)
            while above:
                if above.casefold() in names:
                    raise _unfit(file.location, f"{above} is to be a file")
                above = os.path.dirname(above)
        owned: set[str] | None = None
        for file in self._files:
            place = self._place(file)
            self._refuse_links(file)
            if not os.path.lexists(place):
                continue
            if not os.path.isfile(place):
                raise SaveError(errno.EEXIST, "what is there is no file; choose another name", place)
            if not overwrite:
                owned = _files_of(self._path, cls) if owned is None else owned
                if os.path.realpath(place) not in owned:
                    reason = "there is a file that is not the model's; allow it with overwrite=True, or choose another"
                    raise SaveError(errno.EEXIST, f"{reason} name", place)

    def _refuse_links(self, file: _DataFile) -> None:
        place = self._place(file)
        folder = os.path.realpath(os.path.dirname(self._path or ""))
        if os.path.realpath(place) != os.path.join(folder, os.path.normpath(file.location)):
            raise _unfit(file.location, "a symbolic link leads elsewhere")

    def write(self, progress: Callable[[int], object] | None = None) -> None:
        """Have all files of external data on the disk, under other names; progress: given the bytes so far."""
        done = 0
        for file in self._files:
            place = self._place(file)
            self._make_folder(os.path.dirname(place))
            self._refuse_links(file)
            report = None if progress is None else lambda written, before=done: progress(before + written)
            atomic = AtomicFile(place, file.size, report)
            target = atomic.open()
            self._ready.append(atomic)
            try:
                file.write(target)
                target.finish()
                digest = _digest(target.descriptor) if self._checksum else ""
            except BaseException as error:
                atomic.abandon(error)
                raise
            for move in file.moves if digest else ():
                move.tensor.external_data[-1].value = digest
            atomic.prepare()
            # A model may have more of them than a process may have open.
            atomic.close()
            done += file.size

    def _make_folder(self, folder: str) -> None:
        missing = []
        while not os.path.isdir(folder) and folder != os.path.dirname(folder):
            missing.append(folder)
            folder = os.path.dirname(folder)
        for folder in reversed(missing):
            try:
                os.mkdir(folder)
            except FileExistsError:
                if not os.path.isdir(folder):
                    raise SaveError(errno.ENOTDIR, "it is to be a folder, and is a file", folder) from None
            except OSError as error:
                raise SaveError.from_os_error(error, folder, "save elsewhere") from None
            else:
                self._folders.append(folder)

    def publish(self) -> None:
        """Put the files in their places, one after another; what was there has another name until `forget_old`."""
        for file, atomic in zip(self._files, self._ready, strict=True):
            place, old = self._place(file), ""
            if os.path.lexists(place):
                old = temporary_name(place) + _OLD
                try:
                    os.replace(place, old)
                except OSError as error:
                    raise SaveError.from_os_error(error, place) from None
            self._replaced.append((place, old))
            atomic.publish()

    def undo(self) -> None:
        """Put back what was there: the model that goes with the new files is not in its place."""
        for place, old in self._replaced:
            with suppress(OSError):
                if old:
                    os.replace(old, place)
                else:
                    os.unlink(place)
        for atomic in self._ready:
            atomic.abandon()
        for folder in reversed(self._folders):
            with suppress(OSError):
                os.rmdir(folder)

    def forget_old(self) -> None:
        """Remove what was replaced, and what killed saves left of that: the model is in its place."""
        starts = {temporary_start(place) for place, _ in self._replaced}
        for folder in {os.path.dirname(place) for place, _ in self._replaced}:
            with suppress(OSError):
                for name in os.listdir(folder):
                    old = os.path.join(folder, name)
                    if name.endswith(SUFFIX + _OLD) and old[: -len(SUFFIX + _OLD) - RANDOM] in starts:
                        with suppress(OSError):
                            os.unlink(old)


def _unfit(location: str, reason: str) -> FieldValueError:
    return FieldValueError(f"external data can't be saved to {location!r}: {reason}")


def _normal(location: object) -> str:
    """A location in the one form that it is written in."""
    if isinstance(location, os.PathLike):
        location = os.fspath(location)
    if not isinstance(location, str):
        raise FieldTypeError(f"external data goes to a file of some name, a str, not {type(location).__name__}")
    fault = fault_of(location)
    if fault:
        raise _unfit(location, fault)
    return posixpath.normpath(location)


def _numbered(files: list[_DataFile]) -> list[_DataFile]:
    """Give shards names such as weights-00001-of-00003.data."""
    if len(files) > 1:
        stem, suffix = os.path.splitext(files[0].location)
        for number, file in enumerate(files, 1):
            file.location = f"{stem}-{number:05}-of-{len(files):05}{suffix}"
    return files


def _chooser(choice: Choice, model: str) -> Callable[[TensorInfo], object]:
    """The function that tells the file of a tensor; model: the name that no pattern makes."""
    if choice is None:
        return lambda info: None
    if callable(choice):
        return choice
    location = _normal(choice)
    if "{name}" not in location:
        return lambda info: location
    taken = {model.casefold()}

    def name_of(info: TensorInfo) -> str:
        stem = _UNFIT.sub("_", info.name or info.path)[-_LONGEST:].strip(".") or "tensor"
        name, number = location.replace("{name}", stem), 1
        while name.casefold() in taken:
            number += 1
            name = location.replace("{name}", f"{stem}_{number}")
        taken.add(name.casefold())
        return name

    return name_of


def take_in(tensor: TensorProto) -> None:
    """Make external data inline; the bytes stay where they are until the tensor is saved."""
    payload = Storage(tensor).payload()
    tensor._share("raw_data", payload)
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def clear_elements(tensor: TensorProto) -> None:
    """Take away a tensor's elements, wherever they are; of a chunk, too, which it still is."""
    for field in ("raw_data", *FIELDS, "external_data", "data_location"):
        tensor.ClearField(field)  # type: ignore[arg-type]


def refer(tensor: TensorProto, location: str, offset: int, length: int, checksum: str | None = None) -> None:
    """Make a tensor name its elements as external data. Source: onnx.proto, TensorProto.external_data."""
    clear_elements(tensor)
    entries = [("location", location), ("offset", str(offset)), ("length", str(length))]
    if checksum is not None:
        entries.append(("checksum", checksum))
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
    tensor.data_location = EXTERNAL


def _files_of(path: str, cls: type[Message]) -> set[str]:
    """The files of external data of the model that is at a path, if there is one."""
    from onnxwire.model import load

    found = set()
    with suppress(Error), load(path, cls) as message:
        for _, tensor in find_tensors(message):
            if is_external(tensor):
                with suppress(Error):
                    found.add(os.path.realpath(os.path.join(os.path.dirname(path), reference_of(tensor).location)))
    return found


def _digest(descriptor: int) -> str:
    """The SHA-1 of all that is in an open file. Source: onnx.proto, TensorProto.external_data."""
    digest = sha1(usedforsecurity=False)
    offset = 0
    while data := os.pread(descriptor, _PIECE, offset):
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()
