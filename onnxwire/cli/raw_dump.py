"""`onnxwire info --raw`: every tag of a file with its byte offset, and the names of known fields."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, NamedTuple

from onnxwire.analysis.records import describe_record, is_message, read
from onnxwire.engine.damage import decode_error_at
from onnxwire.engine.descriptor import WIRE_END_GROUP, WIRE_LEN, WIRE_START_GROUP
from onnxwire.engine.nesting_limit import MAX_DEPTH
from onnxwire.errors import count_text
from onnxwire.io.remote.address import shown_source
from onnxwire.io.sniff import best_fitting_type, can_have_type
from onnxwire.io.source import open_document
from onnxwire.messages import SCHEMA

if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor, FieldDescriptor
    from onnxwire.engine.document import Document
    from onnxwire.errors import DecodeError

_MAX_VALUE_BYTES = 64  # maximum number of printed characters of a string, or of printed bytes


def print_raw(path: str, type_name: str | None, out: IO[str]) -> int:
    """Print the tree of tags of a file.

    path: the file. type_name: the type of its message; "none" to print no names, None to guess the type.
    out: the stream to print to.
    Returns 0. Raises DecodeError at the first fault, after printing everything before it.
    """
    document = open_document(path)
    model = SCHEMA.messages["onnx.ModelProto"].DESCRIPTOR
    descriptor: Descriptor | None = model
    if type_name is not None:
        descriptor = SCHEMA.messages[f"onnx.{type_name}"].DESCRIPTOR if type_name != "none" else None
    elif not can_have_type(document, model):
        descriptor = best_fitting_type(document) or model
    document.set_root((descriptor or model)._concrete_class)
    name = f" as {descriptor.full_name}" if descriptor is not None else ""
    print(f"# {ascii(shown_source(path))[1:-1]}: {count_text(len(document), 'byte')}{name}", file=out)
    Printer(document, out).print_message(descriptor, 0, len(document))
    document.close()
    return 0


class _Level(NamedTuple):
    """A message or group that is being printed."""

    descriptor: Descriptor | None  # of the message; None for fields without names
    start: int  # offset of its tag; of its first byte for the root
    end: int  # offset after its last byte; for a group or a cut message, `end` of the enclosing level
    group: int | None = None  # the field number of a group; None for a message
    is_cut: bool = False  # whether it runs past the end of the enclosing message


class Printer:
    """Prints the records of a document, indented by level, each with the byte offset of its tag."""

    def __init__(self, document: Document, out: IO[str]) -> None:
        self.document = document
        self.out = out
        self.width = len(str(len(document)))
        self.levels: list[_Level] = []

    def print_message(self, descriptor: Descriptor | None, start: int, end: int) -> None:
        """Print all records between two offsets; raises DecodeError at the first fault."""
        self.levels = [_Level(descriptor, start, end)]
        offset = start
        while self.levels:
            level = self.levels[-1]
            if offset < level.end:
                offset = self._print_record(level, offset)
            elif level.group is not None or level.is_cut:
                raise self._fault_error(level.start)
            else:
                self.levels.pop()
                if self.levels:
                    self._print_line(None, "}")

    def _print_record(self, level: _Level, offset: int) -> int:
        """Print the record at an offset, or the first line of a message or group; returns the next offset."""
        record = read(self.document, level.descriptor, offset, level.end, is_in_group=level.group is not None)
        field, wire, value_start, record_end = record.field, record.wire, record.value_start, record.end
        if value_start == offset:
            raise self._fault_error(offset)
        if wire == WIRE_END_GROUP:
            if record.number != level.group:
                raise self._fault_error(offset)
            self.levels.pop()
            self._print_line(offset, "}")
            return value_start
        label = _label(level.descriptor, field, record.number)
        may_enter = len(self.levels) < MAX_DEPTH
        if wire == WIRE_START_GROUP and may_enter:
            self._print_line(offset, f"{label} group {{")
            self.levels.append(_Level(None, offset, level.end, group=record.number))
            return value_start
        if record_end is None:
            # If a message runs past the end, print the part that exists; `record.raw` is its length as stored.
            if record.raw is None or field is None or field.message_type is None or not may_enter:
                raise self._fault_error(offset)
            self._print_line(offset, f"{label} {{  # {level.end - value_start:,} of {count_text(record.raw, 'byte')}")
            self.levels.append(_Level(field.message_type, offset, level.end, is_cut=True))
            return value_start
        size = count_text(record_end - value_start, "byte")
        if wire == WIRE_START_GROUP:
            self._print_line(offset, f"{label} group {{ ... }}  # {size}, nested too deep to show")
        elif (
            wire == WIRE_LEN
            and may_enter
            and (
                is_message(self.document, value_start, record_end) if field is None else field.message_type is not None
            )
        ):
            self._print_line(offset, f"{label} {{  # {size}")
            self.levels.append(_Level(field.message_type if field is not None else None, offset, record_end))
            return value_start
        else:
            self._print_line(offset, f"{label}: {describe_record(self.document, record, _MAX_VALUE_BYTES)}")
        return record_end

    def _fault_error(self, offset: int) -> DecodeError:
        """Return the error at an offset.

        If the innermost levels are groups or cut messages, it is the error at the start of the outermost of these.
        """
        levels = self.levels
        while levels and (levels[-1].group is not None or levels[-1].is_cut):
            offset = levels.pop().start
        return decode_error_at(self.document, offset, levels[-1].end)

    def _print_line(self, offset: int | None, text: str) -> None:
        offset_text = "" if offset is None else str(offset)
        self.out.write(f"{offset_text:>{self.width}}  {'  ' * (len(self.levels) - 1)}{text}\n")


def _label(descriptor: Descriptor | None, field: FieldDescriptor | None, number: int) -> str:
    """Return the number and the name of a field, or the reason why it has no name."""
    if descriptor is None:
        return str(number)
    if field is None:
        if any(row.number == number for row in descriptor.fields):
            return f"{number} (unknown: the field has another wire type)"
        if any(first_number <= number <= last_number for first_number, last_number in descriptor.reserved_ranges):
            return f"{number} (reserved)"
        return f"{number} (unknown)"
    if field.until is not None:
        return f"{number} {field.name} (retired after IR version {field.until})"
    return f"{number} {field.name}"
