"""The groups of a graph's nodes, computed on demand: by scope, by repetition, and by size.

The contents of a group are first divided into *items*: the scopes directly inside the group's scope, and the nodes
outside of these scopes. Consecutive equal items, or equal sequences of items (blocks), are then combined into a repeat.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.errors import PathError
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.scope_cycles import find_scattered_items

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

MAX_BOXES = 240  # maximum number of boxes of one group; longer sequences are divided, further inner graphs are omitted
_RUN_BOXES = 100  # usual number of boxes of a run or a part of a repeat, and maximum number of runs or parts
_MIN_GROUPS = 3  # minimum number of equal groups that become one box
_MIN_NODES = 8  # minimum number of equal nodes that become one box
_MAX_PERIODS = 12  # maximum number of periods (distances of equal items) with which repetitions are searched
_MAX_REPETITIONS = 1_000  # maximum number of repetitions considered for one period, the longest first
_MAX_DISSOLUTIONS = 20  # maximum number of rounds in which scopes of cycles are dissolved
_MAX_DEPTH = 200  # maximum depth of nested groups
_MAX_CACHED_NODES = 4_000_000  # maximum number of nodes in all cached groups together
_GROUP_COST = 100  # added to the number of nodes of each cached group, for memory that does not depend on it


class Group:
    """Nodes of a graph that are drawn as one box.

    kind: graph, function, scope, block (one of several equal sequences of items), run (a part of a sequence that is too
    long for one group), repeat (consecutive equal groups or nodes) or node. rows: the rows of its nodes in
    MapColumns, ascending. scope: a scope that contains all nodes, 0 for a node, graph or function; of a repeat, the
    scope of its first member. members: the members of a repeat. path: the path of a graph or function, else "".
    """

    __slots__ = ("kind", "label", "members", "path", "rows", "scope")

    def __init__(
        self,
        kind: str,
        label: str,
        rows: Array,
        scope: int = 0,
        members: Members | None = None,
        path: str = "",
    ) -> None:
        self.kind = kind
        self.label = label
        self.rows = rows
        self.scope = scope
        self.members = members
        self.path = path


class Members(Sequence[Group]):
    """The members of a repeat, created on access, since there may be a million.

    rows: the rows of all members, one after another; bounds: the start of each member in `rows`, and len(rows). make: a
    function from the index of a member and its rows to its group.
    """

    def __init__(self, rows: Array, bounds: Array, make: Callable[[int, Array], Group]) -> None:
        self.rows = rows
        self.bounds = bounds
        self.make = make

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, i: Any) -> Any:
        return self.make(i, self.rows[self.bounds[i] : self.bounds[i + 1]])

    def part(self, start: int, stop: int) -> Members:
        """Return the members from index `start` to `stop` (excluded)."""
        bounds = self.bounds[start : stop + 1]
        return Members(
            self.rows[bounds[0] : bounds[-1]], bounds - bounds[0], lambda i, rows: self.make(start + i, rows)
        )

    def number_of(self, row: int) -> int:
        """Return the index of the member that contains a row."""
        return int(np.searchsorted(self.bounds, np.flatnonzero(self.rows == row)[0], side="right")) - 1


class Groups:
    """The groups of a model by name: the path of a graph or function, then indices of boxes, as in `graph/3*7/2`.

    A number is the index of a box in its group; a number after * is the index of a member of a repeat. Names are the
    same each time a file is opened.
    """

    def __init__(self, columns: MapColumns) -> None:
        self.columns = columns
        self._cached_groups: OrderedDict[str, tuple[Group, list[Group]]] = OrderedDict()
        self._cached_nodes = 0

    def find(self, name: str) -> tuple[Group, list[Group]]:
        """Return the group of a name, and the groups in it. Raises PathError if there is none."""
        cached = self._cached_groups.get(name)
        if cached is not None:
            self._cached_groups.move_to_end(name)
            return cached
        steps = name.split("/")
        if len(steps) > _MAX_DEPTH:
            raise PathError("the map shows no more than 200 levels of nested groups", name[:200])
        # Start from the innermost cached group.
        depth = len(steps)
        while depth > 1 and "/".join(steps[:depth]) not in self._cached_groups:
            depth -= 1
        entry = self._cached_groups.get("/".join(steps[:depth])) or self._cache(steps[0], self.graph(steps[0]))
        for i in range(depth, len(steps)):
            child, _, member = steps[i].partition("*")
            group = _group_at(entry[1], child, name)
            if member:
                group = _group_at(group.members or (), member, name)
            entry = self._cache("/".join(steps[: i + 1]), group)
        return entry

    def _cache(self, name: str, group: Group) -> tuple[Group, list[Group]]:
        """Compute and cache the contents of a group; remove the least recently used groups from a full cache."""
        entry = group, self.contents(group)
        self._cached_groups[name] = entry
        self._cached_nodes += len(group.rows) + _GROUP_COST
        while self._cached_nodes > _MAX_CACHED_NODES and len(self._cached_groups) > 1:
            _, (oldest_group, _) = self._cached_groups.popitem(last=False)
            self._cached_nodes -= len(oldest_group.rows) + _GROUP_COST
        return entry

    def graph(self, path: str) -> Group:
        """Return the group of a graph or function. Raises PathError if there is none."""
        graph = self.columns.graphs.get(path)
        if graph is None:
            raise PathError("this is neither a graph nor a function with nodes", path)
        rows = np.arange(graph.start, graph.stop, dtype=np.int32)
        return Group("function" if path.startswith("functions[") else "graph", path, rows, path=path)

    def inner_graphs(self, group: Group) -> list[str]:
        """Return the paths of up to 240 graphs in a node's attributes, or the path of the function that it calls."""
        if group.kind != "node":
            return []
        row = int(group.rows[0])
        graph_paths = self.columns.graphs_in.get(row)
        if graph_paths:
            return graph_paths[:MAX_BOXES]
        function = self.columns.functions.get(self.columns.operators[int(self.columns.op[row])])
        return [function] if function is not None and function in self.columns.graphs else []

    def contents(self, group: Group) -> list[Group]:
        """Return the groups in a group, up to 240, in order of their first nodes."""
        if group.kind == "node":
            graph_paths = self.inner_graphs(group)
            return (
                self.contents(self.graph(graph_paths[0]))
                if len(graph_paths) == 1
                else [self.graph(path) for path in graph_paths]
            )
        if group.members is not None:
            return self._divide_repeat(group.members)
        return self._make_contents(group) if len(group.rows) else []

    def _divide_repeat(self, members: Members) -> list[Group]:
        """Return the members of a repeat, or repeats of consecutive members if there are too many."""
        if len(members) <= MAX_BOXES:
            return [members[i] for i in range(len(members))]
        count = min(max(len(members) // _RUN_BOXES, 2), _RUN_BOXES)
        bounds = [len(members) * i // count for i in range(count + 1)]
        return [
            _make_repeat(members.part(start, stop), f"{start + 1:,} to {stop:,}") for start, stop in pairwise(bounds)
        ]

    def _make_contents(self, group: Group) -> list[Group]:
        """Return the contents of a group. Equal groups or nodes are combined; a long sequence is divided into runs."""
        columns, scope = self.columns, group.scope
        rows = group.rows
        while True:
            items, first_rows, scopes = self._number_items(rows, scope)
            if len(first_rows) != 1 or scopes[0] < 0 or len(rows) == 1:
                break
            # All nodes are in one scope: skip that level.
            scope = columns.scopes.child(scope, int(scopes[0]))
        items, first_rows, scopes = self._dissolve_cycles(rows, scope, items, first_rows, scopes)
        order = np.argsort(items, kind="stable").astype(np.int32)
        bounds = np.searchsorted(items[order], np.arange(len(first_rows) + 1, dtype=np.int32)).astype(np.int32)
        ordered_rows = rows[order]
        signatures, crossings = self._hash_items(rows, items, order, bounds)
        del items, order
        repeats = {
            first_item: (period, count)
            for first_item, period, count in _find_repetitions(signatures, bounds, crossings)
        }
        is_start = np.ones(len(first_rows), bool)
        for first_item, (period, count) in repeats.items():
            is_start[first_item + 1 : first_item + period * count] = False
        starts = np.flatnonzero(is_start)
        if len(starts) > MAX_BOXES:
            return self._divide_into_runs(scope, ordered_rows, bounds, starts, crossings)

        def make_single(i: int, box_rows: Array) -> Group:
            if len(box_rows) == 1:
                return Group("node", "", box_rows)
            return Group("scope", columns.scopes.label[int(scopes[i])], box_rows, int(scopes[i]))

        def make_block(i: int, period: int, box_rows: Array) -> Group:
            label = self._block_label(int(rows[first_rows[i]]), int(scopes[i]), int(scopes[i + period - 1]))
            return Group("block", label, np.sort(box_rows), scope)

        groups = []
        for start in starts.tolist():
            period, count = repeats.get(start, (1, 1))
            if count == 1:
                groups.append(make_single(start, ordered_rows[bounds[start] : bounds[start + 1]]))
                continue
            member_bounds = bounds[start : start + period * count + 1 : period]
            make: Callable[[int, Array], Group] = partial(
                _make_member, make_single if period == 1 else make_block, start, period
            )
            member_rows = ordered_rows[member_bounds[0] : member_bounds[-1]]
            groups.append(_make_repeat(Members(member_rows, member_bounds - member_bounds[0], make)))
        return groups

    def _divide_into_runs(
        self, scope: int, ordered_rows: Array, bounds: Array, starts: Array, crossings: Array
    ) -> list[Group]:
        """Divide a long sequence into runs, at positions where few values cross from one run to the next."""
        count = min(max(-(-len(starts) // _RUN_BOXES), 2), _RUN_BOXES)
        width = len(starts) / count
        run_starts = [0]
        # A run starts up to 35 % of the width before or after the position of an even division.
        for i in range(1, count):
            low_index, high_index = round(width * (i - 0.35)), round(width * (i + 0.35)) + 1
            # Among positions that equally many values cross, choose the position nearest to that of the even division.
            cost = crossings[starts[low_index:high_index]] * len(starts) + np.abs(
                np.arange(low_index, high_index) - round(width * i)
            )
            run_starts.append(low_index + int(np.argmin(cost)))
        row_bounds = bounds[np.append(starts[run_starts], len(bounds) - 1)]
        return [
            Group("run", f"part {i + 1} of {count}", np.sort(ordered_rows[begin:end]), scope)
            for i, (begin, end) in enumerate(pairwise(row_bounds))
        ]

    def _block_label(self, row: int, first_scope: int, last_scope: int) -> str:
        """Return the label of a block: the scopes of its first and last item, or the scope or operator of the first."""
        labels = self.columns.scopes.label
        if first_scope < 0:
            return f"{self.columns.operators[int(self.columns.op[row])][1]} …"
        return f"{labels[first_scope]} to {labels[last_scope]}" if last_scope >= 0 else f"{labels[first_scope]} …"

    def _dissolve_cycles(
        self, rows: Array, scope: int, items: Array, first_rows: Array, scopes: Array
    ) -> tuple[Array, Array, Array]:
        """Dissolve scopes whose boxes would form a cycle: the scopes and nodes in such a scope become items.

        items, first_rows, scopes: as `_number_items` returns them. Returns them after the dissolution.
        """
        is_scope = scopes >= 0
        if not is_scope.any():
            return items, first_rows, scopes
        columns = self.columns
        local_index = np.full(columns.count, -1, np.int32)
        local_index[rows] = np.arange(len(rows), dtype=np.int32)
        use_indices = _ranges(columns.use_start[rows], columns.use_start[rows + 1])
        producer_row = columns.producer[columns.use_value[use_indices]]
        source = np.where(producer_row >= 0, local_index[producer_row], -1)
        target = local_index[columns.use_row[use_indices]][source >= 0]
        source = source[source >= 0]
        dissolved: set[int] = set()
        for _ in range(_MAX_DISSOLUTIONS):
            cyclic_items = find_scattered_items(items, scopes >= 0, source, target)
            if not cyclic_items:
                break
            dissolved.update(scopes[cyclic_items].tolist())
            items, first_rows, scopes = self._number_items(rows, scope, dissolved)
        return items, first_rows, scopes

    def _number_items(self, rows: Array, scope: int, dissolved: Container[int] = ()) -> tuple[Array, Array, Array]:
        """Divide rows into items.

        Returns the item of each row, the index of the first row of each item, and the scope of each item (-1: a node).
        dissolved: scopes that are replaced by the scopes and nodes in them.
        """
        scopes = self.columns.scopes
        scope_of_row = self.columns.scope[rows]
        children, child = [], scope + 1
        while child < scopes.end[scope]:
            if child in dissolved:
                child += 1
                continue
            children.append(child)
            child = int(scopes.end[child])
        if not children:
            own_items = np.arange(len(rows), dtype=np.int32)
            return own_items, own_items, np.full(len(rows), -1, np.int32)
        starts = np.array(children, np.int64)
        keys = -1 - np.arange(len(rows), dtype=np.int64)
        scope_index = np.maximum(np.searchsorted(starts, scope_of_row, side="right") - 1, 0)
        is_inside = (scope_of_row >= starts[scope_index]) & (scope_of_row < scopes.end[starts[scope_index]])
        keys[is_inside] = starts[scope_index[is_inside]]
        values, first_indices, inverse = np.unique(keys, return_index=True, return_inverse=True)
        by_first = np.argsort(first_indices, kind="stable")
        rank = np.empty(len(values), np.int64)
        rank[by_first] = np.arange(len(values))
        first_keys = values[by_first]
        return rank[inverse.reshape(-1)], first_indices[by_first], np.where(first_keys < 0, -1, first_keys)

    def _hash_items(self, rows: Array, items: Array, order: Array, bounds: Array) -> tuple[Array, Array]:
        """Return for each item a hash of its operators, edges and types, and how many values cross before the item.

        The hash includes types of weights and of values within the item, but not of values from and to the outside:
        these often lack types at the first and last of several layers. Nodes are compared in the order of the graph.
        A value from an item to a later item crosses before the later item, and before each item between the two.
        """
        columns = self.columns
        local_index = np.full(columns.count, -1, np.int32)
        local_index[rows] = np.arange(len(rows), dtype=np.int32)
        position = np.empty(len(rows), np.int32)
        position[order] = np.arange(len(rows), dtype=np.int32) - bounds[items[order]]
        use_indices = _ranges(columns.use_start[rows], columns.use_start[rows + 1])
        value = columns.use_value[use_indices]
        target = local_index[columns.use_row[use_indices]]
        producer_row = columns.producer[value]
        source = np.where(producer_row >= 0, local_index[producer_row], -1)
        is_own = (source >= 0) & (items[source] == items[target])
        distance = np.where(is_own, position[target] - position[source], 0).astype(np.int64)
        # The added constants (17, 91, ...) give equal numbers of different kinds different hashes.
        use_hashes = _mix(
            _mix(distance * 4 + is_own * 2 + columns.is_weight[value])
            + _mix(columns.use_index[use_indices].astype(np.int64) + 17)
            + _mix(np.where(is_own, columns.producer_output[value], 0) + 91)
            + _mix(np.where(is_own | columns.is_weight[value], columns.type[value], 0) + 1_009)
        )
        node_hashes = _mix(columns.op[rows].astype(np.int64)) + _mix(columns.inner_node_counts[rows] + 31)
        node_hashes += _sum_slices(use_hashes, columns.use_start[rows + 1] - columns.use_start[rows])
        # The factor, 2**32 divided by the golden ratio, spreads the positions, so that the order of the nodes counts.
        node_hashes = _mix(node_hashes.view(np.int64) + position.astype(np.int64) * 0x9E3779B9)
        signatures = _sum_slices(node_hashes[order], np.diff(bounds))
        is_crossing = (source >= 0) & (items[np.maximum(source, 0)] < items[target])
        pairs = np.unique(
            np.stack([value[is_crossing], items[target][is_crossing], items[source][is_crossing]]), axis=1
        )
        # The pairs are sorted by value, then by target: select the last use of each value.
        last_uses = np.flatnonzero(np.diff(pairs[0], append=-1)) if pairs.size else np.zeros(0, np.int64)
        crossings = np.zeros(len(bounds) + 1, np.int64)
        np.add.at(crossings, pairs[2][last_uses] + 1, 1)
        np.add.at(crossings, pairs[1][last_uses] + 1, -1)
        return signatures, np.cumsum(crossings)


def _make_member(make: Callable[..., Group], start: int, period: int, number: int, rows: Array) -> Group:
    """Make a member of a repeat by its index."""
    return make(start + number, rows) if period == 1 else make(start + number * period, period, rows)


def _make_repeat(members: Members, label: str = "") -> Group:
    """Make the group of a repeat."""
    return Group("repeat", label or members[0].label, np.sort(members.rows), members[0].scope, members)


def _group_at(groups: Sequence[Group], number: str, name: str) -> Group:
    """Return the group with an index, which is part of a name. Raises PathError if there is none."""
    if not number.isdecimal() or len(number) > 9 or int(number) >= len(groups):
        raise PathError("there is no such group", name[:200])
    group: Group = groups[int(number)]
    return group


def _mix(numbers: Array) -> Array:
    """Hash each number. Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014)."""
    x: Array = numbers.astype(np.int64).view(np.uint64)  # a copy, changed in place
    x += np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _ranges(starts: Array, stops: Array) -> Array:
    """Return all integers from each start to its stop, one range after another."""
    lengths = stops - starts
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    integers: Array = np.arange(total) - np.repeat(ends - lengths - starts, lengths)
    return integers


def _sum_slices(numbers: Array, lengths: Array) -> Array:
    """Return the sums of consecutive slices of the given lengths, modulo 2**64."""
    total = np.zeros(len(numbers) + 1, np.uint64)
    np.cumsum(numbers, dtype=np.uint64, out=total[1:])
    positions = np.cumsum(lengths)
    sums: Array = total[positions]
    positions -= lengths
    sums -= total[positions]
    return sums


def _find_repetitions(signatures: Array, bounds: Array, crossings: Array) -> list[tuple[int, int, int]]:
    """Find repetitions in a sequence of items: the start, the period in items, and the number of periods of each.

    Of repetitions that overlap, the repetition that saves the most boxes is returned. bounds: the bounds of the items,
    in rows. crossings: the number of values that cross before each item.
    """
    count = len(signatures)
    order = np.argsort(signatures, kind="stable").astype(np.int32)
    is_same = signatures[order[1:]] == signatures[order[:-1]]
    distances, distance_counts = np.unique((order[1:] - order[:-1])[is_same], return_counts=True)
    del order, is_same
    repetitions = []  # the number of saved boxes, the start, the period, and the number of periods
    for period in distances[np.argsort(-distances * distance_counts, kind="stable")][:_MAX_PERIODS].tolist():
        is_equal = np.concatenate([[False], signatures[period:] == signatures[:-period], [False]])
        change_positions = np.flatnonzero(is_equal[1:] != is_equal[:-1])
        starts, lengths = change_positions[::2], change_positions[1::2] - change_positions[::2] + period
        is_of_nodes = (period == 1) & (bounds[starts + 1] - bounds[starts] == 1)
        is_long = lengths >= np.where(is_of_nodes, _MIN_NODES, _MIN_GROUPS) * period
        by_length = np.argsort(-lengths[is_long], kind="stable")[:_MAX_REPETITIONS]
        for start, length in zip(
            starts[is_long][by_length].tolist(), lengths[is_long][by_length].tolist(), strict=True
        ):
            # Shift the periods to the position where the fewest values cross between them, but keep at least three
            # periods.
            max_shift = min(period, length - _MIN_GROUPS * period + 1)
            shift = int(np.argmin(crossings[start + period : start + period + max_shift]))
            n_periods = (length - shift) // period
            repetitions.append(((n_periods - 1) * period, start + shift, period, n_periods))
    repetitions.sort(key=lambda repetition: (-repetition[0], repetition[2], repetition[1]))
    is_covered = np.zeros(count, bool)
    chosen_repetitions = []
    for _, start, period, n_periods in repetitions:
        if not is_covered[start : start + period * n_periods].any():
            is_covered[start : start + period * n_periods] = True
            chosen_repetitions.append((start, period, n_periods))
    return chosen_repetitions
