"""Tests of the rules of external data that examine files."""

import hashlib
import os
import subprocess
import sys

import pytest

import onnxwire
from onnxwire import ModelProto, TensorProto
from onnxwire.io.external_files import ExternalFiles

DATA = bytes(range(64))
SHA1 = hashlib.sha1(DATA).hexdigest()
FILE_RULES = [
    "external-location-contained", "external-file-regular", "external-file-not-linked", "external-range-in-file",
    "external-length-matches-shape", "external-checksum-match",
]  # fmt: skip
needs_posix = pytest.mark.skipif(sys.platform == "win32", reason="needs links, pipes or unusual file names")


def _write_model(path, *tensors):
    """Write a model of UINT8 tensors; return the path.

    tensors: for each tensor its entries of external_data, and optionally "dims", the number of elements (default 16).
    """
    model = ModelProto(ir_version=8, graph={"name": "g"})
    for entries in tensors:
        dims = [entries.pop("dims", 16)]
        tensor = TensorProto(name="w", data_type=2, dims=dims, data_location=TensorProto.EXTERNAL)
        for key, value in entries.items():
            tensor.external_data.append(onnxwire.StringStringEntryProto(key=key, value=str(value)))
        model.graph.initializer.append(tensor)
    path.write_bytes(model.SerializeToString())
    return path


def _rules_and_paths(path, select=FILE_RULES, **options):
    """Return the rule and path of each problem of a model."""
    return [(problem.rule, problem.path) for problem in onnxwire.check(path, select=select, **options)]


def _entry_path(tensor, entry):
    """Return the path of an entry of external_data, by the index of its tensor and its own index."""
    return f"graph.initializer[{tensor}].external_data[{entry}]"


