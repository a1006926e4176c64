"""Open folders, use files in them by name, and follow paths link by link.

The same path, used twice, may lead to two files, because any user who may write to a folder on the path can insert a
link in between. Therefore a folder is opened once, and names are used relative to the open folder. On systems without
calls for this, such as Windows, paths are used.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from onnxwire.errors import SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self

    Identity = tuple[int, int]
    """The device and inode of a file or folder, unique while it exists."""

# Whether the system can use names relative to an open folder.
HAS_DIR_FD = {os.open, os.link, os.mkdir, os.readlink, os.rename, os.rmdir, os.stat, os.unlink} <= os.supports_dir_fd
HAS_DIR_FD = HAS_DIR_FD and {os.scandir, os.listdir} <= os.supports_fd
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
LIST_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# Traversing a folder does not require permission to list it.
TRAVERSE_FLAGS = LIST_FLAGS | getattr(os, "O_PATH", getattr(os, "O_SEARCH", 0))
OPEN_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MAX_LINKS = 40  # followed in one path, as on Linux


def identity_of(status: os.stat_result) -> Identity:
    """Return the identity of a file or folder, which does not depend on its path."""
    return status.st_dev, status.st_ino


def match_pattern(pattern: str) -> list[str]:
    """Return the paths that a pattern matches, in arbitrary order; ** matches any number of folders.

    Raises SourceError if the pattern, or the folders that it matches, are nested deeper than Python's recursion limit.
    """
    import glob

    try:
        return glob.glob(pattern, recursive=True)
    except RecursionError:
        reason = "the folders are nested too deeply for the pattern; start it in a folder closer to the files"
        raise SourceError(errno.ENAMETOOLONG, reason, pattern) from None


def absolute_path(path: str) -> str:
    """Return an absolute path, without resolving links or "..": only the system can resolve them correctly."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


