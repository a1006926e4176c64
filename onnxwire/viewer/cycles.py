"""Scopes whose boxes would form a cycle on the map, although the nodes in them form none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_MAX_EDGES = 300_000  # with more edges, cycles are not searched


def scattered_items(item: Array, is_scope: Array, start: Array, end: Array) -> list[int]:
    """Return the items to dissolve so that fewer items form cycles; [] if no item is in a cycle.

    item: the item of each row, rows in the order of the graph. is_scope: whether an item is a scope with several rows.
    start, end: the rows of the two ends of each edge. Of each cycle, the scopes with the most scattered rows are
    returned, such as a scope that is used several times, or one that denotes a kind of node instead of a part of the
    model.
    """
    runs = np.flatnonzero(np.diff(item, prepend=-1))
    pieces = np.bincount(item[runs], minlength=len(is_scope))
    # In a sorted graph, items of consecutive rows form no cycle.
    if not (is_scope & (pieces > 1)).any() or len(start) > _MAX_EDGES:
        return []
    tail, head = item[start], item[end]
    inner = tail != head
    edges = np.unique(np.stack([tail[inner], head[inner]]), axis=1)
    found = []
    for component in _cycles(len(is_scope), edges[0], edges[1]):
        scopes = [i for i in component if is_scope[i]]
        most = max((int(pieces[i]) for i in scopes), default=0)
        found += [i for i in scopes if pieces[i] == most]
    return sorted(found)


def _cycles(count: int, tail: Array, head: Array) -> list[list[int]]:
    """Return the strongly connected components of several vertices. tail, head: the ends of edges, sorted by tail.

    Source: Tarjan: Depth-First Search and Linear Graph Algorithms (1972), without recursion.
    """
    first = np.searchsorted(tail, np.arange(count + 1)).tolist()
    heads = head.tolist()
    number = [0] * count  # the order of visits, from 1; 0 for unvisited
    low = [0] * count
    is_open = [False] * count
    stack: list[int] = []
    found = []
    visits = 0
    for root in np.unique(tail).tolist():
        if number[root]:
            continue
        path = [(root, first[root])]
        while path:
            vertex, at = path.pop()
            if at == first[vertex] and not number[vertex]:
                visits += 1
                number[vertex] = low[vertex] = visits
                stack.append(vertex)
                is_open[vertex] = True
            elif at > first[vertex]:  # returned from the vertex of the previous edge
                below = heads[at - 1]
                if is_open[below]:
                    low[vertex] = min(low[vertex], low[below])
            while at < first[vertex + 1]:
                below = heads[at]
                at += 1
                if not number[below]:
                    path += [(vertex, at), (below, first[below])]
                    break
                if is_open[below]:
                    low[vertex] = min(low[vertex], number[below])
            else:
                if low[vertex] == number[vertex]:
                    component: list[int] = []
                    while not component or component[-1] != vertex:
                        component.append(stack.pop())
                        is_open[component[-1]] = False
                    if len(component) > 1:
                        found.append(component)
    return found
