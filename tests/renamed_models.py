"""Rename and reorder the elements of models, which does not change the models' results, and edit models randomly."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import numpy_helper


def graphs_in(nodes: object) -> Iterator[onnx.GraphProto]:
    """Yield the graphs in the attributes of nodes, at any depth."""
    for node in nodes:
        for attribute in node.attribute:
            for graph in [attribute.g] if attribute.HasField("g") else attribute.graphs:
                yield graph
                yield from graphs_in(graph.node)


def rename_everything(model: onnx.ModelProto, rng: random.Random) -> None:
    """Rename all values, nodes and weights outside of training_info, and shuffle nodes and initializers.

    The new order of nodes is that of `_random_order`.
    """
    names: dict[str, str] = {}

    def new_name(name: str) -> str:
        return names.setdefault(name, f"value_{len(names)}") if name else name

    functions = list(model.functions)
    scopes = [model.graph, *graphs_in(model.graph.node)]
    scopes += [scope for function in functions for scope in (function, *graphs_in(function.node))]
    for scope in scopes:
        if isinstance(scope, onnx.FunctionProto):
            for field in (scope.input, scope.output):
                field[:] = map(new_name, field)
        else:
            for value in [*scope.input, *scope.output]:
                value.name = new_name(value.name)
            for tensor in [*scope.initializer, *(sparse.values for sparse in scope.sparse_initializer)]:
                tensor.name = new_name(tensor.name)
            for annotation in scope.quantization_annotation:
                annotation.tensor_name = new_name(annotation.tensor_name)
                for entry in annotation.quant_parameter_tensor_names:
                    entry.value = new_name(entry.value)
        for value in scope.value_info:
            value.name = new_name(value.name)
        for node in scope.node:
            node.name = f"node_{rng.randrange(10**9)}"
            node.input[:] = map(new_name, node.input)
            node.output[:] = map(new_name, node.output)
    # The innermost graphs first, since reordering an outer graph copies its nested graphs.
    for scope in reversed(scopes):
        _reorder(scope.node, _random_order(list(scope.node), rng))
        if isinstance(scope, onnx.GraphProto):
            _reorder(scope.initializer, rng.sample(range(len(scope.initializer)), len(scope.initializer)))


def _reorder(field: object, order: list[int]) -> None:
    """Reorder the messages of a repeated field: the new element i is the old element order[i]."""
    elements = [type(field[index]).FromString(field[index].SerializeToString()) for index in order]
    del field[:]
    field.extend(elements)


def _random_order(nodes: list[onnx.NodeProto], rng: random.Random) -> list[int]:
    """Return the indexes of nodes in a random topological order, or in the current order if the nodes form a cycle."""
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    consumers = defaultdict(set)
    for index, node in enumerate(nodes):
        names = {*node.input}
        for graph in graphs_in([node]):
            names.update(name for inner_node in graph.node for name in inner_node.input)
            names.update(value.name for value in graph.output)
        for name in names & producers.keys():
            consumers[producers[name]].add(index)
    n_missing_producers = [0] * len(nodes)
    for indexes in consumers.values():
        for index in indexes:
            n_missing_producers[index] += 1
    ready_indexes, order = [index for index, count in enumerate(n_missing_producers) if not count], []
    while ready_indexes:
        order.append(ready_indexes.pop(rng.randrange(len(ready_indexes))))
        for index in sorted(consumers[order[-1]]):
            n_missing_producers[index] -= 1
            if not n_missing_producers[index]:
                ready_indexes.append(index)
    return order if len(order) == len(nodes) else list(range(len(nodes)))


def edit_randomly(model: onnx.ModelProto, rng: random.Random) -> bool:
    """Make one random edit of the main graph; return whether the chosen edit was possible."""
    return rng.choice(_EDITS)(model.graph, rng)


def _uses(graph: onnx.GraphProto, name: str) -> list[tuple[onnx.NodeProto, int]]:
    """Return each input `name` of the graph's nodes as a pair: the node and the index of the input."""
    return [
        (node, input_index)
        for node in graph.node
        for input_index, input_name in enumerate(node.input)
        if input_name == name
    ]


# --- edits; each returns whether it was possible


def _insert_identity(graph: onnx.GraphProto, rng: random.Random) -> bool:
    """Insert an Identity node between an output of a random node and its consumers."""
    index = rng.randrange(len(graph.node))
    names = [name for name in graph.node[index].output if name and _uses(graph, name)]
    if not names:
        return False
    name, identity_output = rng.choice(names), f"identity_{rng.randrange(10**9)}"
    for node, input_index in _uses(graph, name):
        node.input[input_index] = identity_output
    graph.node.insert(
        index + 1, onnx.helper.make_node("Identity", [name], [identity_output], name=f"of_{identity_output}")
    )
    return True


def _change_attribute(graph: onnx.GraphProto, rng: random.Random) -> bool:
    """Increase a random integer attribute."""
    attributes = [attribute for node in graph.node for attribute in node.attribute if attribute.HasField("i")]
    if attributes:
        rng.choice(attributes).i += rng.randrange(1, 5)
    return bool(attributes)


def _replace_weight(graph: onnx.GraphProto, rng: random.Random) -> bool:
    """Replace the elements of a random float initializer by random numbers."""
    types = onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16
    tensors = [tensor for tensor in graph.initializer if tensor.data_type in types and 0 not in tensor.dims]
    if tensors:
        tensor = rng.choice(tensors)
        old_array = numpy_helper.to_array(tensor)
        values = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(old_array.shape).astype(old_array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return bool(tensors)


def _delete_node(graph: onnx.GraphProto, rng: random.Random) -> bool:
    """Delete a random node, and connect the consumers of its only used output with its first input.

    Not possible if none or several of its outputs are used, if its first input is absent, or if one of its outputs is
    an output of the graph.
    """
    index = rng.randrange(len(graph.node))
    node = graph.node[index]
    used_outputs = [name for name in node.output if _uses(graph, name)]
    if (
        len(used_outputs) != 1
        or not node.input
        or not node.input[0]
        or {value.name for value in graph.output} & {*node.output}
    ):
        return False
    for consumer, input_index in _uses(graph, used_outputs[0]):
        consumer.input[input_index] = node.input[0]
    del graph.node[index]
    return True


def _rewire_input(graph: onnx.GraphProto, rng: random.Random) -> bool:
    """In a random node, replace an input that an earlier node produces by another output of an earlier node."""
    index = rng.randrange(len(graph.node))
    node = graph.node[index]
    earlier_outputs = [name for earlier_node in graph.node[:index] for name in earlier_node.output if name]
    input_indexes = [input_index for input_index, name in enumerate(node.input) if name in earlier_outputs]
    if not input_indexes:
        return False
    input_index = rng.choice(input_indexes)
    other_names = [name for name in earlier_outputs if name != node.input[input_index]]
    if other_names:
        node.input[input_index] = rng.choice(other_names)
    return bool(other_names)


_EDITS: list[Callable[[onnx.GraphProto, random.Random], bool]] = [
    _insert_identity,
    _change_attribute,
    _replace_weight,
    _delete_node,
    _rewire_input,
]
