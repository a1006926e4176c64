"""`onnxwire dims` lists and changes dimensions."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import onnxwire
from onnxwire.cli import main

DIGITS = str(Path(__file__).parents[2] / "examples" / "digits_cnn.onnx")


def test_inputs_and_outputs_are_listed(capsys):
    assert main(["dims", DIGITS]) == 0
    assert capsys.readouterr() == ("input   image   float[batch, 1, 8, 8]\noutput  logits  float[batch, 10]\n", "")


@pytest.mark.parametrize("words", [["--set", "batch=4"], ["--set", "input:image[0]=4"], ["--set", "image[-4]=4"]])
def test_a_new_size_of_an_input_is_propagated_to_the_outputs(words, tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert main(["dims", DIGITS, *words, "-v", "--output", str(out)]) == 0
    assert capsys.readouterr().err == "onnxwire: changed 12 dimensions\n"
    assert main(["dims", str(out)]) == 0
    assert capsys.readouterr().out == "input   image   float[4, 1, 8, 8]\noutput  logits  float[4, 10]\n"
    onnx.checker.check_model(onnx.load(out), full_check=True)


def test_a_variable_is_renamed_in_place(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(Path(DIGITS).read_bytes())
    assert main(["dims", str(path), "--rename", "batch=N", "--in-place", "--no-infer"]) == 0
    assert main(["dims", str(path)]) == 0
    assert "float[N, 10]" in capsys.readouterr().out


def test_a_fixed_batch_becomes_dynamic_with_warnings(tmp_path, capsys):
    path = tmp_path / "m.onnx"
    assert main(["dims", DIGITS, "--set", "batch=1", "-o", str(path), "--no-progress"]) == 0
    capsys.readouterr()
    assert main(["dims", str(path), "--dynamic", "N", "-i"]) == 0
    err = capsys.readouterr().err
    assert "warning: the shapes of these values could not be inferred; now unknown: logits, view, " in err
    assert main(["dims", str(path)]) == 0
    assert "input   image   float[N, 1, 8, 8]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--set", "batch", "-i"], "batch: write NAME=VALUE, such as batch=4"),
        (["--set", "=4", "-i"], "=4: write NAME=VALUE"),
        (["--set", "batch=4", "--set", "batch=5", "-i"], "batch: it can't become both 4 and 5"),
        (["--set", "no=4", "-i"], "no: there is no dimension variable of this name"),
    ],
)
def test_a_wrong_change_prints_one_line_and_modifies_nothing(words, reason, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_bytes(Path(DIGITS).read_bytes())
    assert main(["dims", str(path), *words]) == 2
    err = capsys.readouterr().err
    assert reason in err
    assert err.count("\n") == 1
    assert path.read_bytes() == Path(DIGITS).read_bytes()


@pytest.mark.parametrize("words", [["-i"], ["--no-infer"], ["--set", "batch=4"]])
def test_an_option_without_the_option_that_it_requires_is_rejected(words, capsys):
    with pytest.raises(SystemExit):
        main(["dims", DIGITS, *words])
    assert "requir" in capsys.readouterr().err


def test_hostile_names_are_printed_in_one_line(tmp_path, capsys):
    model = onnxwire.ModelProto(ir_version=8)
    hostile_name = "a\x1b[2J\n<script>\u202e" + "x" * 10_000
    shape = model.graph.input.add(name=hostile_name).type.tensor_type.shape
    shape.dim.add(dim_param=hostile_name)
    shape.dim.add(dim_value=-5)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    assert main(["dims", str(tmp_path / "m.onnx")]) == 0
    out, _ = capsys.readouterr()
    assert out.count("\n") == 1 and out[:-1].isprintable()
    assert main(["dims", str(tmp_path / "m.onnx"), "--set", f"{hostile_name}[1]=7", "--no-infer", "-i"]) == 0
    assert onnxwire.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.shape.dim[1].dim_value == 7
    assert main(["dims", str(tmp_path / "m.onnx"), "--set", "x=7", "-i"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
