"""Input files without large weights: chains of nodes, a model of one node, and a model of many small tensors."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.data import FOLDER, make_once

N_LARGE, N_MEDIUM = 1_000_000, 100_000  # numbers of nodes of the chains; TENSORS has N_MEDIUM tensors
# RENAMED is MEDIUM with other names of nodes and values; its tensor has the same name.
LARGE, MEDIUM, RENAMED = (FOLDER / f"chain_{name}.onnx" for name in ("large", "medium", "renamed"))
SMALL = FOLDER / "one_node.onnx"
TENSORS = FOLDER / "small_tensors.onnx"


def _encode_number(field: int, value: int) -> bytes:
    """Encode a field with a varint."""
    return _encode_varint(field << 3) + _encode_varint(value)


def _encode_bytes(field: int, data: bytes) -> bytes:
    """Encode a field with a length, such as a string or a message."""
    return _encode_varint(field << 3 | 2) + _encode_varint(len(data)) + data


def _encode_varint(value: int) -> bytes:
    """Encode a number as protobuf does."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _write(path: Path, n_nodes: int, n_tensors: int, prefix: str) -> None:
    """Write a chain of nodes: alternately Relu and, if there are tensors, Add with one of the tensors.

    prefix: the start of the names of nodes and values, but not of tensors.
    """

    def records() -> Iterator[bytes]:
        """Yield the records of the graph. Field numbers are those of onnx.proto."""
        for index in range(n_nodes):
            # NodeProto: input 1, output 2, name 3, op_type 4.
            node_input = _encode_bytes(1, b"%sv%d" % (prefix.encode(), index))
            node_output = _encode_bytes(2, b"%sv%d" % (prefix.encode(), index + 1))
            weight = _encode_bytes(1, b"w%d" % (index % n_tensors)) if n_tensors and index % 2 else b""
            name = _encode_bytes(3, b"%sn%d" % (prefix.encode(), index))
            op_type = _encode_bytes(4, b"Add" if weight else b"Relu")
            yield _encode_bytes(1, node_input + weight + node_output + name + op_type)  # GraphProto.node
        yield _encode_bytes(2, b"chain")  # GraphProto.name
        for index in range(n_tensors):
            # GraphProto.initializer 5; TensorProto: dims 1, data_type 2 (FLOAT), name 8, raw_data 9.
            yield _encode_bytes(
                5,
                _encode_number(1, 1)
                + _encode_number(2, 1)
                + _encode_bytes(8, b"w%d" % index)
                + _encode_bytes(9, bytes(4)),
            )
        # ValueInfoProto.type 2; TypeProto.tensor_type 1: elem_type 1 (FLOAT), shape 2 with one dim of size 4.
        type_field = _encode_bytes(
            2, _encode_bytes(1, _encode_number(1, 1) + _encode_bytes(2, _encode_bytes(1, _encode_number(1, 4))))
        )
        # GraphProto.input 11 and output 12.
        yield _encode_bytes(11, _encode_bytes(1, b"%sv0" % prefix.encode()) + type_field)
        yield _encode_bytes(12, _encode_bytes(1, b"%sv%d" % (prefix.encode(), n_nodes)) + type_field)

    graph = b"".join(records())
    # ModelProto: ir_version 1, graph 7, opset_import 8.
    path.write_bytes(
        _encode_number(1, 8) + _encode_bytes(7, graph) + _encode_bytes(8, _encode_bytes(1, b"") + _encode_number(2, 17))
    )


def prepare() -> None:
    """Make the files that do not exist."""
    make_once(LARGE, partial(_write, n_nodes=N_LARGE, n_tensors=1, prefix=""))
    make_once(MEDIUM, partial(_write, n_nodes=N_MEDIUM, n_tensors=1, prefix=""))
    make_once(RENAMED, partial(_write, n_nodes=N_MEDIUM, n_tensors=1, prefix="other_"))
    make_once(SMALL, partial(_write, n_nodes=1, n_tensors=0, prefix=""))
    make_once(TENSORS, partial(_write, n_nodes=1, n_tensors=N_MEDIUM, prefix=""))
