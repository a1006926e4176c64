"""Models of any size for servers: their structure is bytes, their weights are numbers of bytes of a pattern."""

from __future__ import annotations

from object_server import Pieces
from wire import varint

import onnxwire as ow


def head(number: int, size: int) -> bytes:
    """Return the tag and length of a record."""
    return varint(number << 3 | 2) + varint(size)


def tensor_head(name: str, size: int) -> bytes:
    """Return the bytes of a TensorProto of bytes up to its raw_data."""
    dims = varint(size)
    return head(1, len(dims)) + dims + b"\x10\x02" + head(8, len(name)) + name.encode() + head(9, size)


def model(sizes: list[int], *, names: list[str] | None = None, nodes: int = 30) -> Pieces:
    """Return a model of uint8 initializers of some sizes in bytes."""
    graph: list[bytes | int] = []
    for i in range(nodes):
        node = ow.NodeProto(op_type="Relu", name=f"node_{i}", input=[f"x{i}"], output=[f"x{i + 1}"])
        data = node.SerializeToString()
        graph.append(head(1, len(data)) + data)
    graph.append(head(2, 5) + b"graph")
    for i, size in enumerate(sizes):
        start = tensor_head(names[i] if names else f"layers.{i // 9}.weight{i % 9}", size)
        graph += [head(5, len(start) + size) + start, size]
    length = sum(piece if isinstance(piece, int) else len(piece) for piece in graph)
    opset = ow.OperatorSetIdProto(version=17).SerializeToString()
    return Pieces(b"\x08\x09" + head(7, length), *graph, head(8, len(opset)) + opset)
