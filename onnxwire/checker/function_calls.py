"""Builds the graph of calls between the functions of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.facts import true_rows
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.scopes import Scopes
from onnxwire.index.components import cyclic_components

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnxwire.checker.facts import Facts

MAIN = 0  # the vertex for the nodes outside of functions


class FunctionCalls:
    """The calls of each function. `facts.derive(FunctionCalls)` returns the object.

    Vertices are MAIN, for the nodes outside of functions, and 1 + row for each FunctionProto; n: their number. The
    vertices that vertex v calls are callees[starts[v]:starts[v + 1]], each once, with the number of calls in `counts`.
    recursive: the vertices on a cycle of calls. order: all vertices, each after those that it calls, except on a cycle.
    """

    def __init__(self, facts: Facts) -> None:
        self.n = facts.FunctionProto.n + 1
        called, callers = facts.derive(Calls).function, facts.derive(Scopes).node_function
        rows = true_rows(called >= 0)
        keys = (callers[rows] + 1).astype(np.int64) * self.n + called[rows] + 1
        edges, counts = np.unique(keys, return_counts=True)
        edge_starts, edge_ends = edges // self.n, edges % self.n
        self.starts: Sequence[int] = np.searchsorted(edge_starts, np.arange(self.n + 1)).data
        self.callees: Sequence[int] = np.ascontiguousarray(edge_ends).data
        self.counts: Sequence[int] = counts.data
        self.recursive = {vertex for members in cyclic_components(edge_starts, edge_ends) for vertex in members}
        self.order = self._callees_first()

    def _callees_first(self) -> Any:
        """Return the vertices in the order in which a depth-first search finishes them."""
        order = np.zeros(self.n, np.int64)
        n_finished = 0
        is_visited = bytearray(self.n)
        next_edges = np.array(self.starts).data
        for root in range(self.n):
            if is_visited[root]:
                continue
            is_visited[root] = True
            path = [root]
            while path:
                vertex = path[-1]
                for edge in range(next_edges[vertex], self.starts[vertex + 1]):
                    callee = self.callees[edge]
                    if not is_visited[callee]:
                        is_visited[callee] = True
                        next_edges[vertex] = edge + 1
                        path.append(callee)
                        break
                else:
                    path.pop()
                    order[n_finished] = vertex
                    n_finished += 1
        return order
