"""New names for values and nodes, wherever a name is used."""

from __future__ import annotations

from onnxwire._search import Search
from onnxwire.errors import EditError, PathError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onnxwire._message import Message
    from onnxwire._repeated import RepeatedSpan

    Scope = GraphProto | FunctionProto

_SHOWN = 3


def rename_values(model: ModelProto, names: Mapping[str, str]) -> int:
    """Give values new names: inputs, outputs, initializers, and what nodes make; returns how many places were changed.

    model: is changed. names: the new name by the old one; all are given at once, so two values can change names.
    A value is renamed where it comes from and wherever it is used: by nodes, by the graphs in their attributes and by
    training graphs, in value_info, quantization_annotation, sharding specs and training bindings. A name that the main
    graph does not have is looked for in graphs of attributes and in functions; it is renamed in each that has it.
    Raises PathError for a name that no value has, EditError for a new name that another value has already, or that is
    empty; the model is then as it was.
    """
    source = model._document.name
    scopes = list(_scopes(model))
    defined = [_defined(scope) for _, scope in scopes]
    known = set().union(*defined)
    chosen: list[tuple[int, dict[str, str]]] = []
    for old, new in names.items():
        if not old or old not in known:
            raise _not_found(model, old, known)
        if not new:
            reason = "it can't be renamed to nothing; an empty name stands for a value that is left out"
            raise EditError(reason, f"{source}: {old!r}")
    for place, own in enumerate(defined):
        # What the main graph has is meant there alone; other graphs have it from there.
        mapping = {o: n for o, n in names.items() if o in own and o != n and (place == 0 or o not in defined[0])}
        if mapping:
            _refuse_taken(source, place, [path for path, _ in scopes], defined, mapping)
            chosen.append((place, mapping))
    count = 0
    for place, mapping in chosen:
        path, scope = scopes[place]
        count += _rename_in(scope, mapping, is_own=True)
        count += _rename_bindings(model, path, mapping)
    return count


def rename_nodes(model: ModelProto, names: Mapping[str, str]) -> int:
    """Give nodes new names, in whichever graph or function they are; returns how many were renamed.

    model: is changed. names: the new name by the old one, for all at once. Nothing refers to a node by its name.
    Raises PathError for a name that no node has, or several in one graph have; EditError for one that another node of
    the graph has already; the model is then as it was.
    """
    found: dict[str, list[tuple[str, NodeProto]]] = {}
    taken: dict[tuple[str, str], str] = {}
    wanted = set(names.values())
    known: set[str] = set()
    for path, node in Search(model, [NodeProto]):
        name = node.name
        known.add(name)
        graph = path.rpartition(".")[0]
        if name in names:
            if any(other.rpartition(".")[0] == graph for other, _ in found.get(name, [])):
                places = [other for other, _ in found[name]] + [path]
                reason = (
                    f"several nodes are called {name!r}; set the name of one by its place: {', '.join(places[:_SHOWN])}"
                )
                raise PathError(reason, "", model._document.name)
            found.setdefault(name, []).append((path, node))
        elif name in wanted:
            taken[graph, name] = path
    for old, new in names.items():
        if not old or old not in found:
            raise _not_found(model, old, known, "node")
        for path, _ in found[old]:
            other = taken.get((path.rpartition(".")[0], new))
            if new and other is not None:
                reason = f"it is called {new!r} already; choose another name for {old!r}"
                raise EditError(reason, f"{model._document.name}: {other}")
    for graph in {path.rpartition(".")[0] for nodes in found.values() for path, _ in nodes}:
        new_names = [names[o] for o, nodes in found.items() for path, _ in nodes if path.rpartition(".")[0] == graph]
        _refuse_twins([name for name in new_names if name])
    count = 0
    for old, nodes in found.items():
        for _, node in nodes:
            node.name = names[old]
            count += 1
    return count


def _not_found(model: ModelProto, name: str, known: set[str], noun: str = "value") -> PathError:
    from difflib import get_close_matches

    close = get_close_matches(name, sorted(known)[:2000], n=1, cutoff=0.7)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return PathError(f"there is no {noun} called {name!r}{hint}", "", model._document.name)


