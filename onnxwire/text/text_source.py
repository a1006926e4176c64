"""Code of the readers of the text format and JSON: sources read in pieces, new messages, and parts of error texts."""

from __future__ import annotations

import errno
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import IO, Any

from onnxwire.engine.message import Message
from onnxwire.errors import SourceError, did_you_mean
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    MessageT = TypeVar("MessageT", bound=Message, default=ModelProto)

Text = str | bytes | bytearray | memoryview | IO[str] | IO[bytes]
"""A text, or a file object that is read as text; bytes are UTF-8."""

CHUNK_CHARS = 1 << 18  # characters or bytes that are read at a time


def new_message(cls: type[MessageT]) -> MessageT:
    """Make an empty message of a class. Raises TypeError unless it is a message class of onnxwire."""
    if not isinstance(cls, type) or not issubclass(cls, Message):
        raise TypeError(f"expected a message class of onnxwire, not {cls!r}")
    return cls()


def pieces_of(text: Text) -> tuple[str, Iterator[str]]:
    """Return a text's name for error messages, and an iterator of its pieces.

    The iterator raises UnicodeDecodeError, SourceError if a file object can't be read, and TypeError if its `read`
    returns no str, bytes or memoryview. Raises TypeError for an object that is no text.
    """
    source = f"<{type(text).__name__}>"
    if isinstance(text, str):
        return source, _slices(text)
    if isinstance(text, bytes | bytearray | memoryview):
        return source, _decode(_slices(memoryview(text).cast("B")), source)
    if hasattr(text, "read"):
        name = getattr(text, "name", None)
        source = name if isinstance(name, str) else source
        return source, _decode(_chunks(text, source), source)
    raise TypeError(f"expected a str, bytes or a file object, not {type(text).__name__}")


def _chunks(text: IO[Any], source: str) -> Iterator[Any]:
    """Yield pieces from a file object; at its end, empty pieces."""
    while True:
        try:
            piece = text.read(CHUNK_CHARS)
            if piece is None:
                raise BlockingIOError(errno.EAGAIN, "its read() returned None; make the stream blocking")
        except OSError as error:
            raise SourceError.from_os_error(error, source) from None
        yield piece


def _decode(pieces: Iterator[Any], source: str) -> Iterator[str]:
    """Yield pieces of text; decode pieces of bytes as UTF-8. An empty piece ends the iteration."""
    decoder = getincrementaldecoder("utf-8")()
    for piece in pieces:
        if isinstance(piece, str):
            if not piece:
                return
            yield piece
        elif isinstance(piece, bytes | memoryview):
            yield decoder.decode(piece, not piece)
            if not piece:
                return
        else:
            raise TypeError(f"read() of {source} returned {type(piece).__name__}, not str or bytes")


def _slices(text: Any) -> Iterator[Any]:
    """Yield the pieces of a str or of bytes; for bytes, the last piece is empty, as `_decode` requires."""
    for start in range(0, len(text), CHUNK_CHARS):
        yield text[start : start + CHUNK_CHARS]
    if not isinstance(text, str):
        yield b""


def quote_token(token: str) -> str:
    """Quote a token for an error message; an empty token is the end of the text."""
    if not token:
        return "the end of the text"
    return repr(token if len(token) <= 40 else token[:37] + "...")


def unknown_field_reason(descriptor: Any, name: str, names: Any) -> str:
    """Return the error text for an unknown field. names: the names of the known fields."""
    quoted_name = quote_token(name) if name else "''"  # JSON may have an empty key
    return f"{descriptor.name} has no field {quoted_name}{did_you_mean(name, names)}"
