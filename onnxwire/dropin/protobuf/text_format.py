"""A substitute for `google.protobuf.text_format`: the two functions that the `onnx` package uses, and their errors."""

from __future__ import annotations

from onnxwire.engine.message import Message
from onnxwire.errors import DecodeError
from onnxwire.text._text_parser import parse_text
from onnxwire.text.text_writer import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    MessageT = TypeVar("MessageT", bound=Message)

IS_SUBSTITUTE = True  # distinguishes this module from protobuf's


class Error(Exception):
    """The base of errors about texts."""


class ParseError(Error):
    """The text does not describe a message of the class."""


def MessageToString(message: Message) -> str:
    """Return a message in text format."""
    return to_text(message)


def Parse(text: str | bytes, message: MessageT) -> MessageT:
    """Merge a text into a message and return the message. Raises ParseError."""
    parsed = type(message)()
    try:
        parse_text(parsed, text)
    except DecodeError as error:
        raise ParseError(str(error)) from error
    message.MergeFrom(parsed)
    return message
