"""The groups that the nodes of a graph are in, made where they are looked into: by scope, repetition and length."""

from __future__ import annotations

from collections import OrderedDict
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.errors import PathError
from onnxwire.viewer.map_columns import MapColumns

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

MOST = 240  # boxes of one group; what has more is divided
_RUN = 100  # boxes of a part of what is divided
_LEAST_GROUPS = 3  # equal groups that are folded
_LEAST_NODES = 8  # equal nodes that are
_CANDIDATES = 12  # distances at which repetitions are looked for
_DEEPEST = 200  # groups in one another that are followed
_KEPT_NODES = 4_000_000  # of all groups that are kept


class Group:
    """Some nodes of a graph that are drawn as one box.

    kind: graph, function, scope, block (one of several equal ones that have no scope), run (a part of what is too
    long), fold (equal groups or nodes) or node. rows: of its nodes, ascending. scope: the innermost scope that all of
    them are in, as far as it was looked for. members: of a fold, the rows of each, and the kind and scope they have.
    path: of a graph, function or node.
    """

    __slots__ = ("kind", "label", "members", "path", "rows", "scope")

    def __init__(
        self,
        kind: str,
        label: str,
        rows: Array,
        scope: int = 0,
        members: list[Group] | None = None,
        path: str = "",
    ) -> None:
        self.kind = kind
        self.label = label
        self.rows = rows
        self.scope = scope
        self.members = members
        self.path = path


