"""Writes messages in protobuf's text format."""

from __future__ import annotations

import io
from collections.abc import Callable, Container
from typing import IO, overload

from onnxwire.engine.message import Message
from onnxwire.engine.text_form import write_text
from onnxwire.text.printed_fields import check_arguments
from onnxwire.text.unknown_fields import UnknownFieldPrinter

Summary = Callable[[Message], tuple[Container[str], str] | None]
"""A function that returns the fields of a message to omit and the comment to print in their place, or None."""


@overload
def to_text(
    message: Message,
    out: None = None,
    *,
    max_bytes: int | None = None,
    as_protoc: bool = False,
    summary: Summary | None = None,
) -> str: ...
@overload
def to_text(
    message: Message,
    out: IO[str],
    *,
    max_bytes: int | None = None,
    as_protoc: bool = False,
    summary: Summary | None = None,
) -> None: ...
def to_text(
    message: Message,
    out: IO[str] | None = None,
    *,
    max_bytes: int | None = None,
    as_protoc: bool = False,
    summary: Summary | None = None,
) -> str | None:
    """Write a message in protobuf's text format, as google.protobuf.text_format.MessageToString does.

    message: any message; at most a few hundred kB are read at a time. out: a text file to write to; without one the
    text is returned. max_bytes: strings and bytes of more bytes, and repeated numbers of more elements, are replaced
    by a note (`raw_data: ... # 4,096 bytes`), which parsers reject. as_protoc: write as `protoc --decode` does, which
    also prints unknown fields, by number, escapes characters that are not ASCII, and writes 1 and 1e+06 instead of 1.0
    and 1000000.0. summary: called with each message; its result replaces fields of the message by a comment, such as
    the elements of a tensor by a digest (`analysis/payload_summary.py`).
    Raises DecodeError if the message is damaged or nested more than 100 deep; the output up to that point is written.
    Raises TypeError for an object that is not a message, and ValueError for a negative max_bytes.
    """
    check_arguments(message, max_bytes)
    unknown_fields = UnknownFieldPrinter().lines_of if as_protoc else None
    if out is not None:
        write_text(message, out.write, as_protoc, max_bytes, summary, unknown_fields)
        return None
    text = io.StringIO()
    write_text(message, text.write, as_protoc, max_bytes, summary, unknown_fields)
    return text.getvalue()
