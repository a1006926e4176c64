"""What is in a model, counted without reading a weight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from onnxwire.messages import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

_LARGEST = 10

_BITS = {
    "FLOAT": 32, "UINT8": 8, "INT8": 8, "UINT16": 16, "INT16": 16, "INT32": 32, "INT64": 64, "BOOL": 8, "FLOAT16": 16,
    "DOUBLE": 64, "UINT32": 32, "UINT64": 64, "COMPLEX64": 64, "COMPLEX128": 128, "BFLOAT16": 16, "UINT4": 4, "INT4": 4,
    "FLOAT4E2M1": 4, "UINT2": 2, "INT2": 2, "FLOAT6E2M3": 6, "FLOAT6E3M2": 6,
}  # fmt: skip

Operators = Counter[tuple[str, str]]

_A = AttributeProto
_PLAIN = {_A.FLOAT, _A.INT, _A.STRING, _A.FLOATS, _A.INTS, _A.STRINGS, _A.TYPE_PROTO, _A.TYPE_PROTOS}


def summarize(model: ModelProto) -> dict[str, Any]:
    """Count what is in a model, subgraphs, functions and training graphs included.

    Returns what `onnxwire info --json` prints: names, types, counts, and sizes in bytes.
    """
    operators: Operators = Counter()
    tensors: list[tuple[str, str, list[int], int]] = []
    external = 0
    graph = model.graph
    functions = []
    pending: list[GraphProto] = [graph]
    for training in model.training_info:
        pending += [training.initialization, training.algorithm]
    for function in model.functions:
        functions.append({"domain": function.domain, "name": function.name, "nodes": len(function.node)})
        for tensor in _walk_nodes(function.node, operators, pending):
            tensors.append(_describe(tensor))
            external += tensor.data_location == TensorProto.EXTERNAL
    while pending:
        current = pending.pop()
        for tensor in _walk_graph(current, operators, pending):
            tensors.append(_describe(tensor))
            external += tensor.data_location == TensorProto.EXTERNAL

    by_type: dict[str, list[int]] = {}
    for _, data_type, _, size in tensors:
        by_type.setdefault(data_type, []).append(size)
    initialized = {tensor.name for tensor in graph.initializer}
    largest = sorted(tensors, key=lambda tensor: tensor[3], reverse=True)[:_LARGEST]
    return {
        "file": model._document.name,
        "bytes": model.ByteSize(),
        "ir_version": model.ir_version,
        "opset_import": {opset.domain: opset.version for opset in model.opset_import},
        "producer_name": model.producer_name,
        "producer_version": model.producer_version,
        "domain": model.domain,
        "model_version": model.model_version,
        "doc_string": model.doc_string,
        "metadata_props": {entry.key: entry.value for entry in model.metadata_props},
        "graph": {
            "name": graph.name,
            # Up to IR version 3 an initializer had to be an input too, which is not what a caller passes.
            "inputs": [_describe_value(value) for value in graph.input if value.name not in initialized],
            "outputs": [_describe_value(value) for value in graph.output],
        },
        "nodes": {
            "count": operators.total(),
            "by_operator": [
                {"op_type": op_type, "domain": domain, "count": count}
                for (domain, op_type), count in sorted(operators.items(), key=lambda item: (-item[1], item[0]))
            ],
        },
        "functions": functions,
        "tensors": {
            "count": len(tensors),
            "bytes": sum(tensor[3] for tensor in tensors),
            "external": external,
            "by_data_type": [
                {"data_type": data_type, "count": len(sizes), "bytes": sum(sizes)}
                for data_type, sizes in sorted(by_type.items(), key=lambda item: -sum(item[1]))
            ],
            "largest": [
                {"name": name, "data_type": data_type, "shape": shape, "bytes": size}
                for name, data_type, shape, size in largest
            ],
        },
    }


def describe_type(type: TypeProto) -> str:
    """A type as ONNX writes it: float[batch, 3], seq(map(int64, float)), optional(...); [...] for an unknown rank."""
    kind = type.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = type.tensor_type if kind == "tensor_type" else type.sparse_tensor_type
        shape = "[...]"
        if tensor.HasField("shape"):
            dims = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
            shape = f"[{', '.join(dims)}]"
        text = _type_name(tensor.elem_type).lower() + shape
        return f"sparse_tensor({text})" if kind == "sparse_tensor_type" else text
    if kind == "sequence_type":
        return f"seq({describe_type(type.sequence_type.elem_type)})"
    if kind == "map_type":
        return f"map({_type_name(type.map_type.key_type).lower()}, {describe_type(type.map_type.value_type)})"
    if kind == "optional_type":
        return f"optional({describe_type(type.optional_type.elem_type)})"
    if kind == "opaque_type":
        return f"opaque({type.opaque_type.domain}, {type.opaque_type.name})"
    return "?"


def _describe_value(value: ValueInfoProto) -> dict[str, str]:
    return {"name": value.name, "type": describe_type(value.type)}


def _walk_graph(graph: GraphProto, operators: Operators, pending: list[GraphProto]) -> Iterator[TensorProto]:
    """Count the operators of one graph, give its tensors, and put the graphs of its attributes on `pending`."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    yield from _walk_nodes(graph.node, operators, pending)


def _walk_nodes(nodes: Iterable[NodeProto], operators: Operators, pending: list[GraphProto]) -> Iterator[TensorProto]:
    for node in nodes:
        operators[node.domain, node.op_type] += 1
        for attribute in node.attribute:
            if attribute.type in _PLAIN:
                continue
            # The type may be missing, so what is there decides.
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                pending.append(attribute.g)
            if attribute.HasField("sparse_tensor"):
                yield attribute.sparse_tensor.values
                yield attribute.sparse_tensor.indices
            yield from attribute.tensors
            pending += attribute.graphs
            for sparse in attribute.sparse_tensors:
                yield sparse.values
                yield sparse.indices


def _describe(tensor: TensorProto) -> tuple[str, str, list[int], int]:
    """Name, data type, shape and size in bytes."""
    data_type, shape = _type_name(tensor.data_type), list(tensor.dims)
    span = tensor._span("raw_data")
    if span is not None:
        return tensor.name, data_type, shape, span[1] - span[0]
    if tensor.data_location == TensorProto.EXTERNAL:
        for entry in tensor.external_data:
            if entry.key == "length" and entry.value.isdecimal() and len(entry.value) < 20:
                return tensor.name, data_type, shape, int(entry.value)
    if tensor.data_type == TensorProto.STRING:
        return tensor.name, data_type, shape, sum(len(text) for text in tensor.string_data)
    elements = 1
    for dim in shape:
        elements *= max(dim, 0)
    return tensor.name, data_type, shape, (elements * _BITS.get(data_type, 8) + 7) // 8


def _type_name(data_type: int) -> str:
    value = TensorProto.DataType.DESCRIPTOR.values_by_number.get(data_type)
    return value.name if value is not None else str(data_type)
