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


@pytest.mark.parametrize("table", ["operators", "schema"])
def test_a_table_without_end_is_read_up_to_a_bound(table):
    read = {"operators": lambda path: onnxwire.check(b"\x08\x08", operators=path), "schema": onnxwire.load_schema}[
        table
    ]
    with pytest.raises(onnxwire.SourceError, match=r"/dev/zero: a table of .* has up to 67,108,864 bytes"):
        read("/dev/zero")
    with pytest.raises(onnxwire.SourceError, match="/proc/self/mem: "):
        read("/proc/self/mem")


STARTS = {"load": b"\x08\x08", "from_text": b"producer_name: 'a'\n", "from_json": b'{"producerName": "a"'}
READERS = {
    "load": onnxwire.load,
    "from_text": lambda file: onnxwire.from_text(file, onnxwire.ModelProto),
    "from_json": lambda file: onnxwire.from_json(file, onnxwire.ModelProto),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("has_part", [False, True])
def test_what_a_pipe_has_so_far_is_not_taken_for_all(reader, has_part):
    out, into = os.pipe()
    os.set_blocking(out, False)
    os.write(into, STARTS[reader] if has_part else b"")
    with open(out, "rb", buffering=0) as file, pytest.raises(onnxwire.SourceError, match="it gives nothing now"):
        READERS[reader](file)
    os.close(into)


@pytest.mark.parametrize("reader", READERS)
def test_what_hinders_reading_is_an_error_of_the_file(reader):
    class File:
        name = "some file"

        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    with pytest.raises(onnxwire.SourceError, match=r"^some file: Input/output error"):
        READERS[reader](File())
