"""`onnxwire encode` converts text to the same bytes as protoc and the official runtime."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import forked_commands
import onnx
import pytest
from google.protobuf import json_format, text_format
from terminal import run_on_terminal

from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
TEXT = 'ir_version: 8\nproducer_name: "é"\ngraph { node { op_type: "Relu" input: [\'x\'] } }\n'
JSON = '{"irVersion": "8", "producerName": "é", "graph": {"node": [{"opType": "Relu", "input": ["x"]}]}}'
BYTES = text_format.Parse(TEXT, onnx.ModelProto()).SerializeToString()


def encode(*arguments, stdin=b"", stdout=subprocess.PIPE):
    """Run the command in a process; return the completed process."""
    return forked_commands.run("encode", *arguments, input=stdin, stdout=stdout)


def check_refusal(result, start):
    """Assert status 2, an empty stdout, and one line on stderr, which begins with `onnxwire: ` and `start`."""
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.startswith(f"onnxwire: {start}".encode())
    assert result.stderr.count(b"\n") == 1


@pytest.mark.parametrize("arguments", [[], ["-"]])
@pytest.mark.parametrize(("text", "options"), [(TEXT, []), (JSON, ["--json"])])
def test_stdin_becomes_a_binary_file_on_stdout(text, options, arguments):
    result = encode(*options, *arguments, stdin=text.encode())
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout == BYTES


@pytest.mark.parametrize(("text", "options"), [(TEXT, []), (JSON, ["--json"])])
def test_a_file_becomes_a_file(text, options, tmp_path):
    path, out = tmp_path / "model.txt", tmp_path / "model.onnx"
    path.write_text(text, encoding="utf-8")
    out.write_bytes(b"an older file, which is longer than the new one" * 100)
    result = encode(path, *options, "-o", out)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")
    assert out.read_bytes() == BYTES


def test_unknown_fields_are_ignored_on_request():
    newer_inputs = {"text": TEXT + "newer { thing: 5 }", "json": JSON.replace("{", '{"newer": [{"thing": 5}], ', 1)}
    for form, options in (("text", []), ("json", ["--json"])):
        check_refusal(encode(*options, stdin=newer_inputs[form].encode()), "")
        result = encode(*options, "--ignore-unknown", stdin=newer_inputs[form].encode())
        assert (result.returncode, result.stderr, result.stdout) == (0, b"", BYTES)


def test_a_retired_field_is_skipped_with_a_warning():
    result = encode(stdin=TEXT.replace("graph {", "graph { producer_tag: 'x' ").encode())
    assert (result.returncode, result.stdout) == (0, BYTES)
    assert result.stderr.startswith(
        b"onnxwire: warning: <stdin>: graph: line 3, column 9: GraphProto no longer has the field 'prod"
    )


def test_a_message_of_any_type_is_encoded():
    result = encode("--type", "TensorProto", stdin=b'dims: 2 data_type: 1 raw_data: "\\000\\377"')
    assert result.stdout == onnx.TensorProto(dims=[2], data_type=1, raw_data=b"\0\xff").SerializeToString()
    assert encode("--type", "NoProto").returncode == 2


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_encode_reverses_dump(options, tmp_path):
    assert main(["dump", str(DIGITS), *options, "-o", str(tmp_path / "text")]) == 0
    assert main(["encode", str(tmp_path / "text"), *options, "-o", str(tmp_path / "model.onnx")]) == 0
    assert (tmp_path / "model.onnx").read_bytes() == DIGITS.read_bytes()


def test_text_of_the_official_runtime_is_encoded_to_the_same_model():
    model = onnx.load(DIGITS)
    assert encode(stdin=text_format.MessageToBytes(model)).stdout == model.SerializeToString()
    assert encode("--json", stdin=json_format.MessageToJson(model).encode()).stdout == model.SerializeToString()


@pytest.mark.skipif(shutil.which("protoc") is None, reason="needs protoc")
def test_bytes_are_those_of_protoc(tmp_path):
    proto = Path(onnx.__file__).parent / "onnx-ml.proto"
    command = ["protoc", "--encode=onnx.ModelProto", f"-I{proto.parent}", proto]
    result = subprocess.run(command, input=TEXT.encode(), capture_output=True, check=True)
    assert encode(stdin=TEXT.encode()).stdout == result.stdout


def test_a_fault_prints_one_line_and_writes_nothing(tmp_path):
    path, out = tmp_path / "model\n.txt", tmp_path / "out.onnx"
    path.write_text('graph {\n  nod { }\n}\nproducer_name: "x"')
    out.write_bytes(b"as before")
    name = str(path).replace("\n", "\\n")
    check_refusal(encode(path, "-o", out), f"{name}: graph: line 2, column 3: GraphProto has no field 'nod'")
    check_refusal(encode(path, "--json", "-o", out), f"{name}: line 1, column 1: expected an object, found 'graph'")
    check_refusal(
        encode("-o", out, stdin=b"ir_version: 1 \xff"), "<stdin>: line 1, column 15: the byte 0xff is not valid utf-8"
    )
    check_refusal(encode("-o", out, stdin=b'"'), "<stdin>: line 1, column 1: expected a field, found")
    assert out.read_bytes() == b"as before"
    assert sorted(os.listdir(tmp_path)) == ["model\n.txt", "out.onnx"]


def test_files_that_cannot_be_opened_are_named(tmp_path):
    (tmp_path / "model.txt").write_text(TEXT)
    check_refusal(encode(tmp_path / "absent.txt"), f"{tmp_path / 'absent.txt'}: No such file or directory")
    check_refusal(encode(tmp_path), f"{tmp_path}: Is a directory")
    check_refusal(encode(tmp_path / "model.txt", "-o", tmp_path / "no" / "out.onnx"), str(tmp_path / "no"))
    check_refusal(encode(tmp_path / "model.txt", "-o", tmp_path), str(tmp_path))


def test_the_input_text_is_not_overwritten(tmp_path):
    (tmp_path / "model.txt").write_text(TEXT)
    (tmp_path / "link").symlink_to(tmp_path / "model.txt")
    check_refusal(encode(tmp_path / "model.txt", "-o", tmp_path / "link"), f"{tmp_path / 'link'}: this is the input")
    assert (tmp_path / "model.txt").read_text() == TEXT


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs terminals")
def test_no_binary_file_is_written_to_a_terminal():
    controller, terminal = os.openpty()
    try:
        result = encode(stdin=TEXT.encode(), stdout=terminal)
        assert result.returncode == 2
        assert (
            result.stderr
            == b"onnxwire: <stdout>: a terminal can't show a binary file; name a file after -o, or redirect stdout\n"
        )
    finally:
        os.close(controller)
        os.close(terminal)


def test_a_closed_pipe_is_not_an_error():
    read_end, write_end = os.pipe()
    os.close(read_end)
    result = encode(stdin=TEXT.encode(), stdout=write_end)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, b"")


def test_help_shows_examples(capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["encode", "--help"])
    assert excinfo.value.code == 0
    assert "onnxwire encode model.txt -o model.onnx" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("option", "is_drawn"), [([], True), (["--no-progress"], False)])
def test_a_progress_bar_is_drawn_on_a_terminal(tmp_path, option, is_drawn):
    (tmp_path / "m.txt").write_text("ir_version: 10")
    words = ["encode", "m.txt", "-o", "m.onnx", *option]
    status, output = run_on_terminal(*words, stream="stderr", cwd=tmp_path)
    assert status == 0
    assert (b"writing m.onnx" in output) == is_drawn
    assert (tmp_path / "m.onnx").read_bytes() == b"\x08\x0a"  # ir_version = 10
