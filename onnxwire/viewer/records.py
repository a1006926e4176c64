"""The bytes of fields, with their offsets in the file."""

from __future__ import annotations

from typing import Any

from onnxwire.analysis.paths import Found, resolve
from onnxwire.engine.damage import fault_at
from onnxwire.engine.descriptor import WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN, WIRE_VARINT, FieldDescriptor
from onnxwire.engine.message import Message
from onnxwire.engine.records import bytes_at, read_record
from onnxwire.errors import PathError
from onnxwire.messages import TensorProto
from onnxwire.tensor.storage import Storage

_WIRES = {WIRE_VARINT: "varint", WIRE_FIXED64: "64 bits", WIRE_LEN: "bytes", WIRE_FIXED32: "32 bits"}
_SHOWN = 80  # bytes of a text that are shown in a row


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


def _record_of(found: Found, field: FieldDescriptor, root: Message, outer: tuple[int, int]) -> tuple[int, int] | None:
    """The value of the field's last record, or of that of the element asked for."""
    start, end = outer
    seen, last = 0, None
    while start < end:
        number, wire, value, after, _ = read_record(root._document, start, end)
        if after is None:
            raise fault_at(root._document, start, end)
        if number == field.number and field.accepts(wire):
            last = value, after
            # The elements of a packed field have no records of their own.
            if field.is_repeated and field.is_span and seen == (found.element_index or 0):
                break
            seen += 1
        start = after
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
    Returns total (how many records there are) and rows: number, name (None for an unknown field), path (None for one),
    wire, offset (of the tag), value (where the value begins), length (of the value, in bytes), text (the value, if
    short) and is_message.
    Raises PathError where the path leads to no message, and DecodeError for damaged bytes.
    """
    document = root._document
    found = resolve(root, path).value
    span = found._span if isinstance(found, Message) else None
    if span is None:
        raise PathError("it does not stand in the file as a message: it was edited, or is not one", path, document.name)
    fields = found.DESCRIPTOR.fields_by_number
    offset, end = span
    counts: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    total = 0
    while offset < end:
        number, wire, value, after, raw = read_record(document, offset, end)
        if after is None:
            raise fault_at(document, offset, end)
        field = fields.get(number)
        if field is not None and not field.accepts(wire):
            field = None
        if start <= total < start + count:
            here = None
            if field is not None:
                is_element = field.is_repeated and field.is_span
                here = (f"{path}." if path else "") + field.name
                here += f"[{counts.get(number, 0)}]" if is_element else ""
            rows.append(
                {
                    "number": number,
                    "name": field.name if field is not None else None,
                    "path": here,
                    "wire": _WIRES.get(wire, "group"),
                    "offset": offset,
                    "value": value,
                    "length": after - value,
                    "text": _text(root, field, wire, value, after, raw),
                    "is_message": field is not None and field.message_type is not None,
                }
            )
        counts[number] = counts.get(number, 0) + 1
        total += 1
        offset = after
    return {"total": total, "rows": rows}


def _text(root: Message, field: FieldDescriptor | None, wire: int, value: int, after: int, raw: int | None) -> str:
    """The value of a record for people, "" where it is none that a row could show."""
    if wire == WIRE_VARINT and raw is not None:
        if field is not None and field.enum_type is not None:
            known = field.enum_type.values_by_number.get(raw)
            return f"{known.name} ({raw})" if known is not None else str(raw)
        return str(raw - (1 << 64) if raw >> 63 else raw)
    if wire in (WIRE_FIXED32, WIRE_FIXED64):
        import struct

        data = bytes_at(root._document, value, after)
        return f"{struct.unpack('<f' if wire == WIRE_FIXED32 else '<d', data)[0]:g}"
    if wire == WIRE_LEN and (field is None or field.type in (field.TYPE_STRING, field.TYPE_BYTES)):
        data = bytes_at(root._document, value, min(after, value + _SHOWN))
        try:
            # A letter that the cut went through is not a fault of the text.
            text = data.decode() if after - value <= _SHOWN else data[: _SHOWN - 4].decode("utf-8", "ignore") + "…"
        except UnicodeDecodeError:
            return ""
        return text if text.rstrip("…").isprintable() else ""
    return ""
