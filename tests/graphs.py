"""Models that several tests use: with subgraphs and functions, with a tensor of any size, with equal layers."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from wire import LEN, len_record, tag, varint, varint_record

FLOAT = TensorProto.FLOAT


def value(name, *shape):
    """Return the ValueInfoProto of a float tensor."""
    return helper.make_tensor_value_info(name, FLOAT, shape)


def nested_model():
    """Return a model with a function call and an If, whose branches use a value and an initializer of the main graph.

    h = Relu(x); y = If(flag, h + w, h * w); z = Twice(y) is the output; u = Neg(h) is not used. The function Other is
    not called. A quantization annotation of h refers to the initializer s.
    """
    branch = {
        op: helper.make_graph([helper.make_node(op, ["h", "w"], [f"{op}_out"], name=f"branch_{op}")], op, [],
                              [value(f"{op}_out", 2)])
        for op in ("Add", "Mul")
    }  # fmt: skip
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="first"),
        helper.make_node("If", ["flag"], ["y"], name="choice", then_branch=branch["Add"], else_branch=branch["Mul"]),
        helper.make_node("Twice", ["y"], ["z"], name="call", domain="local"),
        helper.make_node("Neg", ["h"], ["u"], name="unused"),
    ]
    graph = helper.make_graph(
        nodes,
        "nested",
        [value("x", 2), helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [value("z", 2)],
        [numpy_helper.from_array(np.array([2, 3], np.float32), "w"), numpy_helper.from_array(np.float32(1), "s")],
        value_info=[value("h", 2), value("y", 2), value("u", 2)],
    )
    annotation = graph.quantization_annotation.add(tensor_name="h")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    add = helper.make_node("Add", ["a", "a"], ["b"], name="inner")
    twice = helper.make_function("local", "Twice", ["a"], ["b"], [add], opsets)
    other = helper.make_function("local", "Other", ["a"], ["b"], [add], opsets)
    return helper.make_model(graph, functions=[twice, other], opset_imports=opsets, ir_version=10)


def write_sparse_model(path, size):
    """Write a model with a tensor `w` of `size` bytes, which are a hole in the file, and a node `n` from x to y."""
    node = helper.make_node("Relu", ["x"], ["y"], name="n")
    graph = helper.make_graph([node], "sparse", [value("x", 1)], [value("y", 1)])
    # The tensor's dims, data_type and name, and the tag and length of its raw_data.
    tensor = b"".join(
        [varint_record(1, size), varint_record(2, TensorProto.UINT8), len_record(8, b"w"), tag(9, LEN), varint(size)]
    )
    # The graph with the initializer (field 5), and the model's ir_version (field 1) and graph (field 7).
    body = b"".join([graph.SerializeToString(), tag(5, LEN), varint(len(tensor) + size), tensor])
    with open(path, "wb") as file:
        file.write(b"".join([varint_record(1, 10), tag(7, LEN), varint(len(body) + size), body]))
        file.truncate(file.tell() + size)


def layered_model(layers, width):
    """Return a model of a Gather, `layers` equal layers of `width` nodes, and a MatMul, with scoped names.

    The outputs of all nodes in the layers are typed.
    """
    operators = ["MatMul", "Add", "Relu", "Mul", "Sigmoid", "Sub", "Tanh"]
    nodes = [helper.make_node("Gather", ["table", "x"], ["h0_0"], name="/embed/Gather")]
    infos, tensors = [], [helper.make_tensor("table", TensorProto.FLOAT, [4, 4], [0.0] * 16)]
    for layer in range(layers):
        for k in range(width):
            out = f"h{layer}_{k + 1}" if k < width - 1 else f"h{layer + 1}_0"
            op_type = operators[k % len(operators)]
            inputs = [f"h{layer}_{k}"]
            if k % 2 == 0:
                inputs.append(f"w{layer}_{k}")
                tensors.append(helper.make_tensor(inputs[1], TensorProto.FLOAT, [4, 4], bytes(64), raw=True))
            nodes.append(helper.make_node(op_type, inputs, [out], name=f"/layers.{layer}/part.{k // 50}/{op_type}_{k}"))
            infos.append(value(out, "batch", 4))
    nodes.append(helper.make_node("MatMul", [f"h{layers}_0", "table"], ["y"], name="/head/MatMul"))
    inputs, outputs = [helper.make_tensor_value_info("x", TensorProto.INT64, ["batch"])], [value("y", "batch", 4)]
    return helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, initializer=tensors, value_info=infos))
