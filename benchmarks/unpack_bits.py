"""Convert a tensor of 100 million 4-bit integers, two per byte, to an array with one per byte."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

PATH = FOLDER / "int4.tensor"
N_ELEMENTS = 100_000_000


def prepare() -> None:
    """Make the file with the official package."""

    def write(path: Path) -> None:
        import numpy as np
        from onnx import TensorProto

        raw_data = np.random.default_rng(0).bytes(N_ELEMENTS // 2)
        tensor = TensorProto(name="int4", data_type=TensorProto.INT4, dims=[N_ELEMENTS], raw_data=raw_data)
        path.write_bytes(tensor.SerializeToString())

    make_once(PATH, write)


def ours() -> Callable[[], object]:
    """Return an operation that makes the array of a parsed tensor."""
    # The official package imports these packages when it is imported.
    import ml_dtypes  # noqa: F401
    import numpy  # noqa: F401

    from onnxwire import TensorProto

    tensor = TensorProto.FromString(PATH.read_bytes())
    return lambda: tensor.numpy()


def official() -> Callable[[], object]:
    """Return an operation that makes the array of a parsed tensor with `to_array`."""
    from onnx import TensorProto
    from onnx.numpy_helper import to_array

    tensor = TensorProto.FromString(PATH.read_bytes())
    return lambda: to_array(tensor)


def digest(array: Any) -> str:
    """Return the dtype, the shape and a digest of the values."""
    return f"{array.dtype}{array.shape} {hashlib.blake2b(array.view('u1')).hexdigest()}"


ROWS = [
    Row(
        "100 million INT4 to numpy, one element per byte",
        prepare=prepare,
        ours=ours,
        official=official,
        fingerprint=digest,
        goal=5,
    )
]
