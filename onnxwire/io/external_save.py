"""Move payloads between a model's file and external data files while saving.

The message itself is not changed: the saved message is a copy-on-write clone whose tensors refer to other positions.
Payloads in files are copied from file to file. New files are renamed into place once all of them are on disk, the model
last.
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
from onnxwire.io.atomic_file import RANDOM_DIGITS, SUFFIX, AtomicFile, temporary_name, temporary_prefix
from onnxwire.io.folder import identity_of
from onnxwire.io.prefetch import fetch_in_order, open_external, prefetch
from onnxwire.io.tensor_list import describe, find_tensors, is_external
from onnxwire.tensor.dtypes import STRING
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.external_file import ExternalFile
from onnxwire.tensor.placement import make_inline, set_reference
from onnxwire.tensor.storage import Storage, write_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from onnxwire.engine.file_writer import FileWriter
    from onnxwire.engine.message import Message
    from onnxwire.io.folder import Folder, Identity
    from onnxwire.io.tensor_list import TensorInfo
    from onnxwire.messages import TensorProto
    from onnxwire.tensor.storage import WriteArgument

    Choice = str | os.PathLike[str] | Callable[[TensorInfo], str | None] | None
    """The destination of payloads: one file, a pattern of file names, a function, or None for the model's own file."""

_MAX_PADDING = 1 << 21  # more zero bytes do not count as padding, which is shorter at an alignment of at most 2 MiB
_OLD_SUFFIX = ".old"  # added to the temporary name of a replaced file; `_remove_stale` of atomic_file.py then keeps it
_UNSAFE_NAME_CHARS = re.compile(r"[^A-Za-z0-9._-]+|\.{2,}")  # the official runtime rejects names that contain ".."
_MAX_NAME_CHARS = 100  # maximum length of the part of a file name that is made from a tensor's name


class _DataFile:
    """An external data file that will be written.

    location: its path relative to the model's folder. align: the offset of each payload is a multiple of this number of
    bytes. number: its number among all files of the save, from 1.
    """

    def __init__(self, location: str, align: int, number: int) -> None:
        self.location = location
        self.number = number
        self.size = 0  # in bytes, after the payloads so far
        self.payloads: list[tuple[int, WriteArgument]] = []  # offset, payload; ascending
        self.atomic_file: AtomicFile | None = None  # the writer of this file
        self.old_name = ""  # the temporary name of the replaced file
        self.existing_state: tuple[int, ...] = ()  # the `_file_state` of the existing file at this location
        self._align = align
        self._offsets: dict[WriteArgument, int] = {}  # the offset in this file of each range of external data

    @property
    def folder(self) -> str:
        """The path of the file's folder relative to the model's folder; "" for the model's folder."""
        return posixpath.dirname(self.location)

    @property
    def name(self) -> str:
        """The file's name in its folder."""
        return posixpath.basename(self.location)

    def add(self, argument: WriteArgument, size: int, max_size: float) -> int:
        """Add a payload. Return its offset, or -1 if the file is not empty and would become longer than `max_size`.

        argument: the payload, as for `write_payload`; external data is a tuple of file, offset and length. size: its
        number of bytes.
        """
        # A range of external data that several tensors share is written once.
        offset = self._offsets.get(argument) if isinstance(argument, tuple) else None
        if offset is None:
            offset = self.size + -self.size % self._align
            if self.size and offset + size > max_size:
                return -1
            if isinstance(argument, tuple):
                self._offsets[argument] = offset
            self.payloads.append((offset, argument))
            self.size = offset + size
        return offset

    def write(self, target: FileWriter) -> None:
        """Write all payloads, each at its offset."""
        for offset, argument in self.payloads:
            # Gaps in a new file read as zeros, and occupy no disk space.
            target.seek(offset)
            write_payload(argument, target)


