"""Writes messages in protobuf's text format."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import IO, Any, overload

from onnxwire.engine.damage import fault_at
from onnxwire.engine.descriptor import (
    WIRE_END_GROUP,
    WIRE_FIXED32,
    WIRE_FIXED64,
    WIRE_START_GROUP,
    WIRE_VARINT,
    Descriptor,
    FieldDescriptor,
)
from onnxwire.engine.document import Document
from onnxwire.engine.floats import shortest_floats
from onnxwire.engine.message import Message
from onnxwire.engine.nesting_limit import MAX_DEPTH, too_deep
from onnxwire.engine.record_reader import payload_at, read_record, read_varint_at
from onnxwire.engine.record_walk import walk_records
from onnxwire.text.printed_fields import (
    BATCH,
    Format,
    LongValue,
    byte_count,
    check_arguments,
    enum_format,
    format_bools,
    format_plainly,
    present_fields,
)

_MIN_NORMAL_FLOAT = 2.0**-126
_UNKNOWN_DEPTH = 10  # maximum depth to which protoc prints unknown bytes as messages


Summary = Callable[[Message], tuple[Container[str], str] | None]
"""A function that returns the fields to omit of a message, and the comment to print in their place; None for most."""


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
    """
    check_arguments(message, max_bytes)
    if out is not None:
        _TextPrinter(out, max_bytes, as_protoc, summary).print_message(message, "", 0)
        return None
    text = io.StringIO()
    _TextPrinter(text, max_bytes, as_protoc, summary).print_message(message, "", 0)
    return text.getvalue()


_UNSAFE = re.compile("[\"'\\\\\\x00-\\x1f\\x7f\\udc80-\\udcff]")
_UNSAFE_BYTES = re.compile(rb"""["'\\\x00-\x1f\x7f-\xff]""")
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\"}
_BYTE_ESCAPES = [_NAMED.get(chr(byte)) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in range(256)]
# Bytes that are not valid UTF-8 are surrogates in a str.
_TEXT_ESCAPES = dict(enumerate(_BYTE_ESCAPES[:128])) | {0xDC00 + i: _BYTE_ESCAPES[i] for i in range(128, 256)}
# The first, second, third and fourth character of every byte's escape; NUL if the escape is shorter.
_ESCAPE_PLANES = [bytes(ord(escape[i]) if i < len(escape) else 0 for escape in _BYTE_ESCAPES) for i in range(4)]


def _escape_bytes(data: bytes) -> str:
    if _UNSAFE_BYTES.search(data) is None:
        return data.decode("ascii")
    # Calls that process all of `data` are several times faster than a loop over bytes.
    escaped = bytearray(4 * len(data))
    for i, plane in enumerate(_ESCAPE_PLANES):
        escaped[i::4] = data.translate(plane)
    return escaped.translate(None, b"\0").decode("ascii")


def _escape_text(text: str) -> str:
    return text if _UNSAFE.search(text) is None else text.translate(_TEXT_ESCAPES)


def _escape_text_to_ascii(text: str) -> str:
    return _escape_bytes(text.encode("utf-8", "surrogateescape"))


def _format_floats(values: Sequence[float]) -> list[str]:
    return list(map(str, shortest_floats(values)))


def _format_floats_as_protoc(values: Sequence[float]) -> list[str]:
    pack = Struct("f").pack
    texts = [f"{value:.6g}" for value in values]
    # protoc always prints subnormal numbers with 9 digits, because its strtof reports an underflow.
    return [
        text
        if value != value or ((abs(value) >= _MIN_NORMAL_FLOAT or not value) and pack(float(text)) == pack(value))
        else f"{value:.9g}"
        for text, value in zip(texts, values, strict=True)
    ]


def _format_doubles_as_protoc(values: Sequence[float]) -> list[str]:
    texts = [f"{value:.15g}" for value in values]
    return [
        text if value != value or float(text) == value else f"{value:.17g}"
        for text, value in zip(texts, values, strict=True)
    ]


