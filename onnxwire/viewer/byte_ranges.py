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
    """Where the value of a field stands: the offsets of its first byte and after its last.

    path: of a message, of a field or of an element of one; "" for the whole file. Of a packed field, the whole run.
    Raises PathError where the path leads nowhere, or to what is not in the file.
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
    reason = "it does not stand in the file as one run of bytes: it was edited, is in several parts, or is not there"
    raise PathError(reason, path, root._document.name)


def _record_of(
    found: Resolved, field: FieldDescriptor, root: Message, outer: tuple[int, int]
) -> tuple[int, int] | None:
    """The value of the field's last record, or of that of the element asked for."""
    seen, last = 0, None
    for _, number, wire, value, after, _ in walk_records(root._document, *outer):
        if number == field.number and field.accepts(wire):
            last = value, after
            # The elements of a packed field have no records of their own.
            if field.is_repeated and field.is_span and seen == (found.element_index or 0):
                break
            seen += 1
    return last


def read_bytes(root: Message, path: str, start: int, count: int, *, payload: bool = False) -> dict[str, Any]:
    """Read some bytes of a field.

    path: as for `span_of`. start: the first byte that is wanted, counted from the first of the field; count: how many.
    payload: of a tensor, the bytes of its elements, in whatever file they are.
    Returns file, offset (in it, of the first byte that is given; None for bytes that stand nowhere as they are), start,
    length (of the whole field) and bytes, in hexadecimal digits.
    Raises PathError, and of a tensor's payload what `numpy` of it raises.
    """
    document = root._document
    if payload:
        tensor = resolve(root, path).value
        if not isinstance(tensor, TensorProto):
            raise PathError("it is not a tensor, and has no payload", path, document.name)
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
    """List the records of a message as they stand in the file.

    path: of the message. start: the first record that is wanted; count: how many.
    Returns total (how many records there are) and rows: number, name (None for an unknown field), path (None for one,
    and for a retired field), wire, offset (of the tag), value (where the value begins), length (of the value, in
    bytes), text (the value, cut if it is long, "" for a message) and is_message.
    Raises PathError where the path leads to no message, and DecodeError for damaged bytes.
    """
    document = root._document
    found = resolve(root, path).value
    span = found._span if isinstance(found, Message) else None
    if span is None:
        raise PathError("it does not stand in the file as a message: it was edited, or is not one", path, document.name)
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
