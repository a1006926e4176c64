"""`onnxwire rm` removes the targets of paths, and lists values that are used but no longer defined.

With --bypass, it connects the consumers of the removed nodes to the first inputs of these nodes.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from graphs import nested_model

from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def remove_paths(tmp_path):
    """Return a function that removes the targets of paths from a model, and returns the result as an official model."""

    def remove(*paths, model=None):
        (tmp_path / "m.onnx").write_bytes((model or onnx.load(DIGITS)).SerializeToString())
        assert main(["rm", str(tmp_path / "m.onnx"), *paths, "-o", str(tmp_path / "out.onnx")]) == 0
        return onnx.load(tmp_path / "out.onnx")

    return remove


def apply_edit(edit, model=None):
    """Call `edit` with an official model, by default that of DIGITS; return the model."""
    model = model or onnx.load(DIGITS)
    edit(model)
    return model


def delete_elements(values, *indexes):
    for index in sorted(indexes, reverse=True):
        del values[index]


@pytest.mark.parametrize(
    ("paths", "edit"),
    [
        (["node:node_relu"], lambda m: delete_elements(m.graph.node, 4)),
        (["graph.node[3:6]", "graph.node[-1]", "graph.node[4]"], lambda m: delete_elements(m.graph.node, 3, 4, 5, 16)),
        (
            ["graph.node[::2]", "graph.value_info[1::3]"],
            lambda m: (
                delete_elements(m.graph.node, *range(0, 17, 2)),
                delete_elements(m.graph.value_info, *range(1, 29, 3)),
            ),
        ),
        (
            ["tensor:features.0.weight.dims[1:3]", "tensor:features.0.weight.dims[0]"],
            lambda m: delete_elements(m.graph.initializer[0].dims, 0, 1, 2),
        ),
        (["graph.node[0]", "graph.node[1]"], lambda m: delete_elements(m.graph.node, 0, 1)),
        (["tensor:features.0.bias", "tensor:features.0.weight"], lambda m: delete_elements(m.graph.initializer, 0, 1)),
        (["graph.value_info"], lambda m: m.graph.ClearField("value_info")),
        (["graph.value_info", "graph.value_info[0]"], lambda m: m.graph.ClearField("value_info")),
        (["producer_name"], lambda m: m.ClearField("producer_name")),
        (["graph.input[0].type"], lambda m: m.graph.input[0].ClearField("type")),
        (["graph.node[2].attribute[0]", "graph.node[2]"], lambda m: delete_elements(m.graph.node, 2)),
        (["node:node_conv2d.input[2]"], lambda m: delete_elements(m.graph.node[2].input, 2)),
        (["tensor:features.0.bias.dims"], lambda m: m.graph.initializer[1].ClearField("dims")),
    ],
)
def test_only_the_elements_at_the_paths_are_removed(remove_paths, paths, edit):
    assert remove_paths(*paths) == apply_edit(edit)


def test_removing_a_used_value_causes_a_warning(remove_paths, capsys):
    remove_paths("node:first", "tensor:s", model=nested_model())
    assert capsys.readouterr().err == "onnxwire: warning: removed, but still used: h\n"
    remove_paths("graph.initializer", model=nested_model())
    assert capsys.readouterr().err == "onnxwire: warning: removed, but still used: w\n"


def test_a_node_without_consumers_is_removed_without_a_warning(remove_paths, capsys):
    assert remove_paths("node:unused", model=nested_model()) == apply_edit(
        lambda m: delete_elements(m.graph.node, 3), nested_model()
    )
    assert capsys.readouterr().err == ""


def test_in_place_replaces_the_file(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    assert main(["rm", str(path), "graph.value_info", "-i"]) == 0
    assert len(onnx.load(path).graph.value_info) == 0


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("node:nope", "there is no node called 'nope'"),
        ("doc_string", "the field is not set, so it can't be removed"),
        ("tensor:features.0.bias[0:2]", "a part of a value can't be removed"),
        ("tensor:features.0.bias.raw_data[0:4]", "a part of a value can't be removed"),
        ("graph.node[0].name[0]", "a part of a value can't be removed"),
        ("", "the root message can't be removed"),
    ],
)
def test_an_impossible_removal_is_reported_in_one_line(tmp_path, capsys, path, text):
    out = tmp_path / "out.onnx"
    assert main(["rm", str(DIGITS), path, "-o", str(out)]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_consumers_of_a_bypassed_node_read_the_input_of_the_node(tmp_path):
    out = tmp_path / "out.onnx"
    assert main(["rm", str(DIGITS), "--bypass", "node:node_relu", "graph.node[7]", "-o", str(out)]) == 0
    model, bypassed_model = onnx.load(DIGITS), onnx.load(out)
    assert [node.name for node in bypassed_model.graph.node] == [
        node.name for index, node in enumerate(model.graph.node) if index not in (4, 7)
    ]
    first_inputs = {node.name: node.input[0] for node in bypassed_model.graph.node if node.input}
    assert first_inputs["node_conv2d_1"] == model.graph.node[4].input[0]
    onnx.checker.check_model(bypassed_model)


def test_a_bypass_of_a_path_that_is_not_a_node_is_an_error(tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["rm", str(DIGITS), "--bypass", "graph.node[1:3]", "-o", str(out)]) == 2
    assert "does not name a node" in capsys.readouterr().err
    assert not out.exists()
