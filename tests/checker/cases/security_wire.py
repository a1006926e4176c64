"""Cases of the rules `security-wire-*`, as bytes, because the text format can't represent the broken models."""

from check_case import Case, model
from wire import varint

import onnxwire

VALID_BYTES = onnxwire.from_text(model()).SerializeToString()


def field(number: int, value: int | bytes) -> bytes:
    """Return a record of a field with this number: a varint for an int, LEN for bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def _model_with_graph(content: bytes) -> bytes:
    """Return a model whose graph has a name and these records."""
    return field(1, 8) + field(8, field(2, 17)) + field(7, field(2, b"g") + content)


def _model_with_initializer(content: bytes) -> bytes:
    """Return a model with an initializer of these records."""
    return _model_with_graph(field(5, content))


_TENSOR_PATHS = ("graph.initializer[0]",)


def _model_with_input(dimension: bytes) -> bytes:
    """Return a model with an input of type FLOAT with this dimension."""
    shape = field(2, field(1, dimension))
    return _model_with_graph(field(11, field(1, b"x") + field(2, field(1, field(1, 1) + shape))))


# The field numbers in the functions above and in the cases:
# ModelProto: ir_version 1, producer_name 2, graph 7, opset_import 8. OperatorSetIdProto: version 2.
# GraphProto: node 1, name 2, initializer 5, input 11. NodeProto: op_type 4. ValueInfoProto: name 1, type 2.
# TensorProto: dims 1, data_type 2, name 8. TypeProto: tensor_type 1. TypeProto.Tensor: elem_type 1, shape 2.
# TensorShapeProto: dim 1. TensorShapeProto.Dimension: dim_value 1, dim_param 2.
CASES = {
    # The graph has two names.
    "security-wire-field-repeated": Case(_model_with_graph(field(2, b"h")), _model_with_graph(b""), ("graph",)),
    # A second graph with a node: protobuf merges the graphs.
    "security-wire-message-merged": Case(VALID_BYTES + field(7, field(1, field(4, b"Relu"))), VALID_BYTES),
    # The dimension has a dim_value, then a dim_param.
    "security-wire-oneof-repeated": Case(
        _model_with_input(field(1, 2) + field(2, b"n")),
        _model_with_input(field(1, 2)),
        ("graph.input[0].type.tensor_type.shape.dim[0]",),
    ),
    # The second ir_version is a string.
    "security-wire-type": Case(VALID_BYTES + field(1, b"8"), VALID_BYTES),
    # The data_type is 2**32 + 1, which protobuf reads as FLOAT.
    "security-wire-number-range": Case(
        _model_with_initializer(field(2, 2**32 + 1) + field(8, b"w")),
        _model_with_initializer(field(2, 1) + field(8, b"w")),
        _TENSOR_PATHS,
    ),
    # The tag of producer_name has two bytes in the broken model, and one byte in the valid model.
    "security-wire-tag-length": Case(VALID_BYTES + b"\x92\x00\x01p", VALID_BYTES + b"\x12\x01p"),
    # The length of producer_name has two bytes in the broken model, and one byte in the valid model.
    "security-wire-length-length": Case(VALID_BYTES + b"\x12\x81\x00p", VALID_BYTES + b"\x12\x01p"),
    # A number in a packed run of dims has one byte too many.
    "security-wire-number-length": Case(
        _model_with_initializer(b"\x0a\x02\x81\x00"), _model_with_initializer(b"\x0a\x02\x81\x01"), _TENSOR_PATHS
    ),
    # dims are in two packed records; in the valid model they are not packed.
    "security-wire-packed-parts": Case(
        _model_with_initializer(b"\x0a\x01\x02\x0a\x01\x03"),
        _model_with_initializer(b"\x08\x02\x08\x03"),
        _TENSOR_PATHS,
    ),
    # Field 99 is an empty group.
    "security-wire-group": Case(VALID_BYTES + varint(99 << 3 | 3) + varint(99 << 3 | 4), VALID_BYTES),
    # Field 99 is a script in the broken model, and padding in the valid model.
    "security-wire-unknown-content": Case(VALID_BYTES + field(99, b"#!/bin/sh"), VALID_BYTES + field(99, bytes(64))),
}
