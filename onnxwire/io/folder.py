"""Folders that stay open while files in them are opened, made, renamed and removed, and the way to a file by hand.

A path that is used twice may lead to two files: who may write in a folder on it can put a link there in between. So a
folder is opened once, and names are used in it, not paths. Systems without such calls, as Windows, get paths.
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
    """The device and inode of a file or folder, which no other has while it is there."""

HAS_DIR_FD = {os.open, os.link, os.mkdir, os.readlink, os.rename, os.rmdir, os.stat, os.unlink} <= os.supports_dir_fd
HAS_DIR_FD = HAS_DIR_FD and {os.scandir, os.listdir} <= os.supports_fd
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
LIST = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# A folder need not be readable to be passed through.
PASS = LIST | getattr(os, "O_PATH", getattr(os, "O_SEARCH", 0))
FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MAX_LINKS = 40  # as in Linux


def identity_of(status: os.stat_result) -> Identity:
    """The identity of a file or folder, whatever its path."""
    return status.st_dev, status.st_ino


def match_pattern(pattern: str) -> list[str]:
    """Return the paths that a pattern matches, in no order; ** matches any folders.

    Raises SourceError where the pattern, or the folders that it matches, are nested deeper than Python's calls may be.
    """
    import glob

    try:
        return glob.glob(pattern, recursive=True)
    except RecursionError:
        reason = "the folders are nested too deeply for the pattern; start it in a folder nearer to the files"
        raise SourceError(errno.ENAMETOOLONG, reason, pattern) from None


def whole(path: str) -> str:
    """A path from the root on, so that a change of the working directory does not move it."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


