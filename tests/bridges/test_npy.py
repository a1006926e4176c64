"""Names of files in .npz archives are made from names of tensors; unpacking writes only below the target folder."""

from __future__ import annotations

import os
import random
import urllib.parse
import zipfile
from pathlib import Path

import numpy as np
import pytest

import onnxwire
from onnxwire.bridges.npy import npz_name

# Names of tensors that could leave the folder, refer to the same file, or damage the zip archive; and ordinary names.
HOSTILE_NAMES = [
    "../../evil.npy", "..", ".", "../", "/etc/evil", "//server/share/evil", "a//b", "a/../../../evil", "a/./b", "a/..",
    "..\\..\\evil", "C:\\evil", "C:/evil", "C:evil", "d/C:/evil", "\\\\?\\C:\\evil", "a\0b", "a\nb", "a\x1b[2Jb",
    "a\u202eb", "", ".npy", "x.npy", "x.npy/y", "X.NPY/y", "x", "a /b", "a./b", ".. /b", "... /b", "%2e%2e/evil",
    "%", "%2F", "a%00b",
    "n" * 70_000, "n" * 70_000 + "m", "d/" * 40_000, "ä" * 300, "/" * 500, "../" * 300, "\udcff", "\udcff\udcfe", "ÿ",
    "w:0", "layers.0/MatMul:0", "a b", "日本/語", "~", "%~", "n" * 150 + "%~" + "0" * 32, "-rf", "~/evil", "$HOME",
]  # fmt: skip


def tensor(number):
    """Return an INT64 tensor with one element."""
    return onnxwire.TensorProto(data_type=onnxwire.TensorProto.INT64, dims=[1], int64_data=[number])


def write_npz(tmp_path, names):
    """Write an .npz file of tensors with the given names. Return its path."""
    path = tmp_path / "t.npz"
    onnxwire.to_npz({name: tensor(number) for number, name in enumerate(names)}, path)
    return path


def files_below(folder):
    """Return the paths of all files below a folder."""
    return {Path(parent, name) for parent, _, names in os.walk(folder) for name in names}


def test_an_npz_with_hostile_names_is_unpacked_into_its_folder_only(tmp_path):
    path = write_npz(tmp_path, HOSTILE_NAMES)
    (tmp_path / "in" / "out").mkdir(parents=True)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        assert len(set(names)) == len(names) == len(HOSTILE_NAMES)
        # The names must be safe even if the reader does not sanitize them.
        for name in names:
            assert "\\" not in name and "\0" not in name and name.isprintable()
            components = name.split("/")
            assert not {"", ".", ".."}.intersection(components) and not any(
                component[1:2] == ":" for component in components
            )
            assert max(len(component.encode()) for component in components) <= 255
            assert not any(component[-1] in ". " for component in components)
        archive.extractall(tmp_path / "in" / "out")
    assert files_below(tmp_path) - files_below(tmp_path / "in" / "out") == {path}
    assert len(files_below(tmp_path / "in" / "out")) == len(HOSTILE_NAMES)


def test_numpy_finds_every_tensor_by_its_escaped_name(tmp_path):
    with np.load(write_npz(tmp_path, HOSTILE_NAMES)) as arrays:
        for number, name in enumerate(HOSTILE_NAMES):
            assert arrays[npz_name(name)].tolist() == [number]


@pytest.mark.parametrize("name", ["w", "layers.0/MatMul:0", "a b", "日本/語", "onnx::Conv_12", "~", "a-b_c.weight"])
def test_an_ordinary_name_is_not_escaped(name):
    assert npz_name(name) == name


@pytest.mark.parametrize("name", HOSTILE_NAMES, ids=range(len(HOSTILE_NAMES)))
def test_the_name_of_a_tensor_can_be_restored_if_its_escaped_form_has_less_than_65000_bytes(tmp_path, name):
    data = name.encode("utf-8", "surrogateescape")
    key = npz_name(name)
    if len(data) < 250 and "%~" not in key:
        assert urllib.parse.unquote_to_bytes(key) == data
        return
    # A long name is escaped and truncated, and "%~" and a digest are appended. The comment of the zip entry is the
    # escaped full name, cut at 65,535 bytes.
    assert len(data) > 149
    with zipfile.ZipFile(write_npz(tmp_path, [name])) as archive:
        comment = archive.infolist()[0].comment
    if len(urllib.parse.quote_from_bytes(data)) < 65_000:
        assert urllib.parse.unquote_to_bytes(comment) == data or "%~" not in key
    else:
        assert data.startswith(urllib.parse.unquote_to_bytes(comment)) and len(comment) == 65_535


def test_no_two_names_share_a_file():
    # The names consist of the characters that `npz_name` treats specially, of "2" and "F" as in "%2F", and of "a".
    rng = random.Random(3)
    names = {"".join(rng.choices("a.%/\\: 2F\0", k=rng.randrange(7))) for _ in range(30_000)}
    keys = {npz_name(name) for name in names}
    assert len(keys) == len(names)
    assert all(urllib.parse.unquote(npz_name(name)) == name for name in names)
    # No file may have the name of a folder.
    folders = {key[:end] for key in keys for end in range(len(key)) if key[end] == "/"}
    assert not folders.intersection(f"{key}.npy" for key in keys)
