"""Paths on the command line and the messages and values to which they resolve."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

import onnxwire
from onnxwire.analysis.paths import parse_index, resolve
from onnxwire.errors import PathError

FLOAT = onnx.TensorProto.FLOAT


def constant(name: str, *values: float) -> onnx.NodeProto:
    """Make a Constant node whose output has a name."""
    return helper.make_node("Constant", [], [name], value=helper.make_tensor("", FLOAT, [len(values)], values))


def make_model() -> onnxwire.ModelProto:
    """Make a model with names that contain dots and brackets, and with two nodes of the same name."""
    branch = helper.make_graph([helper.make_node("Relu", ["a"], ["inner_out"], name="inner")], "branch", [], [])
    nodes = [
        helper.make_node("Conv", ["x", "w.0"], ["y"], name="/l.0/Conv", pads=[1, 2]),
        helper.make_node("Relu", ["y"], ["z"], name="/l.0/Conv[1].op"),
        helper.make_node("If", ["c"], ["i"], name="twice", then_branch=branch),
        helper.make_node("Relu", ["i"], ["o"], name="twice"),
        constant("k", 1.0, 2.0),
    ]
    weights = [
        helper.make_tensor("w.0", FLOAT, [2, 3], range(6)),
        helper.make_tensor("w.0.dims", onnx.TensorProto.INT64, [1], [5]),
    ]
    weights[0].raw_data = bytes(range(24))  # 6 floats
    value = helper.make_tensor_value_info("x", FLOAT, ["n", 3])
    graph = helper.make_graph(nodes, "g", [value], [helper.make_tensor_value_info("z", FLOAT, None)], weights)
    function = helper.make_function("local", "f", [], [], [], [])
    model = helper.make_model(graph, functions=[function], producer_name="me")
    helper.set_model_props(model, {"author": "someone"})
    return onnxwire.ModelProto.FromString(model.SerializeToString())


MODEL = make_model()


@pytest.mark.parametrize(
    ("path", "expected_path"),
    [
        ("", ""),
        ("graph.node[1]", "graph.node[1]"),
        ("graph.node[-1]", "graph.node[4]"),
        ("graph.node[/l.0/Conv].attribute[pads].ints", "graph.node[0].attribute[0].ints"),
        ("node:inner", "graph.node[2].attribute[0].g.node[0]"),
        ("node:inner.op_type", "graph.node[2].attribute[0].g.node[0].op_type"),
        ("node:inner_out", "graph.node[2].attribute[0].g.node[0]"),
        ("tensor:w.0", "graph.initializer[0]"),
        ("tensor:k", "graph.node[4].attribute[0].t"),
        ("input:x", "graph.input[0]"),
        ("output:z.name", "graph.output[0].name"),
        ("value:x", "graph.input[0]"),
        ("function:local.f", "functions[0]"),
        ("function:f.name", "functions[0].name"),
        ("metadata_props[author].value", "metadata_props[0].value"),
    ],
)
def test_a_path_resolves_to_its_element(path: str, expected_path: str) -> None:
    assert resolve(MODEL, path).path == expected_path


def test_the_longest_matching_name_is_selected_unless_a_name_is_quoted() -> None:
    assert resolve(MODEL, "node:/l.0/Conv[1].op").value.op_type == "Relu"
    assert resolve(MODEL, 'node:"/l.0/Conv".op_type').value == "Conv"
    assert resolve(MODEL, "tensor:w.0.dims").path == "graph.initializer[1]"
    assert list(resolve(MODEL, 'tensor:"w.0".dims').value) == [2, 3]
    assert resolve(MODEL, 'graph.initializer["w.0.dims"]').element_index == 1


def test_a_node_is_selected_by_the_longest_matching_name_of_its_outputs() -> None:
    node = helper.make_node("Split", ["x"], ["a", "a.b"])
    graph = onnxwire.GraphProto.FromString(helper.make_graph([node], "g", [], []).SerializeToString())
    resolved = resolve(graph, "node:a.b.op_type")
    assert (resolved.path, resolved.value) == ("node[0].op_type", "Split")


def test_resolve_returns_the_field_the_parent_and_the_index_of_a_value() -> None:
    resolved = resolve(MODEL, "node:/l.0/Conv.op_type")
    assert (resolved.value, resolved.field.name, resolved.parent.name) == ("Conv", "op_type", "/l.0/Conv")
    resolved = resolve(MODEL, "node:/l.0/Conv.attribute[0].ints[-1]")
    assert (resolved.value, resolved.element_index) == (2, 1)
    assert resolve(MODEL, "node:inner").parent == MODEL.graph.node[2].attribute[0].g


def test_is_set_is_false_for_an_absent_field() -> None:
    assert not resolve(MODEL, "doc_string").is_set
    assert resolve(MODEL, "producer_name").is_set


def test_a_slice_resolves_to_several_elements() -> None:
    assert [node.op_type for node in resolve(MODEL, "graph.node[1:3]").value] == ["Relu", "If"]
    assert resolve(MODEL, "graph.node[::2][1].op_type").value == "If"
    assert resolve(MODEL, "graph.node[0].attribute[0].ints[::-1]").value == [2, 1]


def test_bytes_and_their_slices_resolve_to_buffers() -> None:
    resolved = resolve(MODEL, "tensor:w.0.raw_data")
    assert not isinstance(resolved.value, bytes)
    assert bytes(resolve(MODEL, "tensor:w.0.raw_data[1:3]").value) == MODEL.graph.initializer[0].raw_data[1:3]


def test_an_input_of_a_function_resolves_to_the_name_of_the_input() -> None:
    resolved = resolve(onnxwire.FunctionProto(name="f", input=["a", "b"]), "input:b")
    assert (resolved.path, resolved.value, resolved.element_index) == ("input[1]", "b", 1)


def test_the_error_for_a_field_of_an_empty_list_suggests_no_element() -> None:
    with pytest.raises(PathError) as excinfo:
        resolve(onnxwire.ModelProto(), "graph.node.name")
    assert str(excinfo.value).endswith("graph.node has 0 elements")


def test_brackets_after_a_tensor_select_elements() -> None:
    assert resolve(MODEL, "tensor:w.0[0:1,:2]").index == (slice(0, 1), slice(None, 2))
    assert resolve(MODEL, "graph.initializer[0][...,-1]").index == (..., -1)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("3", (3,)),
        (" -1 , ::2 ", (-1, slice(None, None, 2))),
        ("...", (...,)),
        (":", (slice(None),)),
        ("a", None),
        ("1.5", None),
        ("", None),
        ("1:2:3:4", None),
    ],
)
def test_parse_index_parses_numpy_syntax_and_returns_none_for_other_text(text: str, index: object) -> None:
    assert parse_index(text) == index


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("graph.nodes", "GraphProto has no field 'nodes'; did you mean 'node'?"),
        ("graph.node.name", "graph.node has 5 elements; choose one, such as graph.node[0].name"),
        ("graph.node[5]", "graph.node[5] does not exist; the 5 elements are [0] to [4]"),
        ("graph.sparse_initializer[0]", "it has no elements"),
        ("graph.node[nope]", "no element of graph.node has the name 'nope'"),
        ("graph.node[twice]", "2 elements are called 'twice'; choose by index: graph.node[2], graph.node[3]"),
        ("node:twice", "2 elements are called 'twice'; choose by index: graph.node[2], graph.node[3]"),
        ("node:iner", "no node called 'iner'; did you mean 'inner'? `onnxwire ls FILE --nodes` lists all nodes"),
        ("tensor:", "there is no tensor called ''"),
        ("knot:x", "unknown prefix 'knot:'; the prefixes are node:, tensor:,"),
        ("graph[0]", "graph is one message, and has no elements to choose from"),
        ("ir_version[0]", "ir_version is one value, and has no elements to choose from"),
        ("ir_version.x", "ir_version is a value without fields"),
        ("graph.node[0", "has no ] at its end"),
        ("graph.node[]", "does not name an element"),
        ("graph.node[0,1]", "graph.node has one dimension"),
        ("graph.node[::0]", "the step of a slice can't be 0"),
        ("graph.node[0]op_type", "'op_type' is not a step"),
        ("tensor:w.0[a]", "[a] is not an index of a tensor"),
        ("tensor:w.0[0].dims", "nothing can follow the elements of a tensor"),
        ("graph.node[0].input[y]", "its elements have no names"),
        ('node:"x', "the name in quotes is invalid"),
        ("w.0[0]", "this is a name; write tensor:w.0[0]"),
        ("/l.0/Conv", "this is a name; write node:/l.0/Conv"),
        ("x", "this is a name; write input:x or value:x"),
        ("graph..node", "'..node' is not a step"),
    ],
)  # fmt: skip
def test_the_error_for_a_wrong_path_explains_the_fault(path: str, text: str) -> None:
    with pytest.raises(PathError) as excinfo:
        resolve(MODEL, path)
    assert text in str(excinfo.value)
    assert excinfo.value.path == path


def test_the_root_can_be_any_message() -> None:
    assert resolve(MODEL.graph, "node:/l.0/Conv").path == "node[0]"
    assert resolve(MODEL.graph.node[0], "attribute[pads].ints[0]").value == 1
    assert resolve(MODEL.graph.initializer[0], "[0,1]").index == (0, 1)
