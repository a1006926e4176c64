"""One open file of external data."""

from __future__ import annotations

import errno
import os

from onnxwire.engine.document import Document
from onnxwire.engine.mapping import map_file
from onnxwire.engine.record_reader import payload_at
from onnxwire.errors import ClosedError, ExternalDataError, InUseError, SourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Buffer

    from onnxwire.engine.partial import PartialMemory

_CHUNK = 1 << 20


class ExternalFile:
    """A file that tensors have their data in, or a buffer instead of one.

    document: its bytes, mapped or in memory; with `size`, instead, what has only the open descriptor of a file that is
    to be read, and its number of bytes. name: what errors call it; size: in bytes, as it was opened.
    """

    def __init__(self, document: Document, size: int | None = None) -> None:
        self.name = document.name
        self.size = len(document) if size is None else size
        self.document = document if size is None else None
        self._holder = document
        self._is_closed = False

    @classmethod
    def from_descriptor(cls, descriptor: int, name: str, *, mmap: bool = True) -> ExternalFile:
        """Take an open descriptor of a regular file, which is closed with the object, or when this fails.

        mmap: map the file, else read from it what is asked for. Raises SourceError where it can't be mapped.
        """
        try:
            size = os.fstat(descriptor).st_size
            data: Buffer = b""
            if mmap and size:
                data = map_file(descriptor, size)
        except (OSError, ValueError) as error:
            os.close(descriptor)
            if isinstance(error, ValueError):
                raise SourceError(errno.EIO, "the file was cut while it was opened; load it again", name) from None
            raise SourceError.from_os_error(error, name, way_out(error)) from None
        # Not told of the mapping, because it would prepare for a walk from tag to tag; it goes with the buffer.
        return cls(Document(data, name, None, descriptor), None if mmap else size)

    @property
    def descriptor(self) -> int:
        """The file, open for reading, or -1 for a buffer."""
        return self._holder.descriptor

    @property
    def is_readable(self) -> bool:
        """Whether it is better read than looked at where it is, since that takes little memory."""
        return self.descriptor >= 0 or self._holder.memory is not None

    @property
    def memory(self) -> PartialMemory | None:
        """The memory of a file on a server, which is fetched as it is asked for; None for any other."""
        return self._holder.memory

    def view(self, offset: int, length: int) -> Buffer:
        """Some of its bytes: a read-only window of a mapping or buffer, or new memory that they are read into.

        A window in use keeps the file from being closed. Raises SourceError where the file was changed or can't be
        read, ExternalDataError for bytes that it never had.
        """
        self._check(offset, length)
        if self.document is None:
            import numpy as np

            # A bytearray would be filled with zeros first.
            out: Any = np.empty(length, np.uint8)
            self.read_into(offset, out)
            return out  # type: ignore[no-any-return]
        return payload_at(self.document, offset, offset + length)

    def read_into(self, offset: int, out: Buffer) -> None:
        """Fill a writable buffer, which must be contiguous, with the bytes from `offset` on; raises as `view` does."""
        with memoryview(out) as items:
            self._check(offset, items.nbytes)
            if not items.nbytes:
                return
            with items.cast("B") as view:
                memory = self._holder.memory
                if memory is not None and memory.missing([(offset, offset + len(view))]):
                    memory.source.read_into(offset, view)
                    return
                if self.descriptor < 0:
                    view[:] = memoryview(payload_at(self._holder, offset, offset + len(view)))
                    return
                self.check_unchanged()
                done = 0
                while done < len(view):
                    try:
                        count = _read_at(self.descriptor, view[done:], offset + done)
                    except OSError as error:
                        raise SourceError.from_os_error(error, self.name) from None
                    if not count:
                        self.check_unchanged()
                        raise SourceError(errno.EIO, f"the file ends at byte {offset + done:,}", self.name)
                    done += count

    def sha1(self) -> str:
        """The SHA-1 of all its bytes in hexadecimal digits; they are read, not mapped. Raises as `view` does."""
        from hashlib import sha1

        digest = sha1(usedforsecurity=False)
        chunk = memoryview(bytearray(min(_CHUNK, self.size)))
        for offset in range(0, self.size, _CHUNK):
            part = chunk[: self.size - offset]
            self.read_into(offset, part)
            digest.update(part)
        return digest.hexdigest()

    def check_unchanged(self) -> None:
        """Raise SourceError if the file was changed or truncated since it was opened."""
        self._holder.check_unchanged()

    def check_unused(self) -> None:
        """Raise InUseError while arrays or memoryviews look into it."""
        if self._holder.pins:
            raise InUseError(
                f"{self.name} is still in use, by {self._holder.pins} array(s) or memoryview(s) that look into it; "
                "delete or copy them before closing the model"
            )

    def close(self) -> None:
        """Let go of it; raises InUseError, and lets go of nothing, while arrays or memoryviews look into it."""
        self._holder.close()
        self._is_closed = True

    def _check(self, offset: int, length: int) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.name} was closed; load the model again, or use it inside its with block")
        if offset < 0 or length < 0 or length > self.size - offset:
            raise ExternalDataError(
                f"it has {self.size:,} bytes; there are no {length:,} from byte {offset:,} on", source=self.name
            )


def way_out(error: OSError) -> str:
    """A hint on an error of the system; empty where that is not known."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "raise the limit (ulimit -n), or gather the model's data in one file"
    return ""


if hasattr(os, "preadv"):

    def _read_at(descriptor: int, out: memoryview, offset: int) -> int:
        return os.preadv(descriptor, [out], offset)
else:
    from threading import Lock

    _POSITION = Lock()

    def _read_at(descriptor: int, out: memoryview, offset: int) -> int:
        with _POSITION:
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, min(len(out), _CHUNK))
        out[: len(data)] = data
        return len(data)
