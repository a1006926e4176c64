"""Ranges of files on servers, kept on the disk: sparse files by address and version, shared by processes.

They are in a folder of their own within the one that the caller names. It is marked by a file, belongs to the user, and
nobody else may write in it; nothing outside of it is written or removed. A file beside each has four bytes for each
page: its checksum, or 0 where it is absent. A page is written before its checksum, and counts where both fit; so two
processes that write at once write the same, and what a kill or a crash cut short is fetched again.
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

LIMIT = 1 << 35  # bytes on the disk of all files together, where ONNXWIRE_CACHE_SIZE does not say otherwise
FOLDER = "onnxwire-ranges"
MARKER = "CACHEDIR.TAG"  # by the name and first line, programs for backups know it: https://bford.info/cachedir/
_MARK = b"""Signature: 8a477f597d28d172789f06886806bc55
# Ranges of files that onnxwire fetched from servers. It removes the oldest; this folder may be removed at any time.
"""
_ENTRY = re.compile(r"([0-9a-f]{64})\.(data|sums)")
_PAGE = 1 << 12  # bytes to a checksum: the form of the files, whatever the pages in memory are
_SUM = 4
# A pipe under such a name must not be waited for.
_READ = os.O_RDONLY | NO_FOLLOW | FLAGS | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_OPEN = _READ & ~os.O_RDONLY | os.O_RDWR | os.O_CREAT
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE) if hasattr(errno, "EDQUOT") else (errno.ENOSPC,)
_ADVICE = "name a folder of your own with cache= or ONNXWIRE_CACHE"


class RangeCache:
    """The part of one file that is on the disk.

    data, sums: descriptors of its files, which are closed with it. size: of the whole file.
    """

    def __init__(self, data: int, sums: int, size: int) -> None:
        self._data = data
        self._sums = sums
        self._size = size

    def get(self, start: int, end: int) -> Buffer | None:
        """The bytes from start to end, or None where not all of them are there."""
        first, last = start // _PAGE, -(-end // _PAGE)
        try:
            sums = os.pread(self._sums, (last - first) * _SUM, first * _SUM)
            if len(sums) < (last - first) * _SUM or not all(memoryview(sums).cast("I")):
                return None
            data = memoryview(os.pread(self._data, min(last * _PAGE, self._size) - first * _PAGE, first * _PAGE))
        except OSError:
            return None
        if bytes(_sums_of(data)) != sums:
            return None
        return data[start - first * _PAGE : end - first * _PAGE]

    def put(self, start: int, data: Buffer) -> None:
        """Keep bytes that begin at `start`, as far as they are whole pages; where the disk is full, none."""
        view = memoryview(data)
        skipped = -start % _PAGE
        stop = start + len(view)
        kept = view[skipped:] if stop == self._size else view[skipped : len(view) - stop % _PAGE]
        if not kept:
            return
        with suppress(OSError):
            if os.pwrite(self._data, kept, start + skipped) == len(kept):
                os.pwrite(self._sums, _sums_of(kept), (start + skipped) // _PAGE * _SUM)

    def close(self) -> None:
        """Close the files."""
        os.close(self._data)
        os.close(self._sums)


def open_cache(folder: str, identity: str, version: Version) -> RangeCache | None:
    """Open the part of a file that is in the cache within a folder, which is made; None where nothing can be kept.

    identity: another text for any other file, which may hold credentials; version: the one that ranges are of.
    Raises SourceError for a folder that can't be made or is not the user's own.
    """
    if not HAS_DIR_FD or not hasattr(os, "pread"):
        raise SourceError(errno.ENOTSUP, "this system has no calls that a cache needs; load without cache=", folder)
    limit = _limit()
    name = sha256(repr((identity, *version)).encode("utf-8", "surrogatepass")).hexdigest()
    try:
        here = _open_folder(folder)
    except SourceError:
        raise
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            return None
        raise SourceError.from_os_error(error, folder, f"the cache can't be used; {_ADVICE}") from None
    opened: list[int] = []
    try:
        for ending in ("data", "sums"):
            opened.append(_open_entry(here, f"{name}.{ending}"))
        with suppress(OSError):
            os.utime(opened[0])  # it is in use: the others go first
        _make_room(here, name, limit)
        return RangeCache(opened[0], opened[1], version.size)
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        return None
    finally:
        os.close(here)


def _limit() -> int:
    text = os.environ.get("ONNXWIRE_CACHE_SIZE") or str(LIMIT)
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        reason = "ONNXWIRE_CACHE_SIZE is to be a number of bytes, such as 34359738368"
        raise SourceError(errno.EINVAL, reason, "the cache")
    return int(text)


def _open_folder(path: str) -> int:
    """Open the folder of the files, which is made where it is absent. Raises OSError, and SourceError for another's."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    shown = os.path.join(path, FOLDER)
    above = os.open(path, LIST | FLAGS)
    try:
        with suppress(FileExistsError):
            os.mkdir(FOLDER, 0o700, dir_fd=above)
        try:
            here = os.open(FOLDER, LIST | NO_FOLLOW | FLAGS, dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
                raise
            raise SourceError(errno.ENOTDIR, f"it is a link or a file, not a folder; {_ADVICE}", shown) from None
    finally:
        os.close(above)
    try:
        status = os.fstat(here)
        if status.st_uid != os.geteuid():
            raise SourceError(errno.EPERM, f"the cache belongs to another user; {_ADVICE}", shown)
        if status.st_mode & 0o022:
            reason = f"others may write in the cache; forbid it with `chmod go-w`, or {_ADVICE}"
            raise SourceError(errno.EPERM, reason, shown)
        if not _is_marked(here):
            reason = f"the folder has files and no {MARKER} of onnxwire, so that it is not its cache; {_ADVICE}"
            raise SourceError(errno.EPERM, reason, shown)
    except BaseException:
        os.close(here)
        raise
    return here


def _is_marked(here: int) -> bool:
    """Whether a folder has the marker, which an empty one is given; raises OSError where the disk is full."""
    is_new = not set(os.listdir(here)) - {MARKER}
    try:
        marker = _open_entry(here, MARKER) if is_new else os.open(MARKER, _READ, dir_fd=here)
    except OSError:
        if is_new:
            raise
        return False
    try:
        found = os.pread(marker, len(_MARK) + 1, 0) if stat.S_ISREG(os.fstat(marker).st_mode) else None
        if is_new and found is not None and found != _MARK and _MARK.startswith(found):
            # It was just made, by this process, or by one that was killed before it wrote.
            if os.pwrite(marker, _MARK, 0) != len(_MARK):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return True
        return found == _MARK
    finally:
        os.close(marker)


def _open_entry(here: int, name: str) -> int:
    """Open a regular file of the user's that has no other name; raises OSError for anything else."""
    descriptor = os.open(name, _OPEN, 0o600, dir_fd=here)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))
    return descriptor


def _sums_of(data: memoryview) -> memoryview:
    """A checksum of each page, none of which is 0."""
    from array import array

    pages = range(0, len(data), _PAGE)
    return memoryview(array("I", [zlib.crc32(data[page : page + _PAGE]) or 1 for page in pages])).cast("B")


def _make_room(here: int, own: str, limit: int) -> None:
    """Remove the files that were opened longest ago, until all together are within the limit; not one's own.

    Only regular files whose names have the form that this module gives.
    """
    found: dict[str, tuple[int, int]] = {}
    with os.scandir(here) as entries:
        for entry in entries:
            name = _ENTRY.fullmatch(entry.name)
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
