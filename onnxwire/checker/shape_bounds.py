"""Computes lower bounds of the sizes of a model's values and of its loops' iterations, without running the model.

Each graph is walked once in the order of its nodes. Sizes that do not depend on data are computed with integers of any
size; constants of a few elements are folded. Bodies of loops are evaluated a few times, and functions with the
arguments of their calls, until the budget of the model is used up, which is proportional to its number of nodes.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from onnxwire.checker.constant_inputs import ARGUMENT, INSPECTORS
from onnxwire.checker.declared_types import DeclaredTypes
from onnxwire.checker.facts import EMPTY, true_rows
from onnxwire.checker.input_shapes import ROWS, misfit
from onnxwire.checker.kernel_sizes import BUFFERS, INEXACT_OF_LIBRARIES, OPERATORS_OF_LIBRARIES, TEXT_OPERATORS
from onnxwire.checker.network_inputs import NETWORK_INSPECTORS
from onnxwire.checker.rules.node import Calls
from onnxwire.checker.shape_operators import COMPARED, EXACT, INEXACT, OPERATORS, RANDOM, SIZE_INPUTS
from onnxwire.checker.shape_values import Value
from onnxwire.checker.small_constants import SmallConstants
from onnxwire.tensor.dtypes import EXTERNAL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnxwire.checker.facts import Facts
    from onnxwire.messages import AttributeProto, TensorProto

MAX_ITERATIONS = 10_000_000  # maximum product of the iterations of all loops around a node
MAX_TOTAL_FACTOR = 16  # limit of the elements of all constants together, as multiple of max_elements
MAX_GIVEN_FACTOR = 64  # limit of a value whose size depends on an input's declared shape, as multiple of max_elements
MAX_STORED_FACTOR = 16  # limit of a value derived from a stored weight, as multiple of the weight's elements
_MAX_BODY_RUNS = 64
_MAX_CALL_DEPTH = 48
_BUDGET_FACTOR, _MIN_BUDGET = 8, 20_000
_NO_VALUE = Value()
_STRING = 8  # TensorProto.STRING
_ALL_OPERATORS = OPERATORS | OPERATORS_OF_LIBRARIES
_ALL_INEXACT = INEXACT | frozenset(INEXACT_OF_LIBRARIES)
_MAX_HEAD_BYTES = 4096
_SEQUENCE_OPERATORS = frozenset(
    ("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceConstruct", "SequenceMap")
    + ("ConcatFromSequence", "Identity", "If", "Loop", "Scan", "SplitToSequence")
    + ("Optional", "OptionalHasElement", "OptionalGetElement")
)
_SIZING_OPERATORS = frozenset(
    ("ConstantOfShape", "Expand", "Tile", "Range", "OneHot", "RandomNormal", "RandomUniform", "Pad", "Resize")
)


class Scope:
    """The values of one graph or function by the id of their name. Rows of tensors and inputs are decoded on demand."""

    __slots__ = ("attributes", "inputs", "parent", "tensors", "values")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.values: dict[int, Value] = {}
        self.tensors: dict[int, int] = {}
        self.inputs: dict[int, int] = {}
        self.attributes: dict[str, AttributeProto] = parent.attributes if parent is not None else {}


class _Call:
    """A node and its inputs: the implementation of `Call` of shape_operators.py."""

    __slots__ = ("_attributes", "inputs", "node", "op_type", "owner", "scope")

    def __init__(self, owner: ShapeBounds, scope: Scope, node: int, op_type: str, inputs: list[Value]) -> None:
        self.owner = owner
        self.scope = scope
        self.node = node
        self.op_type = op_type
        self.inputs = inputs
        self._attributes: dict[str, AttributeProto] | None = None

    def attribute(self, name: str) -> AttributeProto | None:
        if self._attributes is None:
            self._attributes = self.owner.constants.attributes(self.node)
        found = self._attributes.get(name)
        return self.scope.attributes.get(found.ref_attr_name) if found is not None and found.ref_attr_name else found

    def value(self, index: int) -> Value | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, name: str, input: int | None = None) -> list[int] | None:
        """Return integers of an input, or of an attribute where the node has no such input."""
        if input is not None and input < len(self.inputs) and self.inputs[input] is not _NO_VALUE:
            data = self.inputs[input].data
            return None if data is None or not all(isinstance(number, int) for number in data) else data
        found = self.attribute(name)
        return list(found.ints)[:64] if found is not None and len(found.ints) else None

    def floats(self, name: str) -> list[float] | None:
        found = self.attribute(name)
        return list(found.floats)[:64] if found is not None and len(found.floats) else None

    def int(self, name: str, default: int) -> int:
        found = self.attribute(name)
        return found.i if found is not None and found.HasField("i") else default

    def text(self, name: str) -> str:
        found = self.attribute(name)
        return found.s.decode("utf-8", "replace") if found is not None else ""

    def extent(self, index: builtins.int) -> tuple[builtins.int, builtins.int] | None:
        """Return the least and the greatest number of an input that is a stored tensor of integers."""
        value = self.value(index)
        return None if value is None or value.tensor < 0 else self.owner.constants.extent(value.tensor)

    def count(self, name: str) -> builtins.int:
        """Return the number of elements of a list of integers or strings, 0 if it is absent."""
        row = self.owner.constants.attribute_rows(self.node).get(name)
        if row is None:
            return 0
        columns = ("ints", "strings")
        return max(builtins.int(self.owner.constants.column("AttributeProto", column)[row]) for column in columns)

    def head(self, index: builtins.int) -> bytes:
        """Return the first bytes of an input that is a stored tensor."""
        value = self.value(index)
        return b"" if value is None or value.tensor < 0 else self.owner.constants.head(value.tensor, _MAX_HEAD_BYTES)

    def constant(self) -> Value | None:
        """Return the value of the attributes of Constant, or the filler of ConstantOfShape."""
        for name in ("value", "value_ints", "value_int", "value_floats", "value_float"):
            found = self.attribute(name)
            if found is None:
                continue
            if name == "value" and found.HasField("t"):
                return self.owner.tensor_of(found.t)
            if name in ("value_ints", "value_floats"):
                numbers = list(found.ints if name == "value_ints" else found.floats)
                return Value((len(numbers),), numbers if len(numbers) <= 64 else None)
            return Value((), [found.i if name == "value_int" else found.f])
        rows = self.owner.constants.attribute_rows(self.node)
        row = rows.get("value")
        tensor = self.owner.constants.column("AttributeProto", "t")[row] if row is not None else -1
        if tensor >= 0:
            return self.owner.stored(tensor)
        found = self.attribute("value_string")
        if found is None:
            return None
        value = Value(())
        value.text = len(found.s)
        return value


class ShapeBounds:
    """The findings about sizes and loops, by `facts.derive(ShapeBounds)`.

    elements: for nodes with a too large output, the lower bound of its element count; overflows: the nodes whose bound
    is 2**63 or more; texts: for nodes with too long strings, the lower bound of their bytes. endless: nodes of loops
    that do not end; unbounded: loops that only a condition on data ends; iterations: the number of iterations of loops
    that take too many. hidden: nodes with a size that is computed from constants by operators that are not evaluated,
    and the index of that input. faults: per kind in constant_inputs.py, the text of the fault by the row of the node.
    bodies: for nodes with graphs in attributes, the rows of the graphs by the name of the attribute.
    total: the first node at which the sum of the constants' elements exceeds the limit, and the sum; or None.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.max_elements = facts.max_elements
        self.constants = constants = SmallConstants(facts)
        self.elements: dict[int, int] = {}
        self.overflows: dict[int, int] = {}
        self.texts: dict[int, int] = {}
        self.endless: dict[int, str] = {}
        self.unbounded: list[int] = []
        self.iterations: dict[int, int] = {}
        self.faults: dict[str, dict[int, str]] = {}
        self.hidden: dict[int, int] = {}
        self.total: tuple[int, int] | None = None
        self._total = 0
        nodes = facts.NodeProto
        self.budget = nodes.n * _BUDGET_FACTOR + _MIN_BUDGET
        self._op_types = constants.column("NodeProto", "op_type")
        self._first_inputs = constants.column("NodeProto", "first.input")
        self._n_inputs = constants.column("NodeProto", "input")
        self._first_outputs = constants.column("NodeProto", "first.output")
        self._n_outputs = constants.column("NodeProto", "output")
        self._inputs = constants.elements("NodeProto.input")
        self._outputs = constants.elements("NodeProto.output")
        self._calls: list[int] | None = facts.derive(Calls).function.tolist() if facts.FunctionProto.n else None
        self._operators: dict[int, Any] = {}
        for name, operator in _ALL_OPERATORS.items():
            if (id := facts.find(name)) >= 0:
                self._operators[id] = operator
        inspectors = INSPECTORS | NETWORK_INSPECTORS
        self._inspectors = {id: inspect for name, inspect in inspectors.items() if (id := facts.find(name)) >= 0}
        self._with_input_shapes = {id for name in ROWS if (id := facts.find(name)) >= 0}
        self._buffers = {id: size for name, size in BUFFERS.items() if (id := facts.find(name)) >= 0}
        for name, method in (("If", self._run_if), ("Loop", self._run_loop), ("Scan", self._run_scan)):
            if (id := facts.find(name)) >= 0:
                self._operators[id] = method
        self._random = {facts.find(name) for name in RANDOM}
        self._constant = facts.find("Constant")
        self.bodies = self._find_bodies()
        self.contradicted: dict[int, list[int | None]] = {}
        self._compared: set[int] = set()
        self._depth = 0
        self._trips = 1
        graphs = facts.GraphProto
        with_graph = true_rows(
            graphs.under("ModelProto.graph", "TrainingInfoProto.algorithm", "TrainingInfoProto.initialization")
            | (graphs.edge < 0)
        )
        for graph in with_graph.tolist():
            self._run_graph(graph, Scope(None), [])
        for function in range(facts.FunctionProto.n):
            self._run_function(function, [], Scope(None))

    def _find_bodies(self) -> dict[int, dict[str, int]]:
        """Return, for each node with graphs in attributes, the rows of the graphs by the name of the attribute."""
        graphs, attributes = self.facts.GraphProto, self.facts.AttributeProto
        bodies: dict[int, dict[str, int]] = {}
        for graph in true_rows(graphs.under("AttributeProto.g", "AttributeProto.graphs")).tolist():
            attribute = int(graphs.parent[graph])
            if attributes.edge[attribute] == self.facts.edges["NodeProto.attribute"]:
                name = self.facts.text(attributes.name[attribute])
                bodies.setdefault(int(attributes.parent[attribute]), {}).setdefault(name, graph)
        return bodies

    # Values of names

    def tensor_of(self, tensor: TensorProto) -> Value:
        """Return the Value of a tensor of an attribute."""
        if tensor.data_location == EXTERNAL or tensor.ByteSize() > 1024:
            return Value(tuple(tensor.dims))
        try:
            array = tensor.numpy()
        except Exception:  # a damaged tensor, which other rules report
            return Value(tuple(tensor.dims))
        is_number = array.dtype.kind in "iufb" and array.size <= 64
        return Value(tuple(tensor.dims), array.reshape(-1).tolist() if is_number else None)

    def stored(self, tensor: int) -> Value:
        """Return the Value of a row of TensorProto."""
        value = Value(self.constants.dims(tensor), self.constants.numbers(tensor))
        length = self.constants.column("TensorProto", "length")[tensor]
        is_external = self.constants.column("TensorProto", "data_location")[tensor] == EXTERNAL
        value.tensor = -1 if is_external else tensor
        value.is_fixed = value.is_exact = True
        value.stored = value.size if is_external else min(value.size, length * 4)
        if self.constants.column("TensorProto", "data_type")[tensor] == _STRING and value.size:
            value.text = length // value.size
        return value

    def _find(self, scope: Scope | None, name: int) -> Value:
        while scope is not None:
            value = scope.values.get(name)
            if value is None:
                if name in scope.tensors:
                    value = scope.values[name] = self.stored(scope.tensors[name])
                elif name in scope.inputs:
                    value = scope.values[name] = self._declared(scope.inputs[name])
            if value is not None:
                return value
            scope = scope.parent
        return Value()

    def _declared(self, info: int) -> Value:
        dims = self.facts.derive(DeclaredTypes).dims(info)
        value = Value(None if dims is None else tuple(size for size, _ in dims), None, True)
        value.is_exact = True
        return value

    # Graphs and functions

    def _children(self, type_name: str, field: str, row: int) -> range:
        start = self.constants.column(type_name, f"first.{field}")[row]
        return range(start, start + self.constants.column(type_name, field)[row])

    def _run_graph(self, graph: int, scope: Scope, arguments: list[Value]) -> list[Value]:
        """Evaluate a graph, with arguments for its first inputs, and return the Values of its outputs."""
        names = self.constants.column("ValueInfoProto", "name")
        for i, info in enumerate(self.graph_rows("ValueInfoProto", "GraphProto.input", graph)):
            if i < len(arguments):
                scope.values[names[info]] = arguments[i]
            else:
                scope.inputs[names[info]] = info
        tensors = self.constants.column("TensorProto", "name") if self.facts.TensorProto.n else []
        for row in self.graph_rows("TensorProto", "GraphProto.initializer", graph):
            scope.tensors[tensors[row]] = row
        for row in self.graph_rows("SparseTensorProto", "GraphProto.sparse_initializer", graph):
            values = self.constants.column("SparseTensorProto", "values")[row]
            if values >= 0:
                scope.values[tensors[values]] = value = Value()
                value.is_fixed = True
        self._run_nodes(self._children("GraphProto", "node", graph), scope)
        if graph not in self._compared:
            self._compared.add(graph)
            self._compare_with_declared(graph, scope, names)
        return [
            self._find(scope, names[info]) for info in self.graph_rows("ValueInfoProto", "GraphProto.output", graph)
        ]

    def graph_rows(self, type_name: str, field: str, graph: int) -> list[int]:
        """Return the rows of a field of a graph; rows of other fields of the type may be between them."""
        key = f"rows {field}"
        groups: dict[int, list[int]] | None = self.constants.groups.get(key)
        if groups is None:
            groups = self.constants.groups[key] = {}
            sheet = self.facts[type_name]
            rows = true_rows(sheet.under(field))
            for row, parent in zip(rows.tolist(), sheet.parent[rows].tolist(), strict=True):
                groups.setdefault(parent, []).append(row)
        return groups.get(graph, [])

    def _compare_with_declared(self, graph: int, scope: Scope, names: Sequence[int]) -> None:
        """Record the declared types of a graph's values that contradict the shapes that its nodes make."""
        for field in ("GraphProto.output", "GraphProto.value_info"):
            for info in self.graph_rows("ValueInfoProto", field, graph):
                value, shape = scope.values.get(names[info]), None
                if value is not None and value.is_exact:
                    shape = value.shape
                declared = self._declared(info).shape if shape is not None else None
                if shape is None or declared is None:
                    continue
                if len(shape) != len(declared) or any(
                    None not in (one, other) and one != other for one, other in zip(shape, declared, strict=True)
                ):
                    self.contradicted.setdefault(info, list(shape[:8]))

    def _run_function(self, function: int, arguments: list[Value], scope: Scope) -> list[Value]:
        start = self.constants.column("FunctionProto", "first.input")[function]
        names = self.constants.elements("FunctionProto.input")
        for i in range(self.constants.column("FunctionProto", "input")[function]):
            scope.values[names[start + i]] = arguments[i] if i < len(arguments) else Value()
        self._run_nodes(self._children("FunctionProto", "node", function), scope)
        start = self.constants.column("FunctionProto", "first.output")[function]
        names = self.constants.elements("FunctionProto.output")
        stop = start + self.constants.column("FunctionProto", "output")[function]
        return [self._find(scope, name) for name in names[start:stop]]

    def _run_nodes(self, nodes: range, scope: Scope) -> None:
        operators, inputs, outputs, values = self._operators, self._inputs, self._outputs, scope.values
        inspectors = self._inspectors
        self.budget -= len(nodes)
        for node in nodes:
            op_type = self._op_types[node]
            operator, inspector = operators.get(op_type), inspectors.get(op_type)
            function = self._calls[node] if self._calls is not None else -1
            start = self._first_inputs[node]
            names = inputs[start : start + self._n_inputs[node]]
            given = [values.get(name) or self._find(scope, name) if name != EMPTY else _NO_VALUE for name in names]
            is_fixed = op_type == self._constant or (
                bool(given) and all(value is _NO_VALUE or value.is_fixed for value in given)
            )
            if node in self.bodies or op_type in self._random:
                is_fixed = False
            start = self._first_outputs[node]
            results = outputs[start : start + self._n_outputs[node]]
            made: Any = None
            buffer = self._buffers.get(op_type)
            if (
                operator is not None
                or inspector is not None
                or buffer is not None
                or op_type in self._with_input_shapes
                or function >= 0
                or node in self.bodies
            ):
                call = _Call(self, scope, node, self.facts.text(op_type), given)
                try:
                    if function < 0:
                        self._inspect(inspector, call)
                        if buffer is not None and (size := buffer(call)) is not None:
                            self._accept(node, call.op_type, size)
                    made = self._run(operator, function, call)
                except (ArithmeticError, ValueError, TypeError, IndexError):
                    made = None  # arguments that the operator does not accept; other rules report them
                if made is not None:
                    self._add(call, function, results, made if isinstance(made, list) else [made], is_fixed)
            if made is None and is_fixed:
                for name in results:
                    values[name] = Value()
                    values[name].is_fixed = True

    def _inspect(self, inspector: Any, call: _Call) -> None:
        """Record the faults of a node, and a size that is computed from constants but not known."""
        for kind, fault in inspector(call) if inspector is not None else ():
            self.faults.setdefault(kind, {}).setdefault(call.node, fault)
        if call.op_type in ROWS and (fault := misfit(call)):
            self.faults.setdefault(ARGUMENT, {}).setdefault(call.node, fault)
        for position in SIZE_INPUTS.get(call.op_type, ()):
            size = call.value(position)
            if size is not None and size is not _NO_VALUE and size.is_fixed and size.data is None:
                self.hidden.setdefault(call.node, position)
        if call.op_type in OPERATORS and call.op_type not in _SEQUENCE_OPERATORS:
            for value in call.inputs:
                if value.sequence is not None:
                    self.faults.setdefault(ARGUMENT, {}).setdefault(call.node, "a sequence in place of a tensor")

    def _add(self, call: _Call, function: int, names: Sequence[int], made: list[Value], is_fixed: bool) -> None:
        """Set the values of a node's outputs."""
        stored = max((value.stored for value in call.inputs), default=0)
        is_bound = any(value.is_bound for value in call.inputs) or (
            call.op_type not in EXACT and (function >= 0 or not all(map(_is_exact, call.inputs)))
        )
        is_exact = function < 0 and call.op_type in COMPARED and all(value.is_exact for value in call.inputs)
        for name, value in zip(names, made, strict=False):
            if name == EMPTY or value is None or value is _NO_VALUE:
                continue
            value.is_exact = is_exact
            value.stored = max(value.stored, stored)
            value.is_fixed |= is_fixed
            value.is_bound |= is_bound or call.op_type in _ALL_INEXACT
            if call.op_type in TEXT_OPERATORS:
                value.text = max(value.text, self._text(call))
            call.scope.values[name] = value if self._accept(call.node, call.op_type, value) else Value()

    def _text(self, call: _Call) -> int:
        """Return a lower bound of the bytes of each string that a node makes."""
        texts = [value.text for value in call.inputs]
        return sum(text or 1 for text in texts) if call.op_type == "StringConcat" else max(texts, default=0)

    def _run(self, operator: Any, function: int, call: _Call) -> Any:
        if function >= 0:
            return self._run_call(function, call)
        if operator is not None:
            return operator(call)
        for graph in self.bodies.get(call.node, {}).values():
            self._run_graph(graph, Scope(call.scope), [Value()] * 64)
        return None

    def _run_call(self, function: int, call: _Call) -> list[Value] | None:
        if self._depth >= _MAX_CALL_DEPTH or self.budget <= 0:
            return None
        scope = Scope(None)
        names = self.constants.attribute_rows(call.node)
        scope.attributes = {name: found for name in names if (found := call.attribute(name)) is not None}
        self._depth += 1
        try:
            return self._run_function(function, call.inputs, scope)
        finally:
            self._depth -= 1

    def _accept(self, node: int, op_type: str, value: Value) -> bool:
        """Return whether a value is within the limits; record a value that is too large."""
        size = value.size
        if value.text and value.text * max(size, 1) > max(self.max_elements, value.stored * MAX_STORED_FACTOR):
            self.texts.setdefault(node, value.text * max(size, 1))
            return False
        if size < 1 << 20:
            return True
        if size >= 1 << 63:
            self.overflows.setdefault(node, size)
            return False
        limit = self.max_elements * (MAX_GIVEN_FACTOR if value.is_given else 1)
        if size > limit and size > value.stored * MAX_STORED_FACTOR:
            self.elements.setdefault(node, size)
            return False
        if op_type in _SIZING_OPERATORS and not value.is_given:
            self._total += size
            if self._total > self.max_elements * MAX_TOTAL_FACTOR and self.total is None:
                self.total = node, self._total
        return True

    # Control flow

    def _run_if(self, call: _Call) -> list[Value]:
        bodies = self.bodies.get(call.node, {})
        results = [self._run_graph(graph, Scope(call.scope), []) for graph in bodies.values()]
        condition = call.value(0)
        if condition is not None and condition.data and len(condition.data) == 1:
            chosen = "then_branch" if condition.data[0] else "else_branch"
            if chosen in bodies:
                return results[list(bodies).index(chosen)]
        if len(results) != 2 or len(results[0]) != len(results[1]):
            return []
        for left, right in zip(*results, strict=True):
            if (left.sequence is None) != (right.sequence is None) and None not in (left.shape or right.shape, 0):
                self.faults.setdefault(ARGUMENT, {}).setdefault(call.node, "a tensor and a sequence as results")
        pairs = zip(*results, strict=True)
        return [
            Value((left if left.size >= right.size else right).shape, None, left.is_given and right.is_given)
            for left, right in pairs
        ]

    def _run_loop(self, call: _Call) -> list[Value]:
        body = self.bodies.get(call.node, {}).get("body")
        if body is None:
            return []
        count, condition, *carried = (call.inputs + [_NO_VALUE] * 2)[: max(len(call.inputs), 2)]
        trips = _trip_count(count)
        starts_true = condition is _NO_VALUE or (condition.data is not None and bool((condition.data or [0])[0]))
        if trips == 0 or (condition.data and not condition.data[0]):
            return carried
        outer = self._trips
        self._trips = outer * min(trips or 1, 1 << 63)
        try:
            results, is_true = self._repeat(body, call.scope, carried, trips, starts_true)
        finally:
            self._trips = outer
        is_huge = count is _NO_VALUE or (trips is not None and trips > MAX_ITERATIONS)
        if is_huge and starts_true and is_true:
            self.endless.setdefault(call.node, "without end" if trips is None else f"{trips:,} times")
        elif is_huge:
            self.unbounded.append(call.node)
        elif trips is not None and not is_huge and outer * trips > MAX_ITERATIONS and is_true:
            self.iterations.setdefault(call.node, outer * trips)
        n = len(carried)
        scans = [self._stacked(value, trips) for value in results[n + 1 :]]
        return [*results[1 : n + 1], *scans]

    def _repeat(
        self, body: int, scope: Scope, carried: list[Value], trips: int | None, starts_true: bool
    ) -> tuple[list[Value], bool]:
        """Evaluate a body several times; return its last outputs, and whether the loop always continues."""
        n = len(carried)
        history = [carried]
        results: list[Value] = []
        is_true = False
        runs = _MAX_BODY_RUNS if trips is None else min(trips, _MAX_BODY_RUNS)
        for i in range(runs):
            arguments = [Value((), [i]), Value((), [True] if starts_true else None), *carried]
            results = self._run_graph(body, Scope(scope), arguments)
            is_true = bool(results) and results[0].data is not None and bool((results[0].data or [0])[0])
            after = (results[1 : n + 1] + [Value()] * n)[:n]
            is_steady = all(one.same_as(other) for one, other in zip(after, carried, strict=True))
            carried = after
            history.append(carried)
            if is_steady or self.budget <= 0 or (not is_true and trips is None):
                break
        if trips is not None and trips > len(history) > 2:
            results[1 : n + 1] = [
                _extrapolated(*values, trips - len(history)) for values in zip(history[-2], history[-1], strict=True)
            ]
        if is_true and starts_true and self.budget > 0:
            # Counters advance by a constant step, so the condition after many iterations can be computed.
            arguments = [Value((), [MAX_ITERATIONS]), Value((), [True])]
            arguments += [_advanced(*values) for values in zip(history[0], history[1], strict=True)]
            outputs = self._run_graph(body, Scope(scope), arguments)
            is_true = bool(outputs) and outputs[0].data is not None and bool((outputs[0].data or [0])[0])
        return results, is_true

    def _stacked(self, value: Value, trips: int | None) -> Value:
        return Value((trips, *(value.shape or ())), None, value.is_given)

    def _run_scan(self, call: _Call) -> list[Value]:
        body = self.bodies.get(call.node, {}).get("body")
        n = call.int("num_scan_inputs", 0)
        if body is None or not 0 <= n <= len(call.inputs):
            return []
        states, scanned = call.inputs[: len(call.inputs) - n], call.inputs[len(call.inputs) - n :]
        lengths = [value.shape[0] for value in scanned if value.shape]
        trips = max((length for length in lengths if length is not None), default=None)
        outer = self._trips
        self._trips = outer * (trips or 1)
        if self._trips > MAX_ITERATIONS and trips is not None and trips > 1:
            self.iterations.setdefault(call.node, self._trips)
        slices = [Value(value.shape[1:] if value.shape else None, None, value.is_given) for value in scanned]
        try:
            results = self._run_graph(body, Scope(call.scope), [*states, *slices])
        finally:
            self._trips = outer
        return [*results[: len(states)], *(self._stacked(value, trips) for value in results[len(states) :])]


