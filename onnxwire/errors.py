"""Exceptions of onnxwire."""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

_MAX_CANDIDATES = 100_000  # maximum number of candidates that are considered
_MAX_COMPARED_CANDIDATES = 2000  # maximum number compared character by character
_MAX_NAME_CHARS = 200  # a longer name is not a typing error


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return a hint such as "; did you mean 'axis'?", or "" if no candidate is similar.

    A similar candidate differs from the name in a few characters, contains it, or is contained in it. Only the first
    100,000 candidates are considered, and of these only the ones of up to 400 characters. Of more than 2,000
    candidates, only the 2,000 with the longest prefixes in common with the name are compared character by character. A
    name of more than 200 characters gets no hint.
    """
    from difflib import get_close_matches
    from heapq import nlargest
    from itertools import islice
    from os.path import commonprefix

    if not name or len(name) > _MAX_NAME_CHARS:
        return ""
    max_chars = 2 * _MAX_NAME_CHARS
    names = dict.fromkeys(text for text in islice(candidates, _MAX_CANDIDATES) if text and len(text) <= max_chars)
    compared_names: Iterable[str] = names
    if len(names) > _MAX_COMPARED_CANDIDATES:
        # The names that have the longest prefixes in common with `name`.
        compared_names = nlargest(_MAX_COMPARED_CANDIDATES, names, lambda text: len(commonprefix([name, text])))  # noqa: RUF071
    similar = get_close_matches(name, compared_names, n=1, cutoff=0.7)
    if not similar:
        lower_name = name.lower()
        similar = sorted(
            (text for text in names if lower_name in text.lower() or (len(text) > 1 and text.lower() in lower_name)),
            key=len,
        )[:1]
    return f"; did you mean {similar[0]!r}?" if similar else ""


def count_text(n: int, noun: str) -> str:
    """Return a number with a noun: 1 node, 1,204 nodes."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


class Error(Exception):
    """The base class of the exceptions that onnxwire defines.

    Wrong arguments may also raise built-in exceptions, such as TypeError.
    """

    __module__ = "onnxwire"


class DecodeError(Error, ValueError):
    """Bytes or text that are not in the expected format: damaged messages, invalid JSON, tables or other files.

    offset: the offset of the fault in the document, or None if it can't be attributed to one byte.
    path: the field with the fault, such as `graph.node[3].attribute[0].ints`; "" if no known field contains it.
    reason: the fault, and the remedy if one is known. source: the file's name, or text such as "<bytes>" for a source
    without a name.
    """

    __module__ = "onnxwire"

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
    """A tensor whose parts do not fit together, or an array that no tensor can represent.

    reason: the fault, and the remedy if one is known. tensor: the tensor's name. offset and path: the tensor's position
    in the document; None and "" if it is unknown, as for an edited tensor. source: the file's name.
    """

    __module__ = "onnxwire"

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
    """A malformed or forbidden reference to external data, or a file that is too short or has another checksum."""

    __module__ = "onnxwire"


class MissingPackageError(Error, ImportError):
    """A feature needs a package that is not installed."""


class QueryError(Error, ValueError):
    """An SQL query that is rejected, or fails; the message contains the reason."""


class PathError(Error, LookupError):
    """A path or name that a message lacks or that does not suit the operation, or an invalid condition for a selection.

    path: the path, name or condition. reason: the fault, and the alternatives if there are any. source: the file's
    name.
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

    __module__ = "onnxwire"


class InUseError(Error, BufferError):
    """A document can't be closed because arrays, memoryviews or calls use its bytes or its external data."""

    __module__ = "onnxwire"


class EditError(Error):
    """An invalid edit. Most subclasses are also the TypeError, ValueError, ... that protobuf raises for such an edit.

    reason: the fault. field: the full name of the field, such as `onnx.NodeProto.op_type`, or "".
    """

    __module__ = "onnxwire"

    def __init__(self, reason: str, field: str = "") -> None:
        super().__init__(reason, field)
        self.reason = reason
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.reason}" if self.field else self.reason


class FieldTypeError(EditError, TypeError):
    """A value of a type that the field or the parameter does not accept."""


class FieldValueError(EditError, ValueError):
    """An invalid value, such as one outside the field's range, or a name that the message does not have."""


