"""`onnxwire rename` renames nodes, and values wherever they are used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf import text_format
from graphs import nested_model
from onnx import helper

import onnxwire
from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def rename_in_model(tmp_path):
    """Return a function that renames values or nodes of a model, and returns the result as an official model.

    The function asserts that the official checker accepts the result.
    """

    def rename(model, *arguments):
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        assert main(["rename", str(tmp_path / "m.onnx"), *arguments, "-o", str(tmp_path / "out.onnx")]) == 0
        renamed_model = onnx.load(tmp_path / "out.onnx")
        onnx.checker.check_model(renamed_model, full_check=True)
        return renamed_model

    return rename


@pytest.fixture
def refusal(tmp_path, capsys):
    """Return a function that asserts that a renaming fails, and returns its one-line error."""

    def rename(model, *arguments):
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        assert main(["rename", str(tmp_path / "m.onnx"), *arguments, "-o", str(tmp_path / "out.onnx")]) == 2
        assert not (tmp_path / "out.onnx").exists()
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        return err

    return rename


def replace_names(model, **names):
    """Return a copy of a model with each quoted string that equals an old name replaced by the new one."""
    text = str(model)
    for old, new in names.items():
        text = text.replace(f'"{old}"', f'"{new}"')
    return text_format.Parse(text, onnx.ModelProto())


@pytest.mark.parametrize("old", ["x", "h", "w", "y", "z", "flag", "s"])
def test_a_value_is_renamed_everywhere(rename_in_model, old):
    assert rename_in_model(nested_model(), old, "new") == replace_names(nested_model(), **{old: "new"})


def test_the_renamed_model_computes_the_same_values(rename_in_model):
    renamed_model = rename_in_model(nested_model(), "x", "image", "h", "hidden", "w", "weight")
    session = onnxruntime.InferenceSession(renamed_model.SerializeToString())
    assert session.run(["z"], {"image": np.float32([1, 2]), "flag": np.array(False)})[0].tolist() == [4, 12]


def test_two_values_swap_their_names(rename_in_model):
    # The expected model is made with the temporary name "#".
    assert rename_in_model(nested_model(), "h", "y", "y", "h") == replace_names(
        nested_model(), h="#", y="h", **{"#": "y"}
    )


def test_a_value_of_a_subgraph_is_renamed_there(rename_in_model):
    assert rename_in_model(nested_model(), "Add_out", "new") == replace_names(nested_model(), Add_out="new")


def test_a_value_of_several_functions_is_renamed_in_each_of_them(rename_in_model):
    assert rename_in_model(nested_model(), "a", "new") == replace_names(nested_model(), a="new")


def test_a_value_that_shadows_another_keeps_its_name():
    model = onnxwire.ModelProto()
    model.graph.input.add(name="v")
    body = model.graph.node.add(op_type="Loop", input=["v"], output=["out"]).attribute.add(name="body").g
    body.input.add(name="v")
    body.node.add(op_type="Neg", input=["v"], output=["inner"])
    onnxwire.rename_values(model, {"v": "new"})
    assert model.graph.node[0].input[0] == "new"
    assert model.graph.node[0].attribute[0].g.node[0].input[0] == "v"


def test_values_in_training_info_are_renamed():
    model = onnxwire.ModelProto.FromString(nested_model().SerializeToString())
    training = model.training_info.add()
    training.algorithm.node.add(op_type="Sub", input=["w", "g"], output=["w_new"])
    training.update_binding.add(key="w", value="w_new")
    training.initialization_binding.add(key="w", value="start")
    training.initialization.node.add(op_type="Constant", output=["start"])
    onnxwire.rename_values(model, {"w": "weight", "w_new": "weight_new", "start": "begin"})
    training = model.training_info[0]
    assert list(training.algorithm.node[0].input) == ["weight", "g"]
    assert list(training.algorithm.node[0].output) == ["weight_new"]
    assert [(e.key, e.value) for e in training.update_binding] == [("weight", "weight_new")]
    assert [(e.key, e.value) for e in training.initialization_binding] == [("weight", "begin")]


def test_values_in_sharding_specs_are_renamed():
    model = onnxwire.ModelProto()
    model.graph.input.add(name="v")
    node = model.graph.node.add(input=["v"], output=["u"])
    node.device_configurations.add().sharding_spec.add(tensor_name="v")
    assert onnxwire.rename_values(model, {"v": "new"}) == 3
    assert model.graph.node[0].device_configurations[0].sharding_spec[0].tensor_name == "new"


def test_nodes_are_renamed(rename_in_model):
    renamed_model = rename_in_model(nested_model(), "--nodes", "first", "one", "branch_Add", "sum")
    assert renamed_model == replace_names(nested_model(), first="one", branch_Add="sum")


def test_verbose_prints_the_number_of_renamed_occurrences(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(DIGITS.read_bytes())
    assert main(["rename", str(path), "relu", "act", "-i", "-v"]) == 0
    assert capsys.readouterr() == ("", "onnxwire: renamed 3 occurrences\n")
    assert list(onnx.load(path).graph.node[4].output) == ["act"]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["nope", "n"], "there is no value called 'nope'"),
        (["flags", "n"], "did you mean 'flag'?"),
        (["x", "w"], "m.onnx: graph: a value called 'w' already exists"),
        (["x", "Add_out"], "graph.node[1].attribute[1].g: a value called 'Add_out' already exists"),
        (["Add_out", "w"], "graph: a value called 'w' already exists"),
        (["x", "n", "h", "n"], "two values can't both be renamed to 'n'"),
        (["x", ""], "which marks an omitted input or output"),
        (["x", "a", "x", "b"], "an old name occurs twice"),
        (["--nodes", "firts", "n"], "no node called 'firts'; did you mean 'first'?"),
        (["--nodes", "first", "call"], "graph.node[2]: a node called 'call' already exists"),
    ],
)
def test_an_impossible_rename_is_reported_in_one_line(refusal, names, text):
    assert text in refusal(nested_model(), *names)


def test_nodes_of_one_name_are_not_renamed_together(refusal):
    model = onnx.ModelProto()
    model.graph.node.extend(helper.make_node("Relu", ["x"], [name], name="twin") for name in "ab")
    assert "by its path: graph.node[0], graph.node[1]" in refusal(model, "--nodes", "twin", "other")


def test_names_come_in_pairs(capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["rename", str(DIGITS), "image", "-o", "-"])
    assert excinfo.value.code == 2
    assert "'image' has no new name" in capsys.readouterr().err
