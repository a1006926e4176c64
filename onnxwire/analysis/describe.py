"""Types and calls of operators, as people write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxwire.tensor.dtypes import name_of

if TYPE_CHECKING:
    from onnxwire.messages import NodeProto, TypeProto


def operator_of(node: NodeProto) -> str:
    """The operator of a node, with its domain, if that is not ONNX's own: Relu, com.microsoft.Gelu."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def describe_call(node: NodeProto) -> str:
    """The call that a node makes, in one line: Add(x, y) -> z."""
    return f"{operator_of(node)}({', '.join(node.input)}) -> {', '.join(node.output)}"


def describe_type(type: TypeProto, depth: int = 8) -> str:
    """A type as ONNX writes it: float[batch, 3], seq(map(int64, float[])), optional(...).

    [...] stands for an unknown rank, and ... for what is nested deeper than `depth`.
    """
    kind = type.WhichOneof("value")
    if depth == 0:
        return "..."
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = type.tensor_type if kind == "tensor_type" else type.sparse_tensor_type
        shape = "[...]"
        if tensor.HasField("shape"):
            dims = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
            shape = f"[{', '.join(dims)}]"
        text = name_of(tensor.elem_type).lower() + shape
        return f"sparse_tensor({text})" if kind == "sparse_tensor_type" else text
    if kind == "sequence_type":
        return f"seq({describe_type(type.sequence_type.elem_type, depth - 1)})"
    if kind == "map_type":
        value = describe_type(type.map_type.value_type, depth - 1)
        return f"map({name_of(type.map_type.key_type).lower()}, {value})"
    if kind == "optional_type":
        return f"optional({describe_type(type.optional_type.elem_type, depth - 1)})"
    if kind == "opaque_type":
        return f"opaque({type.opaque_type.domain}, {type.opaque_type.name})"
    return "?"
