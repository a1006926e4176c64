"""Read ranges of one version of a file on a server: in parallel, and each range once."""

from __future__ import annotations

import asyncio
import errno
import re
import threading

from onnxwire.errors import Error, SourceError
from onnxwire.io.remote.address import HUB_SCHEME
from onnxwire.io.remote.failures import RangeError
from onnxwire.io.remote.loop import run
from onnxwire.io.remote.readahead import MAX_GUESSES, Readahead
from onnxwire.io.remote.stores import is_change, source_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from typing_extensions import Buffer

    from onnxwire.engine.partial import PartialMemory, Range
    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.cache import RangeCache
    from onnxwire.io.remote.remote_document import Origin
    from onnxwire.io.remote.schedule import Schedule
    from onnxwire.io.remote.stores import Reader
    from onnxwire.io.remote.version import Version

# Sizes in bytes.
CHUNK_BYTES = 1 << 23  # size of one request: in smaller ones round trips dominate; retries of larger ones are expensive
_MAX_GAP = 1 << 15  # largest gap between two ranges of one request: reading it takes as long as a second request
_OPEN_BYTES = 1 << 16  # size of the beginning of a file, which is read to open it
_SMALL_FILE = 1 << 25  # a file up to this size is read completely once its first bytes do not suffice
_MAX_WITHOUT_RANGES = 1 << 28  # the largest file that is read completely because its server does not support ranges
_MIN_WINDOW = 1 << 12  # minimum number of bytes that a walk reads from an offset
MAX_CONCURRENT = 16  # maximum number of concurrent requests


