"""Open external data files, and decide which files a model may refer to.

The author of the model chooses the locations, and may have created the folder. Therefore a location is followed
component by component, each opened relative to the previous folder, and access is decided by the file that was opened,
not by its path. A file may be read if it is in or below the folder of the model's path, the folder of the file to which
the model's symbolic link leads, or `external_root`. All hard links of a file outside of `external_root` must be in or
below these folders, too.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress

from onnxwire.engine.document import Document
from onnxwire.errors import ClosedError, Error, ExternalDataError, SourceError
from onnxwire.io.folder import HAS_DIR_FD as _HAS_DIR_FD
from onnxwire.io.folder import LIST_FLAGS, NO_FOLLOW, TRAVERSE_FLAGS, absolute_path, identity_of, walk
from onnxwire.tensor.external_data import fault_of
from onnxwire.tensor.external_file import ExternalFile, advice_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from typing_extensions import Buffer

    from onnxwire.io.folder import Identity

    Data = Mapping[str, Buffer] | Callable[[str], Buffer | None]
    """Data that replaces files, by location."""

_MAX_ENTRIES = 10_000  # directory entries searched for the names of one hard-linked file
_MAX_DEPTH = 32  # levels of folders searched

# Opening a pipe does not wait for a writer, and a terminal does not become the controlling terminal.
_READ_FLAGS = (
    os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | NO_FOLLOW
)

_CHANGED_ERROR = "the file was changed or replaced while it was opened; load the model again"
ROOT_ADVICE = "or pass its folder as external_root="
_TYPE_NAMES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


class ExternalFiles:
    """The external data files of one model. Each file is opened once, on first use.

    model_path: the path of the model; None if it was not read from a file. root: another trusted folder
    (`external_root`), in which hard links are not checked. data: buffers by location, or a function from location to
    buffer or None, which take precedence over files (`external_data`). mmap: map the files; else read on demand.
    model_status: the status of the opened model file; if model_path now leads to another file, its folder is not used.
    Raises SourceError if root is not a folder, TypeError if data is neither a mapping nor a function.
    Attributes: folder: the folder part of model_path, or None.
    """

    def __init__(
        self,
        model_path: str | None,
        *,
        root: str | os.PathLike[str] | None = None,
        data: Data | None = None,
        mmap: bool = True,
        model_status: os.stat_result | None = None,
    ) -> None:
        if data is not None and not callable(data) and not hasattr(data, "get"):
            raise TypeError(f"external_data is a mapping or a function, not {type(data).__name__}")
        self.folder = None if model_path is None else os.path.dirname(model_path)
        self._folders = AllowedFolders(model_path, root, model_status)
        self._data = data
        self._mmap = mmap
        self._by_location: dict[str, ExternalFile] = {}
        self._by_identity: dict[Identity, ExternalFile] = {}
        self._is_closed = False

    def open(self, location: str) -> ExternalFile:
        """Return the file of a location, opened if necessary. Locations of the same file share one ExternalFile.

        Raises ExternalDataError for a location that is not allowed, SourceError for a file that is missing or can't be
        read, ClosedError after `close`, TypeError for data of the caller that is not a contiguous buffer.
        """
        file = self._by_location.get(location)
        if file is None:
            if self._is_closed:
                raise ClosedError("the files of external data were closed with their model; load it again")
            file = self._by_location.setdefault(location, self._find_data(location) or self._open_file(location))
        return file

    def open_all(self, locations: Iterable[str]) -> None:
        """Prepare to open files. No-op for files of this machine: each is opened when it is used."""

    @contextmanager
    def open_temporarily(self, location: str) -> Iterator[ExternalFile]:
        """Open the file of a location for a with block, without mapping it. Close it afterwards if it was not open.

        Only one additional file is open at a time, so any number of files can be visited. Raises the errors of `open`
        except ClosedError.
        """
        file = self._by_location.get(location) or self._find_data(location)
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
        """Return whether a path is in the folder that the model was read from."""
        if self.folder is None:
            return False
        # A fault of the path is reported where it is opened.
        with suppress(OSError):
            return os.path.realpath(self.folder) == os.path.realpath(os.path.dirname(absolute_path(path)))
        return False

    def keep_open(self, location: str) -> None:
        """Open the file of a location, if it exists, so that its data stays readable after it is replaced."""
        with suppress(Error):
            self.open(location)

    def status_of(self, location: str, *, if_open: bool) -> os.stat_result | None:
        """Return the status of the file of a location; None if it can't be opened, or is a buffer of the caller.

        None is also returned for a file that is not open, if `if_open` is true or the caller passed external_data.
        """
        with suppress(Error, OSError):
            if location in self._by_location or (not if_open and self._data is None):
                with self.open_temporarily(location) as file:
                    return os.fstat(file.descriptor) if file.descriptor >= 0 else None
        return None

    def add(self, location: str, file: ExternalFile) -> ExternalFile:
        """Register the open file of a location, which `close` will close."""
        self._by_location[location] = file
        return file

    def check_unused(self) -> None:
        """Raise InUseError if arrays or memoryviews reference one of the files."""
        for file in self._by_location.values():
            file.check_unused()

    def close(self) -> None:
        """Close all files. If arrays or memoryviews reference one of them, close none, and raise InUseError."""
        self.check_unused()
        self._is_closed = True
        for file in self._by_location.values():
            file.close()
        self._by_location.clear()
        self._by_identity.clear()

    def _find_data(self, location: str) -> ExternalFile | None:
        """Return an ExternalFile of the data that the caller passed for a location, or None if there is none."""
        if self._data is None:
            return None
        if callable(self._data):
            # The function may use the location as a path.
            self._folders.check(location)
            data = self._data(location)
        else:
            data = self._data.get(location)
        if data is None:
            return None
        try:
            return ExternalFile(Document(data, location))
        except (TypeError, ValueError, BufferError) as error:
            raise TypeError(f"external_data for {location!r} is not a contiguous buffer of bytes: {error}") from None

    def _open_file(self, location: str) -> ExternalFile:
        """Open the file of a location, or return the open one if another location leads to the same file."""
        descriptor, name = self._folders.open(location)
        identity = identity_of(os.fstat(descriptor))
        file = self._by_identity.get(identity)
        if file is not None:
            os.close(descriptor)
            return file
        return self._by_identity.setdefault(identity, ExternalFile.from_descriptor(descriptor, name, mmap=self._mmap))


class _Folder:
    """An allowed folder: its absolute path, its name in errors, and its identity."""

    def __init__(self, path: str, name: str, identity: Identity) -> None:
        self.path = path
        self.name = name
        self.identity = identity


class AllowedFolders:
    """The folders in which external data is allowed. Parameters: as for ExternalFiles."""

    def __init__(
        self, model_path: str | None, root: str | os.PathLike[str] | None, model_status: os.stat_result | None
    ) -> None:
        self._model_path = model_path or ""
        self._allowed: list[_Folder] = []
        self._root_identity: Identity | None = None
        # The reason why no folder of the model is allowed, if none is.
        self._fault = "the model was not read from a file, so it has no folder"
        if model_path is not None:
            try:
                self._add_model_folders(model_path, model_status)
            except OSError as error:
                self._fault = f"the model's folder can't be found ({error.strerror})"
        if root is not None:
            self._add_root(os.fspath(root))

    def _add_model_folders(self, model_path: str, model_status: os.stat_result | None) -> None:
        """Allow the folder of the model's path and, if the path is a link, that of its target. Raises OSError."""
        path = absolute_path(model_path)
        path_folder, status = _folder_of(path, os.path.dirname(model_path))
        folders = [path_folder]
        if stat.S_ISLNK(status.st_mode):
            real_path = os.path.realpath(path)
            target_folder, status = _folder_of(real_path, os.path.dirname(real_path))
            # If the path is /dev/stdin, a link to a file, the other files in /dev must not be allowed.
            folder = os.path.realpath(path_folder.path)
            is_device_folder = folder == "/dev" or folder.startswith("/proc/")
            folders = [target_folder] if is_device_folder else [path_folder, target_folder]
        if not stat.S_ISREG(status.st_mode):
            return  # a pipe has no folder
        if model_status is not None and identity_of(status) != identity_of(model_status):
            self._fault = "the model's file was replaced while it was loaded, so its folder is unknown"
            return
        self._allowed = folders

    def _add_root(self, root: str) -> None:
        """Allow `external_root`. Raises SourceError if it is not a folder."""
        try:
            status = os.stat(root)
            if not stat.S_ISDIR(status.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except (OSError, ValueError) as error:
            raise SourceError.from_os_error(error, root, "external_root= must be an existing folder") from None
        self._root_identity = identity_of(status)
        self._allowed.append(_Folder(absolute_path(root), root, self._root_identity))

    def check(self, location: str) -> None:
        """Raise ExternalDataError for a location that is never allowed."""
        reason = fault_of(location)
        if reason:
            raise self._error(location, reason)

    def open(self, location: str) -> tuple[int, str]:
        """Open a file for reading, in the first allowed folder that contains the location.

        Returns its descriptor and its path for errors. Raises ExternalDataError and SourceError.
        """
        self.check(location)
        if not self._allowed:
            raise self._error(location, f"{self._fault}; pass external_root= or external_data=")
        missing_errors: list[tuple[OSError, str]] = []  # the error and path of each folder without the file
        for folder in self._allowed:
            name = os.path.join(folder.name, location)
            try:
                return (self._open_at if _HAS_DIR_FD else self._open_by_path)(folder, location), name
            except (FileNotFoundError, NotADirectoryError) as error:
                # The frames of the traceback would keep the callers' arrays alive.
                missing_errors.append((error.with_traceback(None), name))
            except OSError as error:
                raise SourceError.from_os_error(error, name, advice_for(error)) from None
        raise SourceError.from_os_error(*missing_errors[0], f"copy the file there, {ROOT_ADVICE}") from None

    def _error(self, location: str, reason: str) -> ExternalDataError:
        quoted = repr(location if len(location) <= 200 else location[:200] + "…")
        return ExternalDataError(f"its external data at {quoted} is not read: {reason}", source=self._model_path)

    def _open_at(self, folder: _Folder, location: str) -> int:
        """Open a file for reading, component by component. Raises OSError and ExternalDataError."""
        start = os.open(folder.path, TRAVERSE_FLAGS)
        try:
            self._check_folder(location, folder, os.fstat(start))
            parent, name, status = walk(start, location.encode())
            assert status is not None
        finally:
            os.close(start)
        try:
            ancestors = _folders_above(parent)
            self._check_inside(location, status, ancestors)
            descriptor = os.open(name, _READ_FLAGS, dir_fd=parent)
            try:
                self._check_file(location, descriptor, ancestors, lambda: os.lstat(name, dir_fd=parent))
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor
        finally:
            os.close(parent)

    def _open_by_path(self, folder: _Folder, location: str) -> int:
        """Open a file as `_open_at` does, on systems that can't open a name in an open folder, such as Windows.

        The checks are the same, except that a file with several hard links is rejected unless it is in `external_root`.
        An attacker who replaces folders between the checks can evade them.
        """
        self._check_folder(location, folder, os.stat(folder.path))
        path = os.path.join(folder.path, location)
        real_path = os.path.realpath(path, strict=True)
        parent_path = os.path.dirname(real_path)
        ancestors: list[Identity] = []
        while not ancestors or parent_path != os.path.dirname(parent_path):
            ancestors.append(identity_of(os.stat(parent_path)))
            parent_path = os.path.dirname(parent_path)
        self._check_inside(location, os.lstat(real_path), ancestors)
        descriptor = os.open(real_path, _READ_FLAGS)
        try:
            self._check_file(location, descriptor, ancestors, lambda: os.lstat(real_path))
            if os.path.realpath(path) != real_path or identity_of(os.lstat(real_path)) != identity_of(
                os.fstat(descriptor)
            ):
                raise self._error(location, _CHANGED_ERROR)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_folder(self, location: str, folder: _Folder, status: os.stat_result) -> None:
        """Raise ExternalDataError if a folder was replaced. status: the current status of its path."""
        if identity_of(status) != folder.identity:
            reason = f"the folder {folder.path} was replaced since the model was loaded; load it again"
            raise self._error(location, reason)

    def _check_inside(self, location: str, status: os.stat_result, ancestors: Collection[Identity]) -> None:
        """Raise ExternalDataError unless the file is regular, and in or below an allowed folder.

        status: the file's status. ancestors: the identities of the file's folder and the folders above it.
        """
        if not any(folder.identity in ancestors for folder in self._allowed):
            reason = (
                f"a symbolic link leads out of the allowed folders; replace it with a copy of the file, {ROOT_ADVICE}"
            )
            raise self._error(location, reason)
        self._check_type(location, status)

    def _check_type(self, location: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            kind = _TYPE_NAMES.get(stat.S_IFMT(status.st_mode), "a device")
            raise self._error(location, f"it is {kind}, not a file")

    def _check_file(
        self, location: str, descriptor: int, ancestors: Collection[Identity], read_status: Callable[[], os.stat_result]
    ) -> None:
        """Raise ExternalDataError unless the file is regular, and all its hard links are in or below allowed folders.

        The error is also raised if the file was changed or replaced while it was opened. Neither this nor the hard
        links are checked for a file in or below `external_root`. ancestors: as for `_check_inside`. read_status: reads
        the status of the file's path.
        """
        status = os.fstat(descriptor)
        self._check_type(location, status)
        if self._root_identity in ancestors:
            return
        if status.st_nlink > 1 and (not _HAS_DIR_FD or self._count_names(status) < status.st_nlink):
            raise self._error(
                location,
                f"the file has {status.st_nlink} names (hard links), not all of them found in the model's folder, so "
                f"it may belong to another folder; replace it with a copy, {ROOT_ADVICE}",
            )
        # A name that is removed or moved during the count makes the count wrong, and changes the ctime.
        if len({(*identity_of(s), s.st_nlink, s.st_ctime_ns) for s in (status, read_status())}) > 1:
            raise self._error(location, _CHANGED_ERROR)

    def _count_names(self, file_status: os.stat_result) -> int:
        """Return how many names of a file are in or below the allowed folders. The search is limited."""
        n_found, n_entries_left = 0, _MAX_ENTRIES
        visited: set[Identity] = set()

        def search(path: str, parent: int | None, depth: int) -> None:
            """Count the names in a folder and its subfolders. path: relative to the open folder `parent`, if any."""
            nonlocal n_found, n_entries_left
            folder = os.open(path, LIST_FLAGS | (NO_FOLLOW if depth else 0), dir_fd=parent)
            try:
                identity = identity_of(os.fstat(folder))
                if identity in visited or depth > _MAX_DEPTH:
                    return
                visited.add(identity)
                with os.scandir(folder) as entries:
                    for entry in entries:
                        n_entries_left -= 1
                        if n_entries_left < 0 or n_found == file_status.st_nlink:
                            return
                        with suppress(OSError):  # no permission to list the folder, or removed in the meantime
                            if entry.is_dir(follow_symlinks=False):
                                search(entry.name, folder, depth + 1)
                            elif entry.inode() == file_status.st_ino:
                                n_found += identity_of(entry.stat(follow_symlinks=False)) == identity_of(file_status)
            finally:
                os.close(folder)

        for folder in self._allowed:
            with suppress(OSError):
                search(folder.path, None, 0)
        return n_found


def _folder_of(path: str, name: str) -> tuple[_Folder, os.stat_result]:
    """Return the folder of a path, and the status of the path's last component in it. Raises OSError."""
    folder, file_name = os.path.split(path)
    if not _HAS_DIR_FD:
        return _Folder(folder, name, identity_of(os.stat(folder))), os.lstat(path)
    descriptor = os.open(folder, TRAVERSE_FLAGS)
    try:
        return _Folder(folder, name, identity_of(os.fstat(descriptor))), os.lstat(file_name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def _folders_above(folder: int) -> list[Identity]:
    """Return the identities of an open folder and its ancestors, up to the root or an inaccessible folder."""
    folder_descriptor = os.dup(folder)
    ancestors: list[Identity] = []
    try:
        while True:
            identity = identity_of(os.fstat(folder_descriptor))
            if identity in ancestors[-1:]:
                return ancestors  # the root is its own parent
            ancestors.append(identity)
            try:
                previous, folder_descriptor = folder_descriptor, os.open("..", TRAVERSE_FLAGS, dir_fd=folder_descriptor)
            except OSError:
                return ancestors
            os.close(previous)
    finally:
        os.close(folder_descriptor)
