"""Every exception of onnxwire."""

from __future__ import annotations

import errno
import os


class Error(Exception):
    """The base of every error that onnxwire raises for what it was given."""


class DecodeError(Error, ValueError):
    """Bytes that are not what they were taken for.

    offset: the byte of the document at which the fault shows, or None where no one byte is to blame.
    path: the field it lies in, such as `graph.node[3].attribute[0].ints`; "" for the document itself.
    reason: what is wrong and what to do. source: the file's name or a word for what was given instead.
    """

    def __init__(self, reason: str, offset: int | None = None, path: str = "", source: str = "<bytes>") -> None:
        super().__init__(reason, offset, path, source)
        self.reason = reason
        self.offset = offset
        self.path = path
        self.source = source

    def __str__(self) -> str:
        places = [self.source]
        if self.offset is not None:
            places.append(f"byte {self.offset:,}")
        if self.path:
            places.append(self.path)
        return ": ".join([*places, self.reason])


class ClosedError(Error, ValueError):
    """A message or array was used after its document was closed."""


class InUseError(Error, BufferError):
    """A document can't be closed because arrays or memoryviews still look into it."""


class SourceError(Error, OSError):
    """A file could not be opened or read; also the OSError that the system's own error would have been."""

    @classmethod
    def from_os_error(cls, error: OSError, path: object, advice: str = "") -> SourceError:
        """The SourceError for an OSError; it is a FileNotFoundError where that one was one, and so on."""
        kind = _KINDS.get(error.errno or 0, cls)
        reason = error.strerror or str(error)
        return kind(error.errno, f"{reason}; {advice}" if advice else reason, os.fspath(path))  # type: ignore[call-overload]

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename is not None else super().__str__()


class SourceNotFoundError(SourceError, FileNotFoundError):
    """There is no file at the path."""


class SourceIsADirectoryError(SourceError, IsADirectoryError):
    """The path names a directory."""


class SourcePermissionError(SourceError, PermissionError):
    """The file may not be read."""


_KINDS: dict[int, type[SourceError]] = {
    errno.ENOENT: SourceNotFoundError,
    errno.EISDIR: SourceIsADirectoryError,
    errno.EACCES: SourcePermissionError,
    errno.EPERM: SourcePermissionError,
}
