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

# The offset of the magic number in the file, the magic number, and the format's name, for some with a remedy.
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
    (4, b"ORTM", "an onnxruntime .ort model; load the .onnx model that it was made from"),
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
_FIRST_BYTES = 512  # number of bytes at the start of a document that are examined for known formats
_MAX_RECORDS = 1024  # records examined for each candidate type
_MAX_NESTED_BYTES = 1 << 16  # size of the largest nested message that is examined
_MAX_DEPTH = 2  # levels of nested messages examined
_MAX_TEXT_BYTES = 256  # bytes of a string that are examined
_MAX_NODE_DEF_FIELDS = 64  # fields of a NodeDef that are examined
_ATTR_OF_NODE_DEF = 5  # the field number of `attr`
# The ASCII control characters, except DEL, that text does not contain.
_CONTROL_BYTES = frozenset(range(32)) - frozenset(b"\t\n\r")


def describe_foreign_format(document: Document) -> str | None:
    """Return a sentence with the format of a document that is not ONNX, judged by its beginning; None if unknown."""
    first_bytes = bytes_at(document, 0, min(len(document), _FIRST_BYTES))
    for offset, magic, name in _MAGIC:
        if first_bytes[offset : offset + len(magic)] == magic:
            return f"this is not an ONNX file but {name}"
    text = first_bytes.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return "this is not an ONNX file but an HTML page, perhaps a login or error page saved by a download"
    if first_bytes[8:10] == b'{"' and int.from_bytes(first_bytes[:8], "little") <= len(document) - 8:
        return "this is not an ONNX file but a safetensors file"
    if text.startswith((b"{", b"[")) and not first_bytes.strip(b"\t\r\n" + bytes(range(32, 127))):
        return "this is not an ONNX file but JSON text"
    if text.startswith((b"ir_version:", b"ir_version ", b"graph {", b"node {", b"producer_name:")):
        return "this is not a binary ONNX file but its text form; convert it with onnxwire.from_text"
    if text.startswith((b"<\n", b"<ir_version")):
        return (
            "this is not a binary ONNX file but its text form for onnx.parser; convert it with onnx.parser.parse_model"
        )
    if _is_graph_def(document):
        return "this is not an ONNX file but a TensorFlow graph (GraphDef); convert it with tf2onnx"
    if first_bytes and not first_bytes.strip(b"\0"):
        return "the file begins with NUL bytes; it may not have been written completely"
    if len(first_bytes) > 16 and not first_bytes.strip(b"\t\r\n" + bytes(range(32, 127))):
        return "this is not an ONNX file but plain text"
    return None


def _is_graph_def(document: Document) -> bool:
    """Return whether a document begins with a TensorFlow NodeDef: name, op, and later an entry of the map `attr`.

    In ONNX's GraphProto these bytes would be a node whose first attribute has the float field `f` with wire type LEN.
    """
    if not len(document):
        return False
    number, wire, start, end, _ = read_record(document, 0, len(document))
    if (number, wire) != (1, WIRE_LEN) or end is None:
        return False
    fields = list(islice(_records(document, start, end), _MAX_NODE_DEF_FIELDS))
    # Fields 1 and 2 of a NodeDef are name and op; those of an entry of `attr` are key and value.
    if any(wire != WIRE_LEN for _, wire, _, _ in fields) or [entry[0] for entry in fields[:2]] != [1, 2]:
        return False
    attribute = next((entry for entry in fields if entry[0] == _ATTR_OF_NODE_DEF), None)
    if attribute is None:
        return False
    return [entry[:2] for entry in islice(_records(document, *attribute[2:]), 3)] == [(1, WIRE_LEN), (2, WIRE_LEN)]


def _records(document: Document, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (number, wire type, start and end of the value) for the records of a range, up to a damaged one."""
    while start < end:
        number, wire, value, value_end, _ = read_record(document, start, end)
        if value_end is None:
            return
        yield number, wire, value, value_end
        start = value_end


def describe_type_mismatch(message: Message) -> str | None:
    """Return a sentence if a decoded root message probably has another type or format than expected, else None."""
    document, expected = message._document, message.DESCRIPTOR
    reason = describe_foreign_format(document)
    if reason is not None:
        return reason
    n_hits, n_misfits = _count_fits(document, expected)
    if n_misfits:
        best_type = best_fitting_type(document)
        if best_type is not None and best_type is not expected:
            name = best_type.full_name.partition(".")[2]
            return f"this looks like {name}, not {expected.name}; load it with type=onnxwire.{name}"
    if not n_hits:
        return (
            f"it has no known field of {expected.name}; this is not an ONNX file, or it contains another message type"
        )
    return None


def can_have_type(document: Document, descriptor: Descriptor) -> bool:
    """Return whether the first records of a document fit a message type."""
    n_hits, n_misfits = _count_fits(document, descriptor)
    return n_hits > 0 and n_misfits == 0


def best_fitting_type(document: Document) -> Descriptor | None:
    """Return the message type with the most hits of those that have hits and no misfits (`_count_fits`), or None."""
    best_match: tuple[int, Descriptor] | None = None
    for cls in SCHEMA.messages.values():
        n_hits, n_misfits = _count_fits(document, cls.DESCRIPTOR)
        if n_misfits == 0 and n_hits and (best_match is None or n_hits > best_match[0]):
            best_match = n_hits, cls.DESCRIPTOR
    return best_match[1] if best_match else None


def _count_fits(document: Document, descriptor: Descriptor) -> tuple[int, int]:
    """Count the first records of a document, including nested ones, that fit a message type, and the misfits.

    A string counts twice, because arbitrary bytes often look like a number, but rarely like text. Misfits are unknown
    fields that are not retired, values of a wrong wire type, damaged records, second values of singular fields, strings
    with bytes of _CONTROL_BYTES, and packed runs that end within a number.
    """
    n_hits = n_misfits = 0
    # Spans of messages to examine; large nested messages are skipped.
    spans_to_examine = [(descriptor, 0, len(document), 0)]
    n_records_left = _MAX_RECORDS
    while spans_to_examine:
        table, start, end, depth = spans_to_examine.pop()
        fields, retired_numbers = table.fields_by_number, {field.number for field in table.retired_fields}
        seen_numbers = set()
        while start < end and n_records_left:
            n_records_left -= 1
            number, wire, value, value_end, _ = read_record(document, start, end)
            if value_end is None:
                n_misfits += 1
                break
            start = value_end
            field = fields.get(number)
            if field is None or not field.accepts(wire):
                n_misfits += number not in retired_numbers
                continue
            n_hits += 1
            if not field.is_repeated:
                n_misfits += number in seen_numbers
                seen_numbers.add(number)
            if field.type == field.TYPE_STRING:
                n_hits += 1
                text = bytes_at(document, value, min(value_end, value + _MAX_TEXT_BYTES))
                n_misfits += not _CONTROL_BYTES.isdisjoint(text)
            elif field.message_type is not None:
                if depth < _MAX_DEPTH and value_end - value <= _MAX_NESTED_BYTES:
                    spans_to_examine.append((field.message_type, value, value_end, depth + 1))
            elif wire == WIRE_LEN and not field.is_span and value_end > value:
                # The length of a packed run is a multiple of the element size; a varint ends with a byte below 128.
                size = {WIRE_FIXED64: 8, WIRE_FIXED32: 4}.get(field.wire_type)
                n_misfits += bool(
                    (value_end - value) % size if size else bytes_at(document, value_end - 1, value_end)[0] > 127
                )
    return n_hits, n_misfits
