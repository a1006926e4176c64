"""The map of a model: contents of one group of nodes as boxes and edges, the location of a node, shortest routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.analysis.paths import resolve
from onnxwire.errors import PathError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.viewer.graph_layout import ROW_GAP, lay_out, lay_out_grid
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.map_groups import Group, Groups
from onnxwire.viewer.node_boxes import NodeBoxes, short_name

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_MAX_EDGES = 1_500  # maximum number of edges of one group
# If a group has more edges from (or to) the outside, boxes with other incoming (or outgoing) edges show the number of
# values from (or to) the outside instead of these edges, except those of a route.
_MAX_OUTER_EDGES = 8
_MAX_VALUE_BOXES = 12  # maximum number of boxes of inputs, and of outputs; the last box represents all remaining values
_MAX_OPERATORS = 4  # maximum number of operators listed in a box
_MAX_TYPES = 3  # maximum number of types listed at an edge
# Widths and heights of boxes, in pixels.
_BOX_SIZES = {"input": (172, 28), "output": (172, 28), "entry": (2, 2), "exit": (2, 2)}
_GROUP_SIZE = (212, 62)
_NODE_WIDTHS = (172, 250)  # minimum and maximum width of the box of a node
_TITLE_HEIGHT, _LINE_HEIGHT, _MIN_BOX_HEIGHT = 27, 15, 34  # for the box of a node
_COLUMN_GAP = 124  # distance in pixels between columns if edges lead to the right; the types are drawn between them
# Approximate widths of characters, in pixels; the page measures the text that it draws.
_TITLE_CHAR_WIDTH, _CHAR_WIDTH = 8, 6
_TITLE_MARGINS, _LINE_MARGINS = 40, 24  # the margins beside the title and beside the other lines, in pixels
MARKS = ("removed", "added", "changed", "rewired")
"""The kinds of differences between nodes of two compared models."""
_MAX_TYPED_VALUES = 100  # maximum number of an edge's values that are searched for types
_MAX_NAME_CHARS = 200  # maximum length of a label or name


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
        """Mark nodes in the boxes that contain them; further calls have no effect.

        paths: the mark of each node, by its path.
        The box of a node does not show the marks of the nodes in its attributes.
        """
        if self._marks is None:
            self._marks = np.full(self.columns.count, -1, np.int8)
            for path, kind in paths.items():
                row = self.columns.row_of(path)
                if row >= 0:
                    self._marks[row] = MARKS.index(kind)

    def contents(self, name: str, route: Array | None = None, *, to_right: bool = False) -> dict[str, Any]:
        """Return the contents of a group as boxes and edges.

        name: the name of the group, in the notation of `Groups`. route: the rows of the nodes on a route to highlight.
        to_right: draw edges that lead to the right, not down; rows are then columns, and bends and spans contain y and
        x coordinates in place of x and y.
        Returns name, kind, label, boxes, edges, left_off (the number of edges beyond the first 1,500, which are
        omitted) and spans (top and bottom of each row of boxes, in pixels).
        A box:
            number: its index in the group; None for an input, output, entry or exit. label.
            kind: as in `Group`, or input, output, entry or exit.
            nodes, parameters, bytes: sums over its nodes. operators: [name, count], the most frequent first.
            times, member_kind (of a repeat): the number and the kind of its members.
            path (of a node or graph). type (of an input or output).
            op_type, short, lines, opens (of a node): its operator; the part of its name that differs from the group's
                name; its weights and attributes; whether it has contents.
            marks: the numbers of its marked nodes by mark, without those in attributes, if models are compared.
            lit: whether the route passes the box.
            takes, gives: the numbers of values from and to the outside of the group, if their edges are omitted.
            width, height, x, y (of its center), in pixels. row.
        The last boxes may be of kind entry and exit: the ends of edges from and to the outside.
        An edge: from and to (indices of boxes), count (of its values), types (some of the types), value (the name of
        the first value), lit (whether the route contains the edge) and bends (the x coordinates where the edge passes
        the rows between its ends).
        Raises PathError if there is no such group.
        """
        if (
            "/" not in name
            and name not in self.columns.graphs
            and isinstance(resolve(self.model, name).value, GraphProto | FunctionProto)
        ):
            return {"name": name, "kind": "graph", "label": name} | _lay_out_boxes([], [], to_right) | {"left_off": 0}
        group, children = self.groups.find(name)
        boxes = self._make_boxes(children, group.scope)
        edges: list[dict[str, Any]] = []
        left_off = 0
        # There are no edges between the graphs of one node.
        if children and children[0].kind != "graph":
            edges, left_off = self._make_edges(children, boxes, group.kind in ("graph", "function", "node"), route)
        # Unconnected members of a repeat are drawn as a grid; edges to the outside would put all of them in one row.
        if group.members is not None and all(len(children) <= max(edge["from"], edge["to"]) for edge in edges):
            edges, left_off = [], 0
            del boxes[len(children) :]
        layout = _lay_out_boxes(boxes, edges, to_right)
        return {"name": name, "kind": group.kind, "label": group.label[:_MAX_NAME_CHARS], "left_off": left_off} | layout

    def locate(self, path: str) -> dict[str, Any]:
        """Locate a node on the map.

        path: the path of the node. Returns opened, the names of the enclosing groups, the outermost first, and name,
        the name of the node's box. Raises PathError if there is no node, or if the map does not show its graph.
        """
        steps = []  # from the inside out: the path of a graph, and the row of the node in that graph
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
        opened_names: list[str] = []
        for i, (graph, inner_row) in enumerate(reversed(steps)):
            if i:
                opened_names.append(name)
                group, children = self.groups.find(name)
                if len(self.groups.inner_graphs(group)) > 1:
                    box_number = next((k for k, child in enumerate(children) if child.path == graph), None)
                    if box_number is None:
                        raise PathError("the map shows no more than 240 graphs of one node", graph[:_MAX_NAME_CHARS])
                    name = f"{name}/{box_number}"
            name = self._descend(name, inner_row, opened_names)
        return {"opened": opened_names, "name": name}

    def _descend(self, name: str, row: int, opened_names: list[str]) -> str:
        """Return the name of the box of a row in a group; append the groups on the path to it to `opened_names`."""
        while True:
            opened_names.append(name)
            _, children = self.groups.find(name)
            number = _index_of_row(children, row)
            name, child = f"{name}/{number}", children[number]
            # A repeat of nodes is opened as one group that contains all its nodes.
            if child.members is not None and child.members[0].kind != "node":
                number = child.members.number_of(row)
                name, child = f"{name}*{number}", child.members[number]
            if child.kind == "node":
                return name

    def route(self, start: str, end: str) -> Array:
        """Return the rows of the nodes on a shortest route from one node to another, or else in the opposite direction.

        start, end: paths of nodes of one graph. Raises PathError if there is no such node or no route.
        """
        if self._last_route is not None and self._last_route[0] == (start, end):
            return self._last_route[1]
        columns = self.columns
        start_row, end_row = columns.row_of(start), columns.row_of(end)
        if start_row < 0 or end_row < 0:
            raise PathError("there is no such node", (start if start_row < 0 else end)[:_MAX_NAME_CHARS])
        if columns.graph_of[start_row] != columns.graph_of[end_row]:
            raise PathError("the two nodes are in different graphs", end[:_MAX_NAME_CHARS])
        for source, target in ((start_row, end_row), (end_row, start_row)):
            rows = self._find_route(source, target)
            if rows is not None:
                self._last_route = (start, end), rows
                return rows
        raise PathError("there is no route between the two nodes", end[:_MAX_NAME_CHARS])

    def _find_route(self, start: int, end: int) -> Array | None:
        """Return the rows of a shortest route between two rows, None if there is none.

        The search is breadth-first, from the end against the edges.
        """
        columns = self.columns
        # Use lists, since a route may have 100,000 steps, and a call of numpy in each step would be slow.
        producer, values, starts = columns.producer.tolist(), columns.use_value.tolist(), columns.use_start.tolist()
        next_row = {end: end}
        frontier = [end]
        while frontier and start not in next_row:
            next_frontier = []
            for row in frontier:
                for use in range(starts[row], starts[row + 1]):
                    source = producer[values[use]]
                    if source >= 0 and source not in next_row:
                        next_row[source] = row
                        next_frontier.append(source)
            frontier = next_frontier
        if start not in next_row:
            return None
        rows = [start]
        while rows[-1] != end:
            rows.append(next_row[rows[-1]])
        return np.array(rows, np.int64)

    def _make_boxes(self, groups: list[Group], scope: int) -> list[dict[str, Any]]:
        """Return the boxes of groups in a group. scope: the scope of that group, which its title shows."""
        columns = self.columns
        if not groups:
            return []
        scopes = columns.scopes.labels_of(scope)
        rows = np.concatenate([group.rows for group in groups])
        box_numbers = np.repeat(np.arange(len(groups)), [len(group.rows) for group in groups])
        parameters, sizes = self._sum_weights(rows, box_numbers, len(groups))
        inner_counts = np.bincount(box_numbers, columns.inner_node_counts[rows], len(groups))
        # Each pair of a box and an operator is one integer.
        n_operators = len(columns.operators) + 1
        pairs, pair_counts = np.unique(box_numbers * n_operators + columns.op[rows], return_counts=True)
        operators_by_box: dict[int, list[list[Any]]] = {}
        for i in np.lexsort((-pair_counts, pairs // n_operators)).tolist():
            operator_counts = operators_by_box.setdefault(int(pairs[i]) // n_operators, [])
            if len(operator_counts) < _MAX_OPERATORS:
                operator_counts.append([columns.operators[int(pairs[i]) % n_operators][1], int(pair_counts[i])])
        boxes = []
        for i, group in enumerate(groups):
            box: dict[str, Any] = {
                "number": i,
                "kind": group.kind,
                "label": group.label[:_MAX_NAME_CHARS],
                "nodes": len(group.rows) + int(inner_counts[i]),
                "operators": operators_by_box.get(i, []),
                "parameters": int(parameters[i]),
                "bytes": int(sizes[i]),
            }
            if self._marks is not None:
                mark_counts = np.bincount(self._marks[group.rows] + 1, minlength=len(MARKS) + 1)[1:].tolist()
                box["marks"] = {mark: n for mark, n in zip(MARKS, mark_counts, strict=True) if n}
            if group.members is not None:
                box["times"] = len(group.members)
                box["member_kind"] = group.members[0].kind
                if not group.label:
                    box["label"] = columns.operators[int(columns.op[group.rows[0]])][1][:_MAX_NAME_CHARS]
            if group.kind == "node":
                box |= self._node_keys(int(group.rows[0]), scopes)
                box["opens"] = bool(self.groups.inner_graphs(group))
            elif group.path:
                box |= self._graph_keys(group.path)
            boxes.append(box)
        return boxes

    def _node_keys(self, row: int, scopes: list[str]) -> dict[str, Any]:
        """Return the keys of a box that describe a node; see `contents`."""
        path, node = self._node_at(row)
        name = node.name or next(iter(node.output), "")
        half = _MAX_NAME_CHARS // 2
        return {
            "path": path,
            "label": name if len(name) <= _MAX_NAME_CHARS else f"{name[:half]}…{name[-half:]}",
            "short": short_name(name, node.op_type, scopes),
            "lines": self._node_boxes.lines(row, node),
            "op_type": node.op_type[:_MAX_NAME_CHARS],
        }

    def _graph_keys(self, path: str) -> dict[str, Any]:
        """Return path and label of a graph or function; see `contents`."""
        graph = resolve(self.model, path).value
        owner, _, attribute = path.rpartition(".attribute[")
        label = graph.name
        if owner:
            node: NodeProto = resolve(self.model, owner).value
            label = node.attribute[int(attribute.partition("]")[0])].name
        return {"path": path, "label": label[:_MAX_NAME_CHARS] or path}

    def _sum_weights(self, rows: Array, box_numbers: Array, count: int) -> tuple[Array, Array]:
        """Return the numbers of parameters and bytes of each box.

        The initializers that the box's nodes use, and the tensors in these nodes' attributes, are counted. rows,
        box_numbers: the rows of all nodes, and the box of each. count: the number of boxes.
        """
        columns = self.columns
        box_of_row = np.full(columns.count, -1, np.int64)
        box_of_row[rows] = box_numbers
        use_box = box_of_row[columns.use_row]
        is_weight = (use_box >= 0) & columns.is_weight[columns.use_value]
        pairs = np.unique(use_box[is_weight] * max(len(columns.type), 1) + columns.use_value[is_weight])
        boxes, values = np.divmod(pairs, max(len(columns.type), 1))
        parameters = np.bincount(boxes, columns.parameters[values], count) + np.bincount(
            box_numbers, columns.own_parameters[rows], count
        )
        return parameters, np.bincount(boxes, columns.bytes[values], count) + np.bincount(
            box_numbers, columns.own_bytes[rows], count
        )

    def _make_edges(
        self, groups: list[Group], boxes: list[dict[str, Any]], is_graph: bool, route: Array | None
    ) -> tuple[list[dict[str, Any]], int]:
        """Return the edges between boxes, from and to the outside, and the number of omitted edges beyond _MAX_EDGES.

        is_graph: whether the groups are the contents of a whole graph or function. route: as for `contents`.
        Boxes for the inputs and outputs of a graph, and for the outside, are appended to `boxes`.
        """
        columns = self.columns
        box_of_row = np.full(columns.count, -1, np.int64)
        for i, group in enumerate(groups):
            box_of_row[group.rows] = i
        use_indices = np.flatnonzero(box_of_row[columns.use_row] >= 0)
        value = columns.use_value[use_indices]
        producer_row = columns.producer[value]
        source = np.where(producer_row >= 0, box_of_row[producer_row], -1)
        target = box_of_row[columns.use_row[use_indices]]
        # Weights are not drawn as edges: boxes that use them show their sizes. Source -1 is the outside of the group.
        is_drawn = (source != target) & ((producer_row >= 0) | ~columns.is_weight[value])
        edge_parts = [(source[is_drawn], target[is_drawn], value[is_drawn])]
        # Add the values that the group produces and that other groups use, or that are outputs of the graph.
        outside_uses = np.flatnonzero((box_of_row[columns.use_row] < 0) & (columns.producer[columns.use_value] >= 0))
        outside_uses = outside_uses[box_of_row[columns.producer[columns.use_value[outside_uses]]] >= 0]
        produced_values = np.concatenate(
            [columns.use_value[outside_uses], np.flatnonzero(columns.is_output & (columns.producer >= 0))]
        )
        produced_values = produced_values[box_of_row[columns.producer[produced_values]] >= 0]
        edge_parts.append(
            (box_of_row[columns.producer[produced_values]], np.full(len(produced_values), -1), produced_values)
        )
        sources, targets, values = (np.concatenate(parts).astype(np.int64) for parts in zip(*edge_parts, strict=True))
        if is_graph:
            self._add_values(boxes, sources, targets, values)
        # Source, target and value are one integer, since integers are sorted quickly.
        n_ends, n_values = len(boxes) + 1, len(columns.type)
        packed = np.unique(((sources + 1) * n_ends + targets + 1) * n_values + values)
        keys = np.stack([packed // n_values // n_ends - 1, packed // n_values % n_ends - 1, packed % n_values], axis=1)
        lit_boxes, lit_edges = self._find_lit_elements(box_of_row, route)
        for i in lit_boxes:
            boxes[i]["lit"] = True
        edge_starts = np.flatnonzero(np.diff(packed // n_values, prepend=-1))
        edge_ends = np.append(edge_starts[1:], len(packed))
        edges = []
        for begin, end in zip(edge_starts[:_MAX_EDGES].tolist(), edge_ends.tolist(), strict=False):
            source_box, target_box, first_value = keys[begin].tolist()
            types = dict.fromkeys(columns.type[keys[begin : min(end, begin + _MAX_TYPED_VALUES), 2]].tolist())
            edges.append(
                {
                    "from": source_box,
                    "to": target_box,
                    "count": end - begin,
                    "types": [columns.types[number] for number in types if number][:_MAX_TYPES],
                    "value": self._value_name(first_value),
                    "lit": (source_box, target_box) in lit_edges,
                }
            )
        for kind, end, opposite_end in (("entry", "from", "to"), ("exit", "to", "from")):
            outer_edges = [edge for edge in edges if edge[end] < 0]
            if len(outer_edges) > _MAX_OUTER_EDGES:
                # So many edges to the outside would cover the boxes; see _MAX_OUTER_EDGES.
                connected_boxes = {edge[opposite_end] for edge in edges if edge[end] >= 0}
                omitted_edges = [
                    edge for edge in outer_edges if edge[opposite_end] in connected_boxes and not edge["lit"]
                ]
                for edge in omitted_edges:
                    boxes[edge[opposite_end]]["takes" if kind == "entry" else "gives"] = edge["count"]
                outer_edges = [edge for edge in outer_edges if edge not in omitted_edges]
                edges = [edge for edge in edges if edge[end] >= 0] + outer_edges
            if outer_edges:
                for edge in outer_edges:
                    edge[end] = len(boxes)
                boxes.append({"number": None, "kind": kind, "label": ""})
        return edges, max(len(edge_starts) - _MAX_EDGES, 0)

    def _add_values(self, boxes: list[dict[str, Any]], sources: Array, targets: Array, values: Array) -> None:
        """Append boxes for the inputs and outputs of a graph, and attach the edges to them."""
        columns = self.columns
        for kind, ends, has_kind in (("input", sources, columns.is_input), ("output", targets, columns.is_output)):
            edge_indices = np.flatnonzero((ends < 0) & has_kind[values])
            ordered_values, first_indices = np.unique(values[edge_indices], return_index=True)
            ordered_values = ordered_values[np.argsort(first_indices)]
            if not len(ordered_values):
                continue
            combined_values = (
                ordered_values[_MAX_VALUE_BOXES - 1 :] if len(ordered_values) > _MAX_VALUE_BOXES else ordered_values[:0]
            )
            for value_number in ordered_values[: len(ordered_values) - len(combined_values)].tolist():
                ends[edge_indices[values[edge_indices] == value_number]] = len(boxes)
                boxes.append(
                    {
                        "number": None,
                        "kind": kind,
                        "label": self._value_name(value_number),
                        "type": columns.types[int(columns.type[value_number])],
                    }
                )
            if len(combined_values):
                ends[edge_indices[np.isin(values[edge_indices], combined_values)]] = len(boxes)
                boxes.append(
                    {"number": None, "kind": kind, "label": f"{len(combined_values):,} more {kind}s", "type": ""}
                )

    def _find_lit_elements(self, box_of_row: Array, route: Array | None) -> tuple[set[int], set[tuple[int, int]]]:
        """Return the boxes that a route passes, and the edges of the route between boxes."""
        if route is None:
            return set(), set()
        route_boxes = box_of_row[route]
        changes = np.flatnonzero(route_boxes[1:] != route_boxes[:-1])
        steps = zip(route_boxes[changes].tolist(), route_boxes[changes + 1].tolist(), strict=True)
        return set(route_boxes[route_boxes >= 0].tolist()), set(steps)

    def _value_name(self, value: int) -> str:
        """Return the name of a value, from a node that produces or uses it."""
        columns = self.columns
        if columns.producer[value] >= 0:
            producer = self._node_at(int(columns.producer[value]))[1]
            return producer.output[int(columns.producer_output[value])][:_MAX_NAME_CHARS]
        use = int(columns.first_use[value])
        if use < 0 or columns.use_index[use] < 0:  # used by graphs in attributes only
            return ""
        return self._node_at(int(columns.use_row[use]))[1].input[int(columns.use_index[use])][:_MAX_NAME_CHARS]

    def _node_at(self, row: int) -> tuple[str, NodeProto]:
        """Return the path of a row's node, and the node."""
        graph = self.columns.graph_at(row)
        if graph.path not in self._nodes:
            self._nodes[graph.path] = resolve(self.model, graph.path).value.node
        index = row - graph.start
        return f"{graph.path}.node[{index}]", self._nodes[graph.path][index]


