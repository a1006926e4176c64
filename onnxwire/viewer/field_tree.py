"""Queries of the page about any message: its fields as rows of a tree, in pages, with their offsets."""

from __future__ import annotations

from typing import Any

from onnxwire.analysis.paths import resolve
from onnxwire.engine.descriptor import FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.record_walk import walk_records
from onnxwire.engine.repeated import Repeated
from onnxwire.engine.table_text import TYPES
from onnxwire.errors import PathError
from onnxwire.messages import ModelProto, TensorProto
from onnxwire.viewer import byte_ranges
from onnxwire.viewer.value_texts import read_value, value_text

MAX_ROWS = 1000
_MAX_BYTES = 1 << 16  # maximum number of bytes of one answer
_MAX_RECORDS = 1 << 16  # maximum number of records of a message that is scanned for the offsets of its numbers
_MAX_NAME_FIELDS = 2  # maximum number of fields in the summary of a message
_MAX_NAME_CHARS = 60
_TYPE_NAMES = {number: name for name, number in TYPES.items()}


class FieldQueries:
    """The queries about a message of any type. Thread-safe.

    message: the root, as loaded or a clone with edits; it must not be edited.
    """

    def __init__(self, message: Message) -> None:
        self.message = message

    def about(self) -> dict[str, Any]:
        """Describe the root: file, bytes, type, and whether it is a model or a tensor."""
        message = self.message
        return {
            "file": message._document.name,
            "bytes": message.ByteSize(),
            "type": message.DESCRIPTOR.name,
            "is_model": isinstance(message, ModelProto),
            "is_tensor": isinstance(message, TensorProto),
        }

    def fields(self, path: str = "", start: int = 0, count: int = 100) -> dict[str, Any]:
        """List the fields of a message, or the elements of a repeated field, in pages.

        path: the path of the message or field, "" for the root. start: the index of the first row; count: the number of
        rows, up to 1,000. A message has a row for each present field, and one for each unknown field.
        Returns path, type (of the message, or of each element), total, rows and absent. A row: name, number, type,
        label ("repeated", the name of its oneof, or ""), path, kind ("message", "list", "value" or "unknown"), text,
        count (of elements), offset (of the value) and length; offset and length are None if the value is not in the
        file. absent: name, type and label of the absent fields. is_edited: whether the message, or the elements, differ
        from the file. Raises PathError if the path leads to a single value or nowhere.
        """
        found = resolve(self.message, path)
        first, last = max(start, 0), max(start, 0) + min(max(count, 0), MAX_ROWS)
        if isinstance(found.value, Message) and found.index is None:
            return self._fields_of(found.value, found.path, first, last)
        if isinstance(found.value, Repeated) and found.parent is not None and found.field is not None:
            return self._elements_of(found.parent, found.field, found.path, first, last)
        raise PathError("this is a value without fields", path, self.message._document.name)

    def value(self, path: str) -> dict[str, Any]:
        """Return a value as editable text; see `value_texts.read_value`."""
        return read_value(self.message, path)

    def raw(self, path: str, start: int = 0, count: int = 1024, *, payload: bool = False) -> dict[str, Any]:
        """Read up to 65,536 bytes of any field; see `byte_ranges.read_bytes`."""
        return byte_ranges.read_bytes(self.message, path, start, min(max(count, 0), _MAX_BYTES), payload=payload)

    def records(self, path: str, start: int = 0, count: int = 100) -> dict[str, Any]:
        """List up to 1,000 records of a message; see `byte_ranges.list_records`."""
        return byte_ranges.list_records(self.message, path, start, min(max(count, 0), MAX_ROWS))

    def _fields_of(self, message: Message, path: str, first: int, last: int) -> dict[str, Any]:
        descriptor = message.DESCRIPTOR
        span = self._span(message)
        offsets, unknown = self._walk(message, span)
        present: list[FieldDescriptor] = []
        absent: list[FieldDescriptor] = []
        for field in descriptor.fields:
            is_present = len(getattr(message, field.name)) if field.is_repeated else message.HasField(field.name)
            (present if is_present else absent).append(field)
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
            # Strings and bytes are read as payloads: only the shown part of each is read.
            payloads = values._payloads()[first:last] if field.is_span and total <= _MAX_RECORDS else None
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
        """Return the span of a message in the file; None if it was edited, or is stored in another document."""
        here, root = message._document, self.message._document
        is_of_file = (here.name, here.descriptor, len(here)) == (root.name, root.descriptor, len(root))
        return message._span if is_of_file else None

    def _walk(
        self, message: Message, span: tuple[int, int] | None
    ) -> tuple[dict[int, tuple[int, int]], list[tuple[int, int, int]]]:
        """Return by field number the offset and length of the last value, and number, offset, length of unknown fields.

        Both are empty for a message with too many records to scan.
        """
        offsets: dict[int, tuple[int, int]] = {}
        unknown: list[tuple[int, int, int]] = []
        if span is None:
            return offsets, unknown
        fields = message.DESCRIPTOR.fields_by_number
        for i, (_, number, wire, value, after, _) in enumerate(walk_records(message._document, *span)):
            if i == _MAX_RECORDS:
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
    """Summarize a message by its first strings, or else its first numbers."""
    singular = [field for field in message.DESCRIPTOR.fields if not field.is_repeated and field.message_type is None]
    present = [field for field in singular if field.type != field.TYPE_BYTES and message.HasField(field.name)]
    texts = [field for field in present if field.type == field.TYPE_STRING and field.name != "doc_string"]
    if texts:
        return " ".join(value_text(message, field, longest=_MAX_NAME_CHARS) for field in texts[:_MAX_NAME_FIELDS])
    return ", ".join(f"{field.name}: {value_text(message, field)}" for field in present[:_MAX_NAME_FIELDS])
