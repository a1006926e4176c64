"""Write protobuf records and ONNX messages as bytes, valid or malformed. Standard library only.

Every function returns bytes. The argument `extra` is appended to the message: in protobuf, fields may be in any order
and occur more than once. The field numbers are those of onnx.proto.
"""

from __future__ import annotations

import struct

# Wire types.
VARINT, FIXED64, LEN, START_GROUP, END_GROUP, FIXED32 = range(6)

# Values of TensorProto.DataType, and EXTERNAL of TensorProto.DataLocation.
FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE = range(1, 12)
UINT64 = 13
INT4 = 22
EXTERNAL = 1

# Data type → format of `struct`.
_PACKING = {
    FLOAT: "f", UINT8: "B", INT8: "b", UINT16: "H", INT16: "h", INT32: "i", INT64: "q", BOOL: "?", FLOAT16: "e",
    DOUBLE: "d",
}  # fmt: skip


# Protobuf records


def varint(value, length=0):
    """Encode the low 64 bits of an int as a varint of at least `length` bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80 or len(out) + 1 < length:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number, wire_type, length=0):
    """Return the tag of a field, of at least `length` bytes."""
    return varint(number << 3 | wire_type, length)


def integer(number, value, length=0):
    """Return a record of wire type VARINT, whose value has at least `length` bytes."""
    return tag(number, VARINT) + varint(value, length)


def record(number, data, length=0):
    """Return a record of wire type LEN, whose length has at least `length` bytes."""
    if isinstance(data, str):
        data = data.encode()
    return tag(number, LEN) + varint(len(data), length) + data


def group(number, data=b""):
    """Return a group that contains the records `data`."""
    return tag(number, START_GROUP) + data + tag(number, END_GROUP)


def fixed32(number, value):
    """Return a record of wire type FIXED32."""
    return tag(number, FIXED32) + struct.pack("<I", value)


def fixed64(number, value):
    """Return a record of wire type FIXED64."""
    return tag(number, FIXED64) + struct.pack("<Q", value)


def records(number, values):
    """Return a record of wire type LEN for each value."""
    return b"".join(record(number, value) for value in values)


def integers(number, values):
    """Return a record of wire type VARINT for each value."""
    return b"".join(integer(number, value) for value in values)


# ONNX messages


class Message(bytes):
    """The bytes of a message. `attribute` derives the type of an attribute from the subclass of its value."""


class Tensor(Message):
    """A TensorProto."""


class Graph(Message):
    """A GraphProto."""


class SparseTensor(Message):
    """A SparseTensorProto."""


class Type(Message):
    """A TypeProto."""


class Node(Message):
    """A NodeProto."""

    # The rank of the output in `network`: 0 for Reduce* with keepdims=0, whatever the axes; otherwise None (unknown).
    rank = None


class Value(Message):
    """A ValueInfoProto."""

    rank = None  # the number of dimensions, if known


def entry(key, value):
    """Return a StringStringEntryProto."""
    return record(1, key) + record(2, value)


def tensor(name=None, dims=(), data_type=FLOAT, raw_data=None, extra=b""):
    """Return a TensorProto."""
    out = integers(1, dims) + integer(2, data_type)
    if name is not None:
        out += record(8, name)
    if raw_data is not None:
        out += record(9, raw_data)
    return Tensor(out + extra)


def values(name, numbers, data_type=FLOAT, dims=None, extra=b""):
    """Return a tensor with `numbers` as raw_data."""
    raw_data = struct.pack(f"<{len(numbers)}{_PACKING[data_type]}", *numbers)
    return tensor(name, [len(numbers)] if dims is None else dims, data_type, raw_data, extra)


def ints(name, *numbers):
    """Return an int64 vector."""
    return values(name, numbers, INT64)


def scalar(name, number, data_type=INT64):
    """Return a tensor of rank 0."""
    return values(name, [number], data_type, [])


def strings(name, texts, dims=None):
    """Return a string tensor, by default a vector."""
    return tensor(name, [len(texts)] if dims is None else dims, STRING, extra=records(6, texts))


def external(name, dims=(4,), data_type=FLOAT, **keys):
    """Return a tensor with external data. keys: its entries, such as location, in the order of the arguments."""
    return external_pairs(name, list(keys.items()), dims, data_type)


def external_pairs(name, pairs, dims=(4,), data_type=FLOAT, extra=b""):
    """Return a tensor with external data. pairs: the keys and values of its entries."""
    data = b"".join(record(13, entry(key, value if isinstance(value, bytes) else str(value))) for key, value in pairs)
    return tensor(name, dims, data_type, extra=data + integer(14, EXTERNAL) + extra)


def sparse(name, dims, numbers, positions, extra=b""):
    """Return a SparseTensorProto with linear indices."""
    tensors = record(1, values(name, numbers)) + record(2, values(None, positions, INT64))
    return SparseTensor(tensors + integers(3, dims) + extra)


def attribute(name, value, extra=b""):
    """Return an AttributeProto whose type follows from the Python type of `value`."""
    # Field 20 is the type: 1 FLOAT, 2 INT, 3 STRING, 4 TENSOR, 5 GRAPH, 6 FLOATS, 7 INTS, 8 STRINGS, 11 SPARSE_TENSOR,
    # 13 TYPE_PROTO.
    out = record(1, name)
    if isinstance(value, Tensor):
        out += record(5, value) + integer(20, 4)
    elif isinstance(value, Graph):
        out += record(6, value) + integer(20, 5)
    elif isinstance(value, SparseTensor):
        out += record(22, value) + integer(20, 11)
    elif isinstance(value, Type):
        out += record(14, value) + integer(20, 13)
    elif isinstance(value, float):
        out += tag(2, FIXED32) + struct.pack("<f", value) + integer(20, 1)
    elif isinstance(value, int):
        out += integer(3, value) + integer(20, 2)
    elif isinstance(value, (str, bytes)):
        out += record(4, value) + integer(20, 3)
    elif all(isinstance(element, float) for element in value) and value:
        out += b"".join(tag(7, FIXED32) + struct.pack("<f", element) for element in value) + integer(20, 6)
    elif all(isinstance(element, int) for element in value):
        out += integers(8, value) + integer(20, 7)
    else:
        out += records(9, value) + integer(20, 8)
    return out + extra


def node(op, inputs=(), outputs=(), domain=None, name=None, extra=b"", **attributes):
    """Return a NodeProto."""
    out = records(1, inputs) + records(2, outputs)
    if name is not None:
        out += record(3, name)
    out += record(4, op)
    out += b"".join(record(5, attribute(key, value)) for key, value in attributes.items())
    if domain is not None:
        out += record(7, domain)
    result = Node(out + extra)
    result.rank = 0 if str(op).startswith("Reduce") and attributes.get("keepdims") == 0 else None
    return result


def dimension(size):
    """Return a TensorShapeProto.Dimension. size: an int, a name, or None if it is unknown."""
    return b"" if size is None else record(2, size) if isinstance(size, str) else integer(1, size)


def shape(dims):
    """Return a TensorShapeProto."""
    return b"".join(record(1, dimension(size)) for size in dims)


def tensor_type(data_type=FLOAT, dims=None, extra=b""):
    """Return the TypeProto of a tensor. extra: records of its TypeProto.Tensor."""
    body = integer(1, data_type) + (record(2, shape(dims)) if dims is not None else b"")
    return Type(record(1, body + extra))


def value(name, data_type=FLOAT, dims=None, extra=b""):
    """Return a ValueInfoProto of a tensor."""
    result = Value(record(1, name) + record(2, tensor_type(data_type, dims)) + extra)
    result.rank = None if dims is None else len(dims)
    return result


def typed(name, type_bytes):
    """Return a ValueInfoProto with an encoded TypeProto."""
    return record(1, name) + record(2, type_bytes)


def graph(nodes=(), inputs=(), outputs=(), initializers=(), sparse=(), value_infos=(), name="graph", extra=b""):
    """Return a GraphProto."""
    out = records(1, nodes) + (record(2, name) if name is not None else b"") + records(5, initializers)
    return Graph(
        out + records(11, inputs) + records(12, outputs) + records(13, value_infos) + records(15, sparse) + extra
    )


def opset(domain, version):
    """Return an OperatorSetIdProto."""
    return record(1, domain) + integer(2, version)


def function(name, nodes, inputs=(), outputs=(), domain="local", opsets=(("", 21),), attributes=(), extra=b""):
    """Return a FunctionProto. opsets: pairs of domain and version."""
    imports = b"".join(record(9, opset(*pair)) for pair in opsets)
    body = records(4, inputs) + records(5, outputs) + records(6, attributes) + records(7, nodes)
    return record(1, name) + body + imports + record(10, domain) + extra


def model(graph_bytes, opsets=(("", 21),), functions=(), metadata=(), ir_version=10, extra=b""):
    """Return a ModelProto.

    graph_bytes, ir_version: None for an absent field. opsets: pairs of domain and version. metadata: pairs of key and
    value.
    """
    out = integer(1, ir_version) if ir_version is not None else b""
    out += record(2, "onnx_attacks") + b"".join(record(8, opset(*pair)) for pair in opsets)
    out += b"".join(record(14, entry(*pair)) for pair in metadata) + records(25, functions)
    return out + (record(7, graph_bytes) if graph_bytes is not None else b"") + extra


# Models into which an attack is inserted. x is the input, y the output.

X = value("x", FLOAT, [4])
Y = value("y", FLOAT, [4])


def model_with_extras(initializers=(), nodes=(), graph_extra=b"", sparse=(), value_infos=(), **options):
    """Return a harmless model, y = x + w, with additional initializers, nodes and other messages."""
    weight = values("w", [1.0, 2.0, 3.0, 4.0])
    nodes = [node("Add", ["x", "w"], ["y"]), *nodes]
    body = graph(nodes, [X], [Y], [weight, *initializers], sparse, value_infos, extra=graph_extra)
    return model(body, **options)


def model_with_weight(weight, nodes=(), initializers=(), **options):
    """Return a model y = x + w with the tensor `weight`; in a valid model it is named w and has 4 elements."""
    return model(graph([node("Add", ["x", "w"], ["y"]), *nodes], [X], [Y], [weight, *initializers]), **options)


def network(nodes, initializers=(), inputs=(X,), outputs=None, rank=None, **options):
    """Return a model of `nodes`.

    Without `outputs`, its output is a float tensor y of unknown dimensions. The rank of y is the first known one of
    `rank`, the rank of the last node, and the rank of the first input, or else 1.
    """
    if outputs is None:
        if rank is None:
            rank = nodes[-1].rank if isinstance(nodes[-1], Node) else None
        if rank is None:
            rank = getattr(inputs[0], "rank", None) if inputs else None
        outputs = [value("y", FLOAT, [None] * (1 if rank is None else rank))]
    return model(graph(nodes, inputs, outputs, initializers), **options)
