"""Move the weights of a model of 1 GiB to an external data file."""

import zlib
from collections.abc import Callable

from benchmarks import list_initializers
from benchmarks.copy_file import delete_outputs, require_free_space, rows_compared_with_cp
from benchmarks.data import FOLDER
from benchmarks.row import Row

SOURCE = list_initializers.PATH
OUTPUT = FOLDER / "unpacked.onnx"
DATA_FILE = FOLDER / "unpacked.data"
THRESHOLD_BYTES = 1024  # minimum size of a weight that is moved


def prepare() -> None:
    """Make the source file. Skip the row if too little space is free."""
    require_free_space()
    list_initializers.prepare()


def ours() -> Callable[[], object]:
    """Delete the old output. Return an operation that loads the model and saves it with external data."""
    import onnxwire

    delete_outputs(OUTPUT, DATA_FILE)

    def operation() -> None:
        with onnxwire.load(str(SOURCE)) as model:
            onnxwire.save(model, str(OUTPUT), external=DATA_FILE.name, threshold=THRESHOLD_BYTES)

    return operation


def official() -> Callable[[], object]:
    """Delete the old output. Return an operation that loads the model with onnx and saves it with external data."""
    import onnx

    delete_outputs(OUTPUT, DATA_FILE)
    return lambda: onnx.save(
        onnx.load(str(SOURCE)),
        str(OUTPUT),
        save_as_external_data=True,
        location=DATA_FILE.name,
        size_threshold=THRESHOLD_BYTES,
    )


def checksums_of_output() -> list[tuple[str, int]]:
    """Return names and checksums of the weights, and delete the output.

    The files themselves are not compared, because the sides choose different offsets.
    """
    import onnxwire

    with onnxwire.load(OUTPUT) as model:
        tensors = [(tensor.name, zlib.crc32(tensor.raw_view)) for tensor in model.graph.initializer]
    delete_output()
    return tensors


def delete_output() -> None:
    """Delete the model and its data file."""
    for path in (OUTPUT, DATA_FILE):
        path.unlink(missing_ok=True)


ROWS = [
    Row(
        "move 1 GiB of weights out of a model (ours with fsync)",
        prepare=prepare,
        inputs=(SOURCE,),
        ours=ours,
        official=official,
        fingerprint=lambda _: checksums_of_output(),
        anonymous_goal=20e6,
        repeats=5,
    ),
    *rows_compared_with_cp(
        "move 1 GiB of weights out of a model", SOURCE, OUTPUT, prepare, ours, lambda _: delete_output()
    ),
]
