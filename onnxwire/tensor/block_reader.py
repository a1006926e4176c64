"""The elements of a tensor a block at a time, without mapping the file that they are in."""

from __future__ import annotations

from threading import Lock

from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.tensor.dtypes import DataType


# What is fetched of a tensor on a server at once, in bytes, and how many such are kept: a second pass over a tensor of
# up to 256 MiB, as for a histogram, fetches nothing.
_WINDOW = 1 << 26
_WINDOWS = 4


class BlockReader:
    """The bytes of a tensor's elements, as raw_data has them, a block at a time; several threads may read.

    storage: of a tensor that is not of strings. What is in a file is read from it, typed fields are decoded once.
    data_type, count: of the elements; source: the open file and the byte they begin at there, None for those in memory.
    """

    def __init__(self, storage: Storage) -> None:
        self.data_type: DataType = storage.data_type
        self.count = storage.count
        self.source = storage.source
        self._storage = storage
        self._is_typed = storage.field not in ("raw_data", "external_data") and storage.count > 0
        self._decoded: memoryview | None = None
        self._windows: dict[int, memoryview] = {}
        self._lock = Lock()

    def read(self, start: int, count: int, buffer: bytearray) -> memoryview:
        """The bytes of `count` elements from index `start`, which begins with a byte; they may be in the buffer.

        buffer: room for the bytes of as many elements, whose content is lost.
        """
        first, size = self.data_type.count_bytes(start), self.data_type.count_bytes(count)
        if self.source is not None:
            file, offset = self.source
            if file.memory is not None:
                return self._fetched(first, size)
            data = memoryview(buffer)[:size]
            file.read_into(offset + first, data)
            return data
        if self._is_typed:
            with self._lock:
                if self._decoded is None:
                    self._decoded = self._storage.decoded_bytes()
                return self._decoded[first : first + size]
        return self._storage.payload(first, first + size)

    def _fetched(self, first: int, size: int) -> memoryview:
        """Some of the bytes of a tensor on a server, of which more are fetched at once than are asked for."""
        assert self.source is not None
        file, offset = self.source
        end = self.data_type.count_bytes(self.count)
        number = first // _WINDOW
        start = number * _WINDOW
        if first + size > start + _WINDOW:
            data = memoryview(bytearray(size))
            file.read_into(offset + first, data)
            return data
        with self._lock:
            window = self._windows.get(number)
            if window is None:
                if len(self._windows) == _WINDOWS:
                    del self._windows[next(iter(self._windows))]
                window = memoryview(bytearray(min(_WINDOW, end - start)))
                file.read_into(offset + start, window)
                self._windows[number] = window
        return window[first - start : first - start + size]

    def release(self) -> None:
        """Let go of what was decoded or fetched."""
        self._decoded = None
        self._windows.clear()