def _refuse_twins(names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise EditError(f"two can't both be renamed to {name!r}")


def _refuse_taken(source: str, place: int, paths: list[str], defined: list[set[str]], mapping: dict[str, str]) -> None:
    """Refuse new names that another value has, in the graph itself, in those above it, or in those inside it."""
    _refuse_twins(list(mapping.values()))
    path = paths[place]
    for other, names in zip(paths, defined, strict=True):
        is_near = other == path or other.startswith(f"{path}.") or path.startswith(f"{other}.")
        # A training graph runs appended to the main graph.
        if not is_near and not (path == "graph" and other.startswith("training_info")):
            continue
        for old, new in mapping.items():
            if new in names and not (other == path and new in mapping):
                reason = f"there is a value called {new!r} already; choose another name for {old!r}"
                raise EditError(reason, f"{source}: {other}")


def _scopes(model: ModelProto) -> Iterator[tuple[str, Scope]]:
    """The main graph first, then all other graphs and the functions, with their paths."""
    yield "graph", model.graph
    classes: list[type[Message]] = [GraphProto, FunctionProto]
    for path, scope in Search(model, classes):
        if path != "graph":
            yield path, scope  # type: ignore[misc]


def _defined(scope: Scope) -> set[str]:
    """The names of the values that come from a graph or function itself."""
    names: set[str] = set()
    if isinstance(scope, GraphProto):
        names.update(value.name for value in scope.input)
        names.update(tensor.name for tensor in scope.initializer)
        names.update(sparse.values.name for sparse in scope.sparse_initializer)
    else:
        names.update(scope.input)
    for node in scope.node:
        names.update(node.output)
    names.discard("")
    return names


def _rename_list(values: RepeatedSpan[str, str | bytes], mapping: Mapping[str, str]) -> int:
    count = 0
    for place, name in enumerate(list(values)):
        if name in mapping:
            values[place] = mapping[name]
            count += 1
    return count


def _rename_field(message: object, field: str, mapping: Mapping[str, str]) -> int:
    name = getattr(message, field)
    if name not in mapping:
        return 0
    setattr(message, field, mapping[name])
    return 1


def _rename_in(scope: Scope, mapping: Mapping[str, str], is_own: bool = False) -> int:
    """Rename in a graph or function and in the graphs inside; is_own: whether the values come from it.

    What a graph inside has by the same name itself is another value, and hides the outer one.
    """
    if not is_own:
        hidden = _defined(scope)
        mapping = {old: new for old, new in mapping.items() if old not in hidden}
        if not mapping:
            return 0
    count = 0
    if isinstance(scope, FunctionProto):
        count += _rename_list(scope.input, mapping) + _rename_list(scope.output, mapping)
    else:
        for value in (*scope.input, *scope.output):
            count += _rename_field(value, "name", mapping)
        for tensor in scope.initializer:
            count += _rename_field(tensor, "name", mapping)
        for sparse in scope.sparse_initializer:
            count += _rename_field(sparse.values, "name", mapping) if sparse.HasField("values") else 0
        for annotation in scope.quantization_annotation:
            count += _rename_field(annotation, "tensor_name", mapping)
            for entry in annotation.quant_parameter_tensor_names:
                count += _rename_field(entry, "value", mapping)
    for value in scope.value_info:
        count += _rename_field(value, "name", mapping)
    for node in scope.node:
        count += _rename_list(node.input, mapping) + _rename_list(node.output, mapping)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                count += _rename_in(attribute.g, mapping)
            for graph in attribute.graphs:
                count += _rename_in(graph, mapping)
        for configuration in node.device_configurations:
            for spec in configuration.sharding_spec:
                count += _rename_field(spec, "tensor_name", mapping)
    return count


def _rename_bindings(model: ModelProto, path: str, mapping: Mapping[str, str]) -> int:
    """Rename what training uses of a graph's values. Source: onnx.proto, TrainingInfoProto."""
    count = 0
    for place, training in enumerate(model.training_info):
        here = f"training_info[{place}]"
        if path == "graph":
            # The algorithm runs appended to the main graph, and so sees its values.
            hidden = _defined(training.algorithm)
            if training.HasField("algorithm"):
                count += _rename_in(training.algorithm, mapping)
            outer = {old: new for old, new in mapping.items() if old not in hidden}
            for entry in (*training.initialization_binding, *training.update_binding):
                count += _rename_field(entry, "key", mapping)
            for entry in training.update_binding:
                count += _rename_field(entry, "value", outer)
        elif path in (f"{here}.algorithm", f"{here}.initialization"):
            is_step = path.endswith("algorithm")
            for entry in training.update_binding if is_step else training.initialization_binding:
                count += _rename_field(entry, "value", mapping)
    return count
