"""`onnxwire unpack` and `onnxwire pack` move weights out of a model and back, and change nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import forked_commands
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from terminal import run_on_terminal

import onnxwire
from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
MODEL = onnx.load(DIGITS)
LARGE_TENSORS = {tensor.name for tensor in MODEL.graph.initializer if len(tensor.raw_data) >= 1024}


def run(*arguments, cwd, stdout=subprocess.PIPE):
    """Run a command in a process; return the completed process."""
    return forked_commands.run(*arguments, cwd=cwd, stdout=stdout)


def run_silently(*arguments, cwd):
    """Run a command; assert that it succeeds without output."""
    result = run(*arguments, cwd=cwd)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def check_refusal(result, text):
    """Assert that a command ended with a one-line error and status 2."""
    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.decode() == f"onnxwire: {text}\n"


def check_model(path):
    """Assert that the official runtime loads MODEL from a path."""
    model = onnx.load(path)
    for tensor, official_tensor in zip(model.graph.initializer, MODEL.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), numpy_helper.to_array(official_tensor))
        tensor.CopyFrom(official_tensor)
    assert model == MODEL


def external_tensors(path):
    """Return the TensorInfo of each tensor with external data, by the name of the tensor."""
    return {info.name: info for info in onnxwire.tensors(path) if info.location is not None}


@pytest.fixture
def folder(tmp_path):
    """Return a folder that contains the model as m.onnx."""
    (tmp_path / "m.onnx").write_bytes(DIGITS.read_bytes())
    return tmp_path


def test_unpack_moves_large_weights_to_the_new_models_folder(folder):
    run_silently("unpack", "m.onnx", "-o", "out.onnx", cwd=folder)
    assert sorted(os.listdir(folder)) == ["m.onnx", "out.data", "out.onnx"]
    assert (folder / "m.onnx").read_bytes() == DIGITS.read_bytes()
    check_model(folder / "out.onnx")
    assert set(external_tensors(folder / "out.onnx")) == LARGE_TENSORS
    assert {info.location for info in external_tensors(folder / "out.onnx").values()} == {"out.data"}


def test_pack_after_unpack_restores_the_original_bytes(folder):
    run_silently("unpack", "m.onnx", "-o", "out.onnx", cwd=folder)
    run_silently("pack", "out.onnx", "-o", "back.onnx", cwd=folder)
    assert (folder / "back.onnx").read_bytes() == DIGITS.read_bytes()


def test_pack_and_unpack_work_in_place(folder):
    run_silently("unpack", "m.onnx", "-o", "m.onnx", cwd=folder)
    check_model(folder / "m.onnx")
    assert (folder / "m.onnx").stat().st_size < 30_000
    run_silently("unpack", "m.onnx", "-o", "m.onnx", "--align", "64", cwd=folder)
    check_model(folder / "m.onnx")
    run_silently("pack", "m.onnx", "-o", "m.onnx", cwd=folder)
    assert (folder / "m.onnx").read_bytes() == DIGITS.read_bytes()


def test_pack_reads_external_data_of_the_official_package(folder):
    (folder / "official").mkdir()
    onnx.save(onnx.load(DIGITS), folder / "official" / "m.onnx", save_as_external_data=True, location="weights")
    run_silently("pack", "official/m.onnx", "-o", "packed.onnx", cwd=folder)
    check_model(folder / "packed.onnx")
    assert not external_tensors(folder / "packed.onnx")


def test_data_is_written_to_one_file_or_one_per_tensor_or_shards(folder):
    run_silently("unpack", "m.onnx", "-o", "one.onnx", "--data", "weights/one.bin", cwd=folder)
    run_silently("unpack", "m.onnx", "-o", "each.onnx", "--data", "each/{name}.bin", cwd=folder)
    run_silently("unpack", "m.onnx", "-o", "shards.onnx", "--shard-size", "100K", cwd=folder)
    for name in ("one", "each", "shards"):
        check_model(folder / f"{name}.onnx")
    assert os.listdir(folder / "weights") == ["one.bin"]
    assert set(os.listdir(folder / "each")) == {f"{name}.bin" for name in LARGE_TENSORS}
    shards = {info.location for info in external_tensors(folder / "shards.onnx").values()}
    assert shards == {f"shards-{i:05}-of-{len(shards):05}.data" for i in range(1, len(shards) + 1)}
    assert len(shards) > 1


def test_a_model_name_may_look_like_a_pattern(folder):
    run_silently("unpack", "m.onnx", "-o", "{name}.onnx", cwd=folder)
    check_model(folder / "{name}.onnx")
    assert (folder / "{name}.data").exists()


def test_threshold_alignment_and_checksums_follow_the_options(folder):
    run_silently("unpack", "m.onnx", "-o", "out.onnx", "--threshold", "16K", "--align", "64k", "--checksum", cwd=folder)
    check_model(folder / "out.onnx")
    infos = external_tensors(folder / "out.onnx").values()
    assert {info.nbytes >= 16384 for info in infos} == {True}
    assert {info.offset % 65536 for info in infos} == {0}
    digest = hashlib.sha1((folder / "out.data").read_bytes()).hexdigest()
    tensors = onnx.load(folder / "out.onnx", load_external_data=False).graph.initializer
    entries = [entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "checksum"]
    assert entries == [digest] * len(infos)


def test_packed_weights_are_aligned_on_request(folder):
    run_silently("unpack", "m.onnx", "-o", "out.onnx", cwd=folder)
    run_silently("pack", "out.onnx", "-o", "packed.onnx", "--inline-align", "4K", "--threshold", "2K", cwd=folder)
    check_model(folder / "packed.onnx")
    tensors = onnxwire.tensors(folder / "packed.onnx")
    assert {info.offset % 4096 for info in tensors if info.nbytes >= 2048} == {0}


@pytest.mark.parametrize("size", ["", "1X", "-1", "1.5G", "0x10", "9999999999G", "two"])
def test_an_invalid_size_is_rejected(folder, size):
    result = run("unpack", "m.onnx", "-o", "out.onnx", f"--align={size}", cwd=folder)
    assert result.returncode == 2
    assert f"{size!r} is not a size; write it as 4096, 64K, 500M or 2G".encode() in result.stderr
    assert os.listdir(folder) == ["m.onnx"]


def test_packing_to_stdout_prints_only_the_model(folder):
    run_silently("unpack", "m.onnx", "-o", "out.onnx", cwd=folder)
    result = run("pack", "out.onnx", "-o", "-", "-v", cwd=folder)
    assert (result.returncode, result.stdout, result.stderr) == (0, DIGITS.read_bytes(), b"")


def test_verbose_lists_the_written_files(folder):
    result = run("unpack", "m.onnx", "-o", "out.onnx", "-v", cwd=folder)
    assert (result.returncode, result.stdout) == (0, b"")
    sizes = [(folder / name).stat().st_size for name in ("out.onnx", "out.data")]
    inline_count = len(onnxwire.tensors(DIGITS)) - len(LARGE_TENSORS)
    assert result.stderr.decode().splitlines() == [
        f"out.onnx: {sizes[0]:,} bytes, {inline_count} tensors",
        f"out.data: {sizes[1]:,} bytes, {len(LARGE_TENSORS)} tensors",
    ]


def test_an_existing_file_is_replaced_only_with_overwrite(folder):
    (folder / "out.data").write_text("mine")
    reason = (
        "the existing file contains other data than the old model's; pass --overwrite to replace it, or choose another "
        "name"
    )
    check_refusal(run("unpack", "m.onnx", "-o", "out.onnx", cwd=folder), f"{folder}/out.data: {reason}")
    assert (folder / "out.data").read_text() == "mine"
    assert sorted(os.listdir(folder)) == ["m.onnx", "out.data"]
    run_silently("unpack", "m.onnx", "-o", "out.onnx", "--overwrite", cwd=folder)
    check_model(folder / "out.onnx")


def test_missing_data_is_named_and_found_in_the_external_root(folder):
    (folder / "elsewhere").mkdir()
    run_silently("unpack", "m.onnx", "-o", "out.onnx", cwd=folder)
    (folder / "out.data").rename(folder / "elsewhere" / "out.data")
    for command in ("pack", "unpack"):
        result = run(command, "out.onnx", "-o", "new.onnx", cwd=folder)
        assert (result.returncode, result.stdout, result.stderr.count(b"\n")) == (2, b"", 1)
        assert result.stderr.startswith(b"onnxwire: out.data: No such file or directory")
        assert not (folder / "new.onnx").exists()
        run_silently(command, "out.onnx", "-o", f"{command}.onnx", "--external-root", "elsewhere", cwd=folder)
        check_model(folder / f"{command}.onnx")
    result = run("pack", "out.onnx", "-o", "new.onnx", "--external-root", "nowhere", cwd=folder)
    check_refusal(result, "nowhere: No such file or directory; --external-root must be an existing folder")


def test_no_file_outside_of_the_folder_of_a_model_is_read_or_written(folder):
    (folder / "inner").mkdir()
    (folder / "secret").write_bytes(bytes(4096))
    # A location above the model's folder.
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.UINT8, dims=[4096], data_location=1)
    tensor.external_data.add(key="location", value="../secret")
    onnx.save(helper.make_model(helper.make_graph([], "g", [], [], [tensor])), folder / "inner" / "m.onnx")
    for command in ("pack", "unpack"):
        result = run(command, "m.onnx", "-o", "out.onnx", cwd=folder / "inner")
        assert (result.returncode, result.stdout, result.stderr.count(b"\n")) == (2, b"", 1)
        assert b"'w'" in result.stderr
        reason = "the location contains .., which may lead out of the model's folder"
        assert f"'../secret' is not read: {reason}".encode() in result.stderr
    # A data file above the model's folder.
    result = run("unpack", "../m.onnx", "-o", "out.onnx", "--data", "../secret", "--overwrite", cwd=folder / "inner")
    reason = "the location contains .., which may lead out of the model's folder"
    check_refusal(result, f"external data can't be saved to '../secret': {reason}")
    assert os.listdir(folder / "inner") == ["m.onnx"]
    assert (folder / "secret").read_bytes() == bytes(4096)


def test_a_wrong_input_or_output_is_reported_in_one_line(folder):
    check_refusal(
        run("unpack", "m.onnx", "-o", "-", cwd=folder),
        "<stdout>: the weights need a folder; name a file after -o",
    )
    check_refusal(
        run("unpack", "m.onnx", "-o", "m.data", cwd=folder),
        "external data can't be saved to 'm.data': the name collides with the model itself",
    )
    result = run("pack", "m.onnx", "-o", "no/out.onnx", cwd=folder)
    check_refusal(result, f"no/out.onnx: No such file or directory; there is no directory {folder}/no")
    result = run("pack", "no\nmodel", "-o", "out.onnx", cwd=folder)
    assert (result.returncode, result.stderr.count(b"\n")) == (2, 1)
    assert result.stderr.startswith(b"onnxwire: no\\nmodel: No such file or directory")
    assert run("unpack", "m.onnx", cwd=folder).returncode == 2
    assert os.listdir(folder) == ["m.onnx"]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs terminals")
def test_no_binary_file_is_written_to_a_terminal(folder):
    controller, terminal = os.openpty()
    try:
        result = run("pack", "m.onnx", "-o", "-", cwd=folder, stdout=terminal)
        reason = b"a terminal can't show a binary file; name a file after -o, or redirect stdout"
        assert (result.returncode, result.stderr) == (2, b"onnxwire: <stdout>: " + reason + b"\n")
    finally:
        os.close(controller)
        os.close(terminal)


def test_a_model_too_large_for_protobuf_causes_a_warning(folder, monkeypatch, capsys):
    monkeypatch.setattr("onnxwire.io.save.INLINE_LIMIT", 100_000)  # instead of 2 GiB
    monkeypatch.chdir(folder)
    assert main(["pack", "m.onnx", "-o", "out.onnx"]) == 0
    out, text = capsys.readouterr()
    assert (out, text.count("\n")) == ("", 1)
    assert text.startswith("onnxwire: warning: ")
    assert "171,893 bytes" in text
    assert "onnxwire unpack" in text
    assert main(["unpack", "m.onnx", "-o", "out.onnx"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("command", ["unpack", "pack"])
def test_help_shows_examples(command, capsys):
    with pytest.raises(SystemExit) as excinfo:
        main([command, "--help"])
    assert excinfo.value.code == 0
    assert f"onnxwire {command} model.onnx -o " in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("command", ["unpack", "pack"])
@pytest.mark.parametrize(("option", "is_drawn"), [([], True), (["--no-progress"], False)])
def test_a_progress_bar_is_drawn_on_a_terminal_unless_disabled(folder, command, option, is_drawn):
    words = [command, "m.onnx", "-o", "out.onnx", *option]
    status, output = run_on_terminal(*words, stream="stderr", cwd=folder)
    assert status == 0
    assert (b"writing out.onnx" in output) == is_drawn
    check_model(folder / "out.onnx")
