"""Finds the nodes and initializers that have no effect on any output of a graph or function.

A value that is read but whose elements are ignored has no effect: an input of Shape or Size, of a product with a
constant zero, of Gemm with a factor of zero, of a call of a function that does not read it, or of a node in a branch
that a constant condition does not select.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.dataflow import Dataflow
from onnxwire.checker.facts import EMPTY, true_rows
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.scopes import Scopes
from onnxwire.checker.shape_bounds import ShapeBounds
from onnxwire.checker.small_constants import SmallConstants

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts

_MAX_LEVELS = 64  # maximum number of levels of nested graphs that are followed
_SIZE_READERS = ("Shape", "Size")


class Liveness:
    """Columns for nodes and tensors. `facts.derive(Liveness)` returns the object.

    is_dead_node: for each node, whether no output depends on it. is_dead_tensor: for each TensorProto, whether it is an
    initializer on which no output depends. A value that a StringStringEntryProto names counts as an output,
    and so does each value with the name of an output of any graph or function.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        nodes, tensors = facts.NodeProto, facts.TensorProto
        is_used_outside = self._are_used_outside_nodes()
        self.is_dead_node = np.zeros(nodes.n, bool)
        self.is_dead_tensor = tensors.under("GraphProto.initializer") & ~is_used_outside[tensors.name]
        if not nodes.n:
            return
        dataflow, scopes = facts.derive(Dataflow), facts.derive(Scopes)
        # For each node, the graph that contains it, or -2 - x for the function x.
        scope_ids = np.where(scopes.node_graph >= 0, scopes.node_graph, -2 - scopes.node_function)
        owners = np.append(scopes.owner, -1)[np.maximum(scopes.node_graph, -1)]  # the node that contains a node, or -1
        has_effect = self._have_effect(dataflow)
        is_skipped = _extend_to_nested(self._are_in_skipped_branches(dataflow, scopes), owners)
        has_effect &= ~is_skipped[dataflow.inputs.parent]
        producers, readers = dataflow.producers, dataflow.inputs.parent
        edges = true_rows(has_effect & (producers >= 0))
        producers, readers = producers[edges], readers[edges].copy()
        # A node in a nested graph reads an outer value on behalf of the node that contains the graph.
        for _ in range(_MAX_LEVELS):
            is_inner = (scope_ids[readers] != scope_ids[producers]) & (owners[readers] >= 0)
            if not is_inner.any():
                break
            readers[is_inner] = owners[readers[is_inner]]
        self._mark_dead_nodes(producers, readers, is_used_outside)
        self.is_dead_node = _extend_to_nested(self.is_dead_node | is_skipped, owners)
        live_tensors = dataflow.tensors[has_effect & ~self.is_dead_node[dataflow.inputs.parent]]
        self.is_dead_tensor[live_tensors[live_tensors >= 0]] = False

    def _are_in_skipped_branches(self, dataflow: Dataflow, scopes: Scopes) -> Any:
        """Return whether each node is directly in a branch of an If that its constant condition does not select."""
        facts = self._facts
        is_if = facts.are_among(facts.NodeProto.op_type, ("If",))
        is_first = np.arange(dataflow.inputs.n) == facts.NodeProto.first("input")[dataflow.inputs.parent]
        skipped_graphs: list[int] = []
        for element in true_rows(is_if[dataflow.inputs.parent] & is_first & dataflow.is_constant).tolist():
            condition = dataflow.scalar(element)
            if condition is not None:
                bodies = facts.derive(ShapeBounds).bodies(int(dataflow.inputs.parent[element]))
                skipped_graphs.append(bodies.get("else_branch" if condition else "then_branch", -1))
        return np.isin(scopes.node_graph, [graph for graph in skipped_graphs if graph >= 0])

    def _are_used_outside_nodes(self) -> Any:
        """Return whether each string, by id, names an output, or is the key or value of any StringStringEntryProto.

        Such entries name values in training bindings and quantization annotations. Entries of other fields count, too.
        """
        facts = self._facts
        is_used = np.zeros(facts.columns.text_count(), bool)
        infos = facts.ValueInfoProto
        is_used[infos.name[infos.under("GraphProto.output")]] = True
        if "FunctionProto.output" in facts.present:
            is_used[facts.lists("FunctionProto.output").value] = True
        if "StringStringEntryProto" in facts.present:
            is_used[facts.StringStringEntryProto.value] = True
            is_used[facts.StringStringEntryProto.key] = True
        is_used[EMPTY] = False
        return is_used

    def _have_effect(self, dataflow: Dataflow) -> Any:
        """Return, for each element of NodeProto.input, whether the node's outputs depend on the input's elements.

        Outputs that depend only on the shape of an input do not count.
        """
        facts, inputs = self._facts, dataflow.inputs
        nodes = facts.NodeProto
        has_effect = ~facts.are_among(nodes.op_type, _SIZE_READERS)[inputs.parent]
        is_product = facts.are_among(nodes.op_type, ("Mul",))
        for element in true_rows(is_product[inputs.parent] & dataflow.is_constant).tolist():
            if self._is_zero(dataflow, element):
                node = int(inputs.parent[element])
                first_input = int(nodes.first("input")[node])
                has_effect[first_input : first_input + int(nodes.input[node])] = False
        constants = facts.derive(SmallConstants)
        for node in true_rows(facts.are_among(nodes.op_type, ("Gemm",)) & (nodes.attribute > 0)).tolist():
            attributes, first_input = constants.attributes(node), int(nodes.first("input")[node])
            for name, start, stop in (("alpha", 0, 2), ("beta", 2, 3)):  # a factor, and the range of inputs it scales
                if name in attributes and attributes[name].f == 0:
                    has_effect[first_input + start : first_input + min(stop, int(nodes.input[node]))] = False
        called_functions = facts.derive(Calls).function
        if facts.FunctionProto.n and "FunctionProto.input" in facts.present:
            is_call = called_functions[inputs.parent] >= 0
            elements = true_rows(is_call)
            functions = called_functions[inputs.parent[elements]]
            indices = elements - nodes.first("input")[inputs.parent[elements]]
            is_declared = indices < facts.FunctionProto.input[functions]
            elements, functions, indices = elements[is_declared], functions[is_declared], indices[is_declared]
            names = facts.lists("FunctionProto.input").value[facts.FunctionProto.first("input")[functions] + indices]
            has_effect[elements] = np.isin(_key_of(facts, functions, names), self._names_read_in_functions(inputs))
        return has_effect

    def _names_read_in_functions(self, inputs: Any) -> Any:
        """Return the names that each function reads or returns, as the numbers that `_key_of` returns."""
        facts = self._facts
        functions = facts.derive(Scopes).node_function[inputs.parent]
        is_in_function = functions >= 0
        keys = [_key_of(facts, functions[is_in_function], inputs.value[is_in_function])]
        if "FunctionProto.output" in facts.present:
            outputs = facts.lists("FunctionProto.output")
            keys.append(_key_of(facts, outputs.parent, outputs.value))
        infos, scopes = facts.ValueInfoProto, facts.derive(Scopes)
        rows = true_rows(infos.under("GraphProto.output"))
        owners = scopes.graph_function[infos.parent[rows]]
        keys.append(_key_of(facts, owners[owners >= 0], infos.name[rows[owners >= 0]]))
        return np.unique(np.concatenate(keys))

    def _is_zero(self, dataflow: Dataflow, element: int) -> bool:
        """Return whether a constant input is known to have only zeros. element: the row in NodeProto.input."""
        if dataflow.tensors[element] >= 0:
            numbers = self._facts.derive(SmallConstants).numbers(int(dataflow.tensors[element]))
            return bool(numbers) and not any(numbers or ())
        return dataflow.scalar(element) == 0

    def _mark_dead_nodes(self, producers: Any, readers: Any, is_used_outside: Any) -> None:
        """Mark as dead the nodes whose outputs are unused, then those whose outputs only dead nodes read, and so on.

        producers, readers: for each read of a value, the node that produces the value, and the node that reads it.
        is_used_outside: whether each string, by id, is the name of a value that is used outside of nodes.
        """
        facts = self._facts
        nodes = facts.NodeProto
        n_readers = np.bincount(producers, minlength=nodes.n)
        if "NodeProto.output" in facts.present:
            outputs = facts.lists("NodeProto.output")
            n_readers += np.bincount(outputs.parent[is_used_outside[outputs.value]], minlength=nodes.n)
        unread_nodes = true_rows(n_readers == 0).tolist()
        if not unread_nodes:
            return
        order = np.argsort(readers, kind="stable")
        starts = np.searchsorted(readers[order], np.arange(nodes.n + 1))
        producers_by_reader = producers[order]
        while unread_nodes:
            node = unread_nodes.pop()
            self.is_dead_node[node] = True
            for producer in producers_by_reader[starts[node] : starts[node + 1]].tolist():
                n_readers[producer] -= 1
                if n_readers[producer] == 0:
                    unread_nodes.append(producer)


def _extend_to_nested(is_selected: Any, owners: Any) -> Any:
    """Return whether each node, or a node that contains it, is selected.

    owners: for each node, the node that contains it, or -1.
    """
    result = is_selected.copy()
    for _ in range(_MAX_LEVELS):
        is_added = ~result & (owners >= 0) & result[owners]
        if not is_added.any():
            break
        result |= is_added
    return result


def _key_of(facts: Facts, rows: Any, ids: Any) -> Any:
    """Return a number that identifies a row of a sheet and a string, for each pair of them."""
    return rows.astype(np.int64) * facts.columns.text_count() + ids
