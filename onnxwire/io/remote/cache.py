"""Cache ranges of files on servers on disk: sparse files by address and version, shared by processes.

The cache is a subfolder of the folder that the caller names. It contains a marker file, belongs to the user, and is not
writable for others; nothing outside of it is written or removed. Each data file has a file of checksums, four bytes for
each page, 0 for an absent page. A page is written before its checksum, and is valid if both agree; so concurrent
processes write the same bytes, and pages that a kill or crash left incomplete are fetched again.
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
from onnxwire.io.folder import FLAGS, HAS_DIR_FD, LIST, NO_FOLLOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

    from onnxwire.io.remote.version import Version

_DEFAULT_LIMIT = 1 << 35  # maximum size of all files on disk, unless ONNXWIRE_CACHE_SIZE is set
_FOLDER = "onnxwire-ranges"
_MARKER = "CACHEDIR.TAG"  # backup programs recognize its name and first line: https://bford.info/cachedir/
_MARKER_TEXT = b"""Signature: 8a477f597d28d172789f06886806bc55
# Ranges of files that onnxwire fetched from servers. It removes the oldest; this folder may be removed at any time.
"""
_ENTRY_NAME = re.compile(r"([0-9a-f]{64})\.(data|sums)")
_PAGE = 1 << 12  # bytes per checksum: the file format, independent of the system's page size
_CHECKSUM_BYTES = 4
# O_NONBLOCK: do not wait if the name is a pipe.
_READ_FLAGS = os.O_RDONLY | NO_FOLLOW | FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_WRITE_FLAGS = _READ_FLAGS & ~os.O_RDONLY | os.O_RDWR | os.O_CREAT
_NO_RESOURCES = (
    (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE) if hasattr(errno, "EDQUOT") else (errno.ENOSPC,)
)
_ADVICE = "choose another folder with cache= or ONNXWIRE_CACHE"


class RangeCache:
    """The cached ranges of one file.

    data, sums: open descriptors of the data and checksum files, which `close` closes. size: the size of the complete
    file.
    """

    def __init__(self, data: int, sums: int, size: int) -> None:
        self._data = data
        self._sums = sums
        self._size = size

    def get(self, start: int, end: int) -> Buffer | None:
        """Return the bytes from start to end, or None if not all of them are cached."""
        first, last = start // _PAGE, -(-end // _PAGE)
        try:
            sums = os.pread(self._sums, (last - first) * _CHECKSUM_BYTES, first * _CHECKSUM_BYTES)
            if len(sums) < (last - first) * _CHECKSUM_BYTES or not all(memoryview(sums).cast("I")):
                return None
            data = memoryview(os.pread(self._data, min(last * _PAGE, self._size) - first * _PAGE, first * _PAGE))
        except OSError:
            return None
        if bytes(_sums_of(data)) != sums:
            return None
        return data[start - first * _PAGE : end - first * _PAGE]

    def put(self, start: int, data: Buffer) -> None:
        """Store the complete pages of a range that begins at `start`. No-op if the disk is full."""
        view = memoryview(data)
        skipped = -start % _PAGE
        stop = start + len(view)
        pages = view[skipped:] if stop == self._size else view[skipped : len(view) - stop % _PAGE]
        if not pages:
            return
        with suppress(OSError):
            if os.pwrite(self._data, pages, start + skipped) == len(pages):
                os.pwrite(self._sums, _sums_of(pages), (start + skipped) // _PAGE * _CHECKSUM_BYTES)

    def close(self) -> None:
        """Close the files."""
        os.close(self._data)
        os.close(self._sums)


def open_cache(folder: str, identity: str, version: Version) -> RangeCache | None:
    """Open the cached ranges of a file. Create the cache folder. Return None if nothing can be stored.

    identity: a text that is unique to the file, and may contain credentials; version: the version of the file.
    Raises SourceError for a folder that can't be created or belongs to another user.
    """
    if not HAS_DIR_FD or not hasattr(os, "pread"):
        raise SourceError(errno.ENOTSUP, "this system does not support the cache; load without cache=", folder)
    limit = _limit()
    name = sha256(repr((identity, *version)).encode("utf-8", "surrogatepass")).hexdigest()
    try:
        here = _open_folder(folder)
    except SourceError:
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _NO_RESOURCES:
            return None
        raise SourceError.from_os_error(error, folder, f"the cache can't be used; {_ADVICE}") from None
    opened: list[int] = []
    try:
        for ending in ("data", "sums"):
            opened.append(_open_entry(here, f"{name}.{ending}"))
        with suppress(OSError):
            os.utime(opened[0])  # recently used files are removed last
        _make_room(here, name, limit)
        return RangeCache(opened[0], opened[1], version.size)
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        return None
    finally:
        os.close(here)


def _limit() -> int:
    text = os.environ.get("ONNXWIRE_CACHE_SIZE") or str(_DEFAULT_LIMIT)
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        reason = "ONNXWIRE_CACHE_SIZE must be a number of bytes, such as 34359738368"
        raise SourceError(errno.EINVAL, reason, "the cache")
    return int(text)


def _open_folder(path: str) -> int:
    """Open the cache folder, and create it if needed. Raises OSError; SourceError if it is another user's."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    shown = os.path.join(path, _FOLDER)
    above = os.open(path, LIST | FLAGS)
    try:
        with suppress(FileExistsError):
            os.mkdir(_FOLDER, 0o700, dir_fd=above)
        try:
            here = os.open(_FOLDER, LIST | NO_FOLLOW | FLAGS, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
                raise
            raise SourceError(errno.ENOTDIR, f"the cache is a link or a file, not a folder; {_ADVICE}", shown) from None
    finally:
        os.close(above)
    try:
        status = os.fstat(here)
        if status.st_uid != os.geteuid():
            raise SourceError(errno.EPERM, f"the cache belongs to another user; {_ADVICE}", shown)
        if status.st_mode & 0o022:
            reason = f"other users may write to the cache; forbid it with `chmod go-w`, or {_ADVICE}"
            raise SourceError(errno.EPERM, reason, shown)
        if not _is_marked(here):
            reason = f"the folder contains files but no {_MARKER} of onnxwire, so it is not its cache; {_ADVICE}"
            raise SourceError(errno.EPERM, reason, shown)
    except BaseException:
        os.close(here)
        raise
    return here


def _is_marked(here: int) -> bool:
    """Return whether a folder contains the marker. Add it to an empty folder. Raises OSError if the disk is full."""
    is_new = not set(os.listdir(here)) - {_MARKER}
    try:
        marker = _open_entry(here, _MARKER) if is_new else os.open(_MARKER, _READ_FLAGS, dir_fd=here)
    except OSError:
        if is_new:
            raise
        return False
    try:
        found = os.pread(marker, len(_MARKER_TEXT) + 1, 0) if stat.S_ISREG(os.fstat(marker).st_mode) else None
        if is_new and found is not None and found != _MARKER_TEXT and _MARKER_TEXT.startswith(found):
            # The marker is empty: this process created it, or another one that was killed before it wrote the text.
            if os.pwrite(marker, _MARKER_TEXT, 0) != len(_MARKER_TEXT):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return True
        return found == _MARKER_TEXT
    finally:
        os.close(marker)


def _open_entry(here: int, name: str) -> int:
    """Open or create a regular file that belongs to the user and has no hard links. Raises OSError otherwise."""
    descriptor = os.open(name, _WRITE_FLAGS, 0o600, dir_fd=here)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    return descriptor


def _sums_of(data: memoryview) -> memoryview:
    """Return a nonzero checksum of each page."""
    from array import array

    pages = range(0, len(data), _PAGE)
    return memoryview(array("I", [zlib.crc32(data[page : page + _PAGE]) or 1 for page in pages])).cast("B")


def _make_room(here: int, own: str, limit: int) -> None:
    """Remove the least recently used entries until the total size is within the limit, except `own`.

    Only regular files whose names this module generates are removed.
    """
    found: dict[str, tuple[int, int]] = {}
    with os.scandir(here) as entries:
        for entry in entries:
            name = _ENTRY_NAME.fullmatch(entry.name)
            with suppress(OSError):
                if name and stat.S_ISREG((status := entry.stat(follow_symlinks=False)).st_mode):
                    used, size = found.get(name[1], (0, 0))
                    found[name[1]] = max(used, status.st_mtime_ns), size + status.st_blocks * 512
    total = sum(size for _, size in found.values())
    for key, (_, size) in sorted(found.items(), key=lambda item: item[1]):
        if total <= limit:
            return
        if key != own:
            for ending in ("sums", "data"):
                with suppress(OSError):
                    if stat.S_ISREG(os.stat(f"{key}.{ending}", dir_fd=here, follow_symlinks=False).st_mode):
                        os.unlink(f"{key}.{ending}", dir_fd=here)
            total -= size
