"""Compute statistics of 1 GiB of floats and of 1 GiB of int8."""

from __future__ import annotations

from pathlib import Path

from benchmarks.data import FOLDER, make_once
from benchmarks.row import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.row import Side

TOTAL_BYTES = 1 << 30
N_TENSORS = 8


def path_of(dtype: str) -> Path:
    """Return the path of the model whose weights have the data type `dtype`, such as "float32"."""
    return FOLDER / f"statistics_{dtype}.onnx"


def prepare(dtype: str) -> Callable[[], None]:
    """Return a function that makes the model of a dtype."""

    def write(path: Path) -> None:
        import numpy as np

        import onnxwire

        rng = np.random.default_rng(0)
        model = onnxwire.ModelProto(ir_version=8)
        n_elements = TOTAL_BYTES // N_TENSORS // np.dtype(dtype).itemsize
        for index in range(N_TENSORS):
            values = (rng.standard_normal(n_elements, np.float32) * 20).astype(dtype)
            model.graph.initializer.add().CopyFrom(onnxwire.from_array(values, f"w{index}"))
        onnxwire.save(model, path)

    return lambda: make_once(path_of(dtype), write)


def ours(dtype: str) -> Side:
    """Return the side of a row that computes the statistics of a model's weights by one thread."""

    def side() -> Callable[[], object]:
        import onnxwire

        model = onnxwire.load(path_of(dtype))
        measure_all = onnxwire.measure_all
        return lambda: [
            (entry.statistics.min, entry.statistics.max)
            for entry in measure_all(model, threads=1)
            if entry.statistics is not None
        ]

    return side


def numpy_range_and_sum(dtype: str) -> Side:
    """Return the side of a row that computes a part of the statistics: minimum, maximum and sum."""

    def side() -> Callable[[], object]:
        import onnxwire

        arrays = [tensor.numpy() for tensor in onnxwire.load(path_of(dtype)).graph.initializer]
        # The sum is computed, but not compared.
        return lambda: [(array.min().item(), array.max().item(), array.sum().item())[:2] for array in arrays]

    return side


ROWS = [
    Row(
        f"statistics of 1 GiB of {name} by one thread, processor time, compared with numpy's min, max and sum",
        prepare=prepare(dtype),
        inputs=(path_of(dtype),),
        ours=ours(dtype),
        official=numpy_range_and_sum(dtype),
        fingerprint=lambda result: result,
        repeats=3,
        other_program="numpy",
        cpu_time=True,
    )
    for name, dtype in (("floats", "float32"), ("int8", "int8"))
]
