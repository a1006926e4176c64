"""Renaming values keeps what each use refers to; rejected new names of values and nodes change nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

import onnxwire
from onnxwire import ModelProto
from onnxwire.errors import EditError, FieldTextError, FieldTypeError, PathError
from onnxwire.transforms import rename as rename_module


def fill_scope(draw, scope, outer_names, depth):
    """Add values to a graph or function, and nodes that use these values and values of outer graphs.

    outer_names: the names of the values of the outer graphs. depth: the maximum number of levels of subgraphs.
    Returns the names of the added values.
    """
    names = draw(st.lists(st.sampled_from("abcd"), unique=True, max_size=3))
    is_graph = isinstance(scope, onnxwire.GraphProto)
    visible_names = set(outer_names)
    for name in names:
        origin = draw(st.sampled_from(["input", "node", "initializer"] if is_graph else ["input", "node"]))
        if origin == "node":
            scope.node.add(op_type="Make", output=[name], input=draw(uses(visible_names)))
        elif is_graph:
            getattr(scope, origin).add(name=name)
        else:
            scope.input.append(name)
        visible_names.add(name)
    scope.node.add(op_type="Use", input=draw(uses(visible_names)))
    if depth and draw(st.booleans()):
        node = scope.node.add(op_type="If")
        for _ in range(draw(st.integers(1, 2))):
            fill_scope(draw, node.attribute.add().g, visible_names, depth - 1)
    return set(names)


def uses(visible_names):
    """Return a strategy for lists of visible names."""
    return st.lists(st.sampled_from(sorted(visible_names)), max_size=3) if visible_names else st.just([])


@st.composite
def models(draw):
    """Make models with subgraphs, training graphs and functions, in which many values have the same names."""
    model = ModelProto()
    main_names = fill_scope(draw, model.graph, set(), 2)
    for _ in range(draw(st.integers(0, 2))):
        training = model.training_info.add()
        initial_names = fill_scope(draw, training.initialization, set(), 1) if draw(st.booleans()) else set()
        training_names = (
            main_names | fill_scope(draw, training.algorithm, main_names, 1) if draw(st.booleans()) else main_names
        )
        for key in draw(uses(training_names)):
            training.update_binding.add(key=key, value=draw(st.sampled_from(sorted(training_names))))
        for key in draw(uses(training_names)) if initial_names else []:
            training.initialization_binding.add(key=key, value=draw(st.sampled_from(sorted(initial_names))))
    for _ in range(draw(st.integers(0, 1))):
        fill_scope(draw, model.functions.add(), set(), 1)
    return ModelProto.FromString(model.SerializeToString())


def definitions_of_uses(model):
    """Return the definitions to which the inputs of nodes and the bindings refer.

    The result has a tuple for each node: the path of the graph or function, the index of the node, and the paths of the
    definitions of the inputs. For each list of bindings it has a list of pairs: the paths of the definitions of the key
    and of the value.
    """
    definitions = []

    def visit(scope, path, outer_definitions):
        """Append the uses in a scope to `definitions`; return the paths of the visible definitions, by name."""
        is_graph = isinstance(scope, onnxwire.GraphProto)
        own_definitions = {}
        for index, value in enumerate(scope.input):
            own_definitions[value.name if is_graph else value] = f"{path}.input[{index}]"
        for index, tensor in enumerate(scope.initializer if is_graph else ()):
            own_definitions[tensor.name] = f"{path}.initializer[{index}]"
        for index, node in enumerate(scope.node):
            own_definitions.update({name: f"{path}.node[{index}].output[{i}]" for i, name in enumerate(node.output)})
        visible_definitions = outer_definitions | own_definitions
        for index, node in enumerate(scope.node):
            definitions.append((path, index, [visible_definitions[name] for name in node.input]))
            for number, attribute in enumerate(node.attribute):
                visit(attribute.g, f"{path}.node[{index}].attribute[{number}].g", visible_definitions)
        return visible_definitions

    main_values = visit(model.graph, "graph", {})
    for index, training in enumerate(model.training_info):
        initial_values = visit(training.initialization, f"training_info[{index}].initialization", {})
        # Source: onnx.proto, TrainingInfoProto: the algorithm's lists are appended to those of the main graph.
        training_values = visit(training.algorithm, f"training_info[{index}].algorithm", main_values)
        definitions.append(
            [(training_values[entry.key], training_values[entry.value]) for entry in training.update_binding]
        )
        definitions.append(
            [(training_values[entry.key], initial_values[entry.value]) for entry in training.initialization_binding]
        )
    for index, function in enumerate(model.functions):
        visit(function, f"functions[{index}]", {})
    return definitions


@given(models(), st.dictionaries(st.sampled_from("abcd"), st.sampled_from("abcdz"), min_size=1, max_size=3))
def test_each_use_refers_to_the_same_value_after_renaming(model, names):
    definitions_before, bytes_before = definitions_of_uses(model), model.SerializeToString()
    try:
        onnxwire.rename_values(model, names)
    except (EditError, PathError):
        assert model.SerializeToString() == bytes_before
    else:
        assert definitions_of_uses(model) == definitions_before


def outcome(function, *arguments):
    """Return the result of a call, or the type and text of its EditError or PathError."""
    try:
        return function(*arguments)
    except (EditError, PathError) as error:
        return type(error), str(error)


@given(models(), st.dictionaries(st.sampled_from("abcd"), st.sampled_from("abcdz"), min_size=1, max_size=3))
def test_skipping_messages_without_the_names_changes_no_result(model, names):
    model.graph.node[0].doc_string = "edited"
    copy = ModelProto.FromString(model.SerializeToString())
    result = outcome(onnxwire.rename_values, model, names)
    # Without a filter no message is skipped.
    with mock.patch.object(rename_module, "NameFilter", SimpleNamespace(of=lambda names: None)):
        expected = outcome(onnxwire.rename_values, copy, names)
    assert result == expected
    assert model == copy


def nested_model(subgraph_kind):
    """Make a model with a graph that defines the value 'a' and computes its sum with the value 'f' of the main graph.

    subgraph_kind: "then_branch" for a branch of a node, "algorithm" for a training graph, any other text for a branch
        in a training graph.
    """
    model = ModelProto()
    model.graph.node.add(op_type="Src", output=["f"])
    if subgraph_kind == "then_branch":
        subgraph = model.graph.node.add(op_type="If").attribute.add(name=subgraph_kind).g
    elif subgraph_kind == "algorithm":
        subgraph = model.training_info.add().algorithm
    else:
        subgraph = model.training_info.add().algorithm.node.add(op_type="If").attribute.add(name=subgraph_kind).g
    subgraph.node.add(op_type="C", output=["a"])
    subgraph.node.add(op_type="Add", input=["a", "f"], output=["y"])
    return model


@pytest.mark.parametrize("subgraph_kind", ["then_branch", "algorithm", "graph inside the algorithm"])
@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"a": "z", "f": "z"}, "two values can't both be renamed to 'z'"),
        ({"a": "f"}, "graph: a value called 'f' already exists; choose another name for 'a'"),
        ({"f": "a"}, "a value called 'a' already exists; choose another name for 'f'"),
    ],
)
def test_two_values_visible_in_one_graph_never_get_the_same_name(subgraph_kind, names, reason):
    model = nested_model(subgraph_kind)
    bytes_before = model.SerializeToString()
    with pytest.raises(EditError, match=re.escape(reason)):
        onnxwire.rename_values(model, names)
    assert model.SerializeToString() == bytes_before


def test_the_error_for_several_names_in_use_does_not_depend_on_the_order_of_sets():
    code = """if True:
        import onnxwire
        model = onnxwire.ModelProto(graph={"node": [{"output": list("abcdef")}]})
        try:
            onnxwire.rename_values(model, {"a": "d", "b": "e", "c": "f"})
        except onnxwire.Error as error:
            print(error)
    """
    texts = {
        subprocess.check_output([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": str(seed)})
        for seed in range(4)
    }
    assert len(texts) == 1


def test_the_initialization_graph_does_not_share_names_with_the_main_graph():
    model = nested_model("algorithm")
    model.graph.initializer.add(name="w")
    training = model.training_info[0]
    training.initialization.node.add(op_type="RandomNormal", output=["start"])
    training.initialization_binding.add(key="w", value="start")
    onnxwire.rename_values(model, {"start": "w", "w": "weight"})
    assert list(training.initialization.node[0].output) == ["w"]
    assert [(entry.key, entry.value) for entry in training.initialization_binding] == [("weight", "w")]


def test_values_of_the_algorithm_are_renamed_in_bindings():
    model = ModelProto()
    model.graph.initializer.add(name="w")
    training = model.training_info.add()
    training.algorithm.initializer.add(name="step")
    training.algorithm.node.add(op_type="Inc", input=["step"], output=["next"])
    training.update_binding.add(key="step", value="next")
    training.initialization_binding.add(key="step", value="zero")
    onnxwire.rename_values(model, {"step": "count", "next": "more"})
    assert [(entry.key, entry.value) for entry in training.update_binding] == [("count", "more")]
    assert [(entry.key, entry.value) for entry in training.initialization_binding] == [("count", "zero")]


@pytest.mark.parametrize(("new", "error"), [("\ud800", FieldTextError), (5, FieldTypeError), (b"z", FieldTypeError)])
@pytest.mark.parametrize("rename", [onnxwire.rename_values, onnxwire.rename_nodes])
def test_a_new_name_that_is_not_text_changes_nothing(rename, new, error):
    model = nested_model("then_branch")
    for index, node in enumerate(model.graph.node):
        node.name = "af"[index]
    bytes_before = model.SerializeToString()
    with pytest.raises(error, match="'f': "):
        rename(model, {"a": "new", "f": new})
    assert model.SerializeToString() == bytes_before
