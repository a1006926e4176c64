"""`onnxwire infer` and `onnxwire convert-version` apply functions of the official package to files."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from graphs import nested_model
from onnx import helper, shape_inference, version_converter

from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def nested_path(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(nested_model().SerializeToString())
    return path


def test_shapes_are_inferred_as_the_official_package_does(tmp_path, nested_path):
    for path in (DIGITS, nested_path):
        assert main(["infer", str(path), "-o", str(tmp_path / "out.onnx")]) == 0
        assert onnx.load(tmp_path / "out.onnx") == shape_inference.infer_shapes(onnx.load(path))


def test_options_are_passed_to_the_official_function(tmp_path, monkeypatch):
    passed_options = []

    def infer(data, *options):
        passed_options.append(options)
        return onnx.load_from_string(data)

    monkeypatch.setattr(shape_inference, "infer_shapes", infer)
    for options in ([], ["--check-type"], ["--strict"], ["--data-prop"]):
        assert main(["infer", str(DIGITS), *options, "-o", str(tmp_path / "out.onnx")]) == 0
    assert passed_options == [(False, False, False), (True, False, False), (False, True, False), (False, False, True)]


def test_a_model_is_converted_in_place(nested_path):
    expected_model = version_converter.convert_version(onnx.load(DIGITS), 21)
    path = nested_path.with_name("digits.onnx")
    path.write_bytes(DIGITS.read_bytes())
    assert main(["convert-version", str(path), "21", "-i"]) == 0
    assert onnx.load(path) == expected_model


@pytest.mark.parametrize("command", [["infer", "--strict"], ["convert-version", "99"]], ids=lambda words: words[0])
def test_a_rejection_by_the_official_package_is_reported_in_one_line(tmp_path, capsys, command):
    graph = helper.make_graph([helper.make_node("Relu", ["x", "x"], ["y"])], "g", [], [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    name, *options = command
    assert main([name, str(path), *options, "-o", str(tmp_path / "out.onnx")]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"onnxwire: {path}: the onnx package rejects the model: ")
    assert err.count("\n") == 1
    assert not (tmp_path / "out.onnx").exists()
    assert "Assertion" not in err
