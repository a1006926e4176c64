"""A model as one flat graph: vertices with structural labels, and the edges from producers to consumers.

Nodes of all graphs and functions are vertices, and so are inputs, initializers and outputs of graphs. An output of a
nested graph is a source of the node that contains the graph, so the content of a nested graph belongs to that node.
Names resolve by the rules of `index/names`.
"""

from __future__ import annotations

from array import array

from onnxwire.engine.nesting_limit import MAX_DEPTH, too_deep
from onnxwire.engine.scan import strings_of
from onnxwire.index.names import definitions_of
from onnxwire.messages import GraphProto, SparseTensorProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from typing import Any

    from onnxwire.messages import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto

    Scope = GraphProto | FunctionProto
    Place = tuple[int, int]
    """A vertex, and the index of one of its outputs."""
    Edge = tuple[int, int, int]
    """The source vertex, the index of its output, and the slot of the consumer."""

NODE, INPUT, INITIALIZER, OUTPUT = range(4)
ABSENT = -1  # the source of an omitted input, and of an undefined name
_NOT_IN_LABELS = {"name", "g", "graphs"}
_MAX_NESTED_GRAPHS = MAX_DEPTH // 3  # nesting of graphs; each is a message in an attribute in a node


class Interner:
    """Numbers for hashable keys. Compared models share one instance, so that equal keys have equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def __call__(self, key: Hashable) -> int:
        """Return the number of a key."""
        return self._numbers.setdefault(key, len(self._numbers))


class FlatGraph:
    """The vertices and edges of a model.

    kinds: NODE, INPUT, INITIALIZER or OUTPUT, per vertex. labels: a number per vertex, equal for equal operators,
    attributes, types and payloads; operators: the same, ignoring attributes and payloads. scopes, rows: an index of
    `scope_paths` and `scope_messages`, and the row in the field of its kind, per vertex. names: the name of the node or
    value, per vertex; outputs: the names of the values that a vertex produces. has_notes: whether its message has
    fields that do not affect matching, such as doc_string. edges: four columns, of the consumers, the sources, the
    indexes of the sources' outputs, and the slots; in order for each consumer.
    A slot is the index of an input, or the negative number of a label for an output of a nested graph.
    """

    def __init__(self, model: ModelProto, intern: Interner, digest: Callable[[TensorProto], Hashable]) -> None:
        """digest: returns a key of a tensor's payload, equal for equal payloads."""
        self._intern = intern
        self._digest = digest
        self.kinds = bytearray()
        self.has_notes = bytearray()
        self.labels = array("i")
        self.operators = array("i")
        self.scopes = array("i")
        self.rows = array("i")
        self.names: list[str] = []
        self.outputs: list[Sequence[str]] = []
        self.edges = array("i"), array("i"), array("i"), array("i")
        self.scope_paths: list[str] = []
        self.scope_messages: list[Any] = []
        self._main: list[dict[str, Place]] = []  # the definitions of the main graph
        if model.HasField("graph"):
            self._add_scope(model.graph, "graph", (), [])
        for index, training in enumerate(model.training_info):
            path = f"training_info[{index}]"
            if training.HasField("initialization"):
                self._add_scope(training.initialization, f"{path}.initialization", ("initialization", index), [])
            if training.HasField("algorithm"):
                self._add_scope(training.algorithm, f"{path}.algorithm", ("algorithm", index), self._main)
        self._main = []
        for index, function in enumerate(model.functions):
            key = ("function", function.domain, function.name, function.overload)
            self._add_scope(function, f"functions[{index}]", key, [])

    def __len__(self) -> int:
        return len(self.labels)

    def path(self, vertex: int) -> str:
        """Return the path of a vertex's message."""
        field, row = self._field_of(vertex)
        return f"{self.scope_paths[self.scopes[vertex]]}.{field}[{row}]"

    def message(self, vertex: int) -> Any:
        """Return the message of a vertex; of an input or output of a function, its name."""
        field, row = self._field_of(vertex)
        return getattr(self.scope_messages[self.scopes[vertex]], field)[row]

    def value_name(self, place: Place) -> str:
        """Return the name of an output of a vertex, "" for ABSENT."""
        vertex, output = place
        return self.outputs[vertex][output] if vertex != ABSENT else ""

    def root_scopes(self) -> Iterator[tuple[str, tuple[str, Scope]]]:
        """Yield main graph, training graphs, functions: a key that does not depend on their order, path and message."""
        for path, message in zip(self.scope_paths, self.scope_messages, strict=True):
            if is_root(path):
                yield path, (path, message)
            elif not isinstance(message, GraphProto):
                overload = f":{message.overload}" if message.overload else ""
                yield f"{message.domain}.{message.name}{overload}", (path, message)

    def _field_of(self, vertex: int) -> tuple[str, int]:
        kind, row = self.kinds[vertex], self.rows[vertex]
        if kind != INITIALIZER:
            return ("node", "input", "", "output")[kind], row
        dense = len(self.scope_messages[self.scopes[vertex]].initializer)
        return ("initializer", row) if row < dense else ("sparse_initializer", row - dense)

    def _add_vertex(
        self, kind: int, operator: Hashable, label: Hashable, scope: int, row: int, name: str, outputs: Sequence[str]
    ) -> int:
        number = self._intern((kind, operator))
        self.kinds.append(kind)
        self.operators.append(number)
        self.labels.append(self._intern((number, label)))
        self.scopes.append(scope)
        self.rows.append(row)
        self.names.append(name)
        self.outputs.append(outputs)
        self.has_notes.append(False)
        return len(self.labels) - 1

    def _add_edge(self, consumer: int, place: Place, slot: int) -> None:
        consumers, sources, outputs, slots = self.edges
        consumers.append(consumer)
        sources.append(place[0])
        outputs.append(place[1])
        slots.append(slot)

    def _add_scope(
        self, scope: Scope, path: str, key: tuple[Hashable, ...], outer: list[dict[str, Place]]
    ) -> list[int]:
        """Add the vertices of a graph or function; returns the sources of its outputs.

        key: identifies a nested graph in its node, or a function. outer: the definitions of the enclosing graphs, the
        innermost last.
        """
        if len(outer) > _MAX_NESTED_GRAPHS:
            raise too_deep(scope)
        number = len(self.scope_paths)
        self.scope_paths.append(path)
        self.scope_messages.append(scope)
        input_names = _names(scope.input)
        tensors: list[Any] = []
        tensor_names: list[str] = []
        if isinstance(scope, GraphProto):
            tensors += [*scope.initializer, *scope.sparse_initializer]
            tensor_names += [_tensor_name(tensor) for tensor in tensors]
        nodes = list(scope.node)
        made = list(strings_of(nodes, "output"))
        inputs, initializers, producers = definitions_of(input_names, tensor_names, made)
        defined: dict[str, Place] = {}
        for row, name in enumerate(input_names):
            operator: Hashable = (key, row)
            if not key and isinstance(scope, GraphProto):
                operator = "type", scope.input[row].type.SerializeToString(deterministic=True)
            vertex = self._add_vertex(INPUT, operator, None, number, row, name, (name,))
            if inputs.get(name) == row:
                defined[name] = vertex, 0
        for row, (tensor, name) in enumerate(zip(tensors, tensor_names, strict=True)):
            values = tensor.values if isinstance(tensor, SparseTensorProto) else tensor
            operator = (type(tensor).__name__, values.data_type, tuple(tensor.dims))
            label = self._tensor_key(tensor)
            vertex = self._add_vertex(INITIALIZER, operator, label, number, row, name, (name,))
            self.has_notes[vertex] = bool(values.doc_string or values.metadata_props)
            if initializers.get(name) == row:
                defined[name] = vertex, 0
        first = len(self.labels)
        for row, (node, outputs) in enumerate(zip(nodes, made, strict=True)):
            domain = node.domain
            operator = (domain if domain != "ai.onnx" else "", node.op_type, node.overload)
            label = self._attributes_key(node) if node.attribute else ()
            vertex = self._add_vertex(NODE, operator, label, number, row, node.name, outputs)
            self.has_notes[vertex] = bool(node.doc_string or node.metadata_props or node.device_configurations)
            for output, name in enumerate(outputs):
                if name and name not in defined and producers.get(name) == row:
                    defined[name] = vertex, output
        definers = [*outer, defined]
        if not key:
            self._main = definers
        for row, (node, names) in enumerate(zip(nodes, strings_of(nodes, "input"), strict=True)):
            for slot, name in enumerate(names):
                self._add_edge(first + row, defined.get(name) or _resolve(name, definers), slot)
            if node.attribute:
                for index, attribute in enumerate(node.attribute):
                    if attribute.HasField("g") or attribute.graphs:
                        here = f"{path}.node[{row}].attribute[{index}]"
                        self._add_graphs(attribute, here, definers, first + row)
        results = []
        for row, name in enumerate(_names(scope.output)):
            vertex = self._add_vertex(OUTPUT, (key, row), None, number, row, name, ())
            self._add_edge(vertex, _resolve(name, definers), 0)
            results.append(vertex)
        return results

    def _add_graphs(self, attribute: AttributeProto, path: str, definers: list[dict[str, Place]], node: int) -> None:
        """Add the graphs of an attribute, and the edges from their outputs to the node."""
        graphs = [("g", attribute.g)] if attribute.HasField("g") else []
        graphs += [(f"graphs[{i}]", graph) for i, graph in enumerate(attribute.graphs)]
        for field, graph in graphs:
            key = ("graph", attribute.name, field)
            for row, vertex in enumerate(self._add_scope(graph, f"{path}.{field}", key, definers)):
                self._add_edge(node, (vertex, 0), -1 - self._intern((key, row)))

    def _attributes_key(self, node: NodeProto) -> tuple[Hashable, ...]:
        """Return the attributes of a node without graphs, in a fixed order."""
        keys = [(attribute.name, self._attribute_key(attribute)) for attribute in node.attribute]
        keys.sort(key=lambda pair: pair[0])
        return tuple(keys)

    def _attribute_key(self, attribute: AttributeProto) -> Hashable:
        values: list[Hashable] = []
        for field, value in attribute.ListFields():
            if field.name in _NOT_IN_LABELS:
                continue
            if field.name == "f":
                values.append(("f", array("f", [value]).tobytes()))  # a NaN is equal to itself, and 0 differs from -0
            elif field.name in ("floats", "ints"):
                values.append((field.name, bytes(memoryview(value))))
            elif field.message_type is None:
                values.append((field.name, tuple(value) if field.is_repeated else value))
            elif field.is_repeated:
                values.append((field.name, *(self._message_key(one) for one in value)))
            else:
                values.append((field.name, self._message_key(value)))
        return tuple(values)

    def _message_key(self, message: Any) -> Hashable:
        if hasattr(message, "data_type") or isinstance(message, SparseTensorProto):
            return self._tensor_key(message)
        return bytes(message.SerializeToString(deterministic=True))

    def _tensor_key(self, tensor: Any) -> Hashable:
        if isinstance(tensor, SparseTensorProto):
            return tuple(tensor.dims), self._tensor_key(tensor.values), self._tensor_key(tensor.indices)
        return tensor.data_type, tuple(tensor.dims), self._digest(tensor)


def is_root(path: str) -> bool:
    """Return whether a path of a graph is that of the main graph or of a training graph."""
    return path == "graph" or (path.startswith("training_info[") and path.count(".") == 1)


def _names(values: Iterable[Any]) -> list[str]:
    """Return the names of inputs or outputs, which are messages in a graph and strings in a function."""
    return [value if isinstance(value, str) else value.name for value in values]


def _tensor_name(tensor: TensorProto | SparseTensorProto) -> str:
    return tensor.values.name if isinstance(tensor, SparseTensorProto) else tensor.name


def _resolve(name: str, definers: list[dict[str, Place]]) -> Place:
    if name:
        for defined in reversed(definers):
            if name in defined:
                return defined[name]
    return ABSENT, 0
