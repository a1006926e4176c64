"""`onnxwire meta` lists, sets and removes metadata."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import onnxwire
from onnxwire.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


@pytest.fixture
def path(tmp_path):
    """Return the path of a model with two metadata entries."""
    model = onnx.load(DIGITS)
    onnx.helper.set_model_props(model, {"author": "me", "note": "two\nlines"})
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    return str(tmp_path / "m.onnx")


def entries(path):
    """Return the metadata entries of a model file as a dict."""
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def test_all_entries_are_listed_in_one_line_each(path, capsys):
    assert main(["meta", path]) == 0
    assert capsys.readouterr().out == "author = me\nnote = two\\nlines\n"


def test_one_value_is_printed_unchanged(path, capsys):
    assert main(["meta", path, "note"]) == 0
    assert capsys.readouterr().out == "two\nlines\n"


def test_json_is_an_object_of_entries(path, capsys):
    assert main(["meta", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"author": "me", "note": "two\nlines"}
    assert main(["meta", path, "author", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"author": "me"}


def test_the_status_is_1_if_an_entry_is_absent_or_there_are_none(path, capsys):
    assert main(["meta", path, "nope"]) == 1
    assert main(["meta", path, "author", "nope"]) == 1
    assert main(["meta", str(DIGITS)]) == 1
    assert capsys.readouterr().err == ""


def test_entries_are_set_and_added(path, tmp_path):
    out = str(tmp_path / "out.onnx")
    assert main(["meta", path, "author=you=me", "new=", "-o", out]) == 0
    assert entries(out) == {"author": "you=me", "note": "two\nlines", "new": ""}
    assert entries(path) == {"author": "me", "note": "two\nlines"}


def test_all_entries_of_a_repeated_key_are_set(tmp_path):
    path = tmp_path / "m.onnx"
    props = [{"key": "version", "value": "1"}, {"key": "other", "value": "a"}, {"key": "version", "value": "2"}]
    onnxwire.save(onnxwire.ModelProto(metadata_props=props), path)
    assert main(["meta", str(path), "version=3", "-i"]) == 0
    assert [(entry.key, entry.value) for entry in onnxwire.load(path).metadata_props] == [
        ("version", "3"),
        ("other", "a"),
        ("version", "3"),
    ]


def test_entries_are_removed(path):
    assert main(["meta", path, "--delete", "author", "--delete", "note", "x=1", "-i"]) == 0
    assert entries(path) == {"x": "1"}


def test_the_graph_has_its_own_entries(path, capsys):
    assert main(["meta", path, "--graph", "key=value", "-i"]) == 0
    assert main(["meta", path, "--graph", "key"]) == 0
    assert capsys.readouterr().out == "value\n"
    assert "key" not in entries(path)


def test_removing_an_absent_entry_is_an_error(path, capsys):
    assert main(["meta", path, "--delete", "nope", "-i"]) == 2
    err = capsys.readouterr().err
    assert err == f"onnxwire: {path}: there is no entry 'nope' to remove; the entries are: 'author', 'note'\n"


@pytest.mark.parametrize("options", [["a=1"], ["--delete", "a"], ["-i"], ["a=1", "b", "-i"], ["a=1", "--json", "-i"]])
def test_incomplete_or_contradictory_arguments_are_rejected(path, options, capsys):
    with pytest.raises(SystemExit) as excinfo:
        main(["meta", path, *options])
    assert excinfo.value.code == 2
    assert entries(path) == {"author": "me", "note": "two\nlines"}