class Folder:
    """An open folder. Its methods take names in the folder, and follow no link of that name, except `open` on Windows.

    path: used in errors, and to access the folder if the system can't use names in an open folder. descriptor: the
    descriptor of the open folder, closed with the object; -1 if paths are used. All methods raise OSError.
    """

    def __init__(self, path: str, descriptor: int = -1) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open the folder at a path. Links on the path are followed."""
        return cls(path, os.open(path or os.curdir, TRAVERSE_FLAGS)) if HAS_DIR_FD else cls(path)

    @property
    def _dir_fd(self) -> int | None:
        return self._descriptor if self._descriptor >= 0 else None

    def _name_or_path(self, name: str) -> str:
        return name if self._descriptor >= 0 else os.path.join(self.path, name)

    def subfolder(self, name: str) -> Folder:
        """Open a subfolder."""
        path = os.path.join(self.path, name)
        if self._descriptor >= 0:
            return Folder(path, os.open(name, TRAVERSE_FLAGS | NO_FOLLOW, dir_fd=self._descriptor))
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return Folder(path)

    def copy(self) -> Folder:
        """Return the same folder with a descriptor of its own."""
        return Folder(self.path, os.dup(self._descriptor) if self._descriptor >= 0 else -1)

    def is_same(self, other: Folder) -> bool:
        """Return whether both are the same folder."""
        if self._descriptor < 0:
            return os.path.samefile(self.path, other.path)
        return os.path.samestat(os.fstat(self._descriptor), os.fstat(other._descriptor))

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open or create a file. Return its descriptor."""
        return os.open(self._name_or_path(name), flags | NO_FOLLOW | OPEN_FLAGS, mode, dir_fd=self._dir_fd)

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of the entry of a name, without following a link; None if there is no such entry."""
        with suppress(FileNotFoundError):
            return os.stat(self._name_or_path(name), dir_fd=self._dir_fd, follow_symlinks=False)
        return None

    def contains(self, name: str, identity: Identity | None) -> bool:
        """Return whether a name refers to the file or folder with this identity."""
        status = self.status(name)
        return status is not None and identity_of(status) == identity

    def replace(self, old: str, new: str) -> None:
        """Rename a file, replacing a file or link of the new name."""
        os.replace(self._name_or_path(old), self._name_or_path(new), src_dir_fd=self._dir_fd, dst_dir_fd=self._dir_fd)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._name_or_path(name), dir_fd=self._dir_fd)

    def mkdir(self, name: str) -> None:
        """Create a subfolder."""
        os.mkdir(self._name_or_path(name), dir_fd=self._dir_fd)

    def rmdir(self, name: str) -> None:
        """Remove an empty subfolder."""
        os.rmdir(self._name_or_path(name), dir_fd=self._dir_fd)

    def link(self, descriptor: int, name: str) -> None:
        """Give an open file that has no name a name in the folder (Linux)."""
        # Python calls linkat, which can follow the link, only if a directory descriptor is passed. The system ignores
        # the descriptor, because the path is absolute.
        path = f"/proc/self/fd/{descriptor}"
        os.link(path, self._name_or_path(name), src_dir_fd=descriptor, dst_dir_fd=self._dir_fd, follow_symlinks=True)

    def names(self) -> list[str]:
        """Return the names of all entries."""
        if self._descriptor < 0:
            return os.listdir(self.path)
        # The descriptor may have been opened for traversal only.
        descriptor = self.open(os.curdir, LIST_FLAGS)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the descriptor. No-op if it is closed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_parent(path: str) -> tuple[Folder, str] | int:
    """Follow the symbolic links of a path. Return the open folder of the file, which may be absent, and its name there.

    Return a descriptor number if the path names an open descriptor, as /dev/stdout does: a file opened by that name
    would be written from its beginning, or be replaced. Raises OSError, also for a link in a sticky folder that `walk`
    rejects.
    """
    if not HAS_DIR_FD:
        return _open_parent_by_path(path)
    start = os.open("/" if os.path.isabs(path) else os.curdir, TRAVERSE_FLAGS)
    try:
        folder, last_name, _ = walk(start, os.fsencode(path), may_be_new=True)
    finally:
        os.close(start)
    name = os.fsdecode(last_name)
    if _is_descriptor(folder, name):
        os.close(folder)
        return int(name)
    # Errors show the caller's path if it is not a link.
    path = absolute_path(path)
    return Folder(os.path.dirname(os.path.realpath(path) if os.path.islink(path) else path), folder), name


def _open_parent_by_path(path: str) -> tuple[Folder, str] | int:
    """Return the result of `open_parent` on systems that can't use names relative to an open folder."""
    path = absolute_path(path)
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(path)
        if name.isdecimal() and os.path.realpath(folder) in ("/dev/fd", f"/proc/{os.getpid()}/fd"):
            return int(name)
        try:
            path = os.path.join(folder, os.readlink(path))
        except OSError:
            if not os.path.isdir(folder):
                os.stat(folder)  # raises the error to report
            return Folder(folder), name
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def walk(start: int, path: bytes, *, may_be_new: bool = False) -> tuple[int, bytes, os.stat_result | None]:
    """Follow a path from an open folder, resolving symbolic links one by one.

    Returns a new descriptor of the folder that contains the file, the file's name, and its status; the file is never a
    link. may_be_new: return None as the status if there is no such file, and for names of open descriptors.
    A link in a world-writable sticky folder, such as /tmp, is followed only if the user or the folder's owner owns it,
    as Linux does with protected_symlinks, because any user can create one there.
    Raises the OSError that opening the path would raise, and PermissionError for a link that is not followed.
    """
    components, n_links, folder = reversed_components(path), 0, os.dup(start)
    try:
        while True:
            name = components.pop() if components else b"."
            if may_be_new and not components and _is_descriptor(folder, os.fsdecode(name)):
                return folder, name, None
            try:
                status = os.lstat(name, dir_fd=folder)
            except FileNotFoundError:
                if may_be_new and not components:
                    return folder, name, None
                raise
            if stat.S_ISLNK(status.st_mode):
                n_links += 1
                if n_links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                _check_link(os.fstat(folder), status)
                target = os.readlink(name, dir_fd=folder)
                components += reversed_components(target)
                if not target.startswith(b"/"):
                    continue
                name = b"/"
            elif not components:
                return folder, name, status
            # This fails if the folder was replaced by a link in the meantime.
            parent, folder = folder, os.open(name, TRAVERSE_FLAGS | NO_FOLLOW, dir_fd=folder)
            os.close(parent)
    except BaseException:
        os.close(folder)
        raise


def reversed_components(path: bytes) -> list[bytes]:
    """Return the components of a path in reverse order, without empty names and "."."""
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]


def _check_link(folder: os.stat_result, link: os.stat_result) -> None:
    """Raise PermissionError for a link in a world-writable sticky folder, except the user's and the folder owner's."""
    shared = stat.S_ISVTX | stat.S_IWOTH
    if folder.st_mode & shared == shared and link.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(errno.EACCES, "another user's symbolic link in a world-writable folder is not followed")


def _is_descriptor(folder: int, name: str) -> bool:
    """Return whether an open folder is /dev/fd, and a name in it is a descriptor number."""
    if not (name.isascii() and name.isdecimal()):
        return False
    with suppress(OSError):
        return os.path.samestat(os.fstat(folder), os.stat("/dev/fd"))
    return False
