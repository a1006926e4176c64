"""A substitute for `google.protobuf.json_format`: the two functions that the `onnx` package uses, and their errors."""

from __future__ import annotations

from onnxwire.engine.message import Message
from onnxwire.errors import DecodeError
from onnxwire.text._json_parser import parse_json
from onnxwire.text.json_writer import to_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    MessageT = TypeVar("MessageT", bound=Message)

IS_SUBSTITUTE = True  # distinguishes this module from protobuf's


class Error(Exception):
    """The base of errors about JSON."""


class ParseError(Error):
    """The JSON text does not describe a message of the class."""


def MessageToJson(message: Message, preserving_proto_field_name: bool = False, indent: int | None = 2) -> str:
    """Return a message as JSON text."""
    return to_json(message, indent=indent, preserving_proto_field_name=preserving_proto_field_name)


def Parse(text: str | bytes, message: MessageT, ignore_unknown_fields: bool = False) -> MessageT:
    """Merge JSON text into a message and return the message. Raises ParseError."""
    parsed = type(message)()
    try:
        parse_json(parsed, text, ignore_unknown=ignore_unknown_fields)
    except DecodeError as error:
        raise ParseError(str(error)) from error
    message.MergeFrom(parsed)
    return message
