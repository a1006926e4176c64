"""Draws the graph around a node: the connected nodes as boxes and edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from onnxwire.analysis.live_scopes import captured_names, definitions
from onnxwire.messages import FunctionProto, GraphProto, NodeProto
from onnxwire.viewer.graph_layout import lay_out

Scope = GraphProto | FunctionProto

_WIDTH, _HEIGHT = 172, 42  # size of a box for a node, in pixels; boxes for values are not wider
_VALUE_HEIGHT = 28  # height of a box for a value, in pixels
_CHAR_WIDTH, _PADDING = 7, 26  # the widths of a character and of both margins of a name, in pixels
_MAX_NODES = 36  # maximum number of drawn nodes besides the central one
_MAX_WEIGHTS = 8  # maximum number of boxes for the weights of one node
_MAX_VALUE_BOXES = 24  # maximum number of boxes for the values of one node
_MAX_PARALLEL_EDGES = 8  # maximum number of edges from one box to another
_MAX_NAME_CHARS = 200  # maximum length of a label


class Connections:
    """The producers and consumers of the values of a graph.

    producer, initializers, sparse_initializers, inputs: the index of the node, initializer, sparse initializer or input
    that a name refers to, by name. outputs: the outputs of the graph. consumers: by name of a value, the indices of the
    nodes that use it, in order, including nodes that use it only inside their subgraphs. captured: by index of a node,
    the outer values that its subgraphs use.
    """

    def __init__(self, scope: Scope) -> None:
        self.inputs, initializers, self.producer = definitions(scope)
        n_dense = len(scope.initializer) if isinstance(scope, GraphProto) else 0
        self.initializers = {name: index for name, index in initializers.items() if index < n_dense}
        self.sparse_initializers = {name: index - n_dense for name, index in initializers.items() if index >= n_dense}
        self.outputs = {value.name for value in scope.output} if isinstance(scope, GraphProto) else set(scope.output)
        self.consumers: dict[str, list[int]] = {}
        # Cached by node, since scanning a million subgraphs takes a second.
        self.captured: dict[int, list[str]] = {}
        for index, node in enumerate(scope.node):
            if captured := captured_names(node):
                self.captured[index] = captured
            for name in self.used_values(node, index):
                self.consumers.setdefault(name, []).append(index)

    def origin(self, name: str, path: str) -> tuple[str, str]:
        """Return the kind of a value (node, weight, input or outer), and the path of its producer or tensor, or "".

        path: the path of the graph.
        """
        for kind, indices, element in (
            ("node", self.producer, "node[{}]"),
            ("weight", self.initializers, "initializer[{}]"),
            ("weight", self.sparse_initializers, "sparse_initializer[{}].values"),
        ):
            if name in indices:
                return kind, f"{path}.{element.format(indices[name])}"
        return ("input" if name in self.inputs else "outer"), ""

    def used_values(self, node: NodeProto, index: int) -> list[str]:
        """Return the values that a node uses, without duplicates, captured values last.

        index: the index of the node in the graph.
        """
        return [name for name in dict.fromkeys([*node.input, *self.captured.get(index, ())]) if name]


@dataclass
class Box:
    """A box of the drawing.

    kind: node, input, output, weight or outer. label: the name of the node or value. path: the path of the node or
    tensor, or "". op_type, index: the operator and the index of a node. width, height, x, y: the size and the center,
    in pixels. hidden: the number of connections that are not drawn.
    """

    kind: str
    label: str
    path: str = ""
    op_type: str = ""
    index: int = 0
    width: float = _WIDTH
    height: float = _HEIGHT
    x: float = 0
    y: float = 0
    hidden: int = 0


@dataclass
class Drawing:
    """Boxes, and edges between them.

    edges: the indices of two boxes, and the value. bends: the points at which each edge enters and leaves the rows that
    it passes. width, height: the size, in pixels. value_boxes: indices of boxes by kind and name of the value.
    edge_counts: the number of edges by the indices of both boxes.
    """

    boxes: list[Box] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    bends: list[list[tuple[float, float]]] = field(default_factory=list)
    width: float = 0
    height: float = 0
    value_boxes: dict[tuple[str, str], int] = field(default_factory=dict)
    edge_counts: dict[tuple[int, int], int] = field(default_factory=dict)

    def add_edge(self, start: int, end: int, value: str) -> bool:
        """Add an edge. Return False if there are 8 edges between the two boxes already."""
        count = self.edge_counts.get((start, end), 0)
        if count >= _MAX_PARALLEL_EDGES:
            return False
        self.edge_counts[start, end] = count + 1
        self.edges.append((start, end, _truncate(value)))
        return True

    def add_value_box(self, kind: str, name: str, path: str, limit: int) -> int | None:
        """Return the index of the box for a value. Add a missing box, or return None if there are `limit` boxes."""
        number = self.value_boxes.get((kind, name))
        if number is None and len(self.boxes) < limit:
            number = self.value_boxes[kind, name] = len(self.boxes)
            width = min(_PADDING + _CHAR_WIDTH * len(name), _WIDTH)
            self.boxes.append(Box(kind, _truncate(name), path, width=width, height=_VALUE_HEIGHT))
        return number


def draw_around(scope: Scope, path: str, connections: Connections, index: int, hops: int) -> Drawing:
    """Draw a node with its predecessors and successors up to `hops` steps away.

    scope, path: the graph or function, and its path. index: the index of the node there. hops: 0 or more. Draws up to
    36 other nodes, the nearest first, each with up to 24 boxes of values, and up to 8 edges between two boxes. Each box
    counts its omitted connections, except weights of nodes other than the central one, and edges that lead backwards.
    """
    nodes = scope.node
    drawn_nodes = _find_nearest(nodes, connections, index, hops)
    drawing = Drawing()
    numbers: dict[int, int] = {}
    for node_index in sorted(drawn_nodes):
        node = nodes[node_index]
        name = node.name or next(iter(node.output), "") or f"node {node_index}"
        numbers[node_index] = len(drawing.boxes)
        drawing.boxes.append(
            Box("node", _truncate(name), f"{path}.node[{node_index}]", _truncate(node.op_type), node_index)
        )
    for node_index in numbers:
        _connect(drawing, scope, path, connections, node_index, numbers, node_index == index)
    _place(drawing)
    return drawing


def _find_nearest(nodes: Any, connections: Connections, index: int, hops: int) -> set[int]:
    """Return the indices of the nodes to draw. Each step adds predecessors, then successors."""
    drawn_nodes = {index}
    predecessors, successors = [index], [index]
    for _ in range(hops):
        sources = (
            connections.producer[name]
            for drawn_index in predecessors
            for name in connections.used_values(nodes[drawn_index], drawn_index)
            if name in connections.producer
        )
        predecessors = _add_nodes(sources, drawn_nodes, _MAX_NODES // 2)
        targets = (
            consumer
            for drawn_index in successors
            for name in dict.fromkeys(nodes[drawn_index].output)
            for consumer in connections.consumers.get(name, ())
        )
        successors = _add_nodes(targets, drawn_nodes, _MAX_NODES // 2)
    return drawn_nodes


def _add_nodes(indices: Iterable[int], drawn_nodes: set[int], limit: int) -> list[int]:
    """Add up to `limit` new indices, until `drawn_nodes` has more than _MAX_NODES. Return the added indices."""
    added: list[int] = []
    for index in indices:
        if len(drawn_nodes) > _MAX_NODES or len(added) >= limit:
            break
        if index not in drawn_nodes:
            drawn_nodes.add(index)
            added.append(index)
    return added


def _connect(
    drawing: Drawing,
    scope: Scope,
    path: str,
    connections: Connections,
    index: int,
    numbers: dict[int, int],
    is_central: bool,
) -> None:
    """Add the edges that lead to a node's box, and boxes with edges for values that no node produces and for outputs.

    index: the index of the node. numbers: the indices of the boxes of nodes, by index of the node. is_central: whether
    this is the central node, whose weights are drawn.
    """
    boxes = drawing.boxes
    node, number = scope.node[index], numbers[index]
    box, limit = boxes[number], len(boxes) + _MAX_VALUE_BOXES
    n_weights = 0
    for name in connections.used_values(node, index):
        source = connections.producer.get(name)
        if source is not None:
            box.hidden += source not in numbers or not drawing.add_edge(numbers[source], number, name)
            continue
        kind, element_path = connections.origin(name, path)
        if kind == "weight" and (not is_central or n_weights >= _MAX_WEIGHTS):
            box.hidden += is_central
            continue
        n_weights += kind == "weight"
        value_number = drawing.add_value_box(kind, name, element_path, limit)
        box.hidden += value_number is None or not drawing.add_edge(value_number, number, name)
    for name in dict.fromkeys(node.output):
        box.hidden += sum(consumer not in numbers for consumer in connections.consumers.get(name, ()))
        if name in connections.outputs:
            output_number = drawing.add_value_box("output", name, "", limit)
            box.hidden += output_number is None or not drawing.add_edge(number, output_number, name)


def _truncate(name: str) -> str:
    """Truncate a name."""
    return name if len(name) <= _MAX_NAME_CHARS else name[: _MAX_NAME_CHARS - 1] + "…"


def _place(drawing: Drawing) -> None:
    """Set the coordinates of each box, and the points where each edge passes a row.

    Edges that lead backwards are omitted: only an invalid graph, which is not sorted, has them.
    """
    boxes = drawing.boxes
    # Inputs, weights and outer values are above all nodes, outputs below.
    order = {"input": -1, "weight": -1, "outer": -1, "output": 1 << 62}
    rank = [order.get(box.kind, box.index) for box in boxes]
    drawing.edges = [edge for edge in dict.fromkeys(drawing.edges) if rank[edge[0]] < rank[edge[1]]]
    layout = lay_out([(box.width, box.height) for box in boxes], [(start, end) for start, end, _ in drawing.edges])
    for box, x, y in zip(boxes, layout.x, layout.y, strict=True):
        box.x, box.y = x, y
    for (start, _, _), bends in zip(drawing.edges, layout.bends, strict=True):
        # Two points per row: an edge passes a row vertically and bends between rows.
        passed_spans = layout.spans[layout.rows[start] + 1 :]
        drawing.bends.append([(x, y) for x, span in zip(bends, passed_spans, strict=False) for y in span])
    drawing.width, drawing.height = layout.width, layout.height
