"""Which nodes and tensors have an effect on an output of a graph or function.

A reader that ignores the elements of a value does not count: Shape and Size, a product with a constant zero, Gemm with
a factor of zero, the call of a function that does not read its input, and a branch that a constant does not select.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.dataflow import Dataflow
from onnxwire.checker.facts import true_rows
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.scopes import Scopes
from onnxwire.checker.shape_bounds import ShapeBounds
from onnxwire.checker.small_constants import SmallConstants

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts

_MAX_LEVELS = 64  # of nested graphs
_SIZE_READERS = ("Shape", "Size")


class Liveness:
    """Columns by `facts.derive(Liveness)`. is_dead_node: whether no output depends on a node; is_dead_tensor: whether
    a TensorProto is an initializer on which no output depends."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        nodes, tensors = facts.NodeProto, facts.TensorProto
        is_root = self._named_elsewhere()
        self.is_dead_node = np.zeros(nodes.n, bool)
        self.is_dead_tensor = tensors.under("GraphProto.initializer") & ~is_root[tensors.name]
        if not nodes.n or "NodeProto.input" not in facts.present:
            return
        dataflow, scopes = facts.derive(Dataflow), facts.derive(Scopes)
        graphs = np.where(scopes.node_graph >= 0, scopes.node_graph, -2 - scopes.node_function)
        above = np.append(scopes.owner, -1)[np.maximum(scopes.node_graph, -1)]  # the node that contains a node, or -1
        has_effect = self._read_elements(dataflow)
        is_skipped = _spread(self._in_skipped_branches(dataflow, scopes), above)
        has_effect &= ~is_skipped[dataflow.inputs.parent]
        makers, readers = dataflow.makers, dataflow.inputs.parent
        chosen = true_rows(has_effect & (makers >= 0))
        makers, readers = makers[chosen], readers[chosen].copy()
        # A node in a nested graph reads an outer value on behalf of the node that contains the graph.
        for _ in range(_MAX_LEVELS):
            is_inner = (graphs[readers] != graphs[makers]) & (above[readers] >= 0)
            if not is_inner.any():
                break
            readers[is_inner] = above[readers[is_inner]]
        self._remove(makers, readers, is_root)
        self.is_dead_node = _spread(self.is_dead_node | is_skipped, above)
        read = dataflow.tensors[has_effect & ~self.is_dead_node[dataflow.inputs.parent]]
        self.is_dead_tensor[read[read >= 0]] = False

    def _in_skipped_branches(self, dataflow: Dataflow, scopes: Scopes) -> Any:
        """Return whether each node is in a branch of an If that its constant condition does not select."""
        facts = self._facts
        is_if = facts.are_among(facts.NodeProto.op_type, ("If",))
        is_first = np.arange(dataflow.inputs.n) == facts.NodeProto.first("input")[dataflow.inputs.parent]
        skipped: list[int] = []
        for element in true_rows(is_if[dataflow.inputs.parent] & is_first & dataflow.is_constant).tolist():
            condition = dataflow.scalar(element)
            if condition is not None:
                bodies = facts.derive(ShapeBounds).bodies(int(dataflow.inputs.parent[element]))
                skipped.append(bodies.get("else_branch" if condition else "then_branch", -1))
        return np.isin(scopes.node_graph, [graph for graph in skipped if graph >= 0])

    def _named_elsewhere(self) -> Any:
        """Return whether each name is that of an output, or of a value in training bindings or quantization."""
        facts = self._facts
        used = np.zeros(facts.columns.text_count(), bool)
        infos = facts.ValueInfoProto
        used[infos.name[infos.under("GraphProto.output")]] = True
        if "FunctionProto.output" in facts.present:
            used[facts.lists("FunctionProto.output").value] = True
        if "StringStringEntryProto" in facts.present:
            used[facts.StringStringEntryProto.value] = True
            used[facts.StringStringEntryProto.key] = True
        used[0] = False
        return used

    def _read_elements(self, dataflow: Dataflow) -> Any:
        """Return whether the result of the reader depends on each input of a node."""
        facts, inputs = self._facts, dataflow.inputs
        nodes = facts.NodeProto
        has_effect = ~facts.are_among(nodes.op_type, _SIZE_READERS)[inputs.parent]
        is_product = facts.are_among(nodes.op_type, ("Mul",))
        for element in true_rows(is_product[inputs.parent] & dataflow.is_constant).tolist():
            if self._is_zero(dataflow, element):
                node = int(inputs.parent[element])
                first = int(nodes.first("input")[node])
                has_effect[first : first + int(nodes.input[node])] = False
        constants = facts.derive(SmallConstants)
        for node in true_rows(facts.are_among(nodes.op_type, ("Gemm",)) & (nodes.attribute > 0)).tolist():
            attributes, first = constants.attributes(node), int(nodes.first("input")[node])
            for name, start, stop in (("alpha", 0, 2), ("beta", 2, 3)):
                if name in attributes and attributes[name].f == 0:
                    has_effect[first + start : first + min(stop, int(nodes.input[node]))] = False
        calls = facts.derive(Calls).function
        if facts.FunctionProto.n and "FunctionProto.input" in facts.present:
            is_call = calls[inputs.parent] >= 0
            elements = true_rows(is_call)
            functions = calls[inputs.parent[elements]]
            places = elements - nodes.first("input")[inputs.parent[elements]]
            known = places < facts.FunctionProto.input[functions]
            elements, functions, places = elements[known], functions[known], places[known]
            names = facts.lists("FunctionProto.input").value[facts.FunctionProto.first("input")[functions] + places]
            has_effect[elements] = np.isin(_pair(facts, functions, names), self._read_names(inputs))
        return has_effect

    def _read_names(self, inputs: Any) -> Any:
        """Return the names that each function reads or returns, as numbers."""
        facts = self._facts
        within = facts.derive(Scopes).node_function[inputs.parent]
        chosen = within >= 0
        found = [_pair(facts, within[chosen], inputs.value[chosen])]
        if "FunctionProto.output" in facts.present:
            outputs = facts.lists("FunctionProto.output")
            found.append(_pair(facts, outputs.parent, outputs.value))
        infos, scopes = facts.ValueInfoProto, facts.derive(Scopes)
        rows = true_rows(infos.under("GraphProto.output"))
        owners = scopes.graph_function[infos.parent[rows]]
        found.append(_pair(facts, owners[owners >= 0], infos.name[rows[owners >= 0]]))
        return np.unique(np.concatenate(found))

    def _is_zero(self, dataflow: Dataflow, element: int) -> bool:
        if dataflow.tensors[element] >= 0:
            numbers = self._facts.derive(SmallConstants).numbers(int(dataflow.tensors[element]))
            return bool(numbers) and not any(numbers or ())
        return dataflow.scalar(element) == 0

    def _remove(self, makers: Any, readers: Any, is_root: Any) -> None:
        """Mark the nodes without readers as dead, then those that only dead nodes read, and so on."""
        facts = self._facts
        nodes = facts.NodeProto
        n_readers = np.bincount(makers, minlength=nodes.n)
        if "NodeProto.output" in facts.present:
            outputs = facts.lists("NodeProto.output")
            n_readers += np.bincount(outputs.parent[is_root[outputs.value]], minlength=nodes.n)
        left = true_rows(n_readers == 0).tolist()
        if not left:
            return
        order = np.argsort(readers, kind="stable")
        starts = np.searchsorted(readers[order], np.arange(nodes.n + 1))
        makers_by_reader = makers[order]
        while left:
            node = left.pop()
            self.is_dead_node[node] = True
            for maker in makers_by_reader[starts[node] : starts[node + 1]].tolist():
                n_readers[maker] -= 1
                if n_readers[maker] == 0:
                    left.append(maker)


def _spread(is_chosen: Any, above: Any) -> Any:
    """Return whether each node, or one that contains it, is chosen. above: the containing node of each node, or -1."""
    result = is_chosen.copy()
    for _ in range(_MAX_LEVELS):
        more = ~result & (above >= 0) & result[above]
        if not more.any():
            break
        result |= more
    return result


def _pair(facts: Facts, rows: Any, ids: Any) -> Any:
    """Return a number for each row of a sheet and a string."""
    return rows.astype(np.int64) * facts.columns.text_count() + ids