class Groups:
    """The groups of a model, by what leads to them: the path of a graph, then numbers of boxes, as in `graph/3*7/2`.

    A number is that of a box among those of its group; after * is that of a member of a fold. They are the same each
    time that a file is opened.
    """

    def __init__(self, columns: MapColumns) -> None:
        self.columns = columns
        self._kept: OrderedDict[str, tuple[Group, list[Group]]] = OrderedDict()
        self._weight = 0

    def find(self, name: str) -> tuple[Group, list[Group]]:
        """The group of a name, and those in it. Raises PathError where there is none."""
        kept = self._kept.get(name)
        if kept is not None:
            self._kept.move_to_end(name)
            return kept
        steps = name.split("/")
        if len(steps) > _DEEPEST:
            raise PathError("groups are nested more than 200 deep here", name[:200])
        # From the innermost that is kept.
        depth = len(steps)
        while depth > 1 and "/".join(steps[:depth]) not in self._kept:
            depth -= 1
        found = self._kept.get("/".join(steps[:depth])) or self._keep(steps[0], self.graph(steps[0]))
        for i in range(depth, len(steps)):
            child, _, member = steps[i].partition("*")
            group = _at(found[1], child, name)
            if member:
                group = _at(group.members or [], member, name)
            found = self._keep("/".join(steps[: i + 1]), group)
        return found

    def _keep(self, name: str, group: Group) -> tuple[Group, list[Group]]:
        found = group, self.contents(group)
        self._kept[name] = found
        self._weight += len(group.rows) + 100
        while self._weight > _KEPT_NODES and len(self._kept) > 1:
            _, (old, _) = self._kept.popitem(last=False)
            self._weight -= len(old.rows) + 100
        return found

    def graph(self, path: str) -> Group:
        """The group of a graph or function. Raises PathError where there is none."""
        graph = self.columns.graphs.get(path)
        if graph is None:
            raise PathError("this is neither a graph nor a function with nodes", path)
        rows = np.arange(graph.start, graph.stop, dtype=np.int32)
        return Group("function" if path.startswith("functions[") else "graph", path, rows, path=path)

    def opens(self, group: Group) -> list[str]:
        """The paths of what a node opens: graphs in its attributes, or the function that it calls."""
        if group.kind != "node":
            return []
        row = int(group.rows[0])
        inner = self.columns.graphs_in.get(row)
        if inner:
            return inner[:MOST]
        function = self.columns.functions.get(self.columns.operators[int(self.columns.op[row])])
        return [function] if function is not None and function in self.columns.graphs else []

    def contents(self, group: Group) -> list[Group]:
        """The groups in a group, in order of their first nodes; 240 of them at most."""
        if group.kind == "node":
            inner = self.opens(group)
            return self.contents(self.graph(inner[0])) if len(inner) == 1 else [self.graph(path) for path in inner]
        if group.kind == "fold" and group.members is not None:
            return self._parts_of_fold(group)
        found = self._entries(group)
        if len(found) <= MOST:
            return found
        return self._divide(group, found)

    def _parts_of_fold(self, fold: Group) -> list[Group]:
        members = fold.members or []
        if len(members) <= MOST:
            return members
        count = min(max(len(members) // _RUN, 2), _RUN)
        edges = [len(members) * i // count for i in range(count + 1)]
        return [_fold(members[start:stop], f"{start + 1:,} to {stop:,}") for start, stop in pairwise(edges)]

    def _entries(self, group: Group) -> list[Group]:
        """The groups and nodes in a group, equal ones folded, however many there are."""
        columns, scope = self.columns, group.scope
        rows = group.rows
        if not len(rows):
            return []
        while True:
            item, first, scopes = self._items(rows, scope)
            if len(first) != 1 or scopes[0] < 0 or len(rows) == 1:
                break
            # All of it is in one scope: that is stepped over.
            scope = columns.scopes.child(scope, int(scopes[0]))
        order = np.argsort(item, kind="stable")
        bounds = np.searchsorted(item[order], np.arange(len(first) + 1))
        ordered = rows[order]
        signatures, crossing = self._signatures(rows, item, order, bounds)
        sizes = np.diff(bounds)
        entries: list[Group] = []
        start = 0

        def single(i: int) -> Group:
            inside = ordered[bounds[i] : bounds[i + 1]]
            if len(inside) == 1:
                return Group("node", "", inside, path="")
            return Group("scope", columns.scopes.label[int(scopes[i])], inside, int(scopes[i]))

        for begin, period, count in _repetitions(signatures, sizes, crossing):
            entries += [single(i) for i in range(start, begin)]
            members = []
            for k in range(count):
                i = begin + k * period
                if period == 1:
                    members.append(single(i))
                else:
                    inside = np.sort(ordered[bounds[i] : bounds[i + period]])
                    members.append(
                        Group("block", self._label(rows[first[i]], scopes[i], scopes[i + period - 1]), inside, scope)
                    )
            entries.append(_fold(members))
            start = begin + period * count
        entries += [single(i) for i in range(start, len(first))]
        return entries

    def _label(self, row: int, first: int, last: int) -> str:
        """What a block is called: by the scopes that it begins and ends with, or by its first operator."""
        labels = self.columns.scopes.label
        if first < 0:
            return f"{self.columns.operators[int(self.columns.op[row])][1]} …"
        return f"{labels[first]} to {labels[last]}" if last >= 0 else f"{labels[first]} …"

    def _items(self, rows: Array, scope: int) -> tuple[Array, Array, Array]:
        """Which item each row is of, the first row of each, and its scope, -1 for a node that is in none deeper."""
        scopes = self.columns.scopes
        of_row = self.columns.scope[rows]
        is_direct = (of_row <= scope) | (of_row >= scopes.end[scope])
        # The scopes right in this one stand one after another.
        children, child = [], scope + 1
        while child < scopes.end[scope]:
            children.append(child)
            child = int(scopes.end[child])
        starts = np.array(children, np.int64)
        key = -1 - np.arange(len(rows), dtype=np.int64)
        if len(starts):
            inside = ~is_direct
            key[inside] = starts[np.searchsorted(starts, of_row[inside], side="right") - 1]
        values, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        by_first = np.argsort(first, kind="stable")
        rank = np.empty(len(values), np.int64)
        rank[by_first] = np.arange(len(values))
        found = values[by_first]
        return rank[inverse.reshape(-1)], first[by_first], np.where(found < 0, -1, found)

    def _signatures(self, rows: Array, item: Array, order: Array, bounds: Array) -> tuple[Array, Array]:
        """What each item is by its operators, wiring and shapes, as a hash; and how many values cross before each.

        What an item takes from outside counts by its type; what it makes for others does not: of the last layer of
        several it often has no type. An item's nodes are compared in the order of the graph.
        """
        c = self.columns
        local = np.full(c.count, -1, np.int64)
        local[rows] = np.arange(len(rows))
        position = np.empty(len(rows), np.int64)
        position[order] = np.arange(len(rows)) - bounds[item[order]]
        take = _ranges(c.takes_start[rows], c.takes_start[rows + 1])
        value = c.takes_value[take]
        to = local[c.takes_row[take]]
        maker = c.producer[value]
        made = np.where(maker >= 0, local[maker], -1)
        is_own = (made >= 0) & (item[made] == item[to])
        distance = np.where(is_own, position[to] - position[made], 0)
        wires = _mix(
            _mix(distance * 4 + is_own * 2 + c.is_weight[value])
            + _mix(c.takes_slot[take].astype(np.int64) + 17)
            + _mix(np.where(is_own, c.made_slot[value], 0) + 91)
            + _mix(c.type[value].astype(np.int64) + 1_009)
        )
        node = _mix(c.op[rows].astype(np.int64)) + _mix(c.inner[rows] + 31)
        node += _sums(wires, c.takes_start[rows + 1] - c.takes_start[rows])
        node = _mix(node.view(np.int64) + position * 0x9E3779B9)
        signatures = _sums(node[order], np.diff(bounds))
        # Values that lead from an item to a later one cross before all that come in between and before that one.
        crosses = (made >= 0) & (item[np.maximum(made, 0)] < item[to])
        pairs = np.unique(np.stack([value[crosses], item[to][crosses], item[made][crosses]]), axis=1)
        last = np.flatnonzero(np.diff(pairs[0], append=-1)) if pairs.size else np.zeros(0, np.int64)
        crossing = np.zeros(len(bounds) + 1, np.int64)
        np.add.at(crossing, pairs[2][last] + 1, 1)
        np.add.at(crossing, pairs[1][last] + 1, -1)
        return signatures, np.cumsum(crossing)

    def _divide(self, group: Group, entries: list[Group]) -> list[Group]:
        """Runs of what is too long, which part where few values lead from one to the next."""
        count = min(max(-(-len(entries) // _RUN), 2), _RUN)
        item = np.empty(self.columns.count, np.int64)
        for i, entry in enumerate(entries):
            item[entry.rows] = i
        rows = group.rows
        of_row = item[rows]
        order = np.argsort(of_row, kind="stable")
        bounds = np.searchsorted(of_row[order], np.arange(len(entries) + 1))
        _, crossing = self._signatures(rows, of_row, order, bounds)
        width = len(entries) / count
        edges = [0]
        for i in range(1, count):
            low, high = round(width * (i - 0.35)), round(width * (i + 0.35)) + 1
            near = crossing[low:high] * 1_000 + np.abs(np.arange(low, high) - round(width * i))
            edges.append(max(low + int(np.argmin(near)), edges[-1] + 1))
        edges.append(len(entries))
        runs: list[Group] = []
        for start, stop in pairwise(edges):
            inside = np.sort(np.concatenate([entry.rows for entry in entries[start:stop]]))
            runs.append(Group("run", f"part {len(runs) + 1:,} of {count:,}", inside, group.scope))
        return runs


def _fold(members: list[Group], label: str = "") -> Group:
    rows = np.sort(np.concatenate([member.rows for member in members]))
    return Group("fold", label or members[0].label, rows, members[0].scope, members)


def _at(groups: list[Group], number: str, name: str) -> Group:
    if not number.isdecimal() or len(number) > 9 or int(number) >= len(groups):
        raise PathError("there is no such group", name[:200])
    return groups[int(number)]


def _mix(numbers: Array) -> Array:
    """A hash of each number. Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014)."""
    x = numbers.astype(np.int64).view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _ranges(starts: Array, stops: Array) -> Array:
    """All numbers from each start to its stop, one range after another."""
    lengths = stops - starts
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    found: Array = np.arange(total) - np.repeat(ends - lengths - starts, lengths)
    return found


def _sums(numbers: Array, lengths: Array) -> Array:
    """The sums of runs of such lengths, modulo 2**64."""
    total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(numbers.astype(np.uint64))])
    ends = np.cumsum(lengths)
    sums: Array = total[ends] - total[ends - lengths]
    return sums


def _repetitions(signatures: Array, sizes: Array, crossing: Array) -> list[tuple[int, int, int]]:
    """Stretches of equal items: where each begins, how many items one repetition has, and how many there are.

    Of stretches that overlap, the one that leaves the fewest boxes is taken.
    """
    count = len(signatures)
    if count < _LEAST_GROUPS:
        return []
    order = np.argsort(signatures, kind="stable")
    same = signatures[order[1:]] == signatures[order[:-1]]
    distances, often = np.unique((order[1:] - order[:-1])[same], return_counts=True)
    weights = distances * often
    found = []
    for period in distances[np.argsort(-weights, kind="stable")][:_CANDIDATES].tolist():
        equal = np.concatenate([[False], signatures[period:] == signatures[:-period], [False]])
        changes = np.flatnonzero(equal[1:] != equal[:-1])
        for start, stop in zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True):
            length = stop - start + period
            if stop - start < period:
                continue
            # Where the fewest values lead from one repetition to the next.
            shifts = np.arange(min(period, length - period + 1))
            shift = int(np.argmin(crossing[start + shifts + period] * (count + 1) + shifts))
            times = (length - shift) // period
            is_nodes = period == 1 and sizes[start] == 1
            if times >= (_LEAST_NODES if is_nodes else _LEAST_GROUPS):
                found.append(((times - 1) * period, start + shift, period, times))
    found.sort(key=lambda one: (-one[0], one[2], one[1]))
    taken = np.zeros(count, bool)
    chosen = []
    for _, start, period, times in found:
        if not taken[start : start + period * times].any():
            taken[start : start + period * times] = True
            chosen.append((start, period, times))
    return sorted(chosen)
