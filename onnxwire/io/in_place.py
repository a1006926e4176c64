"""Overwrite a file that a rename can't replace, such as a mount point or a file in a read-only folder."""

from __future__ import annotations

import errno
import os
import tempfile

from onnxwire.engine.document import keep_bytes_of
from onnxwire.engine.file_writer import copy_range
from onnxwire.errors import SaveError
from onnxwire.io.file_lock import try_lock
from onnxwire.io.folder import identity_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.io.folder import Folder, Identity


def write_over(folder: Folder, name: str, identity: Identity, source: int, path: str) -> None:
    """Overwrite a file with the contents of the open file `source`. The file keeps its inode.

    identity: the identity that the file must have; path: the file's path in errors. Before the file is overwritten, its
    bytes are copied to memory for the documents that map it. The old contents are copied to a backup file in the
    temporary directory, and restored if writing fails; if restoring fails too, or the process is killed, the backup
    remains.
    Raises OSError; SaveError, with the path of the backup, if the old contents could not be restored.
    """
    target = folder.open(name, os.O_RDWR)
    try:
        if not try_lock(target):
            raise OSError(errno.EBUSY, "another save is overwriting the file; wait until it ends, and save again")
        status = os.fstat(target)
        if identity_of(status) != identity:
            raise OSError(errno.EBUSY, "the file was replaced in the meantime; save again")
        keep_bytes_of(target)
        backup, backup_path = tempfile.mkstemp(prefix="onnxwire-backup-")
        is_backup_needed = False
        try:
            copy_range(target, 0, backup, 0, status.st_size, fresh=True)
            os.fsync(backup)
            size = os.fstat(source).st_size
            _reserve_space(target, status.st_size, size)
            try:
                _overwrite(target, source, size)
            except BaseException:
                is_backup_needed = True
                try:
                    _overwrite(target, backup, status.st_size)
                except OSError as error:
                    reason = f"{error.strerror}; the file may be damaged, and its old contents are in {backup_path}"
                    raise SaveError(error.errno or errno.EIO, reason, path) from None
                is_backup_needed = False
                raise
        finally:
            os.close(backup)
            if not is_backup_needed:
                os.unlink(backup_path)
    finally:
        os.close(target)


def _reserve_space(target: int, old_size: int, size: int) -> None:
    """Reserve disk space for the growth of an open file. If the disk is full, raise OSError and change nothing."""
    if size <= old_size or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(target, old_size, size - old_size)
    except OSError as error:
        os.ftruncate(target, old_size)
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise


def _overwrite(target: int, source: int, size: int) -> None:
    """Replace the contents of an open file with the first `size` bytes of another."""
    copy_range(source, 0, target, 0, size)
    os.ftruncate(target, size)
    os.fsync(target)
