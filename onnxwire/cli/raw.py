"""`onnxwire info --raw`: every tag of a file with its byte offset, names where the tables know one."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from onnxwire._walk import bytes_at, fault_at, read_record
from onnxwire.messages import SCHEMA
from onnxwire.sniff import best_fit, fits
from onnxwire.source import open_document

if TYPE_CHECKING:
    from onnxwire._document import Document
    from onnxwire.descriptor import Descriptor, FieldDescriptor

_VARINT, _FIXED64, _LEN, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
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
    document.root = (descriptor or model)._concrete_class
    if descriptor is not None:
        print(f"# {path}: {len(document):,} bytes as {descriptor.full_name}", file=out)
    else:
        print(f"# {path}: {len(document):,} bytes", file=out)
    Printer(document, out).print_message(descriptor, 0, len(document))
    return 0


class Printer:
    """Prints the records of a document, indented by level, each with the offset of its tag."""

    def __init__(self, document: Document, out: IO[str]) -> None:
        self.document = document
        self.out = out
        self.width = len(str(len(document)))

    def print_message(self, descriptor: Descriptor | None, start: int, end: int) -> None:
        """Print all records between two offsets."""
        # Table, and end of the message or None for a group, of each open level.
        levels: list[tuple[Descriptor | None, int | None]] = [(descriptor, end)]
        cut: tuple[int, int] | None = None  # start and end of the first record that runs past its message's end
        cut_levels = set()
        place = start
        while levels:
            table, stop = levels[-1]
            limit = next(limit for _, limit in reversed(levels) if limit is not None)
            if place >= limit:
                if stop is None:  # a group that is still open
                    raise fault_at(self.document, start, limit)
                if cut is not None and len(levels) in cut_levels:
                    raise fault_at(self.document, *cut)
                levels.pop()
                if levels:
                    self._line(None, len(levels), "}")
                continue
            number, wire, value, after, raw = self._read(place, limit)
            if wire == _END_GROUP:
                levels.pop()
                self._line(place, len(levels), "}")
                place = value
                continue
            field = _find(table, number, wire)
            label = _label(table, field, number)
            if after is None:
                # A cut message is shown as far as it goes.
                if field is None or field.message_type is None or len(levels) >= _MAX_DEPTH or raw is None:
                    raise fault_at(self.document, place, limit)
                cut = (place, limit) if cut is None else cut
                cut_levels.add(len(levels) + 1)
                self._line(place, len(levels), f"{label} {{  # {limit - value:,} of {raw:,} bytes")
                levels.append((field.message_type, limit))
                place = value
                continue
            if wire == _START_GROUP:
                self._line(place, len(levels), f"{label} group {{")
                levels.append((None, None))
                place = value
                continue
            if wire == _LEN:
                if len(levels) < _MAX_DEPTH and self._is_message(field, value, after):
                    self._line(place, len(levels), f"{label} {{  # {after - value:,} bytes")
                    levels.append((field.message_type if field is not None else None, after))
                    place = value
                    continue
                self._line(place, len(levels), f"{label}: {self._span(field, value, after)}")
            else:
                self._line(place, len(levels), f"{label}: {_number(field, wire, raw)}")
            place = after

    def _read(self, place: int, limit: int) -> tuple[int, int, int, int | None, int | None]:
        """The record at a place; groups are entered, so only their tags are read here."""
        number, wire, value, after, raw = read_record(self.document, place, limit)
        if number and wire in (_START_GROUP, _END_GROUP):
            # The end of the tag, whatever the state of the group behind it.
            tag = bytes_at(self.document, place, min(limit, place + 5))
            value = place + next(i for i, byte in enumerate(tag, 1) if byte < 128)
            return number, wire, value, value, None
        if after is None and raw is None:
            raise fault_at(self.document, place, limit)
        return number, wire, value, after, raw

    def _line(self, offset: int | None, depth: int, text: str) -> None:
        place = "" if offset is None else str(offset)
        self.out.write(f"{place:>{self.width}}  {'  ' * (depth - 1)}{text}\n")

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
        size = {_FIXED32: 4, _FIXED64: 8}.get(wire, 0)
        shown: list[str] = []
        while start < end and len(shown) < _SHOWN_NUMBERS:
            if size:
                raw = int.from_bytes(bytes_at(self.document, start, min(start + size, end)), "little")
                start += size
            else:
                raw, shift, byte = 0, 0, 128
                while byte >= 128 and start < end and shift < 70:
                    byte = bytes_at(self.document, start, start + 1)[0]
                    raw |= (byte & 127) << shift
                    start, shift = start + 1, shift + 7
            shown.append(_number(field, wire, raw & (1 << 64) - 1))
        return f"[{', '.join(shown)}{', ' + cut if start < end else ''}]"


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
        return str(raw) if wire == _VARINT else f"0x{raw:0{8 if wire == _FIXED32 else 16}x}"
    import struct

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
