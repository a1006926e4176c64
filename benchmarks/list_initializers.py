"""Open a model of 1 GiB with inline weights and list the weights, compared with onnx and with safetensors."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, make_once, write_decoder
from benchmarks.row import Row
from benchmarks.worker import evict_from_page_cache

PATH = FOLDER / "decoder_1_gib.onnx"
SMALL_FILE = FOLDER / "small.safetensors"
LAYERS = 11  # 9 weights per layer and 4 others: 103 initializers, 1.07e9 bytes


def prepare() -> None:
    """Make the file. Its weights are random, so that it has no holes."""
    make_once(
        PATH,
        lambda path: write_decoder(path, layers=LAYERS, hidden=1792, intermediate=4736, heads=28, fill="random"),
    )


def list_initializers(load: Callable[[str], Any]) -> list[tuple[str, int, tuple[int, ...]]]:
    """Load the model and return the name, data type and dims of every initializer."""
    graph = load(str(PATH)).graph
    return [(tensor.name, tensor.data_type, tuple(tensor.dims)) for tensor in graph.initializer]


def ours() -> Callable[[], object]:
    """Return an operation that lists the initializers with onnxwire."""
    import onnxwire

    return lambda: list_initializers(onnxwire.load)


def official() -> Callable[[], object]:
    """Return an operation that lists the initializers with onnx."""
    import onnx

    return lambda: list_initializers(onnx.load)


def prepare_safetensors() -> None:
    """Make a .safetensors file of the model's initializers, and a small one for the first use of safetensors.

    Skip the row if safetensors is not installed.
    """
    from benchmarks.weights_external import prepare_safetensors

    prepare_safetensors()

    def write(path: Path) -> None:
        import numpy as np
        from safetensors.numpy import save_file

        save_file({"small": np.zeros(3)}, path)

    make_once(SMALL_FILE, write)


def ours_after_first_use() -> Callable[[], object]:
    """Use onnxwire once. Return an operation that lists names and dims of the initializers."""
    import onnxwire

    def names_and_dims(path: Path) -> list[tuple[str, tuple[int, ...]]]:
        return [(tensor.name, tuple(tensor.dims)) for tensor in onnxwire.load(path).graph.initializer]

    names_and_dims(Path(__file__).parents[1] / "examples" / "digits_cnn.onnx")
    return lambda: names_and_dims(PATH)


def safetensors_after_first_use() -> Callable[[], object]:
    """Use safetensors once. Return an operation that lists names and dims in the .safetensors file."""
    from safetensors import safe_open

    from benchmarks.weights_external import SAFETENSORS_FILE

    def names_and_dims(path: Path) -> list[tuple[str, tuple[int, ...]]]:
        file = safe_open(path, "numpy")
        return [(name, tuple(file.get_slice(name).get_shape())) for name in file.keys()]  # noqa: SIM118 - file is not a dict

    names_and_dims(SMALL_FILE)
    return lambda: names_and_dims(SAFETENSORS_FILE)


def from_disk(side: Callable[[], Callable[[], object]], path: Callable[[], Path]) -> Callable[[], Callable[[], object]]:
    """Return a side that removes the file `path()` from the page cache before its operation is measured."""

    def side_from_disk() -> Callable[[], object]:
        operation = side()
        evict_from_page_cache(path())
        return operation

    return side_from_disk


def safetensors_path() -> Path:
    """Return the path of the .safetensors file."""
    from benchmarks.weights_external import SAFETENSORS_FILE

    return SAFETENSORS_FILE


ROWS = [
    Row(
        "list the 103 initializers of a 1 GiB file",
        prepare=prepare,
        inputs=(PATH,),
        ours=ours,
        official=official,
        fingerprint=lambda result: result,
        goal=2000,
        memory_goal=5e6,
    ),
    Row(
        "list names and dims of these initializers, compared with safetensors on a .safetensors file of the same "
        "tensors",
        prepare=prepare_safetensors,
        inputs=(PATH,),
        ours=ours_after_first_use,
        official=safetensors_after_first_use,
        fingerprint=lambda result: sorted(result),
        goal=0.8,
        memory_goal=5e6,
        repeats=11,
        other_program="safetensors",
    ),
    Row(
        "the same, with files that are not in the page cache",
        prepare=prepare_safetensors,
        ours=from_disk(ours_after_first_use, lambda: PATH),
        official=from_disk(safetensors_after_first_use, safetensors_path),
        fingerprint=lambda result: sorted(result),
        memory_goal=5e6,
        repeats=11,
        other_program="safetensors",
    ),
]
