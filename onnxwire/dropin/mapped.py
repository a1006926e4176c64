"""Map model and external data files for the replaced functions of `onnx`. Protect mapped bytes from overwriting."""

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
from onnxwire.io.atomic_file import RENAME_ERRORS, AtomicFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from mmap import mmap

    from onnxwire.engine.message import Message
    from onnxwire.io.folder import Identity

MAP_ABOVE_BYTES = 1 << 24  # files with more bytes are mapped, unless the program or its environment sets another limit
VARIABLE = "ONNXWIRE_DROPIN_MAP_ABOVE"
_MIN_MAPPED_VALUE_BYTES = 1 << 16  # shorter values of a mapped model are read into memory with the structure
# The maximum number of ranges read into private memory, of all files. Each divides a mapping, of which Linux allows
# about 65,000 per process.
_MAX_PRIVATE_RANGES = 1 << 13

_map_above = MAP_ABOVE_BYTES
# The mappings of each file: a program may load a file more than once.
_mappings: dict[Identity, WeakSet[FileMapping | mmap]] = {}
_lock = threading.RLock()  # protects changes of _mappings


class _Thread(threading.local):
    """Per-thread state."""

    is_replacing = False  # whether the thread is replacing a mapped file


_thread = _Thread()


def set_map_above(size: int | None) -> None:
    """Set the size in bytes above which files are mapped. None: that of the environment variable, else MAP_ABOVE_BYTES.

    Raises FieldValueError for a size that is not a non-negative integer.
    """
    global _map_above
    value: object = size
    if size is None:
        value = os.environ.get(VARIABLE) or MAP_ABOVE_BYTES
        if isinstance(value, str) and value.isascii() and value.isdecimal():
            value = int(value)
    if not isinstance(value, int) or value < 0:
        name = "map_above" if size is not None else VARIABLE
        raise FieldValueError(f"{name} must be a number of bytes, such as {MAP_ABOVE_BYTES}, not {value!r}")
    _map_above = value


def open_file(
    descriptor: int, name: str, cls: type[Message] | None = None, open_for_writing: Collection[Identity] | None = None
) -> Document:
    """Make a document of an open file.

    The file is mapped if it is a regular file, is larger than the limit of `set_map_above` and is not open for writing,
    and if mapped files use less than half of the descriptors that the process may have open. Otherwise it is read into
    memory.

    descriptor: closed by the caller. name: the name of the document. cls: the class of the root message, which is then
    verified, or None for a file of external data. The structure of a message is read into memory as far as
    _MAX_PRIVATE_RANGES permits, and values of 64 KiB and more stay mapped. So a later write to the file can usually
    damage only these values, and reading them detects it.
    open_for_writing: the result of `files_open_for_writing`, if it is known.
    Raises OSError, and DecodeError for a damaged message.
    """
    status = os.fstat(descriptor)
    identity = status.st_dev, status.st_ino
    is_mapped = stat.S_ISREG(status.st_mode) and status.st_size > _map_above and _has_free_descriptors()
    if is_mapped and identity not in (files_open_for_writing() if open_for_writing is None else open_for_writing):
        return _map(descriptor, name, status, cls)
    with open(descriptor, "rb", closefd=False) as file:
        document = Document(file.read(), name)
    if cls is not None:
        verify_document(document, cls)
    return document


def _map(descriptor: int, name: str, status: os.stat_result, cls: type[Message] | None) -> Document:
    """Make a document of a mapped file, and register the mapping. Arguments: as for `open_file`."""
    mapping = map_file(descriptor, status.st_size)
    # Pass the mapping as a plain buffer: otherwise the document would call madvise.
    document = Document(mapping, name, None, os.dup(descriptor))
    try:
        if cls is not None:
            _verify_and_read(document, mapping, descriptor, cls)
        document.check_unchanged()
    except BaseException:
        document.close()
        raise
    watch_opening(_protect_mapped_file)
    with _lock:
        for identity in [identity for identity, mappings in _mappings.items() if not mappings]:
            del _mappings[identity]
        _mappings.setdefault((status.st_dev, status.st_ino), WeakSet()).add(mapping)
    return document


