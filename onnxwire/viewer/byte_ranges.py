"""The bytes of fields, and the records of messages, with their offsets in the file."""

from __future__ import annotations

from typing import Any

from onnxwire.analysis.paths import Resolved, resolve
from onnxwire.analysis.records import describe_record, walk
from onnxwire.engine.descriptor import WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN, WIRE_VARINT, FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.record_reader import bytes_at
from onnxwire.engine.record_walk import walk_records
from onnxwire.errors import PathError
from onnxwire.messages import TensorProto
from onnxwire.tensor.storage import Storage

_WIRE_TYPE_NAMES = {WIRE_VARINT: "varint", WIRE_FIXED64: "64 bits", WIRE_LEN: "bytes", WIRE_FIXED32: "32 bits"}


def find_span(root: Message, path: str) -> tuple[int, int]:
    """Return the span of a field's value: the offset of its first byte, and the offset after its last byte.

    path: the path of a message, a field or an element of a field; "" for the whole file. For repeated
    numbers, the span is that of the last record: of all elements, if they are packed into one record. For a repeated
    field of strings, bytes or messages without an index, the span is that of the first element.
    Raises PathError if there is no element at the path, or if the file has no contiguous bytes for it.
    """
    target = resolve(root, path)
    if isinstance(target.value, Message):
        span = target.value._span
        if span is not None:
            return span
    elif target.parent is not None and target.field is not None and (parent_span := target.parent._span) is not None:
        span = _find_value_span(target, target.field, root, parent_span)
        if span is not None:
            return span
    reason = "the file has no contiguous bytes for it: it was edited, has several parts, or is absent"
    raise PathError(reason, path, root._document.name)


def _find_value_span(
    target: Resolved, field: FieldDescriptor, root: Message, parent_span: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the span of a value, None if the field has no record.

    The span is in the record of the requested element; for a singular field or repeated numbers, in the last record.
    parent_span: the span of the message that contains the field.
    """
    n_records, value_span = 0, None
    for _, number, wire, value, value_end, _ in walk_records(root._document, *parent_span):
        if number == field.number and field.accepts(wire):
            value_span = value, value_end
            # The elements of a packed field share one record.
            if field.is_repeated and field.is_span and n_records == (target.element_index or 0):
                break
            n_records += 1
    return value_span


def read_bytes(root: Message, path: str, start: int, count: int, *, payload: bool = False) -> dict[str, Any]:
    """Read a range of a field's bytes.

    path: as for `find_span`. start: the first byte of the range, relative to the field; count: the number of bytes.
    payload: read the bytes of a tensor's elements, from the file that contains them.
    Returns file, offset (of the first returned byte in that file), start, length (of the whole field, in bytes) and
    bytes, in hexadecimal digits.
    Raises PathError; for a payload also the exceptions of `TensorProto.numpy`.
    """
    document = root._document
    if payload:
        tensor = resolve(root, path).value
        if not isinstance(tensor, TensorProto):
            raise PathError("this is not a tensor and has no payload", path, document.name)
        storage = Storage(tensor)
        if storage.external_range is not None:
            file, file_offset, length = storage.external_range
            start = min(max(start, 0), length)
            data = bytes(storage.payload(start, min(start + count, length)))
            return {
                "file": file.name,
                "offset": file_offset + start,
                "start": start,
                "length": length,
                "bytes": data.hex(),
            }
        if not storage.field:
            raise PathError("this tensor has no elements", path, document.name)
        path = f"{path}.{storage.field}"
    file_offset, end = find_span(root, path)
    length = end - file_offset
    start = min(max(start, 0), length)
    data = bytes_at(document, file_offset + start, min(file_offset + start + count, end))
    return {"file": document.name, "offset": file_offset + start, "start": start, "length": length, "bytes": data.hex()}


def list_records(root: Message, path: str, start: int, count: int) -> dict[str, Any]:
    """List the records of a message in the order of the file.

    path: the path of the message. start: the index of the first record; count: the number of records.
    Returns total (how many records the message has) and rows: number and name of the field (name is None for an unknown
    field), path (None for an unknown or retired field), wire (the name of the wire type), offset (of the tag), value
    (the offset of the value), length (of the value, in bytes), text (the value, truncated if it is long, "" for a
    message) and is_message.
    Raises PathError if the path leads to no message with contiguous bytes in the file, and DecodeError for damaged
    bytes.
    """
    document = root._document
    message = resolve(root, path).value
    span = message._span if isinstance(message, Message) else None
    if span is None:
        raise PathError(
            "this is not a message with contiguous bytes in the file: it is a value, was edited, or has several parts",
            path,
            document.name,
        )
    element_counts: dict[int, int] = {}  # by field number
    rows: list[dict[str, Any]] = []
    total = 0
    for record in walk(document, message.DESCRIPTOR, *span):
        field, number, value_end = record.field, record.number, record.end
        assert value_end is not None
        if start <= total < start + count:
            field_path = None
            if field is not None and record.is_live:
                is_element = field.is_repeated and field.is_span
                field_path = (f"{path}." if path else "") + field.name
                field_path += f"[{element_counts.get(number, 0)}]" if is_element else ""
            is_message = field_path is not None and field is not None and field.message_type is not None
            rows.append(
                {
                    "number": number,
                    "name": field.name if field is not None else None,
                    "path": field_path,
                    "wire": _WIRE_TYPE_NAMES.get(record.wire, "group"),
                    "offset": record.offset,
                    "value": record.value_start,
                    "length": value_end - record.value_start,
                    "text": "" if is_message else describe_record(document, record, with_codes=True),
                    "is_message": is_message,
                }
            )
        element_counts[number] = element_counts.get(number, 0) + record.is_live
        total += 1
    return {"total": total, "rows": rows}