class Relocation:
    """A copy of a message whose payloads are moved to other files, and those files.

    message: the message to save; model: the file that the message is saved to, None for a file object; choice:
    `external` of `onnxwire.save`, which also describes the other parameters. copy: the message to write, complete after
    `write`; size: the total size of all external data files in bytes.
    `with relocation:` opens the model's folder and checks whether the files may be created there. In the block, `write`
    prepares the files, and `publish` renames them into place once the model is prepared too. The end of the block
    determines the outcome from the disk, so a Ctrl-C may occur at any time: if the new model is in place, the old files
    are removed, else they are restored.
    All paths are used relative to the model's open folder, and no link below it is followed.
    Raises TensorError for an inconsistent tensor that must be moved, SourceError for external data that was changed or
    can't be read, SaveError for a file that may not be overwritten or can't be written, FieldValueError for an invalid
    file name, and FieldTypeError for a file name that is neither a str nor a path object, or if the model is not saved
    to a regular file.
    """

    def __init__(
        self,
        message: Message,
        model: AtomicFile | None,
        choice: Choice,
        *,
        threshold: int,
        align: int,
        shard_size: int | None,
        checksum: bool,
        overwrite: bool,
    ) -> None:
        self._model = model
        self._checksum = checksum
        self._overwrite = overwrite
        self._model_folder: Folder | None = None
        self._subfolder: tuple[str, Folder] | None = None  # the subfolder used last, and its path
        self._created: list[str] = []  # paths of created folders
        self._remote: list[TensorProto] = []  # moved tensors whose model is on a server
        self._files: list[_DataFile] = []
        # For each tensor: the number of its file, 0 for none, and the offset and size of its payload there.
        self._numbers, self._offsets, self._sizes = array("I"), array("q"), array("q")
        # Another thread, or the caller's function `external`, may edit the message in the meantime.
        snapshot, self.copy = type(message)(), type(message)()
        snapshot.CopyFrom(message)
        self._source = message._document.files  # the external data files of the original message
        self.copy.CopyFrom(snapshot)
        self._plan(snapshot, choice, threshold, align, shard_size or math.inf)
        # The digests of the files are known after `write`. Until then, placeholders of the same length are used.
        self._set_references(["0" * 40] * len(self._files) if checksum else [None] * len(self._files))
        self.size = sum(file.size for file in self._files)

    def _plan(self, message: Message, choice: Choice, threshold: int, align: int, max_size: float) -> None:
        """Choose the file and offset of each payload that is moved."""
        shards: dict[str, list[_DataFile]] = {}
        choose = _make_chooser(choice, "" if self._model is None else self._model.name)
        last_name: object = None
        location = ""  # `last_name`, normalized
        open_external(message)
        for path, source in find_tensors(message):
            info = describe(source, path)
            number = offset = size = 0
            may_move = info.data_type != STRING.number and info.nbytes >= max(threshold, 1)
            file_name = choose(info) if may_move else None
            if file_name is not None:
                if file_name is not last_name:
                    last_name, location = file_name, _normalize(file_name)
                storage = Storage(source)
                argument, size = storage.write_argument, storage.data_type.count_bytes(storage.count)
                files = shards.setdefault(location, [])
                offset = files[-1].add(argument, size, max_size) if files else -1
                if offset < 0:
                    self._files.append(_DataFile(location, align, len(self._files) + 1))
                    files.append(self._files[-1])
                    offset = files[-1].add(argument, size, math.inf)
                number = files[-1].number
                if source._document.memory is not None:
                    self._remote.append(source)
            self._numbers.append(number)
            self._offsets.append(offset)
            self._sizes.append(size)
        for files in shards.values():
            _number_shards(files)

    def _set_references(self, digests: list[str | None]) -> None:
        """Make moved tensors of the copy refer to their new files, and store other external payloads inline.

        digests: the checksum of each file, or None.
        """
        if self._source is not None and self.copy._document.memory is not None:
            tensors = zip(self._numbers, find_tensors(self.copy), strict=True)
            prefetch([tensor for number, (_, tensor) in tensors if not number and is_external(tensor)])
        rows = zip(self._numbers, self._offsets, self._sizes, strict=True)
        for (number, offset, size), (_, tensor) in zip(rows, find_tensors(self.copy), strict=True):
            if number:
                set_reference(tensor, self._files[number - 1].location, offset, size, digests[number - 1])
            elif is_external(tensor):
                make_inline(tensor)

    def __enter__(self) -> Self:
        if self._files:
            try:
                self._open_model_folder()
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
            # After a KeyboardInterrupt, repeat all steps: each step checks whether it is still needed.
            self._end()
            raise
        finally:
            self._close()

    def _open_model_folder(self) -> None:
        """Open the model's folder. Raise FieldTypeError if the model is not saved to a regular file."""
        model = self._model
        if model is not None:
            model.locate(in_path_folder=True)
        if model is None or model.folder is None or not model.is_regular:
            raise FieldTypeError("external data is saved beside a model; save the model to the path of a regular file")
        self._model_folder = model.folder.copy()

    def _close(self) -> None:
        for folder in (self._subfolder and self._subfolder[1], self._model_folder):
            if folder:
                folder.close()

    def _path(self, location: str) -> str:
        """Return the path of a file, for error messages and AtomicFile."""
        return os.path.join(os.path.dirname(os.path.abspath(self._model.path)) if self._model else "", location)

    def _folder(self, path: str) -> Folder:
        """Open a folder by its path from the model's folder. Raises OSError, also for links."""
        assert self._model_folder is not None
        if not path:
            return self._model_folder
        if self._subfolder is None or self._subfolder[0] != path:
            # Only one subfolder is open at a time, since every tensor may have its own.
            folder = self._model_folder.copy()
            for name in path.split("/"):
                with folder:
                    folder = folder.subfolder(name)
            previous, self._subfolder = self._subfolder, (path, folder)
            if previous is not None:
                previous[1].close()
        return self._subfolder[1]

    def _check_names(self) -> None:
        """Raise FieldValueError if names, or folders on their paths, collide with each other or with the model."""
        assert self._model is not None
        # Names are compared in lower case, as some file systems do. A model whose path is a link has two names.
        model_names = (os.path.basename(self._model.path), self._model.name)
        owners_by_name = {name.casefold(): "the model itself" for name in model_names}
        for file in self._files:
            owner = owners_by_name.setdefault(file.location.casefold(), file.location)
            if owner is not file.location:
                raise _name_error(file.location, f"the name collides with {owner}")
        for file in self._files:
            folder = file.folder
            while folder:
                if folder.casefold() in owners_by_name:
                    raise _name_error(file.location, f"{folder} is also the name of a file")
                folder = posixpath.dirname(folder)

    def _check_paths(self) -> None:
        """Raise an error for a path at which there is something other than a regular file.

        Raises SourceError if a source file was changed. Unless `overwrite`, raises SaveError for an existing file that
        does not belong to the old model. Records the states of existing files.
        """
        assert self._model is not None
        # First report source files that were changed since they were opened, then files that would be overwritten.
        arguments = (argument for file in self._files for _, argument in file.payloads)
        for source in {argument[0] for argument in arguments if isinstance(argument, tuple)}:
            source.check_unchanged()
        own_files: set[Identity] | None = None
        for file in self._files:
            path = self._path(file.location)
            try:
                status = self._status_of(file)
            except OSError as error:
                raise SaveError.from_os_error(error, path) from None
            if status is None:
                continue
            if not stat.S_ISREG(status.st_mode):
                raise SaveError(errno.EEXIST, "the path exists and is not a regular file; choose another name", path)
            file.existing_state = _file_state(status)
            if self._source is not None and self._source.is_beside(self._model.path):
                # Tensors removed from the message may still need the old file, which may not be open yet.
                self._source.keep_open(file.location)
            if not self._overwrite:
                own_files = _own_data_files(self._model.path, type(self.copy)) if own_files is None else own_files
                if identity_of(status) not in own_files:
                    raise _not_owned_error(path)

    def _status_of(self, file: _DataFile) -> os.stat_result | None:
        """Return the status of an existing file, or None. Raises OSError; FieldValueError for a link on the path."""
        assert self._model_folder is not None
        folder, names = self._model_folder.copy(), file.location.split("/")
        for number, name in enumerate(names, 1):
            with folder:
                status = folder.status(name)
                if status is None:
                    return None
                if stat.S_ISLNK(status.st_mode):
                    raise _name_error(file.location, "the path contains a symbolic link")
                if number < len(names):
                    folder = folder.subfolder(name)
        return status

    def write(self, progress: Callable[[int], object] | None = None) -> None:
        """Write all files and sync them to disk, under temporary names.

        progress: called with the number of bytes written so far.
        """
        with fetch_in_order((tensor,) for tensor in self._remote):
            self._write(progress)

    def _write(self, progress: Callable[[int], object] | None) -> None:
        """Write and prepare each file, and set the checksums in the copy."""
        n_written = 0
        digests: list[str | None] = []
        for file in self._files:
            self._create_folder(file)
            report = (
                None
                if progress is None
                else lambda n_payload_bytes, offset=n_written: progress(offset + n_payload_bytes)
            )
            path, folder = self._path(file.location), self._open_folder_of(file)
            file.atomic_file = atomic_file = AtomicFile(path, file.size, report, folder=folder, in_place=False)
            target = atomic_file.open()
            try:
                file.write(target)
                target.finish()
                if self._checksum:
                    digests.append(_digest(target.descriptor, atomic_file.path))
            except BaseException as error:
                atomic_file.abandon(error)
                raise
            atomic_file.prepare()
            # There may be more files than a process may have open.
            atomic_file.close()
            file.payloads.clear()
            n_written += file.size
        if digests:
            self._set_references(digests)

    def _create_folder(self, file: _DataFile) -> None:
        """Create the missing folders on the path of a file."""
        names = file.folder.split("/") if file.folder else []
        for depth in range(len(names)):
            parent_path, path = "/".join(names[:depth]), "/".join(names[: depth + 1])
            try:
                folder = self._folder(parent_path)
                if folder.status(names[depth]) is None:
                    self._created.append(path)  # recorded first, so that a KeyboardInterrupt can't lose the path
                    folder.mkdir(names[depth])
            except FileExistsError:
                self._created.remove(path)  # another process created the folder
            except OSError as error:
                raise SaveError.from_os_error(error, self._path(path), "save elsewhere") from None

    def _open_folder_of(self, file: _DataFile) -> Folder:
        try:
            return self._folder(file.folder)
        except OSError as error:
            advice = "it must be a folder, not a link; choose another name"
            raise SaveError.from_os_error(error, self._path(file.folder), advice) from None

    def publish(self) -> None:
        """Rename the files into place. Old files have a temporary name until the block ends."""
        for file in self._files:
            assert file.atomic_file is not None
            file.atomic_file.folder = folder = self._open_folder_of(file)
            try:
                if folder.status(file.name) is not None:
                    # The name is recorded before the rename, so that a KeyboardInterrupt can't lose it.
                    file.old_name = temporary_name(file.name) + _OLD_SUFFIX
                    folder.replace(file.name, file.old_name)
                    if not self._overwrite and _file_state(folder.status(file.old_name)) != file.existing_state:
                        raise _not_owned_error(file.atomic_file.path)
            except Error:
                raise
            except OSError as error:
                raise SaveError.from_os_error(error, file.atomic_file.path) from None
            file.atomic_file.publish()

    def _end(self) -> None:
        """Remove the old files if the new model is in place; else restore them."""
        if self._model_folder is not None and self._model is not None:
            if self._model_folder.contains(self._model.name, self._model.identity):
                self._remove_old_files()
            else:
                self._undo()
                self._model.abandon()

    def _undo(self) -> None:
        """Restore the old files and remove the created folders, because the new model is not in place."""
        for file in self._files:
            with suppress(OSError):
                self._undo_file(file)
        for path in reversed(self._created):
            with suppress(OSError):
                self._folder(posixpath.dirname(path)).rmdir(posixpath.basename(path))

    def _undo_file(self, file: _DataFile) -> None:
        """Remove the new file, and rename the old file back to its old name."""
        atomic_file = file.atomic_file
        if atomic_file is None:
            return
        atomic_file.folder = folder = self._folder(file.folder)
        is_new = atomic_file.has_replaced
        if file.old_name and folder.status(file.old_name) is not None:
            # A file that another process created in the meantime is not removed.
            if is_new or folder.status(file.name) is None:
                folder.replace(file.old_name, file.name)
        elif is_new:
            folder.unlink(file.name)
        atomic_file.abandon()

    def _remove_old_files(self) -> None:
        """Remove the replaced files, also those of killed saves, because the new model is in place."""
        prefixes: dict[str, set[str]] = {}
        for file in self._files:
            prefixes.setdefault(file.folder, set()).add(temporary_prefix(file.name))
        for path, folder_prefixes in prefixes.items():
            with suppress(OSError):
                folder = self._folder(path)
                for name in folder.names():
                    if (
                        name.endswith(SUFFIX + _OLD_SUFFIX)
                        and name[: -len(SUFFIX + _OLD_SUFFIX) - RANDOM_DIGITS] in folder_prefixes
                    ):
                        with suppress(OSError):
                            folder.unlink(name)


