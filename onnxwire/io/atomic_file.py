"""Write files atomically: completely or not at all."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from contextlib import suppress

from onnxwire.engine.file_writer import FileWriter, copy_range
from onnxwire.errors import Error, SaveError, count_text
from onnxwire.io.file_lock import try_lock
from onnxwire.io.folder import LIST_FLAGS, Folder, absolute_path, identity_of, open_parent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Buffer

    from onnxwire.io.folder import Identity

if sys.platform != "win32":
    import fcntl

SUFFIX = ".onnxwire-tmp"
RANDOM_DIGITS = 12  # hexadecimal digits in a temporary name
_SAFE_NAME_BYTES = 64  # all file systems allow names of this length
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe does not wait for its other end
_NO_SPACE_ERRORS = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
# Errors of creating a file in a folder, and of renaming one, after which the old file is overwritten instead.
CREATE_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS)
RENAME_ERRORS = (errno.EBUSY, errno.EXDEV, *CREATE_ERRORS)
# Errors of fsync and fchmod for files and file systems that do not support the call.
_UNSUPPORTED_ERRORS = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EACCES, getattr(errno, "ENOTSUP", errno.EINVAL))


class AtomicFile:
    """A file that is written atomically: `with AtomicFile(path) as target: target.write(data)`.

    path: the file to create or replace. size: its number of bytes, if known, for the error of a full disk.
    progress: called with the number of bytes written so far. The with statement returns a `FileWriter`.

    The data is written to a new file in the same directory. If the block ends without an exception, the new file is
    synced to disk and renamed over the old one. An error or a kill before the rename leaves the old file unchanged;
    processes that have the old file open or mapped keep its contents. As far as permitted, the new file inherits the
    old one's permissions, owner and group (except on Windows), and its access control list and user attributes (only on
    Linux). Other hard links keep the old contents. If the path is a symbolic link, its target is replaced. A path that
    is not a regular file, such as a pipe, a device or /dev/stdout, is written directly.

    On Linux the new file has no name until it is on disk, so that a kill leaves no file behind. A kill between naming
    and renaming, or on systems without nameless files, leaves `.NAME.….onnxwire-tmp`, which the next save to the same
    path removes (except on Windows).

    `prepare` does all steps before the rename, so that several files can be prepared before any of them is replaced.
    Without a with statement, call `open`, `prepare`, and then `publish` or `abandon`.
    If the file can't be replaced, because it is a mount point (as in a container) or its folder is read-only, the new
    contents are copied into the old file at the end (except on Windows). This is not atomic: a kill during the copy
    leaves the file damaged, and its old contents in a file `onnxwire-backup-…` in the temporary directory
    (`io/in_place.py`).
    in_place: whether the old file may be overwritten in this case; else the save fails.
    folder: an open folder that contains the file; only the path's last component is then used, and a link there is
    replaced, not followed. The caller closes the folder.

    Raises SaveError for any failure to write. Exceptions of the block and of `progress` pass through.
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
        # `__del__` reads these attributes, and a KeyboardInterrupt may occur at any line; so they are set first.
        self._temporary_name: str | None = None  # None before the new file is named, and after the rename
        self._descriptor = -1
        self._owns_folder = folder is None
        self.folder = folder
        self.size = size
        self.identity: Identity | None = None  # of the new file once it is prepared, or of the overwritten file
        self._stream = -1  # the descriptor that the path names, as /dev/stdout does, else -1
        self.progress = progress
        self._may_overwrite = in_place and sys.platform != "win32"
        self._is_in_temporary_directory = False
        self._target: FileWriter | None = None  # while data is written
        self._old_status: os.stat_result | None = None  # the status of the file to replace, or None
        self._is_direct = False  # whether the path is a stream or a device, which is written directly
        self.path = os.fsdecode(path)
        self.name = os.path.basename(self.path)  # the name in the folder
        if folder is None and "://" in self.path:
            from onnxwire.io.remote.address import is_address, shown_address

            if is_address(self.path):
                reason = "only models are written to addresses; pass a local path, and upload the file"
                raise SaveError(errno.EINVAL, reason, shown_address(self.path))

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
        # A KeyboardInterrupt may occur before the first line of `__exit__`, or of `__init__`.
        if not hasattr(self, "folder"):
            return
        try:
            self._clean_up()
            self._close_folder()
        except MemoryError:  # even a call can raise it; steps that are done are skipped, so all steps are repeated
            self._clean_up()
            self._close_folder()

    @property
    def has_replaced(self) -> bool:
        """Whether the new file has replaced the old one.

        Determined from the disk: a KeyboardInterrupt may occur right after the rename, before a flag could be set.
        """
        with suppress(OSError):
            return (
                self.folder is not None and self.identity is not None and self.folder.contains(self.name, self.identity)
            )
        return False

    def locate(self, *, in_path_folder: bool = False) -> None:
        """Open the folder that will contain the file, if it is not open; `open` calls this.

        in_path_folder: whether other files will be saved in the path's own folder; then a link to a file in another
        folder is replaced.
        """
        if self.folder is not None or self._stream >= 0:
            return
        try:
            if os.path.basename(self.path) in ("", os.curdir, os.pardir):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            resolved = open_parent(self.path)
            if isinstance(resolved, int):
                self._stream = resolved
                return
            self.folder, self.name = resolved
            if in_path_folder:
                self._use_path_folder()
        except BaseException as error:
            self.abandon(error)
            raise

    def _use_path_folder(self) -> None:
        """Use the path's own folder if a link leads to a file in another folder."""
        assert self.folder is not None
        path = absolute_path(self.path)
        path_folder = Folder.at(os.path.dirname(path))
        if path_folder.is_same(self.folder):
            path_folder.close()
            return
        self.folder, target_folder = path_folder, self.folder
        target_folder.close()
        self.name = os.path.basename(path)

    @property
    def is_regular(self) -> bool:
        """Whether the path is, or will be, a regular file or a link that is replaced; call `locate` first."""
        if self.folder is None:
            return False
        status = self.folder.status(self.name)
        return status is None or stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)

    def open(self) -> FileWriter:
        """Open the new file for writing."""
        try:
            self._open()
            self._target = FileWriter(
                self._descriptor, self.progress, fresh=not self._is_direct, stream=self._is_direct
            )
        except BaseException as error:
            self.abandon(error)
            raise
        return self._target

    def prepare(self) -> None:
        """Do all steps before the rename (see the class). Nothing can be written afterwards."""
        if self._target is None:
            return
        try:
            self._target.finish()
            self._target = None
            self._sync_and_name()
        except BaseException as error:
            self.abandon(error)
            raise

    def publish(self) -> None:
        """Replace the old file with the prepared one."""
        try:
            self._replace()
        except BaseException as error:
            self.abandon(error)
            raise
        self._clean_up()
        self._close_folder()

    def close(self) -> None:
        """Close the descriptor of a prepared file. Another save to the same path may then remove the file as stale."""
        # The attribute is cleared first: after a KeyboardInterrupt the number may belong to another file.
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _open(self) -> None:
        """Open the stream, the device or the new file."""
        self.locate()
        if self._stream >= 0:
            self._is_direct = True
            self._descriptor = os.dup(self._stream)
            return
        folder, name = self.folder, self.name
        assert folder is not None
        self._old_status = folder.status(name)
        if self._old_status and stat.S_ISLNK(self._old_status.st_mode):
            self._old_status = None  # the link is replaced, and its target left unchanged
        if self._old_status and stat.S_ISDIR(self._old_status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if self._old_status and not stat.S_ISREG(self._old_status.st_mode):
            self._is_direct = True
            self._descriptor = folder.open(name, os.O_WRONLY)
            return
        if self._old_status:
            # A read-only file must not be replaced, but a rename requires write permission for the directory only.
            os.close(folder.open(name, os.O_WRONLY | _NONBLOCK))
        _remove_stale(folder, name)
        # Other users must not read the new version of a private file, not even while it is written.
        mode = 0o600 if self._old_status else 0o666
        try:
            self._open_nameless(folder, mode)
        except OSError:
            # The file system has no nameless files. Any other error occurs again in `_open_named`.
            try:
                self._open_named(mode)
            except OSError as error:
                if not self._may_overwrite or not self._old_status or error.errno not in CREATE_ERRORS:
                    raise
                self._open_in_temporary_directory()

    def _open_in_temporary_directory(self) -> None:
        """Open a new file in the temporary directory; at the end its contents are copied over the old file."""
        import tempfile

        self._temporary_name = None
        self._is_in_temporary_directory = True
        with tempfile.TemporaryFile() as file:
            self._descriptor = os.dup(file.fileno())

    def _open_nameless(self, folder: Folder, mode: int) -> None:
        """Create and lock a file without a name. Raise OSError if the system can't create one, or can't name it."""
        if sys.platform != "linux":
            raise OSError
        descriptor = folder.open(os.curdir, os.O_TMPFILE | os.O_RDWR, mode)
        # Naming the file requires /proc.
        if not os.path.exists(f"/proc/self/fd/{descriptor}"):
            os.close(descriptor)
            raise OSError
        self._descriptor = descriptor
        try_lock(descriptor)

    def _open_named(self, mode: int) -> None:
        """Create and lock a file with a temporary name."""
        assert self.folder is not None
        while True:
            name = self._temporary_name = temporary_name(self.name)
            with suppress(FileExistsError):
                descriptor = self.folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
                # Before this process locked the file, another save may have removed it as stale.
                if try_lock(descriptor) and self.folder.status(name) is not None:
                    self._descriptor = descriptor
                    return
                os.close(descriptor)

    def _sync_and_name(self) -> None:
        """Sync the data to disk, name the new file, and copy the old file's attributes to it.

        A stream or a device is only synced. No-op for a file in the temporary directory, which is copied later.
        """
        if self._is_direct:
            _sync(self._descriptor, ignore_unsupported=True)
            return
        if self._is_in_temporary_directory:
            return
        if self._temporary_name is None:
            # The long sync happens here, while a kill leaves no file behind. On btrfs, fsync succeeds for a nameless
            # file but does not make the file durable. So the file is synced again below, which is fast then.
            _sync(self._descriptor)
            self._link()
        assert self.folder is not None
        if self._old_status:
            _copy_attributes(self._descriptor, self._old_status, self.folder, self.name)
        _sync(self._descriptor)
        self.identity = identity_of(os.fstat(self._descriptor))
        if sys.platform == "win32":
            self.close()  # an open file can't be renamed

    def _replace(self) -> None:
        """Rename the new file over the old one, or overwrite the old one. No-op for a stream or a device."""
        if self._is_direct:
            return
        assert self.folder is not None
        if not self._is_in_temporary_directory:
            assert self._temporary_name is not None
            try:
                self.folder.replace(self._temporary_name, self.name)
            except OSError as error:
                if not self._may_overwrite or not self._old_status or error.errno not in RENAME_ERRORS:
                    raise
            else:
                self._temporary_name = None
                sync_folder(self.folder)
                return
        assert self._old_status is not None
        from onnxwire.io.in_place import write_over

        write_over(self.folder, self.name, identity_of(self._old_status), self._descriptor, self.path)
        self.identity = identity_of(self._old_status)

    def _link(self) -> None:
        """Link the nameless file to a temporary name, or copy it to a file with a temporary name."""
        assert self.folder is not None
        nameless = self._descriptor
        self._temporary_name = temporary_name(self.name)
        try:
            self.folder.link(nameless, self._temporary_name)
        except OSError:
            # Some sandboxes and file systems create nameless files and then refuse to name them.
            self._open_named(stat.S_IMODE(os.fstat(nameless).st_mode))
            try:
                copy_range(nameless, 0, self._descriptor, 0, os.fstat(nameless).st_size, fresh=True)
            finally:
                os.close(nameless)

    def abandon(self, error: BaseException | None = None) -> None:
        """Remove the new file. Raise SaveError if `error` is a failure of this file rather than of the caller."""
        try:
            self._clean_up()
            if isinstance(error, Error):
                return
            if self._target is None and isinstance(error, ValueError) and not isinstance(error, OSError):
                raise SaveError.from_os_error(error, self.path) from None  # an invalid path
            if isinstance(error, OSError) and (self._target is None or error is self._target.failure):
                raise SaveError.from_os_error(error, self.path, self._advice(error)) from None
        finally:
            self._close_folder()

    def _clean_up(self) -> None:
        """Remove and close the new file. Steps that are done are skipped."""
        # Closing the file releases its lock, so the file is removed first. Windows requires the opposite order.
        for _ in range(2):
            if self._temporary_name is not None and self.folder is not None:
                with suppress(OSError):
                    self.folder.unlink(self._temporary_name)
                    self._temporary_name = None
            with suppress(OSError):
                self.close()

    def _close_folder(self) -> None:
        if self._owns_folder and self.folder is not None:
            folder, self.folder = self.folder, None
            folder.close()

    def _advice(self, error: OSError) -> str:
        """Return the remedy for an error, and the state of the old file."""
        if self.has_replaced:
            return "the new file is in place, but may be lost if the system stops now; save again"
        advice = self._remedy(error)
        if self._old_status and not self._is_direct:
            advice += f"{'; ' if advice else ''}the old file is unchanged"
        return advice

    def _folder_path(self) -> str:
        """Return the path of the file's folder, with links resolved."""
        if self.folder is not None:
            return self.folder.path
        with suppress(OSError):  # there may be no working directory
            return os.path.dirname(os.path.realpath(self.path))
        return os.curdir

    def _remedy(self, error: OSError) -> str:
        """Return the remedy for an error, or ""."""
        folder = self._folder_path()
        if error.errno in _NO_SPACE_ERRORS and not self._is_direct:
            # The new file is already removed, so its space counts as free.
            if self._is_in_temporary_directory:
                import tempfile

                folder = tempfile.gettempdir()
            parts = [f"the file needs {count_text(self.size, 'byte')}"] if self.size is not None else []
            free_bytes = free_space(folder)
            free_text = "is full" if free_bytes is None else f"has {count_text(free_bytes, 'byte')} free"
            parts.append(f"{folder} {free_text}")
            return f"{' and '.join(parts)}: make room, or save elsewhere"
        if error.errno == errno.EFBIG:
            return "the file system, or a limit of this process (ulimit -f), allows no file of this size"
        if error.errno == errno.EFAULT:
            return "the data to write can't be read; a mapped file was truncated while it was open"
        if isinstance(error, PermissionError) and not self._is_direct:
            if self._old_status and not os.access(os.path.join(folder, self.name), os.W_OK):
                return "make the file writable, or save under another name"
            if not os.access(folder, os.W_OK):
                return f"the directory {folder} is not writable; save elsewhere"
            return (
                "close the programs that have it open, or save elsewhere"
                if sys.platform == "win32"
                else "save elsewhere"
            )
        if error.errno in (errno.EROFS, errno.EBUSY):
            return "save elsewhere"
        if isinstance(error, IsADirectoryError):
            return "pass the path of a file in it"
        if isinstance(error, FileNotFoundError):
            if os.path.isdir(folder):
                return "the file or its directory was removed during the save; save again"
            return f"there is no directory {folder}"
        if error.errno == errno.ENAMETOOLONG:
            return "choose a shorter name"
        if error.errno == errno.EIO:
            return "the disk, or the connection to it, fails; save elsewhere"
        return ""


class RawWriter(io.RawIOBase):
    """A FileWriter as a sequential file object."""

    def __init__(self, target: FileWriter) -> None:
        self._target = target

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer) -> int:
        """Write all bytes of a buffer. Return their number."""
        with memoryview(data) as view:
            self._target.write(view)
            return view.nbytes


