"""Moves payloads between a model's file and files beside it, on the way to a new file.

The model itself is not changed: what is saved is a copy, which shares its bytes, with other fields in its tensors. All
that is written goes from file to file. New files get their names when all of them are on the disk, the model last.
"""

from __future__ import annotations

import errno
import math
import os
import posixpath
import re
import stat
from array import array
from contextlib import suppress

from onnxwire.errors import Error, FieldTypeError, FieldValueError, SaveError
from onnxwire.io.atomic_file import RANDOM, SUFFIX, AtomicFile, temporary_name, temporary_start
from onnxwire.io.folder import identity_of
from onnxwire.io.tensor_list import describe, find_tensors, is_external
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.external_file import ExternalFile
from onnxwire.tensor.placement import refer, take_in
from onnxwire.tensor.storage import Storage, write_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.engine.message import Message
    from onnxwire.io.folder import Folder, Identity
    from onnxwire.io.tensor_list import TensorInfo
    from onnxwire.tensor.storage import Origin

    Choice = str | os.PathLike[str] | Callable[[TensorInfo], str | None] | None
    """Which file payloads go to: one, one a tensor by a pattern, whichever a function names, or the model's own."""

_PADDING = 1 << 21  # zeros between payloads: fewer than the largest alignment in use, that of huge pages
_OLD = ".old"  # after a temporary name: the only copy of something, which no save takes for stale
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+|\.{2,}")  # the official runtime takes any .. for a way out of the folder
_LONGEST = 100  # characters of a tensor's name in a file's name


class _DataFile:
    """A file beside the model that is to be written."""

    def __init__(self, location: str, align: int, number: int) -> None:
        self.location = location
        self.number = number  # of all files of the save, from 1 on
        self.size = 0
        self.payloads: list[tuple[int, Origin]] = []  # and their offsets, which ascend
        self.atomic: AtomicFile | None = None  # that writes it
        self.old = ""  # the name that the file that it replaces has meanwhile
        self.found: tuple[int, ...] = ()  # the file that it may replace, as _state tells it
        self._align = align
        self._offsets: dict[Origin, int] = {}

    @property
    def folder(self) -> str:
        """Where it is to be, from the model's folder; "" for that itself."""
        return posixpath.dirname(self.location)

    @property
    def name(self) -> str:
        """Its name there."""
        return posixpath.basename(self.location)

    def add(self, origin: Origin, size: int, limit: float) -> int:
        """Give a payload its offset; -1 where the file would become longer than `limit` and is not empty."""
        # Tensors may share one of external data, which is written once.
        offset = self._offsets.get(origin) if isinstance(origin, tuple) else None
        if offset is None:
            offset = self.size + -self.size % self._align
            if self.size and offset + size > limit:
                return -1
            if isinstance(origin, tuple):
                self._offsets[origin] = offset
            self.payloads.append((offset, origin))
            self.size = offset + size
        return offset

    def write(self, target: FileWriter) -> None:
        """Write all payloads, each at its offset."""
        for offset, origin in self.payloads:
            # A new file reads as zeros between them, and takes no room for these on the disk.
            target.seek(offset)
            write_payload(origin, target)