def _is_exact(value: Value) -> bool:
    return value is _NO_VALUE or (value.shape is not None and None not in value.shape)


def _trip_count(value: Value) -> int | None:
    """Return a constant trip count; None if there is none or it is unknown."""
    if value.data is None or not value.data or not isinstance(value.data[0], int):
        return None
    return max(value.data[0], 0)


def _extrapolated(before: Value, after: Value, more: int) -> Value:
    """Return a value after further iterations, if each adds what the last one added."""
    if before.shape is None or after.shape is None or len(before.shape) != len(after.shape):
        return Value(after.shape, None, after.is_given)
    dims = [
        new if new is None or old is None or new <= old else new + (new - old) * more
        for old, new in zip(before.shape, after.shape, strict=True)
    ]
    return Value(tuple(dims), None, after.is_given)


def _advanced(before: Value, after: Value) -> Value:
    """Return a counter after MAX_ITERATIONS iterations."""
    if before.data is None or after.data is None or len(before.data) != len(after.data):
        return Value(after.shape)
    if not all(type(old) is int and type(new) is int for old, new in zip(before.data, after.data, strict=True)):
        return Value(after.shape, after.data if before.data == after.data else None)
    data = [old + (new - old) * MAX_ITERATIONS for old, new in zip(before.data, after.data, strict=True)]
    return Value(after.shape, data)
