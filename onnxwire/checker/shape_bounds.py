"""Computes lower bounds of the sizes of values and of the iteration counts of loops, without running the model.

The nodes of a graph are evaluated in their order. Sizes that do not depend on data are computed with integers of any
size; constants of a few elements are folded. Up to _MAX_BODY_RUNS successive iterations of a loop are evaluated, and
functions with the arguments of their calls, until the budget of the model is exhausted. The budget grows with the
number of nodes and values in the model.

A buffer is memory that the kernel of an operator allocates besides its outputs. A summed output is an output of
_SIZING_OPERATORS that has many elements, and a size that does not depend on an input of the graph.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.constant_inputs import ARGUMENT, INSPECTORS, integers_of
from onnxwire.checker.declared_types import DeclaredTypes
from onnxwire.checker.facts import EMPTY, repeats, true_rows
from onnxwire.checker.function_calls import MAIN, FunctionCalls
from onnxwire.checker.input_shapes import INPUT_SHAPES, find_misfit
from onnxwire.checker.kernel_sizes import (
    BUFFERS,
    INEXACT_SIZE_LIBRARY_OPERATORS,
    OPERATORS_OF_LIBRARIES,
    TEXT_OPERATORS,
)
from onnxwire.checker.known_results import KnownResults, Result
from onnxwire.checker.layout_operators import INEXACT_LAYOUTS, LAYOUT_OPERATORS
from onnxwire.checker.network_inputs import NETWORK_INSPECTORS
from onnxwire.checker.node_call import NodeCall, Scope
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.shape_operators import (
    EXACT_SHAPE_OPERATORS,
    EXACT_SIZE_OPERATORS,
    INEXACT_SIZE_OPERATORS,
    OPERATORS,
    RANDOM_OPERATORS,
    SIZE_INPUTS,
)
from onnxwire.checker.shape_values import OMITTED, UNKNOWN, UNKNOWN_CONSTANT, Value
from onnxwire.checker.small_constants import MAX_KNOWN_ELEMENTS, MAX_TENSOR_BYTES, SmallConstants
from onnxwire.tensor.dtypes import EXTERNAL

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from onnxwire.checker.facts import Facts
    from onnxwire.messages import TensorProto

# Maximum iteration count of a loop, alone and multiplied by the counts of the enclosing loops.
MAX_ITERATIONS = 10_000_000
MAX_TOTAL_FACTOR = 16  # limit of the sum of the elements of summed outputs, as multiple of max_elements
# The limit of the elements of a value whose size depends on an input's declared shape, as multiple of max_elements.
MAX_INPUT_DEPENDENT_FACTOR = 64
# A value that is computed from stored tensors may have this multiple of the elements of the largest one, even if that
# is more than the other limits.
MAX_STORED_FACTOR = 16
# A value of fewer elements than a threshold is accepted and not summed, unless its strings are too long, or it is empty
# and its other dims have a product of 2**63 or more. The threshold is max_elements / _MIN_COUNTED_DIVISOR, but at most
# _MIN_COUNTED_ELEMENTS.
_MIN_COUNTED_ELEMENTS, _MIN_COUNTED_DIVISOR = 1 << 20, 128
_MAX_BODY_RUNS = 64  # maximum number of successive iterations of a loop that are evaluated
_MAX_CALL_DEPTH = 48  # maximum number of nested calls that are evaluated
_N_UNKNOWN_ARGUMENTS = 64  # number of unknown arguments of a graph of an operator that is not evaluated
# The budget of evaluated nodes and values: the number of those in the model, times the factor, plus the minimum.
_BUDGET_FACTOR, _MIN_BUDGET = 1, 20_000
_STRING = 8  # TensorProto.STRING
_MAX_EXPONENT = 63  # extrapolated dims of 2**63 and more are replaced by 2**63
# The evaluated operators except If, Loop and Scan; the operators whose computed size may be less than the actual one.
_ALL_OPERATORS: dict[str, Any] = OPERATORS | LAYOUT_OPERATORS | OPERATORS_OF_LIBRARIES
_ALL_INEXACT = INEXACT_SIZE_OPERATORS | frozenset((*INEXACT_SIZE_LIBRARY_OPERATORS, *INEXACT_LAYOUTS))
# Operators whose inputs may be sequences, or are not tested for that.
_SEQUENCE_OPERATORS = frozenset(
    ("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceConstruct", "SequenceMap")
    + ("ConcatFromSequence", "Identity", "If", "Loop", "Scan", "SplitToSequence")
    + ("Optional", "OptionalHasElement", "OptionalGetElement")
)
# Operators whose output has a size that constants can determine.
_SIZING_OPERATORS = frozenset(
    ("ConstantOfShape", "Expand", "Tile", "Range", "OneHot", "RandomNormal", "RandomUniform", "Pad", "Resize")
)
# By operator: the indices of the inputs whose elements determine the shape of the output. If the elements are unknown,
# the computed shape is a lower bound.
_SHAPE_INPUTS = SIZE_INPUTS | {"Pad": (1, 3), "Reshape": (1,), "Squeeze": (1,)}


class ShapeBounds:
    """The findings about sizes and loops. `facts.derive(ShapeBounds)` returns the object.

    elements: for nodes with an output or a buffer that is too large, the lower bound of its element count. overflows:
    the nodes with an output or a buffer whose nonzero dims have a product of at least 2**63, and a lower bound of the
    product. texts: for nodes whose strings are too long, the estimated sum of their bytes. endless_loops: the nodes of
    loops whose condition is always true, and whose trip count is absent or above MAX_ITERATIONS, and a text about the
    number of iterations.
    unbounded_loops: the nodes of other loops with such a trip count, which end only by their condition.
    iterations: the number of iterations of other loops that run too often, multiplied by that of enclosing loops.
    hidden_sizes: nodes with a size that depends on constants only but is not computed, for example because operators
    that are not evaluated produce it, and the index of the input that contains the size. faults: by kind (see
    constant_inputs.py) and row of the node, a text about the fault. contradicted_shapes: for each ValueInfoProto that
    declares another shape than the exactly known one of its value, the first eight dims of the latter.
    total: the first node at which the sum of the elements of summed outputs exceeds the limit, and the sum; or None.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.max_elements = facts.max_elements
        self._min_counted_elements = min(_MIN_COUNTED_ELEMENTS, max(facts.max_elements // _MIN_COUNTED_DIVISOR, 1))
        self.constants = constants = SmallConstants(facts)
        self.elements: dict[int, int] = {}
        self.overflows: dict[int, int] = {}
        self.texts: dict[int, int] = {}
        self.endless_loops: dict[int, str] = {}
        self.unbounded_loops: list[int] = []
        self.iterations: dict[int, int] = {}
        self.faults: dict[str, dict[int, str]] = {}
        self.hidden_sizes: dict[int, int] = {}
        self.total: tuple[int, int] | None = None
        self._total = 0  # the sum of the elements of the summed outputs so far
        self.results_cache = KnownResults()
        self.budget = 0  # the remaining number of nodes and values that may be evaluated
        # For each fault of the node that is being evaluated, the dict of this object that contains it, and the fault.
        self._recorded_faults: list[tuple[dict[int, Any], Any]] = []
        self._op_types = constants.column("NodeProto", "op_type")
        self._first_inputs, self._n_inputs = constants.ranges("NodeProto", "input")
        self._first_outputs, self._n_outputs = constants.ranges("NodeProto", "output")
        self._first_nodes, self._n_nodes = constants.ranges("GraphProto", "node")
        self._inputs = constants.elements("NodeProto.input")
        self._outputs = constants.elements("NodeProto.output")
        self._function_fields = [constants.ranges("FunctionProto", field) for field in ("input", "node", "output")]
        # The function that each node calls, or -1.
        self._calls: list[int] | None = facts.derive(Calls).function.tolist() if facts.FunctionProto.n else None
        self._operators: dict[int, Any] = {}  # by string id of the operator, like the dicts below
        for name, operator in _ALL_OPERATORS.items():
            if (id := facts.find(name)) >= 0:
                self._operators[id] = operator
        inspectors = INSPECTORS | NETWORK_INSPECTORS
        self._inspectors = {id: inspect for name, inspect in inspectors.items() if (id := facts.find(name)) >= 0}
        operators_with_input_shapes = {id for name in INPUT_SHAPES if (id := facts.find(name)) >= 0}
        self._buffers = {id: size for name, size in BUFFERS.items() if (id := facts.find(name)) >= 0}
        for name, method in (("If", self._run_if), ("Loop", self._run_loop), ("Scan", self._run_scan)):
            if (id := facts.find(name)) >= 0:
                self._operators[id] = method
        # The string ids of operators whose nodes `_evaluate` handles.
        self._evaluated = {*self._operators, *self._inspectors, *self._buffers, *operators_with_input_shapes}
        self._random = {facts.find(name) for name in RANDOM_OPERATORS}
        self._constant = facts.find("Constant")
        self._body_starts, self._bodies, self._body_names = self._find_bodies()
        self.contradicted_shapes: dict[int, list[int | None]] = {}
        self._is_compared = bytearray(facts.GraphProto.n)  # whether `_compare_with_declared` was called for each graph
        self._depth = 0  # number of nested calls that are being evaluated
        self._trips = 1  # product of the iterations of the enclosing loops
        self._recursive: set[int] = set()  # see `FunctionCalls.recursive`
        # Names of sheets and lists.
        counted_names = ("NodeProto", "TensorProto", "ValueInfoProto", "FunctionProto.input", "FunctionProto.output")
        budget = sum(map(facts.count, counted_names)) * _BUDGET_FACTOR + _MIN_BUDGET
        if self._calls is not None:
            calls = facts.derive(FunctionCalls)
            self._recursive, self.budget = calls.recursive, budget
            for vertex in calls.order.tolist():  # vertex i + 1 is function i
                if vertex != MAIN:
                    self._run_with_unknown_arguments(vertex - 1)
        self.budget = budget
        graphs = facts.GraphProto
        outermost_graphs = true_rows(
            graphs.under("ModelProto.graph", "TrainingInfoProto.algorithm", "TrainingInfoProto.initialization")
            | (graphs.parent_field < 0)
        )
        for graph in outermost_graphs.tolist():
            self._run_graph(graph, Scope(None), [])

    def _find_bodies(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Return the graphs in attributes of nodes; of attributes of a node with equal names, only the first graph.

        Returns (starts, rows, names): rows[starts[i]:starts[i + 1]] are the rows of the graphs of node i, and
        names[starts[i]:starts[i + 1]] the ids of the attributes' names.
        """
        graphs, attributes = self.facts.GraphProto, self.facts.AttributeProto
        rows = true_rows(graphs.under("AttributeProto.g", "AttributeProto.graphs"))
        parent_attributes = graphs.parent[rows]
        is_in_node = attributes.under("NodeProto.attribute")[parent_attributes]
        rows, parent_attributes = rows[is_in_node], parent_attributes[is_in_node]
        nodes, names = attributes.parent[parent_attributes], attributes.name[parent_attributes]
        is_first = ~repeats(nodes, names)
        rows, nodes, names = rows[is_first], nodes[is_first], names[is_first]
        order = np.argsort(nodes, kind="stable")
        starts = np.searchsorted(nodes[order], np.arange(self.facts.NodeProto.n + 1, dtype=np.int32)).astype(np.int32)
        return starts.data, rows[order].astype(np.int32).data, names[order].data

    def bodies(self, node: int) -> dict[str, int]:
        """Return the rows of the graphs in attributes of a node by the name of the attribute."""
        positions = range(self._body_starts[node], self._body_starts[node + 1])
        return {self.facts.text(self._body_names[i]): self._bodies[i] for i in positions}

    def nodes_with_bodies(self, *op_types: str) -> Iterator[tuple[int, str]]:
        """Yield each node of some operators that has graphs in attributes, and the operator."""
        nodes = self.facts.NodeProto
        for op_type in op_types:
            has_bodies = np.diff(np.asarray(self._body_starts)) > 0
            for node in true_rows(has_bodies & (nodes.op_type == self.facts.find(op_type))).tolist():
                yield node, op_type

    # Values of names

    def value_of_tensor(self, tensor: TensorProto) -> Value:
        """Return the Value of a tensor in an attribute."""
        if tensor.data_location == EXTERNAL or tensor.ByteSize() > MAX_TENSOR_BYTES:
            return Value(tuple(tensor.dims))
        try:
            array = tensor.numpy()
        except Exception:  # a damaged tensor, which other rules report
            return Value(tuple(tensor.dims))
        is_number = array.dtype.kind in "iufb" and array.size <= MAX_KNOWN_ELEMENTS
        return Value(tuple(tensor.dims), array.reshape(-1).tolist() if is_number else None)

    def value_of_row(self, tensor: int) -> Value:
        """Return the Value of a row of TensorProto."""
        value = Value(self.constants.dims(tensor), self.constants.numbers(tensor))
        length = self.constants.column("TensorProto", "length")[tensor]
        is_external = self.constants.column("TensorProto", "data_location")[tensor] == EXTERNAL
        value.tensor = -1 if is_external else tensor
        value.is_constant = value.is_exact = True
        value.stored_elements = value.size if is_external else min(value.size, length * 4)  # at least 2 bits each
        if self.constants.column("TensorProto", "data_type")[tensor] == _STRING and value.size:
            value.text_bytes = int(self.facts.TensorProto.records("string_data")[3][tensor]) // value.size
        return value

    def _value_of_name(self, scope: Scope | None, name: int) -> Value:
        """Return the Value of a name in the innermost scope that has it; UNKNOWN if none does."""
        while scope is not None:
            value = scope.values.get(name)
            if value is None:
                if name in scope.tensors:
                    value = scope.values[name] = self.value_of_row(scope.tensors[name])
                elif name in scope.inputs:
                    value = scope.values[name] = self._declared(scope.inputs[name])
            if value is not None:
                return value
            scope = scope.parent
        return UNKNOWN

    def _declared(self, info: int) -> Value:
        """Return the Value that a row of ValueInfoProto declares."""
        dims = self.facts.derive(DeclaredTypes).dims(info)
        value = Value(None if dims is None else tuple(size for size, _ in dims), None, True)
        value.is_exact = True
        return value

    # Graphs and functions

    def _run_graph(self, graph: int, scope: Scope, arguments: list[Value]) -> list[Value]:
        """Evaluate a graph, with arguments for its first inputs, and return the Values of its outputs.

        Further inputs have the shapes that they declare.
        """
        names = self.constants.column("ValueInfoProto", "name")
        infos = self.graph_rows("ValueInfoProto", "GraphProto.input", graph)
        for i, info in enumerate(infos):
            if i < len(arguments):
                scope.values[names[info]] = arguments[i]
            else:
                scope.inputs[names[info]] = info
        initializers = self.graph_rows("TensorProto", "GraphProto.initializer", graph)
        tensor_names = self.constants.column("TensorProto", "name") if self.facts.TensorProto.n else []
        for row in initializers:
            scope.tensors[tensor_names[row]] = row
        for row in self.graph_rows("SparseTensorProto", "GraphProto.sparse_initializer", graph):
            values = self.constants.column("SparseTensorProto", "values")[row]
            if values >= 0:
                scope.values[tensor_names[values]] = UNKNOWN_CONSTANT
        outputs = self.graph_rows("ValueInfoProto", "GraphProto.output", graph)
        self.budget -= len(infos) + len(initializers) + len(outputs)
        start = self._first_nodes[graph]
        self._run_nodes(range(start, start + self._n_nodes[graph]), scope)
        if not self._is_compared[graph]:
            self._is_compared[graph] = True
            self._compare_with_declared(graph, scope, names)
        return [self._value_of_name(scope, names[info]) for info in outputs]

    def graph_rows(self, type_name: str, field: str, graph: int) -> Sequence[int]:
        """Return the rows of a field of a graph."""
        if field not in self.facts.present:
            return ()
        starts, rows = self.constants.grouped(field, type_name)
        return rows[starts[graph] : starts[graph + 1]]

    def _compare_with_declared(self, graph: int, scope: Scope, names: Sequence[int]) -> None:
        """Record each value of a graph whose declared shape contradicts its exactly known shape.

        names: the column ValueInfoProto.name.
        """
        for field in ("GraphProto.output", "GraphProto.value_info"):
            for info in self.graph_rows("ValueInfoProto", field, graph):
                value, shape = scope.values.get(names[info]), None
                if value is not None and value.is_exact:
                    shape = value.shape
                declared = self._declared(info).shape if shape is not None else None
                if shape is None or declared is None:
                    continue
                if len(shape) != len(declared) or any(
                    None not in (dim, declared_dim) and dim != declared_dim
                    for dim, declared_dim in zip(shape, declared, strict=True)
                ):
                    self.contradicted_shapes.setdefault(info, list(shape[:8]))

    def _run_with_unknown_arguments(self, function: int) -> None:
        """Evaluate a function with unknown arguments, and cache the result for calls with such arguments.

        The result is not cached if a call in the function was not evaluated.
        """
        n_unevaluated_calls, total_before = self.results_cache.n_unevaluated_calls, self._total
        # An evaluation without arguments reads no elements of tensors that a call may pass.
        values = self._run_function(function, [], Scope(None))
        if n_unevaluated_calls == self.results_cache.n_unevaluated_calls:
            key = function, (0, b"")  # the `_call_key` of a call without attributes
            self.results_cache.add(key, Result(values, (), self._total - total_before))

    def _run_function(self, function: int, arguments: list[Value], scope: Scope) -> list[Value]:
        """Evaluate a function and return the Values of its outputs; a missing argument is unknown."""
        (first_input, n_inputs), (first_node, n_nodes), (first_output, n_outputs) = (
            (first_rows[function], counts[function]) for first_rows, counts in self._function_fields
        )
        names = self.constants.elements("FunctionProto.input") if n_inputs else ()
        for i in range(n_inputs):
            scope.values[names[first_input + i]] = arguments[i] if i < len(arguments) else UNKNOWN
        self.budget -= n_inputs + n_outputs
        self._run_nodes(range(first_node, first_node + n_nodes), scope)
        names = self.constants.elements("FunctionProto.output") if n_outputs else ()
        return [self._value_of_name(scope, name) for name in names[first_output : first_output + n_outputs]]

    def _run_nodes(self, nodes: range, scope: Scope) -> None:
        """Evaluate nodes in order, or reuse the results of equal ones, and store the Values of their outputs."""
        inputs, outputs, values, content_id = self._inputs, self._outputs, scope.values, self.results_cache.content_id
        self.budget -= len(nodes)
        for node in nodes:
            op_type = self._op_types[node]
            function = self._calls[node] if self._calls is not None else -1
            has_bodies = self._body_starts[node] < self._body_starts[node + 1]
            start = self._first_inputs[node]
            names = inputs[start : start + self._n_inputs[node]]
            arguments = [
                values.get(name) or self._value_of_name(scope, name) if name != EMPTY else OMITTED for name in names
            ]
            start = self._first_outputs[node]
            results = outputs[start : start + self._n_outputs[node]]
            if function < 0 and op_type not in self._evaluated:
                if has_bodies:
                    self._run_bodies(node, scope)
                elif self._is_constant(op_type, arguments):
                    values.update(dict.fromkeys(results, UNKNOWN_CONSTANT))
                continue
            key: Hashable = None
            if function < 0 and not has_bodies and EMPTY not in results:  # calls have their own key: see `_run_call`
                attributes = self._attribute_key(node, scope)
                if attributes is not None:
                    key = (
                        op_type,
                        len(results),
                        attributes,
                        *[value.content_id or content_id(value) for value in arguments],
                    )
            result = self.results_cache.get(key) if key is not None else None
            if result is None:
                n_element_reads = self.results_cache.n_element_reads
                call = NodeCall(self, scope, node, self.facts.text(op_type), arguments)
                is_constant = not has_bodies and self._is_constant(op_type, arguments)
                result = self._evaluate(call, op_type, function, results, is_constant)
                # A node with the same key may have other tensors as inputs, whose elements differ.
                if (
                    key is not None
                    and n_element_reads == self.results_cache.n_element_reads
                    and not (arguments and _has_tensor(result.values))
                ):
                    self.results_cache.add(key, result)
            else:
                for faults_of_kind, fault in result.faults:
                    faults_of_kind.setdefault(node, fault)
                self._add_total(node, result.total)
            for name, value in zip(results, result.values, strict=False):
                if value is not None:
                    values[name] = value

    def _is_constant(self, op_type: int, arguments: list[Value]) -> bool:
        """Return whether the outputs of a node without graphs depend on constants only."""
        if op_type in self._random:
            return False
        for value in arguments:
            if not value.is_constant and value is not OMITTED:
                return op_type == self._constant
        return bool(arguments) or op_type == self._constant

    def _attribute_key(self, node: int, scope: Scope) -> tuple[int, bytes] | None:
        """Return a key of the attributes of a node; nodes with equal keys have equal attributes.

        Returns None for long attributes, and for attributes in a function whose call has attributes.
        """
        key = self.constants.attribute_bytes(node)
        return key if not scope.attributes or key == (0, b"") else None

    def _evaluate(self, call: NodeCall, op_type: int, function: int, names: Sequence[int], is_constant: bool) -> Result:
        """Return the result of a node, and record its faults.

        op_type: the string id of the operator. function: the row of the called function, or -1. names: the string ids
        of the node's outputs.
        """
        self._recorded_faults = []
        total_before = self._total
        results: Any = None
        buffer_of = self._buffers.get(op_type)
        try:
            if function < 0:
                self._inspect(self._inspectors.get(op_type), call)
                if buffer_of is not None and (buffer := buffer_of(call)) is not None:
                    self._accept(call.node, call.op_type, buffer)
            results = self._run(self._operators.get(op_type), function, call)
        except (ArithmeticError, ValueError, TypeError, IndexError):
            results = None  # arguments that the operator does not accept; other rules report them
        values: list[Value | None] = [UNKNOWN_CONSTANT] * len(names) if is_constant else []
        if results is not None:
            values = self._outputs_of(
                call, function, names, results if isinstance(results, list) else [results], is_constant
            )
        return Result(values, self._recorded_faults, self._total - total_before)

    def _record_fault(self, faults: dict[int, Any], node: int, fault: Any) -> None:
        """Record a fault of a node in `faults`, a dict of this object, unless it contains one of the node."""
        faults.setdefault(node, fault)
        self._recorded_faults.append((faults, fault))

    def _inspect(self, inspector: Any, call: NodeCall) -> None:
        """Record the faults of a node, and an unknown size that is computed from constants."""
        for kind, fault in inspector(call) if inspector is not None else ():
            self._record_fault(self.faults.setdefault(kind, {}), call.node, fault)
        if call.op_type in INPUT_SHAPES and (fault := find_misfit(call)):
            self._record_fault(self.faults.setdefault(ARGUMENT, {}), call.node, fault)
        for position in SIZE_INPUTS.get(call.op_type, ()):
            size = call.value(position)
            if size is not None and size is not OMITTED and size.is_constant and size.data is None:
                self._record_fault(self.hidden_sizes, call.node, position)
        if call.op_type in OPERATORS and call.op_type not in _SEQUENCE_OPERATORS:
            for value in call.inputs:
                if value.sequence is not None:
                    self._record_fault(
                        self.faults.setdefault(ARGUMENT, {}), call.node, "a sequence in place of a tensor"
                    )

    def _outputs_of(
        self, call: NodeCall, function: int, names: Sequence[int], results: list[Value], is_constant: bool
    ) -> list[Value | None]:
        """Return the Values of a node's outputs: None for omitted and unknown ones, UNKNOWN for those beyond limits.

        results: the Values that the operator or function returned; other parameters: see `_evaluate`.
        """
        if not names:
            return []
        stored_elements, is_lower_bound, is_certain = 0, False, True
        is_exact = function < 0 and call.op_type in EXACT_SHAPE_OPERATORS
        for value in call.inputs:
            stored_elements = value.stored_elements if value.stored_elements > stored_elements else stored_elements
            is_lower_bound |= value.is_lower_bound
            is_exact &= value.is_exact
            is_certain &= value is OMITTED or (value.shape is not None and None not in value.shape)
        is_lower_bound |= call.op_type not in EXACT_SIZE_OPERATORS and (function >= 0 or not is_certain)
        for index in _SHAPE_INPUTS.get(call.op_type, ()):
            shape_input = call.value(index)
            is_lower_bound |= shape_input is not None and shape_input is not OMITTED and shape_input.data is None
        if call.op_type == "Reshape" and min(integers_of(call, 1) or (0,)) > 0:
            is_lower_bound = False  # input 1 contains the shape
        values: list[Value | None] = []
        for name, result in zip(names, results, strict=False):
            if name == EMPTY or result is None or result is OMITTED:
                values.append(None)
                continue
            value = result.copy()  # an input or another node may have the same Value
            value.is_exact = is_exact
            value.stored_elements = max(value.stored_elements, stored_elements)
            value.is_constant |= is_constant
            value.is_lower_bound |= is_lower_bound or call.op_type in _ALL_INEXACT
            if call.op_type in TEXT_OPERATORS:
                value.text_bytes = max(value.text_bytes, self._text_bytes(call))
            values.append(value if self._accept(call.node, call.op_type, value) else UNKNOWN)
        return values

    def _text_bytes(self, call: NodeCall) -> int:
        """Return the estimated bytes of each string that a node produces: the greatest estimate of its inputs.

        For StringConcat, the sum of the estimates, of which unknown ones count as one byte.
        """
        estimates = [value.text_bytes for value in call.inputs]
        if call.op_type == "StringConcat":
            return sum(estimate or 1 for estimate in estimates)
        return max(estimates, default=0)

    def _run(self, operator: Any, function: int, call: NodeCall) -> Any:
        """Return the result of a node: a Value, a list of Values, or None.

        operator: the function of the node's operator, or None. function: the row of the called function, or -1.
        """
        if function >= 0:
            return self._run_call(function, call)
        if operator is not None:
            return operator(call)
        self._run_bodies(call.node, call.scope)
        return None

    def _run_bodies(self, node: int, scope: Scope) -> None:
        """Evaluate the graphs of a node with unknown arguments."""
        for i in range(self._body_starts[node], self._body_starts[node + 1]):
            if self._n_nodes[self._bodies[i]]:
                self._run_graph(self._bodies[i], Scope(scope), [UNKNOWN] * _N_UNKNOWN_ARGUMENTS)

    def _run_call(self, function: int, call: NodeCall) -> Sequence[Value | None] | None:
        """Return the Values of a call's outputs; None for a recursive function, or beyond the limits."""
        vertex = function + 1
        if vertex in self._recursive:
            return None  # no runtime accepts recursion
        cache = self.results_cache
        key = self._call_key(function, call)
        result = cache.get(key) if key is not None else None
        if result is not None:
            self._add_total(call.node, result.total)
            return result.values
        if self._depth >= _MAX_CALL_DEPTH or self.budget <= 0:
            cache.n_unevaluated_calls += 1
            return None
        scope = Scope(None)
        attribute_names = self.constants.attribute_rows(call.node)
        scope.attributes = {
            name: attribute for name in attribute_names if (attribute := call.attribute(name)) is not None
        }
        n_unevaluated_calls, n_element_reads, total_before = (
            cache.n_unevaluated_calls,
            cache.n_element_reads,
            self._total,
        )
        self._depth += 1
        try:
            values = self._run_function(function, call.inputs, scope)
        finally:
            self._depth -= 1
        if key is not None and (n_unevaluated_calls, n_element_reads) == (
            cache.n_unevaluated_calls,
            cache.n_element_reads,
        ):
            rows = {value.tensor for value in call.inputs}
            # An output that is a stored tensor of the arguments is another tensor in a call with other arguments.
            if all(value.tensor < 0 or value.tensor not in rows for value in values):
                cache.add(key, Result(values, (), self._total - total_before))
        return values

    def _call_key(self, function: int, call: NodeCall) -> Hashable:
        """Return the key of a call in the cache of results, without unknown arguments at the end.

        Returns None if the attributes have no key, and in a loop, since findings about nested loops depend on `_trips`.
        """
        attributes = self._attribute_key(call.node, call.scope)
        if attributes is None or self._trips > 1:
            return None
        content_ids = [self.results_cache.content_id(value) for value in call.inputs]
        unknown_id = self.results_cache.content_id(UNKNOWN)
        while content_ids and content_ids[-1] == unknown_id:
            content_ids.pop()
        return function, attributes, *content_ids

    def _accept(self, node: int, op_type: str, value: Value) -> bool:
        """Return whether a value is within the limits; record one that is too large, and count summed outputs."""
        size = value.size
        total_text_bytes = value.text_bytes * max(size, 1)
        if total_text_bytes > max(self.max_elements, value.stored_elements * MAX_STORED_FACTOR):
            self._record_fault(self.texts, node, total_text_bytes)
            return False
        if size < self._min_counted_elements:
            # An empty value has no elements, but programs multiply its other dims.
            if size or not value.shape or math.prod(dim or 1 for dim in value.shape) < 1 << 63:
                return True
            size = math.prod(dim or 1 for dim in value.shape)
        if size >= 1 << 63:
            self._record_fault(self.overflows, node, size)
            return False
        limit = self.max_elements * (MAX_INPUT_DEPENDENT_FACTOR if value.depends_on_input else 1)
        if size > limit and size > value.stored_elements * MAX_STORED_FACTOR:
            self._record_fault(self.elements, node, size)
            return False
        if op_type in _SIZING_OPERATORS and not value.depends_on_input:
            self._add_total(node, size)
        return True

    def _add_total(self, node: int, size: int) -> None:
        """Add the elements of summed outputs to the sum; record the first node at which it exceeds the limit."""
        self._total += size
        if size and self._total > self.max_elements * MAX_TOTAL_FACTOR and self.total is None:
            self.total = node, self._total

    # Control flow

    def _run_if(self, call: NodeCall) -> list[Value]:
        """Return the outputs of the branch that a known condition selects; otherwise the larger one of each pair.

        A pair is the outputs of both branches at one index. If the branch is unknown, returns no outputs unless there
        are two branches with equally many outputs, and records a fault for a pair of a tensor and a sequence.
        """
        bodies = self.bodies(call.node)
        results = [self._run_graph(graph, Scope(call.scope), []) for graph in bodies.values()]
        condition = call.value(0)
        if condition is not None and condition.data and len(condition.data) == 1:
            branch = "then_branch" if condition.data[0] else "else_branch"
            if branch in bodies:
                return results[list(bodies).index(branch)]
        if len(results) != 2 or len(results[0]) != len(results[1]):
            return []
        for left, right in zip(*results, strict=True):
            tensor = left if left.sequence is None else right  # without a shape, it may be a sequence, too
            if (left.sequence is None) != (right.sequence is None) and tensor.shape is not None:
                self._record_fault(
                    self.faults.setdefault(ARGUMENT, {}), call.node, "a tensor and a sequence as results"
                )
        pairs = zip(*results, strict=True)
        return [
            Value(
                (left if left.size >= right.size else right).shape,
                None,
                left.depends_on_input and right.depends_on_input,
            )
            for left, right in pairs
        ]

    def _run_loop(self, call: NodeCall) -> list[Value]:
        """Return the outputs of Loop, and record a loop that runs too often or without a limit."""
        body = self.bodies(call.node).get("body")
        if body is None:
            return []
        count, condition, *carried = (call.inputs + [OMITTED] * 2)[: max(len(call.inputs), 2)]
        trips = _trip_count(count)
        is_initially_true = condition is OMITTED or _is_known_true(condition)
        if trips == 0 or (condition.data and not condition.data[0]):
            return carried
        outer_trips = self._trips
        self._trips = outer_trips * min(trips or 1, 1 << 63)
        try:
            results, is_true, trips = self._repeat(body, call.scope, carried, trips, is_initially_true)
        finally:
            self._trips = outer_trips
        is_huge = count is OMITTED if trips is None else trips > MAX_ITERATIONS
        if is_huge and is_initially_true and is_true:
            self.endless_loops.setdefault(call.node, "without end" if trips is None else f"{trips:,} times")
        elif is_huge:
            self.unbounded_loops.append(call.node)
        elif trips is not None and outer_trips * trips > MAX_ITERATIONS and is_true:
            self.iterations.setdefault(call.node, outer_trips * trips)
        n = len(carried)
        scans = [self._stack(value, trips) for value in results[n + 1 :]]
        return [*results[1 : n + 1], *scans]

    def _repeat(
        self, body: int, scope: Scope, carried: list[Value], trips: int | None, is_initially_true: bool
    ) -> tuple[list[Value], bool, int | None]:
        """Evaluate iterations of a body; return the outputs of the last one, whether the loop always continues, and the
        trip count: the number of evaluated iterations if a condition that is known to be false ends the loop, else
        `trips`.

        If at least two but fewer than `trips` iterations are evaluated, carried outputs are extrapolated to `trips`.
        carried: the values that an iteration passes to the next one. trips: the trip count, or None.
        """
        n = len(carried)
        history = [carried]  # the values before the loop, and after each iteration
        results: list[Value] = []
        is_true = True
        runs = _MAX_BODY_RUNS if trips is None else min(trips, _MAX_BODY_RUNS)
        for i in range(runs):
            arguments = [Value((), [i]), Value((), [True] if is_initially_true else None), *carried]
            results = self._run_graph(body, Scope(scope), arguments)
            condition = results[0] if results else UNKNOWN
            is_true = is_true and _is_known_true(condition)
            next_values = (results[1 : n + 1] + [UNKNOWN] * n)[:n]
            is_steady = all(next_value.is_equal(value) for next_value, value in zip(next_values, carried, strict=True))
            carried = next_values
            history.append(carried)
            if condition.data and not condition.data[0]:
                return results, False, i + 1
            if is_steady or self.budget <= 0 or (not is_true and trips is None):
                break
        n_evaluated = len(history) - 1
        if trips is not None and trips > n_evaluated >= 2:
            n_further = trips - n_evaluated
            results[1 : n + 1] = [
                _extrapolate(first, before, last, n_further)
                for first, before, last in zip(history[-3], history[-2], history[-1], strict=True)
            ]
        if is_true and is_initially_true and self.budget > 0:
            # Counters advance by a constant step, so the condition after many iterations can be computed.
            arguments = [Value((), [MAX_ITERATIONS]), Value((), [True])]
            arguments += [_advance(*values) for values in zip(history[0], history[1], strict=True)]
            outputs = self._run_graph(body, Scope(scope), arguments)
            is_true = bool(outputs) and _is_known_true(outputs[0])
        return results, is_true, trips

    def _stack(self, value: Value, trips: int | None) -> Value:
        """Return the concatenation of an output of all iterations along a new first axis."""
        return Value((trips, *(value.shape or ())), None, value.depends_on_input)

    def _run_scan(self, call: NodeCall) -> list[Value]:
        """Return the outputs of Scan, and record a loop that runs too often."""
        body = self.bodies(call.node).get("body")
        n = call.int("num_scan_inputs", 0)
        if body is None or not 0 <= n <= len(call.inputs):
            return []
        states, scanned = call.inputs[: len(call.inputs) - n], call.inputs[len(call.inputs) - n :]
        lengths = [value.shape[0] for value in scanned if value.shape]
        trips = max((length for length in lengths if length is not None), default=None)
        outer_trips = self._trips
        self._trips = outer_trips * (trips or 1)
        if self._trips > MAX_ITERATIONS and trips is not None and trips > 1:
            self.iterations.setdefault(call.node, self._trips)
        slices = [Value(value.shape[1:] if value.shape else None, None, value.depends_on_input) for value in scanned]
        try:
            results = self._run_graph(body, Scope(call.scope), [*states, *slices])
        finally:
            self._trips = outer_trips
        return [*results[: len(states)], *(self._stack(value, trips) for value in results[len(states) :])]


def _is_known_true(condition: Value) -> bool:
    """Return whether the element of a condition is known, and true."""
    return bool((condition.data or [False])[0])


def _has_tensor(values: Sequence[Value | None]) -> bool:
    """Return whether one of the values is a stored tensor."""
    return any(value is not None and value.tensor >= 0 for value in values)


def _trip_count(value: Value) -> int | None:
    """Return a constant trip count; None if there is none or it is unknown."""
    if value.data is None or not value.data or not isinstance(value.data[0], int):
        return None
    return max(value.data[0], 0)


def _extrapolate(first: Value, before: Value, after: Value, n_further: int) -> Value:
    """Return a value after further iterations, which increase the sizes that the last iteration increased.

    first, before, after: the last three values, of which the first may be that before the loop.
    """
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        return Value(after.shape, None, after.depends_on_input)
    first_dims = first.shape if first.shape is not None and len(first.shape) == len(after.shape) else before.shape
    dims = [
        new if new is None or old is None or new <= old else _extrapolate_dim(first_dims[i], old, new, n_further)
        for i, (old, new) in enumerate(zip(before.shape, after.shape, strict=True))
    ]
    return Value(tuple(dims), None, after.depends_on_input)


def _extrapolate_dim(first: int | None, before: int, after: int, n_further: int) -> int:
    """Return a size after further iterations, at most 2**63.

    The size grows by the factor of the last iteration if its increments grow, otherwise by the last increment.
    """
    if first is not None and 0 < first < before and after - before > before - first:
        exponent = math.log2(after) + math.log2(after / before) * n_further
        return round(2**exponent) if exponent < _MAX_EXPONENT else 1 << 63
    return min(after + (after - before) * n_further, 1 << 63)


def _advance(before: Value, after: Value) -> Value:
    """Return a value after MAX_ITERATIONS iterations, as if each iteration changed the integers by the same step.

    before, after: the value before and after the first iteration.
    """
    if before.data is None or after.data is None or len(before.data) != len(after.data):
        return Value(after.shape)
    if not all(type(old) is int and type(new) is int for old, new in zip(before.data, after.data, strict=True)):
        return Value(after.shape, after.data if before.data == after.data else None)
    data = [old + (new - old) * MAX_ITERATIONS for old, new in zip(before.data, after.data, strict=True)]
    return Value(after.shape, data)
