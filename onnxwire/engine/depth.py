"""How deep messages may be nested for those who go through them one in another."""

from __future__ import annotations

from onnxwire.engine.field_path import field_path
from onnxwire.errors import DecodeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.message import Message

MAX_DEPTH = 100  # of messages in one another, as for every protobuf reader


def too_deep(message: Message) -> DecodeError:
    """The error for a message that is nested too deep."""
    document, span = message._document, message._span
    reason = f"messages nested more than {MAX_DEPTH} deep, which protobuf readers refuse"
    if span is None:
        return DecodeError(reason, source=document.name)
    # The byte before an empty message is the last that lies in its record.
    return DecodeError(reason, span[0], field_path(document, span[0] - 1), document.name)
