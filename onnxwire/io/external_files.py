"""Files of external data: which ones a model may name, and reading them.

What a location says was written by whoever wrote the model, and the folder may have come with it. So a location is
followed by hand, name by name, each opened in the folder before it; whether it may be read is then decided by what was
opened, not by what a path said. A file may be read where it lies in the folder of the model's path, or in the one that
the model's symbolic link leads to, or below; and in `external_root`.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections import namedtuple
from contextlib import contextmanager, suppress

from onnxwire.engine.document import Document
from onnxwire.engine.records import payload_at
from onnxwire.errors import ClosedError, ExternalDataError, InUseError, SourceError
from onnxwire.io.folder import HAS_DIR_FD as _HAS_DIR_FD
from onnxwire.io.folder import LIST, NO_FOLLOW, PASS, identity_of, walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import Any

    from typing_extensions import Buffer

    from onnxwire.io.folder import Identity
    from onnxwire.messages import TensorProto

    Data = Mapping[str, Buffer] | Callable[[str], Buffer | None]
    """What is given in place of files, by location."""

_LARGEST = (1 << 63) - 1  # the greatest offset that a file can have
_LONGEST = 4096  # bytes of a location, and of any path on Linux
_MAX_NAMES = 10_000  # entries of folders that are looked at for the names of one hard-linked file
_MAX_DEPTH = 32  # folders in folders that are
_PIECE = 1 << 20

_WINDOWS = sys.platform == "win32"
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | NO_FOLLOW

_CHANGED = "the file was changed or replaced while it was opened; load the model again"
_COPY_IT = "copy the file there, or name its folder with external_root="
_RESERVED = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"} | {
    f"{d}{n}" for d in ("COM", "LPT") for n in "123456789¹²³"
}
_TYPES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


class Reference(namedtuple("Reference", ("location", "offset", "length", "checksum"))):
    """Where a tensor says that its data is: `length` bytes from byte `offset` of a file, or all that come after it.

    location: the file's path from the model's folder; checksum: the SHA-1 of the whole file in hexadecimal digits.
    """

    # Typed here rather than by typing.NamedTuple, which would take as long to import as all the rest.
    __slots__ = ()
    location: str
    offset: int
    length: int | None
    checksum: str | None


def reference_of(tensor: TensorProto) -> Reference:
    """Read a tensor's `external_data`; other keys than those of a Reference mean nothing.

    Raises ExternalDataError where the location is missing, a key is there twice, or the offset or length is no plain
    decimal number below 2**63. Source: onnx.proto, TensorProto.external_data.
    """
    values: dict[str, str] = {}
    for entry in tensor.external_data:
        key = entry.key
        if key in Reference._fields:
            if key in values:
                raise _error(tensor, f"external_data has {key!r} twice; which one counts nobody can tell")
            values[key] = entry.value
    if not values.get("location"):
        raise _error(tensor, "external_data has no location, so there is no file to read")
    offset, length = (_number(tensor, key, values.get(key)) for key in ("offset", "length"))
    return Reference(values["location"], offset or 0, length, values.get("checksum"))


def payload(tensor: TensorProto, files: ExternalFiles | None) -> tuple[ExternalFile, int, int]:
    """The file that an EXTERNAL tensor's data is in, the byte at which it begins, and its length in bytes.

    files: those of the tensor's document. Nothing is read yet. Raises ExternalDataError for a reference that is wrong,
    refused, or runs past the end of its file, SourceError for a file that can't be opened; both name the tensor.
    """
    reference = reference_of(tensor)
    try:
        file = (files or ExternalFiles(None)).open(reference.location)
    except ExternalDataError as error:
        raise _error(tensor, error.reason) from None
    except SourceError as error:
        advice = f"the data of tensor {tensor.name!r} is to be there"
        raise SourceError.from_os_error(error, error.filename, advice) from None
    offset, length = reference.offset, reference.length
    if offset > file.size or (length is not None and length > file.size - offset):
        what = f"{length:,} bytes from byte {offset:,}" if length is not None else f"what begins at byte {offset:,}"
        raise _error(
            tensor,
            f"its external data, {what} of {file.name}, is not all there: the file has {file.size:,} bytes; it was "
            "cut, or belongs to another model",
        )
    return file, offset, file.size - offset if length is None else length


def _error(tensor: TensorProto, reason: str) -> ExternalDataError:
    from onnxwire.tensor.tensor import tensor_error

    return tensor_error(tensor, reason, ExternalDataError)  # type: ignore[return-value]


def _number(tensor: TensorProto, key: str, text: str | None) -> int | None:
    if text is None:
        return None
    number = plain_number(text)
    if number is None:
        shown = repr(text if len(text) <= 40 else text[:40] + "…")
        raise _error(tensor, f"the {key} of its external data, {shown}, is no plain decimal number below 2**63")
    return number


def plain_number(text: str) -> int | None:
    """The number that an offset or length says; None where it is no plain decimal number below 2**63."""
    digits = text.lstrip("0") or text[:1]
    # int() takes much that is no number here: signs, blanks, underscores, the digits of other scripts.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(_LARGEST)) and int(digits) <= _LARGEST):
        return None
    return int(digits)


class ExternalFile:
    """A file that tensors have their data in, or a buffer in place of one.

    document: its bytes, mapped or in memory; with `size`, instead, what has only the open descriptor of a file that is
    to be read, of so many bytes. name: what errors call it; size: in bytes, as it was opened.
    """

    def __init__(self, document: Document, size: int | None = None) -> None:
        self.name = document.name
        self.size = len(document) if size is None else size
        self.document = document if size is None else None
        self._holder = document
        self._is_closed = False

    @classmethod
    def from_descriptor(cls, descriptor: int, name: str, *, mmap: bool = True) -> ExternalFile:
        """Take an open descriptor of a regular file, which is closed with the object, or when this fails.

        mmap: map the file, else read from it what is asked for. Raises SourceError where it can't be mapped.
        """
        try:
            size = os.fstat(descriptor).st_size
            data: Buffer = b""
            if mmap and size:
                data = _map(descriptor, size)
        except (OSError, ValueError) as error:
            os.close(descriptor)
            if isinstance(error, ValueError):
                raise SourceError(errno.EIO, "the file was cut while it was opened; load it again", name) from None
            raise SourceError.from_os_error(error, name, _way_out(error)) from None
        # Not told of the mapping, because it would prepare for a walk from tag to tag; it goes with the buffer.
        return cls(Document(data, name, None, descriptor), None if mmap else size)

    @property
    def descriptor(self) -> int:
        """The file, open for reading, or -1 for a buffer."""
        return self._holder.descriptor

    def view(self, offset: int, length: int) -> Buffer:
        """Some of its bytes: a read-only window of a mapping or buffer, or new memory that they are read into.

        A window in use keeps the file from being closed. Raises SourceError where the file was cut or can't be read,
        ExternalDataError for bytes that it never had.
        """
        self._check(offset, length)
        if self.document is None:
            import numpy as np

            # A bytearray would be filled with zeros first.
            out: Any = np.empty(length, np.uint8)
            self.read_into(offset, out)
            return out  # type: ignore[no-any-return]
        if self.descriptor >= 0:
            # To touch what is gone would end the process. That it is cut later can't be seen from here.
            self._refuse_cut(offset + length)
        return payload_at(self.document, offset, offset + length)

    def read_into(self, offset: int, out: Buffer) -> None:
        """Fill a writable buffer, which must be contiguous, with the bytes from `offset` on; raises as `view` does."""
        with memoryview(out) as items:
            self._check(offset, items.nbytes)
            if not items.nbytes:
                return
            with items.cast("B") as view:
                if self.descriptor < 0:
                    view[:] = memoryview(payload_at(self._holder, offset, offset + len(view)))
                    return
                done = 0
                while done < len(view):
                    try:
                        count = _read_at(self.descriptor, view[done:], offset + done)
                    except OSError as error:
                        raise SourceError.from_os_error(error, self.name) from None
                    if not count:
                        self._refuse_cut(offset + len(view))
                        raise SourceError(errno.EIO, f"the file ends at byte {offset + done:,}", self.name)
                    done += count

    def sha1(self) -> str:
        """The SHA-1 of all its bytes in hexadecimal digits; they are read, not mapped. Raises as `view` does."""
        from hashlib import sha1

        digest = sha1(usedforsecurity=False)
        piece = memoryview(bytearray(min(_PIECE, self.size)))
        for offset in range(0, self.size, _PIECE):
            part = piece[: self.size - offset]
            self.read_into(offset, part)
            digest.update(part)
        return digest.hexdigest()

    def check_whole(self) -> None:
        """Raise SourceError where the file was cut since it was opened."""
        if self.descriptor >= 0:
            self._refuse_cut(self.size)

    def check_unused(self) -> None:
        """Raise InUseError while arrays or memoryviews look into it."""
        if self._holder.pins:
            raise InUseError(
                f"{self.name} is still in use, by {self._holder.pins} array(s) or memoryview(s) that look into it; "
                "delete or copy them before closing the model"
            )

    def close(self) -> None:
        """Let go of it; raises InUseError, and lets go of nothing, while arrays or memoryviews look into it."""
        self._holder.close()
        self._is_closed = True

    def _check(self, offset: int, length: int) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.name} was closed; load the model again, or use it inside its with block")
        if offset < 0 or length < 0 or length > self.size - offset:
            raise ExternalDataError(
                f"it has {self.size:,} bytes; there are no {length:,} from byte {offset:,} on", source=self.name
            )

    def _refuse_cut(self, end: int) -> None:
        size = os.fstat(self.descriptor).st_size
        if size < end:
            raise SourceError(
                errno.EIO,
                f"the file has {size:,} bytes now, and had {self.size:,} when it was opened: it was cut while it was "
                "open; load it again",
                self.name,
            )


class ExternalFiles:
    """The files that the tensors of one model name as external data, each opened once, when it is first asked for.

    model_path: where the model was read from, or None for one that came from no file and so has no folder. root:
    another folder that files may be in, as the user says (`external_root`); hard links in it are not looked into. data:
    buffers by location, or a function from location to buffer or None, which come first (`external_data`). mmap: map
    the files, else read what is asked for. model: the status of the file that was opened as the model; where another
    one has come to be at the path since, its folder is not taken for the model's.
    folder: of the path as it was given, or None. Raises SourceError where root is no folder, TypeError for other data.
    """

    def __init__(
        self,
        model_path: str | None,
        *,
        root: str | os.PathLike[str] | None = None,
        data: Data | None = None,
        mmap: bool = True,
        model: os.stat_result | None = None,
    ) -> None:
        if data is not None and not callable(data) and not hasattr(data, "get"):
            raise TypeError(f"external_data takes a mapping or a function, not {type(data).__name__}")
        self.folder = None if model_path is None else os.path.dirname(model_path)
        self._folders = _Folders(model_path, root, model)
        self._data = data
        self._mmap = mmap
        self._by_location: dict[str, ExternalFile] = {}
        self._by_identity: dict[Identity, ExternalFile] = {}
        self._is_closed = False

    def open(self, location: str) -> ExternalFile:
        """The file at a location; the same one for all locations that lead to it.

        Raises ExternalDataError for a location that is refused, SourceError for a file that is missing or can't be
        read, ClosedError after `close`.
        """
        file = self._by_location.get(location)
        if file is None:
            if self._is_closed:
                raise ClosedError("the files of external data were closed with their model; load it again")
            file = self._by_location.setdefault(location, self._supplied(location) or self._opened(location))
        return file

    @contextmanager
    def look_at(self, location: str) -> Iterator[ExternalFile]:
        """The file at a location for the time of a with block: not mapped, and closed then if it was not open before.

        So as many can be looked at as there are. Raises as `open` does.
        """
        file = self._by_location.get(location) or self._supplied(location)
        if file is not None:
            yield file
            return
        descriptor, name = self._folders.open(location)
        file = ExternalFile.from_descriptor(descriptor, name, mmap=False)
        try:
            yield file
        finally:
            file.close()

    def add(self, location: str, file: ExternalFile) -> ExternalFile:
        """Have a file at a location, whatever is there otherwise; it is closed with the others."""
        self._by_location[location] = file
        return file

    def check_unused(self) -> None:
        """Raise InUseError while arrays or memoryviews look into one of the files."""
        for file in self._by_location.values():
            file.check_unused()

    def close(self) -> None:
        """Close all the files; raises InUseError, and closes none, while arrays or memoryviews look into one."""
        self.check_unused()
        self._is_closed = True
        for file in self._by_location.values():
            file.close()
        self._by_location.clear()
        self._by_identity.clear()

    def _supplied(self, location: str) -> ExternalFile | None:
        if self._data is None:
            return None
        if callable(self._data):
            # It may well make a path of what it is given.
            self._folders.check(location)
            data = self._data(location)
        else:
            data = self._data.get(location)
        if data is None:
            return None
        try:
            return ExternalFile(Document(data, location))
        except (TypeError, ValueError, BufferError) as error:
            raise TypeError(f"external_data has no contiguous buffer of bytes for {location!r}: {error}") from None

    def _opened(self, location: str) -> ExternalFile:
        descriptor, name = self._folders.open(location)
        identity = identity_of(os.fstat(descriptor))
        file = self._by_identity.get(identity)
        if file is not None:
            os.close(descriptor)
            return file
        return self._by_identity.setdefault(identity, ExternalFile.from_descriptor(descriptor, name, mmap=self._mmap))


class _Folder:
    """A folder that files may be in: its whole path, what errors call it, and what it is known by."""

    def __init__(self, path: str, name: str, identity: Identity) -> None:
        self.path = path
        self.name = name
        self.identity = identity


class _Folders:
    """The folders that a model's files may be in, and the way into them; parameters as of ExternalFiles."""

    def __init__(
        self, model_path: str | None, root: str | os.PathLike[str] | None, model: os.stat_result | None
    ) -> None:
        self._model = model_path or ""
        self._all: list[_Folder] = []
        self._root: Identity | None = None
        self._fault = "the model was not read from a file, so that no folder is known to be its own"
        if model_path is not None:
            try:
                self._find(model_path, model)
            except OSError as error:
                self._fault = f"the model's folder can't be found ({error.strerror})"
        if root is not None:
            self._add_root(os.fspath(root))

    def _find(self, model_path: str, model: os.stat_result | None) -> None:
        """Find the folder of the model's path and the one that it really lies in; raises OSError."""
        # Whole, so that a change of the working directory does not move it.
        path = os.path.join(os.getcwd(), model_path)
        logical, status = _folder_of(path, os.path.dirname(model_path))
        folders = [logical]
        if stat.S_ISLNK(status.st_mode):
            found = os.path.realpath(path)
            resolved, status = _folder_of(found, os.path.dirname(found))
            # /dev/stdin may lead to a file; that does not make what is in /dev its neighbours.
            folder = os.path.realpath(logical.path)
            is_of_devices = folder == "/dev" or folder.startswith("/proc/")
            folders = [resolved] if is_of_devices else [logical, resolved]
        if not stat.S_ISREG(status.st_mode):
            return  # a pipe has no folder
        if model is not None and identity_of(status) != identity_of(model):
            self._fault = "the model's file was replaced while it was loaded, so that its folder is not sure"
            return
        self._all = folders

    def _add_root(self, root: str) -> None:
        try:
            status = os.stat(root)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except OSError as error:
            raise SourceError.from_os_error(error, root, "external_root= takes a folder that is there") from None
        self._root = identity_of(status)
        self._all.append(_Folder(os.path.join(os.getcwd(), root), root, self._root))

    def check(self, location: str) -> None:
        """Raise ExternalDataError for a location that is refused whatever is there."""
        reason = fault_of(location)
        if reason:
            raise self._refused(location, reason)

    def open(self, location: str) -> tuple[int, str]:
        """Open a file for reading, in the first of the folders that has one at the location.

        Returns its descriptor and its name for errors. Raises ExternalDataError and SourceError.
        """
        self.check(location)
        if not self._all:
            raise self._refused(location, f"{self._fault}; name one with external_root=, or give external_data=")
        missing: list[tuple[OSError, str]] = []
        for folder in self._all:
            name = os.path.join(folder.name, location)
            try:
                return (self._open_at if _HAS_DIR_FD else self._open_by_path)(folder, location), name
            except (FileNotFoundError, NotADirectoryError) as error:
                # Without its frames, which would keep the arrays that callers make.
                missing.append((error.with_traceback(None), name))
            except OSError as error:
                raise SourceError.from_os_error(error, name, _way_out(error)) from None
        raise SourceError.from_os_error(*missing[0], _COPY_IT) from None

    def _refused(self, location: str, reason: str) -> ExternalDataError:
        shown = repr(location if len(location) <= 200 else location[:200] + "…")
        return ExternalDataError(f"its external data at {shown} is not read: {reason}", source=self._model)

    def _open_at(self, folder: _Folder, location: str) -> int:
        """Open a file for reading, each name in the folder before it; raises OSError and ExternalDataError."""
        start = os.open(folder.path, PASS)
        try:
            self._check_folder(location, folder, os.fstat(start))
            here, name, status = walk(start, location.encode())
            assert status is not None
        finally:
            os.close(start)
        try:
            chain = _folders_above(here)
            self._check_place(location, status, chain)
            descriptor = os.open(name, _READ, dir_fd=here)
            try:
                self._check_file(location, descriptor, chain, lambda: os.lstat(name, dir_fd=here))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor
        finally:
            os.close(here)

    def _open_by_path(self, folder: _Folder, location: str) -> int:
        """As `_open_at`, where the system can't open a name in an open folder, as on Windows.

        What is refused there is refused here, except to somebody who swaps folders at just the right moments.
        """
        self._check_folder(location, folder, os.stat(folder.path))
        path = os.path.join(folder.path, location)
        real = os.path.realpath(path, strict=True)
        above = os.path.dirname(real)
        chain: list[Identity] = []
        while not chain or above != os.path.dirname(above):
            chain.append(identity_of(os.stat(above)))
            above = os.path.dirname(above)
        self._check_place(location, os.lstat(real), chain)
        descriptor = os.open(real, _READ)
        try:
            self._check_file(location, descriptor, chain, lambda: os.lstat(real))
            if os.path.realpath(path) != real or identity_of(os.lstat(real)) != identity_of(os.fstat(descriptor)):
                raise self._refused(location, _CHANGED)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_folder(self, location: str, folder: _Folder, status: os.stat_result) -> None:
        if identity_of(status) != folder.identity:
            reason = f"the folder {folder.path} is another one than when the model was loaded; load it again"
            raise self._refused(location, reason)

    def _check_place(self, location: str, status: os.stat_result, chain: Collection[Identity]) -> None:
        """Refuse what lies in none of the folders, and what is no file."""
        if not any(folder.identity in chain for folder in self._all):
            raise self._refused(location, f"a symbolic link leads out of the model's folder; {_COPY_IT}")
        self._check_type(location, status)

    def _check_type(self, location: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            kind = _TYPES.get(stat.S_IFMT(status.st_mode), "a device")
            raise self._refused(location, f"it is {kind}, and no file")

    def _check_file(
        self, location: str, descriptor: int, chain: Collection[Identity], look_again: Callable[[], os.stat_result]
    ) -> None:
        """Refuse an opened file that is none, or that may be somebody else's under a second name (hard link)."""
        status = os.fstat(descriptor)
        self._check_type(location, status)
        if self._root in chain:
            return
        if status.st_nlink > 1 and (not _HAS_DIR_FD or self._count_names(status) < status.st_nlink):
            raise self._refused(
                location,
                f"the file has {status.st_nlink} names (hard links), not all of them found in the model's folder, and "
                f"so may be one from elsewhere; {_COPY_IT}",
            )
        # A name that was taken off since, or moved, was perhaps not counted, or twice; this changes the ctime.
        if len({(*identity_of(s), s.st_nlink, s.st_ctime_ns) for s in (status, look_again())}) > 1:
            raise self._refused(location, _CHANGED)

    def _count_names(self, wanted: os.stat_result) -> int:
        """How many of a file's names are in the folders or below, as far as they are looked through."""
        found, left = 0, _MAX_NAMES
        seen: set[Identity] = set()

        def look(path: str, above: int | None, depth: int) -> None:
            nonlocal found, left
            folder = os.open(path, LIST | (NO_FOLLOW if depth else 0), dir_fd=above)
            try:
                identity = identity_of(os.fstat(folder))
                if identity in seen or depth > _MAX_DEPTH:
                    return
                seen.add(identity)
                with os.scandir(folder) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0 or found == wanted.st_nlink:
                            return
                        with suppress(OSError):  # a folder that may not be listed, or what is gone
                            if entry.is_dir(follow_symlinks=False):
                                look(entry.name, folder, depth + 1)
                            elif entry.inode() == wanted.st_ino:
                                found += identity_of(entry.stat(follow_symlinks=False)) == identity_of(wanted)
            finally:
                os.close(folder)

        for folder in self._all:
            with suppress(OSError):
                look(folder.path, None, 0)
        return found


def _folder_of(path: str, name: str) -> tuple[_Folder, os.stat_result]:
    """The folder that a path's last name is in, and the status of what has that name in it; raises OSError."""
    folder, last = os.path.split(path)
    if not _HAS_DIR_FD:
        return _Folder(folder, name, identity_of(os.stat(folder))), os.lstat(path)
    here = os.open(folder, PASS)
    try:
        return _Folder(folder, name, identity_of(os.fstat(here))), os.lstat(last, dir_fd=here)
    finally:
        os.close(here)


def fault_of(location: str) -> str:
    """What forbids a location, whatever is there; "" where nothing does.

    The same on all systems, but for names that mean something else on Windows. Source: docs/ExternalData.md.
    """
    if not location:
        return "it is empty"
    names = location.split("/")
    try:
        encoded = location.encode()
    except UnicodeEncodeError:
        return "it is no UTF-8 text"
    if location.startswith("#") or location == "*/_ORT_MEM_ADDR_/*":
        return "it marks data in the memory of the program that wrote it, which is not in any file"
    if len(encoded) > _LONGEST:
        return f"it is longer than {_LONGEST:,} bytes"
    if any(letter < " " or "\x7f" <= letter <= "\x9f" for letter in location):
        return "it holds a NUL or another control character"
    if "\\" in location:
        return "it holds a backslash; folders are separated by / on all systems"
    if location.startswith("/"):
        return "it is absolute; locations begin at the model's folder"
    if location[1:2] == ":" and location[0].isascii() and location[0].isalpha():
        return "it begins with a drive; locations begin at the model's folder"
    if ".." in names:
        return "it holds .., which leads out of the model's folder"
    if names[-1] in ("", "."):
        return "it names a folder, and no file"
    if _WINDOWS:
        for name in names:
            if ":" in name or name.split(".")[0].rstrip(" ").upper() in _RESERVED:
                return f"{name!r} is a device or stream on Windows"
            if name.endswith((".", " ")) and name != ".":
                return f"{name!r} ends as no name does on Windows"
    return ""


def _folders_above(folder: int) -> list[Identity]:
    """An open folder and all that it lies in, up to the root or to one that may not be passed."""
    here = os.dup(folder)
    chain: list[Identity] = []
    try:
        while True:
            identity = identity_of(os.fstat(here))
            if identity in chain[-1:]:
                return chain  # the root lies in itself
            chain.append(identity)
            try:
                inner, here = here, os.open("..", PASS, dir_fd=here)
            except OSError:
                return chain
            os.close(inner)
    finally:
        os.close(here)


def _map(descriptor: int, size: int) -> Buffer:
    import mmap

    # Where it can be helped (Python 3.13), no second descriptor is kept: models of a file a tensor have many.
    options = {"trackfd": False} if sys.version_info >= (3, 13) and not _WINDOWS else {}
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ, **options)


def _way_out(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit (ulimit -n), or gather the model's data in one file"
    return ""


if hasattr(os, "preadv"):

    def _read_at(descriptor: int, out: memoryview, offset: int) -> int:
        return os.preadv(descriptor, [out], offset)
else:
    from threading import Lock

    _POSITION = Lock()

    def _read_at(descriptor: int, out: memoryview, offset: int) -> int:
        with _POSITION:
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, min(len(out), _PIECE))
        out[: len(data)] = data
        return len(data)
