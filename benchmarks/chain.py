"""The inputs of rows about structure without weights: chains of nodes, and a model of one node."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.data import FOLDER, make_once

LARGE_COUNT, MEDIUM_COUNT = 1_000_000, 100_000
LARGE, MEDIUM, RENAMED = (FOLDER / f"chain_{name}.onnx" for name in ("large", "medium", "renamed"))
SMALL = FOLDER / "one_node.onnx"
TENSORS = FOLDER / "small_tensors.onnx"


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _span(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _write(path: Path, nodes: int, tensors: int, prefix: str) -> None:
    """Write a chain of Relu and Add nodes; the Add nodes read one of the tensors."""

    def records() -> Iterator[bytes]:
        for index in range(nodes):
            ends = _span(1, b"%sv%d" % (prefix.encode(), index)), _span(2, b"%sv%d" % (prefix.encode(), index + 1))
            weight = _span(1, b"w%d" % (index % tensors)) if tensors and index % 2 else b""
            name = _span(3, b"%sn%d" % (prefix.encode(), index))
            yield _span(1, ends[0] + weight + ends[1] + name + _span(4, b"Add" if weight else b"Relu"))
        yield _span(2, b"chain")
        for index in range(tensors):
            yield _span(5, _number(1, 1) + _number(2, 1) + _span(8, b"w%d" % index) + _span(9, bytes(4)))
        shaped = _span(2, _span(1, _number(1, 1) + _span(2, _span(1, _number(1, 4)))))
        yield _span(11, _span(1, b"%sv0" % prefix.encode()) + shaped)
        yield _span(12, _span(1, b"%sv%d" % (prefix.encode(), nodes)) + shaped)

    graph = b"".join(records())
    path.write_bytes(_number(1, 8) + _span(7, graph) + _span(8, _span(1, b"") + _number(2, 17)))


def prepare() -> None:
    """Make the files."""
    make_once(LARGE, partial(_write, nodes=LARGE_COUNT, tensors=1, prefix=""))
    make_once(MEDIUM, partial(_write, nodes=MEDIUM_COUNT, tensors=1, prefix=""))
    make_once(RENAMED, partial(_write, nodes=MEDIUM_COUNT, tensors=1, prefix="other_"))
    make_once(SMALL, partial(_write, nodes=1, tensors=0, prefix=""))
    make_once(TENSORS, partial(_write, nodes=1, tensors=MEDIUM_COUNT, prefix=""))
