"""Read ranges of one version of a file on a server: in parallel, and each range once."""

from __future__ import annotations

import asyncio
import errno
import threading

from onnxwire.errors import Error, SourceError
from onnxwire.io.remote.failures import RangeError
from onnxwire.io.remote.loop import run
from onnxwire.io.remote.readahead import MAX_GUESSES, Readahead
from onnxwire.io.remote.stores import is_change, source_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Buffer

    from onnxwire.engine.partial import PartialMemory, Range
    from onnxwire.io.remote.address import Address
    from onnxwire.io.remote.remote_document import Origin
    from onnxwire.io.remote.stores import Reader
    from onnxwire.io.remote.version import Version

# Sizes in bytes.
_CHUNK_BYTES = 1 << 23  # one request: smaller, and round trips dominate; larger, and a retry is expensive
_MAX_GAP = 1 << 15  # largest gap between two ranges of one request; a second request takes as long as reading it
_OPEN_BYTES = 1 << 16  # read to open a file
_SMALL_FILE = 1 << 25  # a file up to this size is read completely once its first bytes do not suffice
_MAX_WITHOUT_RANGES = 1 << 28  # the largest file that is read completely because its server does not support ranges
_MIN_WINDOW = 1 << 12  # fewest bytes that a walk reads from an offset
_MAX_CONCURRENT = 16  # requests


class RemoteFile:
    """A file on a server; the `source` of a PartialMemory.

    reader: reads ranges of the file; address: the address of the file; origin: the store and the model's address,
    to find external data. name: the file's name in error messages. size, version: the size and version in the first
    response, which all later ones must match.
    requests, received: the number of requests sent, and of bytes received, so far.
    Raises SourceError if the file can't be read.
    """

    def __init__(self, reader: Reader, address: Address, origin: Origin) -> None:
        self.name = address.shown
        self.origin = origin
        self.requests = 0
        self.received = 0
        self._reader = reader
        self._readahead = Readahead()
        self._lock = threading.Condition()
        self._pending: list[Range] = []
        self._has_stepped = False
        self._sequence = (0, _OPEN_BYTES)  # the range that the walk has read sequentially
        self.head: Buffer
        self.version: Version
        self.head, self.version = run(self._open())
        self.size = self.version.size
        self._cache = origin.open_cache(address, self.version)
        if self._cache is not None:
            self._cache.put(0, self.head)

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

    # The interface that PartialMemory calls.

    def fetch(self, memory: PartialMemory, ranges: list[Range]) -> None:
        """Fetch ranges of the file into a memory. Wait for ranges that another thread is fetching."""
        while True:
            with self._lock:
                missing = memory.missing(ranges)
                if not missing:
                    return
                mine = [span for span in missing if not any(_overlap(span, other) for other in self._pending)]
                if not mine:
                    self._lock.wait()
                    continue
                self._pending += mine
            try:
                self._read(_split(_merge(mine)), lambda start, data: memory.put(start, data))
            finally:
                with self._lock:
                    self._pending = [span for span in self._pending if span not in mine]
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
        step = _CHUNK_BYTES * 4
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

        def put(first: int, data: Buffer) -> None:
            out[first - start : first - start + len(memoryview(data))] = data

        self._read(_split([(start, start + len(out))]), put)

    # Requests.

    def _read(self, pieces: list[Range], put: Callable[[int, Buffer], None]) -> None:
        run(self._read_all(pieces, put))

    async def _read_all(self, pieces: list[Range], put: Callable[[int, Buffer], None]) -> None:
        """Read pieces concurrently. The first error cancels the others."""
        # Short ranges, such as those of readahead, are all requested at once.
        is_short = sum(end - start for start, end in pieces) <= _CHUNK_BYTES
        waiting = iter(pieces)

        async def work() -> None:
            for start, end in waiting:
                put(start, await self._read_piece(start, end))

        tasks = [
            asyncio.ensure_future(work()) for _ in range(min(MAX_GUESSES if is_short else _MAX_CONCURRENT, len(pieces)))
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _read_piece(self, start: int, end: int) -> Buffer:
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
    step = _CHUNK_BYTES
    return [(first, min(first + step, end)) for start, end in ranges for first in range(start, end, step)]