class FieldOverflowError(FieldValueError, OverflowError):
    """An int that is too large for a float, a bool or an index."""


class FieldIndexError(EditError, IndexError):
    """An index that the repeated field does not have."""


class FieldAttributeError(EditError, AttributeError):
    """An attribute was assigned or deleted, but does not support this."""


class FieldTextError(FieldValueError, UnicodeEncodeError):
    """A str that can't be encoded as UTF-8, such as one with a lone surrogate."""

    def __init__(self, error: UnicodeEncodeError, field: str = "") -> None:
        UnicodeEncodeError.__init__(self, *error.args)
        self.reason = f"the str has no UTF-8 form: {error}"
        self.field = field

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments of the original UnicodeError, which are in `args`."""
        return _restore_unicode_error, (type(self), UnicodeEncodeError, self.args, self.field), self.__dict__


class FieldBytesError(FieldValueError, UnicodeDecodeError):
    """Bytes for a string field that are not valid UTF-8."""

    def __init__(self, error: UnicodeDecodeError, field: str = "") -> None:
        UnicodeDecodeError.__init__(self, *error.args)
        self.reason = f"the bytes are not valid UTF-8: {error}"
        self.field = field

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the arguments of the original UnicodeError, which are in `args`."""
        return _restore_unicode_error, (type(self), UnicodeDecodeError, self.args, self.field), self.__dict__


def _restore_unicode_error(
    error_class: Callable[..., Error], unicode_class: type[UnicodeError], args: tuple[object, ...], field: str
) -> Error:
    # The UnicodeError itself is not pickled: packages such as tblib replace the pickling of exceptions.
    return error_class(unicode_class(*args), field)


class ChangedError(EditError, RuntimeError):
    """A repeated field was changed during one of its methods, by `__index__`, a key function, or another thread.

    Also raised if repairs are used again after they were applied.
    """


class StaleError(EditError):
    """An edit that was made for an earlier state of the message."""


class FileError(Error, OSError):
    """A file could not be opened, read or written. Some subclasses are also a built-in such as FileNotFoundError."""

    @classmethod
    def from_os_error(cls, error: OSError | ValueError, path: object, advice: str = "") -> Self:
        """Return the error for an OSError, if possible in a subclass that is also a built-in such as FileNotFoundError.

        path: the path for the message; advice: the remedy, which is added to the reason. `error` may be a ValueError,
        which Python raises for a path with a NUL, or with characters that file names can't contain.
        """
        if not isinstance(error, OSError):
            error = OSError(errno.EINVAL, "the path is not a valid file name")
        subclasses = _SUBCLASSES.get(cls, {})
        error_class = next((subclasses[builtin] for builtin in type(error).__mro__ if builtin in subclasses), cls)
        reason = error.strerror or str(error)
        text = f"{reason}; {advice}" if advice else reason
        return error_class(error.errno, text, os.fspath(path))  # type: ignore[return-value,call-overload]

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}" if self.filename is not None else super().__str__()


class SourceError(FileError):
    """A file could not be opened or read."""

    __module__ = "onnxwire"


class SourceNotFoundError(SourceError, FileNotFoundError):
    """There is no file at the path."""


class SourceIsADirectoryError(SourceError, IsADirectoryError):
    """The path names a directory."""


class SourcePermissionError(SourceError, PermissionError):
    """There is no permission to read the file."""


class SaveError(FileError):
    """A file could not be written. The old file is unchanged, unless the message states otherwise."""

    __module__ = "onnxwire"


class SaveNotFoundError(SaveError, FileNotFoundError):
    """The directory of the file does not exist, or a file was removed during the save."""


class SaveIsADirectoryError(SaveError, IsADirectoryError):
    """The path names a directory."""


class SaveNotADirectoryError(SaveError, NotADirectoryError):
    """The path leads through a file as if it were a directory."""


class SavePermissionError(SaveError, PermissionError):
    """There is no permission to write the file or its directory."""


class SaveBrokenPipeError(SaveError, BrokenPipeError):
    """The reader of the pipe has closed it."""


# Subclasses that are also built-in OSError classes. Subclasses that applications define are never raised.
_SUBCLASSES: dict[type[FileError], dict[type, type[FileError]]] = {
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
