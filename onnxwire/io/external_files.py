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
from contextlib import contextmanager, suppress

from onnxwire.engine.document import Document
from onnxwire.errors import ClosedError, Error, ExternalDataError, SourceError
from onnxwire.io.folder import HAS_DIR_FD as _HAS_DIR_FD
from onnxwire.io.folder import LIST, NO_FOLLOW, PASS, identity_of, walk, whole
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.external_file import ExternalFile, way_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from typing_extensions import Buffer

    from onnxwire.io.folder import Identity

    Data = Mapping[str, Buffer] | Callable[[str], Buffer | None]
    """The data given instead of files, by location."""

_MAX_NAMES = 10_000  # entries of folders that are looked at for the names of one hard-linked file
_MAX_DEPTH = 32  # folders in folders that are

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | NO_FOLLOW

_CHANGED = "the file was changed or replaced while it was opened; load the model again"
_COPY_IT = "copy the file there, or name its folder with external_root="
_TYPES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


class ExternalFiles:
    """The files that the tensors of one model name as external data, each opened once, when it is first asked for.

    model_path: where the model was read from, or None for one that came from no file and so has no folder. root:
    another folder that files may be in, as the user says (`external_root`); hard links in it are not looked into. data:
    buffers by location, or a function from location to buffer or None, which come first (`external_data`). mmap: map
    the files, else read what is asked for. model: the status of the file that was opened as the model; where another
    one has come to be at the path since, its folder is not taken for the model's.
    folder: of the path as it was given, or None. Raises SourceError where root is not a folder.
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

    def is_beside(self, path: str) -> bool:
        """Whether a path is one of a file in the folder that the model was read from."""
        if self.folder is None:
            return False
        # What is wrong with the path is told where it is opened.
        with suppress(OSError):
            return os.path.realpath(self.folder) == os.path.realpath(os.path.dirname(whole(path)))
        return False

    def keep(self, location: str) -> None:
        """Open the file at a location, if there is one, so that it is still had when another one replaces it."""
        with suppress(Error):
            self.open(location)

    def status_of(self, location: str, *, only_open: bool) -> os.stat_result | None:
        """The status of the file at a location, None where there is none; only_open: of one that was not opened too."""
        with suppress(Error, OSError):
            if location in self._by_location or (not only_open and self._data is None):
                with self.look_at(location) as file:
                    return os.fstat(file.descriptor) if file.descriptor >= 0 else None
        return None

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
        path = whole(model_path)
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
        except (OSError, ValueError) as error:
            raise SourceError.from_os_error(error, root, "external_root= takes a folder that is there") from None
        self._root = identity_of(status)
        self._all.append(_Folder(whole(root), root, self._root))

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
                raise SourceError.from_os_error(error, name, way_out(error)) from None
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
            self._check_inside(location, status, chain)
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
        self._check_inside(location, os.lstat(real), chain)
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

    def _check_inside(self, location: str, status: os.stat_result, chain: Collection[Identity]) -> None:
        """Refuse what lies in none of the folders, and what is not a file."""
        if not any(folder.identity in chain for folder in self._all):
            raise self._refused(location, f"a symbolic link leads out of the model's folder; {_COPY_IT}")
        self._check_type(location, status)

    def _check_type(self, location: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            kind = _TYPES.get(stat.S_IFMT(status.st_mode), "a device")
            raise self._refused(location, f"it is {kind}, not a file")

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