def _file_state(status: os.stat_result | None) -> tuple[int, ...]:
    """Return numbers that distinguish a file from a later file, even if the later one reuses its inode."""
    return () if status is None else (*identity_of(status), status.st_size, status.st_mtime_ns)


def _not_owned_error(path: str) -> SaveError:
    return SaveError(
        errno.EEXIST,
        "the existing file contains other data than the old model's; pass overwrite=True to replace it, or choose "
        "another name",
        path,
    )


def _name_error(location: str, reason: str) -> FieldValueError:
    return FieldValueError(f"external data can't be saved to {location!r}: {reason}")


def _normalize(location: object) -> str:
    """Return a location in normal form. Raises FieldTypeError or FieldValueError for an invalid location."""
    if isinstance(location, os.PathLike):
        location = os.fspath(location)
    if not isinstance(location, str):
        raise FieldTypeError(f"the name of an external data file is a str, not {type(location).__name__}")
    fault = fault_of(location)
    if fault:
        raise _name_error(location, fault)
    return posixpath.normpath(location)


def _number_shards(files: list[_DataFile]) -> None:
    """Name several shards weights-00001-of-00003.data and so on. A single shard keeps its name."""
    if len(files) > 1:
        stem, suffix = os.path.splitext(files[0].location)
        for number, file in enumerate(files, 1):
            file.location = f"{stem}-{number:05}-of-{len(files):05}{suffix}"


