"""`extract` makes a valid part of a valid model, with the quantization annotations of its values."""

from __future__ import annotations

import numpy as np
from graphs import value
from onnx import helper, numpy_helper

import onnxwire


def quantized_model(*names):
    """Make a model x -> Split -> y, z; y -> Relu -> u. The values `names` are quantized, each with its own scale."""
    nodes = [helper.make_node("Split", ["x"], ["y", "z"], num_outputs=2), helper.make_node("Relu", ["y"], ["u"])]
    scales = [numpy_helper.from_array(np.float32(1), f"{name}_scale") for name in names]
    infos = [value("y", 2), value("z", 2)]
    graph = helper.make_graph(nodes, "g", [value("x", 4)], [value("u", 2)], scales, value_info=infos)
    for name in names:
        annotation = graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=f"{name}_scale")
    official_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnxwire.ModelProto.FromString(official_model.SerializeToString())


def annotations_of(model):
    """Check a model. Return (quantized value, tensor with the parameter) for each parameter in its annotations."""
    assert [problem for problem in onnxwire.check(model) if problem.severity != "note"] == []
    return [
        (annotation.tensor_name, entry.value)
        for annotation in model.graph.quantization_annotation
        for entry in annotation.quant_parameter_tensor_names
    ]


def test_quantization_annotations_of_unused_values_are_dropped():
    part = onnxwire.extract(quantized_model("y", "z"), None, ["y"])
    assert list(part.graph.node[0].output) == ["y", "z"]
    assert annotations_of(part) == [("y", "y_scale")]
    assert [tensor.name for tensor in part.graph.initializer] == ["y_scale"]


def test_quantization_annotations_of_used_inputs_are_kept():
    part = onnxwire.extract(quantized_model("x", "y", "z"), ["y", "z"], ["u"])
    assert [graph_input.name for graph_input in part.graph.input] == ["y", "z"]
    assert annotations_of(part) == [("y", "y_scale")]