def _verify_and_read(document: Document, mapping: FileMapping | mmap, descriptor: int, cls: type[Message]) -> None:
    """Verify a document, and read its structure into memory as far as _MAX_PRIVATE_RANGES permits."""
    with _lock:
        n_ranges_left = _MAX_PRIVATE_RANGES - sum(
            _count_private_ranges(file_mapping) for mappings in _mappings.values() for file_mapping in mappings
        )
    # n values divide the structure into at most n + 1 ranges.
    values = find_long_values(document, cls, _MIN_MAPPED_VALUE_BYTES, max(n_ranges_left - 1, 0))
    if isinstance(mapping, FileMapping) and n_ranges_left > 0:
        _read_structure(mapping, descriptor, values, len(values) == n_ranges_left - 1)


def _count_private_ranges(mapping: FileMapping | mmap) -> int:
    """Return the number of ranges of a mapping that were read into private memory.

    _MAX_PRIVATE_RANGES limits the sum over all mappings.
    """
    return mapping.n_private_ranges if isinstance(mapping, FileMapping) else 0


def _read_structure(mapping: FileMapping, descriptor: int, values: list[tuple[int, int]], is_partial: bool) -> None:
    """Read the bytes outside of the long values into memory.

    is_partial: whether the list of values may be incomplete; the bytes after the last value are then not read.
    """
    end = 0
    for start, stop in values if is_partial else [*values, (len(mapping), len(mapping))]:
        if start > end:
            mapping.read_in(descriptor, end, start)
        end = stop


def _has_free_descriptors() -> bool:
    """Return whether another descriptor may stay open: half of the process's limit is reserved for the program."""
    if sys.platform == "win32":
        return True
    from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit

    limit = getrlimit(RLIMIT_NOFILE)[0]
    with _lock:
        return limit == RLIM_INFINITY or sum(map(len, _mappings.values())) < limit // 2


def files_open_for_writing() -> set[Identity]:
    """Return the identities of files that this process has open for writing: it may truncate them without `open`."""
    if sys.platform == "win32":
        return set()  # mapped files can't be truncated there
    from fcntl import F_GETFL, fcntl

    identities = set()
    with suppress(OSError):
        for name in os.listdir("/dev/fd"):
            with suppress(OSError, ValueError):
                if fcntl(int(name), F_GETFL) & (os.O_WRONLY | os.O_RDWR):
                    status = os.fstat(int(name))
                    identities.add((status.st_dev, status.st_ino))
    return identities


def _protect_mapped_file(path: object, flags: int, is_folder_unknown: bool) -> None:
    """Replace a mapped file before it is opened for writing or truncated.

    It is replaced by an empty file if opening it certainly truncates it, else by a copy.

    The mapping refers to the old file; reading a truncated mapping would end the process. If a writable file can't be
    replaced because of one of RENAME_ERRORS, its mapped bytes are read into memory instead.
    path: the argument of `open` or `os.truncate`. flags: the flags of open(2), 0 for `os.truncate`. is_folder_unknown:
    whether a relative path may belong to another folder than the working directory.
    Raises SaveError, which is an OSError, if a file that is not writable can't be replaced, or any other error prevents
    the replacement, and OSError if the bytes can't be read.
    """
    # AtomicFile opens names relative to the target's folder; in the working directory the same names may be mapped
    # files. So ignore its calls.
    if not _mappings or _thread.is_replacing or not isinstance(path, str | bytes | os.PathLike):
        return
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return
    if not _mappings.get((status.st_dev, status.st_ino)):
        return
    name = os.fsdecode(path)
    # If the program may truncate a file in another folder instead of this one, this file must keep its content.
    is_truncated = flags & os.O_TRUNC and (os.path.isabs(name) or not is_folder_unknown)
    _thread.is_replacing = True
    try:
        # AtomicFile calls fsync. That takes longer than the copy, but after a crash the file has its old content.
        with nullcontext() if is_truncated else open(name, "rb") as source, AtomicFile(name, in_place=False) as target:
            if source is not None:
                target.copy(source.fileno(), 0, status.st_size)
    except SaveError as error:
        if error.errno not in RENAME_ERRORS or not os.access(name, os.W_OK):
            raise
        with open(name, "rb") as file:
            keep_bytes_of(file.fileno())
    finally:
        _thread.is_replacing = False
