"""Matching the vertices of two flat graphs by structure, whatever their names.

Vertices are matched in three steps: by hashes of all their ancestors and descendants; by hashes of small
neighbourhoods; and along edges from vertices that already match. So an edit affects only the vertices around it.
"""

from __future__ import annotations

from onnxwire.analysis.flat_graph import ABSENT, NODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol

    from onnxwire.analysis.flat_graph import FlatGraph

    Consumers = list[list[tuple[int, int, int]]]
    """For each vertex: a list of (consumer, slot, index of the output that the consumer reads)."""

    class Hashes(Protocol):
        """A hash for each vertex."""

        def __getitem__(self, vertex: int, /) -> int:
            """Return the hash of a vertex."""

    Level = Sequence[Hashes]
    """Hashes of the vertices of `old` and of `new`, equal for vertices that may match."""

UNMATCHED = -1
_RADII = (4, 2, 1)
_MAX_REPAIRS = 10  # passes
_MAX_VOTES = 64  # maximum number of edges of a vertex, and of consumers of a value, that a repair examines
# The maximum number of votes in all repairs, of about 1 µs each: graphs of many equal vertices could go on for ever.
_MIN_ALL_VOTES = 2_000_000
_ALL_VOTES_PER_EDGE = 4


class Matching:
    """The matching vertices of two graphs: for each vertex, the index of its match in the other one, or UNMATCHED."""

    def __init__(self, old: FlatGraph, new: FlatGraph, *, by_name: bool) -> None:
        """by_name: match nodes of one name and operator first, where the name is unique in both models."""
        self.graphs = old, new
        self.new_of = [UNMATCHED] * len(old)
        self.old_of = [UNMATCHED] * len(new)
        self._consumers = tuple(map(_consumers_of, self.graphs))
        self._queue: list[tuple[int, int]] = []
        self._nested_sources: dict[int, dict[int, tuple[int, int]]] = {}
        self._left = [len(old), len(new)]
        n_edges = sum(len(edges) for graph in self.graphs for edges in graph.edges)
        self._votes_left = max(_MIN_ALL_VOTES, _ALL_VOTES_PER_EDGE * n_edges)
        labels = [graph.labels for graph in self.graphs]
        operators = [graph.operators for graph in self.graphs]
        names = [list(map(_pair, graph.operators, graph.names)) for graph in self.graphs]
        if by_name:
            self._match_unique(names, NODE)
        orders = list(map(_topological, self.graphs, self._consumers))
        up = list(map(_hash_up, self.graphs, orders))
        down = list(map(_hash_down, self.graphs, orders, self._consumers))
        both = [list(map(_pair, *hashes)) for hashes in zip(up, down, strict=True)]
        everything: list[Level] = [both, up, down]
        near: list[Level] = [
            [_Neighbourhoods(*graph, radius) for graph in zip(self.graphs, self._consumers, strict=True)]
            for radius in _RADII
        ]
        for level in everything:
            self._match_unique(level)
        for level in (*near, labels):
            self._spread(level)
        for level in near:
            self._match_unique(level)
            self._spread(labels)
        for level in (*everything, *near):
            self._match_groups(level, labels)
        self._spread(operators)
        self._match_groups(labels, labels)
        self._spread(operators)
        for _ in range(_MAX_REPAIRS):
            if not self._repair():
                break
            self._spread(operators)
        self._match_groups(names, operators, NODE)

    def _unmatched(self) -> tuple[list[int], list[int]]:
        """Return the unmatched vertices of each model; two empty lists if one model has none."""
        if not all(self._left):
            return [], []
        old = [vertex for vertex, match in enumerate(self.new_of) if match == UNMATCHED]
        return old, [vertex for vertex, match in enumerate(self.old_of) if match == UNMATCHED]

    def _match(self, old: int, new: int) -> None:
        self._left[0] -= self.new_of[old] == UNMATCHED
        self._left[1] -= self.old_of[new] == UNMATCHED
        self.new_of[old] = new
        self.old_of[new] = old
        self._queue.append((old, new))

    def _groups(self, level: Level, kind: int | None) -> Iterable[tuple[list[int], list[int]]]:
        """Yield the unmatched vertices of both models for each hash, in order."""
        groups: dict[int, tuple[list[int], list[int]]] = {}
        for side, vertices in enumerate(self._unmatched()):
            kinds = self.graphs[side].kinds
            hashes = level[side]
            for vertex in vertices:
                if kind is None or kinds[vertex] == kind:
                    groups.setdefault(hashes[vertex], ([], []))[side].append(vertex)
        return groups.values()

    def _match_unique(self, level: Level, kind: int | None = None) -> None:
        for old, new in self._groups(level, kind):
            if len(old) == len(new) == 1:
                self._match(old[0], new[0])

    def _match_groups(self, level: Level, spread_by: Level, kind: int | None = None) -> None:
        """Match vertices of equal hashes one after another; spread each match before the next one is chosen."""
        names = self.graphs[0].names, self.graphs[1].names
        for old, new in list(self._groups(level, kind)):
            if not old or not new:
                continue
            known = {names[1][vertex]: vertex for vertex in reversed(new)}
            rest = iter(new)
            for vertex in old:
                if self.new_of[vertex] != UNMATCHED:
                    continue
                other = known.get(names[0][vertex], UNMATCHED)
                if other == UNMATCHED or self.old_of[other] != UNMATCHED:
                    other = next((one for one in rest if self.old_of[one] == UNMATCHED), UNMATCHED)
                if other == UNMATCHED:
                    break
                self._match(vertex, other)
                self._spread(spread_by, all_pairs=False)

    def _spread(self, level: Level, *, all_pairs: bool = True) -> None:
        """Match neighbours of matching vertices with equal hashes and the same slot, until no more are found.

        all_pairs: start from all matches with unmatched neighbours, not only from the latest match.
        """
        queue = self._queue
        if all_pairs:
            queue.clear()
            neighbours: dict[int, None] = {}
            for vertex in self._unmatched()[0]:
                neighbours.update((source, None) for source, _, _ in self.graphs[0].edges[vertex] if source != ABSENT)
                neighbours.update((consumer, None) for consumer, _, _ in self._consumers[0][vertex])
            queue += [(one, self.new_of[one]) for one in neighbours if self.new_of[one] != UNMATCHED]
        while queue:
            old, new = queue.pop()
            self._spread_to_sources(old, new, level)
            self._spread_to_consumers(old, new, level)

    def _repair(self) -> bool:
        """Replace matches by vertices with which more edges agree; return whether any was replaced."""
        old, new = self.graphs
        changed = False
        for vertex in self._disagreeing():
            if self._votes_left < 0:
                return False
            current = self.new_of[vertex]
            votes = self._votes(vertex)
            if not votes:
                continue
            best = max(votes.values())
            if best <= votes.get(current, 0):
                continue
            for other, count in votes.items():
                if count == best and old.operators[vertex] == new.operators[other]:
                    rival = self.old_of[other]
                    if rival == UNMATCHED or self._votes(rival).get(other, 0) < best:
                        if rival != UNMATCHED:
                            self.new_of[rival] = UNMATCHED
                            self._left[0] += 1
                        if current != UNMATCHED:
                            self.old_of[current] = UNMATCHED
                            self._left[1] += 1
                        self._match(vertex, other)
                        changed = True
                        break
        return changed

    def _disagreeing(self) -> list[int]:
        """Return the vertices of `old` at either end of an edge that has no counterpart."""
        found: dict[int, None] = {}
        old, new = self.graphs
        for vertex, (edges, match) in enumerate(zip(old.edges, self.new_of, strict=True)):
            others = new.edges[match] if match != UNMATCHED else ()
            for index, (source, output, slot) in enumerate(edges):
                there = self.new_of[source] if source != ABSENT else ABSENT
                if index >= len(others) or others[index] != (there, output, slot):
                    found[vertex] = None
                    if source != ABSENT:
                        found[source] = None
        return list(found)

    def _votes(self, vertex: int) -> dict[int, int]:
        """Count, for each vertex of `new`, the edges of a vertex of `old` that lead to it along matching neighbours.

        A value with very many consumers does not vote: it leads to all of them alike.
        """
        votes: dict[int, int] = {}
        count = _MAX_VOTES
        for source, output, slot in self.graphs[0].edges[vertex][:_MAX_VOTES]:
            other = self.new_of[source] if source != ABSENT else UNMATCHED
            if other != UNMATCHED and len(self._consumers[1][other]) <= _MAX_VOTES:
                count += len(self._consumers[1][other])
                for candidate, other_slot, other_output in self._consumers[1][other]:
                    if slot == other_slot and output == other_output:
                        votes[candidate] = votes.get(candidate, 0) + 1
        self._votes_left -= count
        for consumer, slot, output in self._consumers[0][vertex][:_MAX_VOTES]:
            other = self.new_of[consumer]
            if other != UNMATCHED:
                candidate, other_output = self._new_source(other, slot)
                if candidate != ABSENT and output == other_output:
                    votes[candidate] = votes.get(candidate, 0) + 1
        return votes

    def _new_source(self, vertex: int, slot: int) -> tuple[int, int]:
        """Return the source of a slot of a vertex of `new`: a vertex and one of its outputs."""
        edges = self.graphs[1].edges[vertex]
        if slot >= 0:  # inputs come first, in order
            return edges[slot][:2] if slot < len(edges) and edges[slot][2] == slot else (ABSENT, 0)
        known = self._nested_sources.get(vertex)
        if known is None:
            known = {slot: (source, output) for source, output, slot in edges if slot < 0}
            self._nested_sources[vertex] = known
        return known.get(slot, (ABSENT, 0))

    def _spread_to_sources(self, old: int, new: int, level: Level) -> None:
        for source, output, slot in self.graphs[0].edges[old]:
            other, other_output = self._new_source(new, slot)
            if (
                source != ABSENT
                and other != ABSENT
                and output == other_output
                and self.new_of[source] == UNMATCHED == self.old_of[other]
                and level[0][source] == level[1][other]
            ):
                self._match(source, other)

    def _spread_to_consumers(self, old: int, new: int, level: Level) -> None:
        ours, theirs = self._consumers[0][old], self._consumers[1][new]
        if not ours or not theirs:
            return
        groups: dict[tuple[int, int, int], list[int]] = {}
        for vertex, slot, output in ours:
            if self.new_of[vertex] == UNMATCHED:
                groups.setdefault((slot, output, level[0][vertex]), []).append(vertex)
        if not groups:
            return
        others: dict[tuple[int, int, int], list[int]] = {}
        for vertex, slot, output in theirs:
            if self.old_of[vertex] == UNMATCHED:
                others.setdefault((slot, output, level[1][vertex]), []).append(vertex)
        for key, vertices in groups.items():
            found = others.get(key, ())
            if len(vertices) == len(found) == 1 and self.new_of[vertices[0]] == UNMATCHED == self.old_of[found[0]]:
                self._match(vertices[0], found[0])


