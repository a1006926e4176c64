"""Build 30,000 Conv nodes with their attributes, by the same code for both sides, and serialize them."""

import hashlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.row import Row

NODES = 30_000
ATTRIBUTES = {
    "auto_pad": b"NOTSET",
    "dilations": [1, 1],
    "group": 1,
    "kernel_shape": [3, 3],
    "pads": [1, 1, 1, 1],
    "strides": [2, 2],
}


def make_attribute(onnx: Any, name: str, value: Any) -> Any:
    """Make an attribute as `onnx.helper` does: empty at first, then field by field."""
    attribute = onnx.AttributeProto()
    attribute.name = name
    if isinstance(value, int):
        attribute.i = value
        attribute.type = onnx.AttributeProto.INT
    elif isinstance(value, bytes):
        attribute.s = value
        attribute.type = onnx.AttributeProto.STRING
    else:
        attribute.ints.extend(value)
        attribute.type = onnx.AttributeProto.INTS
    return attribute


def make_node(onnx: Any, name: str, source: str) -> Any:
    """Make a Conv node: by keywords, then its attributes one by one and all at once."""
    node = onnx.NodeProto(op_type="Conv", name=name)
    node.input.extend([source, f"{name}.weight", f"{name}.bias"])
    node.output.append(f"{name}_output_0")
    node.attribute.extend(make_attribute(onnx, key, value) for key, value in ATTRIBUTES.items())
    return node


def build_apart(onnx: Any) -> Any:
    """Make the model from separate messages, which are copied into it."""
    nodes, source = [], "image"
    for index in range(NODES):
        nodes.append(make_node(onnx, f"/layers.{index}/conv/Conv", source))
        source = nodes[-1].output[0]
    graph = onnx.GraphProto(name="convolutions")
    graph.node.extend(nodes)
    model = onnx.ModelProto(ir_version=10, producer_name="build_nodes")
    model.opset_import.append(onnx.OperatorSetIdProto(domain="", version=21))
    model.graph.CopyFrom(graph)
    return model


def build_in_place(onnx: Any) -> Any:
    """Make the same model from messages that are created inside it."""
    model = onnx.ModelProto(ir_version=10, producer_name="build_nodes")
    model.opset_import.add(domain="", version=21)
    model.graph.name = "convolutions"
    source = "image"
    for index in range(NODES):
        name = f"/layers.{index}/conv/Conv"
        output = f"{name}_output_0"
        node = model.graph.node.add(
            op_type="Conv", name=name, input=[source, f"{name}.weight", f"{name}.bias"], output=[output]
        )
        source = output
        for key, value in ATTRIBUTES.items():
            if isinstance(value, int):
                node.attribute.add(name=key, type=onnx.AttributeProto.INT, i=value)
            elif isinstance(value, bytes):
                node.attribute.add(name=key, type=onnx.AttributeProto.STRING, s=value)
            else:
                node.attribute.add(name=key, type=onnx.AttributeProto.INTS, ints=value)
    return model


def build_and_serialize(build: Callable[[Any], Any], name: str) -> Callable[[], bytes]:
    onnx = import_module(name)
    return lambda: build(onnx).SerializeToString()


def serialize(build: Callable[[Any], Any], name: str) -> Callable[[], bytes]:
    model = build(import_module(name))
    return lambda: model.SerializeToString()


def digest(data: bytes) -> str:
    """Return a digest of the bytes."""
    return hashlib.blake2b(data).hexdigest()


def make_row(
    work: str, side: Callable[[Callable[[Any], Any], str], Callable[[], object]], build: Callable[[Any], Any]
) -> Row:
    """Return the row of a function that builds the model, and of a side that measures its result."""
    return Row(
        work,
        ours=lambda: side(build, "onnxwire"),
        official=lambda: side(build, "onnx"),
        fingerprint=digest,
        goal=1,
    )


ROWS = [
    make_row("build 30,000 Conv nodes with `extend`, serialize", build_and_serialize, build_apart),
    make_row("the same, serialization only", serialize, build_apart),
    make_row("build 30,000 Conv nodes with `add`, serialize", build_and_serialize, build_in_place),
    make_row("the same, serialization only", serialize, build_in_place),
]
