"""The graph around a node: which nodes it is connected with, and where their boxes are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from onnxwire.analysis.scopes import captured_names
from onnxwire.messages import FunctionProto, GraphProto, NodeProto

Scope = GraphProto | FunctionProto

_WIDTH, _HEIGHT = 172, 42  # of a box for a node, in pixels
_SMALL = 28  # the height of a box for a value
_LETTER, _PADDING = 7, 26  # the widths of a letter in it and of what is around its name
_BEND = 14  # the width that an edge takes where it passes a row
_GAP_X, _GAP_Y = 22, 44
_MOST = 36  # boxes that are drawn of nodes
_VALUES = 8  # boxes of weights that are drawn of one node
_MOST_VALUES = 24  # boxes of values that are begun for one node
_PARALLEL = 8  # edges that are drawn from one box to another
_LONGEST = 200  # letters of a name


class Connections:
    """Which nodes of a graph make and take which values.

    producer: the index of the node that makes a value. consumers: the indices of those that take it, in order, those
    included that take it inside their subgraphs. inputs, outputs: of the graph. initializers: indices by name. sparse:
    indices of sparse ones.
    """

    def __init__(self, scope: Scope) -> None:
        self.producer: dict[str, int] = {}
        self.consumers: dict[str, list[int]] = {}
        for index, node in enumerate(scope.node):
            for name in node.output:
                if name:
                    self.producer[name] = index
            for name in self.takes(node):
                self.consumers.setdefault(name, []).append(index)
        self.initializers: dict[str, int] = {}
        self.sparse: dict[str, int] = {}
        if isinstance(scope, GraphProto):
            self.inputs = {value.name for value in scope.input}
            self.outputs = {value.name for value in scope.output}
            self.initializers = {tensor.name: index for index, tensor in enumerate(scope.initializer)}
            self.sparse = {sparse.values.name: index for index, sparse in enumerate(scope.sparse_initializer)}
        else:
            self.inputs, self.outputs = set(scope.input), set(scope.output)

    def takes(self, node: NodeProto) -> list[str]:
        """The values that a node takes, those of its subgraphs after its own, each once."""
        return [name for name in dict.fromkeys([*node.input, *captured_names(node)]) if name]


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
    row: int = 0


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
    _lay_out(drawing)
    return drawing


def _nearest(nodes: Any, connections: Connections, index: int, hops: int) -> set[int]:
    """The indices of the nodes to draw, nearest first, before the node and after it by turns."""
    chosen = {index}
    before, behind = [index], [index]
    for _ in range(hops):
        sources = (
            connections.producer[name]
            for near in before
            for name in connections.takes(nodes[near])
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
    for name in connections.takes(node):
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


def _lay_out(drawing: Drawing) -> None:
    """Give each box its row and position, and each edge the points where it passes a row.

    The way of Sugiyama et al. (1981): rows by the longest way, points where long edges pass, an order within the rows
    that crosses few edges, then positions near to the neighbours'.
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
    rank = [order.get(box.kind, box.index) for box in boxes]
    # A damaged graph may have cycles; a sound one is sorted.
    drawing.edges = [edge for edge in dict.fromkeys(drawing.edges) if rank[edge[0]] < rank[edge[1]]]
    for start, end, _ in sorted(drawing.edges, key=lambda edge: rank[edge[1]]):
        boxes[end].row = max(boxes[end].row, boxes[start].row + 1)
    # What nothing leads to comes right above what it leads to.
    entered = {end for _, end, _ in drawing.edges}
    targets: dict[int, list[int]] = {}
    for start, end, _ in drawing.edges:
        targets.setdefault(start, []).append(end)
    for number, ends in targets.items():
        if number not in entered:
            boxes[number].row = min(boxes[end].row for end in ends) - 1


def _order(rows: list[list[int]], neighbours: dict[int, list[int]], downwards: bool) -> None:
    """Sort each row by the mean position of the neighbours in the row before it."""
    for i in range(1, len(rows)) if downwards else range(len(rows) - 2, -1, -1):
        before = rows[i - 1] if downwards else rows[i + 1]
        positions = {number: position / max(len(before) - 1, 1) for position, number in enumerate(before)}

        def mean(number: int, own: float, positions: dict[int, float] = positions) -> float:
            near = [positions[other] for other in neighbours.get(number, ()) if other in positions]
            return sum(near) / len(near) if near else own

        row = rows[i]
        keys = {number: mean(number, position / max(len(row) - 1, 1)) for position, number in enumerate(row)}
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
            for number, middle in zip(row, _apart(row, wanted, widths), strict=True):
                x[number] = middle
    return x


def _apart(row: list[int], wanted: list[float], widths: list[float]) -> list[float]:
    """The positions nearest to those wanted, by least squares, at which nothing overlaps.

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
