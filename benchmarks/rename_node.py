"""Rename one node of a model of 1 GiB with its weights inside, from the old file to a new one on the same disk."""

import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import list_initializers
from benchmarks.data import FOLDER
from benchmarks.row import Row, Skip

SOURCE = list_initializers.PATH
OUTPUT = FOLDER / "renamed.onnx"
NODE = 100
NAME = "renamed"
ROOM = 3 << 30  # bytes: the source, the output, and some


def prepare() -> None:
    """Make the source, of random bytes, so that neither side can step over holes; it is in the page cache then."""
    FOLDER.mkdir(exist_ok=True)
    if shutil.disk_usage(FOLDER).free < ROOM:
        raise Skip(f"less than {ROOM >> 30} GiB free in {FOLDER}")
    list_initializers.prepare()


def make_room() -> None:
    """Delete the output, which is written anew each time, and let the disk finish what others gave it to write."""
    OUTPUT.unlink(missing_ok=True)
    os.sync()


def rename(load: Callable[[str], Any], save: Callable[[Any, str], object]) -> None:
    """Load, rename, save."""
    model = load(str(SOURCE))
    model.graph.node[NODE].name = NAME
    save(model, str(OUTPUT))


def ours() -> Callable[[], object]:
    import onnxwire

    make_room()
    return lambda: rename(onnxwire.load, onnxwire.save)


def official() -> Callable[[], object]:
    import onnx

    make_room()
    return lambda: rename(onnx.load, onnx.save)


def copy() -> Callable[[], object]:
    make_room()
    return lambda: subprocess.run(["cp", SOURCE, OUTPUT], check=True)


def copy_durably() -> Callable[[], object]:
    """Do what cp leaves out and our save does: wait until the disk has the file, and its name."""
    command = 'cp "$1" "$2" && sync "$2" "$3"'  # sync with names is fsync of each
    make_room()
    return lambda: subprocess.run(["sh", "-c", command, "sh", SOURCE, OUTPUT, OUTPUT.parent], check=True)


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    crc, chunk = 0, bytearray(1 << 20)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(chunk):
            crc = zlib.crc32(memoryview(chunk)[:count], crc)
    return crc


def take_output(is_same: bool) -> tuple[int, int] | None:
    """Delete the output; returns its size and checksum where both sides shall write the same bytes."""
    try:
        return (OUTPUT.stat().st_size, checksum(OUTPUT)) if is_same else None
    finally:
        OUTPUT.unlink()


ROWS = [
    Row(
        "rename a node of a 1 GiB file, load to saved (ours with fsync)",
        prepare=prepare,
        ours=ours,
        official=official,
        fingerprint=lambda _: take_output(True),
        goal=5,
        memory_goal=20e6,
        repeats=5,
    ),
    Row(
        "the same (with fsync), beside `cp` of the file (without)",
        prepare=prepare,
        ours=ours,
        official=copy,
        fingerprint=lambda _: take_output(False),
        goal=1 / 1.3,
        beside="cp",
    ),
    Row(
        "the same, beside `cp` of the file and fsync",
        prepare=prepare,
        ours=ours,
        official=copy_durably,
        fingerprint=lambda _: take_output(False),
        goal=1 / 1.3,
        beside="cp, fsync",
    ),
]
