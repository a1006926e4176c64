"""`diff` by structure, which pairs nodes regardless of their names, and with match="auto"; keys of payloads."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from budget import IS_LONG
from each import each
from graphs import nested_model
from onnx import helper, numpy_helper
from renamed_models import edit_randomly, rename_everything
from test_bundled_files import FILES, ONNX_FOLDER

import onnxwire
from onnxwire.analysis import structure_match
from onnxwire.analysis.structure_diff import payload_key
from onnxwire.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
MODELS = [Path(ONNX_FOLDER, file) for file in FILES if file.endswith(".onnx")] + sorted(EXAMPLES.glob("*.onnx"))


def to_onnxwire(model):
    return onnxwire.ModelProto.FromString(model.SerializeToString())


def structural_diff(old, new, **options):
    """Return all differences of two models of the onnx package.

    options: arguments of `diff`; match is "structure" by default.
    """
    return list(onnxwire.diff(to_onnxwire(old), to_onnxwire(new), **{"match": "structure", **options}))


def changes(old, new, **options):
    """Return the differences of two models, except the difference that lists new names."""
    return [difference for difference in structural_diff(old, new, **options) if difference.change != "renamed"]


def if_model(*output_counts):
    """Make a model of an If with graphs: (attribute name, number of times that the graph has its value as output)."""
    nodes = [helper.make_node("If", ["c"], ["y"])]
    for name, count in output_counts:
        output = helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "b", [], [output] * count)
        nodes[0].attribute.append(helper.make_attribute(name, graph))
    return helper.make_model(helper.make_graph(nodes, "g", [], []))


IF_MODELS = [
    if_model(*counts)
    for counts in (
        [("t", 1), ("e", 1)],
        [("t", 2), ("e", 1)],
        [("t", 0), ("e", 1)],
        [("t", 1)],
        [("u", 1), ("e", 1)],
        [("e", 1), ("t", 1)],
        [("t", 1), ("t", 1)],
        [("t", 1), ("t", 2)],
    )
]


@pytest.mark.parametrize("match", ["structure", "auto"])
def test_added_removed_and_repeated_branches_are_compared(match):
    for old in IF_MODELS:
        for new in IF_MODELS:
            differences = changes(old, new, match=match)
            assert not differences if old is new else old is not new
            assert differences or sorted(
                attribute.SerializeToString() for attribute in old.graph.node[0].attribute
            ) == sorted(attribute.SerializeToString() for attribute in new.graph.node[0].attribute)


def test_a_model_with_two_graphs_in_attributes_of_one_name_is_its_own_baseline():
    data = if_model(("t", 1), ("t", 1)).SerializeToString()
    assert len(onnxwire.check(data)) > 0
    assert len(onnxwire.check(data, baseline=data)) == 0


def chain(operators, weights=()):
    """Make a model of a chain of nodes. The first len(weights) nodes also read an initializer each."""
    tensors = [numpy_helper.from_array(np.float32(value), f"w{i}") for i, value in enumerate(weights)]
    nodes = [
        helper.make_node(name, [f"v{i}", *([f"w{i}"] if i < len(tensors) else [])], [f"v{i + 1}"], name=f"n{i}")
        for i, name in enumerate(operators)
    ]
    ends = [helper.make_tensor_value_info(f"v{i}", onnx.TensorProto.FLOAT, ["n"]) for i in (0, len(nodes))]
    return helper.make_model(helper.make_graph(nodes, "chain", ends[:1], ends[1:], tensors))


@each("path", MODELS, ids=lambda path: path.parent.name + "/" + path.name)
def test_a_renamed_and_reordered_model_differs_in_names_only(path):
    old = onnx.load(path, load_external_data=False)
    new = onnx.ModelProto.FromString(old.SerializeToString())
    rename_everything(new, random.Random(path.name))
    assert changes(old, new) == []


def test_new_names_in_subgraphs_functions_and_annotations_are_one_difference():
    old, new = nested_model(), nested_model()
    rename_everything(new, random.Random(1))
    (difference,) = structural_diff(old, new)
    assert {"first", "choice", "branch_Add", "branch_Mul"} <= difference.names["nodes"].keys()
    names = {node.op_type: node.name for node in new.graph.node}
    assert difference.names["nodes"]["choice"] == names["If"]


def test_few_edits_of_a_renamed_model_are_few_differences():
    rng = random.Random(5)
    old = onnx.load(EXAMPLES / "digits_cnn.onnx")
    n_minimal = 0
    trials = 2000 if IS_LONG else 40
    for _ in range(trials):
        new = onnx.ModelProto.FromString(old.SerializeToString())
        rename_everything(new, rng)
        edits = sum(edit_randomly(new, rng) for _ in range(rng.randrange(1, 21)))
        # An edit can be two differences, such as a removed node and a rewired input.
        n_minimal += len(changes(old, new)) <= 2 * edits
    assert n_minimal >= 0.95 * trials


@pytest.mark.parametrize(
    ("old_operators", "new_operators", "expected"),
    [
        (["Relu", "Neg", "Exp"], ["Relu", "Abs", "Neg", "Exp"], [("added", "node"), ("rewired", "node")]),
        (["Relu", "Abs", "Neg"], ["Relu", "Neg"], [("removed", "node"), ("rewired", "node")]),
    ],
)
def test_an_inserted_or_deleted_node_is_two_differences(old_operators, new_operators, expected):
    old, new = chain(old_operators), chain(new_operators)
    rename_everything(new, random.Random(2))
    assert [(difference.change, difference.kind) for difference in changes(old, new)] == expected


def test_a_changed_weight_is_one_difference_with_its_distance():
    old, new = chain(["Add"] * 3, [1, 2, 3]), chain(["Add"] * 3, [1, 2.5, 3])
    rename_everything(new, random.Random(3))
    (difference,) = changes(old, new)
    assert (difference.change, difference.name, difference.distance.max_abs) == ("changed", "w1", 0.5)
    assert changes(old, new, weights=False) == []


def test_a_rewired_input_names_both_values():
    old, new = chain(["Relu", "Abs", "Add"], []), chain(["Relu", "Abs", "Add"], [])
    for model, name in (old, "v1"), (new, "v0"):
        model.graph.node[2].input.append(name)
    (difference,) = changes(old, new)
    assert (difference.change, difference.name, difference.part) == ("rewired", "n2", "input 1")
    assert (difference.old, difference.new) == ("v1", "v0")


def test_several_outputs_that_read_another_value_are_one_difference():
    old, new = chain(["Relu", "Abs", "Neg"]), chain(["Relu", "Abs", "Neg"])
    for model, name in (old, "v1"), (new, "v2"):
        model.graph.output.extend([helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"])] * 2)
    (difference,) = changes(old, new)
    assert (difference.change, difference.kind, difference.part) == ("rewired", "output", "with 1 other use")
    assert (difference.old, difference.new) == ("v1", "v2")


def test_a_nan_is_not_a_difference():
    old, new = chain(["Relu"]), chain(["Relu"])
    for model in old, new:
        model.graph.node[0].attribute.append(helper.make_attribute("alpha", float("nan")))
    assert structural_diff(old, new) == []


def model_with_training(prefix, operator="Sub"):
    """Return a model with training_info, whose algorithm changes the weight of the main graph.

    The names of weights, of nodes and of all values of the training graphs begin with `prefix`. operator: the op_type
    of the node that updates the weight.
    """
    model = chain(["Add"], [1])
    update_node = helper.make_node(operator, [f"{prefix}w", f"{prefix}rate"], [f"{prefix}new"], name=f"{prefix}update")
    model.graph.initializer[0].name = model.graph.node[0].input[1] = f"{prefix}w"
    model.graph.node[0].name = f"{prefix}node"
    info = model.training_info.add()
    start = helper.make_node("Constant", [], [f"{prefix}start"], name=f"{prefix}first", value_float=1.0)
    output = helper.make_tensor_value_info(f"{prefix}start", onnx.TensorProto.FLOAT, [])
    info.initialization.CopyFrom(helper.make_graph([start], "initialization", [], [output]))
    output = helper.make_tensor_value_info(f"{prefix}new", onnx.TensorProto.FLOAT, [])
    weights = [numpy_helper.from_array(np.float32(0.1), f"{prefix}rate")]
    info.algorithm.CopyFrom(helper.make_graph([update_node], "algorithm", [], [output], weights))
    info.initialization_binding.add(key=f"{prefix}w", value=f"{prefix}start")
    info.update_binding.add(key=f"{prefix}w", value=f"{prefix}new")
    return model


def test_training_graphs_are_compared_by_structure():
    old = model_with_training("a_")
    assert changes(old, model_with_training("b_")) == []
    (name_difference,) = structural_diff(old, model_with_training("b_"))
    assert name_difference.names["nodes"] == {"a_node": "b_node", "a_first": "b_first", "a_update": "b_update"}
    paths = [difference.path for difference in changes(old, model_with_training("b_", "Add"))]
    assert "training_info[0].algorithm.node[0]" in paths
    assert all(path.startswith("training_info[0].") for path in paths)
    changed_model = model_with_training("b_")
    changed_model.training_info[0].update_binding[0].value = "b_rate"
    (difference,) = changes(old, changed_model)
    assert difference.path == "training_info[0].update_binding[0]"
    del changed_model.training_info[:]
    removals = [(difference.change, difference.path) for difference in changes(old, changed_model)]
    assert ("removed", "training_info[0].algorithm.node[0]") in removals
    assert ("removed", "training_info[0].update_binding[0]") in removals
    assert sorted((difference.change == "added", difference.path) for difference in changes(changed_model, old)) == [
        (True, path) for _, path in sorted(removals, key=lambda removal: removal[1])
    ]


def test_doc_strings_and_fields_of_the_model_are_compared():
    old, new = chain(["Relu", "Abs"]), chain(["Relu", "Abs"])
    new.graph.node[1].doc_string = "New."
    new.producer_name = "other"
    assert [(difference.name, difference.part) for difference in changes(old, new)] == [
        ("n1", "doc_string"),
        ("", "producer_name"),
    ]


def test_nodes_on_a_cycle_are_paired():
    old = chain(["Relu", "Abs", "Neg"])
    old.graph.node[0].input[0] = "v3"
    new = onnx.ModelProto.FromString(old.SerializeToString())
    rename_everything(new, random.Random(4))
    assert changes(old, new) == []


def test_auto_pairs_by_name_unless_nodes_were_renamed():
    old, new = chain(["Relu", "Abs", "Neg"]), chain(["Relu", "Abs", "Exp"])
    assert [difference.change for difference in structural_diff(old, new, match="auto")] == [
        difference.change for difference in structural_diff(old, new, match="name")
    ]
    rename_everything(new, random.Random(4))
    assert "renamed" in [difference.change for difference in structural_diff(old, new, match="auto")]
    assert "renamed" not in [difference.change for difference in structural_diff(old, new, match="name")]


def test_an_unknown_value_of_match_is_rejected():
    with pytest.raises(ValueError, match="'auto', 'name' or 'structure'"):
        structural_diff(chain(["Relu"]), chain(["Relu"]), match="names")


def test_the_result_is_the_same_in_every_call():
    old = onnx.load(EXAMPLES / "digits_cnn.onnx")
    new = onnx.ModelProto.FromString(old.SerializeToString())
    rng = random.Random(8)
    rename_everything(new, rng)
    for _ in range(10):
        edit_randomly(new, rng)
    assert structural_diff(old, new) == structural_diff(old, new)


def test_the_command_prints_renames_in_one_line_and_maps_them_in_json(tmp_path, capsys):
    old, new = chain(["Relu", "Abs"]), chain(["Relu", "Abs"])
    rename_everything(new, random.Random(6))
    paths = [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]
    for model, path in zip((old, new), paths, strict=True):
        onnx.save(model, path)
    assert main(["diff", *paths, "--match", "structure"]) == 1
    assert capsys.readouterr().out == "~ renamed: 2 nodes and 3 values\n"
    assert main(["diff", *paths, "--match", "structure", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)["differences"]
    assert row["names"]["values"]["v0"] == new.graph.input[0].name
    assert main(["diff", *paths, "--stat"]) == 1
    headings, counts = capsys.readouterr().out.splitlines()
    assert headings.split() == ["added", "removed", "changed", "renamed"]
    assert counts.split() == ["names", "0", "0", "0", "1"]


def test_the_key_of_a_payload_of_any_size_does_not_depend_on_the_field_that_stores_it():
    values = np.arange(2000, dtype=np.float32)
    for count in (0, 1, 3, 2000):
        raw = numpy_helper.from_array(values[:count], "w")
        typed = helper.make_tensor("w", onnx.TensorProto.FLOAT, [count], values[:count].tolist())
        keys = [payload_key(onnxwire.TensorProto.FromString(tensor.SerializeToString())) for tensor in (raw, typed)]
        assert isinstance(keys[0], bytes), count
        assert keys[0] == keys[1], count


def test_the_key_of_a_damaged_payload_is_a_text():
    for fields in ({"dims": [-1]}, {"dims": [2]}, {"data_type": 99}, {"float_data": [1.0]}):
        tensor = onnxwire.TensorProto(**{"dims": [1], "data_type": 1, "raw_data": bytes(4), **fields})
        assert isinstance(payload_key(tensor), str), fields


def test_the_repair_of_pairs_ends_at_the_limit_of_votes(monkeypatch):
    # Two random graphs, whose nodes all have the same operator, so that pairs of nodes need many repairs. In a repair,
    # the edges of a node vote for a partner of the node; the total number of votes is limited.
    rng = random.Random(3)
    old, new = (
        helper.make_model(
            helper.make_graph(
                [helper.make_node("Add", ["x", f"v{rng.randrange(i)}" if i else "x"], [f"v{i}"]) for i in range(200)],
                "hub",
                [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)],
                [],
            )
        )
        for _ in range(2)
    )
    n_changes = len(changes(old, new))
    monkeypatch.setattr(structure_match, "_MIN_TOTAL_VOTES", 0)
    monkeypatch.setattr(structure_match, "_TOTAL_VOTES_PER_EDGE", 0)
    assert 0 < n_changes <= len(changes(old, new)) <= 400
    assert changes(old, old) == []


def test_damaged_tensors_of_equal_bytes_are_equal_and_others_raise():
    def model_with_weight(name, data):
        result = chain(["Add"], [1])
        result.graph.initializer[0].raw_data = data
        result.graph.initializer[0].name = result.graph.node[0].input[1] = name
        return result

    # A scalar float has 4 bytes.
    assert changes(model_with_weight("a", b"12345"), model_with_weight("b", b"12345")) == []
    with pytest.raises(onnxwire.TensorError, match="raw_data has 5"):
        changes(model_with_weight("a", b"12345"), model_with_weight("b", b"12354"))


def test_long_damaged_tensors_of_equal_bytes_are_equal_and_others_raise():
    def model_with_weight(last_byte):
        result = chain(["Add"], [1])
        result.graph.initializer[0].raw_data = bytes((1 << 26) + 1) + last_byte
        return onnxwire.ModelProto.FromString(result.SerializeToString())

    assert changes(model_with_weight(b"1"), model_with_weight(b"1")) == []
    with pytest.raises(onnxwire.TensorError, match="raw_data has 67,108,866"):
        changes(model_with_weight(b"1"), model_with_weight(b"2"))


@pytest.mark.parametrize("has_types", [False, True])
def test_matches_without_one_element_per_vertex_are_rejected(has_types):
    from array import array

    from onnxwire.analysis.flat_graph import FlatGraph, Interner, changed_types

    info = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1])
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    graph = helper.make_graph(nodes, "g", [], [], value_info=[info] * has_types)
    model = onnxwire.ModelProto.FromString(helper.make_model(graph).SerializeToString())
    flat_graph = FlatGraph(model, Interner(), lambda tensor: b"")
    with pytest.raises(IndexError, match="one element per vertex"):
        changed_types(flat_graph, flat_graph, array("i", [0]))
