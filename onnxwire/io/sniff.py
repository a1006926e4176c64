"""Recognize files that are not ONNX models, or that contain another message type."""

from __future__ import annotations

from itertools import islice

from onnxwire.engine.descriptor import WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN
from onnxwire.engine.record_reader import bytes_at, read_record
from onnxwire.messages import SCHEMA

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnxwire.engine.descriptor import Descriptor
    from onnxwire.engine.document import Document
    from onnxwire.engine.message import Message

_MAGIC = [
    (0, b"PK\x03\x04", "a zip archive; unpack it, or export the model if it is a PyTorch or Keras file"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"\x1f\x8b", "gzip data; unpack it with gunzip"),
    (0, b"BZh", "bzip2 data; unpack it with bunzip2"),
    (0, b"\xfd7zXZ\x00", "xz data; unpack it with unxz"),
    (0, b"\x28\xb5\x2f\xfd", "zstd data; unpack it with unzstd"),
    (257, b"ustar", "a tar archive; unpack it"),
    (0, b"version https://git-lfs", "a git-lfs pointer, not the file itself; run `git lfs pull`"),
    (0, b"<?xml", "XML"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, perhaps a Keras model"),
    (0, b"\x93NUMPY", "a numpy .npy array"),
    (0, b"GGUF", "a GGUF model"),
    (0, b"ggml", "a GGML model"),
    (4, b"TFL3", "a TensorFlow Lite model"),
    (4, b"ORTM", "an onnxruntime .ort model; convert the .onnx it was made from"),
    *(
        (0, b"\x80" + start, "a pickle, perhaps a PyTorch checkpoint; export the model to ONNX")
        for start in (b"\x02}", b"\x03", b"\x04", b"\x05")
    ),
    (0, b"\x80\x02\x8a\nl\xfc\x9c", "a PyTorch checkpoint; export the model to ONNX"),
    (0, b"%PDF", "a PDF"),
    (0, b"\x7fELF", "an executable"),
    (0, b"MZ", "a Windows executable"),
    (0, b"\x89PNG", "a PNG image"),
]
_HEAD_BYTES = 512
_MAX_RECORDS = 1024  # records examined for each candidate type
_MAX_NESTED_BYTES = 1 << 16
_MAX_DEPTH = 2
_MAX_TEXT_BYTES = 256
_MAX_NODE_DEF_FIELDS = 64
_ATTR_OF_NODE_DEF = 5
_CONTROL_BYTES = frozenset(range(32)) - frozenset(b"\t\n\r")


def foreign_format(document: Document) -> str | None:
    """Return a sentence that names the foreign format of a document, judged by its first bytes; None if unknown."""
    head = bytes_at(document, 0, min(len(document), _HEAD_BYTES))
    for offset, magic, name in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return f"this is not an ONNX file but {name}"
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return "this is not an ONNX file but an HTML page, perhaps a login or error page saved by a download"
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") <= len(document) - 8:
        return "this is not an ONNX file but a safetensors file"
    if text.startswith((b"{", b"[")) and not head.strip(b"\t\r\n" + bytes(range(32, 127))):
        return "this is not an ONNX file but JSON text"
    if text.startswith((b"ir_version:", b"ir_version ", b"graph {", b"node {", b"producer_name:")):
        return "this is not a binary ONNX file but its text form; convert it with onnxwire.from_text"
    if text.startswith((b"<\n", b"<ir_version")):
        return (
            "this is not a binary ONNX file but its text form for onnx.parser; convert it with onnx.parser.parse_model"
        )
    if _is_graph_def(document):
        return "this is not an ONNX file but a TensorFlow graph (GraphDef); convert it with tf2onnx"
    if head and not head.strip(b"\0"):
        return "the file starts with zero bytes; it may not have been written completely"
    if len(head) > 16 and not head.strip(b"\t\r\n" + bytes(range(32, 127))):
        return "this is not an ONNX file but plain text"
    return None


def _is_graph_def(document: Document) -> bool:
    """Return whether a document begins with a TensorFlow NodeDef: name, op, input, and an entry of the map `attr`.

    In ONNX's GraphProto the same bytes would be a node whose first attribute has the float field `f` as a message.
    """
    if not len(document):
        return False
    number, wire, start, end, _ = read_record(document, 0, len(document))
    if (number, wire) != (1, WIRE_LEN) or end is None:
        return False
    fields = list(islice(_records(document, start, end), _MAX_NODE_DEF_FIELDS))
    if any(wire != WIRE_LEN for _, wire, _, _ in fields) or [entry[0] for entry in fields[:2]] != [1, 2]:
        return False
    attribute = next((entry for entry in fields if entry[0] == _ATTR_OF_NODE_DEF), None)
    if attribute is None:
        return False
    return [entry[:2] for entry in islice(_records(document, *attribute[2:]), 3)] == [(1, WIRE_LEN), (2, WIRE_LEN)]


def _records(document: Document, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield number, wire type, and the bounds of the value of the records of a range, up to a damaged one."""
    while start < end:
        number, wire, value, after, _ = read_record(document, start, end)
        if after is None:
            return
        yield number, wire, value, after
        start = after


def type_mismatch(message: Message) -> str | None:
    """Return the reason why a decoded root message is probably not of its type; None if it probably is."""
    document, expected = message._document, message.DESCRIPTOR
    foreign = foreign_format(document)
    if foreign is not None:
        return foreign
    hits, misfits = _fit(document, expected)
    if misfits:
        other = best_fit(document)
        if other is not None and other is not expected:
            name = other.full_name.partition(".")[2]
            return f"this looks like {name}, not {expected.name}; load it with type=onnxwire.{name}"
    if not hits:
        return (
            f"it has no known field of {expected.name}; this is not an ONNX file, or it contains another message type"
        )
    return None


def fits(document: Document, descriptor: Descriptor) -> bool:
    """Return whether the first records of a document fit a message type."""
    hits, misfits = _fit(document, descriptor)
    return hits > 0 and misfits == 0


def best_fit(document: Document) -> Descriptor | None:
    """Return the message type that knows most of a document's records and contradicts none; None if there is none."""
    best: tuple[int, Descriptor] | None = None
    for cls in SCHEMA.messages.values():
        hits, misfits = _fit(document, cls.DESCRIPTOR)
        if misfits == 0 and hits and (best is None or hits > best[0]):
            best = hits, cls.DESCRIPTOR
    return best[1] if best else None


def _fit(document: Document, descriptor: Descriptor) -> tuple[int, int]:
    """Return how many of a document's first records, nested ones included, fit a message type, and how many do not.

    Valid text in a string field is counted twice, because arbitrary bytes often look like a number, but rarely like
    text.
    """
    hits = misfits = 0
    # Spans of messages to examine; large nested messages are skipped.
    pending = [(descriptor, 0, len(document), 0)]
    left = _MAX_RECORDS
    while pending:
        table, start, end, depth = pending.pop()
        fields, retired = table.fields_by_number, {field.number for field in table.retired_fields}
        seen = set()
        while start < end and left:
            left -= 1
            number, wire, value, after, _ = read_record(document, start, end)
            if after is None:
                misfits += 1
                break
            start = after
            field = fields.get(number)
            if field is None or not field.accepts(wire):
                misfits += number not in retired
                continue
            hits += 1
            if not field.is_repeated:
                misfits += number in seen
                seen.add(number)
            if field.type == field.TYPE_STRING:
                hits += 1
                text = bytes_at(document, value, min(after, value + _MAX_TEXT_BYTES))
                misfits += not _CONTROL_BYTES.isdisjoint(text)
            elif field.message_type is not None:
                if depth < _MAX_DEPTH and after - value <= _MAX_NESTED_BYTES:
                    pending.append((field.message_type, value, after, depth + 1))
            elif wire == WIRE_LEN and not field.is_span and after > value:
                size = {WIRE_FIXED64: 8, WIRE_FIXED32: 4}.get(field.wire_type)
                misfits += bool((after - value) % size if size else bytes_at(document, after - 1, after)[0] > 127)
    return hits, misfits
