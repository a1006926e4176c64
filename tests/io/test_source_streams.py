"""Models and tables in pipes, devices and other special files: the maximum number of bytes that is read, errors."""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_save_faults import needs_linux

import onnxwire
from onnxwire.cli import main
from onnxwire.engine import input_file

pytestmark = needs_linux
DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


def run_command(*words, **options):
    """Run a command of onnxwire in a new process."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "onnxwire", *map(str, words)],
        capture_output=True, text=True, check=False, timeout=600, cwd=Path(__file__).parents[2], **options,
    )  # fmt: skip


@pytest.mark.parametrize("mmap", [True, False])
def test_a_device_without_end_is_read_up_to_a_bound(mmap):
    with pytest.raises(onnxwire.SourceError, match=r"/dev/zero: more than 67,108,864 bytes, the limit for a device"):
        onnxwire.load("/dev/zero", mmap=mmap)
    with open("/dev/zero", "rb") as file, pytest.raises(onnxwire.SourceError, match="the limit for a device"):
        onnxwire.load(file)


@pytest.mark.parametrize("source_kind", ["path", "file"])
def test_a_pipe_without_end_is_read_up_to_a_bound(tmp_path, monkeypatch, source_kind):
    monkeypatch.setattr(input_file, "MAX_PIPE_BYTES", 1 << 21)  # instead of 2 GiB
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as process:
        with pytest.raises(onnxwire.SourceError, match="more than 2,097,152 bytes, the limit for a pipe"):
            onnxwire.load(f"/dev/fd/{process.stdout.fileno()}" if source_kind == "path" else process.stdout)
        process.kill()


def test_a_pipe_whose_path_is_passed_directly_is_read(tmp_path):
    path = tmp_path / "m.onnx"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(DIGITS.read_bytes()))
    writer.start()
    with onnxwire.load(path) as model:
        assert model.graph.name == onnxwire.load(DIGITS).graph.name
    writer.join()


# Calls that open the path of a user's file. path: a pipe without a writer, or another special file; model: a model's
# file.
OPENERS = {
    "load": lambda path, model: onnxwire.load(path),
    "load without mmap": lambda path, model: onnxwire.load(path, mmap=False),
    "verify": lambda path, model: onnxwire.verify(path),
    "tensors": lambda path, model: onnxwire.tensors(path),
    "check": lambda path, model: onnxwire.check(path),
    "diff": lambda path, model: list(onnxwire.diff(model, path)),
    "to_arrow": lambda path, model: onnxwire.to_arrow(path, "nodes"),
    "load_schema": lambda path, model: onnxwire.load_schema(path),
    "check operators": lambda path, model: onnxwire.check(model, operators=path),
    "from_safetensors": lambda path, model: onnxwire.from_safetensors(onnxwire.load(model), path),
}
# path: a special file; model: a model's file; out: the file to write.
COMMANDS = [
    "info {path}", "info --raw {path}", "info --json {path}", "ls {path}", "show {path}", "stats {path}", "dump {path}",
    "dump --json {path}", "view {path} -o {out}", "sql {path} 'select 1'", "check {path}", "diff {path} {model}",
    "diff {model} {path}", "set {path} ir_version=8 -o {out}",
    "set {model} tensor:features.0.weight=@{path}.npy -o {out}",
    "set {model} tensor:features.0.bias.raw_data=@{path} -o {out}", "rename {path} a b -o {out}", "meta {path}",
    "rm {path} node:x -o {out}", "encode {path} -o {out}", "encode --json {path} -o {out}",
    "extract {path} --outputs y -o {out}", "unpack {path} -o {out}", "pack {path} -o {out}",
    "check --operators {path} {model}", "infer {path} -o {out}", "convert-version {path} 21 -o {out}",
]  # fmt: skip


@pytest.fixture
def special_files(tmp_path, monkeypatch):
    """Make a folder with a pipe, a socket and a folder, each also with the suffix .npy.

    Also shorten the time for which onnxwire waits for the writer of a pipe.
    """
    monkeypatch.setattr(input_file, "WRITER_TIMEOUT_SECONDS", 0.05)
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.npy").mkdir()
    for name in ("socket", "socket.npy"):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(tmp_path / name))
    return tmp_path


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder"])
@pytest.mark.parametrize("opener", OPENERS)
def test_the_error_of_a_special_file_has_its_path(special_files, opener, kind):
    with pytest.raises(onnxwire.SourceError) as error_info:
        OPENERS[opener](special_files / kind, DIGITS)
    assert error_info.value.filename == str(special_files / kind)
    assert kind != "pipe" or "nothing writes to this pipe" in str(error_info.value)


@pytest.mark.parametrize(
    "kind", ["pipe", "socket", "folder", "/dev/zero", "/dev/tty", "/dev/ptmx", "/proc/self/environ"]
)
@pytest.mark.parametrize("line", COMMANDS)
def test_the_error_of_a_command_on_a_special_file_is_one_line(special_files, capsys, line, kind):
    if kind.startswith("/"):
        for name in ("special", "special.npy"):
            (special_files / name).symlink_to(kind)
        kind = "special"
    words = shlex.split(line.format(path=special_files / kind, model=DIGITS, out=special_files / "out.html"))
    assert main(words) == 2
    output = capsys.readouterr()
    assert output.err.count("\n") == 1 and "Traceback" not in output.err, output.err
    assert f"{kind}" in output.err


def test_a_writer_that_opens_or_writes_late_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(input_file, "WRITER_TIMEOUT_SECONDS", 60)
    path = tmp_path / "m.onnx"
    os.mkfifo(path)
    data = DIGITS.read_bytes()
    opened = threading.Event()

    def write():
        # With O_NONBLOCK, a pipe can be opened for writing only while a reader has it open. The first open is closed
        # without a write, and the second one comes later: the reader must wait for it.
        while not opened.wait(0.01):
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                opened.set()
        with open(path, "wb", buffering=0) as file:
            for start in range(0, len(data), 100_000):
                file.write(data[start : start + 100_000])

    writer = threading.Thread(target=write)
    writer.start()
    with onnxwire.load(path) as model:
        assert model.graph.name == onnxwire.load(DIGITS).graph.name
    writer.join()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_process_substitution_and_stdin_are_read(tmp_path):
    text = tmp_path / "m.txt"
    text.write_text(onnxwire.to_text(onnxwire.load(DIGITS)))
    program = f"{shlex.quote(sys.executable)} -P -m onnxwire"
    for line in (
        f"{program} info <(sleep 0.2; cat {DIGITS})",
        f"cat {DIGITS} | {program} info /dev/stdin",
        f"{program} info /dev/stdin < {DIGITS}",
        f"{program} check <(cat {DIGITS})",
        f"cat {DIGITS} | {program} check -",
        f"{program} encode <(cat {text}) -o - | {program} info /dev/stdin",
    ):
        process = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=60, cwd=DIGITS.parents[1]
        )
        assert (process.returncode, process.stderr) == (0, ""), line


@pytest.mark.parametrize("has_other_file", [True, False])
def test_a_pipe_among_the_files_of_a_pattern_does_not_block(tmp_path, has_other_file):
    os.mkfifo(tmp_path / "a.onnx")
    if has_other_file:
        (tmp_path / "b.onnx").write_bytes(onnxwire.ModelProto(graph={"name": "g"}).SerializeToString())
    process = run_command("check", f"{tmp_path}/*.onnx")
    assert process.returncode == 2
    assert "a.onnx: this is a pipe or device; check it in a separate command" in process.stderr
    assert ("b.onnx" in process.stdout) == has_other_file


@pytest.mark.parametrize("table", ["operators", "schema"])
def test_a_table_without_end_is_read_up_to_a_bound(table):
    # b"\x08\x08" is a model with ir_version 8.
    read = {"operators": lambda path: onnxwire.check(b"\x08\x08", operators=path), "schema": onnxwire.load_schema}[
        table
    ]
    with pytest.raises(onnxwire.SourceError, match=r"/dev/zero: more than 67,108,864 bytes, the limit for a table of "):
        read("/dev/zero")
    with pytest.raises(onnxwire.SourceError, match="/proc/self/mem: "):
        read("/proc/self/mem")


# The first bytes of a model in the binary format (ir_version 8), in the text format and in JSON.
FIRST_BYTES = {"load": b"\x08\x08", "from_text": b"producer_name: 'a'\n", "from_json": b'{"producerName": "a"'}
READERS = {
    "load": onnxwire.load,
    "from_text": lambda file: onnxwire.from_text(file, onnxwire.ModelProto),
    "from_json": lambda file: onnxwire.from_json(file, onnxwire.ModelProto),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("has_bytes", [False, True])
def test_a_non_blocking_pipe_that_is_still_open_is_not_read_as_complete(reader, has_bytes):
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    os.write(write_end, FIRST_BYTES[reader] if has_bytes else b"")
    with (
        open(read_end, "rb", buffering=0) as file,
        pytest.raises(onnxwire.SourceError, match=r"its read\(\) returned None"),
    ):
        READERS[reader](file)
    os.close(write_end)


@pytest.mark.parametrize("reader", READERS)
def test_a_failure_of_reading_is_an_error_of_the_file(reader):
    class File:
        name = "some file"

        def read(self, size=-1):
            raise OSError(5, "Input/output error")

    with pytest.raises(onnxwire.SourceError, match=r"^some file: Input/output error"):
        READERS[reader](File())
