"""Finds scopes whose boxes would form a cycle on the map, although their nodes form no cycle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.index.components import cyclic_components

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_MAX_EDGES = 300_000  # with more edges, cycles are not searched


def find_scattered_items(item: Array, is_scope: Array, start: Array, end: Array) -> list[int]:
    """Return the items to dissolve so that fewer items form cycles; [] for too many edges.

    Items: see map_groups.py. Dissolving an item replaces it by the scopes and nodes in it.
    item: the item of each node, in the order of the graph. is_scope: whether an item is a scope.
    start, end: the positions in `item` of the two nodes of each edge. Of the scopes in a strongly connected component,
    those whose nodes form the most separate runs of consecutive nodes are returned: such a scope is used several times,
    or denotes a kind of node instead of a part of the model.
    """
    run_starts = np.flatnonzero(np.diff(item, prepend=-1))
    run_counts = np.bincount(item[run_starts], minlength=len(is_scope))
    # In a sorted graph, items whose nodes are consecutive form no cycle.
    if not (is_scope & (run_counts > 1)).any() or len(start) > _MAX_EDGES:
        return []
    source_items, target_items = item[start], item[end]
    is_between_items = source_items != target_items
    scattered = []
    for component in cyclic_components(source_items[is_between_items], target_items[is_between_items]):
        scopes = [i for i in component if is_scope[i]]
        max_runs = max((int(run_counts[i]) for i in scopes), default=0)
        scattered += [i for i in scopes if run_counts[i] == max_runs]
    return sorted(scattered)
