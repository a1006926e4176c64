"""Every exception of onnxwire."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

_NAMES = 100_000  # that are looked at for one that was meant
_CLOSE = 2000  # of those names, the number that is compared letter by letter
_LETTERS = 200  # of a name that is compared; a longer one is not a slip of the keyboard


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that was perhaps meant, such as "; did you mean 'axis'?", or "" where none is like it.

    A few letters may differ, or one be a part of the other. Of a million names the first 100,000 are looked at.
    """
    from difflib import get_close_matches
    from heapq import nlargest
    from itertools import islice
    from os.path import commonprefix

    if not name or len(name) > _LETTERS:
        return ""
    names = dict.fromkeys(other for other in islice(known, _NAMES) if other and len(other) <= 2 * _LETTERS)
    likely: Iterable[str] = names
    if len(names) > _CLOSE:
        # Of very many, those that begin alike.
        likely = nlargest(_CLOSE, names, lambda other: len(commonprefix([name, other])))  # noqa: RUF071
    close = get_close_matches(name, likely, n=1, cutoff=0.7)
    if not close:
        lower = name.lower()
        parts = (other for other in names if lower in other.lower() or (len(other) > 1 and other.lower() in lower))
        close = sorted(parts, key=len)[:1]
    return f"; did you mean {close[0]!r}?" if close else ""


def count_text(n: int, noun: str) -> str:
    """A number of things: 1 node, 1,204 nodes."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


class Error(Exception):
    """The base of every error about what onnxwire was given, but for an argument of a kind that a call does not take.

    Such a one is a TypeError, as of any function.
    """


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
        parts = [self.source]
        if self.offset is not None:
            parts.append(f"byte {self.offset:,}")
        if self.path:
            parts.append(self.path)
        return ": ".join([*parts, self.reason])


class TensorError(Error, ValueError):
    """A tensor whose parts do not fit together, or an array that no tensor can hold.

    reason: what its dims and type call for, and what it holds. tensor: its name. offset and path: where it stands, or
    None and "" for one that was edited; source: the file's name.
    """

    def __init__(
        self, reason: str, tensor: str = "", path: str = "", source: str = "", offset: int | None = None
    ) -> None:
        super().__init__(reason, tensor, path, source, offset)
        self.reason = reason
        self.tensor = tensor
        self.path = path
        self.source = source
        self.offset = offset

    def __str__(self) -> str:
        parts = [self.source] if self.source else []
        if self.offset is not None:
            parts.append(f"byte {self.offset:,}")
        name = f"tensor {self.tensor!r}" if self.tensor else ""
        return ": ".join([*parts, *filter(None, (self.path, name)), self.reason])


class ExternalDataError(TensorError):
    """External data that may not be opened, or a range that its file does not have."""


class MissingPackageError(Error, ImportError):
    """The request needs a package that is not installed."""


class QueryError(Error, ValueError):
    """A query that the database refuses; the text says why."""


class PathError(Error, LookupError):
    """A path or name that leads to nothing in a message.

    path: what was asked for. reason: how far it leads, and what there is instead. source: the file's name.
    """

    def __init__(self, reason: str, path: str = "", source: str = "") -> None:
        super().__init__(reason, path, source)
        self.reason = reason
        self.path = path
        self.source = source

    def __str__(self) -> str:
        return ": ".join([*filter(None, (self.source, self.path)), self.reason])


class ClosedError(Error, ValueError):
    """A message or array was used after its document was closed."""


class InUseError(Error, BufferError):
    """A document can't be closed because arrays or memoryviews still look into it."""


class EditError(Error):
    """An edit that can't be made; also the TypeError, ValueError, ... that protobuf's own messages raise for it.

    reason: what is wrong. field: the full name of the field, such as `onnx.NodeProto.op_type`, or "".
    """

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason, field)
        self.reason = reason
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class FieldTypeError(EditError, TypeError):
    """A value of a type that the field does not take."""


class FieldValueError(EditError, ValueError):
    """A value out of the field's range, or a name that the message does not have."""


class FieldOverflowError(FieldValueError, OverflowError):
    """An int that no float can hold, or that is too large to be an index."""


