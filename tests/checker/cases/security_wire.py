"""Cases of records that readers understand differently, as bytes: the text form can't represent them."""

from check_case import Case, model
from wire import varint

import onnxwire

VALID_BYTES = onnxwire.from_text(model()).SerializeToString()


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def _graph(content: bytes) -> bytes:
    """A model whose graph is a name and some records."""
    return field(1, 8) + field(8, field(2, 17)) + field(7, field(2, b"g") + content)


def _initializer(content: bytes) -> bytes:
    return _graph(field(5, content))


_TENSOR = ("graph.initializer[0]",)


def _input(dimension: bytes) -> bytes:
    """A model with an input of type FLOAT and one dimension."""
    shape = field(2, field(1, dimension))
    return _graph(field(11, field(1, b"x") + field(2, field(1, field(1, 1) + shape))))


CASES = {
    # Another graph name.
    "security-wire-field-repeated": Case(_graph(field(2, b"h")), _graph(b""), ("graph",)),
    # A second graph with a node: protobuf merges the two.
    "security-wire-message-merged": Case(VALID_BYTES + field(7, field(1, field(4, b"Relu"))), VALID_BYTES),
    # dim_value, then dim_param.
    "security-wire-oneof-repeated": Case(
        _input(field(1, 2) + field(2, b"n")),
        _input(field(1, 2)),
        ("graph.input[0].type.tensor_type.shape.dim[0]",),
    ),
    # ir_version as a string.
    "security-wire-type": Case(VALID_BYTES + field(1, b"8"), VALID_BYTES),
    # data_type 2**32 + 1, which protobuf reads as FLOAT.
    "security-wire-number-range": Case(
        _initializer(field(2, 2**32 + 1) + field(8, b"w")), _initializer(field(2, 1) + field(8, b"w")), _TENSOR
    ),
    # The tag of producer_name in two bytes.
    "security-wire-tag-length": Case(VALID_BYTES + b"\x92\x00\x01p", VALID_BYTES + b"\x12\x01p"),
    "security-wire-length-length": Case(VALID_BYTES + b"\x12\x81\x00p", VALID_BYTES + b"\x12\x01p"),
    # A packed run of dims.
    "security-wire-number-length": Case(_initializer(b"\x0a\x02\x81\x00"), _initializer(b"\x0a\x02\x81\x01"), _TENSOR),
    # dims in two packed records; one by one they may be.
    "security-wire-packed-parts": Case(
        _initializer(b"\x0a\x01\x02\x0a\x01\x03"), _initializer(b"\x08\x02\x08\x03"), _TENSOR
    ),
    # Field 99 as an empty group.
    "security-wire-group": Case(VALID_BYTES + varint(99 << 3 | 3) + varint(99 << 3 | 4), VALID_BYTES),
    # Field 99: a script, and padding.
    "security-wire-unknown-content": Case(VALID_BYTES + field(99, b"#!/bin/sh"), VALID_BYTES + field(99, bytes(64))),
}
