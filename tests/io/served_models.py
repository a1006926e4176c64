"""Models of any size for servers. Only the structure of a large model is in memory: for the bytes of each weight, the
server repeats a pattern."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from object_server import ObjectServer, Pieces
from wire import varint

import onnxwire as ow

VALUES = np.arange(40_000, dtype=np.uint8)


def external_model_bytes(location: str = "w.data") -> bytes:
    """Return the encoding of a model whose only weight, VALUES, is external data at a location."""
    message = ow.ModelProto(ir_version=9)
    tensor = message.graph.initializer.add(
        name="w", data_type=ow.TensorProto.UINT8, dims=[len(VALUES)], data_location=ow.TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    return message.SerializeToString()


@contextmanager
def two_servers() -> Iterator[tuple[ObjectServer, ObjectServer]]:
    """Start a server of a model and its external data, and a second one with the same files."""
    files = {"d/m.onnx": external_model_bytes(), "d/w.data": VALUES.tobytes()}
    with ObjectServer(files) as model_server, ObjectServer(files) as second_server:
        yield model_server, second_server


def head(number: int, size: int) -> bytes:
    """Return the tag and length of a record.

    number: the field's number. size: the length of the value in bytes.
    """
    return varint(number << 3 | 2) + varint(size)


def tensor_head(name: str, size: int) -> bytes:
    """Return the encoding of a uint8 TensorProto up to the start of its raw_data, which has `size` bytes."""
    # The fields are dims (1), data_type UINT8 (b"\x10\x02"), name (8) and raw_data (9).
    dims = varint(size)
    return head(1, len(dims)) + dims + b"\x10\x02" + head(8, len(name)) + name.encode() + head(9, size)


def model(sizes: list[int], *, names: list[str] | None = None, nodes: int = 30) -> Pieces:
    """Return a model of uint8 initializers of these sizes in bytes.

    names: the names of the initializers. nodes: the number of nodes.
    """
    # The fields of the graph are node (1), name (2) and initializer (5).
    graph: list[bytes | int] = []
    for i in range(nodes):
        node = ow.NodeProto(op_type="Relu", name=f"node_{i}", input=[f"x{i}"], output=[f"x{i + 1}"])
        data = node.SerializeToString()
        graph.append(head(1, len(data)) + data)
    graph.append(head(2, 5) + b"graph")
    for i, size in enumerate(sizes):
        tensor_start = tensor_head(names[i] if names else f"layers.{i // 9}.weight{i % 9}", size)
        graph += [head(5, len(tensor_start) + size) + tensor_start, size]
    length = sum(piece if isinstance(piece, int) else len(piece) for piece in graph)
    opset = ow.OperatorSetIdProto(version=17).SerializeToString()
    # The fields of the model are ir_version 9 (b"\x08\x09"), graph (7) and opset_import (8).
    return Pieces(b"\x08\x09" + head(7, length), *graph, head(8, len(opset)) + opset)
