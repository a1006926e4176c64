"""Open a model of 1 GiB with its weights inside, and list what weights there are."""

from collections.abc import Callable
from typing import Any

from benchmarks.data import FOLDER, make_once, write_decoder
from benchmarks.row import Row

PATH = FOLDER / "decoder_1_gib.onnx"
LAYERS = 11  # 9 weights each and 4 more: 103 initializers in 1.07e9 bytes


def prepare() -> None:
    """Make the file, with real bytes on the disk."""
    make_once(
        PATH,
        lambda path: write_decoder(path, layers=LAYERS, hidden=1792, intermediate=4736, heads=28, fill="random"),
    )


def list_initializers(load: Callable[[str], Any]) -> list[tuple[str, int, tuple[int, ...]]]:
    """Open the model and return the name, data type and dims of every initializer."""
    graph = load(str(PATH)).graph
    return [(tensor.name, tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer]


def ours() -> Callable[[], object]:
    import onnxwire

    return lambda: list_initializers(onnxwire.load)


def official() -> Callable[[], object]:
    import onnx

    return lambda: list_initializers(onnx.load)


ROWS = [
    Row(
        "list the 103 initializers of a 1 GiB file",
        prepare=prepare,
        inputs=(PATH,),
        ours=ours,
        official=official,
        fingerprint=lambda result: result,
        goal=1000,
        memory_goal=5e6,
    )
]
