"""Finds cycles of nodes that depend on each other, in each graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker.facts import true_rows
from onnxwire.checker.scopes import PRODUCED_AFTER_OWNER, PRODUCED_LATER, Scopes
from onnxwire.index.components import cyclic_components

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts, Rows


def find_cycles(facts: Facts) -> list[list[int]]:
    """Return sets of nodes of a graph that depend on each other, as ascending rows; sets are sorted by their first row.

    The inputs of nodes in a nested graph count as inputs of the node that owns the graph. Sorted graphs have no cycles.
    Nodes that are directly in a function are not searched.
    """
    scopes = facts.derive(Scopes)
    if not ((scopes.uses == PRODUCED_LATER) | (scopes.uses == PRODUCED_AFTER_OWNER)).any():
        return []
    return cyclic_components(*_edges(facts, scopes))


def _edges(facts: Facts, scopes: Scopes) -> tuple[Rows, Rows]:
    """Return, for all graphs, the edges between nodes of the same graph.

    Returns two columns: the nodes that read a value, and those that produce it.
    """
    inputs = true_rows(scopes.producers >= 0)
    readers, producers = facts.lists("NodeProto.input").parent[inputs].copy(), scopes.producers[inputs]
    producer_graphs = scopes.node_graph[producers]
    nested_readers = true_rows(scopes.node_graph[readers] != producer_graphs)
    while nested_readers.size:
        graphs = scopes.node_graph[readers[nested_readers]]
        readers[nested_readers] = np.where(graphs >= 0, scopes.owner[graphs], -1)
        nested_readers = nested_readers[readers[nested_readers] >= 0]
        nested_readers = nested_readers[scopes.node_graph[readers[nested_readers]] != producer_graphs[nested_readers]]
    # The graph of a node that is directly in a function is -1.
    is_in_graph = (readers >= 0) & (producer_graphs >= 0)
    return readers[is_in_graph], producers[is_in_graph]
