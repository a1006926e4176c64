"""The nesting limit of messages, and the error for messages nested deeper."""

from __future__ import annotations

from onnxwire._varint import NESTING_LIMIT
from onnxwire.engine.field_path import field_path
from onnxwire.errors import DecodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.message import Message

MAX_DEPTH = NESTING_LIMIT


def depth_error(message: Message) -> DecodeError:
    """Return the error for a message that is nested more than MAX_DEPTH deep."""
    document, span = message._document, message._span
    reason = f"messages nested more than {MAX_DEPTH} deep, which protobuf readers refuse"
    if span is None:
        return DecodeError(reason, source=document.name)
    # An empty message contains no byte: use the byte before it, which is in the message's record.
    return DecodeError(reason, span[0], field_path(document, span[0] - 1), document.name)