class Relocation:
    """A copy of a message whose payloads are in other files, and the files that these are in.

    message: what is saved; model: the file that it is saved to, None for a file object; the rest as for
    `onnxwire.save`. copy: the message to be written, after `write`; size: bytes of all files but its own.
    `with relocation:` opens the model's folder, and looks whether the files may be there. In the block, `write` makes
    them ready, and `publish` gives them their names, when the model is ready too. At the end of the block it is the
    disk that tells how it fared, so that a Ctrl-C can come at any time: where the new model has its name the old
    files are removed, else they are put back.
    Everything is done in folders that were opened once, from the model's on; no link in it is followed.
    Raises TensorError where a tensor that is to be moved has parts that do not fit together, SaveError for a file that
    is not the model's to write over, FieldValueError for a name that no file may have.
    """

    def __init__(
        self,
        message: Message,
        model: AtomicFile | None,
        choice: Choice,
        *,
        threshold: int = 1024,
        align: int = 4096,
        shard_size: int | None = None,
        checksum: bool = False,
        overwrite: bool = False,
    ) -> None:
        self._model = model
        self._checksum = checksum
        self._overwrite = overwrite
        self._home: Folder | None = None  # the model's
        self._inner: tuple[str, Folder] | None = None  # the one in it that was used last
        self._made: list[str] = []  # folders, from the model's
        self._files: list[_DataFile] = []
        # Of each tensor the number of its file in `_files`, from 1 on, 0 for none, and where its payload is there.
        self._numbers, self._offsets, self._sizes = array("I"), array("q"), array("q")
        # The program may edit the message meanwhile, in another thread or where it is asked for a file.
        before, self.copy = type(message)(), type(message)()
        before.CopyFrom(message)
        self._source = message._document.files  # of all that was taken from the message, and copied
        self.copy.CopyFrom(before)
        self._plan(before, choice, threshold, align, shard_size or math.inf)
        self._refer(["0" * 40] * len(self._files) if checksum else [None] * len(self._files))
        self.size = sum(file.size for file in self._files)

    def _plan(self, message: Message, choice: Choice, threshold: int, align: int, limit: float) -> None:
        """Choose the file and the offset of each payload that is to be moved."""
        shards: dict[str, list[_DataFile]] = {}
        choose = _chooser(choice, "" if self._model is None else self._model.name)
        last: object = None
        location = ""  # its one form
        for path, source in find_tensors(message):
            info = describe(source, path)
            number = offset = size = 0
            is_moved = info.data_type != STRING.number and info.nbytes >= max(threshold, 1)
            chosen = choose(info) if is_moved else None
            if chosen is not None:
                if chosen is not last:
                    last, location = chosen, _normal(chosen)
                storage = Storage(source)
                origin, size = storage.origin, storage.data_type.count_bytes(storage.count)
                files = shards.setdefault(location, [])
                offset = files[-1].add(origin, size, limit) if files else -1
                if offset < 0:
                    self._files.append(_DataFile(location, align, len(self._files) + 1))
                    files.append(self._files[-1])
                    offset = files[-1].add(origin, size, math.inf)
                number = files[-1].number
            self._numbers.append(number)
            self._offsets.append(offset)
            self._sizes.append(size)
        for files in shards.values():
            _number(files)

    def _refer(self, digests: list[str | None]) -> None:
        """Have the tensors of the copy name where their payloads are to be; digests: of each file, to be named too."""
        places = zip(self._numbers, self._offsets, self._sizes, strict=True)
        for (number, offset, size), (_, tensor) in zip(places, find_tensors(self.copy), strict=True):
            if number:
                refer(tensor, self._files[number - 1].location, offset, size, digests[number - 1])
            elif is_external(tensor):
                take_in(tensor)

    def __enter__(self) -> Self:
        if self._files:
            try:
                self._open_home()
                self._check_names()
                self._check_paths()
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
        except BaseException:
            # A Ctrl-C, after which it is done again: each step first looks whether it is still to be done.
            self._end()
            raise
        finally:
            self._close()

    def _open_home(self) -> None:
        model = self._model
        if model is not None:
            model.locate(beside=True)
        if model is None or model.folder is None or not model.is_plain:
            raise FieldTypeError("external data is saved beside a model; save that to a path of a file")
        self._home = model.folder.copy()

    def _close(self) -> None:
        for folder in (self._inner and self._inner[1], self._home):
            if folder:
                folder.close()

    def _path(self, location: str) -> str:
        """The name that errors have for a file."""
        return os.path.join(os.path.dirname(os.path.abspath(self._model.path)) if self._model else "", location)

    def _folder(self, path: str) -> Folder:
        """A folder, from the model's, opened name by name; raises OSError, for links too."""
        assert self._home is not None
        if not path:
            return self._home
        if self._inner is None or self._inner[0] != path:
            # One at a time, as a model may have a folder a tensor.
            here = self._home.copy()
            for name in path.split("/"):
                with here:
                    here = here.inner(name)
            before, self._inner = self._inner, (path, here)
            if before is not None:
                before[1].close()
        return self._inner[1]

    def _check_names(self) -> None:
        """Refuse names that are one another's."""
        assert self._model is not None
        # Some file systems make no difference between upper and lower case. The model's are its link's, and its own.
        model = (os.path.basename(self._model.path), self._model.name)
        names = {name.casefold(): "the model itself" for name in model}
        for file in self._files:
            other = names.setdefault(file.location.casefold(), file.location)
            if other is not file.location:
                raise _unfit(file.location, f"that is {other}")
        for file in self._files:
            above = file.folder
            while above:
                if above.casefold() in names:
                    raise _unfit(file.location, f"{above} is to be a file")
                above = posixpath.dirname(above)

    def _check_paths(self) -> None:
        """Refuse links, and files that hold what is not the model's."""
        assert self._model is not None
        # What can't be read any more is to be told before what would be written over.
        origins = (origin for file in self._files for _, origin in file.payloads)
        for source in {origin[0] for origin in origins if isinstance(origin, tuple)}:
            source.check_unchanged()
        owned: set[Identity] | None = None
        for file in self._files:
            path = self._path(file.location)
            try:
                status = self._look(file)
            except OSError as error:
                raise SaveError.from_os_error(error, path) from None
            if status is None:
                continue
            if not stat.S_ISREG(status.st_mode):
                raise SaveError(errno.EEXIST, "what is there is not a file; choose another name", path)
            file.found = _state(status)
            if self._source is not None and self._source.is_beside(self._model.path):
                # Tensors that the message has no longer may have their data in it, and were not asked for it yet.
                self._source.keep(file.location)
            if not self._overwrite:
                owned = _files_of(self._model.path, type(self.copy)) if owned is None else owned
                if identity_of(status) not in owned:
                    raise _not_owned(path)

    def _look(self, file: _DataFile) -> os.stat_result | None:
        """The status of what has a file's path; raises OSError, and FieldValueError for a link on the way."""
        assert self._home is not None
        here, names = self._home.copy(), file.location.split("/")
        for number, name in enumerate(names, 1):
            with here:
                status = here.status(name)
                if status is None:
                    return None
                if stat.S_ISLNK(status.st_mode):
                    raise _unfit(file.location, "a symbolic link leads elsewhere")
                if number < len(names):
                    here = here.inner(name)
        return status

    def write(self, progress: Callable[[int], object] | None = None) -> None:
        """Have all files of external data on the disk, under other names; progress: given the bytes so far."""
        done = 0
        digests: list[str | None] = []
        for file in self._files:
            self._make_folder(file)
            report = None if progress is None else lambda written, before=done: progress(before + written)
            path, folder = self._path(file.location), self._reopen(file)
            file.atomic = atomic = AtomicFile(path, file.size, report, folder=folder, in_place=False)
            target = atomic.open()
            try:
                file.write(target)
                target.finish()
                if self._checksum:
                    digests.append(_digest(target.descriptor, atomic.path))
            except BaseException as error:
                atomic.abandon(error)
                raise
            atomic.prepare()
            # A model may have more of them than a process may have open.
            atomic.close()
            file.payloads.clear()
            done += file.size
        if digests:
            self._refer(digests)

    def _make_folder(self, file: _DataFile) -> None:
        names = file.folder.split("/") if file.folder else []
        for depth in range(len(names)):
            above, path = "/".join(names[:depth]), "/".join(names[: depth + 1])
            try:
                folder = self._folder(above)
                if folder.status(names[depth]) is None:
                    self._made.append(path)  # before, so that it is known whenever a Ctrl-C comes
                    folder.mkdir(names[depth])
            except FileExistsError:
                self._made.remove(path)  # somebody else made it
            except OSError as error:
                raise SaveError.from_os_error(error, self._path(path), "save elsewhere") from None

    def _reopen(self, file: _DataFile) -> Folder:
        try:
            return self._folder(file.folder)
        except OSError as error:
            advice = "it must be a folder, and not a link; choose another name"
            raise SaveError.from_os_error(error, self._path(file.folder), advice) from None

    def publish(self) -> None:
        """Give the files their names, one after another; what was there has another name until the block ends."""
        for file in self._files:
            assert file.atomic is not None
            file.atomic.folder = folder = self._reopen(file)
            try:
                if folder.status(file.name) is not None:
                    file.old = temporary_name(file.name) + _OLD  # before, as above
                    folder.replace(file.name, file.old)
                    if not self._overwrite and _state(folder.status(file.old)) != file.found:
                        raise _not_owned(file.atomic.path)
            except Error:
                raise
            except OSError as error:
                raise SaveError.from_os_error(error, file.atomic.path) from None
            file.atomic.publish()

    def _end(self) -> None:
        if self._home is not None and self._model is not None:
            if self._home.holds(self._model.name, self._model.identity):
                self._forget_old()
            else:
                self._undo()
                self._model.abandon()

    def _undo(self) -> None:
        """Put back what was there: the model that goes with the new files has not got its name."""
        for file in self._files:
            with suppress(OSError):
                self._undo_file(file)
        for path in reversed(self._made):
            with suppress(OSError):
                self._folder(posixpath.dirname(path)).rmdir(posixpath.basename(path))

    def _undo_file(self, file: _DataFile) -> None:
        atomic = file.atomic
        if atomic is None:
            return
        atomic.folder = folder = self._folder(file.folder)
        is_new = atomic.is_replaced
        if file.old and folder.status(file.old) is not None:
            # What somebody else put there meanwhile stays.
            if is_new or folder.status(file.name) is None:
                folder.replace(file.old, file.name)
        elif is_new:
            folder.unlink(file.name)
        atomic.abandon()

    def _forget_old(self) -> None:
        """Remove what was replaced, and what killed saves left of that: the model has its name."""
        starts: dict[str, set[str]] = {}
        for file in self._files:
            starts.setdefault(file.folder, set()).add(temporary_start(file.name))
        for path, begun in starts.items():
            with suppress(OSError):
                folder = self._folder(path)
                for name in folder.names():
                    if name.endswith(SUFFIX + _OLD) and name[: -len(SUFFIX + _OLD) - RANDOM] in begun:
                        with suppress(OSError):
                            folder.unlink(name)


