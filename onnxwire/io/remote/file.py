"""One file on a server, of which ranges are read: all of one version, some at a time, each once."""

from __future__ import annotations

import asyncio
import errno
import threading

from onnxwire.errors import Error, SourceError
from onnxwire.io.remote.failures import RangeError
from onnxwire.io.remote.loop import run
from onnxwire.io.remote.readahead import GUESSES, Readahead
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

CHUNK = 1 << 23  # bytes of one request: fewer, and requests cost more than bytes; more, and a retry costs much
AT_ONCE = 16  # requests that are under way at once
NEAR = 1 << 15  # bytes between two ranges that are read along, which takes no longer than another request
FIRST = 1 << 16  # bytes that are read to open a file
SMALL = 1 << 22  # bytes of a file that is read whole when its beginning is not enough
WHOLE_LIMIT = 1 << 28  # bytes of a file that is read whole because its server knows no ranges
_LEAST = 1 << 12  # bytes that are read in one go, at least


class RemoteFile:
    """A file on a server; the `source` of a PartialMemory.

    reader: what reads it; address: its own; origin: its store and the model's address, for files beside it. name: what
    errors call it. size, version: as of the first answer, to which all others are held. requests, received: what was
    asked and came so far, in bytes.
    Raises SourceError where it can't be read.
    """

    def __init__(self, reader: Reader, address: Address, origin: Origin) -> None:
        self.name = address.shown
        self.origin = origin
        self.requests = 0
        self.received = 0
        self._reader = reader
        self._landings = Readahead()
        self._lock = threading.Condition()
        self._pending: list[Range] = []
        self._has_stepped = False
        self._run = (0, FIRST)  # what was read in one go, in the walk
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
                data, version = await self._reader.read(0, FIRST, None)
            except RangeError:
                return await self._open_whole("give parts of files")
        except Error:
            raise
        except Exception as error:
            raise source_error(error, self.name) from None
        self.received += len(memoryview(data))
        self._check_length(0, min(FIRST, version.size), data)
        if not version.is_known and version.size > len(memoryview(data)):
            try:
                return await self._open_whole("tell versions of a file apart (by an ETag or Last-Modified)")
            except Error:
                raise
            except Exception as error:
                raise source_error(error, self.name) from None
        return data, version

    async def _open_whole(self, lack: str) -> tuple[Buffer, Version]:
        """Read the file by one request. lack: what the server does not do."""
        import warnings

        self.requests += 1
        data, version = await self._reader.read_all(WHOLE_LIMIT)
        if data is None:
            raise SourceError(
                errno.EOPNOTSUPP,
                f"the server does not {lack}, and this one is longer than the {WHOLE_LIMIT:,} bytes that are read "
                "whole; download it, or put it on another server",
                self.name,
            )
        self.received += len(memoryview(data))
        self._check_length(0, version.size, data)
        if version.size > FIRST:
            warnings.warn(f"{self.name}: the server does not {lack}; it was read whole", stacklevel=5)
        return data, version

    # What a PartialMemory asks.

    def fetch(self, memory: PartialMemory, ranges: list[Range]) -> None:
        """Put ranges of the file into a memory; what another thread is fetching is waited for."""
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
                self._read(_pieces(_joined(mine)), lambda start, data: memory.put(start, data))
            finally:
                with self._lock:
                    self._pending = [span for span in self._pending if span not in mine]
                    self._lock.notify_all()

    def fetch_ahead(self, memory: PartialMemory, start: int, end: int, limit: int) -> None:
        """Put the bytes there that a walk has come to, and what it is likely to come to next."""
        if self.size <= SMALL:
            self.fetch(memory, [(0, self.size)])
            return
        ranges = [(start, max(end, min(start + self._window(start), limit)))]
        if self._has_stepped:
            ranges += self._landings.guess(limit)
        self._has_stepped = False
        self.fetch(memory, ranges)

    def _window(self, start: int) -> int:
        """How many bytes to read from an offset on: many where the walk came there by reading all that is before it."""
        first, end = self._run
        if not self._has_stepped and first <= start <= end + _LEAST:
            length = max(start - first, _LEAST)
            window = 7 * length if length <= FIRST else 2 * length
            self._run = (first, start + window)
        else:
            window = self._landings.run + _LEAST // 2
            self._run = (start, start + window)
        return window

    def stepped(self, start: int, end: int, record: int) -> None:
        """Take note of a long value that a walk steps over."""
        self._has_stepped = True
        self._landings.add(start, end, record)

    def chunks(self, start: int, end: int) -> Iterator[Buffer]:
        """Bytes of the file one chunk after another, some of them read ahead, none of them kept."""
        step = CHUNK * 4
        for first in range(start, end, step):
            chunk = memoryview(bytearray(min(step, end - first)))
            self.read_into(first, chunk)
            yield chunk

    def close(self) -> None:
        """Read nothing more."""
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.close()

    # What is not kept.

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill a writable buffer of bytes with those of the file from an offset on."""

        def put(first: int, data: Buffer) -> None:
            out[first - start : first - start + len(memoryview(data))] = data

        self._read(_pieces([(start, start + len(out))]), put)

    # Requests.

    def _read(self, pieces: list[Range], put: Callable[[int, Buffer], None]) -> None:
        run(self._read_all(pieces, put))

    async def _read_all(self, pieces: list[Range], put: Callable[[int, Buffer], None]) -> None:
        """Read pieces, some at once; the first error ends all."""
        # Of short ranges, such as guesses, all at once.
        is_short = sum(end - start for start, end in pieces) <= CHUNK
        waiting = iter(pieces)

        async def work() -> None:
            for start, end in waiting:
                put(start, await self._read_piece(start, end))

        tasks = [asyncio.ensure_future(work()) for _ in range(min(GUESSES if is_short else AT_ONCE, len(pieces)))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _read_piece(self, start: int, end: int) -> Buffer:
        kept = None if self._cache is None else self._cache.get(start, end)
        if kept is not None:
            return kept
        self.requests += 1
        try:
            data, version = await self._reader.read(start, end, self.version)
        except RangeError:
            raise SourceError(
                errno.EIO, f"bytes {start:,} to {end:,}: the server answered with something else than a part", self.name
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


def _joined(ranges: list[Range]) -> list[Range]:
    """Ranges in order, those near one another made one."""
    joined: list[Range] = []
    for start, end in ranges:
        if joined and start - joined[-1][1] <= NEAR:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _pieces(ranges: list[Range]) -> list[Range]:
    return [(first, min(first + CHUNK, end)) for start, end in ranges for first in range(start, end, CHUNK)]
