"""The graph around a node: which nodes it is connected with, as boxes and edges."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from onnxwire.analysis.live_scopes import captured_names, definitions
from onnxwire.messages import FunctionProto, GraphProto, NodeProto
from onnxwire.viewer.graph_layout import lay_out

Scope = GraphProto | FunctionProto

_WIDTH, _HEIGHT = 172, 42  # of a box for a node, in pixels
_SMALL = 28  # the height of a box for a value
_LETTER, _PADDING = 7, 26  # the widths of a letter in it and of what is around its name
_MOST = 36  # boxes that are drawn of nodes
_VALUES = 8  # boxes of weights that are drawn of one node
_MOST_VALUES = 24  # boxes of values that are begun for one node
_PARALLEL = 8  # edges that are drawn from one box to another
_LONGEST = 200  # letters of a name


class Connections:
    """Which nodes of a graph make and take which values.

    producer, initializers, sparse, inputs: the index of the node, initializer, sparse initializer or input that a name
    refers to, by name. outputs: of the graph. consumers: the indices of the nodes that take a
    value, in order, those included that take it inside their subgraphs.
    """

    def __init__(self, scope: Scope) -> None:
        self.inputs, initializers, self.producer = definitions(scope)
        dense = len(scope.initializer) if isinstance(scope, GraphProto) else 0
        self.initializers = {name: index for name, index in initializers.items() if index < dense}
        self.sparse = {name: index - dense for name, index in initializers.items() if index >= dense}
        self.outputs = {value.name for value in scope.output} if isinstance(scope, GraphProto) else set(scope.output)
        self.consumers: dict[str, list[int]] = {}
        # Of nodes with subgraphs that take values of this graph; to look into a million subgraphs takes a second.
        self.captured: dict[int, list[str]] = {}
        for index, node in enumerate(scope.node):
            if captured := captured_names(node):
                self.captured[index] = captured
            for name in self.takes(node, index):
                self.consumers.setdefault(name, []).append(index)

    def takes(self, node: NodeProto, index: int) -> list[str]:
        """The values that a node takes, those of its subgraphs after its own, each once; index: of it in the graph."""
        return [name for name in dict.fromkeys([*node.input, *self.captured.get(index, ())]) if name]


@dataclass
class Box:
    """A box of the drawing.

    kind: node, input, output, weight or outer. x, y: of its middle, in pixels. hidden: connections that are not drawn.
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
    """Boxes, and edges between their numbers with the value they stand for and the points that they pass.

    values: numbers of boxes by kind and name; parallel: how many edges there are from one box to another.
    """

    boxes: list[Box] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    bends: list[list[tuple[float, float]]] = field(default_factory=list)
    width: float = 0
    height: float = 0
    values: dict[tuple[str, str], int] = field(default_factory=dict)
    parallel: dict[tuple[int, int], int] = field(default_factory=dict)

    def add_edge(self, start: int, end: int, value: str) -> bool:
        """Add an edge; False where there are too many between the two boxes."""
        count = self.parallel.get((start, end), 0)
        if count >= _PARALLEL:
            return False
        self.parallel[start, end] = count + 1
        self.edges.append((start, end, _short(value)))
        return True

    def value_box(self, kind: str, name: str, path: str, limit: int) -> int | None:
        """The number of the box for a value, as wide as its name; None where there would be more boxes than `limit`."""
        number = self.values.get((kind, name))
        if number is None and len(self.boxes) < limit:
            number = self.values[kind, name] = len(self.boxes)
            width = min(_PADDING + _LETTER * len(name), _WIDTH)
            self.boxes.append(Box(kind, _short(name), path, width=width, height=_SMALL))
        return number


def around(scope: Scope, path: str, connections: Connections, index: int, hops: int) -> Drawing:
    """Draw a node with those that it is connected with by `hops` steps, before it and after it.

    scope, path: the graph or function, and its path. index: of the node in it. hops: 0 or more. The nearest 36 nodes
    are drawn, each with up to 24 boxes of values and 8 edges to another one; each says how many of its connections are
    not.
    """
    nodes = scope.node
    chosen = _nearest(nodes, connections, index, hops)
    drawing = Drawing()
    numbers: dict[int, int] = {}
    for other in sorted(chosen):
        node = nodes[other]
        name = node.name or next(iter(node.output), "") or f"node {other}"
        numbers[other] = len(drawing.boxes)
        drawing.boxes.append(Box("node", _short(name), f"{path}.node[{other}]", _short(node.op_type), other))
    for other in numbers:
        _connect(drawing, scope, path, connections, other, numbers, other == index)
    _place(drawing)
    return drawing


