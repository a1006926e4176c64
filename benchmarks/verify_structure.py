"""Verify every message and field of a model of 20 MB without weights. The official runtime parses the model instead."""

from collections.abc import Callable

from benchmarks.row import Row
from benchmarks.structure import PATH, prepare


def ours() -> Callable[[], object]:
    """Return an operation that verifies the bytes."""
    import onnxwire

    data = PATH.read_bytes()
    return lambda: onnxwire.verify(data)


def official() -> Callable[[], object]:
    """Return an operation that parses the bytes."""
    from onnx import ModelProto

    data = PATH.read_bytes()
    return lambda: ModelProto.FromString(data)


ROWS = [
    Row("verify a model of 20 MB without weights", prepare=prepare, ours=ours, official=official, goal=4, repeats=15)
]
