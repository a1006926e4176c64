"""`merge_changes` applies the changes of both sides, and reports changes that contradict each other."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from budget import IS_LONG
from graphs import nested_model
from onnx import helper, numpy_helper
from renamed_models import edit_randomly
from test_bundled_files import FILES, ONNX_FOLDER

import onnxwire

FLOAT = onnx.TensorProto.FLOAT
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


def merge(base, ours, theirs):
    """Return the merged model as an official message, and the conflicts as lines."""
    models = [onnxwire.ModelProto.FromString(model.SerializeToString()) for model in (base, ours, theirs)]
    merged_model, conflicts = onnxwire.merge_changes(*models)
    return onnx.ModelProto.FromString(merged_model.SerializeToString()), list(map(str, conflicts))


def copy(model):
    """Return a copy of an official model."""
    return onnx.ModelProto.FromString(model.SerializeToString())


def edited_copy(base, rng):
    """Return a copy of a model with one random edit."""
    model = copy(base)
    while not edit_randomly(model, rng):
        pass
    return model


def elements(model):
    """Return the nodes and initializers of the main graph by key, encoded."""
    nodes = {("node", node.name or tuple(node.output)): node.SerializeToString() for node in model.graph.node}
    tensors = {("tensor", tensor.name): tensor.SerializeToString() for tensor in model.graph.initializer}
    assert len(nodes) == len(model.graph.node)
    return nodes | tensors


def reads_undefined_values(model):
    """Return whether a node, or an output of the graph, refers to a value that nothing before it defines."""
    defined_names = (
        {value.name for value in model.graph.input} | {tensor.name for tensor in model.graph.initializer} | {""}
    )
    for node in model.graph.node:
        if not defined_names.issuperset(node.input):
            return True
        defined_names.update(node.output)
    return not defined_names.issuperset(value.name for value in model.graph.output)


@pytest.fixture(scope="module")
def bases():
    """Return models with more than three nodes.

    The nodes of a model have distinct names, or distinct outputs if they have no names. The nodes and the outputs of
    the graph refer only to defined values.
    """
    models = [onnx.load(DIGITS)]
    for file in [file for file in FILES if file.endswith(".onnx")][:: 1 if IS_LONG else 40]:
        model = onnx.load(Path(ONNX_FOLDER, file), load_external_data=False)
        keys = Counter(node.name or tuple(node.output) for node in model.graph.node)
        if len(keys) > 3 and max(keys.values()) == 1 and not reads_undefined_values(model):
            models.append(model)
    return models


def test_random_edits_of_two_sides_are_merged_or_conflict(bases):
    rng = random.Random(7)
    n_merged = n_conflicts = 0
    for trial in range(2000 if IS_LONG else 100):
        base = bases[trial % len(bases)] if trial % 2 else bases[0]
        ours, theirs = edited_copy(base, rng), edited_copy(base, rng)
        base_elements, our_elements, their_elements = map(elements, (base, ours, theirs))
        keys = base_elements.keys() | our_elements.keys() | their_elements.keys()
        changed_keys = [
            {key for key in keys if base_elements.get(key) != side.get(key)} for side in (our_elements, their_elements)
        ]
        merged_model, conflicts = merge(base, ours, theirs)
        if any(our_elements.get(key) != their_elements.get(key) for key in changed_keys[0] & changed_keys[1]):
            assert conflicts, trial
            n_conflicts += 1
            continue
        expected = {key: (our_elements if key in changed_keys[0] else their_elements).get(key) for key in keys}
        assert elements(merged_model) == {key: data for key, data in expected.items() if data is not None}, trial
        assert conflicts or not reads_undefined_values(merged_model), trial
        # Edits of different elements can contradict each other, as a removed Cast and a new reader of its output do.
        assert all(line.startswith("error ") for line in conflicts), (trial, conflicts)
        n_merged += not conflicts
    assert n_merged > 40
    assert n_conflicts > 2


def test_equal_changes_of_both_sides_and_changes_of_one_side_are_no_conflict(bases):
    rng = random.Random(3)
    for _ in range(10):
        side = edited_copy(bases[0], rng)
        assert merge(bases[0], side, side) == (side, [])
        assert merge(bases[0], bases[0], side) == (side, [])
        assert merge(bases[0], side, bases[0]) == (side, [])


def chain(names):
    """Return a model of Relu nodes with these names; each reads the output of the previous node."""
    nodes = [helper.make_node("Relu", [f"v{i}"], [f"v{i + 1}"], name=name) for i, name in enumerate(names)]
    ends = [helper.make_tensor_value_info(name, FLOAT, [2]) for name in ("v0", f"v{len(names)}")]
    return helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:]))


def test_a_removed_node_that_the_other_side_changed_is_a_conflict():
    base = chain("abc")
    ours, theirs = copy(base), copy(base)
    del ours.graph.node[1]
    ours.graph.node[1].input[0] = "v1"
    theirs.graph.node[1].op_type = "Abs"
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == ["node b in graph: our side removed, their side changed"]
    assert merged_model == ours


def test_a_node_that_reads_a_value_removed_by_the_other_side_is_a_conflict():
    base = chain("abc")
    ours, theirs = copy(base), copy(base)
    del ours.graph.node[1]
    ours.graph.node[1].input[0] = "v1"
    theirs.graph.node.append(helper.make_node("Abs", ["v2"], ["extra"], name="new"))
    _, conflicts = merge(base, ours, theirs)
    assert len(conflicts) == 1
    assert "graph-node-input-defined" in conflicts[0]


def test_different_elements_that_both_sides_added_with_one_name_are_a_conflict():
    base = chain("a")
    ours, theirs = copy(base), copy(base)
    ours.metadata_props.add(key="author", value="one")
    theirs.metadata_props.add(key="author", value="two")
    assert merge(base, ours, theirs)[1] == ["metadata author: added by both sides, in different ways"]
    theirs.metadata_props[0].value = "one"
    assert merge(base, ours, theirs) == (ours, [])


def test_fields_types_weights_and_functions_are_merged():
    base = chain("abc")
    ours, theirs = copy(base), copy(base)
    ours.producer_name, theirs.producer_version = "me", "2"
    ours.graph.doc_string = "text"
    theirs.graph.name = "other"
    ours.graph.value_info.append(helper.make_tensor_value_info("v1", FLOAT, [2]))
    theirs.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    ours.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "x"))
    theirs.functions.append(helper.make_function("d", "f", ["i"], ["o"], [helper.make_node("Abs", ["i"], ["o"])], []))
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == []
    assert (merged_model.producer_name, merged_model.producer_version) == ("me", "2")
    assert (merged_model.graph.doc_string, merged_model.graph.name) == ("text", "other")
    assert [tensor.name for tensor in merged_model.graph.initializer] == ["x", "w"]
    assert [value.name for value in merged_model.graph.value_info] == ["v1"]
    assert merged_model.functions[0].name == "f"
    theirs.producer_name = "you"
    assert merge(base, ours, theirs)[1] == ["field producer_name: changed by both sides, in different ways"]


def test_changes_inside_a_graph_of_a_node_are_merged():
    base = nested_model()
    nodes_with_graph = [node for node in base.graph.node if any(a.HasField("g") and a.g.node for a in node.attribute)]
    assert nodes_with_graph
    index = list(base.graph.node).index(nodes_with_graph[0])
    attribute_index = next(i for i, attribute in enumerate(nodes_with_graph[0].attribute) if attribute.g.node)
    ours, theirs = copy(base), copy(base)
    ours.graph.node[index].attribute[attribute_index].g.node[0].doc_string = "inside"
    theirs.graph.node[index].doc_string = "outside"
    theirs.graph.node[index].attribute[attribute_index].g.doc_string = "graph"
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == []
    node = merged_model.graph.node[index]
    assert (node.doc_string, node.attribute[attribute_index].g.doc_string) == ("outside", "graph")
    assert node.attribute[attribute_index].g.node[0].doc_string == "inside"
    theirs.graph.node[index].attribute[attribute_index].g.node[0].doc_string = "another"
    assert merge(base, ours, theirs)[1] != []


def test_inputs_that_both_sides_added_at_one_position_are_a_conflict():
    base = chain("a")
    ours, theirs = copy(base), copy(base)
    ours.graph.input.append(helper.make_tensor_value_info("x", FLOAT, [2]))
    theirs.graph.input.append(helper.make_tensor_value_info("y", FLOAT, [2]))
    _, conflicts = merge(base, ours, theirs)
    assert conflicts == ["order of inputs in graph: changed by both sides, in different ways"]
    theirs.graph.input.insert(0, theirs.graph.input.pop())
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == []
    assert [value.name for value in merged_model.graph.input] == ["y", "v0", "x"]


def test_a_new_version_of_an_operator_set_with_changed_nodes_of_the_domain_is_a_conflict():
    base = chain("ab")
    base.opset_import[0].version = 17
    ours, theirs = copy(base), copy(base)
    ours.opset_import[0].version = 18
    theirs.graph.doc_string = "no node"
    assert merge(base, ours, theirs)[1] == []
    theirs.graph.node[0].op_type = "Abs"
    expected = "opset ai.onnx: our side changed the version, their side changed or added nodes"
    assert merge(base, ours, theirs)[1] == [expected]


def models_with_reordered_nodes():
    """Return a model, a copy, and a copy in which the last node was moved to the beginning."""
    base = chain("ab")
    base.graph.node.append(helper.make_node("Abs", ["v0"], ["z"], name="c"))
    ours, theirs = copy(base), copy(base)
    nodes = [copy_node(node) for node in base.graph.node]
    del theirs.graph.node[:]
    theirs.graph.node.extend([nodes[2], nodes[0], nodes[1]])
    return base, ours, theirs


def test_a_side_that_reordered_nodes_keeps_its_order():
    base, ours, theirs = models_with_reordered_nodes()
    ours.graph.node.insert(1, helper.make_node("Neg", ["v1"], ["y"], name="d"))
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == []
    assert [node.name for node in merged_model.graph.node] == ["c", "a", "d", "b"]


def test_merged_nodes_are_sorted_if_one_side_reorders_and_the_other_edits_nodes():
    base, ours, theirs = models_with_reordered_nodes()
    ours.graph.node[2].input[0] = "v1"
    for sides in ((ours, theirs), (theirs, ours)):
        merged_model, conflicts = merge(base, *sides)
        assert conflicts == []
        assert [node.name for node in merged_model.graph.node] == ["a", "c", "b"]


def test_nodes_that_form_a_cycle_are_a_conflict():
    base = chain("abc")
    base.graph.node.append(helper.make_node("Add", ["v0", "v0"], ["y"], name="d"))
    ours, theirs = copy(base), copy(base)
    ours.graph.node[3].input[0] = "v3"
    del theirs.graph.node[:]
    theirs.graph.node.extend([base.graph.node[3], *base.graph.node[:3]])
    theirs.graph.node[1].input[0] = "y"
    assert "graph-topological-order" in " ".join(merge(base, ours, theirs)[1])


def test_nodes_with_one_name_are_paired_by_their_outputs():
    base = chain(["same"] * 4)
    ours, theirs = copy(base), copy(base)
    del ours.graph.node[0]
    ours.graph.node[0].input[0] = "v0"
    theirs.graph.node[3].doc_string = "changed"
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == []
    assert [(node.output[0], node.doc_string) for node in merged_model.graph.node] == [
        ("v2", ""),
        ("v3", ""),
        ("v4", "changed"),
    ]


def test_nodes_with_neither_names_nor_outputs_are_not_duplicated():
    base = chain("a")
    base.graph.node.append(onnx.NodeProto(op_type="Sink", input=["v1"]))
    ours, theirs = copy(base), copy(base)
    ours.graph.node[0].doc_string = "one"
    theirs.graph.node.append(onnx.NodeProto(op_type="Sink", input=["v0"]))
    merged_model, _ = merge(base, ours, theirs)
    assert [node.op_type for node in merged_model.graph.node] == ["Relu", "Sink", "Sink"]


def test_an_equal_output_that_both_sides_added_in_different_positions_is_a_conflict():
    base = chain("ab")
    ours, theirs = copy(base), copy(base)
    for model, position in ((ours, 0), (theirs, 1)):
        model.graph.output.insert(position, helper.make_tensor_value_info("v1", FLOAT, [2]))
    assert merge(base, ours, theirs)[1] == ["order of outputs in graph: changed by both sides, in different ways"]


def test_an_output_that_both_sides_add_at_one_position_is_no_conflict():
    value = partial(helper.make_tensor_value_info, elem_type=FLOAT, shape=[2])
    nodes = [helper.make_node("Relu", ["x"], [name]) for name in "abc"]
    base = helper.make_model(helper.make_graph(nodes, "g", [value("x")], [value("a")]))
    ours, theirs = copy(base), copy(base)
    ours.graph.output.insert(0, value("b"))
    theirs.graph.output.insert(0, value("b"))
    theirs.graph.output.append(value("c"))
    for sides in ((ours, theirs), (theirs, ours)):
        merged_model, conflicts = merge(base, *sides)
        assert ([output.name for output in merged_model.graph.output], conflicts) == (["b", "a", "c"], [])
    assert merge(base, ours, ours) == (ours, [])


def test_equal_changes_of_an_operator_set_and_its_nodes_are_no_conflict():
    base = chain("ab")
    base.opset_import[0].version = 17
    side = copy(base)
    side.opset_import[0].version = 18
    side.graph.node[0].op_type = "Abs"
    assert merge(base, side, side) == (side, [])
    second_side = copy(side)
    second_side.graph.node[1].op_type = "Neg"
    merged_model, conflicts = merge(base, side, second_side)
    assert (merged_model, conflicts) == (second_side, [])


def model_with_function(*calls):
    """Return a model with a function Plus and calls of it. calls: the names of the calls and of their outputs."""
    plus = helper.make_function(
        "local", "Plus", ["a", "b"], ["c"], [helper.make_node("Add", ["a", "b"], ["c"])], [helper.make_opsetid("", 20)]
    )
    model = chain("ab")
    model.functions.append(plus)
    model.opset_import.append(helper.make_opsetid("local", 1))
    for name in calls:
        model.graph.node.append(helper.make_node("Plus", ["v0", "v1"], [name], name=name, domain="local"))
    return model


def test_operator_sets_of_functions_are_merged_separately():
    base = model_with_function()
    ours, theirs = copy(base), copy(base)
    ours.functions[0].opset_import[0].version = 21
    theirs.graph.node[0].op_type = "Abs"
    assert merge(base, ours, theirs)[1] == []
    theirs.functions[0].node[0].op_type = "Sub"
    expected = "opset ai.onnx in functions[Plus]: our side changed the version, their side changed or added nodes"
    assert merge(base, ours, theirs)[1] == [expected]


def test_a_new_call_of_a_function_with_a_changed_interface_is_a_conflict():
    base = model_with_function()
    ours, theirs = copy(base), model_with_function("new")
    ours.functions[0].input[:] = ["b", "a"]
    expected = "function local.Plus: our side changed the interface, their side changed or added calls"
    assert merge(base, ours, theirs)[1] == [expected]
    del ours.functions[:]
    expected = "function local.Plus: our side changed or added calls, their side removed"
    assert merge(base, theirs, ours)[1] == [expected]


def test_a_type_and_an_annotation_of_a_removed_value_are_conflicts():
    base = chain("abc")
    ours, model_with_type, model_with_annotation = copy(base), copy(base), copy(base)
    del ours.graph.node[1]
    ours.graph.node[1].input[0] = "v1"
    model_with_type.graph.value_info.append(helper.make_tensor_value_info("v2", FLOAT, [2]))
    model_with_annotation.graph.quantization_annotation.add(tensor_name="v2")
    assert "graph-value-info-known-name" in " ".join(merge(base, ours, model_with_type)[1])
    assert "quant-annotation-tensor-name" in " ".join(merge(base, model_with_annotation, ours)[1])


def test_an_input_and_a_weight_of_one_name_are_a_conflict():
    base = chain("a")
    ours, theirs = copy(base), copy(base)
    ours.graph.input.append(helper.make_tensor_value_info("w", FLOAT, [3]))
    theirs.graph.initializer.append(numpy_helper.from_array(np.ones(3, np.float32), "w"))
    assert "initializer-overridable" in " ".join(merge(base, ours, theirs)[1])


def test_faults_of_the_base_are_no_conflict_at_their_new_positions():
    base = chain("abc")
    base.graph.node.insert(0, helper.make_node("Abs", ["v3"], ["early"], name="early"))
    ours, theirs = copy(base), copy(base)
    ours.graph.node.insert(1, helper.make_node("Neg", ["v0"], ["n"], name="n"))
    theirs.graph.node.insert(3, helper.make_node("Exp", ["v0"], ["e"], name="e"))
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == []
    assert [node.name for node in merged_model.graph.node] == ["early", "n", "a", "b", "e", "c"]


def copy_node(node):
    return onnx.NodeProto.FromString(node.SerializeToString())


def test_an_unchanged_nan_is_no_change():
    base = chain("ab")
    base.graph.node[0].attribute.append(helper.make_attribute("alpha", float("nan")))
    ours, theirs = copy(base), copy(base)
    ours.graph.node[0].doc_string = "x"
    theirs.graph.doc_string = "y"
    merged_model, conflicts = merge(base, ours, theirs)
    assert conflicts == []
    assert (merged_model.graph.node[0].doc_string, merged_model.graph.doc_string) == ("x", "y")


def test_unknown_fields_that_their_side_changed_are_a_conflict():
    base = onnxwire.load(DIGITS)
    theirs = onnxwire.ModelProto.FromString(DIGITS.read_bytes() + b"\xf8\x07\x01")  # field 127: varint 1
    _, conflicts = onnxwire.merge_changes(base, base, theirs)
    assert list(map(str, conflicts)) == ["field unknown fields: our side kept, their side changed"]
    assert onnxwire.merge_changes(base, theirs, base) == (theirs, [])


def test_only_models_are_merged():
    model = onnxwire.load(DIGITS)
    with pytest.raises(TypeError, match="expected a ModelProto"):
        onnxwire.merge_changes(model, model, model.graph)
