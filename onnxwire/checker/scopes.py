"""Makes columns of resolved names from the results of the walk in `_scopes.pyx`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker._scopes import Scopes as Walk
from onnxwire.checker.facts import true_rows, unique

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnxwire.checker.facts import Facts

# Meanings of a name at its use, in the order of the constants: a use that the walk does not reach; the empty name; an
# input, an initializer, and a node output of the same graph or function; a value of an enclosing graph; the output of a
# later node of the same graph, or of the node itself; the output of the node that owns the graph, or of a later one; no
# visible value. `_scopes.pyx` has the same numbers.
UNSEEN, OMITTED, INPUT, INITIALIZER, NODE, OUTER, PRODUCED_LATER, PRODUCED_AFTER_OWNER, NOWHERE = range(9)
# Flags of a definition of a name: which earlier definitions of the name are in the same graph or function. SHADOWS: an
# enclosing graph has a value of that name when the inner graph runs.
IS_INPUT, IS_INITIALIZER, IS_NODE, SHADOWS = 2, 4, 8, 16

# Kinds of graphs: the model's own, those in attributes, and the two of a TrainingInfoProto.
MAIN, NESTED, INITIALIZATION, ALGORITHM = range(4)


class Scopes:
    """Columns for the sheets. `facts.derive(Scopes)` returns the object.

    uses, producers: for each element of NodeProto.input, its meaning, and the node that produces the value, or -1.
    definitions: for each element of NodeProto.input, the number of its value's definition: elements of NodeProto.output
    are numbered first, then rows of ValueInfoProto, then rows of TensorProto; -1 for any other value. defining_scopes:
    for each element of NodeProto.input, the graph that defines its value, or -1; functions are numbered after all
    graphs.
    described_outputs: for each ValueInfoProto, the element of NodeProto.output that it describes, or -1.
    output_meanings, value_info_meanings: the meaning of each ValueInfoProto that is an output of a graph, or value_info
    of a graph or function. function_output_meanings: the meaning of each element of FunctionProto.output.
    node_output_flags: for each element of NodeProto.output, flags of the earlier definitions of its name, and SEEN of
    `_scopes.pyx`; all_node_output_flags: the bitwise or of these flags. graph_input_flags, initializer_flags,
    sparse_initializer_flags: such flags for each ValueInfoProto, TensorProto and SparseTensorProto.
    is_main, is_algorithm, is_nested: whether each GraphProto is of that kind; a further last element, False, is for the
    index -1, which means no graph.
    graph_kind, graph_function, owner: for each GraphProto, its kind (MAIN to ALGORITHM), the function that contains it,
    or -1, and the node that has it in an attribute, or -1.
    node_graph, node_function: for each NodeProto, the graph that has it in the field `node`, or -1, and the function
    that contains it at any depth, or -1.
    """

    def __init__(self, facts: Facts) -> None:
        graphs, nodes, attributes = facts.GraphProto, facts.NodeProto, facts.AttributeProto
        walk = Walk(facts.columns)
        main_graphs = true_rows(graphs.under("ModelProto.graph") | (graphs.parent_field < 0))
        algorithms = initializations = main_graphs[:0]
        if "TrainingInfoProto" in facts.present:
            algorithms = true_rows(graphs.under("TrainingInfoProto.algorithm"))
            initializations = true_rows(graphs.under("TrainingInfoProto.initialization"))
        walk.walk(
            int(main_graphs[0]) if len(main_graphs) else -1,
            algorithms.tolist(),
            initializations.tolist(),
            list(range(facts.FunctionProto.n)),
        )
        self._uses = walk.uses
        self.uses = np.frombuffer(walk.uses, np.uint8)
        self.producers: NDArray[Any] = np.frombuffer(walk.producer_column(), np.int32)
        self.definitions: NDArray[Any] = np.frombuffer(walk.definition_column(), np.int32)
        self.defining_scopes: NDArray[Any] = np.frombuffer(walk.scope_column(), np.int32)
        self.described_outputs: NDArray[Any] = np.frombuffer(walk.described_column(), np.int32)
        self.output_meanings = np.frombuffer(walk.output_meanings, np.uint8)
        self.value_info_meanings = np.frombuffer(walk.value_info_meanings, np.uint8)
        self.function_output_meanings = np.frombuffer(walk.function_output_meanings, np.uint8)
        self.node_output_flags = np.frombuffer(walk.node_output_flags, np.uint8)
        self.all_node_output_flags = int(np.bitwise_or.reduce(self.node_output_flags))
        self.graph_input_flags = np.frombuffer(walk.graph_input_flags, np.uint8)
        self.initializer_flags = np.frombuffer(walk.initializer_flags, np.uint8)
        self.sparse_initializer_flags = np.frombuffer(walk.sparse_initializer_flags, np.uint8)
        kinds = np.full(graphs.n + 1, NESTED, np.uint8)
        self.graph_kind = kinds[:-1]
        self.graph_kind[main_graphs] = MAIN
        self.graph_kind[algorithms] = ALGORITHM
        self.graph_kind[initializations] = INITIALIZATION
        self.is_main, self.is_algorithm, self.is_nested = kinds == MAIN, kinds == ALGORITHM, kinds == NESTED
        self.is_nested[-1] = False
        # A nested graph is in the function of the node that contains it, or of the parameter whose default it is. Outer
        # graphs are processed before inner ones, in one pass for each of the few levels of nesting.
        self.graph_function = np.full(graphs.n, -1, np.int32)
        if "FunctionProto" in facts.present:
            self.node_function = nodes.parent_under("FunctionProto.node")
            self.node_graph = nodes.parent_under("GraphProto.node")
        else:
            self.node_function, self.node_graph = np.full(nodes.n, -1, np.int32), nodes.parent
        self.owner = np.full(graphs.n, -1, np.int32)
        if "AttributeProto.g" in facts.present or "AttributeProto.graphs" in facts.present:
            nested = true_rows(graphs.under("AttributeProto.g", "AttributeProto.graphs"))
            parent_attributes = graphs.parent[nested]
            in_node = attributes.under("NodeProto.attribute")[parent_attributes]
            self.owner[nested[in_node]] = attributes.parent[parent_attributes[in_node]]
            in_default = attributes.under("FunctionProto.attribute_proto")[parent_attributes]
            self.graph_function[nested[in_default]] = attributes.parent[parent_attributes[in_default]]
            for depth in unique(graphs.depth[nested]).tolist():
                graphs_at_depth = nested[graphs.depth[nested] == depth]
                in_nodes = graphs_at_depth[self.owner[graphs_at_depth] >= 0]
                self.graph_function[in_nodes] = self.node_function[self.owner[in_nodes]]
                is_at_depth = np.zeros(graphs.n + 1, bool)
                is_at_depth[graphs_at_depth] = True
                rows = true_rows(is_at_depth[self.node_graph])
                self.node_function[rows] = self.graph_function[self.node_graph[rows]]

    def has_use(self, meaning: int) -> bool:
        """Return whether any element of NodeProto.input has a meaning."""
        return meaning in self._uses