def temporary_prefix(name: str) -> str:
    """Return the prefix of a file's temporary names.

    A temporary name has at most _SAFE_NAME_BYTES bytes, or as many as `name` if `name` is longer.
    """
    max_bytes = max(len(os.fsencode(name)), _SAFE_NAME_BYTES) - RANDOM_DIGITS - len(SUFFIX) - len("..")
    while len(os.fsencode(name)) > max_bytes:
        name = name[:-1]
    return f".{name}."


def temporary_name(name: str) -> str:
    """Return a random temporary name for a file. If a kill leaves a file of this name, a later save removes it."""
    return temporary_prefix(name) + os.urandom(RANDOM_DIGITS // 2).hex() + SUFFIX


def _remove_stale(folder: Folder, name: str) -> None:
    """Remove temporary files of killed saves to the same name: those that no process has locked. No-op on Windows."""
    if sys.platform == "win32":
        return
    prefix = temporary_prefix(name)
    length = len(prefix) + RANDOM_DIGITS + len(SUFFIX)
    with suppress(OSError):  # no permission to list the directory
        for entry in folder.names():
            if len(entry) != length or not entry.startswith(prefix) or not entry.endswith(SUFFIX):
                continue
            with suppress(OSError):  # another user's file, or removed in the meantime
                descriptor = folder.open(entry, os.O_RDWR | _NONBLOCK)
                try:
                    if try_lock(descriptor, result_if_unsupported=False):
                        folder.unlink(entry)
                finally:
                    os.close(descriptor)


def _copy_attributes(descriptor: int, old_status: os.stat_result, folder: Folder, name: str) -> None:
    """Copy the old file's owner, group and permissions as far as permitted. No-op on Windows.

    On Linux the access control list and user attributes are copied, too.
    """
    if sys.platform == "win32":
        return
    mode = stat.S_IMODE(old_status.st_mode)
    try:
        os.fchown(descriptor, old_status.st_uid, old_status.st_gid)
    except OSError:
        mode &= 0o777  # no set-user-ID for a different owner
        try:
            os.fchown(descriptor, -1, old_status.st_gid)
        except OSError:
            # The new file has another group than the old one; the group gets the permissions of others.
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
        # The mode is set after the access control list, because fchmod also sets the list's mask.
        os.fchmod(descriptor, mode)
    except OSError as error:
        if error.errno not in _UNSUPPORTED_ERRORS:  # a file system without permissions
            raise


def _sync(descriptor: int, ignore_unsupported: bool = False) -> None:
    """Sync a file to disk. ignore_unsupported: ignore errors of files that can't be synced, such as pipes."""
    if sys.platform == "darwin":
        with suppress(OSError):
            # On macOS fsync leaves the data in the drive's cache.
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not ignore_unsupported or error.errno not in _UNSUPPORTED_ERRORS:
            raise


def sync_folder(folder: Folder) -> None:
    """Sync the entries of a directory to disk, if the system and the permissions allow it."""
    if sys.platform == "win32":
        return
    try:
        descriptor = folder.open(os.curdir, LIST_FLAGS)
    except PermissionError:
        return  # a directory can be writable but not readable
    try:
        _sync(descriptor, ignore_unsupported=True)
    finally:
        os.close(descriptor)


def free_space(folder: str) -> int | None:
    """Return the number of free bytes on the disk of a folder, or None if the number is unknown."""
    import shutil

    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
