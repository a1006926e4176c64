"""`bypass` removes a node, and the consumers of its output read its input. Also `boundary` and `rename_values`."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, helper

import onnxwire
from onnxwire.errors import EditError, PathError
from onnxwire.transforms.bypass import bypass
from onnxwire.transforms.extract import boundary, extract


def value(name):
    """Make a ValueInfoProto of two floats."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def model_of(nodes, outputs=("y",), functions=(), value_info=(), initializers=()):
    """Make a model of nodes, with the input x. outputs: names."""
    graph = helper.make_graph(
        nodes, "g", [value("x")], [value(name) for name in outputs], value_info=value_info, initializer=initializers
    )
    official_model = helper.make_model(graph, functions=list(functions), opset_imports=[helper.make_opsetid("", 20)])
    return onnxwire.ModelProto.FromString(official_model.SerializeToString())


def wiring(scope):
    """Return a tuple (op_type, inputs, outputs) for each node of a graph or function."""
    return [(node.op_type, list(node.input), list(node.output)) for node in scope.node]


def check_officially(model):
    """Return the model after the official checker has accepted it."""
    onnx.checker.check_model(onnx.ModelProto.FromString(model.SerializeToString()))
    return model


def test_consumers_of_the_output_read_the_input():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["b"]),
        helper.make_node("Add", ["b", "b"], ["y"]),
    ]
    model = model_of(nodes, value_info=[value("a"), value("b")])
    assert bypass(model, "graph.node[1]") == "graph.node[1]"
    assert wiring(check_officially(model).graph) == [("Relu", ["x"], ["a"]), ("Add", ["a", "a"], ["y"])]
    assert [info.name for info in model.graph.value_info] == ["a"]


def test_the_types_of_unused_outputs_are_removed():
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Split", ["x"], ["a", "", "b"], num_outputs=3)]
    model = model_of(nodes, value_info=[value("a"), value("b"), value("")])
    bypass(model, "graph.node[1]")
    assert wiring(model.graph) == [("Relu", ["x"], ["y"])]
    assert [info.name for info in model.graph.value_info] == [""]


def test_consumers_can_be_connected_to_another_input():
    nodes = [helper.make_node("Add", ["x", "w"], ["b"]), helper.make_node("Neg", ["b"], ["y"])]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    model = model_of(nodes, initializers=[weight])
    bypass(model, "graph.node[0]", 1)
    assert wiring(check_officially(model).graph) == [("Neg", ["w"], ["y"])]


def test_an_output_of_the_graph_keeps_its_name():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Neg", ["a"], ["y"]),
        helper.make_node("Abs", ["a"], ["z"]),
    ]
    model = model_of(nodes, ("y", "z"), value_info=[value("a")])
    bypass(model, "graph.node[1]")
    assert wiring(check_officially(model).graph) == [("Relu", ["x"], ["y"]), ("Abs", ["y"], ["z"])]
    assert [output.name for output in model.graph.output] == ["y", "z"]
    assert list(model.graph.value_info) == []


def test_an_output_of_the_graph_has_the_quantization_of_its_new_producer():
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    model = model_of(nodes, value_info=[value("a")])
    for name in "xay":
        annotation = model.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value=f"s_{name}")
    bypass(model, "graph.node[1]")
    assert wiring(model.graph) == [("Relu", ["x"], ["y"])]
    assert [
        (annotation.tensor_name, annotation.quant_parameter_tensor_names[0].value)
        for annotation in model.graph.quantization_annotation
    ] == [("x", "s_x"), ("y", "s_a")]
    assert list(model.graph.value_info) == []


def branches(name):
    """Return the attributes of an If node whose branches read a value of the main graph."""
    graphs = [
        helper.make_graph([helper.make_node("Neg", [name], [f"{side}_out"])], side, [], [value(f"{side}_out")])
        for side in ("then", "else")
    ]
    return {"then_branch": graphs[0], "else_branch": graphs[1]}


def test_subgraphs_read_the_input_too():
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.BOOL),
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("If", ["c"], ["y"], **branches("a")),
    ]
    model = model_of(nodes)
    bypass(model, "graph.node[1]")
    assert [attribute.g.node[0].input[0] for attribute in model.graph.node[1].attribute] == ["x", "x"]


def test_a_node_of_a_branch_can_be_bypassed():
    nodes = [
        helper.make_node("Cast", ["x"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], **branches("x")),
    ]
    model = model_of(nodes)
    branch = model.graph.node[1].attribute[0].g
    branch.node.insert(0, onnxwire.NodeProto(op_type="Abs", input=["x"], output=["m"]))
    branch.node[1].input[0] = "m"
    bypass(model, "graph.node[1].attribute[0].g.node[0]")
    assert wiring(branch) == [("Neg", ["x"], list(branch.node[0].output))]


