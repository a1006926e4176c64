"""Extracts a part of a model, between given values, as a separate model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from onnxwire.analysis.live_scopes import captured_names, definitions, initializer_names
from onnxwire.engine.search import Search
from onnxwire.errors import FieldTypeError, PathError, did_you_mean
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.repeated_span import RepeatedSpan
    from onnxwire.messages import SparseTensorProto

_T = TypeVar("_T")
_MAX_LISTED_NAMES = 5  # maximum number of names in an error message or warning


class UntypedValueWarning(UserWarning):
    """A model was cut at a value whose type it does not declare."""

    __module__ = "onnxwire"


def extract(model: ModelProto, inputs: Iterable[str] | None, outputs: Iterable[str]) -> ModelProto:
    """Make a model of the part that computes some values from others. The new model shares the bytes of `model`.

    model: the model, which is not changed. inputs: names of any values, which become inputs; None for the needed inputs
    of the model.
    outputs: names of the values to compute.
    The new model has the needed nodes and initializers, including those that subgraphs need; the functions that are
    called, directly or not; value_info of its values; quantization_annotation of values in use, with the initializers
    that the annotations name; and all other fields of the model except training_info, which describes the full model.
    The types of inputs and outputs are those in inputs, outputs and value_info of the model, or of initializers.
    Raises PathError for a name that no value has, and if the outputs can't be computed from the inputs; the message
    lists the missing values. Raises FieldTypeError unless `model` is a ModelProto, and for a str in place of names.
    Warns with UntypedValueWarning if the model does not declare the type of an input or output.
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
    are used by other nodes, used as graph outputs, or not used at all.
    """
    node_indexes = set(nodes)
    inputs: dict[str, None] = {}
    produced_names: dict[str, None] = {}
    used_inside: set[str] = set()
    used_outside = {value.name for value in graph.output}
    for index, node in enumerate(graph.node):
        used_names = [name for name in (*node.input, *captured_names(node)) if name]
        if index in node_indexes:
            inputs.update(dict.fromkeys(used_names))
            used_inside.update(used_names)
            produced_names.update((name, None) for name in node.output if name)
        else:
            used_outside.update(used_names)
    inner_names = produced_names.keys() | initializer_names(graph)
    outer_inputs = [name for name in inputs if name not in inner_names]
    return outer_inputs, [name for name in produced_names if name in used_outside or name not in used_inside]


def cut(model: ModelProto, inputs: Iterable[str] | None, outputs: Iterable[str], source: str = "") -> None:
    """Reduce a model in place to the part that computes some values from others.

    inputs, outputs: as for `extract`. source: the file's name for errors, by default that of the model. Raises the
    errors of `extract`.
    """
    graph = model.graph
    output_names = _unique_names(outputs, "outputs")
    input_names = None if inputs is None else _unique_names(inputs, "inputs")
    plan = _Plan(graph, input_names, output_names, source or model._document.name)
    part_inputs = (
        [value.name for value in graph.input if value.name in plan.used_names] if input_names is None else input_names
    )
    untyped_names = _replace_inputs_and_outputs(graph, part_inputs, output_names, plan)
    keep_at(graph.node, sorted(plan.nodes))
    defined_names = {name for node in graph.node for name in node.output} | plan.constants
    _rename_redefined(graph, set(part_inputs))
    keep_if(graph.initializer, lambda tensor: tensor.name in plan.constants)
    keep_if(graph.sparse_initializer, lambda sparse: sparse.values.name in plan.constants)
    interface_names = {*part_inputs, *output_names}
    keep_if(graph.value_info, lambda value: value.name in defined_names and value.name not in interface_names)
    # Other annotations refer to initializers that are removed.
    keep_if(graph.quantization_annotation, lambda annotation: annotation.tensor_name in plan.used_names)
    model.ClearField("training_info")
    called_keys = _called_functions(model)
    keep_if(model.functions, lambda function: _call_key(function) in called_keys)
    if untyped_names:
        quoted_names = ", ".join(map(repr, untyped_names[:_MAX_LISTED_NAMES]))
        ending = " and others" if len(untyped_names) > _MAX_LISTED_NAMES else ""
        warnings.warn(
            f"the model does not declare the type of {quoted_names}{ending}, which some runtimes need; "
            "run onnxwire.infer_shapes on the model first to add the types",
            UntypedValueWarning,
            stacklevel=3,
        )


def _unique_names(names: Iterable[str], parameter: str) -> list[str]:
    """Return names without duplicates, in order. Raises FieldTypeError for a str, with the name of the parameter."""
    if isinstance(names, str):
        raise FieldTypeError(f"{parameter} is a list of names; write [{names!r}]")
    return list(dict.fromkeys(names))


def keep_if(elements: RepeatedSpan[_T], is_kept: Callable[[_T], bool]) -> None:
    """Remove the elements of a repeated field for which a function is false."""
    # A list of indexes takes a fraction of the memory of a list of views.
    keep_at(elements, [index for index, element in enumerate(elements) if is_kept(element)])


def keep_at(elements: RepeatedSpan[Any], indexes: list[int]) -> None:
    """Remove all elements of a repeated field except those at some indexes; no-op if all are kept."""
    if len(elements) != len(indexes):
        elements._arrange(indexes, len(elements))


def _rename_redefined(graph: GraphProto, input_names: set[str]) -> None:
    """Rename outputs of nodes that have the name of an input, because a name may have only one definition."""
    used_names: set[str] = set()
    last_suffixes: dict[str, int] = {}  # by old name: the number at the end of the latest new name
    for node in graph.node:
        for index, name in enumerate(node.output):
            if name in input_names:
                used_names = used_names or {
                    used_name for any_node in graph.node for used_name in (*any_node.input, *any_node.output)
                }
                new = f"{name}_unused"
                while new in used_names:
                    last_suffixes[name] = last_suffixes.get(name, 1) + 1
                    new = f"{name}_unused_{last_suffixes[name]}"
                used_names.add(new)
                node.output[index] = new


class _Plan:
    """The needed part of a graph. nodes: indexes; constants: names of initializers; used_names: all names in use.

    Raises the PathErrors of `extract`. input_names, output_names: the inputs and outputs of the part; input_names is
    None if any input of the model may be used. source: the name of the file for errors.
    """

    def __init__(self, graph: GraphProto, input_names: list[str] | None, output_names: list[str], source: str) -> None:
        self.nodes: set[int] = set()
        self.constants: set[str] = set()
        self.used_names: set[str] = set()
        self._inputs, self._initializers, self._producers = definitions(graph)
        self._source = source
        for name in (*(input_names or ()), *output_names):
            if name not in self._producers and name not in self._inputs and name not in self._initializers:
                raise self._absent_error(name)
        parameters = {
            annotation.tensor_name: [entry.value for entry in annotation.quant_parameter_tensor_names]
            for annotation in graph.quantization_annotation
        }
        self._follow(graph, set(input_names or ()), input_names is None, output_names, parameters)

    def _follow(
        self,
        graph: GraphProto,
        input_names: set[str],
        may_use_model_inputs: bool,
        output_names: list[str],
        parameters: dict[str, list[str]],
    ) -> None:
        """Walk from the outputs back to the inputs, and collect the nodes and names on the way.

        may_use_model_inputs: whether the walk may end at any input of the model. parameters: by name of a value, the
        names in its quantization annotation.
        """
        missing_names: dict[str, str] = {}
        pending = [(name, "") for name in reversed(output_names)]  # a value, and the node that reads it or ""
        while pending:
            name, user = pending.pop()
            if not name or name in self.used_names:
                continue
            self.used_names.add(name)
            pending += [(read_name, user) for read_name in parameters.get(name, ()) if read_name in self._initializers]
            if name in input_names:
                continue
            # An initializer with the name of an input is the input's default value.
            if name in self._initializers:
                self.constants.add(name)
            elif name in self._producers:
                index = self._producers[name]
                if index not in self.nodes:
                    self.nodes.add(index)
                    node = graph.node[index]
                    user = node.name or node.op_type
                    pending += [(read_name, user) for read_name in (*node.input, *captured_names(node))]
            elif not (may_use_model_inputs and name in self._inputs):
                missing_names[name] = user
        if missing_names:
            raise self._incomputable_error(missing_names, may_use_model_inputs)

    def _absent_error(self, name: str) -> PathError:
        """Return the error for a name that no value has."""
        hint = did_you_mean(name, (*self._inputs, *self._producers, *self._initializers))
        return PathError(f"there is no value called {name!r} in the main graph{hint}", "", self._source)

    def _incomputable_error(self, missing_names: dict[str, str], may_use_model_inputs: bool) -> PathError:
        """Return the error for values that are not computed. missing_names: by name, the node that reads it or ""."""
        shown_items = list(missing_names.items())[:_MAX_LISTED_NAMES]
        descriptions = [f"{name!r}{f' (read by {user})' if user else ''}" for name, user in shown_items]
        ending = f" and {len(missing_names) - len(shown_items):,} more" if len(missing_names) > len(shown_items) else ""
        reason = (
            "no node of the model computes"
            if may_use_model_inputs
            else "the outputs can't be computed from these inputs alone: they also need"
        )
        pronouns = ("it", "it") if len(missing_names) == 1 else ("these", "them")
        return PathError(
            f"{reason} {', '.join(descriptions)}{ending}; add {pronouns[0]} to the inputs, "
            f"or values between {pronouns[1]} and the outputs",
            "",
            self._source,
        )


def _replace_inputs_and_outputs(graph: GraphProto, inputs: list[str], outputs: list[str], plan: _Plan) -> list[str]:
    """Replace the inputs and outputs of a graph; return the names whose types are unknown."""
    interface_names = {*inputs, *outputs}
    types: dict[str, ValueInfoProto] = {}
    for declared_values in (graph.value_info, graph.output, graph.input):
        types |= {
            value.name: value for value in declared_values if value.name in interface_names and value.HasField("type")
        }
    for name, dims, tensor in _initializers(graph):
        if name in interface_names and name not in types:
            types[name] = _make_value_info(name, tensor, list(dims))
    # Inputs whose default value is used stay inputs. Initializers that the caller names become inputs without a
    # default.
    inputs_with_defaults = [
        value for value in graph.input if value.name in plan.constants and value.name not in interface_names
    ]
    new_inputs = [*(types.get(name) or ValueInfoProto(name=name) for name in inputs), *inputs_with_defaults]
    new_outputs = [types.get(name) or ValueInfoProto(name=name) for name in outputs]
    for field, values in (("input", new_inputs), ("output", new_outputs)):
        graph.ClearField(field)  # type: ignore[arg-type]
        getattr(graph, field).extend(values)
    return [name for name in dict.fromkeys([*inputs, *outputs]) if name not in types]


def _initializers(graph: GraphProto) -> Iterator[tuple[str, Iterable[int], TensorProto | SparseTensorProto]]:
    """Yield name, dims and message of each initializer."""
    for tensor in graph.initializer:
        yield tensor.name, tensor.dims, tensor
    for sparse in graph.sparse_initializer:
        yield sparse.values.name, sparse.dims, sparse


def _make_value_info(name: str, tensor: TensorProto | SparseTensorProto, dims: list[int]) -> ValueInfoProto:
    """Make the description of an initializer that becomes an input or output."""
    value = ValueInfoProto(name=name)
    is_dense = isinstance(tensor, TensorProto)
    kind = value.type.tensor_type if is_dense else value.type.sparse_tensor_type
    kind.elem_type = tensor.data_type if is_dense else tensor.values.data_type  # type: ignore[union-attr]
    kind.shape.SetInParent()
    for dim in dims:
        kind.shape.dim.add(dim_value=dim)
    return value


_CallKey = tuple[str, str, str]
"""The domain, name and overload of a function."""


def _call_key(message: NodeProto | FunctionProto) -> _CallKey:
    """Return the key of a function, or of the function that a node calls: domain, name and overload."""
    name = message.op_type if isinstance(message, NodeProto) else message.name
    return "" if message.domain == "ai.onnx" else message.domain, name, message.overload


def _called_functions(model: ModelProto) -> set[_CallKey]:
    """Return the keys of the functions that the main graph calls, directly or not."""
    functions = {_call_key(function): function for function in model.functions}
    called_keys: set[_CallKey] = set()
    pending: list[GraphProto | FunctionProto] = [model.graph] if functions else []
    while pending:
        for _, node in Search(pending.pop(), [NodeProto]):
            key = _call_key(node)
            if key in functions and key not in called_keys:
                called_keys.add(key)
                pending.append(functions[key])
    return called_keys