@pytest.fixture
def path(tmp_path):
    """Return the path of a model to write, in a folder with the file w.bin, which contains DATA."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(DATA)
    return folder / "m.onnx"


def test_a_file_that_has_the_range_and_the_checksum_has_no_problem(path):
    _write_model(path, {"location": "w.bin", "offset": 48, "length": 16, "checksum": SHA1.upper()})
    assert _rules_and_paths(path, checksums=True) == []


def test_a_missing_file_is_reported_at_its_location_entry(path):
    _write_model(path, {"location": "w.bin"}, {"location": "lost.bin", "offset": 99})
    (problem,) = onnxwire.check(path, select=FILE_RULES)
    assert (problem.rule, problem.path) == ("external-file-regular", _entry_path(1, 0))
    assert "lost.bin" in problem.message
    assert problem.message.endswith("; copy the file there")


def test_a_folder_and_a_location_that_ends_with_a_slash_are_not_regular_files(path):
    (path.parent / "w").mkdir()
    _write_model(path, {"location": "w"}, {"location": "w.bin/"})
    assert _rules_and_paths(path) == [
        ("external-file-regular", _entry_path(0, 0)),
        ("external-file-regular", _entry_path(1, 0)),
    ]


@needs_posix
def test_a_pipe_is_not_a_regular_file(path):
    os.mkfifo(path.parent / "pipe")
    assert _rules_and_paths(_write_model(path, {"location": "pipe"})) == [("external-file-regular", _entry_path(0, 0))]


@needs_posix
def test_a_link_out_of_the_folder_is_reported(path):
    outside = path.parent.parent / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(DATA)
    (path.parent / "there").symlink_to(outside)
    _write_model(path, {"location": "there/w.bin"})
    (problem,) = onnxwire.check(path, select=FILE_RULES)
    assert (problem.rule, problem.path) == ("external-location-contained", _entry_path(0, 0))
    assert problem.message == (
        "external data at 'there/w.bin' is not read: a symbolic link leads out of the allowed folders; replace it with "
        "a copy of the file"
    )


@needs_posix
def test_a_link_in_the_folder_is_reported_as_a_link(path):
    (path.parent / "link.bin").symlink_to("w.bin")
    assert _rules_and_paths(_write_model(path, {"location": "link.bin"})) == [
        ("external-file-not-linked", _entry_path(0, 0))
    ]


@needs_posix
@pytest.mark.parametrize("folder", ["inside", "outside"])
def test_a_file_with_two_hard_links_is_reported(path, folder):
    os.link(path.parent / "w.bin", (path.parent if folder == "inside" else path.parent.parent) / "other.bin")
    assert _rules_and_paths(_write_model(path, {"location": "w.bin"})) == [
        ("external-file-not-linked", _entry_path(0, 0))
    ]


def test_a_range_beyond_the_end_of_the_file_is_reported(path):
    valid_entries = {"location": "w.bin", "offset": 48, "length": 16}
    _write_model(
        path, valid_entries, {"location": "w.bin", "offset": 49, "length": 16}, {"location": "w.bin", "offset": 65}
    )
    assert _rules_and_paths(path) == [
        ("external-range-in-file", _entry_path(1, 2)),
        ("external-range-in-file", _entry_path(2, 1)),
    ]


def test_without_a_length_the_size_of_the_shape_is_compared_with_the_rest_of_the_file(path):
    # More bytes than the shape needs are valid.
    _write_model(path, {"location": "w.bin", "offset": 48}, {"location": "w.bin", "offset": 49}, {"location": "w.bin"})
    assert _rules_and_paths(path) == [("external-length-matches-shape", _entry_path(1, 0))]
    _write_model(path, {"location": "w.bin", "dims": 65})
    assert _rules_and_paths(path) == [("external-length-matches-shape", _entry_path(0, 0))]


def test_a_checksum_is_compared_on_request(path):
    _write_model(path, {"location": "w.bin", "checksum": SHA1}, {"location": "./w.bin", "checksum": "0" * 40})
    assert _rules_and_paths(path) == []
    assert _rules_and_paths(path, checksums=True) == [("external-checksum-match", _entry_path(1, 1))]


def test_no_files_are_examined_for_a_model_from_bytes(path):
    _write_model(path, {"location": "lost.bin"}, {"location": "w.bin", "offset": 99}, {"location": "folder/"})
    assert _rules_and_paths(path.read_bytes(), checksums=True) == []
    assert _rules_and_paths(ModelProto.FromString(path.read_bytes())) == []


def test_files_are_examined_for_an_edited_model(path):
    with onnxwire.load(_write_model(path, {"location": "w.bin"})) as model:
        model.graph.initializer[0].external_data[0].value = "lost.bin"
        (problem,) = onnxwire.check(model, select=FILE_RULES)
    assert (problem.rule, problem.offset) == ("external-file-regular", None)


def test_supplied_data_is_examined_instead_of_the_file(path):
    _write_model(path, {"location": "w.bin", "length": 16, "checksum": SHA1})
    with onnxwire.load(path, external_data={"w.bin": bytes(10)}) as model:
        assert _rules_and_paths(model, checksums=True) == [
            ("external-range-in-file", _entry_path(0, 1)),
            ("external-checksum-match", _entry_path(0, 2)),
        ]


@pytest.mark.parametrize("location", ["/etc/passwd", "../w.bin", "a\\..\\w.bin", "C:/w.bin", ""])
def test_a_location_that_other_rules_report_is_not_searched(path, location):
    assert _rules_and_paths(_write_model(path, {"location": location})) == []


@needs_posix
@pytest.mark.parametrize("location", ["#w", "a\\w.bin", "w\n"])
def test_a_file_with_an_unusual_name_is_found_if_it_exists(path, location):
    assert _rules_and_paths(_write_model(path, {"location": location})) == [
        ("external-file-regular", _entry_path(0, 0))
    ]
    (path.parent / location).write_bytes(DATA)
    assert _rules_and_paths(path) == []


def test_many_files_are_examined_one_after_another(path):
    pytest.importorskip("resource")
    for i in range(200):
        (path.parent / f"{i}.bin").write_bytes(DATA)
    _write_model(path, *({"location": f"{i}.bin", "checksum": SHA1} for i in range(200)))
    code = (  # run in a separate process, since other tests may have left files open in this process
        "import resource, sys, onnxwire\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "print(list(onnxwire.check(sys.argv[1], select=sys.argv[2:], checksums=True)))\n"
    )
    process = subprocess.run([sys.executable, "-c", code, str(path), *FILE_RULES], capture_output=True, text=True)
    assert (process.stdout, process.stderr) == ("[]\n", "")


def test_a_file_is_examined_once(path, monkeypatch):
    opened_names = []
    open_temporarily = ExternalFiles.open_temporarily
    monkeypatch.setattr(
        ExternalFiles, "open_temporarily", lambda self, name: opened_names.append(name) or open_temporarily(self, name)
    )
    assert _rules_and_paths(_write_model(path, *({"location": "w.bin"} for _ in range(5)))) == []
    assert opened_names == ["w.bin"]
