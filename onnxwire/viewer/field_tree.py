"""The page's questions about any message: its fields as rows of a tree, some at a time, with their offsets."""

from __future__ import annotations

from typing import Any

from onnxwire.analysis.paths import resolve
from onnxwire.engine.descriptor import FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.record_walk import walk_records
from onnxwire.engine.repeated import Repeated
from onnxwire.engine.table_text import TYPES
from onnxwire.errors import PathError
from onnxwire.messages import ModelProto
from onnxwire.viewer import byte_ranges
from onnxwire.viewer.value_texts import read_value, value_text

MOST_ROWS = 1000
_MOST_BYTES = 1 << 16  # of one answer
_MOST_RECORDS = 1 << 16  # of a message that are gone through for the offsets of its numbers
_NAMED = 2  # fields that a message is told apart by
_LONGEST = 60
_TYPE_NAMES = {number: name for name, number in TYPES.items()}


class FieldQueries:
    """The questions about a message of any type. They may come from several threads at once.

    message: the root, as loaded or a copy with edits; it must not be edited meanwhile.
    """

    def __init__(self, message: Message) -> None:
        self.message = message

    def about(self) -> dict[str, Any]:
        """Tell what is looked at: file, bytes, type, and whether it is a model."""
        message = self.message
        return {
            "file": message._document.name,
            "bytes": message.ByteSize(),
            "type": message.DESCRIPTOR.name,
            "is_model": isinstance(message, ModelProto),
        }

    def fields(self, path: str = "", start: int = 0, count: int = 100) -> dict[str, Any]:
        """List the fields of a message, or the elements of a repeated field, some at a time.

        path: of the message or field, "" for the root. start: the first row that is wanted; count: how many, up to
        1,000. Of a message there is a row for each field that is there, and one for each unknown field.
        Returns path, type (of the message, or of each element), total, rows and absent. A row: name, number, type,
        label ("repeated", the name of its oneof, or ""), path, kind ("message", "list", "value" or "unknown"), text,
        count (of elements), offset (of the value) and length; these are None where it does not stand in the file as
        such. absent: name, type and label of the fields that are not there. is_edited: whether the message, or the
        elements, differ from the file. Raises PathError where the path leads to a single value or nowhere.
        """
        found = resolve(self.message, path)
        first, last = max(start, 0), max(start, 0) + min(max(count, 0), MOST_ROWS)
        if isinstance(found.value, Message) and found.index is None:
            return self._fields_of(found.value, found.path, first, last)
        if isinstance(found.value, Repeated) and found.parent is not None and found.field is not None:
            return self._elements_of(found.parent, found.field, found.path, first, last)
        raise PathError("this is a value, and has no fields", path, self.message._document.name)

    def value(self, path: str) -> dict[str, Any]:
        """The whole of a value as a text that can be edited: `values.read_value`."""
        return read_value(self.message, path)

    def raw(self, path: str, start: int = 0, count: int = 1024, *, payload: bool = False) -> dict[str, Any]:
        """Read bytes of any field: `byte_ranges.read_bytes`, up to 65,536 at a time."""
        return byte_ranges.read_bytes(self.message, path, start, min(max(count, 0), _MOST_BYTES), payload=payload)

    def records(self, path: str, start: int = 0, count: int = 100) -> dict[str, Any]:
        """List the records of a message: `byte_ranges.list_records`, up to 1,000 at a time."""
        return byte_ranges.list_records(self.message, path, start, min(max(count, 0), MOST_ROWS))

    def _fields_of(self, message: Message, path: str, first: int, last: int) -> dict[str, Any]:
        descriptor = message.DESCRIPTOR
        span = self._span(message)
        offsets, unknown = self._walk(message, span)
        present: list[FieldDescriptor] = []
        absent: list[FieldDescriptor] = []
        for field in descriptor.fields:
            is_there = len(getattr(message, field.name)) if field.is_repeated else message.HasField(field.name)
            (present if is_there else absent).append(field)
        rows: list[dict[str, Any]] = []
        prefix = f"{path}." if path else ""
        for field in present[first:last]:
            here = f"{prefix}{field.name}"
            if field.is_repeated:
                row = _row(field, here, "list", "")
                row["count"] = len(getattr(message, field.name))
            elif field.message_type is not None:
                row = self._message_row(field, here, getattr(message, field.name))
            else:
                row = _row(field, here, "value", value_text(message, field))
                row["offset"], row["length"] = offsets.get(field.number, (None, None))
            rows.append(row)
        rest = unknown[max(first - len(present), 0) : max(last - len(present), 0)]
        for number, offset, length in rest:
            blank = {"name": "", "number": number, "type": "", "label": "", "path": None, "kind": "unknown"}
            rows.append(blank | {"text": "", "count": None, "offset": offset, "length": length})
        return {
            "path": path,
            "type": descriptor.name,
            "is_list": False,
            "total": len(present) + len(unknown),
            "rows": rows,
            "absent": [{"name": field.name, "type": _type_of(field), "label": _label_of(field)} for field in absent],
            "is_edited": span is None,
        }

    def _elements_of(
        self, message: Message, field: FieldDescriptor, path: str, first: int, last: int
    ) -> dict[str, Any]:
        values = getattr(message, field.name)
        total = len(values)
        rows = []
        if field.message_type is not None:
            for index, element in enumerate(values[first:last], first):
                rows.append(self._message_row(field, f"{path}[{index}]", element))
        else:
            # Of strings and bytes no more is read than is shown.
            payloads = values._payloads()[first:last] if field.is_span and total <= _MOST_RECORDS else None
            shown = payloads if payloads is not None else values[first:last]
            is_placed = self._span(message) is not None
            for index, value in enumerate(shown, first):
                row = _row(field, f"{path}[{index}]", "value", value_text(message, field, value))
                span = value.span if payloads is not None and is_placed else None
                if span is not None:
                    row["offset"], row["length"] = span[0], span[1] - span[0]
                rows.append(row)
        return {
            "path": path,
            "type": _type_of(field),
            "is_list": True,
            "total": total,
            "rows": rows,
            "absent": [],
            "is_edited": self._span(message) is None,
        }

    def _message_row(self, field: FieldDescriptor, path: str, message: Message) -> dict[str, Any]:
        row = _row(field, path, "message", _named(message))
        span = self._span(message)
        if span is not None:
            row["offset"], row["length"] = span[0], span[1] - span[0]
        return row

    def _span(self, message: Message) -> tuple[int, int] | None:
        """Where a message stands in the file; None for one that was edited, or is from elsewhere."""
        here, root = message._document, self.message._document
        is_of_file = (here.name, here.descriptor, len(here)) == (root.name, root.descriptor, len(root))
        return message._span if is_of_file else None

    def _walk(
        self, message: Message, span: tuple[int, int] | None
    ) -> tuple[dict[int, tuple[int, int]], list[tuple[int, int, int]]]:
        """By number where the last value of each field is, and the unknown fields: number, offset, length.

        Of a message of very many records nothing is told: to go through them would take too long.
        """
        offsets: dict[int, tuple[int, int]] = {}
        unknown: list[tuple[int, int, int]] = []
        if span is None:
            return offsets, unknown
        fields = message.DESCRIPTOR.fields_by_number
        for i, (_, number, wire, value, after, _) in enumerate(walk_records(message._document, *span)):
            if i == _MOST_RECORDS:
                return {}, []
            field = fields.get(number)
            if field is not None and field.accepts(wire):
                offsets[number] = value, after - value
            else:
                unknown.append((number, value, after - value))
        return offsets, unknown


