"""Summarizes models: counts and sizes, without reading weights."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator

from onnxwire.analysis.describe import describe_type
from onnxwire.engine.nesting_limit import MAX_DEPTH, depth_error
from onnxwire.io.tensor_list import tensor_bytes
from onnxwire.messages import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
)
from onnxwire.tensor.dtypes import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LEVELS_PER_GRAPH = 3  # a graph in a graph is the value of an attribute of a node
_N_LARGEST_TENSORS = 10  # number of tensors that are listed by size
_MIN_IR_FREE_INITIALIZERS = 4  # from this IR version on, an initializer need not be an input
_Attribute = AttributeProto
_TYPES_WITHOUT_TENSORS = {
    _Attribute.FLOAT,
    _Attribute.INT,
    _Attribute.STRING,
    _Attribute.FLOATS,
    _Attribute.INTS,
    _Attribute.STRINGS,
    _Attribute.TYPE_PROTO,
    _Attribute.TYPE_PROTOS,
}
"""The types of attributes that contain neither tensors nor graphs."""


def summarize(model: ModelProto) -> dict[str, Any]:
    """Count the contents of a model, including subgraphs, functions and training graphs.

    Returns the data that `onnxwire info --json` prints, such as names, types, counts, and sizes in bytes; equal
    entries of a list can be one dict. From IR version 4 on, memory does not grow with the numbers of nodes and tensors.
    Raises DecodeError for damaged bytes and for graphs inside more than 100 messages.
    """
    graph = model.graph
    tally = _Tally()
    tally.add(iter((graph,)), 1)
    for training in model.training_info:
        tally.add(iter((training.initialization, training.algorithm)), 2)
    for function in model.functions:
        tally.add(tally.count_nodes(function.node), 4)
        tally.add(tally.count_attributes(function.attribute_proto), 3)
    initializer_names = (
        {tensor.name for tensor in graph.initializer} if model.ir_version < _MIN_IR_FREE_INITIALIZERS else set()
    )
    return {
        "file": model._document.name,
        "bytes": model.ByteSize(),
        "ir_version": model.ir_version,
        "opset_import": _to_list({"domain": opset.domain, "version": opset.version} for opset in model.opset_import),
        "producer_name": model.producer_name,
        "producer_version": model.producer_version,
        "domain": model.domain,
        "model_version": model.model_version,
        "doc_string": model.doc_string,
        "metadata_props": _to_list({"key": entry.key, "value": entry.value} for entry in model.metadata_props),
        "graph": {
            "name": graph.name,
            # Up to IR version 3 every initializer is an input too, which callers need not pass.
            "inputs": _to_list(_describe_value(value) for value in graph.input if value.name not in initializer_names),
            "outputs": _to_list(_describe_value(value) for value in graph.output),
        },
        "nodes": {
            "count": tally.operators.total(),
            "by_operator": [
                {"op_type": op_type, "domain": domain, "count": count}
                for (domain, op_type), count in sorted(tally.operators.items(), key=lambda item: (-item[1], item[0]))
            ],
        },
        "functions": _to_list(
            {"domain": function.domain, "name": function.name, "nodes": len(function.node)}
            for function in model.functions
        ),
        "tensors": {
            "count": tally.tensors,
            "bytes": sum(size for _, size in tally.by_type.values()),
            "external": tally.external,
            "by_data_type": [
                {"data_type": data_type, "count": count, "bytes": size}
                for data_type, (count, size) in sorted(tally.by_type.items(), key=lambda item: -item[1][1])
            ],
            "largest": [_describe_tensor(entry[2]) for entry in sorted(tally.largest, reverse=True)],
        },
    }


class _Tally:
    """Counts of operators and tensors.

    operators: the number of nodes by domain and op_type. by_type: the number of tensors and their total size in bytes,
    by the name of the data type. tensors: the number of tensors. external: the number of tensors with external
    data. largest: a heap of the largest tensors.
    """

    def __init__(self) -> None:
        self.operators: Counter[tuple[str, str]] = Counter()
        self.by_type: dict[str, tuple[int, int]] = {}
        self.tensors = 0
        self.external = 0
        self.largest: list[tuple[int, int, TensorProto]] = []  # size, -index, tensor

    def add(self, graphs: Iterator[GraphProto], depth: int) -> None:
        """Count graphs and the graphs in their attributes, one at a time.

        depth: the number of messages around each of `graphs`. Raises DecodeError for a graph inside more than
        MAX_DEPTH messages.
        """
        levels = [graphs]
        while levels:
            graph = next(levels[-1], None)
            if graph is None:
                levels.pop()
            elif depth + _LEVELS_PER_GRAPH * (len(levels) - 1) > MAX_DEPTH:
                raise depth_error(graph)
            else:
                levels.append(self._count_graph(graph))

    def count_nodes(self, nodes: Iterable[NodeProto]) -> Iterator[GraphProto]:
        """Count nodes, and yield the graphs in their attributes."""
        for node in nodes:
            self.operators[node.domain, node.op_type] += 1
            if len(node.attribute):
                yield from self.count_attributes(node.attribute)

    def count_attributes(self, attributes: Iterable[AttributeProto]) -> Iterator[GraphProto]:
        """Count tensors in attributes of a node, or in defaults of a function, and yield the graphs in them."""
        for attribute in attributes:
            if attribute.type in _TYPES_WITHOUT_TENSORS:
                continue
            # The type can be missing, so the fields that are present decide.
            if attribute.HasField("t"):
                self._add_tensor(attribute.t)
            if attribute.HasField("sparse_tensor"):
                self._add_sparse(attribute.sparse_tensor)
            for tensor in attribute.tensors:
                self._add_tensor(tensor)
            for sparse in attribute.sparse_tensors:
                self._add_sparse(sparse)
            if attribute.HasField("g"):
                yield attribute.g
            yield from attribute.graphs

    def _count_graph(self, graph: GraphProto) -> Iterator[GraphProto]:
        """Count the tensors of a graph; return an iterator that counts its nodes and yields the graphs in them."""
        for tensor in graph.initializer:
            self._add_tensor(tensor)
        for sparse in graph.sparse_initializer:
            self._add_sparse(sparse)
        return self.count_nodes(graph.node)

    def _add_sparse(self, sparse: SparseTensorProto) -> None:
        self._add_tensor(sparse.values)
        self._add_tensor(sparse.indices)

    def _add_tensor(self, tensor: TensorProto) -> None:
        """Count a tensor, and add it to the heap of the largest tensors if it is one of them."""
        name, size = name_of(tensor.data_type), tensor_bytes(tensor)
        count, total = self.by_type.get(name, (0, 0))
        self.by_type[name] = count + 1, total + size
        self.tensors += 1
        self.external += tensor.data_location == TensorProto.EXTERNAL
        if len(self.largest) < _N_LARGEST_TENSORS:
            heapq.heappush(self.largest, (size, -self.tensors, tensor))
        elif size > self.largest[0][0]:
            heapq.heapreplace(self.largest, (size, -self.tensors, tensor))


def _to_list(entries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a list in which equal consecutive entries are one object, since a damaged file can have a million
    entries."""
    result: list[dict[str, Any]] = []
    for entry in entries:
        result.append(result[-1] if result and result[-1] == entry else entry)
    return result


def _describe_tensor(tensor: TensorProto) -> dict[str, Any]:
    return {
        "name": tensor.name,
        "data_type": name_of(tensor.data_type),
        "shape": list(tensor.dims),
        "bytes": tensor_bytes(tensor),
    }


def _describe_value(value: ValueInfoProto) -> dict[str, str]:
    return {"name": value.name, "type": describe_type(value.type)}