def _nearest(nodes: Any, connections: Connections, index: int, hops: int) -> set[int]:
    """The indices of the nodes to draw, nearest first, before the node and after it by turns."""
    chosen = {index}
    before, behind = [index], [index]
    for _ in range(hops):
        sources = (
            connections.producer[name]
            for near in before
            for name in connections.takes(nodes[near], near)
            if name in connections.producer
        )
        before = _take(sources, chosen, _MOST // 2)
        targets = (
            other
            for near in behind
            for name in dict.fromkeys(nodes[near].output)
            for other in connections.consumers.get(name, ())
        )
        behind = _take(targets, chosen, _MOST // 2)
    return chosen


def _take(indices: Iterable[int], chosen: set[int], most: int) -> list[int]:
    """Choose what is new of some indices, as long as there is room."""
    taken: list[int] = []
    for index in indices:
        if len(chosen) > _MOST or len(taken) >= most:
            break
        if index not in chosen:
            chosen.add(index)
            taken.append(index)
    return taken


def _connect(
    drawing: Drawing,
    scope: Scope,
    path: str,
    connections: Connections,
    index: int,
    numbers: dict[int, int],
    is_focus: bool,
) -> None:
    """Add the edges that lead to a box, and the boxes of values that no node makes or only the caller takes."""
    boxes = drawing.boxes
    node, number = scope.node[index], numbers[index]
    box, limit = boxes[number], len(boxes) + _MOST_VALUES
    weights = 0
    for name in connections.takes(node, index):
        source = connections.producer.get(name)
        if source is not None:
            box.hidden += source not in numbers or not drawing.add_edge(numbers[source], number, name)
            continue
        kind, where = _origin(connections, path, name)
        if kind == "weight" and (not is_focus or weights >= _VALUES):
            box.hidden += is_focus
            continue
        weights += kind == "weight"
        old = drawing.value_box(kind, name, where, limit)
        box.hidden += old is None or not drawing.add_edge(old, number, name)
    for name in dict.fromkeys(node.output):
        box.hidden += sum(other not in numbers for other in connections.consumers.get(name, ()))
        if name in connections.outputs:
            new = drawing.value_box("output", name, "", limit)
            box.hidden += new is None or not drawing.add_edge(number, new, name)


def _short(name: str) -> str:
    """A name as it is drawn."""
    return name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"


def _origin(connections: Connections, path: str, name: str) -> tuple[str, str]:
    """The kind of a value that no node of the graph makes, and the path of its tensor."""
    if name in connections.initializers:
        return "weight", f"{path}.initializer[{connections.initializers[name]}]"
    if name in connections.sparse:
        return "weight", f"{path}.sparse_initializer[{connections.sparse[name]}].values"
    return ("input" if name in connections.inputs else "outer"), ""


def _place(drawing: Drawing) -> None:
    """Give each box its coordinates, and each edge the points where it passes a row.

    Edges that lead back, as a damaged graph may have, are left out of the drawing; a sound graph is sorted.
    """
    boxes = drawing.boxes
    order = {"input": -1, "weight": -1, "outer": -1, "output": 1 << 62}
    rank = [order.get(box.kind, box.index) for box in boxes]
    drawing.edges = [edge for edge in dict.fromkeys(drawing.edges) if rank[edge[0]] < rank[edge[1]]]
    layout = lay_out([(box.width, box.height) for box in boxes], [(start, end) for start, end, _ in drawing.edges])
    for box, x, y in zip(boxes, layout.x, layout.y, strict=True):
        box.x, box.y = x, y
    for (start, _, _), bends in zip(drawing.edges, layout.bends, strict=True):
        # Straight down past the boxes of the row, to bend between rows only.
        passed = layout.spans[layout.rows[start] + 1 :]
        drawing.bends.append([(x, y) for x, span in zip(bends, passed, strict=False) for y in span])
    drawing.width, drawing.height = layout.width, layout.height
