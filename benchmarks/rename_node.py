"""Rename one node of a model of 1 GiB with inline weights and save the model to a new file on the same disk."""

from collections.abc import Callable
from typing import Any

from benchmarks import list_initializers
from benchmarks.copy_file import checksum, delete_outputs, require_free_space, rows_compared_with_cp
from benchmarks.data import FOLDER
from benchmarks.row import Row

SOURCE = list_initializers.PATH
OUTPUT = FOLDER / "renamed.onnx"
NODE_INDEX = 100
NEW_NAME = "renamed"


def prepare() -> None:
    """Make the source file. It contains random bytes, so that neither side can skip holes.

    Skip the row if too little space is free.
    """
    require_free_space()
    list_initializers.prepare()


def rename(load: Callable[[str], Any], save: Callable[[Any, str], object]) -> None:
    """Load the model, rename a node, and save the model."""
    model = load(str(SOURCE))
    model.graph.node[NODE_INDEX].name = NEW_NAME
    save(model, str(OUTPUT))


def ours() -> Callable[[], object]:
    """Delete the old output. Return an operation that does `rename` with onnxwire."""
    import onnxwire

    delete_outputs(OUTPUT)
    return lambda: rename(onnxwire.load, onnxwire.save)


def official() -> Callable[[], object]:
    """Delete the old output. Return an operation that does `rename` with onnx."""
    import onnx

    delete_outputs(OUTPUT)
    return lambda: rename(onnx.load, onnx.save)


def delete_output(is_compared: bool) -> tuple[int, int] | None:
    """Delete the output. Return its size and checksum if both sides must write the same bytes, else None."""
    try:
        return (OUTPUT.stat().st_size, checksum(OUTPUT)) if is_compared else None
    finally:
        OUTPUT.unlink()


ROWS = [
    Row(
        "rename a node of a 1 GiB file, load to saved (ours with fsync)",
        prepare=prepare,
        inputs=(SOURCE,),
        ours=ours,
        official=official,
        fingerprint=lambda _: delete_output(True),
        goal=5,
        memory_goal=20e6,
        repeats=5,
    ),
    *rows_compared_with_cp(
        "rename a node of a 1 GiB file", SOURCE, OUTPUT, prepare, ours, lambda _: delete_output(False)
    ),
]
