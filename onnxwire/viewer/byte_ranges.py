"""The bytes of fields, with their offsets in the file."""

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

_WIRES = {WIRE_VARINT: "varint", WIRE_FIXED64: "64 bits", WIRE_LEN: "bytes", WIRE_FIXED32: "32 bits"}


def span_of(root: Message, path: str) -> tuple[int, int]:
    """Return the span of a field's value: the offset of its first byte, and the offset after its last byte.

    path: the path of a message, a field or an element of a field; "" for the whole file. For a packed field: the whole
    run.
    Raises PathError if the path leads nowhere, or to a value that the file does not contain.
    """
    found = resolve(root, path)
    if isinstance(found.value, Message):
        span = found.value._span
        if span is not None:
            return span
    elif found.parent is not None and found.field is not None and (outer := found.parent._span) is not None:
        span = _record_of(found, found.field, root, outer)
        if span is not None:
            return span
    reason = "it is not one run of bytes in the file: it was edited, is split into several parts, or is absent"
    raise PathError(reason, path, root._document.name)


def _record_of(
    found: Resolved, field: FieldDescriptor, root: Message, outer: tuple[int, int]
) -> tuple[int, int] | None:
    """Return the value's span in the field's last record, or in the record of the requested element."""
    seen, last = 0, None
    for _, number, wire, value, after, _ in walk_records(root._document, *outer):
        if number == field.number and field.accepts(wire):
            last = value, after
            # The elements of a packed field share one record.
            if field.is_repeated and field.is_span and seen == (found.element_index or 0):
                break
            seen += 1
    return last


def read_bytes(root: Message, path: str, start: int, count: int, *, payload: bool = False) -> dict[str, Any]:
    """Read a range of a field's bytes.

    path: as for `span_of`. start: the first byte of the range, relative to the field; count: the number of bytes.
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
        if storage.file is not None:
            file, first, length = storage.file
            start = min(max(start, 0), length)
            data = bytes(storage.payload(start, min(start + count, length)))
            return {"file": file.name, "offset": first + start, "start": start, "length": length, "bytes": data.hex()}
        path = f"{path}.{storage.field}" if storage.field else path
    first, end = span_of(root, path)
    length = end - first
    start = min(max(start, 0), length)
    data = bytes_at(document, first + start, min(first + start + count, end))
    return {"file": document.name, "offset": first + start, "start": start, "length": length, "bytes": data.hex()}


def list_records(root: Message, path: str, start: int, count: int) -> dict[str, Any]:
    """List the records of a message in the order of the file.

    path: the path of the message. start: the index of the first record; count: the number of records.
    Returns total (the number of records in the message) and rows: number, name (None for an unknown field), path (None
    for an unknown or retired field), wire, offset (of the tag), value (the offset of the value), length (of the value,
    in bytes), text (the value, truncated if it is long, "" for a message) and is_message.
    Raises PathError if the path leads to no message, and DecodeError for damaged bytes.
    """
    document = root._document
    found = resolve(root, path).value
    span = found._span if isinstance(found, Message) else None
    if span is None:
        raise PathError("it is not one message in the file: it was edited, or is not a message", path, document.name)
    counts: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    total = 0
    for record in walk(document, found.DESCRIPTOR, *span):
        field, number, after = record.field, record.number, record.after
        assert after is not None
        if start <= total < start + count:
            here = None
            if field is not None and record.is_live:
                is_element = field.is_repeated and field.is_span
                here = (f"{path}." if path else "") + field.name
                here += f"[{counts.get(number, 0)}]" if is_element else ""
            is_message = here is not None and field is not None and field.message_type is not None
            rows.append(
                {
                    "number": number,
                    "name": field.name if field is not None else None,
                    "path": here,
                    "wire": _WIRES.get(record.wire, "group"),
                    "offset": record.offset,
                    "value": record.value,
                    "length": after - record.value,
                    "text": "" if is_message else describe_record(document, record, with_codes=True),
                    "is_message": is_message,
                }
            )
        counts[number] = counts.get(number, 0) + record.is_live
        total += 1
    return {"total": total, "rows": rows}
