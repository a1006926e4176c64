"""Commands write complete files or none, do not overwrite the weights of their input, and report errors of streams.

Library functions that write files do not overwrite these weights either.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onnxwire
from onnxwire import cli
from onnxwire.cli import cmd_dump

# Commands that write texts.
TEXT_COMMANDS = [("dump",), ("dump", "--json"), ("stats", "--csv"), ("stats", "--json"), ("stats",), ("view",)]
EVERY_TEXT_COMMAND = pytest.mark.parametrize("command", TEXT_COMMANDS, ids=" ".join)


@pytest.fixture
def model(tmp_path):
    """Return the path of a model whose weights are in the file "d"."""
    weight = onnxwire.from_array(np.arange(3000, dtype=np.float32), "w")
    path = tmp_path / "m.onnx"
    onnxwire.save(onnxwire.ModelProto(ir_version=10, graph={"name": "g", "initializer": [weight]}), path, external="d")
    return path


def run(command, path, out, capsys):
    """Run a command; return its status and stderr."""
    words = [command[0], path, *command[1:], "-o", out]
    return cli.main([*map(str, words)]), capsys.readouterr().err


@EVERY_TEXT_COMMAND
@pytest.mark.parametrize("name", ["m.onnx", "d", "link", "./d", "hard"])
def test_the_model_and_its_weights_are_not_overwritten(model, capsys, command, name):
    (model.parent / "link").symlink_to("d")
    if name == "hard":
        os.link(model.parent / "d", model.parent / "hard")
    contents_before = {file: file.read_bytes() for file in model.parent.iterdir()}
    status, error_text = run(command, model, f"{model.parent}/{name}", capsys)
    assert status == 2
    assert " another " in error_text
    assert {file: file.read_bytes() for file in model.parent.iterdir()} == contents_before


# Commands that write models.
MODEL_COMMANDS = [
    ("pack",), ("unpack",), ("set", "graph.name=new"), ("rm", "graph.name"), ("rename", "w", "v"), ("check", "--fix"),
    ("extract", "--outputs", "w"),
]  # fmt: skip


@pytest.mark.parametrize("command", MODEL_COMMANDS, ids=lambda command: command[0])
def test_the_weights_of_the_input_are_overwritten_only_by_save_with_overwrite(model, capsys, command):
    contents_before = {file: file.read_bytes() for file in model.parent.iterdir()}
    status, error_text = run(command, model, model.parent / "d", capsys)
    assert (status, {file: file.read_bytes() for file in model.parent.iterdir()}) == (2, contents_before)
    assert "the model's weights are in this file" in error_text
    with onnxwire.load(model) as loaded_model:
        onnxwire.save(loaded_model, model.parent / "d", external=None, overwrite=True)
    with onnxwire.load(model.parent / "d") as packed_model:
        assert packed_model.graph.initializer[0].numpy()[-1] == 2999


# Commands that remove or replace the tensor, or write files that are not models.
OTHER_COMMANDS = [
    ("rm", "tensor:w"), ("set", "tensor:w=@{folder}/new.npy"), ("sql", "from nodes", "--csv"),
    ("sql", "from nodes", "--json"), ("extract", "--tensor", "w"),
]  # fmt: skip


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".parquet", ".csv"])
@pytest.mark.parametrize("command", OTHER_COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_weights_are_not_overwritten_by_commands_that_remove_them_or_write_other_files(model, capsys, command, ending):
    if command[0] == "sql":
        pytest.importorskip("duckdb")
    elif command[0] == "extract" and ending in (".parquet", ".csv"):
        pytest.skip("tensors are not written to such files")
    with onnxwire.load(model) as loaded_model:
        onnxwire.save(loaded_model, model, external=f"w{ending}", threshold=0)
    np.save(model.parent / "new.npy", np.zeros(3))
    contents_before = {file: file.read_bytes() for file in model.parent.iterdir()}
    words = [word.format(folder=model.parent) for word in command]
    status, error_text = run(words, model, model.parent / f"w{ending}", capsys)
    assert (status, {file: file.read_bytes() for file in model.parent.iterdir()}) == (2, contents_before)
    assert "the model's weights are in this file" in error_text


@pytest.mark.parametrize("form", ["npy", "npz", "safetensors"])
def test_extracted_tensors_do_not_overwrite_their_source(model, form):
    pytest.importorskip("safetensors")
    with onnxwire.load(model) as loaded_model:
        tensor = loaded_model.graph.initializer[0]
        write = {
            "npy": lambda path: onnxwire.to_npy(tensor, path),
            "npz": lambda path: onnxwire.to_npz({"w": tensor}, path),
            "safetensors": lambda path: onnxwire.to_safetensors(loaded_model, path),
        }[form]
        with pytest.raises(onnxwire.SaveError, match="the model's weights are in this file"):
            write(model.parent / "d")
        assert write(model.parent / "other") > 12_000  # bytes: 3,000 floats and a header
    with onnxwire.load(model) as loaded_model:
        assert loaded_model.graph.initializer[0].numpy()[-1] == 2999


def test_a_new_model_does_not_overwrite_the_weights_that_it_took_from_another_model(model):
    data = model.parent / "d"
    content = data.read_bytes()
    with onnxwire.load(model) as loaded_model:
        new_model = onnxwire.ModelProto()
        new_model.graph.initializer.extend(loaded_model.graph.initializer)
        with pytest.raises(onnxwire.SaveError, match="the model's weights are in this file"):
            onnxwire.save(new_model, data)
    assert data.read_bytes() == content


@pytest.mark.parametrize("option", ["--arrow", "--parquet", "--plot"])
def test_no_output_of_stats_overwrites_the_weights(model, capsys, option):
    pytest.importorskip("pyarrow")
    weights = (model.parent / "d").rename(model.parent / "d.html")
    with onnxwire.load(model) as loaded_model:
        loaded_model.graph.initializer[0].external_data[0].value = "d.html"
        onnxwire.save(loaded_model, model)
    contents_before = weights.read_bytes()
    assert cli.main(["stats", str(model), option, str(weights)]) == 2
    assert "the model's weights are in this file" in capsys.readouterr().err
    assert weights.read_bytes() == contents_before


@EVERY_TEXT_COMMAND
def test_an_old_output_is_replaced_in_one_step(model, capsys, command):
    out = model.parent / "out"
    out.write_text("old")
    with out.open() as old_file:
        assert run(command, model, out, capsys) == (0, "")
        assert old_file.read() == "old"
    assert len(out.read_text()) > 30
    assert sorted(os.listdir(out.parent)) == ["d", "m.onnx", "out"]


@EVERY_TEXT_COMMAND
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_output_that_fails_is_reported_in_one_line(model, capsys, command):
    for out, reason in (("/dev/full", "No space left on device"), (f"{model.parent}/no/out", "there is no directory")):
        status, error_text = run(command, model, out, capsys)
        assert status == 2
        assert error_text.startswith(f"onnxwire: {out}: ")
        assert reason in error_text
        assert error_text.count("\n") == 1


@pytest.mark.parametrize("error", [onnxwire.SourceError(5, "Input/output error", "m.onnx"), OSError(5, "reading", "x")])
def test_an_error_while_reading_names_the_input_and_keeps_the_old_output(model, capsys, monkeypatch, error):
    def fail(message, out, **options):
        out.write("a part of it")
        raise error

    monkeypatch.setattr(cmd_dump, "to_text", fail)
    out = model.parent / "out"
    out.write_text("old")
    assert run(("dump",), model, out, capsys) == (2, f"onnxwire: {error.filename}: {error.strerror}\n")
    assert out.read_text() == "old"
    assert sorted(os.listdir(out.parent)) == ["d", "m.onnx", "out"]


def test_a_pipe_given_by_path_and_closed_by_its_reader_is_an_error(model, capsys):
    read_end, write_end = os.pipe()
    os.close(read_end)
    assert cli.main(["pack", str(model), "-o", f"/dev/fd/{write_end}"]) == 2
    assert "Broken pipe" in capsys.readouterr().err
    os.close(write_end)


def test_a_command_ends_quietly_if_the_reader_of_stdout_closes_it(model):
    read_end, write_end = os.pipe()
    os.close(read_end)
    words = [sys.executable, "-P", "-m", "onnxwire", "pack", str(model), "-o", "-"]
    result = subprocess.run(words, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, b"")


NEEDS_SHELL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full and a shell")


def run_in_shell(model, command):
    """Run `onnxwire` with redirections of a shell; return the status and stderr."""
    line = f"{sys.executable} -P -m onnxwire {command}"
    result = subprocess.run(["sh", "-c", line], cwd=model.parent, capture_output=True, text=True, check=False)
    return result.returncode, result.stderr


@NEEDS_SHELL
@pytest.mark.parametrize(
    "command",
    ["info m.onnx", "info --json m.onnx", "ls m.onnx", "check m.onnx --sarif", "dump m.onnx", "pack m.onnx -o -",
     "diff m.onnx m.onnx --json", "stats m.onnx", "show m.onnx tensor:w", "completion bash",
     "--help", "info --help", "--version"],
)  # fmt: skip
@pytest.mark.parametrize(
    ("redirection", "reason"), [(">/dev/full", "No space left on device"), (">&-", "Bad file descriptor")]
)
def test_a_stdout_that_cannot_be_written_is_an_error(model, command, redirection, reason):
    status, error_text = run_in_shell(model, f"{command} {redirection}")
    assert status == 2
    assert error_text.startswith(f"onnxwire: <stdout>: {reason}")
    assert error_text.count("\n") == 1


@NEEDS_SHELL
@pytest.mark.parametrize("redirection", [">/dev/full", ">&-", "<&-"])
def test_an_unused_stream_that_is_full_or_closed_is_not_an_error(model, redirection):
    assert run_in_shell(model, f"set m.onnx producer_name=a -o out.onnx --no-progress {redirection}") == (0, "")
    with onnxwire.load(model.parent / "out.onnx") as edited_model:
        assert edited_model.producer_name == "a"


@NEEDS_SHELL
@pytest.mark.parametrize("command", ["encode -o out.onnx", "check -"])
def test_a_closed_stdin_is_an_error(model, command):
    assert run_in_shell(model, f"{command} <&-") == (2, "onnxwire: <stdin>: Bad file descriptor\n")


@NEEDS_SHELL
@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_the_exit_status_reports_errors_without_stderr(model, redirection):
    assert run_in_shell(model, f"info nothing.onnx {redirection}")[0] == 2
    assert run_in_shell(model, f"info {redirection}")[0] == 2
    assert run_in_shell(model, f"set m.onnx producer_name=a -o out.onnx {redirection}")[0] == 0
