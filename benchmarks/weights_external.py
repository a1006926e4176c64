"""Make arrays of all weights of a model, 1 GiB in an external file, and read one value per memory page."""

from collections.abc import Callable
from pathlib import Path

from benchmarks import list_initializers, weights
from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

PATH = FOLDER / "decoder_external.onnx"
DATA_FILE = FOLDER / "decoder_external.data"
SAFETENSORS_FILE = FOLDER / "decoder.safetensors"


def prepare() -> None:
    """Make the model and its data file from the model with inline weights."""
    list_initializers.prepare()

    def write(path: Path) -> None:
        import onnxwire

        with onnxwire.load(list_initializers.PATH) as model:
            onnxwire.save(model, path, external=DATA_FILE.name, overwrite=True)

    make_once(PATH, write)


def prepare_onnx_ir() -> None:
    """Make the model for onnx-ir. Skip the row if onnx-ir is not installed."""
    weights.require("onnx_ir")
    prepare()


def prepare_safetensors() -> None:
    """Make the model, its data file, and a .safetensors file of its weights.

    Skip the row if safetensors is not installed.
    """
    weights.require("safetensors")
    prepare()

    def write(path: Path) -> None:
        from safetensors.numpy import save_file

        import onnxwire

        with onnxwire.load(PATH) as model:
            save_file({tensor.name: tensor.numpy() for tensor in model.graph.initializer}, path)

    make_once(SAFETENSORS_FILE, write)


def prepare_torch() -> None:
    """Make the files for PyTorch. Skip the row if PyTorch is not installed."""
    weights.require("torch")
    prepare_safetensors()


def official() -> Callable[[], object]:
    """Return an operation that loads the model with onnx and reads one value per page of its weights."""
    import onnx
    from onnx.numpy_helper import to_array

    def operation() -> object:
        model = onnx.load(str(PATH))
        return weights.read_pages((tensor.name, to_array(tensor)) for tensor in model.graph.initializer)

    return operation


def onnx_ir() -> Callable[[], object]:
    """Return an operation that loads the model with onnx-ir and reads one value per page of its weights."""
    import onnx_ir

    def operation() -> object:
        initializers = onnx_ir.load(str(PATH)).graph.initializers
        return weights.read_pages((name, value.const_value.numpy()) for name, value in initializers.items())

    return operation


def safetensors(framework: str) -> Callable[[], object]:
    """Return an operation that opens the .safetensors file and reads one value per page of its tensors.

    framework: "numpy" for numpy arrays, which are copies, or "pt" for PyTorch tensors, which share the mapped memory.
    """
    from importlib import import_module

    from safetensors import safe_open

    import_module("numpy" if framework == "numpy" else "torch")

    def operation() -> object:
        with safe_open(str(SAFETENSORS_FILE), framework) as file:
            tensors = ((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118 - file is not a dict
            # Tensors of PyTorch have a method `numpy`, which returns an array; arrays have no such method.
            return weights.read_pages(
                (name, getattr(tensor, "numpy", lambda t=tensor: t)()) for name, tensor in tensors
            )

    return operation


def make_row(
    work: str,
    prepare: Callable[[], object],
    other_side: Callable[[], Callable[[], object]],
    other_file: Path,
    other_program: str = "",
) -> Row:
    """Return a row whose goal is at least the speed of the other side.

    other_file: the file from which the other side reads the weights. other_program: the other side's package; "" for
    the official package.
    """
    return Row(
        work,
        prepare=prepare,
        inputs=(DATA_FILE, other_file),
        ours=lambda: weights.ours(str(PATH)),
        official=other_side,
        fingerprint=weights.fingerprint,
        goal=1,
        anonymous_goal=weights.ANONYMOUS_GOAL_BYTES,
        repeats=11 if other_program else 7,
        other_program=other_program,
    )


def make_safetensors_row(work: str, prepare: Callable[[], object], framework: str) -> Row:
    """Return a row that compares onnxwire with `safetensors(framework)`."""
    return make_row(work, prepare, lambda: safetensors(framework), SAFETENSORS_FILE, "safetensors")


ROWS = [
    make_row("all weights of 1 GiB of external data, reading one value per memory page", prepare, official, DATA_FILE),
    make_row("the same, compared with onnx-ir", prepare_onnx_ir, onnx_ir, DATA_FILE, "onnx-ir"),
    make_safetensors_row("the same, compared with safetensors to numpy", prepare_safetensors, "numpy"),
    make_safetensors_row("the same, compared with safetensors to PyTorch", prepare_torch, "pt"),
]
