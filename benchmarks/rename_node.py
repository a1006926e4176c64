"""Rename one node of a model of 1 GiB with inline weights, and save it to a new file on the same disk."""

from collections.abc import Callable
from typing import Any

from benchmarks import list_initializers
from benchmarks.copy_file import checksum, make_room, require_room, rows_beside_cp
from benchmarks.data import FOLDER
from benchmarks.row import Row

SOURCE = list_initializers.PATH
OUTPUT = FOLDER / "renamed.onnx"
NODE = 100
NAME = "renamed"


def prepare() -> None:
    """Make the source, of random bytes, so that neither side can skip the holes of a sparse file."""
    require_room()
    list_initializers.prepare()


def rename(load: Callable[[str], Any], save: Callable[[Any, str], object]) -> None:
    """Load, rename, save."""
    model = load(str(SOURCE))
    model.graph.node[NODE].name = NAME
    save(model, str(OUTPUT))


def ours() -> Callable[[], object]:
    import onnxwire

    make_room(OUTPUT)
    return lambda: rename(onnxwire.load, onnxwire.save)


def official() -> Callable[[], object]:
    import onnx

    make_room(OUTPUT)
    return lambda: rename(onnx.load, onnx.save)


def take_output(is_same: bool) -> tuple[int, int] | None:
    """Delete the output; returns its size and checksum if both sides must write the same bytes."""
    try:
        return (OUTPUT.stat().st_size, checksum(OUTPUT)) if is_same else None
    finally:
        OUTPUT.unlink()


ROWS = [
    Row(
        "rename a node of a 1 GiB file, load to saved (ours with fsync)",
        prepare=prepare,
        inputs=(SOURCE,),
        ours=ours,
        official=official,
        fingerprint=lambda _: take_output(True),
        goal=5,
        memory_goal=20e6,
        repeats=5,
    ),
    *rows_beside_cp(SOURCE, OUTPUT, prepare, ours, lambda _: take_output(False)),
]
