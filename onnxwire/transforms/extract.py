"""Extracts a part of a model, between given values, as a separate model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from onnxwire.analysis.live_scopes import captured_names, definitions
from onnxwire.engine.search import Search
from onnxwire.errors import FieldTypeError, PathError, did_you_mean
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.repeated_span import RepeatedSpan
    from onnxwire.messages import SparseTensorProto

_T = TypeVar("_T")
_MAX_LISTED_NAMES = 5  # maximum number of names in a message


class UntypedValueWarning(UserWarning):
    """A model was cut at a value whose type it does not declare."""

    __module__ = "onnxwire"


def extract(model: ModelProto, inputs: Iterable[str] | None, outputs: Iterable[str]) -> ModelProto:
    """Make a model of the part that computes some values from others; it shares the model's bytes, weights included.

    model: the model, which is not changed. inputs: names of any values, which become inputs; None for the needed inputs
    of the model.
    outputs: names of the values to compute.
    The part has the needed nodes and initializers, including those that subgraphs need; the functions that are called,
    directly or not; value_info of its values; quantization_annotation of values in use, with the initializers that it
    names; and all other fields of the model except training_info, which describes the full model. Types of inputs and
    outputs are taken from value_info.
    Raises PathError for a name that no value has, and if the outputs can't be computed from the inputs; the message
    lists the missing values. Warns with UntypedValueWarning if the model does not declare the type of an input or
    output.
    """
    if not isinstance(model, ModelProto):
        raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    part = ModelProto()
    part.CopyFrom(model)
    cut(part, inputs, outputs, model._document.name)
    return part


def boundary(graph: GraphProto, nodes: Iterable[int]) -> tuple[list[str], list[str]]:
    """Return the values that enter and leave a set of nodes of a graph.

    nodes: indexes of nodes. Returns arguments for `extract`: the inputs, without initializers; and the outputs that
    other nodes or the graph use, or that nothing uses.
    """
    chosen = set(nodes)
    constants = {tensor.name for tensor in graph.initializer}
    constants.update(sparse.values.name for sparse in graph.sparse_initializer)
    inputs: dict[str, None] = {}
    made: dict[str, None] = {}
    inside: set[str] = set()
    outside = {value.name for value in graph.output}
    for index, node in enumerate(graph.node):
        taken = [name for name in (*node.input, *captured_names(node)) if name]
        if index in chosen:
            inputs.update(dict.fromkeys(taken))
            inside.update(taken)
            made.update((name, None) for name in node.output if name)
        else:
            outside.update(taken)
    given = [name for name in inputs if name not in made and name not in constants]
    return given, [name for name in made if name in outside or name not in inside]


def cut(model: ModelProto, inputs: Iterable[str] | None, outputs: Iterable[str], source: str = "") -> None:
    """Reduce a model in place to the part that computes some values from others. Arguments as for `extract`; source:
    the file's name for errors."""
    graph = model.graph
    wanted = _listed(outputs, "outputs")
    given = None if inputs is None else _listed(inputs, "inputs")
    plan = _Plan(graph, given, wanted, source or model._document.name)
    names = [value.name for value in graph.input if value.name in plan.used] if given is None else given
    untyped = _replace_values(graph, names, wanted, plan)
    keep_at(graph.node, sorted(plan.nodes))
    made = {name for node in graph.node for name in node.output} | plan.constants
    _rename_redefined(graph, set(names))
    keep_if(graph.initializer, lambda tensor: tensor.name in plan.constants)
    keep_if(graph.sparse_initializer, lambda s: s.values.name in plan.constants)
    ends = {*names, *wanted}
    keep_if(graph.value_info, lambda value: value.name in made and value.name not in ends)
    # Keep only annotations of used values, since only their parameters were kept.
    keep_if(graph.quantization_annotation, lambda annotation: annotation.tensor_name in plan.used)
    model.ClearField("training_info")
    called = _called_functions(model)
    keep_if(model.functions, lambda function: _call(function) in called)
    if untyped:
        shown = ", ".join(map(repr, untyped[:_MAX_LISTED_NAMES]))
        more = " and others" if len(untyped) > _MAX_LISTED_NAMES else ""
        warnings.warn(
            f"the model does not declare the type of {shown}{more}, which some runtimes need; "
            "run onnxwire.infer_shapes on the model first to add the types",
            UntypedValueWarning,
            stacklevel=3,
        )


def _listed(names: Iterable[str], what: str) -> list[str]:
    if isinstance(names, str):
        raise FieldTypeError(f"{what} is a list of names; write [{names!r}]")
    return list(dict.fromkeys(names))


def keep_if(elements: RepeatedSpan[_T], is_kept: Callable[[_T], bool]) -> None:
    """Remove the elements of a repeated field for which a function is false."""
    # A list of indexes takes a fraction of the memory of a list of views.
    keep_at(elements, [index for index, element in enumerate(elements) if is_kept(element)])


def keep_at(elements: RepeatedSpan[Any], indexes: list[int]) -> None:
    """Remove all elements of a repeated field except those at some indexes; no-op if all are kept."""
    if len(elements) != len(indexes):
        elements._arrange(indexes, len(elements))


def _rename_redefined(graph: GraphProto, given: set[str]) -> None:
    """Rename outputs of kept nodes that have the name of an input: a name may have one definition only."""
    taken: set[str] = set()
    tried: dict[str, int] = {}  # for each name, the number of the last suffix that was tried
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name in given:
                taken = taken or {other for kept in graph.node for other in (*kept.input, *kept.output)}
                new = f"{name}_unused"
                while new in taken:
                    tried[name] = tried.get(name, 1) + 1
                    new = f"{name}_unused_{tried[name]}"
                taken.add(new)
                node.output[index] = new


