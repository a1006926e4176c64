"""The generator of attack files is deterministic and its manifest complete; onnxwire reads a sample of the files
within limits, or all of them with --long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from budget import IS_LONG
from onnx_attacks import generate as generator

FOLDER = Path(__file__).parent
MAX_SECONDS = 10  # processor time for one file
MAX_MEMORY_BYTES = 500 << 20  # additional address space for one file


@pytest.fixture(scope="module")
def folder_and_manifest(tmp_path_factory):
    """Generate the attack files. Return their folder, and the manifest."""
    folder = tmp_path_factory.mktemp("attacks")
    return folder, generator.generate(folder)


def test_there_are_enough_files_and_classes(folder_and_manifest):
    manifest = folder_and_manifest[1]
    kinds = Counter(entry["kind"] for entry in manifest["files"])
    classes = {entry["class"] for entry in manifest["files"] if entry["kind"] == "attack"}
    assert kinds["attack"] >= 200
    assert kinds["sound"] >= 40
    assert len(classes) >= 30
    assert classes == set(manifest["classes"])


def test_every_entry_of_the_manifest_is_complete(folder_and_manifest):
    folder, manifest = folder_and_manifest
    assert json.loads((folder / "manifest.json").read_text()) == manifest
    for entry in manifest["files"]:
        assert (folder / entry["file"]).is_file(), entry["file"]
        assert entry["what"], entry["file"]
        assert entry["cwe"].startswith("CWE-"), entry["file"]
        assert entry["cve"] is None or entry["cve"].startswith("CVE-"), entry["file"]
        assert bool(entry["affects"]) == (entry["kind"] == "attack"), entry["file"]
        assert entry["observed"], f"{entry['file']}: run python -m onnx_attacks.observe"
        for name in entry["external_files"]:
            assert os.path.lexists((folder / entry["file"]).parent / name), f"{entry['file']}: {name}"


def test_all_models_differ(folder_and_manifest):
    folder, manifest = folder_and_manifest
    contents = Counter((folder / entry["file"]).read_bytes() for entry in manifest["files"])
    assert max(contents.values()) == 1


def test_all_files_take_less_than_32_mib_on_disk(folder_and_manifest):
    folder = folder_and_manifest[0]
    disk_bytes = sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
    assert disk_bytes < 32 << 20


def test_the_generator_needs_no_other_packages_and_is_deterministic(folder_and_manifest, tmp_path):
    folder, manifest = folder_and_manifest
    # -I -S: neither the working directory nor installed packages are importable.
    code = "import sys; sys.path.append(sys.argv[1]); from onnx_attacks.generate import generate; generate(sys.argv[2])"
    subprocess.run([sys.executable, "-I", "-S", "-c", code, FOLDER, tmp_path], check=True, timeout=60)
    for entry in manifest["files"]:
        assert (tmp_path / entry["file"]).read_bytes() == (folder / entry["file"]).read_bytes(), entry["file"]
    assert (tmp_path / "manifest.json").read_bytes() == (folder / "manifest.json").read_bytes()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc and limits of the address space")
def test_onnxwire_reads_the_files_within_limits(folder_and_manifest):
    folder, manifest = folder_and_manifest
    files = [entry["file"] for entry in manifest["files"]][:: 1 if IS_LONG else 40]
    command = [sys.executable, FOLDER / "read_attacks.py", str(MAX_SECONDS), str(MAX_MEMORY_BYTES)]
    process = subprocess.run(command, input="\n".join(files), cwd=folder, capture_output=True, text=True, timeout=600)
    *faults, last_line = process.stdout.splitlines()
    assert faults == []
    assert last_line == f"{len(files)} files", (
        f"ended with {process.returncode} at {last_line}: {process.stderr[-2000:]}"
    )