def _make_chooser(choice: Choice, model: str) -> Callable[[TensorInfo], object]:
    """Return a function from a TensorInfo to a file name, or to None for an inline payload.

    model: the file name of the model, which names made from a pattern must differ from.
    """
    if choice is None:
        return lambda info: None
    if callable(choice):
        return choice
    location = _normalize(choice)
    if "{name}" not in location:
        return lambda info: location
    used_names = {model.casefold()}
    # The last suffix tried for each stem: millions of tensors may have the same name.
    numbers: dict[str, int] = {}

    def make_unique_name(info: TensorInfo) -> str:
        stem = _UNSAFE_NAME_CHARS.sub("_", info.name or info.path)[-_MAX_NAME_CHARS:].strip(".") or "tensor"
        name, folded = location.replace("{name}", stem), stem.casefold()
        while name.casefold() in used_names:
            numbers[folded] = numbers.get(folded, 1) + 1
            name = location.replace("{name}", f"{stem}_{numbers[folded]}")
        used_names.add(name.casefold())
        return name

    return make_unique_name


def _own_data_files(path: str, cls: type[Message]) -> set[Identity]:
    """Return the identities of the files that contain only external data of the model at a path.

    Returns an empty set if the model can't be loaded. A reference to a file is not sufficient, since a model can refer
    to any file in its folder. Every byte of the file must belong to a payload of the size that its tensor's type and
    dims require, or to a short run of zero padding.
    """
    from onnxwire.io.load import load

    spans: dict[ExternalFile, list[tuple[int, int]]] = {}
    own_files = set()
    with suppress(Error), load(path, cls) as message:
        for _, tensor in find_tensors(message):
            if is_external(tensor):
                with suppress(Error):
                    file, offset, length = Storage(tensor).external_range or (None, 0, 0)
                    if file is not None and file.descriptor >= 0:
                        spans.setdefault(file, []).append((offset, offset + length))
        for file, file_spans in spans.items():
            if _is_covered(file, file_spans):
                own_files.add(identity_of(os.fstat(file.descriptor)))
    return own_files


def _is_covered(file: ExternalFile, spans: list[tuple[int, int]]) -> bool:
    """Return whether each byte of a file is in a span (start, end) or in a gap of fewer than _MAX_PADDING zeros."""
    end = 0
    for start, stop in [*sorted(spans), (file.size, file.size)]:
        if start - end >= _MAX_PADDING or (start > end and any(memoryview(file.view(end, start - end)))):
            return False
        end = max(end, stop)
    return True


def _digest(descriptor: int, name: str) -> str:
    """Return the SHA-1 of an open file. Source: onnx.proto, TensorProto.external_data."""
    file = ExternalFile.from_descriptor(os.dup(descriptor), name, mmap=False)
    try:
        return file.sha1()
    finally:
        file.close()