class _Plan:
    """The part of a graph that is needed. nodes: indexes; constants: names of initializers; used: all names in use."""

    def __init__(self, graph: GraphProto, given: list[str] | None, wanted: list[str], source: str) -> None:
        self.nodes: set[int] = set()
        self.constants: set[str] = set()
        self.used: set[str] = set()
        self._inputs, self._initializers, self._makers = definitions(graph)
        self._source = source
        for name in (*(given or ()), *wanted):
            if name not in self._makers and name not in self._inputs and name not in self._initializers:
                raise self._absent(name)
        parameters = {
            annotation.tensor_name: [entry.value for entry in annotation.quant_parameter_tensor_names]
            for annotation in graph.quantization_annotation
        }
        self._follow(graph, set(given or ()), given is None, wanted, parameters)

    def _follow(
        self, graph: GraphProto, given: set[str], may_use_own: bool, wanted: list[str], parameters: dict[str, list[str]]
    ) -> None:
        """Walk from the outputs back to the given values."""
        missing: dict[str, str] = {}
        waiting = [(name, "") for name in reversed(wanted)]
        while waiting:
            name, user = waiting.pop()
            if not name or name in self.used:
                continue
            self.used.add(name)
            waiting += [(other, user) for other in parameters.get(name, ()) if other in self._initializers]
            if name in given:
                continue
            # An initializer with the name of an input is the input's default value.
            if name in self._initializers:
                self.constants.add(name)
            elif name in self._makers:
                index = self._makers[name]
                if index not in self.nodes:
                    self.nodes.add(index)
                    node = graph.node[index]
                    user = node.name or node.op_type
                    waiting += [(other, user) for other in (*node.input, *captured_names(node))]
            elif not (may_use_own and name in self._inputs):
                missing[name] = user
        if missing:
            raise self._incomputable(missing)

    def _absent(self, name: str) -> PathError:
        hint = did_you_mean(name, (*self._inputs, *self._makers, *self._initializers))
        return PathError(f"there is no value called {name!r} in the main graph{hint}", "", self._source)

    def _incomputable(self, missing: dict[str, str]) -> PathError:
        listed = list(missing.items())[:_MAX_LISTED_NAMES]
        shown = [f"{name!r}{f' (of {user})' if user else ''}" for name, user in listed]
        more = f" and {len(missing) - len(listed):,} more" if len(missing) > len(listed) else ""
        return PathError(
            f"the outputs can't be computed from these inputs alone: they also need {', '.join(shown)}{more}; "
            "add these to the inputs, or values between them and the outputs",
            "",
            self._source,
        )


def _replace_values(graph: GraphProto, inputs: list[str], outputs: list[str], plan: _Plan) -> list[str]:
    """Replace the inputs and outputs of a graph; returns the names whose types are unknown."""
    ends = {*inputs, *outputs}
    types: dict[str, ValueInfoProto] = {}
    for known in (graph.value_info, graph.output, graph.input):
        types.update({value.name: value for value in known if value.name in ends and value.HasField("type")})
    for name, dims, tensor in _constants(graph):
        if name in ends and name not in types:
            types[name] = _typed(name, tensor, list(dims))
    # Inputs whose default value is used stay inputs; initializers that the caller names become inputs without default.
    own_defaults = [value for value in graph.input if value.name in plan.constants and value.name not in ends]
    new_inputs = [*(types.get(name) or ValueInfoProto(name=name) for name in inputs), *own_defaults]
    new_outputs = [types.get(name) or ValueInfoProto(name=name) for name in outputs]
    for field, values in (("input", new_inputs), ("output", new_outputs)):
        graph.ClearField(field)  # type: ignore[arg-type]
        getattr(graph, field).extend(values)
    return [name for name in dict.fromkeys([*inputs, *outputs]) if name not in types]


def _constants(graph: GraphProto) -> Iterator[tuple[str, Iterable[int], TensorProto | SparseTensorProto]]:
    """Yield name, dims and message of each initializer."""
    for tensor in graph.initializer:
        yield tensor.name, tensor.dims, tensor
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, sparse.dims, sparse


def _typed(name: str, tensor: TensorProto | SparseTensorProto, dims: list[int]) -> ValueInfoProto:
    value = ValueInfoProto(name=name)
    is_dense = isinstance(tensor, TensorProto)
    kind = value.type.tensor_type if is_dense else value.type.sparse_tensor_type
    kind.elem_type = tensor.data_type if is_dense else tensor.values.data_type  # type: ignore[union-attr]
    kind.shape.SetInParent()
    for dim in dims:
        kind.shape.dim.add(dim_value=dim)
    return value


_Call = tuple[str, str, str]


def _call(message: NodeProto | FunctionProto) -> _Call:
    """Return the key of a function, or of the function that a node calls: domain, name and overload."""
    name = message.op_type if isinstance(message, NodeProto) else message.name
    return "" if message.domain == "ai.onnx" else message.domain, name, message.overload


def _called_functions(model: ModelProto) -> set[_Call]:
    """Return the functions that the main graph calls, directly or not."""
    functions = {_call(function): function for function in model.functions}
    called: set[_Call] = set()
    waiting: list[GraphProto | FunctionProto] = [model.graph] if functions else []
    while waiting:
        for _, node in Search(waiting.pop(), [NodeProto]):
            name = _call(node)
            if name in functions and name not in called:
                called.add(name)
                waiting.append(functions[name])
    return called
