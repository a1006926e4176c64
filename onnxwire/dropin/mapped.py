"""Model files that the switch maps, and the protection of mapped bytes when the program overwrites such a file."""

from __future__ import annotations

import os
import stat
import sys
import threading
from contextlib import nullcontext, suppress
from weakref import WeakSet

from onnxwire.dropin.audit import watch_opening
from onnxwire.engine.document import Document, keep_bytes_of
from onnxwire.engine.mapping import FileMapping, map_file
from onnxwire.engine.verify import find_long_values, verify_document
from onnxwire.errors import FieldValueError, SaveError
from onnxwire.io.atomic_file import NO_RENAME, AtomicFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from mmap import mmap

    from onnxwire.engine.message import Message
    from onnxwire.io.folder import Identity

MAP_ABOVE = 1 << 24  # files with more bytes are mapped, unless the program or its environment sets another limit
VARIABLE = "ONNXWIRE_DROPIN_MAP_ABOVE"
_MIN_MAPPED_VALUE_BYTES = 1 << 16
_MAX_PARTS = 1 << 13  # parts of all mappings; Linux allows about 65,000 per process

_map_above = MAP_ABOVE
# The mappings of each file: a program may load a file more than once.
_mappings: dict[Identity, WeakSet[FileMapping | mmap]] = {}
_lock = threading.RLock()  # protects changes of _mappings


class _Thread(threading.local):
    """Per-thread state."""

    is_replacing = False


_thread = _Thread()


def set_map_above(size: int | None) -> None:
    """Set the size in bytes above which files are mapped. None: the value of the variable, else MAP_ABOVE.

    Raises FieldValueError for a size that is not a non-negative integer.
    """
    global _map_above
    given: object = size
    if size is None:
        given = os.environ.get(VARIABLE) or MAP_ABOVE
        if isinstance(given, str) and given.isascii() and given.isdecimal():
            given = int(given)
    if not isinstance(given, int) or given < 0:
        name = "map_above" if size is not None else VARIABLE
        raise FieldValueError(f"{name} is a number of bytes, such as {MAP_ABOVE}, not {given!r}")
    _map_above = given


def open_file(
    descriptor: int, name: str, cls: type[Message] | None = None, written: Collection[Identity] | None = None
) -> Document:
    """Make a document of an open file: mapped, or read into memory if it is small or open for writing.

    descriptor: closed by the caller. cls: the class of the root message, which is then verified; the structure is read
    into memory, and only values of 64 KiB and more stay mapped, so a later write to the file can damage only these
    values, and reading them detects it. None: a file of external data. written: the result of `files_open_for_writing`.
    Raises OSError, and DecodeError for a damaged message.
    """
    status = os.fstat(descriptor)
    identity = status.st_dev, status.st_ino
    is_mapped = stat.S_ISREG(status.st_mode) and status.st_size > _map_above and _has_room()
    if is_mapped and identity not in (files_open_for_writing() if written is None else written):
        return _map(descriptor, name, status, cls)
    with open(descriptor, "rb", closefd=False) as file:
        document = Document(file.read(), name)
    if cls is not None:
        verify_document(document, cls)
    return document


def _map(descriptor: int, name: str, status: os.stat_result, cls: type[Message] | None) -> Document:
    mapping = map_file(descriptor, status.st_size)
    # Pass the buffer, which owns the mapping: a document would advise a mapping for sequential access.
    document = Document(mapping, name, None, os.dup(descriptor))
    try:
        if cls is not None:
            _check(document, mapping, descriptor, cls)
        document.check_unchanged()
    except BaseException:
        document.close()
        raise
    watch_opening(_before_opening)
    with _lock:
        for known in [known for known, mappings in _mappings.items() if not mappings]:
            del _mappings[known]
        _mappings.setdefault((status.st_dev, status.st_ino), WeakSet()).add(mapping)
    return document


def _check(document: Document, mapping: FileMapping | mmap, descriptor: int, cls: type[Message]) -> None:
    """Verify a document, and read its structure into memory as far as the limit of mapping parts permits."""
    with _lock:
        left = _MAX_PARTS - sum(_parts(known) for mappings in _mappings.values() for known in mappings)
    values = find_long_values(document, cls, _MIN_MAPPED_VALUE_BYTES, max(left - 1, 0))
    if isinstance(mapping, FileMapping) and left > 0:
        _read_structure(mapping, descriptor, values, len(values) == left - 1)


def _parts(mapping: FileMapping | mmap) -> int:
    return mapping.parts if isinstance(mapping, FileMapping) else 0


def _read_structure(mapping: FileMapping, descriptor: int, values: list[tuple[int, int]], is_partial: bool) -> None:
    """Read the bytes between the long values into memory. is_partial: the list of values is incomplete."""
    end = 0
    for start, stop in values if is_partial else [*values, (len(mapping), len(mapping))]:
        if start > end:
            mapping.read_in(descriptor, end, start)
        end = stop


def _has_room() -> bool:
    """Return whether another descriptor may stay open: half of the process's limit is left to the program."""
    if sys.platform == "win32":
        return True
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    limit = getrlimit(RLIMIT_NOFILE)[0]
    with _lock:
        return limit == RLIM_INFINITY or sum(map(len, _mappings.values())) < limit // 2


def files_open_for_writing() -> set[Identity]:
    """Return the files that this process has open for writing, which it may truncate without opening them again."""
    if sys.platform == "win32":
        return set()  # mapped files can't be truncated there
    from fcntl import F_GETFL, fcntl

    found = set()
    with suppress(OSError):
        for name in os.listdir("/dev/fd"):
            with suppress(OSError, ValueError):
                if fcntl(int(name), F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                    status = os.fstat(int(name))
                    found.add((status.st_dev, status.st_ino))
    return found


def _before_opening(path: object, flags: int, may_be_elsewhere: bool) -> None:
    """Replace a mapped file by a copy before the program opens it for writing.

    The mapping keeps the old file; reading a truncated mapping would kill the process. If the file can't be replaced,
    its mapped bytes are read into memory instead.
    path: the argument of `open`. flags: the flags of open(2). may_be_elsewhere: a relative path may belong to an
    unknown folder.
    Raises SaveError, which is an OSError, if both fail.
    """
    # Replacing a file opens others, whose names relative to their folder may equal those of mapped files in this one.
    if not _mappings or _thread.is_replacing or not isinstance(path, str | bytes | os.PathLike):
        return
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if not _mappings.get((status.st_dev, status.st_ino)):
        return
    name = os.fsdecode(path)
    # If the program may truncate another file than this one, this one keeps its content.
    is_cut = flags & os.O_TRUNC and (os.path.isabs(name) or not may_be_elsewhere)
    _thread.is_replacing = True
    try:
        # The fsync takes longer than the copy, but after a crash the file has its old content.
        with nullcontext() if is_cut else open(name, "rb") as source, AtomicFile(name, in_place=False) as target:
            if source is not None:
                target.copy(source.fileno(), 0, status.st_size)
    except SaveError as error:
        if error.errno not in NO_RENAME or not os.access(name, os.W_OK):
            raise
        with open(name, "rb") as file:
            keep_bytes_of(file.fileno())
    finally:
        _thread.is_replacing = False
