"""The map of a model: the contents of one group of nodes as boxes and edges, the location of a node, paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.analysis.paths import resolve
from onnxwire.errors import PathError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.viewer.graph_layout import ROW_GAP, grid, lay_out
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.map_groups import Group, Groups
from onnxwire.viewer.node_boxes import NodeBoxes, short_name

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_MAX_EDGES = 1_500  # maximum number of edges of one group
_MAX_OUTER_EDGES = 8  # maximum number of edges of a group from outside, and to outside
_MAX_VALUE_BOXES = 12  # maximum number of boxes of inputs, and of outputs; the last box represents all remaining ones
_MAX_OPERATORS = 4  # maximum number of operators listed in a box
_MAX_TYPES = 3  # maximum number of types listed at an edge
# Widths and heights of boxes, in pixels.
_BOX_SIZES = {"input": (172, 28), "output": (172, 28), "entry": (2, 2), "exit": (2, 2)}
_GROUP_SIZE = (212, 62)
_NODE_WIDTHS = (172, 250)  # minimum and maximum
_TITLE_HEIGHT, _LINE_HEIGHT, _LEAST_HEIGHT = 27, 15, 34
_COLUMN_GAP = 124  # gap between columns of a map to the right, which contains the types
_TITLE_LETTER, _LETTER = 8, 6  # approximate widths of letters; the page measures the text that it draws
MARKS = ("removed", "added", "changed", "rewired", "renamed")
"""The kinds of differences between nodes of two compared models."""
_MAX_TYPED_VALUES = 100  # maximum number of an edge's values that are searched for types
_MAX_NAME_CHARS = 200


class ModelMap:
    """The map of one model, which must not be edited."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.columns = MapColumns(model)
        self.groups = Groups(self.columns)
        self._node_boxes = NodeBoxes(model, self.columns)
        # Every drawn group requests the same route.
        self._last_route: tuple[tuple[str, str], Array] | None = None
        self._nodes: dict[str, Sequence[NodeProto]] = {}
        self._marks: Array | None = None  # per row: an index of MARKS, or -1

    def mark(self, paths: dict[str, str]) -> None:
        """Mark nodes, by path, in all boxes that contain them; further calls have no effect."""
        if self._marks is None:
            self._marks = np.full(self.columns.count, -1, np.int8)
            for path, word in paths.items():
                row = self.columns.row_of(path)
                if row >= 0:
                    self._marks[row] = MARKS.index(word)

    def contents(self, name: str, route: Array | None = None, *, to_right: bool = False) -> dict[str, Any]:
        """Return the contents of a group as boxes and edges.

        name: the name of the group, in the notation of `Groups`. route: rows of the nodes of a path to highlight.
        to_right: let edges lead to the right, not down; rows are then columns, and x and y of bends and spans change
        roles.
        Returns name, kind, label, boxes, edges, left_off (the number of omitted edges) and spans (top and bottom of
        each row of boxes, in pixels). A box has number (None for an input or output), kind, label, op_type, nodes,
        operators ([name, count], the most frequent first), parameters, bytes, times (the members of a repeat), path (of
        a node), short (the part of its name that differs from the group's) and lines (its weights), marks (numbers of
        marked nodes by mark), opens (whether it has contents), takes and gives (the numbers of values from and to the
        outside of the group whose edges are omitted), lit, width, height, x and y (of its center) and row. The last
        boxes may be of kind entry and exit, the ends of edges from and to the outside. An edge has from and to (indices
        of boxes), count (of its values), types (some of them), value (the name of the first), lit and bends (the x
        coordinates where it passes the rows between its ends).
        Raises PathError if there is no such group.
        """
        if (
            "/" not in name
            and name not in self.columns.graphs
            and isinstance(resolve(self.model, name).value, GraphProto | FunctionProto)
        ):
            return {"name": name, "kind": "graph", "label": name} | _drawn([], [], to_right) | {"left_off": 0}
        group, found = self.groups.find(name)
        boxes = self._boxes(found, group.scope)
        edges: list[dict[str, Any]] = []
        left_off = 0
        # The graphs of one node have no edges between them.
        if found and found[0].kind != "graph":
            edges, left_off = self._edges(found, boxes, group.kind in ("graph", "function", "node"), route)
        # Unconnected members of a repeat are drawn as a grid; edges to the outside would put all of them in one row.
        if group.members is not None and all(len(found) <= max(edge["from"], edge["to"]) for edge in edges):
            edges, left_off = [], 0
            del boxes[len(found) :]
        drawn = _drawn(boxes, edges, to_right)
        return {"name": name, "kind": group.kind, "label": group.label[:_MAX_NAME_CHARS], "left_off": left_off} | drawn

    def locate(self, path: str) -> dict[str, Any]:
        """Locate a node: return the names of the enclosing groups, the outermost first, and the name of its box.

        path: the path of a node. Raises PathError if there is none.
        """
        steps = []
        row = self.columns.row_of(path)
        if row < 0:
            raise PathError("there is no such node", path[:_MAX_NAME_CHARS])
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
                        raise PathError("the map shows no more than 240 graphs of one node", graph[:_MAX_NAME_CHARS])
                    name = f"{name}/{at}"
            name = self._descend(name, inner, opened)
        return {"opened": opened, "name": name}

    def _descend(self, name: str, row: int, opened: list[str]) -> str:
        """Return the name of the box of a row in a group; append the groups on the path to it to `opened`."""
        while True:
            opened.append(name)
            _, found = self.groups.find(name)
            at = _index(found, row)
            name, inner = f"{name}/{at}", found[at]
            # A repeat of nodes opens as a whole, since one node has no contents.
            if inner.members is not None and inner.members[0].kind != "node":
                at = inner.members.number_of(row)
                name, inner = f"{name}*{at}", inner.members[at]
            if inner.kind == "node":
                return name

    def route(self, start: str, end: str) -> Array:
        """Return the rows of the nodes on a shortest path from one node to another, or else in the opposite direction.

        start, end: paths of nodes of one graph. Raises PathError if there is no path.
        """
        if self._last_route is not None and self._last_route[0] == (start, end):
            return self._last_route[1]
        c = self.columns
        first, last = c.row_of(start), c.row_of(end)
        if first < 0 or last < 0:
            raise PathError("there is no such node", (start if first < 0 else end)[:_MAX_NAME_CHARS])
        if c.graph_of[first] != c.graph_of[last]:
            raise PathError("the two nodes are in different graphs", end[:_MAX_NAME_CHARS])
        for a, b in ((first, last), (last, first)):
            found = self._search(a, b)
            if found is not None:
                self._last_route = (start, end), found
                return found
        raise PathError("there is no path between the two nodes", end[:_MAX_NAME_CHARS])

    def _search(self, start: int, end: int) -> Array | None:
        """Search breadth-first from the end against the edges; None if the start is not reached."""
        c = self.columns
        # Use lists, since a path may have 100,000 steps, and a call of numpy in each step would be slow.
        producer, values, starts = c.producer.tolist(), c.use_value.tolist(), c.use_start.tolist()
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

    def _boxes(self, found: list[Group], scope: int) -> list[dict[str, Any]]:
        """Return the boxes of groups in a group. scope: the scope of that group, which its title shows."""
        c = self.columns
        if not found:
            return []
        scopes = c.scopes.path(scope)
        rows = np.concatenate([group.rows for group in found])
        box = np.repeat(np.arange(len(found)), [len(group.rows) for group in found])
        parameters, sizes = self._weights(rows, box, len(found))
        inner = np.bincount(box, c.inner[rows], len(found))
        kinds = len(c.operators) + 1
        pairs, often = np.unique(box * kinds + c.op[rows], return_counts=True)
        by_box: dict[int, list[list[Any]]] = {}
        for i in np.lexsort((-often, pairs // kinds)).tolist():
            mine = by_box.setdefault(int(pairs[i]) // kinds, [])
            if len(mine) < _MAX_OPERATORS:
                mine.append([c.operators[int(pairs[i]) % kinds][1], int(often[i])])
        boxes = []
        for i, group in enumerate(found):
            entry: dict[str, Any] = {
                "number": i,
                "kind": group.kind,
                "label": group.label[:_MAX_NAME_CHARS],
                "nodes": len(group.rows) + int(inner[i]),
                "operators": by_box.get(i, []),
                "parameters": int(parameters[i]),
                "bytes": int(sizes[i]),
            }
            if self._marks is not None:
                marked = np.bincount(self._marks[group.rows] + 1, minlength=len(MARKS) + 1)[1:].tolist()
                entry["marks"] = {word: n for word, n in zip(MARKS, marked, strict=True) if n}
            if group.members is not None:
                entry["times"] = len(group.members)
                entry["of"] = group.members[0].kind
                if not group.label:
                    entry["label"] = c.operators[int(c.op[group.rows[0]])][1][:_MAX_NAME_CHARS]
            if group.kind == "node":
                entry |= self._node(int(group.rows[0]), scopes)
                entry["opens"] = bool(self.groups.opens(group))
            elif group.path:
                entry |= self._graph(group.path)
            boxes.append(entry)
        return boxes

    def _node(self, row: int, scopes: list[str]) -> dict[str, Any]:
        path, node = self._message(row)
        name = node.name or next(iter(node.output), "")
        half = _MAX_NAME_CHARS // 2
        return {
            "path": path,
            "label": name if len(name) <= _MAX_NAME_CHARS else f"{name[:half]}…{name[-half:]}",
            "short": short_name(name, node.op_type, scopes),
            "lines": self._node_boxes.lines(row, node),
            "op_type": node.op_type[:_MAX_NAME_CHARS],
        }

    def _graph(self, path: str) -> dict[str, Any]:
        graph = resolve(self.model, path).value
        owner, _, attribute = path.rpartition(".attribute[")
        label = graph.name
        if owner:
            node: NodeProto = resolve(self.model, owner).value
            label = node.attribute[int(attribute.partition("]")[0])].name
        return {"path": path, "label": label[:_MAX_NAME_CHARS] or path}

    def _weights(self, rows: Array, box: Array, count: int) -> tuple[Array, Array]:
        """Return parameters and bytes of each box: of initializers that its nodes use, each once, and of attributes."""
        c = self.columns
        of_row = np.full(c.count, -1, np.int64)
        of_row[rows] = box
        line = of_row[c.use_row]
        is_weight = (line >= 0) & c.is_weight[c.use_value]
        pairs = np.unique(line[is_weight] * max(len(c.type), 1) + c.use_value[is_weight])
        boxes, values = np.divmod(pairs, max(len(c.type), 1))
        parameters = np.bincount(boxes, c.parameters[values], count) + np.bincount(box, c.own_parameters[rows], count)
        return parameters, np.bincount(boxes, c.bytes[values], count) + np.bincount(box, c.own_bytes[rows], count)

    def _edges(
        self, found: list[Group], boxes: list[dict[str, Any]], is_graph: bool, route: Array | None
    ) -> tuple[list[dict[str, Any]], int]:
        """Return the edges between boxes and to the outside; a graph's inputs and outputs are appended to the boxes."""
        c = self.columns
        box = np.full(c.count, -1, np.int64)
        for i, group in enumerate(found):
            box[group.rows] = i
        takes = np.flatnonzero(box[c.use_row] >= 0)
        value = c.use_value[takes]
        maker = c.producer[value]
        source = np.where(maker >= 0, box[maker], -1)
        target = box[c.use_row[takes]]
        # Weights are counted in the boxes that use them. A value neither produced here nor an input is captured.
        is_drawn = (source != target) & ((maker >= 0) | ~c.is_weight[value])
        pieces = [(source[is_drawn], target[is_drawn], value[is_drawn])]
        # Values produced here and used elsewhere, or outputs of the graph.
        outside = np.flatnonzero((box[c.use_row] < 0) & (c.producer[c.use_value] >= 0))
        outside = outside[box[c.producer[c.use_value[outside]]] >= 0]
        made = np.concatenate([c.use_value[outside], np.flatnonzero(c.is_output & (c.producer >= 0))])
        made = made[box[c.producer[made]] >= 0]
        pieces.append((box[c.producer[made]], np.full(len(made), -1), made))
        sources, targets, values = (np.concatenate(parts).astype(np.int64) for parts in zip(*pieces, strict=True))
        if is_graph:
            self._add_values(boxes, sources, targets, values)
        # One integer per edge, which sorts quickly.
        wide, high = len(boxes) + 1, len(c.type)
        packed = np.unique(((sources + 1) * wide + targets + 1) * high + values)
        keys = np.stack([packed // high // wide - 1, packed // high % wide - 1, packed % high], axis=1)
        lit = self._lit(box, route)
        for i in lit[0]:
            boxes[i]["lit"] = True
        begins = np.flatnonzero(np.diff(packed // high, prepend=-1))
        ends = np.append(begins[1:], len(packed))
        edges = []
        for begin, end in zip(begins[:_MAX_EDGES].tolist(), ends.tolist(), strict=False):
            a, b, v = keys[begin].tolist()
            types = dict.fromkeys(c.type[keys[begin : min(end, begin + _MAX_TYPED_VALUES), 2]].tolist())
            edges.append(
                {
                    "from": a,
                    "to": b,
                    "count": end - begin,
                    "types": [c.types[number] for number in types if number][:_MAX_TYPES],
                    "value": self._name(v),
                    "lit": (a, b) in lit[1],
                }
            )
        for kind, end, other in (("entry", "from", "to"), ("exit", "to", "from")):
            loose = [edge for edge in edges if edge[end] < 0]
            if len(loose) > _MAX_OUTER_EDGES:
                # Too many edges to the outside would cover the boxes: boxes with other edges show a count instead.
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
        return edges, max(len(begins) - _MAX_EDGES, 0)

    def _add_values(self, boxes: list[dict[str, Any]], sources: Array, targets: Array, values: Array) -> None:
        """Append boxes for the inputs and outputs of a graph, and attach the edges to them."""
        c = self.columns
        for kind, ends, is_one in (("input", sources, c.is_input), ("output", targets, c.is_output)):
            at = np.flatnonzero((ends < 0) & is_one[values])
            order, first = np.unique(values[at], return_index=True)
            order = order[np.argsort(first)]
            if not len(order):
                continue
            rest = order[_MAX_VALUE_BOXES - 1 :] if len(order) > _MAX_VALUE_BOXES else order[:0]
            for v in order[: len(order) - len(rest)].tolist():
                ends[at[values[at] == v]] = len(boxes)
                boxes.append({"number": None, "kind": kind, "label": self._name(v), "type": c.types[int(c.type[v])]})
            if len(rest):
                ends[at[np.isin(values[at], rest)]] = len(boxes)
                boxes.append({"number": None, "kind": kind, "label": f"{len(rest):,} more {kind}s", "type": ""})

    def _lit(self, box: Array, route: Array | None) -> tuple[set[int], set[tuple[int, int]]]:
        """Return the boxes that a path passes, and the edges between them."""
        if route is None:
            return set(), set()
        passed = box[route]
        changes = np.flatnonzero(passed[1:] != passed[:-1])
        steps = zip(passed[changes].tolist(), passed[changes + 1].tolist(), strict=True)
        return set(passed[passed >= 0].tolist()), set(steps)

    def _name(self, value: int) -> str:
        """Return the name of a value, from a node that produces or uses it."""
        c = self.columns
        if c.producer[value] >= 0:
            return self._message(int(c.producer[value]))[1].output[int(c.producer_slot[value])][:_MAX_NAME_CHARS]
        line = int(c.first_use[value])
        if line < 0 or c.use_slot[line] < 0:  # used by graphs in attributes only
            return ""
        return self._message(int(c.use_row[line]))[1].input[int(c.use_slot[line])][:_MAX_NAME_CHARS]

    def _message(self, row: int) -> tuple[str, NodeProto]:
        """Return the path of a row's node, and the node."""
        graph = self.columns.graph_at(row)
        if graph.path not in self._nodes:
            self._nodes[graph.path] = resolve(self.model, graph.path).value.node
        index = row - graph.start
        return f"{graph.path}.node[{index}]", self._nodes[graph.path][index]


def _drawn(boxes: list[dict[str, Any]], edges: list[dict[str, Any]], to_right: bool) -> dict[str, Any]:
    """Add sizes and coordinates to the boxes and bends to the edges; return both, and the spans of the rows."""
    sizes = [_size(box) for box in boxes]
    turned = [(height, width) for width, height in sizes] if to_right else sizes
    ends = [(edge["from"], edge["to"]) for edge in edges]
    layout = lay_out(turned, ends, _COLUMN_GAP if to_right else ROW_GAP) if edges else grid(turned)
    xs, ys = (layout.y, layout.x) if to_right else (layout.x, layout.y)
    for box, (width, height), x, y, row in zip(boxes, sizes, xs, ys, layout.rows, strict=True):
        box |= {"width": width, "height": height, "x": x, "y": y, "row": row}
    for edge, bends in zip(edges, layout.bends, strict=True):
        edge["bends"] = bends
    return {"boxes": boxes, "edges": edges, "spans": layout.spans}


def _size(box: dict[str, Any]) -> tuple[float, float]:
    if box["kind"] != "node":
        return _BOX_SIZES.get(box["kind"], _GROUP_SIZE)
    lines = [*filter(None, [box["short"]]), *box["lines"]]
    # A long name is truncated at its beginning and does not widen the box.
    width = max(_TITLE_LETTER * len(box["op_type"]) + 40, *(_LETTER * len(line) + 24 for line in box["lines"]), 0)
    height = _TITLE_HEIGHT + _LINE_HEIGHT * len(lines)
    return min(max(width, _NODE_WIDTHS[0]), _NODE_WIDTHS[1]), max(height, _LEAST_HEIGHT)


def _index(groups: list[Group], row: int) -> int:
    """Return the index of the group that contains a row."""
    for i, group in enumerate(groups):
        at = int(np.searchsorted(group.rows, row))
        if at < len(group.rows) and group.rows[at] == row:
            return i
    raise PathError("there is no such node in this group", str(row))
