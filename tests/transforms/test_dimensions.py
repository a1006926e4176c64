"""Dimensions are changed wherever they have the same meaning, and parts that can't be changed are reported."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import onnxwire
from onnxwire.errors import PathError
from onnxwire.transforms.dimensions import change_dimensions

FLOAT = onnx.TensorProto.FLOAT


def value(name, shape):
    """Make a ValueInfoProto of floats."""
    return helper.make_tensor_value_info(name, FLOAT, shape)


def model_of(nodes, inputs, outputs, initializers=(), value_info=()):
    """Make a model whose graph has these parts."""
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers, value_info=value_info)
    official_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return onnxwire.ModelProto.FromString(official_model.SerializeToString())


def dims_of(model):
    """Return the dimensions of all values of the main graph, by name."""
    graph = model.graph
    return {
        value.name: [
            dim.dim_param or (dim.dim_value if dim.HasField("dim_value") else None)
            for dim in value.type.tensor_type.shape.dim
        ]
        for value in (*graph.input, *graph.value_info, *graph.output)
    }


@pytest.fixture
def model():
    """Return a model with a variable `batch`, and an output with the dimension `2*batch`."""
    return model_of(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Concat", ["h", "h"], ["y"], axis=0)],
        [value("x", ["batch", 3]), value("mask", ["batch"])],
        [value("y", ["2*batch", 3])],
        value_info=[value("h", ["batch", 3])],
    )


def test_a_size_of_a_variable_reaches_every_value(model):
    changed_model, changes = change_dimensions(model, {"batch": 4})
    assert dims_of(changed_model) == {"x": [4, 3], "mask": [4], "h": [4, 3], "y": [8, 3]}
    assert (changes.count, changes.cleared) == (3, ["y"])


def test_a_new_variable_for_a_dimension_of_an_input_replaces_the_old_variable_everywhere(model):
    changed_model, _ = change_dimensions(model, {"input:mask[-1]": "N"})
    assert [dims_of(changed_model)[name] for name in ("x", "mask", "h")] == [["N", 3], ["N"], ["N", 3]]


def test_variables_swap_names():
    changed_model, changes = change_dimensions(
        model_of([], [value("x", ["a", "b"])], []), {"a": "b", "b": "a"}, infer=False
    )
    assert dims_of(changed_model) == {"x": ["b", "a"]}
    assert changes.count == 2


def test_a_fixed_batch_becomes_dynamic_and_shapes_follow():
    model = model_of(
        [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])],
        [value("x", [1, 3]), value("w", [3, 2])],
        [value("y", [1, 2])],
        [numpy_helper.from_array(np.zeros((3, 2), np.float32), "w")],
        [value("h", [1, 3])],
    )
    changed_model, changes = change_dimensions(model, {}, dynamic="batch")
    assert dims_of(changed_model) == {"x": ["batch", 3], "w": [3, 2], "h": ["batch", 3], "y": ["batch", 2]}
    assert (changes.constants, changes.unknown) == ([], [])


@pytest.mark.parametrize("is_node", [False, True])
def test_constant_shapes_with_the_old_size_are_reported_not_changed(is_node):
    shape = numpy_helper.from_array(np.array([1, 3]), "shape")
    nodes = [helper.make_node("Constant", [], ["shape"], value=shape)] if is_node else []
    nodes.append(helper.make_node("Reshape", ["x", "shape"], ["y"], name="flat"))
    model = model_of(nodes, [value("x", [1, 3])], [value("y", [1, 3])], [] if is_node else [shape])
    changed_model, changes = change_dimensions(model, {"x[0]": 4})
    assert changes.constants == ["Reshape flat: shape = [1, 3]"]
    graph = changed_model.graph
    constant = graph.node[0].attribute[0].t if is_node else graph.initializer[0]
    assert constant.numpy().tolist() == [1, 3]
    assert dims_of(changed_model)["x"] == [4, 3]


def test_a_shape_with_the_old_size_of_any_changed_input_is_reported():
    nodes = [
        helper.make_node("Reshape", [name, f"shape_{name}"], [f"y_{name}"], name=f"flat_{name}") for name in ("a", "b")
    ]
    shapes = [numpy_helper.from_array(np.array([size, 3]), f"shape_{name}") for name, size in (("a", 5), ("b", 7))]
    model = model_of(nodes, [value("a", [5, 3]), value("b", [7, 3])], [value("y_a", [5, 3])], shapes)
    _, changes = change_dimensions(model, {"a[0]": 4, "b[0]": 4})
    assert changes.constants == ["Reshape flat_a: shape_a = [5, 3]", "Reshape flat_b: shape_b = [7, 3]"]


def test_an_input_with_a_sparse_initializer_is_not_made_dynamic():
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [1, 3]), value("w", [2, 3])], [])
    sparse = model.graph.sparse_initializer.add(dims=[2, 3])
    sparse.values.CopyFrom(onnxwire.from_array(np.ones(1, np.float32), "w"))
    sparse.indices.CopyFrom(onnxwire.from_array(np.zeros(1, np.int64)))
    changed_model, _ = change_dimensions(model, {}, dynamic="n", infer=False)
    assert dims_of(changed_model) == {"x": ["n", 3], "w": [2, 3]}


def test_values_that_no_rule_infers_are_reported():
    model = model_of([helper.make_node("Own", ["x"], ["y"], domain="d")], [value("x", [1])], [value("y", [1])])
    changed_model, changes = change_dimensions(model, {}, dynamic="n")
    assert (dims_of(changed_model)["y"], changes.unknown) == ([], ["y"])
    assert (
        onnx.ModelProto.FromString(changed_model.SerializeToString()).graph.output[0].type.tensor_type.elem_type
        == FLOAT
    )


def loop_model(body_dims):
    """Make a model with a Loop that carries a value of shape [n, 3]; in the body, its shape is `body_dims`.

    The body has the inputs i (iteration number), c (condition) and s (the value). Its outputs are co and so.
    """
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["co"]), helper.make_node("Relu", ["s"], ["so"])],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
            value("s", body_dims),
        ],
        [helper.make_tensor_value_info("co", onnx.TensorProto.BOOL, []), value("so", body_dims)],
    )
    return model_of([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], [value("x", ["n", 3])], [])


def test_a_variable_of_a_loop_body_is_the_same_as_that_of_the_model():
    changed_model, changes = change_dimensions(loop_model(["n", 3]), {"n": 4}, infer=False)
    body = changed_model.graph.node[0].attribute[0].g
    assert [value.type.tensor_type.shape.dim[0].dim_value for value in (body.input[2], body.output[1])] == [4, 4]
    assert (changes.count, changes.scopes) == (3, [])


def test_a_variable_that_means_another_dimension_in_a_loop_body_is_unchanged():
    changed_model, changes = change_dimensions(loop_model(["m", "n"]), {"n": 4}, infer=False)
    body = changed_model.graph.node[0].attribute[0].g
    assert [dim.dim_param for dim in body.input[2].type.tensor_type.shape.dim] == ["m", "n"]
    assert (changes.count, changes.scopes) == (1, ["node[0].attribute[0].g"])


def test_variables_of_functions_are_independent_of_those_of_the_model(model):
    function = model.functions.add(name="f", domain="d")
    function.value_info.add(name="h").type.tensor_type.shape.dim.add(dim_param="batch")
    changed_model, _ = change_dimensions(model, {"batch": 4}, infer=False)
    assert changed_model.functions[0].value_info[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@pytest.mark.parametrize(
    ("sizes", "renames", "dynamic", "reason"),
    [
        ({"batc": 4}, {}, None, "no dimension variable of this name; did you mean 'batch'?"),
        ({"": 4}, {}, None, "no dimension variable of this name"),
        ({"x[2]": 4}, {}, None, "the input has 2 dimensions"),
        # An index has at most 9 digits.
        ({"x[99999999999]": 4}, {}, None, "no dimension variable of this name"),
        ({"z[0]": 4}, {}, None, "the graph has no input of this name"),
        ({"batch": -1}, {}, None, "a dimension is a number from 0 to"),
        ({"batch": "9223372036854775808"}, {}, None, "a dimension is a number from 0 to"),
        ({"batch": "9" * 9999}, {}, None, "a dimension is a number from 0 to"),
        ({"batch": "a b"}, {}, None, "the name of a dimension variable is made of"),
        ({"batch": ""}, {}, None, "the name of a dimension variable is made of"),
        ({}, {}, "2*n", "the name of a dimension variable is made of"),
        ({"batch": 4, "x[0]": 5}, {}, None, "it can't become both 4 and 5"),
        ({}, {"batch": "2*batch"}, None, "the name of a dimension variable is made of"),
    ],
)
def test_a_dimension_that_cannot_be_changed_is_an_error(model, sizes, renames, dynamic, reason):
    bytes_before = model.SerializeToString()
    with pytest.raises(onnxwire.Error) as excinfo:
        change_dimensions(model, sizes, renames=renames, dynamic=dynamic)
    assert reason in str(excinfo.value)
    assert len(str(excinfo.value)) < 500
    assert model.SerializeToString() == bytes_before


def test_a_rename_to_a_known_variable_is_rejected():
    with pytest.raises(onnxwire.EditError, match="there is a dimension variable 'b' already"):
        change_dimensions(model_of([], [value("x", ["a", "b"])], []), {}, renames={"a": "b"})


@pytest.mark.parametrize("size", [-1, -(1 << 63), (1 << 63) - 1, 0])
def test_any_size_even_a_negative_one_becomes_a_variable(size):
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], [value("x", [1])], [value("y", [1])])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = size
    changed_model, _ = change_dimensions(model, {}, dynamic="n")
    assert dims_of(changed_model) == {"x": ["n"], "y": ["n"]}


def test_a_model_without_inputs_and_an_input_without_a_shape_are_errors():
    model = model_of([], [], [])
    with pytest.raises(onnxwire.EditError, match="no inputs"):
        change_dimensions(model, {}, dynamic="n")
    model.graph.input.add()
    with pytest.raises(PathError, match="the input has no shape"):
        change_dimensions(model, {}, dynamic="n")


def test_a_shape_in_nested_optional_types_is_changed():
    model = model_of([], [], [])
    model.graph.input.add()
    value_type = model.graph.input[0].type
    for _ in range(20):
        value_type = value_type.optional_type.elem_type
    value_type.tensor_type.shape.dim.add(dim_value=1)
    # The name of the input is empty.
    changed_model, _ = change_dimensions(model, {"[0]": 7}, infer=False)
    assert "dim_value: 7" in str(changed_model)
