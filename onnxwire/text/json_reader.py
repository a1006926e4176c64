"""Reads messages in the JSON format of protobuf."""

from __future__ import annotations

from onnxwire.messages import ModelProto
from onnxwire.text._json_parser import parse_json
from onnxwire.text.text_source import Text, new_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.text.text_source import MessageT


def from_json(
    text: Text,
    type: type[MessageT] = ModelProto,  # type: ignore[assignment]
    *,
    ignore_unknown: bool = False,
) -> MessageT:
    """Read a message from its JSON form, as google.protobuf.json_format.Parse does.

    text: a str; bytes, bytearray or memoryview of UTF-8; or a text or binary file object, which is read in pieces to
    its end. type: the class of the message. ignore_unknown: skip unknown fields and unknown names of enum values, such
    as those of a newer ONNX.
    Returns a new message. Memory: besides the message, a small part of the text and one copy of one value, or a few
    copies of a string that is not ASCII or of malformed base64.
    Raises DecodeError with line and column for invalid text, or messages nested 100 deep or more. Raises TypeError if
    `text` is not text or `type` is not a message class, SourceError if a file object can't be read.
    Source: protobuf.dev/programming-guides/json, except where json_format.Parse differs; a field that occurs under both
    of its names is rejected, as by protobuf's C++.
    """
    message = new_message(type)
    parse_json(message, text, ignore_unknown=ignore_unknown)
    return message