class Folder:
    """An open folder, which is used by the names in it. None of its methods follows a symbolic link.

    path: what errors call it, and the way to it where the system can't use names in an open folder; descriptor: it,
    opened, and closed with the object; -1 there. All methods raise OSError.
    """

    def __init__(self, path: str, descriptor: int = -1) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: str) -> Folder:
        """Open the folder at a path, whose links are followed."""
        return cls(path, os.open(path or os.curdir, PASS)) if HAS_DIR_FD else cls(path)

    @property
    def _at(self) -> int | None:
        return self._descriptor if self._descriptor >= 0 else None

    def _name(self, name: str) -> str:
        return name if self._descriptor >= 0 else os.path.join(self.path, name)

    def inner(self, name: str) -> Folder:
        """Open a folder in it."""
        path = os.path.join(self.path, name)
        if self._descriptor >= 0:
            return Folder(path, os.open(name, PASS | NO_FOLLOW, dir_fd=self._descriptor))
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return Folder(path)

    def copy(self) -> Folder:
        """The same folder, opened once more."""
        return Folder(self.path, os.dup(self._descriptor) if self._descriptor >= 0 else -1)

    def is_same(self, other: Folder) -> bool:
        """Whether both are the same folder."""
        if self._descriptor < 0:
            return os.path.samefile(self.path, other.path)
        return os.path.samestat(os.fstat(self._descriptor), os.fstat(other._descriptor))

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open or make a file; returns its descriptor."""
        return os.open(self._name(name), flags | NO_FOLLOW | FLAGS, mode, dir_fd=self._at)

    def status(self, name: str) -> os.stat_result | None:
        """The status of what has a name, a link itself included; None where nothing has."""
        with suppress(FileNotFoundError):
            return os.stat(self._name(name), dir_fd=self._at, follow_symlinks=False)
        return None

    def holds(self, name: str, identity: Identity | None) -> bool:
        """Whether a name is that of the file or folder with this identity."""
        status = self.status(name)
        return status is not None and identity_of(status) == identity

    def replace(self, old: str, new: str) -> None:
        """Give a file another name, instead of what has it."""
        os.replace(self._name(old), self._name(new), src_dir_fd=self._at, dst_dir_fd=self._at)

    def unlink(self, name: str) -> None:
        """Remove a file."""
        os.unlink(self._name(name), dir_fd=self._at)

    def mkdir(self, name: str) -> None:
        """Make a folder in it."""
        os.mkdir(self._name(name), dir_fd=self._at)

    def rmdir(self, name: str) -> None:
        """Remove an empty folder in it."""
        os.rmdir(self._name(name), dir_fd=self._at)

    def link(self, nameless: int, name: str) -> None:
        """Give a name to an open file that has none (Linux)."""
        # With a directory descriptor Python calls linkat, which can follow the link; the path makes it meaningless.
        path = f"/proc/self/fd/{nameless}"
        os.link(path, self._name(name), src_dir_fd=nameless, dst_dir_fd=self._at, follow_symlinks=True)

    def names(self) -> list[str]:
        """The names of all that is in it."""
        if self._descriptor < 0:
            return os.listdir(self.path)
        # It may be open only to be passed through.
        descriptor = self.open(os.curdir, LIST)
        try:
            return os.listdir(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find(path: str) -> tuple[Folder, str] | int:
    """Where a path to a file leads through symbolic links: an open folder and a name in it, which need not be there.

    A number, an open descriptor, where the path is one of those, as of /dev/stdout: opened by its name, it would be
    written from its beginning, or be replaced. Raises OSError, also for a link in a sticky folder that `walk` refuses.
    """
    if not HAS_DIR_FD:
        return _find_by_path(path)
    start = os.open("/" if os.path.isabs(path) else os.curdir, PASS)
    try:
        here, last, _ = walk(start, os.fsencode(path), may_be_new=True)
    finally:
        os.close(start)
    name = os.fsdecode(last)
    if _is_descriptor(here, name):
        os.close(here)
        return int(name)
    # Of a path without links, as it was given.
    path = whole(path)
    return Folder(os.path.dirname(os.path.realpath(path) if os.path.islink(path) else path), here), name


def _find_by_path(path: str) -> tuple[Folder, str] | int:
    path = whole(path)
    for _ in range(_MAX_LINKS):
        folder, name = os.path.split(path)
        if name.isdecimal() and os.path.realpath(folder) in ("/dev/fd", f"/proc/{os.getpid()}/fd"):
            return int(name)
        try:
            path = os.path.join(folder, os.readlink(path))
        except OSError:
            if not os.path.isdir(folder):
                os.stat(folder)  # raises what is to be told
            return Folder(folder), name
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def walk(start: int, path: bytes, *, may_be_new: bool = False) -> tuple[int, bytes, os.stat_result | None]:
    """Follow a path and the symbolic links on it by hand from an open folder.

    Returns a new descriptor of the folder it leads to, the last name, and the status of that, which is not a link.
    may_be_new: where nothing has the last name the status is None, as it is for the names of open descriptors.
    A link in a sticky folder that everybody may write in, such as /tmp, is followed only where it is the user's or the
    folder's owner's own, as Linux does it (protected_symlinks): anybody can put one there.
    Raises OSError as opening the path would.
    """
    rest, links, here = names_of(path), 0, os.dup(start)
    try:
        while True:
            name = rest.pop() if rest else b"."
            if may_be_new and not rest and _is_descriptor(here, os.fsdecode(name)):
                return here, name, None
            try:
                status = os.lstat(name, dir_fd=here)
            except FileNotFoundError:
                if may_be_new and not rest:
                    return here, name, None
                raise
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                _refuse_strange(os.fstat(here), status)
                target = os.readlink(name, dir_fd=here)
                rest += names_of(target)
                if not target.startswith(b"/"):
                    continue
                name = b"/"
            elif not rest:
                return here, name, status
            # Where it was replaced by a link since, this fails.
            outer, here = here, os.open(name, PASS | NO_FOLLOW, dir_fd=here)
            os.close(outer)
    except BaseException:
        os.close(here)
        raise


def names_of(path: bytes) -> list[bytes]:
    """The names of a path, the first one last."""
    return [name for name in reversed(path.split(b"/")) if name not in (b"", b".")]


def _refuse_strange(folder: os.stat_result, link: os.stat_result) -> None:
    """Raise PermissionError for a link that somebody may have put in a folder of all."""
    everybodys = stat.S_ISVTX | stat.S_IWOTH
    if folder.st_mode & everybodys == everybodys and link.st_uid not in (os.geteuid(), folder.st_uid):
        raise PermissionError(
            errno.EACCES, "a symbolic link of somebody else, in a folder that everybody may write in, is not followed"
        )


def _is_descriptor(folder: int, name: str) -> bool:
    """Whether a name in an open folder is that of an open descriptor of this process."""
    if not (name.isascii() and name.isdecimal()):
        return False
    with suppress(OSError):
        return os.path.samestat(os.fstat(folder), os.stat("/dev/fd"))
    return False
