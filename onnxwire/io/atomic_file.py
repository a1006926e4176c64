"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import suppress

from onnxwire.engine.file_writer import FileWriter, copy_range
from onnxwire.errors import Error, SaveError
from onnxwire.io.file_lock import lock
from onnxwire.io.folder import LIST, Folder, find, identity_of, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Buffer

    from onnxwire.io.folder import Identity

if sys.platform != "win32":
    import fcntl

SUFFIX = ".onnxwire-tmp"
RANDOM = 12  # hexadecimal digits in a temporary name
_SHORT = 64  # bytes; no file system refuses a name for being so long
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_NO_SPACE = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
# Of making a file in a folder, and of renaming one there: what writing into the old file is the way around.
NO_NEW_FILE = (errno.EACCES, errno.EPERM, errno.EROFS)
NO_RENAME = (errno.EBUSY, errno.EXDEV, *NO_NEW_FILE)
_REFUSED = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES, getattr(errno, "ENOTSUP", errno.EINVAL))


class AtomicFile:
    """A file that is written whole or not at all: `with AtomicFile(path) as target: target.write(data)`.

    path: where it shall be; size: its bytes, where they are known, for the error that speaks of space; progress: called
    with the count of bytes written so far. The block is given a `FileWriter`.

    What is written is a new file in the same directory. When the block ends without an exception, it goes to the disk
    and then replaces the old one, in one step. Before that a kill or any error leaves the old file as it was;
    who has it open or mapped keeps it for good. The new file has the permissions of the old one, and its owner, group,
    access list and user attributes as far as that is allowed; other hard links keep the old contents. Where the path is
    a symbolic link, what it points to is replaced. What is not a regular file, such as a pipe, a device or /dev/stdout,
    is written directly.

    On Linux the new file has no name until the disk has it, so that a kill leaves no file. Only in the moment
    after that, or where there are no such files, it leaves `.NAME.….onnxwire-tmp`, which the next save to the same path
    removes (not on Windows).

    A block that ends with `prepare` has all but the last step behind it, so that other files can be made ready before
    any replaces it; without a `with`, `open`, `prepare`, and then `publish` or `abandon`, do the same.
    Where the file can't be replaced, because it is mounted by itself (as into a container), or its folder may not be
    written while the file may, the new file's bytes are written into the old one at the end: that is not one step, and
    a kill in the middle leaves it damaged, and what it held in a file `onnxwire-backup-…` of the temporary directory
    (`io/in_place.py`). in_place: whether that is allowed.
    folder: the open folder that the path's last name is used in, instead of the path; a link there is not followed but
    replaced. It is not closed here.

    Raises SaveError for whatever hinders it. SourceError, and what the block or `progress` raises, pass through.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        size: int | None = None,
        progress: Callable[[int], object] | None = None,
        *,
        folder: Folder | None = None,
        in_place: bool = True,
    ) -> None:
        # First what is cleaned up at the end, which may come at any line.
        self._temporary: str | None = None  # the name of the new file, while it has one
        self._descriptor = -1
        self._owns_folder = folder is None
        self.folder = folder
        self.size = size
        self.identity: Identity | None = None  # of the new file, when it is prepared
        self._stream = -1  # an open descriptor that the path is the name of
        self.progress = progress
        self._in_place = in_place and sys.platform != "win32"
        self._is_elsewhere = False  # the new file is in the temporary directory
        self._target: FileWriter | None = None  # while it is written to
        self._old: os.stat_result | None = None
        self._direct = False
        self.path = os.fsdecode(path)
        self.name = os.path.basename(self.path)  # in the folder

    def __enter__(self) -> FileWriter:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.abandon(error)
            return
        self.prepare()
        self.publish()

    def __del__(self) -> None:
        # A Ctrl-C may come before the first line of `__exit__`, or of `__init__`.
        if not hasattr(self, "folder"):
            return
        try:
            self._clean_up()
            self._leave_folder()
        except MemoryError:  # where there was no memory for a call: each step looks whether it is still to be done
            self._clean_up()
            self._leave_folder()

    @property
    def is_replaced(self) -> bool:
        """Whether the new file has its name.

        By what is on the disk: a Ctrl-C may come right after the renaming, before anything could be noted.
        """
        with suppress(OSError):
            return self.folder is not None and self.identity is not None and self.folder.holds(self.name, self.identity)
        return False

    def locate(self, *, beside: bool = False) -> None:
        """Open the folder that the file is to be in, if that was not done; `open` does it too.

        beside: other files are to be in the folder of the path, so a link that leads to another one is replaced.
        """
        if self.folder is not None or self._stream >= 0:
            return
        try:
            if os.path.basename(self.path) in ("", os.curdir, os.pardir):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            found = find(self.path)
            if isinstance(found, int):
                self._stream = found
                return
            self.folder, self.name = found
            if beside:
                self._stay_beside()
        except BaseException as error:
            self.abandon(error)
            raise

    def _stay_beside(self) -> None:
        """Take the folder of the path itself, where a link leads to a file of another one."""
        assert self.folder is not None
        path = whole(self.path)
        logical = Folder.at(os.path.dirname(path))
        if logical.is_same(self.folder):
            logical.close()
            return
        self.folder, resolved = logical, self.folder
        resolved.close()
        self.name = os.path.basename(path)

    @property
    def is_plain(self) -> bool:
        """Whether it is, or is to be, a regular file; `locate` comes before."""
        if self.folder is None:
            return False
        status = self.folder.status(self.name)
        return status is None or stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)

    def open(self) -> FileWriter:
        """Open what is to be written."""
        try:
            self._open()
            self._target = FileWriter(self._descriptor, self.progress, fresh=not self._direct, stream=self._direct)
        except BaseException as error:
            self.abandon(error)
            raise
        return self._target

    def prepare(self) -> None:
        """Have all that was written on the disk, under another name than its own; nothing more is written."""
        if self._target is None:
            return
        try:
            self._target.finish()
            self._target = None
            self._settle()
        except BaseException as fault:
            self.abandon(fault)
            raise

    def publish(self) -> None:
        """Replace the old file by what was prepared."""
        try:
            self._replace()
        except BaseException as fault:
            self.abandon(fault)
            raise
        self._clean_up()
        self._leave_folder()

    def close(self) -> None:
        """Give the descriptor of a prepared file back; another save to the same path may then take it for stale."""
        # Forgotten first: after a Ctrl-C the number may be another file's.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _open(self) -> None:
        """Open what shall be written to."""
        self.locate()
        if self._stream >= 0:
            self._direct = True
            self._descriptor = os.dup(self._stream)
            return
        folder, name = self.folder, self.name
        assert folder is not None
        self._old = folder.status(name)
        if self._old and stat.S_ISLNK(self._old.st_mode):
            self._old = None  # the link goes, and what it leads to is left alone
        if self._old and stat.S_ISDIR(self._old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if self._old and not stat.S_ISREG(self._old.st_mode):
            self._direct = True
            self._descriptor = folder.open(name, os.O_WRONLY)
            return
        if self._old:
            # To replace it, its directory is all that must be writable; but who protects a file means this too.
            os.close(folder.open(name, os.O_WRONLY | _NONBLOCK))
        _remove_stale(folder, name)
        # Nobody else reads the new version of a file that may be secret, not even while it is written.
        mode = 0o600 if self._old else 0o666
        try:
            self._open_nameless(folder, mode)
        except OSError:
            # No such files here; or a true fault, which now shows again.
            try:
                self._open_named(mode)
            except OSError as error:
                if not self._in_place or not self._old or error.errno not in NO_NEW_FILE:
                    raise
                self._open_elsewhere()

    def _open_elsewhere(self) -> None:
        """Open a new file in the temporary directory, whose bytes are written over the old one at the end."""
        import tempfile

        self._temporary = None
        self._is_elsewhere = True
        with tempfile.TemporaryFile() as file:
            self._descriptor = os.dup(file.fileno())

    def _open_nameless(self, folder: Folder, mode: int) -> None:
        if sys.platform != "linux":
            raise OSError
        descriptor = folder.open(os.curdir, os.O_TMPFILE | os.O_RDWR, mode)
        # Without /proc it could not be given a name.
        if not os.path.exists(f"/proc/self/fd/{descriptor}"):
            os.close(descriptor)
            raise OSError
        self._descriptor = descriptor
        lock(descriptor)

    def _open_named(self, mode: int) -> None:
        assert self.folder is not None
        while True:
            name = self._temporary = temporary_name(self.name)
            with suppress(FileExistsError):
                descriptor = self.folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
                # Between these two another save may have found it without a lock, and removed it.
                if lock(descriptor) and self.folder.status(name) is not None:
                    self._descriptor = descriptor
                    return
                os.close(descriptor)

    def _settle(self) -> None:
        """Put what was written to the disk."""
        if self._direct:
            _sync(self._descriptor, may_refuse=True)
            return
        if self._is_elsewhere:
            return
        if self._temporary is None:
            # The long wait for the disk comes here, where a kill still leaves nothing. But btrfs does not make a file
            # without a name durable, whatever fsync returns, so that it is called again below; it is quick then.
            _sync(self._descriptor)
            self._link()
        assert self.folder is not None
        if self._old:
            _take_over(self._descriptor, self._old, self.folder, self.name)
        _sync(self._descriptor)
        self.identity = identity_of(os.fstat(self._descriptor))
        if sys.platform == "win32":
            self.close()  # an open file can't be renamed

    def _replace(self) -> None:
        if self._direct:
            return
        assert self.folder is not None
        if not self._is_elsewhere:
            assert self._temporary is not None
            try:
                self.folder.replace(self._temporary, self.name)
            except OSError as error:
                if not self._in_place or not self._old or error.errno not in NO_RENAME:
                    raise
            else:
                self._temporary = None
                sync_folder(self.folder)
                return
        assert self._old is not None
        from onnxwire.io.in_place import write_over

        write_over(self.folder, self.name, identity_of(self._old), self._descriptor, self.path)
        self.identity = identity_of(self._old)

    def _link(self) -> None:
        """Give a nameless file a name."""
        assert self.folder is not None
        nameless = self._descriptor
        self._temporary = temporary_name(self.name)
        try:
            self.folder.link(nameless, self._temporary)
        except OSError:
            # Some sandboxes and file systems open such files and then refuse them a name.
            self._open_named(stat.S_IMODE(os.fstat(nameless).st_mode))
            try:
                copy_range(nameless, 0, self._descriptor, 0, os.fstat(nameless).st_size, fresh=True)
            finally:
                os.close(nameless)

    def abandon(self, error: BaseException | None = None) -> None:
        """Remove what was written; raises SaveError if the error is about this file and not of whoever writes it."""
        try:
            self._clean_up()
            if isinstance(error, Error):
                return
            if self._target is None and isinstance(error, ValueError) and not isinstance(error, OSError):
                raise SaveError.from_os_error(error, self.path) from None  # of the path
            if isinstance(error, OSError) and (self._target is None or error is self._target.failure):
                raise SaveError.from_os_error(error, self.path, self._advice(error)) from None
        finally:
            self._leave_folder()

    def _clean_up(self) -> None:
        # Removed before it is closed: its lock ends there. Windows wants it the other way round.
        for _ in range(2):
            if self._temporary is not None and self.folder is not None:
                with suppress(OSError):
                    self.folder.unlink(self._temporary)
                    self._temporary = None
            with suppress(OSError):
                self.close()

    def _leave_folder(self) -> None:
        if self._owns_folder and self.folder is not None:
            folder, self.folder = self.folder, None
            folder.close()

    def _advice(self, error: OSError) -> str:
        if self.is_replaced:
            return "the new file is there, but may be lost if the machine stops now; save again"
        advice = self._way_out(error)
        if self._old and not self._direct:
            advice += f"{'; ' if advice else ''}the old file is as it was"
        return advice

    def _folder_name(self) -> str:
        """The folder that the file was to be in, where links lead."""
        if self.folder is not None:
            return self.folder.path
        with suppress(OSError):  # there may be no working directory
            return os.path.dirname(os.path.realpath(self.path))
        return os.curdir

    def _way_out(self, error: OSError) -> str:
        folder = self._folder_name()
        if error.errno in _NO_SPACE and not self._direct:
            # Counted after the new file was removed.
            if self._is_elsewhere:
                import tempfile

                folder = tempfile.gettempdir()
            free = f"{_free_space(folder):,} bytes are free in {folder}"
            needed = f"the file needs {self.size:,} bytes and " if self.size is not None else ""
            return f"{needed}{free}: make room, or save elsewhere"
        if error.errno == errno.EFBIG:
            return "the file system, or a limit of this process (ulimit -f), allows no file so large"
        if error.errno == errno.EFAULT:
            return "what is to be written can't be read; a mapped file was cut while it was open"
        if isinstance(error, PermissionError) and not self._direct:
            if self._old and not os.access(os.path.join(folder, self.name), os.W_OK):
                return "allow writing it, or save under another name"
            if not os.access(folder, os.W_OK):
                return f"the directory {folder} may not be written; save elsewhere"
            return "close whatever has it open, or save elsewhere" if sys.platform == "win32" else "save elsewhere"
        if error.errno in (errno.EROFS, errno.EBUSY):
            return "save elsewhere"
        if isinstance(error, IsADirectoryError):
            return "name a file in it"
        if isinstance(error, FileNotFoundError):
            if os.path.isdir(folder):
                return "it, or the directory that it was to be in, was removed meanwhile; save again"
            return f"there is no directory {folder}"
        if error.errno == errno.ENAMETOOLONG:
            return "choose a shorter name"
        if error.errno == errno.EIO:
            return "the disk fails, or the connection to it: save elsewhere"
        return ""


class RawWriter(io.RawIOBase):
    """A FileWriter as a file object that is written from front to back."""

    def __init__(self, target: FileWriter) -> None:
        self._target = target

    def writable(self) -> bool:
        """True."""
        return True

    def write(self, data: Buffer) -> int:
        """Write all of some bytes."""
        with memoryview(data) as view:
            self._target.write(view)
            return view.nbytes


def temporary_start(name: str) -> str:
    """How temporary names for a file begin; they are no longer than its own name, or _SHORT."""
    room = max(len(os.fsencode(name)), _SHORT) - RANDOM - len(SUFFIX) - 2
    while len(os.fsencode(name)) > room:
        name = name[:-1]
    return f".{name}."


def temporary_name(name: str) -> str:
    """A name that no file has; what is left at it is removed by the next save to the name that it is made of."""
    return temporary_start(name) + os.urandom(RANDOM // 2).hex() + SUFFIX


def _remove_stale(folder: Folder, name: str) -> None:
    """Remove the temporary files of saves that were killed: those for the same name that nobody holds locked."""
    if sys.platform == "win32":
        return
    start = temporary_start(name)
    length = len(start) + RANDOM + len(SUFFIX)
    with suppress(OSError):  # a directory that may not be listed
        for entry in folder.names():
            if len(entry) != length or not entry.startswith(start) or not entry.endswith(SUFFIX):
                continue
            with suppress(OSError):  # somebody else's, or gone meanwhile
                descriptor = folder.open(entry, os.O_RDWR | _NONBLOCK)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    folder.unlink(entry)
                finally:
                    os.close(descriptor)


def _take_over(descriptor: int, old: os.stat_result, folder: Folder, name: str) -> None:
    """Give a new file the owner, permissions, access list and attributes of the old one, as far as that is allowed."""
    if sys.platform == "win32":
        return
    mode = stat.S_IMODE(old.st_mode)
    try:
        os.fchown(descriptor, old.st_uid, old.st_gid)
    except OSError:
        mode &= 0o777  # nobody shall become somebody else by it
        try:
            os.fchown(descriptor, -1, old.st_gid)
        except OSError:
            # The group is another one, which gets no more than everybody had.
            mode = (mode & 0o707) | (mode & 0o007) << 3
    if sys.platform == "linux":
        with suppress(OSError):
            source = folder.open(name, os.O_WRONLY | _NONBLOCK)
            try:
                for key in os.listxattr(source):
                    if key.startswith(("user.", "system.posix_acl_")):
                        with suppress(OSError):
                            os.setxattr(descriptor, key, os.getxattr(source, key))
            finally:
                os.close(source)
    try:
        # After the access list, which it limits to the same.
        os.fchmod(descriptor, mode)
    except OSError as error:
        if error.errno not in _REFUSED:  # a file system without permissions of its own
            raise


def _sync(descriptor: int, may_refuse: bool = False) -> None:
    """Wait until the disk has a file; may_refuse: it may be a pipe or device that has no disk."""
    if sys.platform == "darwin":
        with suppress(OSError):
            # There fsync leaves the bytes in the drive's own memory.
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not may_refuse or error.errno not in _REFUSED:
            raise


def sync_folder(folder: Folder) -> None:
    """Wait until the disk has the names in a directory, where the system can do that."""
    if sys.platform == "win32":
        return
    try:
        descriptor = folder.open(os.curdir, LIST)
    except PermissionError:
        return  # one may write into a directory that one may not list
    try:
        _sync(descriptor, may_refuse=True)
    finally:
        os.close(descriptor)


def _free_space(folder: str) -> int:
    import shutil

    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
