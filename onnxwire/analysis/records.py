"""The records of an encoded message: their fields, offsets, and values."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from onnxwire.analysis.describe import describe_bytes, describe_number, describe_numbers, printable_text
from onnxwire.engine.descriptor import WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN, WIRE_VARINT, FieldDescriptor
from onnxwire.engine.record_reader import bytes_at, read_record, read_varint_at
from onnxwire.engine.record_walk import walk_records
from onnxwire.errors import count_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnxwire.engine.descriptor import Descriptor
    from onnxwire.engine.document import Document

_MAX_NUMBERS = 16  # maximum number of numbers of a packed run that are shown
_SAMPLE_BYTES = 256  # number of bytes that are read to distinguish text from a message
_MAX_GUESSED_NUMBER = 1 << 16  # bytes with higher field numbers are probably not a message
_SIZE_BY_WIRE_TYPE = {WIRE_FIXED32: 4, WIRE_FIXED64: 8}  # in bytes


class Record(NamedTuple):
    """A tag and the value after it.

    field: the current field of this number and wire type, or else a retired field; None for an unknown field.
    offset: the offset of the tag. number, wire: the field number and the wire type. value_start, end: the offsets of
    the value's first byte and of the byte after the value. raw: the bits of a number, None for any other value.
    If the record is damaged, `end` is None, and the other parts are those that `read_record` returns.
    """

    field: FieldDescriptor | None
    offset: int
    number: int
    wire: int
    value_start: int
    end: int | None
    raw: int | None

    @property
    def is_live(self) -> bool:
        """Whether the message has an attribute for the record's field."""
        return self.field is not None and self.field.until is None


def is_message(document: Document, start: int, end: int) -> bool:
    """Guess whether the bytes of an unknown field are a message: valid records that are not text."""
    if start == end or printable_text(bytes_at(document, start, min(end, start + _SAMPLE_BYTES)), True) is not None:
        return False
    while start < end:
        number, _, _, after, _ = read_record(document, start, end)
        if after is None or number > _MAX_GUESSED_NUMBER:
            return False
        start = after
    return True


def read(document: Document, table: Descriptor | None, offset: int, end: int, *, is_in_group: bool = False) -> Record:
    """Read the record at an offset of a document.

    table: the table of the message, or None. The other parameters are those of `read_record`.
    """
    number, wire, value, after, raw = read_record(document, offset, end, is_in_group)
    return Record(find_row(table, number, wire), offset, number, wire, value, after, raw)


def walk(document: Document, table: Descriptor | None, start: int, end: int) -> Iterator[Record]:
    """Yield the records of a message between two offsets of a document; raises DecodeError at a damaged record."""
    for offset, number, wire, value, after, raw in walk_records(document, start, end):
        yield Record(find_row(table, number, wire), offset, number, wire, value, after, raw)


@lru_cache(1024)
def find_row(table: Descriptor | None, number: int, wire: int) -> FieldDescriptor | None:
    """Return the field of a record: the current or else the latest retired one that accepts the wire type, or None."""
    if table is None:
        return None
    rows = [row for row in [*table.fields, *reversed(table.retired_fields)] if row.number == number]
    return next((row for row in rows if row.accepts(wire)), None)


def decode_number(field: FieldDescriptor, raw: int) -> Any:
    """Decode a number of a field.

    raw: a varint as 64 bits, or the bits of a fixed number. Source: protobuf.dev, "Encoding".
    """
    kind = field.type
    if kind == field.TYPE_BOOL:
        return raw != 0
    if kind == field.TYPE_FLOAT:
        return struct.unpack("<f", raw.to_bytes(4, "little"))[0]
    if kind == field.TYPE_DOUBLE:
        return struct.unpack("<d", raw.to_bytes(8, "little"))[0]
    if kind in (field.TYPE_UINT64, field.TYPE_FIXED64):
        return raw
    if kind in (field.TYPE_UINT32, field.TYPE_FIXED32):
        return raw & 0xFFFFFFFF
    if kind == field.TYPE_SINT64:
        return (raw >> 1) ^ -(raw & 1)
    if kind == field.TYPE_SINT32:
        raw &= 0xFFFFFFFF
        return (raw >> 1) ^ -(raw & 1)
    bits = 64 if kind in (field.TYPE_INT64, field.TYPE_SFIXED64) else 32
    raw &= (1 << bits) - 1
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def read_numbers(
    document: Document, field: FieldDescriptor, start: int, end: int, max_numbers: int
) -> tuple[list[Any], bool]:
    """Decode the first numbers of a packed run between two offsets.

    Returns at most `max_numbers` numbers, and whether the decoding ended at a damaged one.
    """
    size = _SIZE_BY_WIRE_TYPE.get(field.wire_type, 0)
    numbers: list[Any] = []
    while start < end and len(numbers) < max_numbers:
        if size:
            after = start + size if size <= end - start else None
            raw = int.from_bytes(bytes_at(document, start, start + size), "little") if after is not None else 0
        else:
            raw, after = read_varint_at(document, start, end)
        if after is None:
            return numbers, True
        numbers.append(decode_number(field, raw))
        start = after
    return numbers, False


def describe_record(document: Document, record: Record, max_shown: int = 64, *, with_codes: bool = False) -> str:
    """Return the value of a record that is not a message as one line.

    For an unknown field, a varint is written as an unsigned integer, and a fixed number as hexadecimal bits. max_shown:
    the maximum number of characters of a string, or of bytes. with_codes: as for `describe_number`.
    """
    field, wire, start, end, raw = record.field, record.wire, record.value_start, record.end, record.raw
    assert end is not None
    if raw is not None:
        if field is not None:
            return describe_number(field, decode_number(field, raw), with_codes=with_codes)
        return str(raw) if wire == WIRE_VARINT else f"0x{raw:0{2 * _SIZE_BY_WIRE_TYPE[wire]}x}"
    if wire != WIRE_LEN:
        return f"a group of {count_text(end - start, 'byte')}"
    if field is None or field.is_span:
        return describe_bytes(bytes_at(document, start, min(end, start + 4 * max_shown)), end - start, max_shown)
    numbers, is_damaged = read_numbers(document, field, start, end, _MAX_NUMBERS + 1)
    text = describe_numbers(field, numbers[:_MAX_NUMBERS], with_codes=with_codes)
    if is_damaged:
        return f"{text[:-1]}{', ' if numbers else ''}(damaged)]"
    return text if len(numbers) <= _MAX_NUMBERS else f"{text[:-1]}, … ({end - start:,} bytes)]"