class RemoteFile:
    """A file on a server; the `source` of a PartialMemory. `open` has to be called first.

    reader: reads ranges of the file; address: the address of the file; origin: the store and the model's address,
    to find external data. name: the file's name in error messages. size, version: the size and version in the first
    response, which all later ones must match.
    requests, received: the number of requests sent, and of bytes received, so far. schedule: fetches ranges before they
    are read, or None.
    """

    def __init__(self, reader: Reader, address: Address, origin: Origin) -> None:
        self.name = address.shown
        self.origin = origin
        self.requests = 0
        self.received = 0
        self.schedule: Schedule | None = None
        self._reader = reader
        self._readahead = Readahead()
        self._lock = threading.Condition()
        self._pending: list[Range] = []
        self._has_stepped = False
        self._sequence = (0, _OPEN_BYTES)  # the range that the walk has read sequentially
        self._address = address
        self._cache: RangeCache | None = None
        self.size = 0
        self.head: Buffer = b""
        self.version: Version = None  # type: ignore[assignment]

    def open(self) -> Self:
        """Request the beginning of the file, and return the file. Raises SourceError."""
        self._accept(*run(self._open()))
        return self

    @property
    def is_open(self) -> bool:
        """Whether the beginning of the file was received."""
        return self.version is not None

    @property
    def has_sha256(self) -> bool:
        """Whether the ETag is the SHA-256 of the content: that of a large file on the Hub."""
        etag = self.version.etag if self._address.scheme == HUB_SCHEME else None
        return re.fullmatch('"[0-9a-f]{64}"', etag or "") is not None

    def _accept(self, head: Buffer, version: Version) -> None:
        self.head, self.version, self.size = head, version, version.size
        self._cache = self.origin.open_cache(self._address, version)
        if self._cache is not None:
            self._cache.put(0, head)

    async def _open(self) -> tuple[Buffer, Version]:
        self.requests += 1
        try:
            try:
                data, version = await self._reader.read(0, _OPEN_BYTES, None)
            except RangeError:
                return await self._open_whole("support range requests")
        except Error:
            raise
        except Exception as error:
            raise source_error(error, self.name) from None
        self.received += len(memoryview(data))
        self._check_length(0, min(_OPEN_BYTES, version.size), data)
        if not version.is_known and version.size > len(memoryview(data)):
            try:
                return await self._open_whole("identify versions of a file (by ETag or Last-Modified)")
            except Error:
                raise
            except Exception as error:
                raise source_error(error, self.name) from None
        return data, version

    async def _open_whole(self, lack: str) -> tuple[Buffer, Version]:
        """Read the complete file in one request. lack: the feature that the server does not have, as a verb phrase."""
        import warnings

        self.requests += 1
        data, version = await self._reader.read_all(_MAX_WITHOUT_RANGES)
        if data is None:
            raise SourceError(
                errno.EOPNOTSUPP,
                f"the server does not {lack}, so only files of up to {_MAX_WITHOUT_RANGES:,} bytes can be read; "
                "download the file, or use another server",
                self.name,
            )
        self.received += len(memoryview(data))
        self._check_length(0, version.size, data)
        if version.size > _OPEN_BYTES:
            warnings.warn(f"{self.name}: the server does not {lack}; the complete file was downloaded", stacklevel=5)
        return data, version

    # The following methods are the interface that PartialMemory calls.

    def fetch(self, memory: PartialMemory, ranges: list[Range]) -> None:
        """Fetch ranges of the file into a memory. Wait for ranges that another thread is fetching."""
        while True:
            with self._lock:
                missing = memory.missing(ranges)
                if not missing:
                    return
                mine = self._claim(missing)
                if not mine:
                    self._lock.wait()
                    continue
            try:
                self._read(_split(_merge(mine)), memory.put)
            finally:
                self._release(mine)

    def _claim(self, ranges: list[Range]) -> list[Range]:
        """Return the ranges that no other thread is fetching, and note that this one does. The caller has the lock."""
        mine = [span for span in ranges if not any(_overlap(span, other) for other in self._pending)]
        self._pending += mine
        return mine

    def _release(self, ranges: list[Range]) -> None:
        with self._lock:
            self._pending = [span for span in self._pending if span not in ranges]
            self._lock.notify_all()

    def fetch_ahead(self, memory: PartialMemory, start: int, end: int, limit: int) -> None:
        """Fetch the bytes that a walk needs now, and those that it will probably need next."""
        if self.size <= _SMALL_FILE:
            self.fetch(memory, [(0, self.size)])
            return
        ranges = [(start, max(end, min(start + self._window(start), limit)))]
        if self._has_stepped:
            ranges += self._readahead.guess(limit)
            window = self._readahead.window(start, limit)
            if window:
                ranges = [(start, max(end, start + window))]
        self._has_stepped = False
        self.fetch(memory, ranges)

    def _window(self, start: int) -> int:
        """Return how many bytes to read from an offset: many if the walk has read sequentially up to it."""
        first, end = self._sequence
        if not self._has_stepped and first <= start <= end + _MIN_WINDOW:
            length = max(start - first, _MIN_WINDOW)
            window = 7 * length if length <= _OPEN_BYTES else 2 * length
            self._sequence = (first, start + window)
        else:
            window = self._readahead.run + _MIN_WINDOW // 2
            self._sequence = (start, start + window)
        return window

    def stepped(self, start: int, end: int, record: int) -> None:
        """Record a long value that a walk skips."""
        self._has_stepped = True
        self._readahead.add(start, end, record)

    def chunks(self, start: int, end: int) -> Iterator[Buffer]:
        """Iterate over a range of the file in chunks, which are not cached in memory."""
        step = CHUNK_BYTES * 4
        for first in range(start, end, step):
            chunk = memoryview(bytearray(min(step, end - first)))
            self.read_into(first, chunk)
            yield chunk

    def close(self) -> None:
        """Close the cache. Nothing can be read after this."""
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.close()

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill a writable buffer with the bytes of the file from an offset on, bypassing memory."""
        if self.schedule is not None:
            data = self.schedule.take(self, start, start + len(out))
            if data is not None:
                out[:] = data
                return

        def put(first: int, data: Buffer) -> None:
            out[first - start : first - start + len(memoryview(data))] = data

        self._read(_split([(start, start + len(out))]), put)

    # The following methods send requests.

    def _read(self, pieces: list[Range], put: Callable[[int, Buffer], None]) -> None:
        run(_read_all([(self, start, end, put) for start, end in pieces]))

    async def read_piece(self, start: int, end: int) -> Buffer:
        """Return a range of the file, from the cache or the server. Raises SourceError."""
        cached = None if self._cache is None else self._cache.get(start, end)
        if cached is not None:
            return cached
        self.requests += 1
        try:
            data, version = await self._reader.read(start, end, self.version)
        except RangeError:
            raise SourceError(
                errno.EIO, f"bytes {start:,} to {end:,}: the server did not answer with the requested range", self.name
            ) from None
        except Exception as error:
            if is_change(error):
                raise self._changed() from None
            raise source_error(error, self.name, start, end) from None
        if not version.is_same(self.version):
            raise self._changed()
        self._check_length(start, end, data)
        self.received += end - start
        if self._cache is not None:
            self._cache.put(start, data)
        return data

    def _check_length(self, start: int, end: int, data: Buffer) -> None:
        length = len(memoryview(data))
        if length != end - start:
            reason = f"bytes {start:,} to {end:,}: the server sent {length:,} bytes instead of {end - start:,}"
            raise SourceError(errno.EIO, reason, self.name)

    def _changed(self) -> SourceError:
        return SourceError(errno.ESTALE, "the file was changed since it was opened; load it again", self.name)


def open_files(files: list[RemoteFile]) -> Error | None:
    """Open files concurrently. Return the error of the first that can't be opened, or None."""

    async def open_each() -> list[tuple[Buffer, Version] | BaseException]:
        limit = asyncio.Semaphore(MAX_GUESSES)

        async def open_one(file: RemoteFile) -> tuple[Buffer, Version]:
            async with limit:
                return await file._open()

        return await asyncio.gather(*map(open_one, files), return_exceptions=True)

    errors: list[Error] = []
    for file, found in zip(files, run(open_each()) if files else (), strict=True):
        if isinstance(found, tuple):
            file._accept(*found)
        elif isinstance(found, Error):
            errors.append(found)
        else:
            raise found
    return errors[0] if errors else None


