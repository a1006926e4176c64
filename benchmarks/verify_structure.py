"""Check that 20 MB of structure are sound in every message and field, which the official runtime does by parsing."""

from collections.abc import Callable

from benchmarks.row import Row
from benchmarks.structure import PATH, prepare


def ours() -> Callable[[], object]:
    import onnxwire

    data = PATH.read_bytes()
    return lambda: onnxwire.verify(data)


def official() -> Callable[[], object]:
    from onnx import ModelProto

    data = PATH.read_bytes()
    return lambda: ModelProto.FromString(data)


ROWS = [Row("verify 20 MB of structure", prepare=prepare, ours=ours, official=official, goal=4, repeats=15)]