def test_nodes_of_functions_can_be_bypassed():
    function = helper.make_function(
        "own",
        "F",
        ["p"],
        ["q"],
        [helper.make_node("Relu", ["p"], ["r"]), helper.make_node("Neg", ["r"], ["q"])],
        [helper.make_opsetid("", 20)],
    )
    model = model_of([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[function])
    for name in "rq":
        model.functions[0].value_info.add(name=name, doc_string=f"that of {name}")
    bypass(model, "functions[0].node[1]")
    assert wiring(model.functions[0]) == [("Relu", ["p"], ["q"])]
    assert [(info.name, info.doc_string) for info in model.functions[0].value_info] == [("q", "that of r")]


def test_a_node_without_consumers_is_only_removed():
    model = model_of([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Split", ["x"], ["a", "b"])])
    bypass(model, "graph.node[1]")
    assert wiring(model.graph) == [("Relu", ["x"], ["y"])]


@pytest.mark.parametrize(
    ("nodes", "outputs", "path", "index", "reason"),
    [
        ([helper.make_node("Relu", ["x"], ["y"])], ["y"], "graph.node[0]", 0, "set op_type to Identity"),
        (
            [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])],
            ["a", "y"],
            "graph.node[1]",
            0,
            "another output",
        ),
        (
            [helper.make_node("Split", ["x"], ["a", "b"]), helper.make_node("Add", ["a", "b"], ["y"])],
            ["y"],
            "graph.node[0]",
            0,
            "'b' is also used",
        ),
        (
            [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])],
            ["y"],
            "graph.node[0]",
            1,
            "no input 1",
        ),
        (
            [helper.make_node("Clip", ["x", "", "x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])],
            ["y"],
            "graph.node[0]",
            1,
            "no input 1",
        ),
        (
            [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("If", ["x"], ["y"], **branches("a"))],
            ["y"],
            "graph.node[0]",
            0,
            "hides",
        ),
    ],
    ids=["input to output", "two outputs", "a second output", "no such input", "an omitted input", "a hidden name"],
)
def test_a_node_that_cannot_be_bypassed_is_rejected_without_changes(nodes, outputs, path, index, reason):
    model = model_of(nodes, outputs)
    if reason == "hides":
        model.graph.node[1].attribute[0].g.node.add(op_type="Abs", input=["a"], output=["x"])
    bytes_before = model.SerializeToString()
    with pytest.raises(EditError, match=reason):
        bypass(model, path, index)
    assert model.SerializeToString() == bytes_before


def test_a_path_that_names_no_node_is_rejected():
    model = model_of([helper.make_node("Relu", ["x"], ["y"])])
    for path in ("graph", "graph.node", "graph.node[7]", "graph.input[0]"):
        with pytest.raises(PathError):
            bypass(model, path)


def test_the_boundary_of_nodes_is_accepted_by_extract():
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2])
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Add", ["a", "w"], ["b"]),
        helper.make_node("Neg", ["b"], ["c"]),
        helper.make_node("Abs", ["c"], ["y"]),
        helper.make_node("Exp", ["b"], ["unused"]),
    ]
    model = model_of(nodes, initializers=[weight])
    assert boundary(model.graph, [1, 2]) == (["a"], ["b", "c"])
    assert boundary(model.graph, [4]) == (["b"], ["unused"])
    assert boundary(model.graph, range(5)) == (["x"], ["y", "unused"])
    with pytest.warns(onnxwire.UntypedValueWarning):
        part = extract(model, *boundary(model.graph, [1, 2]))
    assert [node.op_type for node in part.graph.node] == ["Add", "Neg"]
    assert [tensor.name for tensor in part.graph.initializer] == ["w"]


def test_rename_values_with_a_scope_changes_only_names_of_that_scope():
    function = helper.make_function("own", "F", ["a"], ["q"], [helper.make_node("Relu", ["a"], ["q"])], [])
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("F", ["a"], ["y"], domain="own")]
    model = model_of(nodes, functions=[function])
    assert onnxwire.rename_values(model, {"a": "b"}, scope="functions[0]") == 2
    assert wiring(model.graph)[0] == ("Relu", ["x"], ["a"])
    assert wiring(model.functions[0]) == [("Relu", ["b"], ["q"])]
    with pytest.raises(PathError, match="no value called 'x'"):
        onnxwire.rename_values(model, {"x": "b"}, scope="functions[0]")
    onnxwire.rename_values(model, {"a": "m"}, scope="graph")
    assert wiring(model.graph) == [("Relu", ["x"], ["m"]), ("F", ["m"], ["y"])]
