"""`onnxwire info --raw`: every tag of a file with its byte offset, names where the tables know one."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import IO, TYPE_CHECKING, NamedTuple

from onnxwire.engine.damage import fault_at
from onnxwire.engine.descriptor import (
    WIRE_END_GROUP,
    WIRE_FIXED32,
    WIRE_FIXED64,
    WIRE_LEN,
    WIRE_START_GROUP,
    WIRE_VARINT,
)
from onnxwire.engine.records import bytes_at, read_record, read_varint_at
from onnxwire.io.remote.address import shown_source
from onnxwire.io.sniff import best_fit, fits
from onnxwire.io.source import open_document
from onnxwire.messages import SCHEMA

if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor, FieldDescriptor
    from onnxwire.engine.document import Document
    from onnxwire.errors import DecodeError

_MAX_DEPTH = 100
_SHOWN_BYTES = 64
_SHOWN_NUMBERS = 16
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"})


def print_raw(path: str, type_name: str | None, out: IO[str]) -> int:
    """Print the tree of tags of a file.

    path: the file. type_name: the message it is taken for, "none" for no names, None for the one that fits.
    Returns 0, or raises DecodeError at the first fault, after what stands before it was printed.
    """
    document = open_document(path)
    model = SCHEMA.messages["onnx.ModelProto"].DESCRIPTOR
    descriptor: Descriptor | None = model
    if type_name is not None:
        descriptor = SCHEMA.messages[f"onnx.{type_name}"].DESCRIPTOR if type_name != "none" else None
    elif not fits(document, model):
        descriptor = best_fit(document) or model
    document.set_root((descriptor or model)._concrete_class)
    name = f" as {descriptor.full_name}" if descriptor is not None else ""
    print(f"# {ascii(shown_source(path))[1:-1]}: {len(document):,} bytes{name}", file=out)
    Printer(document, out).print_message(descriptor, 0, len(document))
    document.close()
    return 0


class _Level(NamedTuple):
    """A message or group that is being printed."""

    table: Descriptor | None
    start: int  # of its tag
    end: int
    group: int | None = None  # the number, where it is a group, which ends before `end`
    is_cut: bool = False  # whether it should be longer than what it stands in


class Printer:
    """Prints the records of a document, indented by level, each with the offset of its tag."""

    def __init__(self, document: Document, out: IO[str]) -> None:
        self.document = document
        self.out = out
        self.width = len(str(len(document)))
        self.levels: list[_Level] = []

    def print_message(self, table: Descriptor | None, start: int, end: int) -> None:
        """Print all records between two offsets; raises DecodeError at the first fault."""
        self.levels = [_Level(table, start, end)]
        offset = start
        while self.levels:
            level = self.levels[-1]
            if offset < level.end:
                offset = self._print_record(level, offset)
            elif level.group is not None or level.is_cut:
                raise self._fault(level.start)
            else:
                self.levels.pop()
                if self.levels:
                    self._line(None, "}")

    def _print_record(self, level: _Level, offset: int) -> int:
        """Print the record at an offset, of a message or group its first line; returns where to go on."""
        number, wire, value, after, raw = read_record(self.document, offset, level.end, level.group is not None)
        if value == offset:
            raise self._fault(offset)
        if wire == WIRE_END_GROUP:
            if number != level.group:
                raise self._fault(offset)
            self.levels.pop()
            self._line(offset, "}")
            return value
        field, label = _row(level.table, number, wire)
        may_enter = len(self.levels) < _MAX_DEPTH
        if wire == WIRE_START_GROUP and may_enter:
            self._line(offset, f"{label} group {{")
            self.levels.append(_Level(None, offset, level.end, group=number))
            return value
        if after is None:
            # A message that runs past the end is shown as far as it goes.
            if raw is None or field is None or field.message_type is None or not may_enter:
                raise self._fault(offset)
            self._line(offset, f"{label} {{  # {level.end - value:,} of {raw:,} bytes")
            self.levels.append(_Level(field.message_type, offset, level.end, is_cut=True))
            return value
        if wire == WIRE_START_GROUP:
            self._line(offset, f"{label} group {{ ... }}  # {after - value:,} bytes, nested too deep to show")
        elif wire == WIRE_LEN and may_enter and self._is_message(field, value, after):
            self._line(offset, f"{label} {{  # {after - value:,} bytes")
            self.levels.append(_Level(field.message_type if field is not None else None, offset, after))
            return value
        elif wire == WIRE_LEN:
            self._line(offset, f"{label}: {self._span(field, value, after)}")
        else:
            self._line(offset, f"{label}: {_number(field, wire, raw)}")
        return after

    def _fault(self, offset: int) -> DecodeError:
        """The error for a record; it is explained from where its outermost group or cut message starts."""
        levels = self.levels
        while levels and (levels[-1].group is not None or levels[-1].is_cut):
            offset = levels.pop().start
        return fault_at(self.document, offset, levels[-1].end)

    def _line(self, offset: int | None, text: str) -> None:
        shown = "" if offset is None else str(offset)
        self.out.write(f"{shown:>{self.width}}  {'  ' * (len(self.levels) - 1)}{text}\n")

    def _is_message(self, field: FieldDescriptor | None, start: int, end: int) -> bool:
        """Whether a span holds a message: by its field, or, where it has none, by its bytes."""
        if field is not None:
            return field.message_type is not None
        if start == end or _printable(bytes_at(self.document, start, min(end, start + 4 * _SHOWN_BYTES))):
            return False
        while start < end:
            number, _, _, after, _ = read_record(self.document, start, end)
            if after is None or number > 1 << 16:
                return False
            start = after
        return True

    def _span(self, field: FieldDescriptor | None, start: int, end: int) -> str:
        """A span as text, bytes or numbers, cut where it is long."""
        cut = f"... ({end - start:,} bytes)"
        if field is not None and not field.is_span:
            return self._run(field, start, end, cut)
        data = bytes_at(self.document, start, min(end, start + 4 * _SHOWN_BYTES))
        more = cut if end - start > len(data) else ""
        if _printable(data) and (field is None or field.type == field.TYPE_STRING or len(data) == end - start):
            return _quote(data.decode("utf-8", "replace")) + more
        return repr(data[:_SHOWN_BYTES])[1:] + (cut if end - start > _SHOWN_BYTES else "")

    def _run(self, field: FieldDescriptor, start: int, end: int, cut: str) -> str:
        """The first numbers of a packed run."""
        wire = field.wire_type
        size = {WIRE_FIXED32: 4, WIRE_FIXED64: 8}.get(wire, 0)
        shown: list[str] = []
        after: int | None = start
        while after is not None and after < end and len(shown) < _SHOWN_NUMBERS:
            if size:
                raw = int.from_bytes(bytes_at(self.document, after, min(after + size, end)), "little")
                after += size
            else:
                raw, after = read_varint_at(self.document, after, end)
            shown.append(_number(field, wire, raw) if after is not None else "(damaged)")
        return f"[{', '.join(shown)}{', ' + cut if after is None or after < end else ''}]"


@lru_cache(1024)
def _row(table: Descriptor | None, number: int, wire: int) -> tuple[FieldDescriptor | None, str]:
    """The row for a record, if there is one, and how the record is called."""
    field = _find(table, number, wire)
    return field, _label(table, field, number)


def _find(table: Descriptor | None, number: int, wire: int) -> FieldDescriptor | None:
    """The row for a record: a live one whose wire type it has, else a retired one."""
    if table is None:
        return None
    rows = [row for row in [*table.fields, *reversed(table.retired_fields)] if row.number == number]
    for row in rows:
        if row.accepts(wire):
            return row
    return None


def _label(table: Descriptor | None, field: FieldDescriptor | None, number: int) -> str:
    if table is None:
        return str(number)
    if field is None:
        if any(row.number == number for row in table.fields):
            return f"{number} (unknown: wire type of no field)"
        if any(first <= number <= last for first, last in table.reserved_ranges):
            return f"{number} (reserved)"
        return f"{number} (unknown)"
    if field.until is not None:
        return f"{number} {field.name} (retired after IR version {field.until})"
    return f"{number} {field.name}"


def _number(field: FieldDescriptor | None, wire: int, raw: int | None) -> str:
    """The bits of a number as its field reads them; without a field, as a bare varint or as hexadecimal."""
    assert raw is not None
    if field is None:
        return str(raw) if wire == WIRE_VARINT else f"0x{raw:0{8 if wire == WIRE_FIXED32 else 16}x}"
    if field.type == field.TYPE_FLOAT:
        return f"{struct.unpack('<f', struct.pack('<I', raw))[0]:.9g}"
    if field.type == field.TYPE_DOUBLE:
        return repr(struct.unpack("<d", struct.pack("<Q", raw))[0])
    if field.type in (field.TYPE_INT64, field.TYPE_SFIXED64):
        return str(raw - (1 << 64) if raw >> 63 else raw)
    if field.type in (field.TYPE_INT32, field.TYPE_SFIXED32, field.TYPE_ENUM):
        low = raw & 0xFFFFFFFF
        low -= 1 << 32 if low >> 31 else 0
        names = [v.name for v in field.enum_type.values if v.number == low] if field.enum_type is not None else []
        return names[0] if names else str(low)
    if field.type in (field.TYPE_SINT32, field.TYPE_SINT64):
        return str((raw >> 1) ^ -(raw & 1))
    if field.type == field.TYPE_BOOL:
        return "true" if raw else "false"
    return str(raw)


def _printable(data: bytes) -> bool:
    """Whether bytes, perhaps cut inside a character, are text."""
    for cut in range(4):
        try:
            text = data[: len(data) - cut].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return all(char.isprintable() or char in "\t\n\r" for char in text)
    return False


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'
