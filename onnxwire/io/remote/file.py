"""Read ranges of files on servers concurrently. All ranges of a file are from the same version of the file."""

from __future__ import annotations

import asyncio
import errno
import re
import threading

from onnxwire.errors import Error, SourceError, count_text
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

# The maximum size of a range that is read by one request. Round trips dominate smaller requests, and larger ones are
# expensive to retry.
CHUNK_BYTES = 1 << 23
# The maximum gap between two ranges of one request. Reading such a gap takes as long as one more concurrent request.
_MAX_GAP_BYTES = 1 << 15
# The size of the beginning of a file, which is read to open the file; in `_window`, also the length beyond which a
# sequence of reads grows more slowly.
_OPEN_BYTES = 1 << 16
_SMALL_FILE_BYTES = 1 << 25  # a file up to this size is read completely if a walk needs more than its first bytes
# The maximum size of a file that is read completely because its server does not support ranges or identify versions.
_MAX_BYTES_WITHOUT_RANGES = 1 << 28
# A sequence of reads that is shorter counts as this long when the size of the next read is computed, and a read that
# begins at most this far after a sequence continues it. Half of this is added to the predicted size of other reads.
_MIN_SEQUENCE_BYTES = 1 << 12
MAX_CONCURRENT_REQUESTS = 16  # of long ranges; of short ranges, MAX_GUESSES


