"""Boxes of nodes: names without the prefix of the group, weights with shapes, attributes, values of constants.

Boxes do not overlap.
"""

from __future__ import annotations

import numpy as np
import pytest
from each import each
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire.viewer.node_boxes import shape_text, short_name
from onnxwire.viewer.queries import Queries

LAYER = ["model", "layers.3"]
# The name and operator of a node, the scopes of the group around its box, and the name in the box.
NAMES = {
    ("/model/layers.3/attn/MatMul_1", "MatMul", (*LAYER, "attn")): "MatMul_1",
    ("/model/layers.3/attn/MatMul", "MatMul", (*LAYER, "attn")): "",
    ("/model/layers.3/mlp/gate_proj/MatMul", "MatMul", (*LAYER, "mlp")): "gate_proj",
    ("/model/layers.3/attn/MatMul", "MatMul", ("other",)): "model/layers.3/attn/MatMul",
    ("/model/MatMul", "MatMul", ()): "model/MatMul",
    ("/MatMul", "MatMul", ()): "",
    ("model.layers.3", "Add", tuple(LAYER)): "3",
    ("p2o.Conv.0", "Conv", ("p2o",)): "Conv.0",
    ("node_Conv_0", "Conv", ("features", "0")): "node_Conv_0",
    ("a::b::c", "Add", ("a", "b")): "c",
    ("ends/with/", "Add", ("ends", "with")): "ends/with/",
    ("", "Add", ("a",)): "",
    ("x" * 5000, "Add", ()): "x" * 100 + "…" + "x" * 100,
    ("a/" + "x" * 5000, "Add", ("a",)): "a/" + "x" * 98 + "…" + "x" * 100,
}


@each("arguments, expected", NAMES.items())
def test_a_name_is_shown_without_its_group_and_operator(arguments, expected):
    name, op_type, scopes = arguments
    assert short_name(name, op_type, list(scopes)) == expected


# The text of a value's type in `MapColumns`, and its text in a box.
SHAPES = {
    "float[64, 3, 7, 7]": "64×3×7×7", "float[]": "scalar", "float": "float", "": "", "int64[batch]": "batch",
    "float[1, 2, 3, 4, 5, 6, 7]": "1×2×3×4×5×6×…", f"float[{'n' * 40}]": "n" * 12 + "…",
}  # fmt: skip


@each("text, expected", SHAPES.items())
def test_a_shape_is_written_with_crosses(text, expected):
    assert shape_text(text) == expected


def boxes_of(nodes, initializers=(), **options):
    """Return the boxes of a graph's nodes. options: arguments of `helper.make_model`."""
    model = helper.make_model(helper.make_graph(nodes, "g", [], [], list(initializers)), **options)
    answer = Queries(onnxwire.ModelProto.FromString(model.SerializeToString())).map()
    return [box for box in answer["boxes"] if box["kind"] == "node"]


def tensor(name, *shape):
    """Return a tensor of zeros."""
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def test_weights_have_the_names_of_the_operators_inputs():
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["y"]),
        helper.make_node("Concat", ["w", "y", "b"], ["z"], axis=0),  # one variadic input
        helper.make_node("Own", ["x", "w"], ["u"], domain="local"),
        helper.make_node("Loop", ["", "", "b"], ["v"]),
    ]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    boxes = boxes_of(nodes, [tensor("w", 8, 3, 3, 3), tensor("b", 8)], opset_imports=opsets)
    assert [box["lines"] for box in boxes] == [
        ["W 8×3×3×3", "B 8"], ["inputs 8×3×3×3", "inputs 8", "axis 0"], ["8×3×3×3"], ["v_initial 8"]
    ]  # fmt: skip


