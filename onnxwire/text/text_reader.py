"""Reads messages in protobuf's text format."""

from __future__ import annotations

from onnxwire.messages import ModelProto
from onnxwire.text._text_parser import parse_text
from onnxwire.text.text_source import Text, new_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.text.text_source import MessageT


def from_text(
    text: Text,
    type: type[MessageT] = ModelProto,  # type: ignore[assignment]
    *,
    ignore_unknown: bool = False,
) -> MessageT:
    """Read a message from protobuf's text format, as google.protobuf.text_format.Parse does.

    text: a str; bytes, bytearray or memoryview of UTF-8; or a text or binary file object, which is read in pieces to
    its end. type: the class of the message. ignore_unknown: skip unknown fields, such as those of a newer ONNX, also
    those that are written as numbers, as `onnxwire dump` prints them.
    Returns a new message. Memory: besides the message, a small part of the text and at most two copies of one value.
    Retired and reserved fields are skipped, as by protobuf's C++, with a RetiredFieldWarning unless ignore_unknown is
    True.
    Raises DecodeError with line and column for invalid text, or messages nested more than 100 deep. Raises TypeError if
    `text` is not text or `type` is not a message class, SourceError if a file object can't be read.
    Source: protobuf.dev/reference/protobuf/textformat-spec, except where text_format.Parse differs. Two differences of
    text_format.Parse are not adopted: the escape `\\?` and retired fields follow the specification.
    """
    message = new_message(type)
    parse_text(message, text, ignore_unknown=ignore_unknown)
    return message
