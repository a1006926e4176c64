"""The graph around a node: which nodes it is connected with, and where their boxes are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from onnxwire._search import Search
from onnxwire.messages import FunctionProto, GraphProto, NodeProto

Scope = GraphProto | FunctionProto

_WIDTH, _HEIGHT = 172, 42  # of a box for a node, in pixels
_SMALL = 28  # the height of a box for a value
_LETTER, _PADDING = 7, 26  # the widths of a letter in it and of what is around its name
_BEND = 14  # the width that an edge takes where it passes a row
_GAP_X, _GAP_Y = 22, 44
_MOST = 36  # boxes that are drawn of nodes
_VALUES = 8  # boxes of weights that are drawn of one node


class Connections:
    """Which nodes of a graph make and take which values.

    producer: the place of the node that makes a value. consumers: the places of those that take it, in order, those
    included that take it inside their subgraphs. inputs, outputs: of the graph. initializers: places by name. sparse:
    places of sparse ones.
    """

    def __init__(self, scope: Scope) -> None:
        self.producer: dict[str, int] = {}
        self.consumers: dict[str, list[int]] = {}
        self.captured = _captures(scope)
        for place, node in enumerate(scope.node):
            for name in node.output:
                if name:
                    self.producer[name] = place
            for name in dict.fromkeys([*node.input, *self.captured.get(place, ())]):
                if name:
                    self.consumers.setdefault(name, []).append(place)
        self.initializers: dict[str, int] = {}
        self.sparse: dict[str, int] = {}
        if isinstance(scope, GraphProto):
            self.inputs = {value.name for value in scope.input}
            self.outputs = {value.name for value in scope.output}
            self.initializers = {tensor.name: place for place, tensor in enumerate(scope.initializer)}
            self.sparse = {sparse.values.name: place for place, sparse in enumerate(scope.sparse_initializer)}
        else:
            self.inputs, self.outputs = set(scope.input), set(scope.output)

    def takes(self, place: int, node: NodeProto) -> list[str]:
        """The values that a node takes, those of its subgraphs behind its own."""
        return [name for name in dict.fromkeys([*node.input, *self.captured.get(place, ())]) if name]


def _captures(scope: Scope) -> dict[int, list[str]]:
    """By place of a node, the values that the graphs in its attributes may take from outside."""
    used: dict[int, dict[str, None]] = {}
    made: dict[int, set[str]] = {}
    for path, inner in Search(scope, [GraphProto]):
        if not path.startswith("node["):
            continue
        place = int(path[5 : path.index("]")])
        names, here = used.setdefault(place, {}), made.setdefault(place, set())
        here.update(value.name for value in inner.input)
        here.update(tensor.name for tensor in inner.initializer)
        for node in inner.node:
            names.update(dict.fromkeys(node.input))
            here.update(node.output)
        names.update(dict.fromkeys(value.name for value in inner.output))
    return {place: [name for name in names if name and name not in made[place]] for place, names in used.items()}


@dataclass
class Box:
    """A box of the drawing.

    kind: node, input, output, weight or outer. x, y: of its middle, in pixels. hidden: connections that are not drawn.
    """

    kind: str
    label: str
    path: str = ""
    op_type: str = ""
    place: int = 0
    width: float = _WIDTH
    height: float = _HEIGHT
    x: float = 0
    y: float = 0
    hidden: int = 0
    row: int = 0


@dataclass
class Drawing:
    """Boxes, and edges between their numbers with the value they stand for and the points that they pass."""

    boxes: list[Box] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    bends: list[list[tuple[float, float]]] = field(default_factory=list)
    width: float = 0
    height: float = 0


def around(scope: Scope, path: str, connections: Connections, place: int, hops: int) -> Drawing:
    """Draw a node with those that it is connected with by so many steps, before it and behind it.

    scope, path: the graph or function, and its path. place: of the node in it. hops: 0 or more. The nearest 36 nodes
    are drawn; each box says how many of its connections are not.
    """
    nodes = scope.node
    chosen = _nearest(nodes, connections, place, hops)
    drawing = Drawing()
    numbers: dict[int, int] = {}
    for other in sorted(chosen):
        node = nodes[other]
        name = node.name or next(iter(node.output), "") or f"node {other}"
        numbers[other] = len(drawing.boxes)
        drawing.boxes.append(Box("node", name, f"{path}.node[{other}]", node.op_type, other))
    for other, number in list(numbers.items()):
        _connect(drawing, scope, path, connections, other, number, numbers, other == place)
    _lay_out(drawing)
    return drawing


def _nearest(nodes: Any, connections: Connections, place: int, hops: int) -> set[int]:
    """The places of the nodes to draw, nearest first, before the node and behind it by turns."""
    chosen = {place}
    before, behind = [place], [place]
    for _ in range(hops):
        sources = (
            connections.producer[name]
            for near in before
            for name in connections.takes(near, nodes[near])
            if name in connections.producer
        )
        before = _take(sources, chosen, _MOST // 2)
        targets = (
            other for near in behind for name in nodes[near].output for other in connections.consumers.get(name, ())
        )
        behind = _take(targets, chosen, _MOST // 2)
    return chosen


def _take(places: Iterable[int], chosen: set[int], most: int) -> list[int]:
    """Choose what is new of some places, as long as there is room."""
    taken: list[int] = []
    for place in places:
        if len(chosen) > _MOST or len(taken) >= most:
            break
        if place not in chosen:
            chosen.add(place)
            taken.append(place)
    return taken


def _connect(
    drawing: Drawing,
    scope: Scope,
    path: str,
    connections: Connections,
    place: int,
    number: int,
    numbers: dict[int, int],
    is_focus: bool,
) -> None:
    """Add the edges that lead to a box, and the boxes of what no node makes or only the caller takes."""
    boxes, edges = drawing.boxes, drawing.edges
    node = scope.node[place]
    values = 0
    for name in connections.takes(place, node):
        source = connections.producer.get(name)
        if source is not None:
            if source in numbers:
                edges.append((numbers[source], number, name))
            else:
                boxes[number].hidden += 1
            continue
        kind, where = _origin(connections, path, name)
        if kind == "weight" and (not is_focus or values >= _VALUES):
            boxes[number].hidden += is_focus
            continue
        values += kind == "weight"
        old = next((i for i, box in enumerate(boxes) if box.kind == kind and box.label == name), None)
        if old is None:
            boxes.append(_value_box(kind, name, where))
            old = len(boxes) - 1
        edges.append((old, number, name))
    for name in node.output:
        boxes[number].hidden += sum(other not in numbers for other in connections.consumers.get(name, ()))
        if name in connections.outputs:
            boxes.append(_value_box("output", name))
            edges.append((number, len(boxes) - 1, name))


def _value_box(kind: str, name: str, path: str = "") -> Box:
    """A box for a value, as wide as its name."""
    return Box(kind, name, path, width=min(_PADDING + _LETTER * len(name), _WIDTH), height=_SMALL)


def _origin(connections: Connections, path: str, name: str) -> tuple[str, str]:
    """What a value is that no node of the graph makes, and the path of its tensor."""
    if name in connections.initializers:
        return "weight", f"{path}.initializer[{connections.initializers[name]}]"
    if name in connections.sparse:
        return "weight", f"{path}.sparse_initializer[{connections.sparse[name]}].values"
    return ("input" if name in connections.inputs else "outer"), ""


def _lay_out(drawing: Drawing) -> None:
    """Give each box its row and place, and each edge the points where it passes a row.

    The way of Sugiyama et al. (1981): rows by the longest way, points where long edges pass, an order within the rows
    that crosses few edges, then places near to the neighbours'.
    """
    boxes = drawing.boxes
    _set_rows(drawing)
    rows: list[list[int]] = [[] for _ in range(max(box.row for box in boxes) + 1)]
    widths = [box.width for box in boxes]
    for number, box in enumerate(boxes):
        rows[box.row].append(number)
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    chains = []
    for start, end, _ in drawing.edges:
        chain = [start]
        for row in range(boxes[start].row + 1, boxes[end].row):
            chain.append(len(widths))
            rows[row].append(len(widths))
            widths.append(_BEND)
        chain.append(end)
        chains.append(chain)
        for a, b in pairwise(chain):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    for sweep in range(8):
        _order(rows, above if sweep % 2 == 0 else below, sweep % 2 == 0)
    x = _spread_out(rows, widths, above, below)
    heights = [max([_SMALL, *(boxes[n].height for n in row if n < len(boxes))]) for row in rows]
    tops = [sum(heights[:i]) + i * _GAP_Y for i in range(len(rows))]
    left = min(x[n] - widths[n] / 2 for n in range(len(widths)))
    for number, box in enumerate(boxes):
        box.x, box.y = round(x[number] - left, 1), tops[box.row] + heights[box.row] / 2
    for chain in chains:
        row = boxes[chain[0]].row
        middles = [(round(x[n] - left, 1), tops[row + 1 + i]) for i, n in enumerate(chain[1:-1])]
        # Straight down past the boxes of the row, to bend between rows only.
        drawing.bends.append(
            [point for i, (px, y) in enumerate(middles) for point in _pass(px, y, heights[row + 1 + i])]
        )
    drawing.width = round(max(x[n] + widths[n] / 2 for n in range(len(widths))) - left, 1)
    drawing.height = tops[-1] + heights[-1]


def _pass(x: float, top: float, height: float) -> Iterator[tuple[float, float]]:
    yield x, top
    yield x, top + height


def _set_rows(drawing: Drawing) -> None:
    """Give each box its row: below all that lead to it. Edges that lead back are left out of it, and of the drawing."""
    boxes = drawing.boxes
    order = {"input": -1, "weight": -1, "outer": -1, "output": 1 << 62}
    rank = [order.get(box.kind, box.place) for box in boxes]
    # A damaged graph may have cycles; a sound one is sorted.
    drawing.edges = [edge for edge in dict.fromkeys(drawing.edges) if rank[edge[0]] < rank[edge[1]]]
    for start, end, _ in sorted(drawing.edges, key=lambda edge: rank[edge[1]]):
        boxes[end].row = max(boxes[end].row, boxes[start].row + 1)
    # What nothing leads to comes right above what it leads to.
    entered = {end for _, end, _ in drawing.edges}
    for number, box in enumerate(boxes):
        targets = [boxes[end].row for start, end, _ in drawing.edges if start == number]
        if number not in entered and targets:
            box.row = min(targets) - 1


def _order(rows: list[list[int]], neighbours: dict[int, list[int]], downwards: bool) -> None:
    """Sort each row by the mean place of the neighbours in the row before it."""
    for i in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
        before = rows[i - 1] if downwards else rows[i + 1]
        places = {number: place / max(len(before) - 1, 1) for place, number in enumerate(before)}

        def mean(number: int, own: float, places: dict[int, float] = places) -> float:
            near = [places[other] for other in neighbours.get(number, ()) if other in places]
            return sum(near) / len(near) if near else own

        row = rows[i]
        keys = {number: mean(number, place / max(len(row) - 1, 1)) for place, number in enumerate(row)}
        row.sort(key=keys.__getitem__)


def _spread_out(
    rows: list[list[int]], widths: list[float], above: dict[int, list[int]], below: dict[int, list[int]]
) -> list[float]:
    """The middles of all boxes and bends: near to their neighbours', and with room between those of a row."""
    x = [0.0] * len(widths)
    for row in rows:
        total = sum(widths[n] for n in row) + _GAP_X * (len(row) - 1)
        edge = -total / 2
        for number in row:
            x[number] = edge + widths[number] / 2
            edge += widths[number] + _GAP_X
    # By the rows above and below in turn: by both at once, neighbours of different degrees would drift without end.
    for sweep in range(8):
        is_down = sweep % 2 == 0
        neighbours = above if is_down else below
        for row in rows if is_down else rows[::-1]:
            wanted = []
            for number in row:
                near = neighbours.get(number)
                wanted.append(sum(x[n] for n in near) / len(near) if near else x[number])
            for number, place in zip(row, _apart(row, wanted, widths), strict=True):
                x[number] = place
    return x


def _apart(row: list[int], wanted: list[float], widths: list[float]) -> list[float]:
    """The places nearest to those wanted, by least squares, at which nothing overlaps.

    Without the room that each needs this is isotonic regression: neighbours in the wrong order are put together at
    their mean (Ayer et al. 1955).
    """
    offsets = [0.0] * len(row)
    for i in range(1, len(row)):
        offsets[i] = offsets[i - 1] + (widths[row[i - 1]] + widths[row[i]]) / 2 + _GAP_X
    pools: list[tuple[float, int]] = []  # sum of what is wanted, and how many want it
    for want, offset in zip(wanted, offsets, strict=True):
        total, count = want - offset, 1
        while pools and pools[-1][0] * count >= total * pools[-1][1]:
            last, of_last = pools.pop()
            total, count = total + last, count + of_last
        pools.append((total, count))
    means = [total / count for total, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
