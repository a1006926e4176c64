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
    edge_starts, edge_ends: the start and the end vertex of each edge; the edges are in any order.
    Source: Tarjan: Depth-First Search and Linear Graph Algorithms (1972), without recursion.
    """
    n = int(max(edge_starts.max(initial=-1), edge_ends.max(initial=-1))) + 1
    order = np.argsort(edge_starts, kind="stable")
    targets = _to_integers(edge_ends[order])
    # The edges of vertex i are those from starts[i] to before starts[i + 1].
    starts = _to_integers(np.searchsorted(edge_starts[order], np.arange(n + 1)))
    next_edges = starts[:]  # the next edge to visit, by vertex
    visit_numbers = array("q", [-1]) * n  # by vertex, the position in the order of first visits; -1 before the visit
    # By vertex, the smallest visit number of the vertices in `pending` that it is known to reach.
    low_links = array("q", [-1]) * n
    pending: list[int] = []  # the visited vertices without a component, in the order of their visits
    is_pending = bytearray(n)  # by vertex
    n_visited = 0
    components = []
    for root in range(n):
        path = [] if visit_numbers[root] >= 0 else [root]  # from the root to the current vertex
        while path:
            vertex = path[-1]
            if visit_numbers[vertex] < 0:
                visit_numbers[vertex] = low_links[vertex] = n_visited
                n_visited += 1
                pending.append(vertex)
                is_pending[vertex] = True
            end = starts[vertex + 1]
            for edge in range(next_edges[vertex], end):
                target = targets[edge]
                if visit_numbers[target] < 0:
                    next_edges[vertex] = edge + 1
                    path.append(target)
                    break
                if is_pending[target]:
                    low_links[vertex] = min(low_links[vertex], visit_numbers[target])
            else:
                path.pop()
                if path:
                    parent = path[-1]
                    low_links[parent] = min(low_links[parent], low_links[vertex])
                if low_links[vertex] == visit_numbers[vertex]:
                    members: list[int] = []
                    while not members or members[-1] != vertex:
                        members.append(pending.pop())
                        is_pending[members[-1]] = False
                    if len(members) > 1 or vertex in targets[starts[vertex] : end]:
                        components.append(sorted(members))
    return sorted(components)


def _to_integers(values: Array) -> array[int]:
    """Convert to an array that is faster to index than numpy's."""
    return array("q", values.astype(np.int64).tobytes())