class _TextPrinter:
    def __init__(self, out: IO[str], max_bytes: int | None, as_protoc: bool, summary: Summary | None) -> None:
        self.write = out.write
        self.summary = summary
        self.max_bytes = max_bytes
        self.as_protoc = as_protoc
        self.unknown: dict[Descriptor, _UnknownFields] = {}
        self.escape_text = _escape_text_to_ascii if as_protoc else _escape_text
        F = FieldDescriptor
        self.formats: dict[object, Format] = {
            F.TYPE_BOOL: format_bools,
            F.TYPE_FLOAT: _format_floats_as_protoc if as_protoc else _format_floats,
            F.TYPE_DOUBLE: _format_doubles_as_protoc if as_protoc else format_plainly,
        }

    def print_message(self, message: Message, indent: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise too_deep(message)
        write = self.write
        omitted, comment = (self.summary and self.summary(message)) or ((), "")
        for field, values in present_fields(message):
            if omitted and field.name in omitted:
                continue
            kind = field.type
            if kind == FieldDescriptor.TYPE_MESSAGE:
                for value in values:
                    write(f"{indent}{field.name} {{\n")
                    self.print_message(value, indent + "  ", depth + 1)
                    write(f"{indent}}}\n")
            elif kind == FieldDescriptor.TYPE_STRING or kind == FieldDescriptor.TYPE_BYTES:
                for value in values:
                    self._print_payload(f"{indent}{field.name}", kind, value)
            else:
                self._print_numbers(f"{indent}{field.name}: ", field, values)
        if comment:
            write(f"{indent}# {comment}\n")
        if self.as_protoc:
            self._print_unknown_fields(message, indent)

    def _print_payload(self, label: str, kind: int, value: str | bytes | LongValue) -> None:
        if self.max_bytes is not None and byte_count(value) > self.max_bytes:
            self.write(f"{label}: ... # {byte_count(value):,} bytes\n")
        elif isinstance(value, str):
            self.write(f'{label}: "{self.escape_text(value)}"\n')
        elif isinstance(value, bytes):
            self.write(f'{label}: "{_escape_bytes(value)}"\n')
        else:
            self.write(f'{label}: "')
            if kind == FieldDescriptor.TYPE_STRING and not self.as_protoc:
                for text in value.read_text():
                    self.write(_escape_text(text))
            else:
                for piece in value.read():
                    self.write(_escape_bytes(piece))
            self.write('"\n')

    def _print_numbers(self, label: str, field: FieldDescriptor, values: Any) -> None:
        form = self._format_of(field)
        if not field.is_repeated:
            self.write(f"{label}{form(values)[0]}\n")
            return
        if self.max_bytes is not None and len(values) > self.max_bytes:
            self.write(f"{label}... # {len(values):,} values\n")
            return
        line_break = f"\n{label}"
        iterator = iter(values)
        while batch := list(islice(iterator, BATCH)):
            self.write(f"{label}{line_break.join(form(batch))}\n")

    def _format_of(self, field: FieldDescriptor) -> Format:
        if field.enum_type is None:
            return self.formats.get(field.type, format_plainly)
        form = self.formats.get(field.enum_type)
        if form is None:
            form = self.formats[field.enum_type] = enum_format(field.enum_type)
        return form

    # --- unknown fields, as protoc prints them

    def _print_unknown_fields(self, message: Message, indent: str) -> None:
        unknown = self.unknown.get(message.DESCRIPTOR)
        if unknown is None:
            unknown = self.unknown[message.DESCRIPTOR] = _UnknownFields(message.DESCRIPTOR)
        if not message._is_doubtful and not unknown.may_hide:
            return
        document, span = message._document, message._span
        if span is None:  # a message that was edited, or has several spans
            data = message._unknown_fields()
            document, span = Document(data, document.name), (0, len(data))
            document.set_root(type(message))
        for _, number, wire, value, after, raw in walk_records(document, *span):
            for record in unknown.in_record(document, number, wire, value, after, raw):
                self._print_record(document, number, *record, indent, _UNKNOWN_DEPTH)

    def _print_record(
        self,
        document: Document,
        number: int,
        wire: int,
        value: int,
        after: int,
        raw: int | None,
        indent: str,
        left: int,
    ) -> None:
        if wire == WIRE_VARINT:
            self.write(f"{indent}{number}: {raw}\n")
        elif wire == WIRE_FIXED32:
            self.write(f"{indent}{number}: 0x{raw:08x}\n")
        elif wire == WIRE_FIXED64:
            self.write(f"{indent}{number}: 0x{raw:016x}\n")
        elif wire == WIRE_START_GROUP or (left > 0 and value < after and _is_message(document, value, after, left)):
            self.write(f"{indent}{number} {{\n")
            while value < after:
                number, wire, inner, following, raw = read_record(document, value, after)
                if wire == WIRE_END_GROUP:
                    break
                if following is None:
                    raise fault_at(document, value, after)
                self._print_record(document, number, wire, inner, following, raw, indent + "  ", left - 1)
                value = following
            self.write(f"{indent}}}\n")
        else:
            self._print_payload(f"{indent}{number}", FieldDescriptor.TYPE_BYTES, _long_value(document, value, after))


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


def _long_value(document: Document, start: int, end: int) -> LongValue:
    return LongValue(payload_at(document, start, end))


Record = tuple[int, int, int, int | None]


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
