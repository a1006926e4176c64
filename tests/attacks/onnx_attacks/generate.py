"""Write all attack files and their manifest into a folder: `python -m onnx_attacks OUT_DIR`."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
from pathlib import Path

from .case import CASES, CLASSES, Fifo, Hardlink, Sparse, Symlink

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
    "sound_files",
)
OUTSIDE = "outside.bin"
"""A file beside the folders of the models, which no model may read."""


def cases():
    """Return all cases, in a fixed order."""
    for name in MODULES:
        importlib.import_module(f"{__package__}.{name}")
    return list(CASES.values())


def observations():
    """Return {path of a model: {reader: its result}}, as measured by observe.py."""
    return json.loads(Path(__file__).with_name("observed.json").read_text(encoding="ascii"))


def manifest(every):
    """Return the manifest as JSON values."""
    observed = observations()
    return {
        "format": 1,
        "observed_with": observed["versions"],
        "classes": {
            one.name: {"family": one.family, "about": one.about, "cwe": one.cwe} for one in CLASSES.values()
        },
        "files": [
            {
                "file": case.path, "kind": case.kind, "class": case.attack_class, "what": case.what, "cwe": case.cwe,
                "cve": case.cve, "affects": list(case.affects), "external_files": sorted(case.files),
                "source": case.source, "observed": observed.get(case.path),
            }
            for case in every
        ],
    }  # fmt: skip


def write_file(path, content):
    """Write one accompanying file. What the system does not support (links, pipes) is left out."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, Sparse):
        with open(path, "wb") as file:
            file.truncate(content.size)
            for offset, piece in content.pieces:
                file.seek(offset)
                file.write(piece)
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
    every = cases()
    write_file(folder / OUTSIDE, b"SECRET: a file outside of the model's folder. " * 4)
    for case in every:
        path = folder / case.path
        write_file(path, case.data)
        for name, content in case.files.items():
            write_file(path.parent / name, content)
    result = manifest(every)
    text = json.dumps(result, indent=1, ensure_ascii=True)
    (folder / "manifest.json").write_text(text + "\n", encoding="ascii")
    return result


def main():
    parser = argparse.ArgumentParser(prog="python -m onnx_attacks", description=__doc__.partition(":")[0] + ".")
    parser.add_argument("folder", metavar="OUT_DIR", help="is created; files of earlier runs are replaced")
    files = generate(parser.parse_args().folder)["files"]
    attacks = [one for one in files if one["kind"] == "attack"]
    count = len({one["class"] for one in attacks})
    print(f"{len(attacks)} attack files in {count} classes, {len(files) - len(attacks)} sound files")
