"""Cycles of nodes that depend on each other, and of functions that call each other."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker.facts import true_rows, unique
from onnxwire.checker.scopes import MADE_AFTER_OWNER, MADE_LATER, Scopes

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts, Rows


def cycles(facts: Facts) -> list[list[int]]:
    """Return sets of nodes that depend on each other, as ascending rows; sets are sorted by their first row.

    The inputs of nodes in a nested graph count as inputs of the node that owns the graph. Sorted graphs have no cycles.
    """
    scopes = facts.derive(Scopes)
    if not ((scopes.uses == MADE_LATER) | (scopes.uses == MADE_AFTER_OWNER)).any():
        return []
    return cyclic_components(*_edges(facts, scopes))


def cyclic_components(edge_starts: Rows, edge_ends: Rows) -> list[list[int]]:
    """Return the strongly connected components of a graph, and single vertices with an edge to themselves, in order.

    edge_starts, edge_ends: the vertices of each edge. Tarjan's algorithm with an explicit stack, on arrays of integers.
    """
    n = int(max(edge_starts.max(initial=-1), edge_ends.max(initial=-1))) + 1
    order = np.argsort(edge_starts, kind="stable")
    others = _integers(edge_ends[order])
    starts = _integers(np.searchsorted(edge_starts[order], np.arange(n + 1)))
    rest = starts[:]  # the next edge of each vertex
    number, low = (array("q", [-1]) * n for _ in range(2))
    is_pending = bytearray(n)
    pending: list[int] = []
    n_seen = 0
    found = []
    for root in unique(edge_starts).tolist():
        levels = [] if number[root] >= 0 else [root]
        while levels:
            node = levels[-1]
            if number[node] < 0:
                number[node] = low[node] = n_seen
                n_seen += 1
                pending.append(node)
                is_pending[node] = True
            end = starts[node + 1]
            for edge in range(rest[node], end):
                other = others[edge]
                if number[other] < 0:
                    rest[node] = edge + 1
                    levels.append(other)
                    break
                if is_pending[other]:
                    low[node] = min(low[node], number[other])
            else:
                levels.pop()
                if levels:
                    above = levels[-1]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    members: list[int] = []
                    while not members or members[-1] != node:
                        members.append(pending.pop())
                        is_pending[members[-1]] = False
                    if len(members) > 1 or node in others[starts[node] : end]:
                        found.append(sorted(members))
    return sorted(found)


def _integers(rows: Rows) -> array[int]:
    """Convert to an array that is faster to index than numpy's."""
    return array("q", rows.astype(np.int64).tobytes())


def _edges(facts: Facts, scopes: Scopes) -> tuple[Rows, Rows]:
    """Return edges between nodes of one graph: the node that reads a value, and the node that makes it."""
    makers = true_rows(scopes.makers >= 0)
    readers, makers = facts.lists("NodeProto.input").parent[makers].copy(), scopes.makers[makers]
    owners = scopes.node_graph[makers]
    inner = true_rows(scopes.node_graph[readers] != owners)
    while inner.size:
        graphs = scopes.node_graph[readers[inner]]
        readers[inner] = np.where(graphs >= 0, scopes.owner[graphs], -1)
        inner = inner[readers[inner] >= 0]
        inner = inner[scopes.node_graph[readers[inner]] != owners[inner]]
    sound = (readers >= 0) & (owners >= 0)
    return readers[sound], makers[sound]