def _row(field: FieldDescriptor, path: str, kind: str, text: str) -> dict[str, Any]:
    return {
        "name": path.rpartition(".")[2] if path.endswith("]") else field.name,
        "number": field.number,
        "type": _type_of(field),
        "label": _label_of(field),
        "path": path,
        "kind": kind,
        "text": text,
        "count": None,
        "offset": None,
        "length": None,
    }


def _type_of(field: FieldDescriptor) -> str:
    if field.message_type is not None:
        return field.message_type.name
    return field.enum_type.name if field.enum_type is not None else _TYPE_NAMES[field.type]


def _label_of(field: FieldDescriptor) -> str:
    if field.is_repeated:
        return "repeated"
    return f"oneof {field.containing_oneof.name}" if field.containing_oneof is not None else ""


def _named(message: Message) -> str:
    """The values that tell a message from others: its texts, or else its first numbers."""
    singular = [field for field in message.DESCRIPTOR.fields if not field.is_repeated and field.message_type is None]
    there = [field for field in singular if field.type != field.TYPE_BYTES and message.HasField(field.name)]
    texts = [field for field in there if field.type == field.TYPE_STRING and field.name != "doc_string"]
    if texts:
        return " ".join(value_text(message, field, longest=_LONGEST) for field in texts[:_NAMED])
    return ", ".join(f"{field.name}: {value_text(message, field)}" for field in there[:_NAMED])
