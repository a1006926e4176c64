"""Prints the unknown fields of messages in text format, as protoc does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnxwire.engine.damage import decode_error_at
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

# The wire type, start of the value, start of the next record, and raw value, as in the result of `read_record`.
Record = tuple[int, int, int, int | None]
Line = str | tuple[str, Payload]  # a whole line, or the start of a line and the bytes to print after it


class UnknownFieldPrinter:
    """Prints the unknown fields of any number of messages."""

    __slots__ = ("_by_descriptor",)

    def __init__(self) -> None:
        self._by_descriptor: dict[Descriptor, _UnknownFields] = {}

    def lines_of(self, message: Message, indent: str) -> Iterator[Line]:
        """Yield the lines of the unknown fields of a message. indent: the spaces before each line."""
        unknown_fields = self._by_descriptor.get(message.DESCRIPTOR)
        if unknown_fields is None:
            unknown_fields = self._by_descriptor[message.DESCRIPTOR] = _UnknownFields(message.DESCRIPTOR)
        # `_is_doubtful` is true for every message with an unknown field other than unknown values of repeated enums.
        if not message._is_doubtful and not unknown_fields.has_repeated_closed_enum:
            return
        document, span = message._document, message._span
        if span is None:  # a message that was edited, or has several spans
            data = message._unknown_fields()
            document, span = Document(data, document.name), (0, len(data))
            document.set_root(type(message))
        for _, number, wire, value, next_start, raw in walk_records(document, *span):
            for record in unknown_fields.find_in_record(document, number, wire, value, next_start, raw):
                yield from _record_lines(document, number, *record, indent, _MAX_UNKNOWN_DEPTH)


def _record_lines(
    document: Document,
    number: int,
    wire: int,
    value: int,
    next_start: int,
    raw: int | None,
    indent: str,
    max_depth: int,
) -> Iterator[Line]:
    """Yield the lines of one record.

    number, wire, value, next_start, raw: the record, as `read_record` returns it. max_depth: the number of nested
    levels, including groups, at which bytes are printed as messages. Groups are printed at any depth.
    """
    if wire == WIRE_VARINT:
        yield f"{indent}{number}: {raw}\n"
    elif wire == WIRE_FIXED32:
        yield f"{indent}{number}: 0x{raw:08x}\n"
    elif wire == WIRE_FIXED64:
        yield f"{indent}{number}: 0x{raw:016x}\n"
    elif wire == WIRE_START_GROUP or (
        max_depth > 0 and value < next_start and _is_message(document, value, next_start, max_depth)
    ):
        yield f"{indent}{number} {{\n"
        while value < next_start:
            number, wire, nested_value, nested_next_start, raw = read_record(document, value, next_start)
            if wire == WIRE_END_GROUP:
                break
            if nested_next_start is None:
                raise decode_error_at(document, value, next_start)
            yield from _record_lines(
                document, number, wire, nested_value, nested_next_start, raw, indent + "  ", max_depth - 1
            )
            value = nested_next_start
        yield f"{indent}}}\n"
    else:
        yield f"{indent}{number}: ", payload_at(document, value, next_start)


def _is_message(document: Document, start: int, end: int, max_depth: int) -> bool:
    """Return whether protoc prints unknown bytes as a message. max_depth: the permitted levels of groups in them."""
    while start < end:
        _, wire, value, next_start, _ = read_record(document, start, end)
        if next_start is None or (
            wire == WIRE_START_GROUP and not _is_shallow(document, value, next_start, max_depth - 1)
        ):
            return False
        start = next_start
    return True


def _is_shallow(document: Document, start: int, end: int, max_depth: int) -> bool:
    """Return whether a group is undamaged and has at most `max_depth` levels of groups in it.

    start: the start of the content of the group. end: the end of the bytes to read.
    """
    if max_depth < 0:
        return False
    while True:
        _, wire, value, next_start, _ = read_record(document, start, end)
        if next_start is None:
            return wire == WIRE_END_GROUP
        if wire == WIRE_START_GROUP and not _is_shallow(document, value, next_start, max_depth - 1):
            return False
        start = next_start


class _UnknownFields:
    """Finds the unknown fields among the records of a message."""

    __slots__ = ("closed_enum_values", "fields", "has_repeated_closed_enum")

    def __init__(self, descriptor: Descriptor) -> None:
        self.fields = descriptor.fields_by_number
        self.closed_enum_values = {
            field.number: {value.number for value in field.enum_type.values}
            for field in descriptor.fields
            if field.enum_type is not None and field.enum_type.is_closed
        }
        # Packed runs may contain unknown values of a closed enum.
        self.has_repeated_closed_enum = any(self.fields[number].is_repeated for number in self.closed_enum_values)

    def find_in_record(
        self, document: Document, number: int, wire: int, value: int, next_start: int, raw: int | None
    ) -> Iterable[Record]:
        """Return the unknown fields in a record, as `Record`."""
        field = self.fields.get(number)
        if field is None or not field.accepts(wire):
            return [(wire, value, next_start, raw)]
        if number not in self.closed_enum_values:
            return []
        values = [raw] if raw is not None else _read_varints(document, value, next_start)
        # The value of an enum is the low 32 bits of its varint, as a signed number.
        numbers = [(bits & 0xFFFFFFFF ^ 1 << 31) - (1 << 31) for bits in values]
        return [
            (WIRE_VARINT, value, next_start, n & (1 << 64) - 1)
            for n in numbers
            if n not in self.closed_enum_values[number]
        ]


def _read_varints(document: Document, start: int, end: int) -> Iterator[int]:
    next_start: int | None = start
    while next_start is not None and next_start < end:
        bits, next_start = read_varint_at(document, next_start, end)
        if next_start is not None:
            yield bits