def _state(status: os.stat_result | None) -> tuple[int, ...]:
    """The numbers that tell a file from one that came after it, which may have got its inode."""
    return () if status is None else (*identity_of(status), status.st_size, status.st_mtime_ns)


def _not_owned(path: str) -> SaveError:
    return SaveError(
        errno.EEXIST,
        "there is a file that is not the model's; allow it with overwrite=True, or choose another name",
        path,
    )


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


def _number(files: list[_DataFile]) -> None:
    """Give shards names such as weights-00001-of-00003.data."""
    if len(files) > 1:
        stem, suffix = os.path.splitext(files[0].location)
        for number, file in enumerate(files, 1):
            file.location = f"{stem}-{number:05}-of-{len(files):05}{suffix}"


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
    # By stem the last number that was tried: very many tensors may have one name.
    numbers: dict[str, int] = {}

    def name_of(info: TensorInfo) -> str:
        stem = _UNFIT.sub("_", info.name or info.path)[-_LONGEST:].strip(".") or "tensor"
        name, folded = location.replace("{name}", stem), stem.casefold()
        while name.casefold() in taken:
            numbers[folded] = numbers.get(folded, 1) + 1
            name = location.replace("{name}", f"{stem}_{numbers[folded]}")
        taken.add(name.casefold())
        return name

    return name_of


