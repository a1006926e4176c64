"""Read the elements of a tensor in blocks, without mapping their file."""

from __future__ import annotations

from threading import Lock

from onnxwire.tensor.storage import Storage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.tensor.dtypes import DataType


# Tensors on servers are fetched in windows of _WINDOW_BYTES, and the last _MAX_WINDOWS windows are cached. A second
# pass over a tensor of up to 256 MiB, such as for a histogram, does not fetch the windows again.
_WINDOW_BYTES = 1 << 26
_MAX_WINDOWS = 4


class BlockReader:
    """Reads the elements of a tensor in blocks, in the format of raw_data. Thread-safe.

    Files are read, not mapped; typed fields are decoded once.
    storage: the storage of a tensor of any data type except STRING.
    Attributes: data_type, count: the type and number of the elements. file_and_offset: the open file with the elements,
    and their offset in it; None for elements in memory.
    """

    def __init__(self, storage: Storage) -> None:
        self.data_type: DataType = storage.data_type
        self.count = storage.count
        self.file_and_offset = storage.file_and_offset
        self._storage = storage
        self._is_typed = storage.field not in ("raw_data", "external_data") and storage.count > 0
        self._decoded: memoryview | None = None
        self._windows: dict[int, memoryview] = {}
        self._lock = Lock()

    def read(self, start: int, count: int, buffer: bytearray) -> memoryview:
        """Return the bytes of `count` elements from index `start`.

        start: with elements of less than 8 bits, the index of an element that begins at a byte boundary. buffer: memory
        of at least the size of these elements, which the result may reference.
        """
        byte_start, size = self.data_type.count_bytes(start), self.data_type.count_bytes(count)
        if self.file_and_offset is not None:
            file, offset = self.file_and_offset
            if file.memory is not None:  # on a server
                return self._fetch(byte_start, size)
            data = memoryview(buffer)[:size]
            file.read_into(offset + byte_start, data)
            return data
        if self._is_typed:
            with self._lock:
                if self._decoded is None:
                    self._decoded = self._storage.decoded_bytes()
                return self._decoded[byte_start : byte_start + size]
        return self._storage.payload(byte_start, byte_start + size)

    def _fetch(self, byte_start: int, size: int) -> memoryview:
        """Return bytes of a tensor on a server. Fetch the window that contains them, unless it is cached.

        Bytes that extend beyond one window are fetched alone and not cached.
        """
        assert self.file_and_offset is not None
        file, offset = self.file_and_offset
        n_bytes = self.data_type.count_bytes(self.count)
        window_number = byte_start // _WINDOW_BYTES
        window_start = window_number * _WINDOW_BYTES
        if byte_start + size > window_start + _WINDOW_BYTES:
            data = memoryview(bytearray(size))
            file.read_into(offset + byte_start, data)
            return data
        with self._lock:
            window = self._windows.get(window_number)
            if window is None:
                if len(self._windows) == _MAX_WINDOWS:
                    del self._windows[next(iter(self._windows))]
                window = memoryview(bytearray(min(_WINDOW_BYTES, n_bytes - window_start)))
                file.read_into(offset + window_start, window)
                self._windows[window_number] = window
        return window[byte_start - window_start : byte_start - window_start + size]

    def release(self) -> None:
        """Release decoded and fetched bytes."""
        with self._lock:
            self._decoded = None
            self._windows.clear()
