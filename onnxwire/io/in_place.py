"""Writing into a file that can't be replaced: one that is mounted by itself, or lies in a read-only folder."""

from __future__ import annotations

import errno
import os
import tempfile

from onnxwire.engine.document import keep_bytes_of
from onnxwire.engine.file_writer import copy_range
from onnxwire.errors import SaveError
from onnxwire.io.file_lock import lock
from onnxwire.io.folder import identity_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.io.folder import Folder, Identity


def write_over(folder: Folder, name: str, expected: Identity, source: int, path: str) -> None:
    """Write all of an open file over the file of a name in a folder, which stays the same file.

    expected: the file that was found there before; path: what errors call it. Documents that map it get its bytes as
    memory of their own first. What it held is copied to a file in the temporary directory, and is written back if this
    fails; where that fails too, or the process is killed, the copy stays there.
    Raises OSError; SaveError, with the name of the copy, where the file could not be put back.
    """
    target = folder.open(name, os.O_RDWR)
    try:
        if not lock(target):
            raise OSError(errno.EBUSY, "another save is writing over it; wait for its end, and save again")
        status = os.fstat(target)
        if identity_of(status) != expected:
            raise OSError(errno.EBUSY, "another file took its place meanwhile; save again")
        keep_bytes_of(target)
        backup, backup_path = tempfile.mkstemp(prefix="onnxwire-backup-")
        is_kept = False
        try:
            copy_range(target, 0, backup, 0, status.st_size, fresh=True)
            os.fsync(backup)
            size = os.fstat(source).st_size
            _make_room(target, status.st_size, size)
            try:
                _overwrite(target, source, size)
            except BaseException:
                is_kept = True
                try:
                    _overwrite(target, backup, status.st_size)
                except OSError as error:
                    reason = f"{error.strerror}; it may be damaged, and what it held is in {backup_path}"
                    raise SaveError(error.errno or errno.EIO, reason, path) from None
                is_kept = False
                raise
        finally:
            os.close(backup)
            if not is_kept:
                os.unlink(backup_path)
    finally:
        os.close(target)


def _make_room(target: int, old_size: int, size: int) -> None:
    """Reserve disk space for the growth of an open file. Leave the file unchanged if there is no room."""
    if size <= old_size or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(target, old_size, size - old_size)
    except OSError as error:
        os.ftruncate(target, old_size)
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise


def _overwrite(target: int, source: int, size: int) -> None:
    """Make an open file hold the bytes of another of some size."""
    copy_range(source, 0, target, 0, size)
    os.ftruncate(target, size)
    os.fsync(target)
