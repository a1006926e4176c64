"""Errors of the command line name options and commands, not Python functions, and suggest corrections."""

from __future__ import annotations

import pytest

import onnxwire
from onnxwire.cli import main
from onnxwire.cli.advice import shell_advice

TENSOR = onnxwire.TensorProto(dims=[2], data_type=1, float_data=[1, 2], name="t")


@pytest.mark.parametrize("command", [["info"], ["check"], ["ls"], ["diff", "m.onnx"], ["set", "a=b", "-i"]])
def test_the_error_for_another_message_type_suggests_the_type_option(command, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(TENSOR.SerializeToString())
    assert main([command[0], "m.onnx", *command[1:]]) == 2
    text = "this looks like TensorProto, not ModelProto; use --type TensorProto, with a command that has it, such as"
    assert text in capsys.readouterr().err


def test_the_error_for_a_text_form_names_the_command_that_reads_it(tmp_path, capsys) -> None:
    path = tmp_path / "m.txt"
    path.write_text("ir_version: 8\ngraph {\n}\n")
    assert main(["info", str(path)]) == 2
    assert "but its text form; convert it with `onnxwire encode`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("library_text", "command_text"),
    [
        (
            "copy the file there, or pass its folder as external_root=",
            "as --external-root, if the command has this option",
        ),
        (
            "copy it, or save with external= to write the data into the new file or beside it",
            "or run `onnxwire pack` on",
        ),
        ("run onnxwire.infer_shapes on the model first to add the types", "run `onnxwire infer` on the model first"),
    ],
)
def test_advice_for_python_functions_becomes_advice_for_commands(library_text, command_text) -> None:
    text = shell_advice(library_text)
    assert command_text in text and "=" not in text and "onnxwire." not in text


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["m.onnx"], "the first word must be a command, not a file; for a summary of the file: onnxwire info m.onnx"),
        (
            ["https://u:p@h/x"],
            "the first word must be a command, not a file; for a summary of the file: onnxwire info https://h/x",
        ),
        (["ls", "m.onnx", "--jsn"], "unrecognized arguments: --jsn; did you mean '--json'?"),
        (["ls", "m.onnx", "--sart=name"], "unrecognized arguments: --sart=name; did you mean '--sort'?"),
        (["ls", "m.onnx", "--qqqq"], "unrecognized arguments: --qqqq"),
    ],
)
def test_the_error_for_a_wrong_word_names_it_and_suggests_an_alternative_if_there_is_one(words, reason, capsys) -> None:
    with pytest.raises(SystemExit) as excinfo:
        main(words)
    assert excinfo.value.code == 2
    separator = "" if reason.endswith("?") else ";"
    assert capsys.readouterr().err.startswith(f"onnxwire: {reason}{separator} see `onnxwire ")
