"""Prints the unknown fields of messages in text format, as protoc does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnxwire.engine.damage import fault_at
from onnxwire.engine.descriptor import (
    WIRE_END_GROUP,
    WIRE_FIXED32,
    WIRE_FIXED64,
    WIRE_START_GROUP,
    WIRE_VARINT,
    Descriptor,
)
from onnxwire.engine.document import Document
from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload
from onnxwire.engine.record_reader import payload_at, read_record, read_varint_at
from onnxwire.engine.record_walk import walk_records

_MAX_UNKNOWN_DEPTH = 10  # maximum depth to which protoc prints unknown bytes as messages

Record = tuple[int, int, int, int | None]  # wire type, start and end of the value, raw value
Line = str | tuple[str, Payload]  # whole lines, or the start of a line and the bytes to print after it


class UnknownFieldPrinter:
    """Prints the unknown fields of any number of messages."""

    __slots__ = ("_unknown",)

    def __init__(self) -> None:
        self._unknown: dict[Descriptor, _UnknownFields] = {}

    def lines_of(self, message: Message, indent: str) -> Iterator[Line]:
        """Yield the unknown fields of a message; indent: the spaces before each line."""
        unknown = self._unknown.get(message.DESCRIPTOR)
        if unknown is None:
            unknown = self._unknown[message.DESCRIPTOR] = _UnknownFields(message.DESCRIPTOR)
        if not message._is_doubtful and not unknown.may_hide:
            return
        document, span = message._document, message._span
        if span is None:  # a message that was edited, or has several spans
            data = message._unknown_fields()
            document, span = Document(data, document.name), (0, len(data))
            document.set_root(type(message))
        for _, number, wire, value, after, raw in walk_records(document, *span):
            for record in unknown.in_record(document, number, wire, value, after, raw):
                yield from _record_lines(document, number, *record, indent, _MAX_UNKNOWN_DEPTH)


def _record_lines(
    document: Document, number: int, wire: int, value: int, after: int, raw: int | None, indent: str, left: int
) -> Iterator[Line]:
    """Yield one record. left: levels of messages and groups that are printed in it."""
    if wire == WIRE_VARINT:
        yield f"{indent}{number}: {raw}\n"
    elif wire == WIRE_FIXED32:
        yield f"{indent}{number}: 0x{raw:08x}\n"
    elif wire == WIRE_FIXED64:
        yield f"{indent}{number}: 0x{raw:016x}\n"
    elif wire == WIRE_START_GROUP or (left > 0 and value < after and _is_message(document, value, after, left)):
        yield f"{indent}{number} {{\n"
        while value < after:
            number, wire, inner, following, raw = read_record(document, value, after)
            if wire == WIRE_END_GROUP:
                break
            if following is None:
                raise fault_at(document, value, after)
            yield from _record_lines(document, number, wire, inner, following, raw, indent + "  ", left - 1)
            value = following
        yield f"{indent}}}\n"
    else:
        yield f"{indent}{number}: ", payload_at(document, value, after)


def _is_message(document: Document, start: int, end: int, left: int) -> bool:
    """Return whether protoc prints unknown bytes as a message. left: levels of groups that may nest in it."""
    while start < end:
        _, wire, value, after, _ = read_record(document, start, end)
        if after is None or (wire == WIRE_START_GROUP and not _is_shallow(document, value, after, left - 1)):
            return False
        start = after
    return True


def _is_shallow(document: Document, start: int, end: int, left: int) -> bool:
    """Return whether at most `left` groups nest in a group."""
    while left >= 0:
        _, wire, value, after, _ = read_record(document, start, end)
        if after is None:
            return wire == WIRE_END_GROUP
        if wire == WIRE_START_GROUP and not _is_shallow(document, value, after, left - 1):
            return False
        start = after
    return False


class _UnknownFields:
    """Finds the unknown fields among the records of a message."""

    __slots__ = ("closed", "fields", "may_hide")

    def __init__(self, descriptor: Descriptor) -> None:
        self.fields = descriptor.fields_by_number
        self.closed = {
            field.number: {value.number for value in field.enum_type.values}
            for field in descriptor.fields
            if field.enum_type is not None and field.enum_type.is_closed
        }
        # Packed runs may contain unknown values of a closed enum.
        self.may_hide = any(self.fields[number].is_repeated for number in self.closed)

    def in_record(
        self, document: Document, number: int, wire: int, value: int, after: int, raw: int | None
    ) -> Iterable[Record]:
        """Return the unknown fields in a record: (wire type, start and end of the value, raw value)."""
        field = self.fields.get(number)
        if field is None or not field.accepts(wire):
            return [(wire, value, after, raw)]
        if number not in self.closed:
            return []
        values = [raw] if raw is not None else _read_varints(document, value, after)
        numbers = [(bits & 0xFFFFFFFF ^ 1 << 31) - (1 << 31) for bits in values]
        return [(WIRE_VARINT, value, after, n & (1 << 64) - 1) for n in numbers if n not in self.closed[number]]


def _read_varints(document: Document, start: int, end: int) -> Iterator[int]:
    after: int | None = start
    while after is not None and after < end:
        bits, after = read_varint_at(document, after, end)
        if after is not None:
            yield bits