def _lay_out_boxes(boxes: list[dict[str, Any]], edges: list[dict[str, Any]], to_right: bool) -> dict[str, Any]:
    """Add sizes and coordinates to the boxes and bends to the edges; return both, and the spans of the rows."""
    sizes = [_box_size(box) for box in boxes]
    layout_sizes = [(height, width) for width, height in sizes] if to_right else sizes
    edge_boxes = [(edge["from"], edge["to"]) for edge in edges]
    layout = (
        lay_out(layout_sizes, edge_boxes, _COLUMN_GAP if to_right else ROW_GAP) if edges else lay_out_grid(layout_sizes)
    )
    xs, ys = (layout.y, layout.x) if to_right else (layout.x, layout.y)
    for box, (width, height), x, y, row in zip(boxes, sizes, xs, ys, layout.rows, strict=True):
        box |= {"width": width, "height": height, "x": x, "y": y, "row": row}
    for edge, bends in zip(edges, layout.bends, strict=True):
        edge["bends"] = bends
    return {"boxes": boxes, "edges": edges, "spans": layout.spans}


def _box_size(box: dict[str, Any]) -> tuple[float, float]:
    """Return the width and height of a box, in pixels."""
    if box["kind"] != "node":
        return _BOX_SIZES.get(box["kind"], _GROUP_SIZE)
    lines = [*filter(None, [box["short"]]), *box["lines"]]
    # A long name is truncated at its beginning and does not widen the box.
    width = max(
        _TITLE_CHAR_WIDTH * len(box["op_type"]) + _TITLE_MARGINS,
        *(_CHAR_WIDTH * len(line) + _LINE_MARGINS for line in box["lines"]),
        0,
    )
    height = _TITLE_HEIGHT + _LINE_HEIGHT * len(lines)
    return min(max(width, _NODE_WIDTHS[0]), _NODE_WIDTHS[1]), max(height, _MIN_BOX_HEIGHT)


def _index_of_row(groups: list[Group], row: int) -> int:
    """Return the index of the group that contains a row."""
    for i, group in enumerate(groups):
        position = int(np.searchsorted(group.rows, row))
        if position < len(group.rows) and group.rows[position] == row:
            return i
    raise PathError("there is no such node in this group", str(row))
