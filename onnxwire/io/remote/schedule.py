"""Fetch ranges of files on servers before they are read, if the order in which they will be read is known."""

from __future__ import annotations

from collections import deque
from threading import Lock

from onnxwire.io.remote.file import CHUNK_BYTES, MAX_CONCURRENT_REQUESTS
from onnxwire.io.remote.loop import start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import Future
    from typing import Self

    from typing_extensions import Buffer

    from onnxwire.io.remote.file import RemoteFile

_MAX_BYTES = 1 << 26  # maximum number of bytes that are fetched but not yet read


class Schedule:
    """A context manager that fetches ranges of files concurrently, in the order in which they will be read.

    ranges: (file, start, end) of each range. Each is read once, by one call of `RemoteFile.read_into`; ranges of more
    than 8 MiB, which are fetched in concurrent pieces in any case, are omitted. A single range is not fetched in
    advance. Fetched bytes are in memory until they are read: up to 64 MiB. Reads in another order, or of other ranges,
    are correct, but may send their own requests.
    """

    def __init__(self, ranges: Iterable[tuple[RemoteFile, int, int]]) -> None:
        self._ranges = [
            (file, range_start, end) for file, range_start, end in ranges if 0 < end - range_start <= CHUNK_BYTES
        ]
        self._indexes: dict[tuple[int, int, int], deque[int]] = {}  # indexes in `_ranges` of unread ranges
        for index, (file, range_start, end) in enumerate(self._ranges):
            self._indexes.setdefault((id(file), range_start, end), deque()).append(index)
        self._running: dict[int, Future[Buffer]] = {}  # requests by index, including finished ones
        self._bytes = 0  # total size of these requests
        self._next_index = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        if len(self._ranges) > 1:
            for file in {id(file): file for file, _, _ in self._ranges}.values():
                file.schedule = file.schedule or self
        return self

    def __exit__(self, *error: object) -> None:
        for file, _, _ in self._ranges:
            if file.schedule is self:
                file.schedule = None
        with self._lock:
            self._next_index = len(self._ranges)
            self._cancel_requests()

    def read_range(self, file: RemoteFile, range_start: int, end: int) -> Buffer | None:
        """Return the bytes of a scheduled range, and request the next ranges.

        Returns None for other ranges, and for a range that has no request because a later range was read before it.
        Raises SourceError.
        """
        with self._lock:
            indexes = self._indexes.get((id(file), range_start, end))
            index = indexes.popleft() if indexes else None
            if index is None:
                return None
            if index >= self._next_index:
                self._cancel_requests()  # of ranges before this one, if any were skipped
                self._next_index = index
                self._request()
            future = self._running.pop(index, None)
            if future is None:
                return None
            self._bytes -= end - range_start
            self._request()
        return future.result()

    def _request(self) -> None:
        """Request the next ranges up to the limits; at least one if `_running` is empty. The caller has the lock."""
        while self._next_index < len(self._ranges):
            file, range_start, end = self._ranges[self._next_index]
            is_full = len(self._running) >= MAX_CONCURRENT_REQUESTS or self._bytes + end - range_start > _MAX_BYTES
            if self._running and is_full:
                return
            self._running[self._next_index] = start(file.read_piece(range_start, end))
            self._bytes += end - range_start
            self._next_index += 1

    def _cancel_requests(self) -> None:
        """Cancel all requests. The caller has the lock."""
        for future in self._running.values():
            future.cancel()
        self._running.clear()
        self._bytes = 0
