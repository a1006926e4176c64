"""Text from models and names of files can't control the terminal.

`meta` prints a value unchanged into a pipe. The output of `ls`, `stats` and `info` fits the width of the terminal.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from terminal import run_on_terminal

import onnxwire
from onnxwire.cli.terminal import cut_middle, table_lines

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
# An escape sequence, a sequence that begins with the single character CSI, DEL, a reversal of the text direction, a
# window title, a sequence that hides text, and a carriage return.
HOSTILE_TEXT = "a\x1b[2Jb\x9b31mc\x7fd\u202ee\x1b]0;t\x07f\x1b[8mg\rh"
COLOR = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def folder(tmp_path):
    """Return the folder of a model that contains the hostile text in many fields."""
    model = onnxwire.ModelProto(ir_version=8, producer_name=HOSTILE_TEXT, doc_string=HOSTILE_TEXT)
    model.opset_import.add(version=17)
    model.metadata_props.add(key=HOSTILE_TEXT, value=HOSTILE_TEXT)
    model.metadata_props.add(key="k", value=f"{HOSTILE_TEXT}\n\tnext")
    model.graph.name = HOSTILE_TEXT
    model.graph.node.add(op_type=HOSTILE_TEXT, name="n", input=[HOSTILE_TEXT], output=["y"], doc_string=HOSTILE_TEXT)
    model.graph.initializer.add(name=HOSTILE_TEXT, data_type=1, dims=[1], raw_data=bytes(4))
    model.graph.output.add(name=HOSTILE_TEXT)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return tmp_path


def assert_clean(output):
    """Assert that the output has only printable characters, line breaks, tabs and colors; return it as text."""
    text = output.decode().replace("\r\n", "\n")
    assert "\x1b[8m" not in text
    assert "\x1b[2J" not in text
    assert all(line.isprintable() for line in re.split("[\n\t]", COLOR.sub("", text))), repr(text)
    return text


COMMANDS = [
    "info", "info --json", "info --raw", "ls", "ls --nodes", "ls --values", "ls --tree", "ls --json", "show node:n",
    "show graph.name", "show doc_string", "show graph.initializer[0]", "stats", "stats --csv", "stats --json",
    "view -o -", "dump", "dump --json", "check", "check --json", "check --sarif", "meta", "meta --json", "meta KEY",
    "diff other.onnx", "diff other.onnx --json",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("color", ["", "--color=always"])
def test_control_characters_do_not_reach_the_terminal(command, color, folder):
    name, *options = command.split()
    if color and name in ("view", "dump", "meta"):
        pytest.skip("the command has no colors")
    (folder / "other.onnx").write_bytes(onnxwire.ModelProto(ir_version=7).SerializeToString())
    words = [name, "m.onnx", *("k" if word == "KEY" else word for word in options), *filter(None, [color])]
    status, output = run_on_terminal(*words, stream="stdout", cwd=folder)
    assert status in (0, 1)
    assert assert_clean(output)


def test_meta_prints_a_value_unchanged_into_a_pipe(folder):
    command = [sys.executable, "-P", "-m", "onnxwire", "meta", "m.onnx", "k"]
    assert (
        subprocess.run(command, cwd=folder, capture_output=True, check=True).stdout.decode()
        == f"{HOSTILE_TEXT}\n\tnext\n"
    )


def test_line_ends_and_tabs_of_a_value_are_kept(folder):
    _, output = run_on_terminal("meta", "m.onnx", "k", stream="stdout", cwd=folder)
    assert assert_clean(output).endswith("\\rh\n\tnext\n")


@pytest.mark.parametrize("command", ["info", "check", "view -o", "meta", "nothing"])
def test_file_names_and_options_are_escaped_in_errors(command, folder):
    name, *options = command.split()
    for path in (f"{HOSTILE_TEXT}.onnx", f"no{HOSTILE_TEXT}.onnx"):
        if not path.startswith("no"):
            (folder / path).write_bytes(b"\x3a\xff" + b"\xff" * 20)  # a graph whose length is not a varint
        _, output = run_on_terminal(name, path, *options, *(["r.html"] if options else []), stream="stderr", cwd=folder)
        assert assert_clean(output).startswith("onnxwire: ") or not output
    _, output = run_on_terminal("info", "m.onnx", f"--{HOSTILE_TEXT}", stream="stderr", cwd=folder)
    assert "unrecognized" in assert_clean(output)


def test_file_names_are_escaped_in_warnings_and_progress_bars(folder):
    pytest.importorskip("rich")
    (folder / f"{HOSTILE_TEXT}[red].txt").write_text("graph { producer_tag: 1 }")
    _, output = run_on_terminal(
        "encode", f"{HOSTILE_TEXT}[red].txt", "-o", f"{HOSTILE_TEXT}[red].onnx", stream="stderr", cwd=folder
    )
    for character in ("\x9b", "\u202e", "\x07", "\x1b[8m", "\x7f"):
        assert character not in output.decode()
    assert b"RetiredField" not in output
    assert "; it is skipped" in output.decode()
    assert "[red].onnx" in output.decode()


@pytest.mark.parametrize("command", [["ls"], ["ls", "--nodes"], ["stats", "--no-progress"], ["sql", "from tensors"]])
def test_tables_fit_the_terminal(command, tmp_path):
    if command[0] == "sql":
        pytest.importorskip("duckdb")
    model = onnxwire.ModelProto(ir_version=8)
    for i in range(3):
        model.graph.initializer.add(name=f"first{'x' * 300}last{i}", data_type=1, dims=[1], raw_data=bytes(4))
        model.graph.node.add(op_type="Relu", name=f"{'y' * 300}{i}", input=["a" * 300], output=[f"b{i}"])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    name, *options = command
    words = [name, "m.onnx", *options, "--color", "never"]
    _, output = run_on_terminal(*words, stream="stdout", cwd=tmp_path, environment={"COLUMNS": "110"})
    lines = output.decode().splitlines()
    assert len(lines) >= 4
    if name != "sql":  # the table of sql has too many columns
        assert max(map(len, lines)) <= 110
    assert "…" in output.decode()


def test_the_summary_fits_the_terminal(tmp_path):
    model = onnxwire.ModelProto(ir_version=8, doc_string="d" * 1_000)
    for key, value in (("names", "v" * 32_888), ("k" * 500, "short"), *((f"key{i}", "w" * 90) for i in range(100))):
        model.metadata_props.add(key=key, value=value)
    model.graph.initializer.add(name="very/" * 90 + "long", data_type=1, dims=[1], raw_data=bytes(4))
    model.graph.input.add(name="i" * 300)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    words = ["info", "m.onnx", "--color", "never"]
    _, output = run_on_terminal(*words, stream="stdout", cwd=tmp_path, environment={"COLUMNS": "80"})
    text = output.decode()
    assert max(map(len, text.splitlines())) <= 80
    assert "v… (32,888 characters)" in text and "k… (500 characters) = short" in text
    assert "  and 52 more (`onnxwire meta FILE` prints all)" in text
    assert "y/long  FLOAT [1]" in text


def test_statistics_on_a_narrow_terminal_keep_names_and_omit_columns_of_zeros(tmp_path):
    model = onnxwire.ModelProto(ir_version=8)
    for value in (b"\0\0\x80\x7f", b"\0\0\x80\x3f"):  # infinity and 1
        model.graph.initializer.add(name="a.long.name.of.a.weight", data_type=1, dims=[2], raw_data=value * 2)
        (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
        words = ["stats", "m.onnx", "--no-progress", "--color", "never"]
        _, output = run_on_terminal(*words, stream="stdout", cwd=tmp_path, environment={"COLUMNS": "80"})
        heading, *rows = output.decode().splitlines()
        assert heading.split()[-1] == "Inf" and "NaN" not in heading
        assert all(row.startswith("a.long.name.of.a.weight") for row in rows[:1])


def test_the_middle_of_a_long_text_is_omitted():
    assert [cut_middle("abcdefgh", width) for width in (9, 8, 7, 4, 2, 1, 0)] == [
        "abcdefgh", "abcdefgh", "abc…fgh", "ab…h", "a…", "…", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("max_width", "widths"), [(100, [50, 20, 4]), (60, [32, 20, 4]), (30, [11, 11, 4]), (5, [8, 8, 4])]
)
def test_the_widest_columns_are_narrowed_first(max_width, widths):
    computed_widths = []
    lines = table_lines([["a" * 50, "b" * 20, "1234"]], right_columns=[2], widths=computed_widths, max_width=max_width)
    assert computed_widths == widths
    assert len(lines[0]) == sum(widths) + 4  # two gaps of two characters
