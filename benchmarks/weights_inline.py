"""Make arrays of all weights of a model of 1 GiB with inline weights, and read one value per memory page."""

from collections.abc import Callable

from benchmarks import list_initializers, weights
from benchmarks.row import Row

PATH = list_initializers.PATH


def official() -> Callable[[], object]:
    """Return an operation that loads the model with onnx and reads one value per page of its weights."""
    import onnx
    from onnx.numpy_helper import to_array

    def operation() -> object:
        model = onnx.load(str(PATH))
        return weights.read_pages((tensor.name, to_array(tensor)) for tensor in model.graph.initializer)

    return operation


def raw_mmap() -> Callable[[], object]:
    """List the offsets of the float16 weights. Return an operation that maps the file and reads one value per page."""
    import mmap

    import numpy as np

    import onnxwire

    tensors = [
        (info.name, info.offset, np.dtype(np.float16), info.shape)
        for info in onnxwire.tensors(str(PATH))
        if info.data_type == onnxwire.TensorProto.FLOAT16 and info.path.startswith("graph.initializer")
    ]

    def operation() -> object:
        with PATH.open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return weights.read_pages(
            (name, np.frombuffer(mapping, dtype, int(np.prod(shape)), offset).reshape(shape))
            for name, offset, dtype, shape in tensors
        )

    return operation


ROWS = [
    Row(
        "all weights of a 1 GiB file as arrays, reading one value per memory page",
        prepare=list_initializers.prepare,
        inputs=(PATH,),
        ours=lambda: weights.ours(str(PATH)),
        official=official,
        fingerprint=weights.fingerprint,
        goal=20,
        anonymous_goal=weights.ANONYMOUS_GOAL_BYTES,
    ),
    Row(
        "the same, compared with a plain mmap at known offsets",
        prepare=list_initializers.prepare,
        inputs=(PATH,),
        ours=lambda: weights.ours(str(PATH)),
        official=raw_mmap,
        fingerprint=weights.fingerprint,
        goal=1 / 1.2,  # at most 1.2 times the time of the mmap
        repeats=15,
        other_program="mmap",
    ),
]