def _pair(one: object, other: object) -> int:
    return hash((one, other))


def _consumers_of(graph: FlatGraph) -> Consumers:
    consumers: Consumers = [[] for _ in range(len(graph))]
    for vertex, edges in enumerate(graph.edges):
        for source, output, slot in edges:
            if source != ABSENT:
                consumers[source].append((vertex, slot, output))
    return consumers


def _topological(graph: FlatGraph, consumers: Consumers) -> list[int]:
    """Return the vertices, sources first; vertices on cycles, and their consumers, are last."""
    waiting = [sum(source != ABSENT for source, _, _ in edges) for edges in graph.edges]
    order = [vertex for vertex, count in enumerate(waiting) if count == 0]
    for vertex in order:
        for consumer, _, _ in consumers[vertex]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                order.append(consumer)
    return order + [vertex for vertex, count in enumerate(waiting) if count > 0]


def _hash_up(graph: FlatGraph, order: Iterable[int]) -> list[int]:
    """Return a hash of each vertex and of all its ancestors."""
    hashes = list(graph.labels)
    edges = graph.edges
    for vertex in order:
        if edges[vertex]:
            hashes[vertex] = hash(
                (
                    hashes[vertex],
                    *[
                        (hashes[source] if source != ABSENT else -1, output, slot)
                        for source, output, slot in edges[vertex]
                    ],
                )
            )
    return hashes


