"""Queries of the page about any message: its fields as rows of a tree, its values, bytes and records."""

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

MAX_ROWS = 1000  # maximum number of rows of one answer
_MAX_BYTES = 1 << 16  # maximum number of bytes of one answer to `raw`
_MAX_RECORDS = 1 << 16  # maximum number of records, or elements of a list, that are scanned for their offsets
_MAX_SUMMARY_FIELDS = 2  # maximum number of fields in the summary of a message
_MAX_SUMMARY_CHARS = 60  # maximum length of a string in the summary of a message
_TYPE_NAMES = {number: name for name, number in TYPES.items()}


class FieldQueries:
    """The queries about a message of any type. Thread-safe.

    message: the root: a loaded message, or a clone of one with edits. It must not be changed while this object is used.
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
        """List some of the fields of a message, or of the elements of a repeated field.

        path: the path of the message or field, "" for the root. start: the index of the first row; count: the number of
        rows, up to 1,000. A message has a row for each present field, and one for each record of no known field.
        Returns path, type (of the message, or of each element), is_list (whether the rows are elements), total, rows,
        absent and is_edited. A row: name, number, type, label ("repeated", "oneof NAME", or ""), path, kind
        ("message", "list", "value" or "unknown"), text, count (of elements), offset (of the value) and length. offset
        and length are None for a list, for an element that is a number, for a value that is not in the file, if there
        are too many records or elements to scan, and with is_edited, except for unedited messages. absent: name, type
        and label of the absent fields. is_edited: whether the message, or the message that contains the elements, has
        no span in the file; see `_span`.
        Raises PathError if there is no message or repeated field at the path.
        """
        target = resolve(self.message, path)
        first_row, stop_row = max(start, 0), max(start, 0) + min(max(count, 0), MAX_ROWS)
        if isinstance(target.value, Message) and target.index is None:
            return self._list_fields(target.value, target.path, first_row, stop_row)
        if isinstance(target.value, Repeated) and target.parent is not None and target.field is not None:
            return self._list_elements(target.parent, target.field, target.path, first_row, stop_row)
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

    def _list_fields(self, message: Message, path: str, first_row: int, stop_row: int) -> dict[str, Any]:
        """List the fields of a message from one row to another; see `fields`."""
        descriptor = message.DESCRIPTOR
        span = self._span(message)
        offsets, unknown_records = self._scan_offsets(message, span)
        present: list[FieldDescriptor] = []
        absent: list[FieldDescriptor] = []
        for field in descriptor.fields:
            is_present = len(getattr(message, field.name)) if field.is_repeated else message.HasField(field.name)
            (present if is_present else absent).append(field)
        rows: list[dict[str, Any]] = []
        prefix = f"{path}." if path else ""
        for field in present[first_row:stop_row]:
            field_path = f"{prefix}{field.name}"
            if field.is_repeated:
                row = _row(field, field_path, "list", "")
                row["count"] = len(getattr(message, field.name))
            elif field.message_type is not None:
                row = self._message_row(field, field_path, getattr(message, field.name))
            else:
                row = _row(field, field_path, "value", value_text(message, field))
                row["offset"], row["length"] = offsets.get(field.number, (None, None))
            rows.append(row)
        shown_records = unknown_records[max(first_row - len(present), 0) : max(stop_row - len(present), 0)]
        for number, offset, length in shown_records:
            unknown_row = {"name": "", "number": number, "type": "", "label": "", "path": None, "kind": "unknown"}
            rows.append(unknown_row | {"text": "", "count": None, "offset": offset, "length": length})
        return {
            "path": path,
            "type": descriptor.name,
            "is_list": False,
            "total": len(present) + len(unknown_records),
            "rows": rows,
            "absent": [{"name": field.name, "type": _type_of(field), "label": _label_of(field)} for field in absent],
            "is_edited": span is None,
        }

    def _list_elements(
        self, message: Message, field: FieldDescriptor, path: str, first_row: int, stop_row: int
    ) -> dict[str, Any]:
        """List the elements of a repeated field from one row to another; see `fields`."""
        values = getattr(message, field.name)
        total = len(values)
        rows = []
        if field.message_type is not None:
            for index, element in enumerate(values[first_row:stop_row], first_row):
                rows.append(self._message_row(field, f"{path}[{index}]", element))
        else:
            # Strings and bytes are read as buffers (Payload): only the shown part of each is read.
            payloads = values._payloads()[first_row:stop_row] if field.is_span and total <= _MAX_RECORDS else None
            shown_values = payloads if payloads is not None else values[first_row:stop_row]
            has_offsets = self._span(message) is not None
            for index, value in enumerate(shown_values, first_row):
                row = _row(field, f"{path}[{index}]", "value", value_text(message, field, value))
                span = value.span if payloads is not None and has_offsets else None
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
        """Return the row of a message."""
        row = _row(field, path, "message", _summarize(message))
        span = self._span(message)
        if span is not None:
            row["offset"], row["length"] = span[0], span[1] - span[0]
        return row

    def _span(self, message: Message) -> tuple[int, int] | None:
        """Return the span of a message in the file.

        None if it was edited, has several parts, or is not in the file.
        """
        document, root_document = message._document, self.message._document
        is_in_file = (document.name, document.descriptor, len(document)) == (
            root_document.name,
            root_document.descriptor,
            len(root_document),
        )
        return message._span if is_in_file else None

    def _scan_offsets(
        self, message: Message, span: tuple[int, int] | None
    ) -> tuple[dict[int, tuple[int, int]], list[tuple[int, int, int]]]:
        """Return the offset and length of each field's last value, and of the value of each record of no known field.

        The first result is a dict by field number, the second a list of (number, offset, length). Both are empty
        without a span, and for a message with too many records to scan.
        """
        offsets: dict[int, tuple[int, int]] = {}
        unknown_records: list[tuple[int, int, int]] = []
        if span is None:
            return offsets, unknown_records
        fields = message.DESCRIPTOR.fields_by_number
        for i, (_, number, wire, value, value_end, _) in enumerate(walk_records(message._document, *span)):
            if i == _MAX_RECORDS:
                return {}, []
            field = fields.get(number)
            if field is not None and field.accepts(wire):
                offsets[number] = value, value_end - value
            else:
                unknown_records.append((number, value, value_end - value))
        return offsets, unknown_records


def _row(field: FieldDescriptor, path: str, kind: str, text: str) -> dict[str, Any]:
    """Return a row for a field, with None for count, offset and length."""
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


def _summarize(message: Message) -> str:
    """Summarize a message by its first strings except doc_string; without any, by its first numbers or doc_string."""
    singular_fields = [
        field for field in message.DESCRIPTOR.fields if not field.is_repeated and field.message_type is None
    ]
    present_fields = [
        field for field in singular_fields if field.type != field.TYPE_BYTES and message.HasField(field.name)
    ]
    string_fields = [
        field for field in present_fields if field.type == field.TYPE_STRING and field.name != "doc_string"
    ]
    if string_fields:
        return " ".join(
            value_text(message, field, max_chars=_MAX_SUMMARY_CHARS) for field in string_fields[:_MAX_SUMMARY_FIELDS]
        )
    return ", ".join(f"{field.name}: {value_text(message, field)}" for field in present_fields[:_MAX_SUMMARY_FIELDS])
