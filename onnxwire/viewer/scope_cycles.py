"""Scopes whose boxes would form a cycle on the map, although the nodes in them form none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.index.components import cyclic_components

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
    found = []
    for component in cyclic_components(tail[inner], head[inner]):
        scopes = [i for i in component if is_scope[i]]
        most = max((int(pieces[i]) for i in scopes), default=0)
        found += [i for i in scopes if pieces[i] == most]
    return sorted(found)
