"""The map of a model: what is in one group of nodes at a time, as boxes and edges; where a node is; paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.analysis.paths import resolve
from onnxwire.errors import PathError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.viewer.graph_layout import grid, lay_out
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.map_groups import Group, Groups

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_MOST_EDGES = 1_500  # of one group
_MOST_LOOSE = 8  # edges of a group that come from outside, or go there
_MOST_VALUES = 12  # boxes of inputs, and of outputs; more than these are one box
_OPERATORS = 4  # that a box tells
_TYPES = 3  # that an edge tells
# Widths and heights of boxes, in pixels.
_SIZES = {"node": (172, 42), "input": (172, 28), "output": (172, 28), "entry": (2, 2), "exit": (2, 2)}
_GROUP = (212, 62)
_LOOKED_AT = 100  # values of an edge whose types are told
_LONGEST = 200  # letters of a name


class ModelMap:
    """The map of one model, which must not be edited meanwhile."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.columns = MapColumns(model)
        self.groups = Groups(self.columns)
        # Every group that is drawn asks for the same one.
        self._last_route: tuple[tuple[str, str], Array] | None = None
        self._nodes: dict[str, Sequence[NodeProto]] = {}

    def contents(self, name: str, route: Array | None = None) -> dict[str, Any]:
        """Tell what is in a group.

        name: of the group, as `Groups` has it. route: rows of the nodes of a path that is to be lit.
        Returns name, kind, label, boxes, edges, left_off (how many edges are not told) and spans (top and bottom of
        each row of boxes, in pixels). A box has number (None for an input or output), kind, label, op_type, nodes,
        operators ([name, count], the most frequent first), parameters, bytes, times (members of a fold), path (of a
        node), opens (whether there is something in it), takes and gives (values from and to what is outside the group,
        where their edges are left out), lit, width, height, x and y (of its middle) and row; the last
        ones may be of kind entry and exit: where edges from outside the group begin, and those that leave it end. An
        edge has from and to (indices of boxes), count of its values, types (some of them), value (the name of the
        first), lit and bends: the x at which it passes each row between those of its ends.
        Raises PathError where there is no such group.
        """
        if (
            "/" not in name
            and name not in self.columns.graphs
            and isinstance(resolve(self.model, name).value, GraphProto | FunctionProto)
        ):
            return {"name": name, "kind": "graph", "label": name} | _drawn([], []) | {"left_off": 0}
        group, found = self.groups.find(name)
        boxes = self._boxes(found)
        edges: list[dict[str, Any]] = []
        left_off = 0
        # Graphs of one node stand side by side: nothing leads from one to another.
        if found and found[0].kind != "graph":
            edges, left_off = self._edges(found, boxes, group.kind in ("graph", "function", "node"), route)
        drawn = _drawn(boxes, edges)
        return {"name": name, "kind": group.kind, "label": group.label[:_LONGEST], "left_off": left_off} | drawn

    def locate(self, path: str) -> dict[str, Any]:
        """Tell where a node is: names of the groups that must be open to see it, from the outermost, and its box.

        path: of a node. Raises PathError where there is none.
        """
        steps = []
        row = self.columns.row_of(path)
        if row < 0:
            raise PathError("there is no such node", path[:_LONGEST])
        while True:
            graph = path.rpartition(".node[")[0]
            owner = graph.rpartition(".attribute[")[0]
            steps.append((graph, self.columns.row_of(path)))
            if not owner or self.columns.row_of(owner) < 0:
                break
            path = owner
        name = steps[-1][0]
        opened: list[str] = []
        for i, (graph, inner) in enumerate(reversed(steps)):
            if i:
                opened.append(name)
                group, found = self.groups.find(name)
                if len(self.groups.opens(group)) > 1:
                    at = next((k for k, one in enumerate(found) if one.path == graph), None)
                    if at is None:
                        raise PathError("the map does not show so many graphs of one node", graph[:_LONGEST])
                    name = f"{name}/{at}"
            name = self._descend(name, inner, opened)
        return {"opened": opened, "name": name}

    def _descend(self, name: str, row: int, opened: list[str]) -> str:
        """The name of the box of a row that is in a group, and the groups on the way there."""
        while True:
            opened.append(name)
            _, found = self.groups.find(name)
            at = _index(found, row)
            name, inner = f"{name}/{at}", found[at]
            if inner.members is not None:
                # Of equal ones the one that has it.
                at = inner.members.number_of(row)
                name, inner = f"{name}*{at}", inner.members[at]
            if inner.kind == "node":
                return name

    def route(self, start: str, end: str) -> Array:
        """The rows of the nodes on a shortest path from one node to another, against the edges where there is no other.

        start, end: paths of nodes of one graph. Raises PathError where there is no path.
        """
        if self._last_route is not None and self._last_route[0] == (start, end):
            return self._last_route[1]
        c = self.columns
        first, last = c.row_of(start), c.row_of(end)
        if first < 0 or last < 0:
            raise PathError("there is no such node", (start if first < 0 else end)[:_LONGEST])
        if c.graph_of[first] != c.graph_of[last]:
            raise PathError("the two nodes are not of one graph", end[:_LONGEST])
        for a, b in ((first, last), (last, first)):
            found = self._search(a, b)
            if found is not None:
                self._last_route = (start, end), found
                return found
        raise PathError("nothing leads from one of the two nodes to the other", end[:_LONGEST])

    def _search(self, start: int, end: int) -> Array | None:
        """Go against the edges from the end, to the nearest nodes first."""
        c = self.columns
        # Lists: a step of a path that is 100,000 nodes long must not cost a call of numpy.
        producer, values, starts = c.producer.tolist(), c.takes_value.tolist(), c.takes_start.tolist()
        after = {end: end}
        front = [end]
        while front and start not in after:
            before = []
            for row in front:
                for line in range(starts[row], starts[row + 1]):
                    maker = producer[values[line]]
                    if maker >= 0 and maker not in after:
                        after[maker] = row
                        before.append(maker)
            front = before
        if start not in after:
            return None
        rows = [start]
        while rows[-1] != end:
            rows.append(after[rows[-1]])
        return np.array(rows, np.int64)

    def _boxes(self, found: list[Group]) -> list[dict[str, Any]]:
        c = self.columns
        if not found:
            return []
        rows = np.concatenate([group.rows for group in found])
        box = np.repeat(np.arange(len(found)), [len(group.rows) for group in found])
        parameters, sizes = self._weights(rows, box, len(found))
        inner = np.bincount(box, c.inner[rows], len(found))
        kinds = len(c.operators) + 1
        pairs, often = np.unique(box * kinds + c.op[rows], return_counts=True)
        by_box: dict[int, list[list[Any]]] = {}
        for i in np.lexsort((-often, pairs // kinds)).tolist():
            mine = by_box.setdefault(int(pairs[i]) // kinds, [])
            if len(mine) < _OPERATORS:
                mine.append([c.operators[int(pairs[i]) % kinds][1], int(often[i])])
        boxes = []
        for i, group in enumerate(found):
            entry: dict[str, Any] = {
                "number": i,
                "kind": group.kind,
                "label": group.label[:_LONGEST],
                "nodes": len(group.rows) + int(inner[i]),
                "operators": by_box.get(i, []),
                "parameters": int(parameters[i]),
                "bytes": int(sizes[i]),
            }
            if group.members is not None:
                entry["times"] = len(group.members)
                entry["of"] = group.members[0].kind
            if group.kind == "node":
                entry |= self._node(int(group.rows[0]))
                entry["opens"] = bool(self.groups.opens(group))
            elif group.path:
                entry |= self._graph(group.path)
            boxes.append(entry)
        return boxes

    def _node(self, row: int) -> dict[str, Any]:
        path, node = self._message(row)
        name = node.name or next(iter(node.output), "")
        label = name[:_LONGEST] if len(name) <= _LONGEST else f"{name[: _LONGEST // 2]}…{name[-_LONGEST // 2 :]}"
        return {"path": path, "label": label, "op_type": node.op_type[:_LONGEST]}

    def _graph(self, path: str) -> dict[str, Any]:
        graph = resolve(self.model, path).value
        owner, _, attribute = path.rpartition(".attribute[")
        label = graph.name
        if owner:
            node: NodeProto = resolve(self.model, owner).value
            label = node.attribute[int(attribute.partition("]")[0])].name
        return {"path": path, "label": label[:_LONGEST] or path}

    def _weights(self, rows: Array, box: Array, count: int) -> tuple[Array, Array]:
        """Parameters and bytes of each box: of the initializers that its nodes take, each once, and of attributes."""
        c = self.columns
        of_row = np.full(c.count, -1, np.int64)
        of_row[rows] = box
        line = of_row[c.takes_row]
        is_weight = (line >= 0) & c.is_weight[c.takes_value]
        pairs = np.unique(line[is_weight] * max(len(c.type), 1) + c.takes_value[is_weight])
        boxes, values = np.divmod(pairs, max(len(c.type), 1))
        parameters = np.bincount(boxes, c.parameters[values], count) + np.bincount(box, c.own_parameters[rows], count)
        return parameters, np.bincount(boxes, c.bytes[values], count) + np.bincount(box, c.own_bytes[rows], count)

    def _edges(
        self, found: list[Group], boxes: list[dict[str, Any]], is_graph: bool, route: Array | None
    ) -> tuple[list[dict[str, Any]], int]:
        """The edges between boxes, those to the outside included; of a graph the inputs and outputs become boxes."""
        c = self.columns
        box = np.full(c.count, -1, np.int64)
        for i, group in enumerate(found):
            box[group.rows] = i
        takes = np.flatnonzero(box[c.takes_row] >= 0)
        value = c.takes_value[takes]
        maker = c.producer[value]
        source = np.where(maker >= 0, box[maker], -1)
        target = box[c.takes_row[takes]]
        # Weights are told by the boxes that take them; what is neither made nor an input comes from around the graph.
        is_drawn = (source != target) & ((maker >= 0) | ~c.is_weight[value])
        pieces = [(source[is_drawn], target[is_drawn], value[is_drawn])]
        # What is made here and taken elsewhere, or is an output of the graph.
        outside = np.flatnonzero((box[c.takes_row] < 0) & (c.producer[c.takes_value] >= 0))
        outside = outside[box[c.producer[c.takes_value[outside]]] >= 0]
        made = np.concatenate([c.takes_value[outside], np.flatnonzero(c.is_output & (c.producer >= 0))])
        made = made[box[c.producer[made]] >= 0]
        pieces.append((box[c.producer[made]], np.full(len(made), -1), made))
        sources, targets, values = (np.concatenate(parts).astype(np.int64) for parts in zip(*pieces, strict=True))
        if is_graph:
            self._add_values(boxes, sources, targets, values)
        # One number a line, which sorts quickly.
        wide, high = len(boxes) + 1, len(c.type)
        packed = np.unique(((sources + 1) * wide + targets + 1) * high + values)
        keys = np.stack([packed // high // wide - 1, packed // high % wide - 1, packed % high], axis=1)
        lit = self._lit(box, route)
        for i in lit[0]:
            boxes[i]["lit"] = True
        begins = np.flatnonzero(np.diff(packed // high, prepend=-1))
        ends = np.append(begins[1:], len(packed))
        edges = []
        for begin, end in zip(begins[:_MOST_EDGES].tolist(), ends.tolist(), strict=False):
            a, b, v = keys[begin].tolist()
            types = dict.fromkeys(c.type[keys[begin : min(end, begin + _LOOKED_AT), 2]].tolist())
            edges.append(
                {
                    "from": a,
                    "to": b,
                    "count": end - begin,
                    "types": [c.types[number] for number in types if number][:_TYPES],
                    "value": self._name(v),
                    "lit": (a, b) in lit[1],
                }
            )
        for kind, end, other in (("entry", "from", "to"), ("exit", "to", "from")):
            loose = [edge for edge in edges if edge[end] < 0]
            if len(loose) > _MOST_LOOSE:
                # What nearly all boxes take from outside would be drawn over all of them: their number is told.
                bound = {edge[other] for edge in edges if edge[end] >= 0}
                dropped = [edge for edge in loose if edge[other] in bound and not edge["lit"]]
                for edge in dropped:
                    boxes[edge[other]]["takes" if kind == "entry" else "gives"] = edge["count"]
                loose = [edge for edge in loose if edge not in dropped]
                edges = [edge for edge in edges if edge[end] >= 0] + loose
            if loose:
                for edge in loose:
                    edge[end] = len(boxes)
                boxes.append({"number": None, "kind": kind, "label": ""})
        return edges, max(len(begins) - _MOST_EDGES, 0)

    def _add_values(self, boxes: list[dict[str, Any]], sources: Array, targets: Array, values: Array) -> None:
        """Make boxes of the inputs and outputs of a graph, and have edges begin and end there."""
        c = self.columns
        for kind, ends, is_one in (("input", sources, c.is_input), ("output", targets, c.is_output)):
            at = np.flatnonzero((ends < 0) & is_one[values])
            order, first = np.unique(values[at], return_index=True)
            order = order[np.argsort(first)]
            if not len(order):
                continue
            rest = order[_MOST_VALUES - 1 :] if len(order) > _MOST_VALUES else order[:0]
            for v in order[: len(order) - len(rest)].tolist():
                ends[at[values[at] == v]] = len(boxes)
                boxes.append({"number": None, "kind": kind, "label": self._name(v), "type": c.types[int(c.type[v])]})
            if len(rest):
                ends[at[np.isin(values[at], rest)]] = len(boxes)
                boxes.append({"number": None, "kind": kind, "label": f"{len(rest):,} more {kind}s", "type": ""})

    def _lit(self, box: Array, route: Array | None) -> tuple[set[int], set[tuple[int, int]]]:
        """The boxes that a path passes, and the edges between them."""
        if route is None:
            return set(), set()
        passed = box[route]
        changes = np.flatnonzero(passed[1:] != passed[:-1])
        steps = zip(passed[changes].tolist(), passed[changes + 1].tolist(), strict=True)
        return set(passed[passed >= 0].tolist()), set(steps)

    def _name(self, value: int) -> str:
        """The name of a value, from a node that makes or takes it."""
        c = self.columns
        if c.producer[value] >= 0:
            return self._message(int(c.producer[value]))[1].output[int(c.made_slot[value])][:_LONGEST]
        line = int(c.first_take[value])
        if line < 0 or c.takes_slot[line] < 0:  # taken by graphs in attributes only
            return ""
        return self._message(int(c.takes_row[line]))[1].input[int(c.takes_slot[line])][:_LONGEST]

    def _message(self, row: int) -> tuple[str, NodeProto]:
        """The path of a row's node, and the node."""
        graph = self.columns.graph_at(row)
        if graph.path not in self._nodes:
            self._nodes[graph.path] = resolve(self.model, graph.path).value.node
        index = row - graph.start
        return f"{graph.path}.node[{index}]", self._nodes[graph.path][index]


def _drawn(boxes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> dict[str, Any]:
    """The boxes with their sizes and coordinates, the edges with their bends, and the rows."""
    sizes: list[tuple[float, float]] = [_SIZES.get(box["kind"], _GROUP) for box in boxes]
    if not edges:
        # Nothing says which comes before which.
        layout = grid(sizes)
    else:
        layout = lay_out(sizes, [(edge["from"], edge["to"]) for edge in edges])
    for box, (width, height), x, y, row in zip(boxes, sizes, layout.x, layout.y, layout.rows, strict=True):
        box |= {"width": width, "height": height, "x": x, "y": y, "row": row}
    for edge, bends in zip(edges, layout.bends, strict=True):
        edge["bends"] = bends
    return {"boxes": boxes, "edges": edges, "spans": layout.spans}


def _index(groups: list[Group], row: int) -> int:
    """Which of some groups a row is in; it is in one of them."""
    for i, group in enumerate(groups):
        at = int(np.searchsorted(group.rows, row))
        if at < len(group.rows) and group.rows[at] == row:
            return i
    raise PathError("there is no such node in this group", str(row))
