"""Reads a text in pieces, with positions for error messages."""

from __future__ import annotations

import errno
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import IO, Any

from onnxwire.engine.message import Message
from onnxwire.errors import DecodeError, SourceError, did_you_mean
from onnxwire.messages import ModelProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import TypeVar

    MessageT = TypeVar("MessageT", bound=Message, default=ModelProto)

Text = str | bytes | bytearray | memoryview | IO[str] | IO[bytes]
"""A text, or a file object that is read as text; bytes are UTF-8."""

CHUNK = 1 << 18  # characters of the text that are read at a time
AHEAD = 8192  # characters from the start of a field or message that are in memory, unless the text ends before


def new_message(cls: type[MessageT]) -> MessageT:
    """Make an empty message of a class. Raises TypeError for anything but a message class of onnxwire."""
    if not isinstance(cls, type) or not issubclass(cls, Message):
        raise TypeError(f"expected a message class of onnxwire, not {cls!r}")
    return cls()


class Window:
    """The part of a text that is in memory: `buf`, parsed up to the index `pos`.

    is_last: the text ends at the end of `buf`. is_clean: the text up to the end of `buf` contains no surrogates.
    """

    __slots__ = ("_column", "_line", "_pieces", "buf", "is_clean", "is_last", "pos", "source")

    def __init__(self, text: Text) -> None:
        self.buf = ""
        self.pos = 0
        self.is_last = False
        self.is_clean = True
        self._line = self._column = 0  # position of the first character of `buf`
        self.source = f"<{type(text).__name__}>"
        if isinstance(text, str):
            self._pieces = _slices(text)
        elif isinstance(text, bytes | bytearray | memoryview):
            self._pieces = self._decoded(_slices(memoryview(text).cast("B")))
        elif hasattr(text, "read"):
            name = getattr(text, "name", None)
            self.source = name if isinstance(name, str) else self.source
            self._pieces = self._decoded(self._chunks(text))
        else:
            raise TypeError(f"expected a str, bytes or a file object, not {type(text).__name__}")
        self.more()

    def more(self) -> None:
        """Drop the text before `pos`, and append more of the text, if there is more."""
        buf, pos = self.buf, self.pos
        lines = buf.count("\n", 0, pos)
        self._line += lines
        self._column = pos - 1 - buf.rfind("\n", 0, pos) if lines else self._column + pos
        rest = [buf[pos:]]
        self.buf, self.pos = rest[0], 0
        # The rest is doubled, so that a value of any length takes linear time.
        wanted = max(len(rest[0]), 1)
        try:
            while wanted > 0:
                piece = next(self._pieces, None)
                if piece is None:
                    self.is_last = True
                    break
                self.is_clean = self.is_clean and (piece.isascii() or _is_text(piece))
                rest.append(piece)
                wanted -= len(piece)
        except UnicodeDecodeError as error:
            valid = error.object[: error.start].decode(error.encoding, "replace")
            self.buf = "".join([*rest, valid])
            reason = f"the byte 0x{error.object[error.start]:02x} is not valid {error.encoding} here ({error.reason})"
            raise self.error(reason, self.position(len(self.buf))) from None
        self.buf = "".join(rest)

    def position(self, pos: int) -> str:
        """Return line and column of an index of `buf`."""
        lines = self.buf.count("\n", 0, pos)
        column = pos - self.buf.rfind("\n", 0, pos) if lines else self._column + pos + 1
        return f"line {self._line + lines + 1:,}, column {column:,}"

    def error(self, reason: str, position: str, path: str = "") -> DecodeError:
        """Make a DecodeError for a fault at a position, in the field at a path."""
        return DecodeError(f"{position}: {reason}", path=path, source=self.source)

    def _chunks(self, text: IO[Any]) -> Iterator[Any]:
        """Yield pieces from a file object, the last of them empty."""
        while True:
            try:
                piece = text.read(CHUNK)
                if piece is None:
                    raise BlockingIOError(errno.EAGAIN, "its read() returned None; make the stream blocking")
            except OSError as error:
                raise SourceError.from_os_error(error, self.source) from None
            yield piece

    def _decoded(self, pieces: Iterator[Any]) -> Iterator[str]:
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
                raise TypeError(f"read() of {self.source} returned {type(piece).__name__}, not str or bytes")


def _slices(text: Any) -> Iterator[Any]:
    for start in range(0, len(text), CHUNK):
        yield text[start : start + CHUNK]
    if not isinstance(text, str):
        yield b""


def _is_text(piece: str) -> bool:
    try:
        piece.encode()
    except UnicodeEncodeError:
        return False
    return True


def show(token: str) -> str:
    """Quote a token for an error message."""
    if not token:
        return "the end of the text"
    return repr(token if len(token) <= 40 else token[:37] + "...")


def unknown_field(descriptor: Any, name: str, names: Any) -> str:
    """Return the error text for an unknown field. names: of the known fields."""
    return f"{descriptor.name} has no field {show(name)}{did_you_mean(name, names)}"


def _run_start(buf: str, start: int, end: int) -> int:
    """Return the start of the run of backslashes that ends at `end`."""
    if end == start or buf[end - 1] != "\\":
        return end
    return start + len(buf[start:end].rstrip("\\"))


def closing_quote(buf: str, start: int, quote: str) -> int:
    """Return the index of the quote that ends a string literal, or len(buf)."""
    end = buf.find(quote, start)
    while end >= 0:
        if (end - _run_start(buf, start, end)) % 2 == 0:
            return end
        start, end = end + 1, buf.find(quote, end + 1)
        if 0 <= end - start < 32:  # if quotes are frequent, one match is faster
            end = _BODIES[quote].match(buf, start).end()  # type: ignore[union-attr]
            return end if buf[end : end + 1] == quote else len(buf)
    return len(buf)


_BODIES = {quote: re.compile(rf"[^{quote}\\]*+(?:\\.[^{quote}\\]*+)*+", re.DOTALL) for quote in "\"'"}


def safe_cut(buf: str, start: int, end: int) -> int:
    """Return an index at which a string literal can be split into parts that decode independently, or `start`.

    start: the beginning of the literal, or the previous split. end: the end of the text in memory.
    No escape is split, nor a surrogate pair of two escapes. At least 12 characters follow, so that an escape at the
    index is complete.
    """
    last = end - 12
    while last > start:
        slash = buf.rfind("\\", start, last)
        if slash < 0 or last - slash > 256:  # longer than any escape
            return last
        first = _run_start(buf, start, slash)
        if first > start and not (buf[first + 1] == "u" and buf[first + 2] in "dD" and buf[first + 3] in "cdefCDEF"):
            return first
        if slash - first > 1:  # pairs, which are escaped backslashes
            return first + (slash - first) // 2 * 2
        last = first
    return start