class RemoteFile:
    """A file on a server; the `source` of a PartialMemory. `open` or `open_files` has to be called first.

    reader: reads ranges of the file; address: the address of the file; origin: the store and address of the model,
    from which external data is also opened. name: the file's name in error messages. size, version: the size and
    version of the file when it was opened, which all later responses must match.
    requests: the number of requests so far, without retries and redirects. received: the number of bytes received so
    far. schedule: an object that fetches ranges before they are read, or None.
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
        self._pending_ranges: list[Range] = []  # ranges that some thread is fetching
        self._has_skipped = False  # whether the walk has skipped a value since the last fetch
        self._sequence = (0, _OPEN_BYTES)  # the range that the walk reads sequentially
        self._address = address
        self._cache: RangeCache | None = None
        self.size = 0
        self.first_bytes: Buffer = b""  # the beginning of the file, until a document takes it over
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
        """Whether the ETag is the SHA-256 of the content, as that of a large file on the Hugging Face Hub is."""
        etag = self.version.etag if self._address.scheme == HUB_SCHEME else None
        return re.fullmatch('"[0-9a-f]{64}"', etag or "") is not None

    def _accept(self, first_bytes: Buffer, version: Version) -> None:
        """Store the results of `_open`. Raises SourceError for a cache folder that can't be used."""
        self.first_bytes, self.version, self.size = first_bytes, version, version.size
        self._cache = self.origin.open_cache(self._address, version)
        if self._cache is not None:
            self._cache.put(0, first_bytes)

    async def _open(self) -> tuple[Buffer, Version]:
        """Read the beginning of the file; the whole file if the server supports no ranges or identifies no versions."""
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

    async def _open_whole(self, missing_feature: str) -> tuple[Buffer, Version]:
        """Read the complete file in one request. Raise SourceError if it is too large or not received completely.

        missing_feature: the reason, as a verb phrase that follows "the server does not".
        """
        import warnings

        self.requests += 1
        data, version = await self._reader.read_all(_MAX_BYTES_WITHOUT_RANGES)
        if data is None:
            raise SourceError(
                errno.EOPNOTSUPP,
                f"the server does not {missing_feature}, so only files of up to {_MAX_BYTES_WITHOUT_RANGES:,} bytes "
                "can be read; download the file, or use another server",
                self.name,
            )
        self.received += len(memoryview(data))
        self._check_length(0, version.size, data)
        if version.size > _OPEN_BYTES:
            warnings.warn(
                f"{self.name}: the server does not {missing_feature}; the complete file was downloaded", stacklevel=5
            )
        return data, version

    # The following methods are the interface of a `source` of PartialMemory, and their helpers.

    def fetch(self, memory: PartialMemory, ranges: list[Range]) -> None:
        """Fetch ranges of the file into a memory. Wait for ranges that another thread is fetching."""
        while True:
            with self._lock:
                missing_ranges = memory.missing(ranges)
                if not missing_ranges:
                    return
                claimed_ranges = self._claim(missing_ranges)
                if not claimed_ranges:
                    self._lock.wait()
                    continue
            try:
                self._read(_split(_merge(claimed_ranges)), memory.put)
            finally:
                self._release(claimed_ranges)

    def _claim(self, ranges: list[Range]) -> list[Range]:
        """Claim the ranges that no other thread is fetching, and return them. The caller has the lock."""
        claimed_ranges = [
            span
            for span in ranges
            if not any(_is_overlapping(span, pending_range) for pending_range in self._pending_ranges)
        ]
        self._pending_ranges += claimed_ranges
        return claimed_ranges

    def _release(self, ranges: list[Range]) -> None:
        """Release claimed ranges, and wake the threads that wait for them."""
        with self._lock:
            self._pending_ranges = [span for span in self._pending_ranges if span not in ranges]
            self._lock.notify_all()

    def fetch_ahead(self, memory: PartialMemory, start: int, end: int, limit: int) -> None:
        """Fetch the bytes that a walk needs, from start to end, and the bytes that it will probably need next.

        limit: the end of the bytes that the walk can need.
        """
        if self.size <= _SMALL_FILE_BYTES:
            self.fetch(memory, [(0, self.size)])
            return
        ranges = [(start, max(end, min(start + self._window(start), limit)))]
        if self._has_skipped:
            ranges += self._readahead.guess(limit)
            window = self._readahead.window(start, limit)
            if window:
                ranges = [(start, max(end, start + window))]
        self._has_skipped = False
        self.fetch(memory, ranges)

    def _window(self, start: int) -> int:
        """Return how many bytes to read from an offset: more if the walk has read sequentially up to the offset.

        Adds the returned number of bytes to the recorded sequence, or records a new sequence.
        """
        sequence_start, sequence_end = self._sequence
        if not self._has_skipped and sequence_start <= start <= sequence_end + _MIN_SEQUENCE_BYTES:
            length = max(start - sequence_start, _MIN_SEQUENCE_BYTES)
            # The sequence becomes eight times as long, or three times if it is longer than _OPEN_BYTES.
            window = 7 * length if length <= _OPEN_BYTES else 2 * length
            self._sequence = (sequence_start, start + window)
        else:
            window = self._readahead.next_run + _MIN_SEQUENCE_BYTES // 2
            self._sequence = (start, start + window)
        return window

    def note_skipped_value(self, start: int, end: int, record: int) -> None:
        """Record a long value that a walk skips. Arguments: as for `Readahead.add`."""
        self._has_skipped = True
        self._readahead.add(start, end, record)

    def chunks(self, start: int, end: int) -> Iterator[Buffer]:
        """Iterate over a range of the file in chunks, which are not cached in memory."""
        step = CHUNK_BYTES * 4  # four concurrent requests
        for offset in range(start, end, step):
            chunk = memoryview(bytearray(min(step, end - offset)))
            self.read_into(offset, chunk)
            yield chunk

    def close(self) -> None:
        """Close the cache. Later reads do not use it."""
        cache, self._cache = self._cache, None
        if cache is not None:
            cache.close()

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill a writable buffer with the bytes of the file from an offset on, without a PartialMemory."""
        if self.schedule is not None:
            data = self.schedule.read_range(self, start, start + len(out))
            if data is not None:
                out[:] = data
                return

        def put(piece_start: int, data: Buffer) -> None:
            out[piece_start - start : piece_start - start + len(memoryview(data))] = data

        self._read(_split([(start, start + len(out))]), put)

    # The following methods send requests and check the responses.

    def _read(self, pieces: list[Range], put: Callable[[int, Buffer], None]) -> None:
        """Read ranges concurrently. put: called with the offset and bytes of each range."""
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
                raise self._changed_error() from None
            raise source_error(error, self.name, start, end) from None
        if not version.is_same(self.version):
            raise self._changed_error()
        self._check_length(start, end, data)
        self.received += end - start
        if self._cache is not None:
            self._cache.put(start, data)
        return data

    def _check_length(self, start: int, end: int, data: Buffer) -> None:
        length = len(memoryview(data))
        if length != end - start:
            reason = (
                f"bytes {start:,} to {end:,}: the server sent {count_text(length, 'byte')} instead of {end - start:,}"
            )
            raise SourceError(errno.EIO, reason, self.name)

    def _changed_error(self) -> SourceError:
        return SourceError(errno.ESTALE, "the file was changed since it was opened; load it again", self.name)


def open_files(files: list[RemoteFile]) -> Error | None:
    """Open files concurrently. Return the error of the first file that could not be opened, or None.

    Raises SourceError for a cache folder that can't be used.
    """

    async def open_each() -> list[tuple[Buffer, Version] | BaseException]:
        semaphore = asyncio.Semaphore(MAX_GUESSES)  # the requests are short, like those of readahead

        async def open_one(file: RemoteFile) -> tuple[Buffer, Version]:
            async with semaphore:
                return await file._open()

        return await asyncio.gather(*map(open_one, files), return_exceptions=True)

    errors: list[Error] = []
    for file, result in zip(files, run(open_each()) if files else (), strict=True):
        if isinstance(result, tuple):
            file._accept(*result)
        elif isinstance(result, Error):
            errors.append(result)
        else:
            raise result
    return errors[0] if errors else None


def fetch_all(requests: list[tuple[RemoteFile, PartialMemory, list[Range]]]) -> None:
    """Fetch ranges of several files into their memories, concurrently. Raises SourceError."""
    claims: list[tuple[RemoteFile, list[Range]]] = []  # the ranges of each file that this thread fetches
    pieces: list[tuple[RemoteFile, int, int, Callable[[int, Buffer], None]]] = []
    try:
        for file, memory, ranges in requests:
            with file._lock:
                claimed_ranges = file._claim(memory.missing(ranges))
                claims.append((file, claimed_ranges))
            pieces += [(file, start, end, memory.put) for start, end in _split(_merge(claimed_ranges))]
        if pieces:
            run(_read_all(pieces))
    finally:
        for file, claimed_ranges in claims:
            file._release(claimed_ranges)
    for file, memory, ranges in requests:
        file.fetch(memory, ranges)  # waits for ranges that another thread is fetching


async def _read_all(pieces: list[tuple[RemoteFile, int, int, Callable[[int, Buffer], None]]]) -> None:
    """Read ranges of files concurrently. The first error cancels the other requests.

    pieces: for each range, the file, start, end, and the function that is called with the start and the bytes.
    """
    # More ranges are requested at a time if their total size is small, as for readahead.
    is_short = sum(end - start for _, start, end, _ in pieces) <= CHUNK_BYTES
    remaining_pieces = iter(pieces)

    async def read_remaining_pieces() -> None:
        for file, start, end, put in remaining_pieces:
            put(start, await file.read_piece(start, end))

    count = min(MAX_GUESSES if is_short else MAX_CONCURRENT_REQUESTS, len(pieces))
    tasks = [asyncio.ensure_future(read_remaining_pieces()) for _ in range(count)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _is_overlapping(span: Range, other_span: Range) -> bool:
    return span[0] < other_span[1] and other_span[0] < span[1]


def _merge(ranges: list[Range]) -> list[Range]:
    """Merge ranges that overlap or have small gaps between them. The ranges are in ascending order."""
    result: list[Range] = []
    for start, end in ranges:
        if result and start - result[-1][1] <= _MAX_GAP_BYTES:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def _split(ranges: list[Range]) -> list[Range]:
    """Divide ranges into ranges of at most CHUNK_BYTES."""
    step = CHUNK_BYTES
    return [(offset, min(offset + step, end)) for start, end in ranges for offset in range(start, end, step)]
