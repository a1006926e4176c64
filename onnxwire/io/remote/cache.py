"""Ranges of files on servers, kept on the disk: sparse files by address and version, shared by processes.

A file beside each has four bytes for each page: its checksum, or 0 where it is not there. A page is written before its
checksum, and counts where both fit; so two that write at once write the same, and what a kill or a crash cut short is
fetched again.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

    from onnxwire.io.remote.stores import Version

LIMIT = 1 << 35  # bytes on the disk of all files together, where ONNXWIRE_CACHE_SIZE does not say otherwise
_PAGE = 1 << 12  # bytes to a checksum: the form of the files, whatever the pages in memory are
_SUM = 4
_FLAGS = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)


class RangeCache:
    """The part of one file that is on the disk.

    folder: of all such files, which is made; address: of the file, without credentials; version: the one that ranges
    are of. Raises OSError where the files can't be opened.
    """

    def __init__(self, folder: str, address: str, version: Version) -> None:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        name = sha256(repr((address, *version)).encode()).hexdigest()[:40]
        self._path = os.path.join(folder, name)
        self._size = version.size
        self._data = os.open(f"{self._path}.data", _FLAGS, 0o600)
        try:
            self._sums = os.open(f"{self._path}.sums", _FLAGS, 0o600)
        except OSError:
            os.close(self._data)
            raise
        os.utime(self._data)  # it is in use: the others go first
        _make_room(folder, name)

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
        """Let go of the files."""
        os.close(self._data)
        os.close(self._sums)


def _sums_of(data: memoryview) -> memoryview:
    """A checksum of each page, none of which is 0."""
    from array import array

    pages = range(0, len(data), _PAGE)
    return memoryview(array("I", [zlib.crc32(data[page : page + _PAGE]) or 1 for page in pages])).cast("B")


def _make_room(folder: str, own: str) -> None:
    """Remove the files that were opened longest ago, until all together are within the limit; not one's own."""
    limit = int(os.environ.get("ONNXWIRE_CACHE_SIZE") or LIMIT)
    found: list[tuple[int, int, str]] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".data"):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    size = getattr(status, "st_blocks", -(-status.st_size // 512)) * 512
                    found.append((status.st_mtime_ns, size, entry.name.removesuffix(".data")))
    total = sum(size for _, size, _ in found)
    for _, size, name in sorted(found):
        if total <= limit:
            return
        if name != own:
            for ending in (".sums", ".data"):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name + ending))
            total -= size