def test_a_box_shows_short_attributes_below_the_weights():
    other_attributes = {"body": helper.make_graph([], "g", [], []), "value": tensor("t", 2)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], group=1, strides=[2, 2], auto_pad="SAME_UPPER", **other_attributes),
        helper.make_node("Own", [], [], text="<b>", lines="a\nb", long="n" * 25, far="\u202e", ratio=0.1, n=[1] * 9),
    ]
    boxes = boxes_of(nodes, [tensor("w", 8, 3)])
    assert [box["lines"] for box in boxes] == [
        ["W 8×3", "auto_pad SAME_UPPER", "group 1", "strides [2, 2]"],
        ["n [1, 1, 1, 1, …]", "ratio 0.1", "text <b>"],
    ]


def test_a_box_has_at_most_four_lines_of_weights():
    names = [f"w{i}" for i in range(100)]
    box = boxes_of([helper.make_node("Sum", names, ["y"])], [tensor(name, 2) for name in names])[0]
    assert box["lines"] == ["data_0 2", "data_0 2", "data_0 2", "and 97 more weights"]
    assert box["height"] < 110


# The attributes of a Constant node, and the lines in its box.
CONSTANTS = [
    ({"value": numpy_helper.from_array(np.array([0, -1], np.int64))}, ["[0, -1]"]),
    ({"value": numpy_helper.from_array(np.array(0.1, np.float32))}, ["0.1"]),
    ({"value": numpy_helper.from_array(np.array(True))}, ["True"]),
    ({"value": numpy_helper.from_array(np.zeros((2, 50), np.float16))}, ["float16 2×50"]),
    ({"value": helper.make_tensor("", TensorProto.INT4, [3], [1, -2, 3])}, ["[1, -2, 3]"]),
    ({"value": helper.make_tensor("", TensorProto.STRING, [1], [b"<b>"])}, ["string 1"]),
    ({"value_float": 0.25}, ["0.25"]),
    ({"value_int": -3}, ["-3"]),
    ({"value_ints": [1, 2, 3, 4, 5]}, ["[1, 2, 3, 4, …]"]),
    ({"value_strings": ["a"]}, []),
    ({}, []),
]


@each("attributes, expected", CONSTANTS)
def test_a_constant_shows_a_value_or_type_if_it_has_a_tensor_or_number(attributes, expected):
    assert boxes_of([helper.make_node("Constant", [], ["c"], **attributes)])[0]["lines"] == expected


def test_damaged_and_external_constants_show_no_value():
    truncated_tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[2], raw_data=b"123")
    external_tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    external_tensor.external_data.add(key="location", value="/etc/passwd")
    negative_tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[-2])
    unknown_tensor = TensorProto(data_type=99, dims=[1])
    lines = [
        boxes_of([helper.make_node("Constant", [], ["c"], value=tensor_value)])[0]["lines"]
        for tensor_value in (truncated_tensor, external_tensor, negative_tensor, unknown_tensor)
    ]
    assert lines == [[], ["float 2"], ["float -2"], []]


@pytest.mark.parametrize("to_right", [False, True])
def test_boxes_with_lines_of_weights_do_not_overlap_and_edges_lead_in_one_direction(to_right):
    names = [f"w{i}" for i in range(5)]
    nodes = [helper.make_node("Conv", ["x", "w0", "w1"], [f"y{i}"], name=f"n{i}") for i in range(4)]
    nodes += [helper.make_node("Sum", [*(f"y{i}" for i in range(4)), *names], ["z"])]
    graph = helper.make_graph(nodes, "g", [], [], [tensor(name, 2) for name in names])
    model = onnxwire.ModelProto.FromString(helper.make_model(graph).SerializeToString())
    answer = Queries(model).map(to_right=to_right)
    boxes = answer["boxes"]
    for i, box in enumerate(boxes):
        for previous_box in boxes[:i]:
            assert (
                abs(box["x"] - previous_box["x"]) >= (box["width"] + previous_box["width"]) / 2
                or abs(box["y"] - previous_box["y"]) >= (box["height"] + previous_box["height"]) / 2
            )
    axis = "x" if to_right else "y"
    assert all(boxes[edge["from"]][axis] < boxes[edge["to"]][axis] for edge in answer["edges"])
