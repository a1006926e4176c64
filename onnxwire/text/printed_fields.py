"""Iterates over the fields that the JSON writer prints, formats numbers, and checks the arguments of both writers."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from onnxwire.engine.descriptor import EnumDescriptor, FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload
from onnxwire.engine.repeated_span import RepeatedSpan

SMALL_BYTES = 1 << 16  # a message or value of at most this size is read at once
CHUNK_BYTES = 3 << 14  # longer values are read in chunks: a multiple of 3 for base64, small enough for the caches
BATCH_NUMBERS = 4096  # maximum count of numbers that are formatted at a time; parsers add values in such batches, too

Format = Callable[[Sequence[Any]], list[str]]
"""A function that converts numbers to their texts."""


def check_arguments(message: object, max_bytes: int | None) -> None:
    """Raise TypeError unless `message` is a message, ValueError for a negative limit."""
    if not isinstance(message, Message):
        raise TypeError(f"expected a message of onnxwire, not {type(message).__name__}")
    if max_bytes is not None and max_bytes < 0:
        raise ValueError(f"max_bytes is {max_bytes}; it must not be negative")


class LongValue:
    """A string or bytes value that is too long to be read at once."""

    __slots__ = ("_buffer",)

    def __init__(self, payload: Payload | memoryview) -> None:
        self._buffer = payload

    def __len__(self) -> int:
        return len(self._buffer)

    def read(self) -> Iterator[bytes]:
        """Yield the bytes in pieces; the length of each piece, except the last, is a multiple of 3."""
        for start in range(0, len(self._buffer), CHUNK_BYTES):
            # The memoryview is released between pieces, so that the caller can stop and close the document.
            with memoryview(self._buffer) as view:
                piece = bytes(view[start : start + CHUNK_BYTES])
            yield piece

    def read_text(self) -> Iterator[str]:
        """Yield the characters; bytes that are not valid UTF-8 become surrogates, as in a string field."""
        decoder = getincrementaldecoder("utf-8")("surrogateescape")
        for piece in self.read():
            yield decoder.decode(piece)
        yield decoder.decode(b"", True)


def present_fields(message: Message) -> Iterator[tuple[FieldDescriptor, Iterable[Any]]]:
    """Yield each present field, in order of field numbers, with its values; a singular field has one.

    Strings and bytes of more than SMALL_BYTES are LongValues.
    """
    span = message._span
    if span is not None and span[1] - span[0] <= SMALL_BYTES:
        for field, value in message.ListFields():
            yield field, value if field.is_repeated else (value,)
        return
    for field in message.DESCRIPTOR.fields:
        is_payload = field.type in (field.TYPE_STRING, field.TYPE_BYTES)
        if field.is_repeated:
            values = getattr(message, field.name)
            if values:
                yield field, _payloads(field, values) if is_payload else values
        elif message.HasField(field.name):
            payload = message._payload(field.name) if is_payload else None
            if payload is not None and len(payload) > SMALL_BYTES:
                yield field, (LongValue(payload),)
            else:
                yield field, (getattr(message, field.name),)


def _payloads(field: FieldDescriptor, values: RepeatedSpan[Any]) -> Iterator[str | bytes | LongValue]:
    """Yield the elements of a repeated string or bytes field."""
    for payload in values._payloads():
        if len(payload) > SMALL_BYTES:
            yield LongValue(payload)
        else:
            data = bytes(payload)
            yield data.decode("utf-8", "surrogateescape") if field.type == field.TYPE_STRING else data


def count_bytes(value: str | bytes | LongValue) -> int:
    """Return the number of bytes of a string or bytes value in the document."""
    if isinstance(value, LongValue):
        return len(value)
    return len(value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value)


def format_plainly(values: Sequence[Any]) -> list[str]:
    """Format numbers as Python prints them."""
    return list(map(str, values))


def enum_format(enum: EnumDescriptor, format_name: Callable[[str], str] = str) -> Format:
    """Return a formatter of enum values: by name, or by number if unnamed. format_name: formats a name."""
    names = {number: format_name(value.name) for number, value in enum.values_by_number.items()}
    return lambda values: [names.get(value) or str(value) for value in values]


def format_bools(values: Sequence[bool]) -> list[str]:
    """Format truth values."""
    return ["true" if value else "false" for value in values]