class FieldIndexError(EditError, IndexError):
    """An index that the repeated field does not have."""


class FieldAttributeError(EditError, AttributeError):
    """An assignment to what can't be assigned to."""


class FieldTextError(FieldValueError, UnicodeEncodeError):
    """A str that is not text, such as one with a surrogate in it."""

    def __init__(self, error: UnicodeEncodeError, field: str = "") -> None:
        UnicodeEncodeError.__init__(self, *error.args)
        self.reason = f"the str has no UTF-8 form: {error}"
        self.field = field

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild the error from the args of the one it was made of; `args` of its own are those."""
        return _unicode_error, (type(self), UnicodeEncodeError, self.args, self.field), self.__dict__


class FieldBytesError(FieldValueError, UnicodeDecodeError):
    """Bytes for a string field that are not valid UTF-8."""

    def __init__(self, error: UnicodeDecodeError, field: str = "") -> None:
        UnicodeDecodeError.__init__(self, *error.args)
        self.reason = f"the bytes are not valid UTF-8: {error}"
        self.field = field

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild the error from the args of the one it was made of; `args` of its own are those."""
        return _unicode_error, (type(self), UnicodeDecodeError, self.args, self.field), self.__dict__


def _unicode_error(cls: Callable[..., Error], kind: type[UnicodeError], args: tuple[object, ...], field: str) -> Error:
    # Not with an error among the arguments: packages such as tblib register another way to pickle those.
    return cls(kind(*args), field)


class ChangedError(EditError, RuntimeError):
    """A repeated field changed while one of its methods ran: by an index's or a key's code, or in another thread."""


class StaleError(EditError):
    """A change that is meant for a state of the message which is not the present one any more."""


class FileError(Error, OSError):
    """A file could not be opened, read or written; also the OSError that the system's own error would have been."""

    @classmethod
    def from_os_error(cls, error: OSError | ValueError, path: object, advice: str = "") -> Self:
        """The error of this class for an OSError; it is a FileNotFoundError where that one was one, and so on.

        A ValueError is what Python raises for a path with a NUL in it, or letters that names of files can't have.
        """
        if not isinstance(error, OSError):
            error = OSError(errno.EINVAL, "no file can have such a name")
        kinds = _KINDS.get(cls, {})
        kind = next((kinds[builtin] for builtin in type(error).__mro__ if builtin in kinds), cls)
        reason = error.strerror or str(error)
        return kind(error.errno, f"{reason}; {advice}" if advice else reason, os.fspath(path))  # type: ignore[return-value,call-overload]

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename is not None else super().__str__()


class SourceError(FileError):
    """A file could not be opened or read."""


class SourceNotFoundError(SourceError, FileNotFoundError):
    """There is no file at the path."""


class SourceIsADirectoryError(SourceError, IsADirectoryError):
    """The path names a directory."""


class SourcePermissionError(SourceError, PermissionError):
    """The file may not be read."""


class SaveError(FileError):
    """A file could not be written; what was at its path before is as it was, unless the message says otherwise."""


class SaveNotFoundError(SaveError, FileNotFoundError):
    """There is no directory for the file."""


class SaveIsADirectoryError(SaveError, IsADirectoryError):
    """The path names a directory."""


class SaveNotADirectoryError(SaveError, NotADirectoryError):
    """The path leads through a file as if it were a directory."""


class SavePermissionError(SaveError, PermissionError):
    """The file or its directory may not be written."""


class SaveBrokenPipeError(SaveError, BrokenPipeError):
    """Whoever read the pipe that was written to has gone."""


# The classes that are also the system's own error. Subclasses that an application defines are never raised.
_KINDS: dict[type[FileError], dict[type, type[FileError]]] = {
    SourceError: {
        FileNotFoundError: SourceNotFoundError,
        IsADirectoryError: SourceIsADirectoryError,
        PermissionError: SourcePermissionError,
    },
    SaveError: {
        FileNotFoundError: SaveNotFoundError,
        IsADirectoryError: SaveIsADirectoryError,
        NotADirectoryError: SaveNotADirectoryError,
        PermissionError: SavePermissionError,
        BrokenPipeError: SaveBrokenPipeError,
    },
}
