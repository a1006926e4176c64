"""Circles: of nodes that depend on each other, of functions that call each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker.scopes import LATER, NOT_YET, Scopes

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts


def cycles(facts: Facts) -> list[list[int]]:
    """The sets of nodes, in graphs, of which each depends on all others: rows in order, by the first.

    Nodes in a nested graph read for the node that owns it. Where every node reads only what came before, there is
    nothing to do.
    """
    scopes = facts.derive(Scopes)
    if not ((scopes.uses == LATER) | (scopes.uses == NOT_YET)).any():
        return []
    return circles(_edges(facts, scopes))


def circles(edges: dict[int, list[int]]) -> list[list[int]]:
    """The sets of numbers of which each leads to all others, those that lead to themselves too: in order, by the first.

    edges: the numbers that each number leads to. Tarjan's way, with a stack of its own.
    """
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    pending: list[int] = []
    is_pending: set[int] = set()
    found = []
    for root in edges:
        if root in number:
            continue
        levels = [(root, iter(edges[root]))]
        number[root] = low[root] = len(number)
        pending.append(root)
        is_pending.add(root)
        while levels:
            node, rest = levels[-1]
            for other in rest:
                if other not in number:
                    number[other] = low[other] = len(number)
                    pending.append(other)
                    is_pending.add(other)
                    levels.append((other, iter(edges.get(other, ()))))
                    break
                if other in is_pending:
                    low[node] = min(low[node], number[other])
            else:
                levels.pop()
                if levels:
                    above = levels[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == number[node]:
                    members: list[int] = []
                    while not members or members[-1] != node:
                        members.append(pending.pop())
                        is_pending.discard(members[-1])
                    if len(members) > 1 or node in edges.get(node, ()):
                        found.append(sorted(members))
    return sorted(found)


def _edges(facts: Facts, scopes: Scopes) -> dict[int, list[int]]:
    """The nodes that each node reads from, in the graph that both stand in."""
    makers = np.flatnonzero(scopes.makers >= 0)
    readers = facts.lists("NodeProto.input").parent[makers]
    edges: dict[int, list[int]] = {}
    graph, owner = scopes.node_graph, scopes.owner
    for reader, maker in zip(readers.tolist(), scopes.makers[makers].tolist(), strict=True):
        home = graph[maker]
        while reader >= 0 and graph[reader] != home:
            reader = int(owner[graph[reader]]) if graph[reader] >= 0 else -1
        if reader >= 0 and home >= 0:
            edges.setdefault(reader, []).append(maker)
    return edges
