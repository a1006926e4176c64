"""Build nodes by the same code for both sides: Conv nodes that are serialized, and nodes that are then edited."""

import hashlib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.row import Row

N_NODES = 30_000
N_EDITED_NODES = 100_000
ATTRIBUTES = {
    "auto_pad": b"NOTSET",
    "dilations": [1, 1],
    "group": 1,
    "kernel_shape": [3, 3],
    "pads": [1, 1, 1, 1],
    "strides": [2, 2],
}


def make_attribute(onnx: Any, name: str, value: Any) -> Any:
    """Make an attribute as `onnx.helper` does: an empty message whose fields are then set.

    onnx: in this module, the package whose classes are used: `onnx` or `onnxwire`.
    """
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


def make_node(onnx: Any, name: str, input_name: str) -> Any:
    """Make a Conv node: name and op_type by keywords, then inputs, output and attributes by `extend` and `append`."""
    node = onnx.NodeProto(op_type="Conv", name=name)
    node.input.extend([input_name, f"{name}.weight", f"{name}.bias"])
    node.output.append(f"{name}_output_0")
    node.attribute.extend(make_attribute(onnx, key, value) for key, value in ATTRIBUTES.items())
    return node


def build_by_copying(onnx: Any) -> Any:
    """Make a model with N_NODES nodes from separate messages that are copied into the model."""
    nodes, input_name = [], "image"
    for index in range(N_NODES):
        nodes.append(make_node(onnx, f"/layers.{index}/conv/Conv", input_name))
        input_name = nodes[-1].output[0]
    graph = onnx.GraphProto(name="convolutions")
    graph.node.extend(nodes)
    model = onnx.ModelProto(ir_version=10, producer_name="build_nodes")
    model.opset_import.append(onnx.OperatorSetIdProto(domain="", version=21))
    model.graph.CopyFrom(graph)
    return model


def build_in_place(onnx: Any) -> Any:
    """Make the model of `build_by_copying` from messages that are created inside the model."""
    model = onnx.ModelProto(ir_version=10, producer_name="build_nodes")
    model.opset_import.add(domain="", version=21)
    model.graph.name = "convolutions"
    input_name = "image"
    for index in range(N_NODES):
        name = f"/layers.{index}/conv/Conv"
        output = f"{name}_output_0"
        node = model.graph.node.add(
            op_type="Conv", name=name, input=[input_name, f"{name}.weight", f"{name}.bias"], output=[output]
        )
        input_name = output
        for key, value in ATTRIBUTES.items():
            if isinstance(value, int):
                node.attribute.add(name=key, type=onnx.AttributeProto.INT, i=value)
            elif isinstance(value, bytes):
                node.attribute.add(name=key, type=onnx.AttributeProto.STRING, s=value)
            else:
                node.attribute.add(name=key, type=onnx.AttributeProto.INTS, ints=value)
    return model


def build_with_edits(has_attribute: bool, onnx: Any) -> Any:
    """Make a model of 100,000 nodes, and then edit each node three times.

    has_attribute: whether each node has an attribute.
    """
    model = onnx.ModelProto()
    for index in range(N_EDITED_NODES):
        node = model.graph.node.add()
        node.op_type = "Relu"
        node.name = f"node_{index}"
        node.input.append(f"value_{index}")
        node.output.append(f"value_{index + 1}")
        if has_attribute:
            node.attribute.add(name="axis", type=onnx.AttributeProto.INT, i=index)
    for index, node in enumerate(model.graph.node):
        node.name = f"renamed_{index}"
    for node in model.graph.node:
        node.doc_string = "edited"
    for node in model.graph.node:
        node.input.append("added")
    return model


def build_only(build: Callable[[Any], Any], package_name: str) -> Callable[[], Any]:
    """Return an operation that builds the model with the classes of a package."""
    onnx = import_module(package_name)
    return lambda: build(onnx)


def build_and_serialize(build: Callable[[Any], Any], package_name: str) -> Callable[[], bytes]:
    """Return an operation that builds and serializes the model with the classes of a package."""
    onnx = import_module(package_name)
    return lambda: build(onnx).SerializeToString()


def serialize(build: Callable[[Any], Any], package_name: str) -> Callable[[], bytes]:
    """Build the model with the classes of a package. Return an operation that serializes it."""
    model = build(import_module(package_name))
    return lambda: model.SerializeToString()


def digest(data: bytes) -> str:
    """Return a digest of the bytes."""
    return hashlib.blake2b(data).hexdigest()


def digest_of_model(model: Any) -> str:
    """Return a digest of the encoding of a model."""
    return digest(model.SerializeToString())


def make_row(
    work: str,
    make_operation: Callable[[Callable[[Any], Any], str], Callable[[], object]],
    build: Callable[[Any], Any],
    fingerprint: Callable[[Any], str] = digest,
) -> Row:
    """Return a row for a function that builds the model.

    make_operation: returns the operation to measure, from `build` and the name of a package.
    """
    return Row(
        work,
        ours=lambda: make_operation(build, "onnxwire"),
        official=lambda: make_operation(build, "onnx"),
        fingerprint=fingerprint,
        goal=1,
    )


ROWS = [
    make_row("build 30,000 Conv nodes with `extend`, serialize", build_and_serialize, build_by_copying),
    make_row("the same, serialization only", serialize, build_by_copying),
    make_row("build 30,000 Conv nodes with `add`, serialize", build_and_serialize, build_in_place),
    make_row("the same, serialization only", serialize, build_in_place),
    make_row(
        "build 100,000 nodes with an attribute, edit each three times",
        build_only,
        partial(build_with_edits, True),
        digest_of_model,
    ),
    make_row("the same, without an attribute", build_only, partial(build_with_edits, False), digest_of_model),
]
