"""Move the weights of a model of 1 GiB to an external data file."""

import zlib
from collections.abc import Callable

from benchmarks import list_initializers
from benchmarks.copy_file import make_room, require_room, rows_beside_cp
from benchmarks.data import FOLDER
from benchmarks.row import Row

SOURCE = list_initializers.PATH
OUTPUT = FOLDER / "unpacked.onnx"
DATA = FOLDER / "unpacked.data"
THRESHOLD = 1024


def prepare() -> None:
    """Make the source."""
    require_room()
    list_initializers.prepare()


def ours() -> Callable[[], object]:
    import onnxwire

    make_room(OUTPUT, DATA)

    def operation() -> None:
        with onnxwire.load(str(SOURCE)) as model:
            onnxwire.save(model, str(OUTPUT), external=DATA.name, threshold=THRESHOLD)

    return operation


def official() -> Callable[[], object]:
    import onnx

    make_room(OUTPUT, DATA)
    return lambda: onnx.save(
        onnx.load(str(SOURCE)),
        str(OUTPUT),
        save_as_external_data=True,
        location=DATA.name,
        size_threshold=THRESHOLD,
    )


def take_output() -> list[tuple[str, int]]:
    """Delete the output; return checksums of the weights, since each side chooses their offsets."""
    import onnxwire

    with onnxwire.load(OUTPUT) as model:
        tensors = [(tensor.name, zlib.crc32(tensor.raw_view)) for tensor in model.graph.initializer]
    delete_output()
    return tensors


def delete_output() -> None:
    """Delete the output of both sides."""
    for path in (OUTPUT, DATA):
        path.unlink(missing_ok=True)


ROWS = [
    Row(
        "move 1 GiB of weights out of a model (ours with fsync)",
        prepare=prepare,
        inputs=(SOURCE,),
        ours=ours,
        official=official,
        fingerprint=lambda _: take_output(),
        memory_goal=20e6,
        repeats=5,
    ),
    *rows_beside_cp(SOURCE, OUTPUT, prepare, ours, lambda _: delete_output()),
]
