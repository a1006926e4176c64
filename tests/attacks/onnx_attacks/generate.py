"""Write all attack files, benign models and their manifest into a folder: `python -m onnx_attacks OUT_DIR`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
from pathlib import Path

from .case import CASES, CLASSES, Fifo, Hardlink, Sparse, Symlink

# In the order of the manifest. benign_models is last, because its cases name classes of the other modules.
MODULES = (
    "disagreement",
    "resources",
    "execution",
    "indices",
    "files",
    "payloads",
    "code",
    "names",
    "behaviour",
    "benign_models",
)
OUTSIDE = "outside.bin"
"""A file beside the folders of the models, which no reader of a model may open."""


def load_cases():
    """Return all cases, in a fixed order."""
    for name in MODULES:
        importlib.import_module(f"{__package__}.{name}")
    return list(CASES.values())


def load_observations():
    """Return observed.json: {reader: result} for the path of each model, and {package: version} for "versions"."""
    return json.loads(Path(__file__).with_name("observed.json").read_text(encoding="ascii"))


def make_manifest(all_cases):
    """Return the manifest as JSON values."""
    results = load_observations()
    return {
        "format": 1,
        "observed_with": results["versions"],
        "classes": {
            attack_class.name: {
                "family": attack_class.family, "about": attack_class.description, "cwe": attack_class.cwe,
            }
            for attack_class in CLASSES.values()
        },
        "files": [
            {
                "file": case.path, "kind": case.kind, "class": case.attack_class, "what": case.description,
                "cwe": case.cwe, "cve": case.cve, "affects": list(case.affects),
                "external_files": sorted(case.files), "source": case.source, "observed": results.get(case.path),
            }
            for case in all_cases
        ],
    }  # fmt: skip


def write_file(path, content):
    """Write a file. content: a value of Case.files. Links and pipes that the system does not support are omitted."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, Sparse):
        with open(path, "wb") as file:
            file.truncate(content.size)
            for offset, data in content.pieces:
                file.seek(offset)
                file.write(data)
    else:
        with contextlib.suppress(OSError, AttributeError, NotImplementedError):
            if isinstance(content, Symlink):
                path.symlink_to(content.target)
            elif isinstance(content, Hardlink):
                path.hardlink_to(path.parent / content.target)
            elif isinstance(content, Fifo):
                os.mkfifo(path)


def generate(folder):
    """Write all files into `folder` and return the manifest."""
    folder = Path(folder)
    all_cases = load_cases()
    write_file(folder / OUTSIDE, b"SECRET: a file outside of the model's folder. " * 4)
    for case in all_cases:
        path = folder / case.path
        write_file(path, case.data)
        for name, content in case.files.items():
            write_file(path.parent / name, content)
    manifest = make_manifest(all_cases)
    text = json.dumps(manifest, indent=1, ensure_ascii=True)
    (folder / "manifest.json").write_text(text + "\n", encoding="ascii")
    return manifest


def main():
    """Write the files into the folder that the command line names, and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m onnx_attacks", description=__doc__.partition(":")[0] + ".")
    parser.add_argument(
        "folder",
        metavar="OUT_DIR",
        help="the output folder; it is created if necessary, and existing files are replaced",
    )
    files = generate(parser.parse_args().folder)["files"]
    attacks = [entry for entry in files if entry["kind"] == "attack"]
    n_classes = len({entry["class"] for entry in attacks})
    print(f"{len(attacks)} attack files in {n_classes} classes, {len(files) - len(attacks)} benign models")
