"""Files that models are mapped from under the switch, and what becomes of them when the program writes over them."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import nullcontext
from mmap import ACCESS_READ, mmap
from weakref import WeakSet

from onnxwire.dropin.audit import watch_opening
from onnxwire.engine.document import Document
from onnxwire.io.atomic_file import AtomicFile

SMALL = 1 << 24  # bytes of a file that is read, so that a program may have thousands of models without as many files

# The mappings that there are of each file, by what it is known by: a program may load a file more than once.
_mappings: dict[tuple[int, int], WeakSet[mmap]] = {}
_lock = threading.RLock()  # of those who change it


class _Thread(threading.local):
    """What each thread is at."""

    is_replacing = False


_thread = _Thread()


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
    with _lock:
        for known in [known for known, mappings in _mappings.items() if not mappings]:
            del _mappings[known]
        _mappings.setdefault((status.st_dev, status.st_ino), WeakSet()).add(mapping)
    return Document(mapping, name, mapping, os.dup(descriptor))


def _before_opening(path: object, flags: int, may_be_elsewhere: bool) -> None:
    """Before the program opens a mapped file to write it: replace it by another file, which it may write.

    What is mapped then stays as it is; to cut it would end the process when it is next looked at. path: as given to
    `open`; flags: of the system's open; may_be_elsewhere: a relative path may be one in a folder that is not known.
    Raises SaveError, which is an OSError, where the other file can't be made.
    """
    # To replace a file, others are opened, by names in a folder that may be those of mapped files in the current one.
    if not _mappings or _thread.is_replacing or not isinstance(path, str | bytes | os.PathLike):
        return
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if not _mappings.get((status.st_dev, status.st_ino)):
        return
    name = os.fsdecode(path)
    # Where it may be another file that the program cuts, this one keeps what it has.
    is_cut = flags & os.O_TRUNC and (os.path.isabs(name) or not may_be_elsewhere)
    _thread.is_replacing = True
    try:
        # To wait for the disk takes longer than a copy alone, but a crash then leaves no file without what it had.
        with nullcontext() if is_cut else open(name, "rb") as source, AtomicFile(name) as target:
            if source is not None:
                target.copy(source.fileno(), 0, status.st_size)
    finally:
        _thread.is_replacing = False
