"""A cache on disk for ranges of files on servers: sparse files by address and version, shared by processes.

The cache is a subfolder of the folder that the caller names. It contains a marker file, belongs to the user, and is not
writable by others; files outside of it are never written or removed. Each data file has a file of checksums, four
bytes for each page, 0 for an absent page. A page is written before its checksum, and is valid if both agree, so pages
that a kill or crash left incomplete are fetched again. Concurrent processes write the same bytes of a version.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import zlib
from contextlib import suppress
from hashlib import sha256

from onnxwire.errors import SourceError
from onnxwire.io.folder import HAS_DIR_FD, LIST_FLAGS, NO_FOLLOW, OPEN_FLAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

    from onnxwire.io.remote.version import Version

_DEFAULT_MAX_BYTES = 1 << 35  # disk space of all files of the cache, unless ONNXWIRE_CACHE_SIZE is set
_FOLDER = "onnxwire-ranges"
_MARKER = "CACHEDIR.TAG"  # backup programs recognize its name and first line: https://bford.info/cachedir/
_MARKER_TEXT = b"""Signature: 8a477f597d28d172789f06886806bc55
# Ranges of files that onnxwire fetched from servers. It removes the oldest; this folder may be removed at any time.
"""
_ENTRY_NAME = re.compile(r"([0-9a-f]{64})\.(data|sums)")
_PAGE_BYTES = 1 << 12  # bytes per checksum: the file format, independent of the system's page size
_CHECKSUM_BYTES = 4
# O_NONBLOCK: do not wait if the name is a pipe.
_READ_FLAGS = os.O_RDONLY | NO_FOLLOW | OPEN_FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_WRITE_FLAGS = _READ_FLAGS & ~os.O_RDONLY | os.O_RDWR | os.O_CREAT
# Errors of a full disk or too many open files, after which nothing is cached.
_NO_RESOURCE_ERRORS = (
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE) if hasattr(errno, "EDQUOT") else (errno.ENOSPC,)
)
_ADVICE = "choose another folder with cache= or ONNXWIRE_CACHE"


class RangeCache:
    """The cached ranges of one file.

    data, checksums: open descriptors of the data and checksum files, which `close` closes. size: the size of the
    complete file.
    """

    def __init__(self, data: int, checksums: int, size: int) -> None:
        self._data = data
        self._checksums = checksums
        self._size = size

    def get(self, start: int, end: int) -> Buffer | None:
        """Return the bytes from start to end, or None if not all of them are cached."""
        first_page, end_page = start // _PAGE_BYTES, -(-end // _PAGE_BYTES)
        try:
            checksums = os.pread(
                self._checksums, (end_page - first_page) * _CHECKSUM_BYTES, first_page * _CHECKSUM_BYTES
            )
            if len(checksums) < (end_page - first_page) * _CHECKSUM_BYTES or not all(memoryview(checksums).cast("I")):
                return None
            data = memoryview(
                os.pread(
                    self._data,
                    min(end_page * _PAGE_BYTES, self._size) - first_page * _PAGE_BYTES,
                    first_page * _PAGE_BYTES,
                )
            )
        except OSError:
            return None
        if bytes(_checksums_of(data)) != checksums:
            return None
        return data[start - first_page * _PAGE_BYTES : end - first_page * _PAGE_BYTES]

    def put(self, start: int, data: Buffer) -> None:
        """Store the complete pages of a range that begins at `start`; the last page of the file may be shorter.

        Errors, such as a full disk, are ignored.
        """
        view = memoryview(data)
        n_skipped = -start % _PAGE_BYTES
        stop = start + len(view)
        pages = view[n_skipped:] if stop == self._size else view[n_skipped : len(view) - stop % _PAGE_BYTES]
        if not pages:
            return
        with suppress(OSError):
            if os.pwrite(self._data, pages, start + n_skipped) == len(pages):
                os.pwrite(self._checksums, _checksums_of(pages), (start + n_skipped) // _PAGE_BYTES * _CHECKSUM_BYTES)

    def close(self) -> None:
        """Close the files."""
        os.close(self._data)
        os.close(self._checksums)


def open_cache(folder: str, identity: str, version: Version) -> RangeCache | None:
    """Open the cached ranges of a file; create the cache folder if needed. Return None if nothing can be stored.

    identity: a text that is unique to the file, and may contain credentials; version: the version of the file.
    Raises SourceError for a folder that can't be used, an invalid ONNXWIRE_CACHE_SIZE, or an unsupported system.
    """
    if not HAS_DIR_FD or not hasattr(os, "pread"):
        raise SourceError(errno.ENOTSUP, "this system does not support the cache; load without cache=", folder)
    max_bytes = _max_cache_bytes()
    name = sha256(repr((identity, *version)).encode("utf-8", "surrogatepass")).hexdigest()
    try:
        cache_folder = _open_folder(folder)
    except SourceError:
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _NO_RESOURCE_ERRORS:
            return None
        raise SourceError.from_os_error(error, folder, f"the cache can't be used; {_ADVICE}") from None
    descriptors: list[int] = []
    try:
        for suffix in ("data", "sums"):
            descriptors.append(_open_entry(cache_folder, f"{name}.{suffix}"))
        with suppress(OSError):
            os.utime(descriptors[0])  # recently used files are removed last
        _remove_old_entries(cache_folder, name, max_bytes)
        return RangeCache(descriptors[0], descriptors[1], version.size)
    except OSError:
        for descriptor in descriptors:
            os.close(descriptor)
        return None
    finally:
        os.close(cache_folder)


def _max_cache_bytes() -> int:
    """Return the maximum size of the cache in bytes. Raises SourceError for an invalid ONNXWIRE_CACHE_SIZE."""
    text = os.environ.get("ONNXWIRE_CACHE_SIZE") or str(_DEFAULT_MAX_BYTES)
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        reason = "ONNXWIRE_CACHE_SIZE must be a number of bytes, such as 34359738368"
        raise SourceError(errno.EINVAL, reason, "the cache")
    return int(text)


def _open_folder(path: str) -> int:
    """Open the cache folder, and create it if needed. Raises OSError; SourceError if it is not safe to use."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    cache_path = os.path.join(path, _FOLDER)
    parent = os.open(path, LIST_FLAGS | OPEN_FLAGS)
    try:
        with suppress(FileExistsError):
            os.mkdir(_FOLDER, 0o700, dir_fd=parent)
        try:
            cache_folder = os.open(_FOLDER, LIST_FLAGS | NO_FOLLOW | OPEN_FLAGS, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
                raise
            raise SourceError(
                errno.ENOTDIR, f"the cache is a link or a file, not a folder; {_ADVICE}", cache_path
            ) from None
    finally:
        os.close(parent)
    try:
        status = os.fstat(cache_folder)
        if status.st_uid != os.geteuid():
            raise SourceError(errno.EPERM, f"the cache belongs to another user; {_ADVICE}", cache_path)
        if status.st_mode & 0o022:
            reason = f"other users may write to the cache; forbid it with `chmod go-w`, or {_ADVICE}"
            raise SourceError(errno.EPERM, reason, cache_path)
        if not _check_marker(cache_folder):
            reason = f"the folder contains files but no {_MARKER} of onnxwire, so it is not a cache; {_ADVICE}"
            raise SourceError(errno.EPERM, reason, cache_path)
    except BaseException:
        os.close(cache_folder)
        raise
    return cache_folder


def _check_marker(cache_folder: int) -> bool:
    """Add the marker to an empty folder. Return whether the folder has it. Raises OSError if adding it fails."""
    is_new = not set(os.listdir(cache_folder)) - {_MARKER}
    try:
        marker = _open_entry(cache_folder, _MARKER) if is_new else os.open(_MARKER, _READ_FLAGS, dir_fd=cache_folder)
    except OSError:
        if is_new:
            raise
        return False
    try:
        marker_text = os.pread(marker, len(_MARKER_TEXT) + 1, 0) if stat.S_ISREG(os.fstat(marker).st_mode) else None
        if is_new and marker_text is not None and marker_text != _MARKER_TEXT and _MARKER_TEXT.startswith(marker_text):
            # The marker is empty or incomplete: created by this process, or by one that was killed while writing.
            if os.pwrite(marker, _MARKER_TEXT, 0) != len(_MARKER_TEXT):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return True
        return marker_text == _MARKER_TEXT
    finally:
        os.close(marker)


def _open_entry(cache_folder: int, name: str) -> int:
    """Open or create a regular file that belongs to the user and has one hard link. Raises OSError otherwise."""
    descriptor = os.open(name, _WRITE_FLAGS, 0o600, dir_fd=cache_folder)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    return descriptor


def _checksums_of(data: memoryview) -> memoryview:
    """Return a nonzero checksum of each page."""
    from array import array

    pages = range(0, len(data), _PAGE_BYTES)
    return memoryview(array("I", [zlib.crc32(data[page : page + _PAGE_BYTES]) or 1 for page in pages])).cast("B")


def _remove_old_entries(cache_folder: int, current_name: str, max_bytes: int) -> None:
    """Remove the least recently used entries, except `current_name`, until the total size is within the limit.

    Only regular files whose names this module generates are removed.
    """
    entries_by_name: dict[str, tuple[int, int]] = {}  # the time of the last use in ns, and the size in bytes
    with os.scandir(cache_folder) as entries:
        for entry in entries:
            match = _ENTRY_NAME.fullmatch(entry.name)
            with suppress(OSError):
                if match and stat.S_ISREG((status := entry.stat(follow_symlinks=False)).st_mode):
                    last_used, size = entries_by_name.get(match[1], (0, 0))
                    entries_by_name[match[1]] = max(last_used, status.st_mtime_ns), size + status.st_blocks * 512
    total = sum(size for _, size in entries_by_name.values())
    for name, (_, size) in sorted(entries_by_name.items(), key=lambda item: item[1]):
        if total <= max_bytes:
            return
        if name != current_name:
            for suffix in ("sums", "data"):
                with suppress(OSError):
                    if stat.S_ISREG(os.stat(f"{name}.{suffix}", dir_fd=cache_folder, follow_symlinks=False).st_mode):
                        os.unlink(f"{name}.{suffix}", dir_fd=cache_folder)
            total -= size
