"""Pipes and devices as models: read when named alone, up to a bound."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_save_faults import linux

import onnxwire
from onnxwire.io import source

pytestmark = linux
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


def command(*words, **options):
    return subprocess.run(
        [sys.executable, "-P", "-m", "onnxwire", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=60, cwd=Path(__file__).parents[2], **options,
    )  # fmt: skip


@pytest.mark.parametrize("mmap", [True, False])
def test_a_device_without_end_is_read_up_to_a_bound(mmap):
    with pytest.raises(onnxwire.SourceError, match=r"/dev/zero: a device is read up to 67,108,864 bytes"):
        onnxwire.load("/dev/zero", mmap=mmap)
    with open("/dev/zero", "rb") as file, pytest.raises(onnxwire.SourceError, match="a device is read up to"):
        onnxwire.load(file)


@pytest.mark.parametrize("way", ["path", "file"])
def test_a_pipe_without_end_is_read_up_to_a_bound(tmp_path, monkeypatch, way):
    monkeypatch.setattr(source, "PIPE_LIMIT", 1 << 21)  # it is 2 GiB
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as endless:
        with pytest.raises(onnxwire.SourceError, match="a pipe is read up to 2,097,152 bytes"):
            onnxwire.load(f"/dev/fd/{endless.stdout.fileno()}" if way == "path" else endless.stdout)
        endless.kill()


def test_a_pipe_that_is_named_alone_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(DIGITS.read_bytes()))
    writer.start()
    with onnxwire.load(path) as model:
        assert model.graph.name == onnxwire.load(DIGITS).graph.name
    writer.join()


@pytest.mark.parametrize("others", [True, False])
def test_a_pipe_among_the_files_of_a_pattern_keeps_nobody_waiting(tmp_path, others):
    os.mkfifo(tmp_path / "a.onnx")
    if others:
        (tmp_path / "b.onnx").write_bytes(onnxwire.ModelProto(graph={"name": "g"}).SerializeToString())
    done = command("check", f"{tmp_path}/*.onnx")
    assert done.returncode == 2
    assert "a.onnx: this is a pipe or device; name it alone to have it read" in done.stderr
    assert ("b.onnx" in done.stdout) == others
