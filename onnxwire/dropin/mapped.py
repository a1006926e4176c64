"""Files that models are mapped from under the switch, and what becomes of them when the program writes over them."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from mmap import ACCESS_READ, mmap
from weakref import WeakValueDictionary

from onnxwire.dropin.audit import watch_opening
from onnxwire.engine.document import Document

SMALL = 1 << 24  # bytes of a file that is read, so that a program may have thousands of models without as many files

# The mappings that there are, by what their files are known by.
_mappings: WeakValueDictionary[tuple[int, int], mmap] = WeakValueDictionary()


def open_file(descriptor: int, name: str) -> Document:
    """Make a document of an open file, which stays open for whoever opened it: mapped, or read where it is small.

    Raises OSError.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size <= SMALL:
        with open(descriptor, "rb", closefd=False) as file:
            return Document(file.read(), name)
    mapping = mmap(descriptor, 0, access=ACCESS_READ)
    watch_opening(_before_opening)
    _mappings[status.st_dev, status.st_ino] = mapping
    return Document(mapping, name, mapping, os.dup(descriptor))


def _before_opening(path: object, flags: int) -> None:
    """Before the program opens a mapped file to write it: replace it by another file, which it may write.

    What is mapped then stays as it is; to cut it would end the process when it is next looked at. path: as given to
    `open`; flags: of the system's open. Raises OSError where the other file can't be made.
    """
    if not _mappings or not isinstance(path, str | bytes | os.PathLike):
        return
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if (status.st_dev, status.st_ino) not in _mappings:
        return
    real = os.path.realpath(os.fsdecode(path))
    descriptor, other = tempfile.mkstemp(prefix=".onnxwire-", dir=os.path.dirname(real))
    try:
        with open(descriptor, "wb") as target:
            if not flags & os.O_TRUNC:
                with open(real, "rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
            os.chmod(other, stat.S_IMODE(status.st_mode))
        os.replace(other, real)
    except BaseException:
        os.unlink(other)
        raise