def _hash_down(graph: FlatGraph, order: Sequence[int], consumers: Consumers) -> list[int]:
    """Return a hash of each vertex and of all its descendants."""
    hashes = list(graph.labels)
    for vertex in reversed(order):
        if consumers[vertex]:
            parts = sorted([hash((hashes[one], slot, output)) for one, slot, output in consumers[vertex]])
            hashes[vertex] = hash((hashes[vertex], *parts))
    return hashes


class _Neighbourhoods:
    """Hashes of vertices with all vertices at most `radius` edges away; computed on access."""

    def __init__(self, graph: FlatGraph, consumers: Consumers, radius: int) -> None:
        self._graph = graph
        self._consumers = consumers
        self._hashes: dict[int, int] = {}
        self._inner = _Neighbourhoods(graph, consumers, radius - 1) if radius > 1 else graph.labels

    def __getitem__(self, vertex: int) -> int:
        value = self._hashes.get(vertex)
        if value is None:
            inner = self._inner
            edges = self._graph.edges[vertex]
            sources = [
                hash((inner[source] if source != ABSENT else -1, output, slot)) for source, output, slot in edges
            ]
            consumers = [hash((inner[one], slot, output)) for one, slot, output in self._consumers[vertex]]
            consumers.sort()
            value = self._hashes[vertex] = hash((inner[vertex], *sources, -1, *consumers))
        return value