def _files_of(path: str, cls: type[Message]) -> set[Identity]:
    """The files that hold nothing but external data of the model that is at a path, if there is one.

    What a model says of a file is not enough: it can say it of any in its folder. All bytes are to be those of tensors
    that fit their types and dims, but for zeros between them.
    """
    from onnxwire.io.load import load

    spans: dict[ExternalFile, list[tuple[int, int]]] = {}
    owned = set()
    with suppress(Error), load(path, cls) as message:
        for _, tensor in find_tensors(message):
            if is_external(tensor):
                with suppress(Error):
                    file, offset, length = Storage(tensor).file or (None, 0, 0)
                    if file is not None and file.descriptor >= 0:
                        spans.setdefault(file, []).append((offset, offset + length))
        for file, covered in spans.items():
            if _is_covered(file, covered):
                owned.add(identity_of(os.fstat(file.descriptor)))
    return owned


def _is_covered(file: ExternalFile, spans: list[tuple[int, int]]) -> bool:
    """Whether all bytes of a file are in one of the spans, or padding."""
    end = 0
    for start, stop in [*sorted(spans), (file.size, file.size)]:
        if start - end >= _PADDING or (start > end and any(memoryview(file.view(end, start - end)))):
            return False
        end = max(end, stop)
    return True


def _digest(descriptor: int, name: str) -> str:
    """The SHA-1 of all that is in an open file. Source: onnx.proto, TensorProto.external_data."""
    file = ExternalFile.from_descriptor(os.dup(descriptor), name, mmap=False)
    try:
        return file.sha1()
    finally:
        file.close()
