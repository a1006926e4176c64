"""The strongly connected components of a graph of numbered vertices."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]


def cyclic_components(edge_starts: Array, edge_ends: Array) -> list[list[int]]:
    """Return the strongly connected components of a graph that contain a cycle, each sorted, in ascending order.

    These are the components of at least two vertices, and the single vertices with an edge to themselves.
    edge_starts, edge_ends: the vertices of each edge, in any order.
    Source: Tarjan: Depth-First Search and Linear Graph Algorithms (1972), without recursion.
    """
    n = int(max(edge_starts.max(initial=-1), edge_ends.max(initial=-1))) + 1
    order = np.argsort(edge_starts, kind="stable")
    targets = _to_integers(edge_ends[order])
    starts = _to_integers(np.searchsorted(edge_starts[order], np.arange(n + 1)))
    next_edges = starts[:]  # the next edge to visit, by vertex
    # By vertex: the position in the order of first visits, -1 before, and the smallest such position that it reaches.
    visit_numbers, low_links = (array("q", [-1]) * n for _ in range(2))
    is_pending = bytearray(n)
    pending: list[int] = []
    n_visited = 0
    components = []
    for root in range(n):
        levels = [] if visit_numbers[root] >= 0 else [root]  # the path from the root to the current vertex
        while levels:
            node = levels[-1]
            if visit_numbers[node] < 0:
                visit_numbers[node] = low_links[node] = n_visited
                n_visited += 1
                pending.append(node)
                is_pending[node] = True
            end = starts[node + 1]
            for edge in range(next_edges[node], end):
                target = targets[edge]
                if visit_numbers[target] < 0:
                    next_edges[node] = edge + 1
                    levels.append(target)
                    break
                if is_pending[target]:
                    low_links[node] = min(low_links[node], visit_numbers[target])
            else:
                levels.pop()
                if levels:
                    parent = levels[-1]
                    low_links[parent] = min(low_links[parent], low_links[node])
                if low_links[node] == visit_numbers[node]:
                    members: list[int] = []
                    while not members or members[-1] != node:
                        members.append(pending.pop())
                        is_pending[members[-1]] = False
                    if len(members) > 1 or node in targets[starts[node] : end]:
                        components.append(sorted(members))
    return sorted(components)


def _to_integers(rows: Array) -> array[int]:
    """Convert to an array that is faster to index than numpy's."""
    return array("q", rows.astype(np.int64).tobytes())
