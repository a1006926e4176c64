"""List every tensor at any depth of a model of 1 GiB: name, data type, shape and number of bytes."""

from collections.abc import Callable, Iterator
from typing import Any

from benchmarks import list_initializers
from benchmarks.row import Row

PATH = str(list_initializers.PATH)


def ours() -> Callable[[], object]:
    """Return an operation that lists the tensors without loading the model."""
    import onnxwire

    return lambda: [(info.name, info.data_type, info.shape, info.nbytes) for info in onnxwire.tensors(PATH)]


def tensors_of(graph: Any) -> Iterator[Any]:
    """Yield the tensors of a graph and its subgraphs, without sparse tensors, which the input files do not have.

    graph: a message of the package onnx.
    """
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for subgraph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from tensors_of(subgraph)


def official() -> Callable[[], object]:
    """Return an operation that loads the model and lists its tensors."""
    import onnx
    from onnx.helper import tensor_dtype_to_np_dtype

    def describe(tensor: Any) -> tuple[str, int, tuple[int, ...], int]:
        size = tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        for dim in tensor.dims:
            size *= dim
        return tensor.name, tensor.data_type, tuple(tensor.dims), size

    return lambda: [describe(tensor) for tensor in tensors_of(onnx.load(PATH).graph)]


ROWS = [
    Row(
        "index all tensors of a 1 GiB file",
        prepare=list_initializers.prepare,
        inputs=(list_initializers.PATH,),
        ours=ours,
        official=official,
        fingerprint=sorted,
        memory_goal=5e6,
    )
]