def fetch_all(wanted: list[tuple[RemoteFile, PartialMemory, list[Range]]]) -> None:
    """Fetch ranges of several files into their memories, concurrently. Raises as RemoteFile.fetch."""
    claimed: list[tuple[RemoteFile, list[Range]]] = []
    pieces: list[tuple[RemoteFile, int, int, Callable[[int, Buffer], None]]] = []
    try:
        for file, memory, ranges in wanted:
            with file._lock:
                mine = file._claim(memory.missing(ranges))
                claimed.append((file, mine))
            pieces += [(file, start, end, memory.put) for start, end in _split(_merge(mine))]
        if pieces:
            run(_read_all(pieces))
    finally:
        for file, ranges in claimed:
            file._release(ranges)
    for file, memory, ranges in wanted:
        file.fetch(memory, ranges)  # waits for ranges that another thread is fetching


async def _read_all(pieces: list[tuple[RemoteFile, int, int, Callable[[int, Buffer], None]]]) -> None:
    """Read pieces of files concurrently. The first error cancels the others."""
    # Short ranges, such as those of readahead, are all requested at once.
    is_short = sum(end - start for _, start, end, _ in pieces) <= CHUNK_BYTES
    waiting = iter(pieces)

    async def work() -> None:
        for file, start, end, put in waiting:
            put(start, await file.read_piece(start, end))

    count = min(MAX_GUESSES if is_short else MAX_CONCURRENT, len(pieces))
    tasks = [asyncio.ensure_future(work()) for _ in range(count)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _overlap(one: Range, other: Range) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _merge(ranges: list[Range]) -> list[Range]:
    """Merge ranges with small gaps. The ranges are in ascending order."""
    merged: list[Range] = []
    for start, end in ranges:
        if merged and start - merged[-1][1] <= _MAX_GAP:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _split(ranges: list[Range]) -> list[Range]:
    step = CHUNK_BYTES
    return [(first, min(first + step, end)) for start, end in ranges for first in range(start, end, step)]
