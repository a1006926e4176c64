"""Parse a model of 20 MB without weights and encode it again, with fields in the order of their numbers."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import structure
from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

REVERSED_FILE = FOLDER / "structure_reversed.onnx"
WIRE_VARINT, WIRE_FIXED64, WIRE_LEN, WIRE_FIXED32 = 0, 1, 2, 5


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it."""
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return value, offset
        shift += 7


def encode_varint(value: int) -> bytes:
    """Encode a non-negative integer."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def iterate_records(data: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the encoded tag, the field number and the value (without its length) of every record of a message."""
    offset = 0
    while offset < len(data):
        start = offset
        tag, offset = read_varint(data, offset)
        encoded_tag = data[start:offset]
        wire_type = tag & 7
        if wire_type == WIRE_LEN:
            length, offset = read_varint(data, offset)
            end = offset + length
        elif wire_type == WIRE_VARINT:
            end = read_varint(data, offset)[1]
        else:
            end = offset + {WIRE_FIXED64: 8, WIRE_FIXED32: 4}[wire_type]
        yield encoded_tag, tag >> 3, data[offset:end]
        offset = end


def reverse_fields(data: bytes, descriptor: Any) -> bytes:
    """Return the encoded message with the fields in descending order of their numbers at every level.

    descriptor: the Descriptor of the message's type in protobuf.
    """
    fields_by_number = descriptor.fields_by_number
    fields: dict[int, list[bytes]] = {}
    for tag, number, value in iterate_records(data):
        if fields_by_number[number].message_type is not None:
            value = reverse_fields(value, fields_by_number[number].message_type)
        length = encode_varint(len(value)) if tag[0] & 7 == WIRE_LEN else b""
        fields.setdefault(number, []).append(tag + length + value)  # elements of a repeated field stay in order
    return b"".join(record for number in sorted(fields, reverse=True) for record in fields[number])


def prepare() -> None:
    """Make both input files."""
    structure.prepare()

    def write(path: Path) -> None:
        from onnx import ModelProto

        data = structure.PATH.read_bytes()
        reversed_data = reverse_fields(data, ModelProto.DESCRIPTOR)
        assert len(reversed_data) == len(data)
        assert ModelProto.FromString(reversed_data).SerializeToString(deterministic=True) == data
        path.write_bytes(reversed_data)

    make_once(REVERSED_FILE, write)


def reencode(message_class: Any, path: Path) -> Callable[[], bytes]:
    """Read a file. Return an operation that parses its bytes and encodes the message again."""
    data = path.read_bytes()
    return lambda: message_class.FromString(data).SerializeToString(deterministic=True)


def ours(path: Path) -> Callable[[], bytes]:
    """Return an operation that encodes a file again with onnxwire."""
    from onnxwire import ModelProto

    return reencode(ModelProto, path)


def official(path: Path) -> Callable[[], bytes]:
    """Return an operation that encodes a file again with onnx."""
    from onnx import ModelProto

    return reencode(ModelProto, path)


def make_row(work: str, path: Path) -> Row:
    """Return a row for an input file."""
    return Row(
        work,
        prepare=prepare,
        ours=lambda: ours(path),
        official=lambda: official(path),
        fingerprint=lambda data: hashlib.blake2b(data).hexdigest(),
        goal=1,
    )


ROWS = [
    make_row("re-encode a model of 20 MB without weights deterministically", structure.PATH),
    make_row("the same, from input with the fields in reverse order", REVERSED_FILE),
]
