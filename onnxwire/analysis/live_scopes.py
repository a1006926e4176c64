"""The names that graphs and functions define, and those that graphs capture, read from message objects.

Edits, and code that reads only a few graphs, use this module. The rules are those of `index/names`.
"""

from __future__ import annotations

from onnxwire.engine.scan import select_messages, strings_of
from onnxwire.index.names import definitions_of
from onnxwire.index.producers import producers_of
from onnxwire.messages import FunctionProto, GraphProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnxwire.engine.scan import NameFilter
    from onnxwire.index.producers import Producers
    from onnxwire.messages import NodeProto

    Scope = GraphProto | FunctionProto

# Each nested graph is inside a node and an attribute, and protobuf allows 100 nested messages.
_MAX_NESTED_GRAPHS = 33


def defined_names(scope: Scope, names: NameFilter | None = None) -> set[str]:
    """Return the names of the values that a graph or function defines: inputs, initializers, outputs of its nodes.

    names: a filter of names; the result then contains at least those defined names that the filter accepts.
    """
    inputs, initializers, outputs = _definitions_in(scope, names)
    result = {*inputs, *initializers}
    for node_outputs in outputs:
        result.update(node_outputs)
    result.discard("")
    return result


def definitions(scope: Scope) -> tuple[dict[str, int], dict[str, int], Producers]:
    """Resolve each name of a graph or function by the rules of `index/names`.

    Returns three mappings, with no name in two of them: the indexes, by name, of inputs, of initializers (sparse ones
    after dense ones) and of the nodes that produce a value.
    """
    inputs, initializers, _ = _definitions_in(scope)
    input_indexes, initializer_indexes, _ = definitions_of(inputs, initializers, ())
    return input_indexes, initializer_indexes, producers_of(scope.node, (*input_indexes, *initializer_indexes))


def _definitions_in(
    scope: Scope, names: NameFilter | None = None
) -> tuple[list[str], list[str], Iterable[Iterable[str]]]:
    """Return the names of a graph's or function's inputs and initializers, and the outputs of each node.

    names: as for `defined_names`; initializers and nodes that it rejects may be missing.
    """
    inputs: list[str] = []
    initializers: list[str] = []
    outputs: Iterable[Iterable[str]] = ()
    # Most graphs in attributes lack most of these fields, and a damaged file can have millions of empty graphs.
    for field, elements in scope.ListFields():
        if field.name == "node":
            outputs = strings_of(select_messages(elements, names) if names else elements, "output")
        elif field.name == "initializer":
            initializers = [tensor.name for tensor in select_messages(elements, names)]
        elif field.name == "sparse_initializer":
            initializers += [sparse.values.name for sparse in elements]
        elif field.name == "input":
            inputs = [value.name for value in elements] if isinstance(scope, GraphProto) else elements
    return inputs, initializers, outputs


def initializer_names(graph: GraphProto) -> set[str]:
    """Return the names of the dense and sparse initializers of a graph."""
    return {tensor.name for tensor in graph.initializer} | {sparse.values.name for sparse in graph.sparse_initializer}


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs in the attributes of a node, but not those nested in them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured_names(node: NodeProto) -> list[str]:
    """Return the names that graphs in a node's attributes use but do not define: values of enclosing graphs.

    Each name is listed once, in order of first use. Raises DecodeError for more than 33 levels of nested graphs.
    """
    if not node.attribute:
        return []
    order: dict[str, int] = {}
    names = _free_names(node, order, _MAX_NESTED_GRAPHS)
    names.discard("")
    return sorted(names, key=order.__getitem__)


def _free_names(node: NodeProto, order: dict[str, int], depth: int) -> set[str]:
    """Return the captured names as a set, and number new names in `order`.

    depth: the number of further levels of nested graphs that are allowed.
    """
    free_names: set[str] = set()
    for graph in graphs_of(node):
        if depth == 0:
            from onnxwire.engine.nesting_limit import depth_error

            raise depth_error(graph)
        used_names: set[str] = set()
        for inner_node in graph.node:
            for name in inner_node.input:
                order.setdefault(name, len(order))
                used_names.add(name)
            if inner_node.attribute:
                used_names = _union(used_names, _free_names(inner_node, order, depth - 1))
        for value in graph.output:
            order.setdefault(value.name, len(order))
            used_names.add(value.name)
        if used_names:
            free_names = _union(free_names, used_names - defined_names(graph))
    return free_names


def _union(first: set[str], second: set[str]) -> set[str]:
    """Return the union. The larger set absorbs the smaller, so that names are not copied at each level."""
    if len(first) < len(second):
        first, second = second, first
    first |= second
    return first
