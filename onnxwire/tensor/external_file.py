"""Read one open external data file."""

from __future__ import annotations

import errno
import os

from onnxwire.engine.document import Document
from onnxwire.engine.mapping import map_file
from onnxwire.engine.record_reader import payload_at
from onnxwire.errors import ClosedError, ExternalDataError, InUseError, SourceError, count_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Buffer

    from onnxwire.engine.partial import PartialMemory

_CHUNK_BYTES = 1 << 20


class ExternalFile:
    """A file that contains data of tensors, or a buffer that replaces one.

    Parameters. document: the file's bytes; or, with `size`, no bytes, but the descriptor of an open file of `size`
    bytes, which is read on demand.
    Attributes. document: the parameter, but None with `size`. name: the name in errors. size: the number of bytes when
    the file was opened.
    """

    def __init__(self, document: Document, size: int | None = None) -> None:
        self.name = document.name
        self.size = len(document) if size is None else size
        self.document = document if size is None else None
        self._source = document
        self._is_closed = False

    @classmethod
    def from_descriptor(cls, descriptor: int, name: str, *, mmap: bool = True) -> ExternalFile:
        """Create an ExternalFile that owns the open descriptor of a regular file. The descriptor is closed on failure.

        mmap: map the file; else read it on demand. Raises SourceError for an error of the system, and for a file that
        is truncated while it is opened.
        """
        try:
            size = os.fstat(descriptor).st_size
            data: Buffer = b""
            if mmap and size:
                data = map_file(descriptor, size)
        except (OSError, ValueError) as error:
            os.close(descriptor)
            if isinstance(error, ValueError):
                raise SourceError(
                    errno.EIO, "the file was truncated while it was opened; load it again", name
                ) from None
            raise SourceError.from_os_error(error, name, advice_for(error)) from None
        # The third argument, mapping, is None, although `data` is a mapping: with it, the engine would call madvise and
        # request the first bytes, as for a message. The buffer keeps the mapping alive.
        return cls(Document(data, name, None, descriptor), None if mmap else size)

    @property
    def descriptor(self) -> int:
        """The descriptor of the file, open for reading; -1 for a buffer or a file on a server."""
        return self._source.descriptor

    @property
    def prefers_read_into(self) -> bool:
        """Whether `read_into` takes less memory than `view`: True for files, also on a server, False for buffers."""
        return self.descriptor >= 0 or self._source.memory is not None

    @property
    def memory(self) -> PartialMemory | None:
        """The memory of a file on a server, which is fetched on demand; None for any other file."""
        return self._source.memory

    def view(self, offset: int, length: int) -> Buffer:
        """Return a range of bytes: a read-only window of the mapping, the buffer or `memory`, or newly read bytes.

        A window in use prevents closing the file. Raises SourceError if the file has changed or can't be read (for a
        window, when it is used), ExternalDataError for a range that is not in the file, ClosedError if the file is
        closed.
        """
        self._check_range(offset, length)
        if self.document is None:
            import numpy as np

            # Not a bytearray, which would be filled with zeros first.
            out: Any = np.empty(length, np.uint8)
            self.read_into(offset, out)
            return out  # type: ignore[no-any-return]
        return payload_at(self.document, offset, offset + length)

    def read_into(self, offset: int, out: Buffer) -> None:
        """Fill a contiguous writable buffer with the bytes from `offset` on. Raises the errors of `view`."""
        with memoryview(out) as items:
            self._check_range(offset, items.nbytes)
            if not items.nbytes:
                return
            with items.cast("B") as view:
                memory = self._source.memory
                if memory is not None and memory.missing([(offset, offset + len(view))]):
                    memory.source.read_into(offset, view)
                    return
                if self.descriptor < 0:
                    view[:] = memoryview(payload_at(self._source, offset, offset + len(view)))
                    return
                self.check_unchanged()
                n_read = 0
                while n_read < len(view):
                    try:
                        count = _read_at(self.descriptor, view[n_read:], offset + n_read)
                    except OSError as error:
                        raise SourceError.from_os_error(error, self.name) from None
                    if not count:
                        self.check_unchanged()
                        raise SourceError(errno.EIO, f"the file ends at byte {offset + n_read:,}", self.name)
                    n_read += count

    def sha1(self) -> str:
        """Return the SHA-1 of the file, read in chunks, as hexadecimal digits. Raises the errors of `view`."""
        from hashlib import sha1

        digest = sha1(usedforsecurity=False)
        chunk = memoryview(bytearray(min(_CHUNK_BYTES, self.size)))
        for offset in range(0, self.size, _CHUNK_BYTES):
            part = chunk[: self.size - offset]
            self.read_into(offset, part)
            digest.update(part)
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Raise SourceError if the file has been changed or truncated since it was opened."""
        self._source.check_unchanged()

    def check_unused(self) -> None:
        """Raise InUseError if arrays or memoryviews reference the file."""
        if self._source.pins:
            n = self._source.pins
            users = "1 array or memoryview that references" if n == 1 else f"{n:,} arrays or memoryviews that reference"
            raise InUseError(
                f"{self.name} is still in use, by {users} it; delete or copy the arrays before closing the model"
            )

    def close(self) -> None:
        """Close the file. Raises InUseError, and leaves the file open, if arrays or memoryviews reference it."""
        self._source.close()
        self._is_closed = True

    def _check_range(self, offset: int, length: int) -> None:
        """Raise ClosedError if the file is closed, and ExternalDataError for a range that is not in the file."""
        if self._is_closed:
            raise ClosedError(f"{self.name} was closed; load the model again, or use it inside its with block")
        if offset < 0 or length < 0 or length > self.size - offset:
            raise ExternalDataError(
                f"a range of {count_text(length, 'byte')} from byte {offset:,} is not within the file, which has "
                f"{count_text(self.size, 'byte')}",
                source=self.name,
            )


def advice_for(error: OSError) -> str:
    """Return advice for an error of opening or mapping a file; "" if there is none."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit (ulimit -n), or combine the model's data in one file"
    return ""


# Both versions read up to len(out) bytes at an offset and return the number of bytes read; Windows has no preadv.
if hasattr(os, "preadv"):

    def _read_at(descriptor: int, out: memoryview, offset: int) -> int:
        return os.preadv(descriptor, [out], offset)
else:
    from threading import Lock

    _position_lock = Lock()

    def _read_at(descriptor: int, out: memoryview, offset: int) -> int:
        with _position_lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, min(len(out), _CHUNK_BYTES))
        out[: len(data)] = data
        return len(data)
