"""Renames values and nodes, with all their uses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from onnxwire.analysis.live_scopes import defined_names
from onnxwire.analysis.paths import resolve
from onnxwire.engine.scan import NameFilter, select_messages
from onnxwire.engine.search import Search
from onnxwire.errors import EditError, FieldTextError, FieldTypeError, PathError, did_you_mean
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto, TrainingInfoProto
from onnxwire.transforms.extract import keep_if

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from onnxwire.analysis.live_scopes import Scope
    from onnxwire.engine.repeated_span import RepeatedSpan

_TRAINING_GRAPH = re.compile(r"training_info\[(\d+)\]\.(initialization|algorithm)")


def rename_values(model: ModelProto, names: Mapping[str, str], *, scope: str | None = None) -> int:
    """Rename values: inputs, outputs, initializers and outputs of nodes. Returns the number of changed occurrences.

    model: the model, which is changed. names: new names by old names; all are applied at once, so two values can swap
    names. A value is renamed where it is defined and in all its uses: by nodes, subgraphs and training graphs, in
    value_info, quantization_annotation, sharding specs and training bindings. A name that the main graph does not
    define is renamed in each subgraph and function that defines it.
    scope: the path of the one graph or function that defines the values, such as "functions[0]"; values of enclosing
    graphs are not renamed.
    Raises PathError for a name that no value has, EditError for a new name that another value already has, that two
    values would share or that is empty, FieldTypeError for a new name that is not a str, FieldTextError for lone
    surrogates, DecodeError for messages nested more than 100 deep; the model is then unchanged.
    """
    names = _check_names(model, names)
    for old, new in names.items():
        if old and not new:
            reason = "a value can't be renamed to the empty name, which marks an omitted input or output"
            raise EditError(reason, f"{model._document.name}: {old!r}")
    scopes = _Scopes(model, {*names, *names.values()})
    main_names = names.keys() & scopes.defined_in("graph", model.graph) if scope in (None, "graph") else set()
    _check_values(scopes, names, main_names, scope)
    return _rename(scopes, lambda path, own_names: _choose_names(names, own_names, main_names, path, scope))


def _check_names(model: ModelProto, names: Mapping[str, str]) -> dict[str, str]:
    """Copy a mapping of names. Raises FieldTypeError and FieldTextError for a new name that no field can store."""
    names = dict(names)
    for old, new in names.items():
        location = f"{model._document.name}: {old!r}"
        if not isinstance(new, str):
            raise FieldTypeError(f"expected str for its new name, found {type(new).__name__}", location)
        try:
            new.encode()
        except UnicodeEncodeError as error:
            raise FieldTextError(error, location) from None
    return names


def replace_uses(model: ModelProto, old: str, new: str, *, scope: str = "graph") -> int:
    """Replace all uses of a value by another value. Returns the number of changed occurrences.

    model: the model, which is changed. old: the name of a value that the graph or function at the path `scope` defines;
    the caller removes its producer. new: the name of a value that is visible there. The type and the quantization
    annotation of the old value are removed.
    Raises EditError if a subgraph defines a value called `new` itself; the model is then unchanged.
    """
    scopes = _Scopes(model, {old, new})
    for path, inner_scope in scopes:
        if _sees(path, scope) and new in (own_names := scopes.defined_in(path, inner_scope)) and old not in own_names:
            reason = f"{path} defines another value called {new!r}, which hides the replacement of {old!r}"
            raise EditError(f"{reason}; rename one of them first", model._document.name)
    remove_annotations(resolve(model, scope).value, old)
    new_names = {old: new}
    return _rename(scopes, lambda path, _: new_names if path == scope else {})


def remove_annotations(scope: Scope, name: str) -> None:
    """Remove the type and the quantization annotation of a value from a graph or function."""
    keep_if(scope.value_info, lambda value: value.name != name)
    if isinstance(scope, GraphProto):
        keep_if(scope.quantization_annotation, lambda annotation: annotation.tensor_name != name)


class _Scopes:
    """The graphs and functions of a model, at least those that mention some names; iteration yields (path, scope).

    The main graph comes first. The scopes that see a scope (`_sees`) follow it directly, so that a stack can store the
    enclosing scopes of the current scope. Initialization graphs are last: unlike algorithms, they do not see the main
    graph.
    If there are few names, a scan of the bytes skips messages that contain none of them. Models with training_info are
    not scanned, because the bindings are outside of the graphs to which they refer.
    """

    def __init__(self, model: ModelProto, names: set[str]) -> None:
        self.model = model
        self.filter = None if model.training_info else NameFilter.of(names)
        self._defined: dict[str, set[str]] = {}

    def __iter__(self) -> Iterator[tuple[str, Scope]]:
        classes: list[type[Scope]] = [GraphProto, FunctionProto]
        has_training = bool(self.model.training_info)
        # In the first round yield all scopes except those of initialization graphs, in the second round only these.
        for is_last in (False, True) if has_training else (False,):
            for path, scope in Search(self.model, classes, None, self.filter):
                if not has_training or _is_of_training(path, "initialization") == is_last:
                    yield path, scope

    def defined_in(self, path: str, scope: Scope) -> set[str]:
        """Return the names that a scope defines; with a filter, at least those that it accepts, from a cache."""
        names = self._defined.get(path)
        if names is None:
            names = defined_names(scope, self.filter)
            if self.filter is not None and len(self._defined) < _MAX_CACHED_SCOPES:
                self._defined[path] = names
        return names


_MAX_CACHED_SCOPES = 1 << 12  # maximum number of scopes whose defined names are cached


def _rename(scopes: _Scopes, choose: Callable[[str, set[str]], Mapping[str, str]]) -> int:
    """Rename values in all graphs and functions. Returns the number of changed occurrences.

    choose: returns the new names of values that a graph or function defines, given its path and the names that it
    defines. The new names also apply in all scopes that see the graph or function.
    """
    count = 0
    active_names: dict[str, str] = {}  # the new names that apply in the current scope, by old names
    # The current scope and its enclosing scopes: path, and the entries of `active_names` that the scope hides or
    # replaces; None for an entry that it adds.
    open_scopes: list[tuple[str, dict[str, str | None]]] = []
    for path, scope in scopes:
        while open_scopes and not _sees(path, open_scopes[-1][0]):
            for name, new in open_scopes.pop()[1].items():
                if new is None:
                    del active_names[name]
                else:
                    active_names[name] = new
        own_names = scopes.defined_in(path, scope)
        new_names = choose(path, own_names)
        # A value of the scope itself hides an outer value of the same name.
        replaced_names = own_names & active_names.keys() | new_names.keys()
        open_scopes.append((path, {name: active_names.pop(name, None) for name in replaced_names}))
        active_names.update(new_names)
        if active_names:
            count += _rename_in_scope(scope, active_names, scopes.filter)
            count += _rename_bindings(scopes.model, path, active_names)
    return count


def _choose_names(
    names: dict[str, str], own_names: set[str], main_names: set[str], path: str, scope: str | None
) -> dict[str, str]:
    """Return the new names of the values that the graph or function at `path` defines.

    names: all new names by old names. own_names: the names that the graph or function defines. main_names: the old
    names that the main graph defines. scope: as for `rename_values`.
    """
    if scope is not None and path != scope:
        return {}
    # A name that the main graph defines is not renamed in other graphs that define it too.
    old_names = names.keys() & own_names if path == "graph" else (names.keys() & own_names) - main_names
    return {old: names[old] for old in old_names if old != names[old]}


@dataclass(slots=True)
class _Level:
    """The current graph or function, or one around it; its values may be renamed.

    existing_names: the new names that it already defines. assigned_names: the new names that its values receive.
    """

    path: str
    existing_names: set[str]
    assigned_names: list[str] = field(default_factory=list)


def _check_values(scopes: _Scopes, names: dict[str, str], main_names: set[str], scope: str | None) -> None:
    """Raise PathError for names that no value has, and EditError for new names that are in use or would be shared.

    A name is in use if the same graph, an enclosing graph or a subgraph defines it.
    """
    try:
        _check_in_order(scopes, names, main_names, scope, iter)
        return
    except EditError:
        pass
    # The order of sets differs from process to process, so the names are sorted to raise the same error in all.
    _check_in_order(scopes, names, main_names, scope, sorted)


def _check_in_order(
    scopes: _Scopes,
    names: dict[str, str],
    main_names: set[str],
    scope: str | None,
    order: Callable[[Any], Iterable[Any]],
) -> None:
    """Implement `_check_values`. order: a function that returns the elements of a set in the order of the checks."""
    source = scopes.model._document.name
    missing_names = dict.fromkeys(names)
    wanted_names = set(names.values())
    levels: list[_Level] = []
    # By new name: the levels that define it already; and, for each level with a value that receives it, the old name.
    levels_by_new_name: dict[str, list[_Level]] = {}
    old_by_new_name: dict[str, list[str]] = {}
    for path, inner_scope in scopes:
        while levels and not _sees(path, levels[-1].path):
            _leave_level(levels.pop(), levels_by_new_name, old_by_new_name)
        own_names = scopes.defined_in(path, inner_scope)
        if not own_names:
            continue
        if scope in (None, path):
            for old in names.keys() & own_names:
                missing_names.pop(old, None)
        level = _Level(path, own_names & wanted_names)
        new_names = _choose_names(names, own_names, main_names, path, scope)
        for new in order(level.existing_names):
            if old_by_new_name.get(new):
                raise _name_in_use_error(source, path, old_by_new_name[new][-1], new)
        for old, new in order(new_names.items()):
            if new in level.existing_names and new not in new_names:
                raise _name_in_use_error(source, path, old, new)
            if levels_by_new_name.get(new):
                raise _name_in_use_error(source, levels_by_new_name[new][-1].path, old, new)
            # A value that hides an outer value of the same name may also do so after both are renamed.
            if old_by_new_name.get(new) and old_by_new_name[new][-1] != old:
                raise _duplicate_name_error(source, path, "values", new)
            level.assigned_names.append(new)
            old_by_new_name.setdefault(new, []).append(old)
        for new in level.existing_names:
            levels_by_new_name.setdefault(new, []).append(level)
        levels.append(level)
    classes: list[type[Scope]] = [GraphProto, FunctionProto]
    for old in missing_names:
        inner_scopes = (inner_scope for path, inner_scope in Search(scopes.model, classes) if scope in (None, path))
        known_names = (name for inner_scope in inner_scopes for name in defined_names(inner_scope))
        raise PathError(f"there is no value called {old!r}{did_you_mean(old, known_names)}", "", source)


def _leave_level(
    level: _Level, levels_by_new_name: dict[str, list[_Level]], old_by_new_name: dict[str, list[str]]
) -> None:
    """Remove a level from both maps when the walk leaves the level."""
    for new in level.existing_names:
        levels_by_new_name[new].pop()
    for new in level.assigned_names:
        old_by_new_name[new].pop()


def _name_in_use_error(source: str, path: str, old: str, new: str) -> EditError:
    reason = f"a value called {new!r} already exists; choose another name for {old!r}"
    return EditError(reason, f"{source}: {path}")


def _duplicate_name_error(source: str, path: str, kind: str, new: str) -> EditError:
    return EditError(f"two {kind} can't both be renamed to {new!r}", f"{source}: {path}")


def rename_nodes(model: ModelProto, names: Mapping[str, str]) -> int:
    """Rename nodes in all graphs and functions; return the number of renamed nodes.

    model: the model, which is changed. names: new names by old names, all applied at once. Nothing refers to a node by
    its name.
    Raises PathError for a name that no node has, or that several nodes in one graph have; EditError for a new name that
    another node of the graph already has, or that two nodes of a graph would share; FieldTypeError or FieldTextError
    for a new name that is not text; DecodeError for messages nested more than 100 deep. The model is then unchanged.
    """
    names = _check_names(model, names)
    _check_nodes(model, names)
    count = 0
    for _, node in Search(model, [NodeProto], None, NameFilter.of(names.keys())):
        new = names.get(node.name)
        if new is not None:
            node.name = new
            count += 1
    return count


def _check_nodes(model: ModelProto, names: dict[str, str]) -> None:
    """Raise the PathErrors and EditErrors of `rename_nodes`."""
    source = model._document.name
    wanted_names = set(names.values())
    missing_names = dict.fromkeys(names)
    # The enclosing graphs of the current node: path, and the paths of the graph's nodes with an old name and with a new
    # name. A graph is checked when the walk leaves it, so that only enclosing graphs are in memory.
    levels: list[tuple[str, dict[str, str], dict[str, str]]] = []
    for path, node in Search(model, [NodeProto], None, NameFilter.of({*names, *wanted_names})):
        graph = path.rpartition(".")[0]
        while levels and not (graph == levels[-1][0] or _is_in(graph, levels[-1][0])):
            _check_graph(source, names, *levels.pop())
        if not levels or levels[-1][0] != graph:
            levels.append((graph, {}, {}))
        _, paths_by_old_name, paths_by_new_name = levels[-1]
        name = node.name
        if name in names:
            missing_names.pop(name, None)
            if name in paths_by_old_name:
                paths = ", ".join([paths_by_old_name[name], path])
                reason = f"several nodes are called {name!r}; set the name of one by its path: {paths}"
                raise PathError(reason, "", source)
            paths_by_old_name[name] = path
        elif name in wanted_names:
            paths_by_new_name[name] = path
    for level in levels:
        _check_graph(source, names, *level)
    for old in names:
        if not old or old in missing_names:
            known_names = (node.name for _, node in Search(model, [NodeProto]))
            raise PathError(f"there is no node called {old!r}{did_you_mean(old, known_names)}", "", source)


def _check_graph(
    source: str, names: dict[str, str], _: str, paths_by_old_name: dict[str, str], paths_by_new_name: dict[str, str]
) -> None:
    """Raise EditError for a name that two nodes of a graph would share.

    _: the path of the graph, which is not used. paths_by_old_name, paths_by_new_name: the paths of the nodes that have
    an old name or a new name.
    """
    used_names: set[str] = set()
    for old, path in paths_by_old_name.items():
        new = names[old]
        if new and new in paths_by_new_name:
            reason = f"a node called {new!r} already exists; choose another name for {old!r}"
            raise EditError(reason, f"{source}: {paths_by_new_name[new]}")
        if new and new in used_names:
            raise _duplicate_name_error(source, path, "nodes", new)
        used_names.add(new)


def _sees(path: str, outer_path: str) -> bool:
    """Return whether the graph at a path can use the values of the graph or function at another path.

    Source: onnx.proto, TrainingInfoProto: an algorithm runs as if it was appended to the main graph.
    """
    return _is_in(path, outer_path) or (outer_path == "graph" and _is_of_training(path, "algorithm"))


def _is_of_training(path: str, graph: str) -> bool:
    """Return whether a path is that of a training graph or inside it. graph: "initialization" or "algorithm"."""
    match = _TRAINING_GRAPH.match(path)
    return match is not None and match[2] == graph


def _is_in(path: str, outer_path: str) -> bool:
    """Return whether a path is inside another path."""
    return path.startswith(outer_path) and path.startswith(".", len(outer_path))


def _rename_list(values: RepeatedSpan[str, str | bytes], mapping: Mapping[str, str]) -> int:
    """Replace the names in a repeated field; return the number of replacements."""
    count = 0
    for index, name in enumerate(list(values)):
        if name in mapping:
            values[index] = mapping[name]
            count += 1
    return count


def _rename_field(message: object, field: str, mapping: Mapping[str, str]) -> int:
    """Replace the name in a field; return the number of replacements, 0 or 1."""
    name = getattr(message, field)
    if name not in mapping:
        return 0
    setattr(message, field, mapping[name])
    return 1


def _rename_in_scope(scope: Scope, mapping: Mapping[str, str], names: NameFilter | None) -> int:
    """Rename values in a graph or function, but not in its subgraphs; return the number of changed occurrences.

    names: a filter with all names of `mapping`, or None.
    """
    count = 0
    if isinstance(scope, FunctionProto):
        count += _rename_list(scope.input, mapping) + _rename_list(scope.output, mapping)
    else:
        for values in (scope.input, scope.output):
            for value in values:
                count += _rename_field(value, "name", mapping)
        for tensor in select_messages(scope.initializer, names):
            count += _rename_field(tensor, "name", mapping)
        for sparse in scope.sparse_initializer:
            count += _rename_field(sparse.values, "name", mapping) if sparse.HasField("values") else 0
        for annotation in scope.quantization_annotation:
            count += _rename_field(annotation, "tensor_name", mapping)
            for entry in annotation.quant_parameter_tensor_names:
                count += _rename_field(entry, "value", mapping)
    for value in select_messages(scope.value_info, names):
        count += _rename_field(value, "name", mapping)
    for node in select_messages(scope.node, names):
        count += _rename_list(node.input, mapping) + _rename_list(node.output, mapping)
        for configuration in node.device_configurations:
            for spec in configuration.sharding_spec:
                count += _rename_field(spec, "tensor_name", mapping)
    return count


def _rename_bindings(model: ModelProto, path: str, mapping: Mapping[str, str]) -> int:
    """Rename values in the training bindings that refer to the graph at `path`; return the number of changes.

    Source: onnx.proto, TrainingInfoProto.
    """
    trainings: Iterable[TrainingInfoProto] = ()
    if match := _TRAINING_GRAPH.fullmatch(path):
        training = model.training_info[int(match[1])]
        if match[2] == "initialization":
            return sum(_rename_field(entry, "value", mapping) for entry in training.initialization_binding)
        trainings = [training]
    elif path == "graph":
        # An absent algorithm counts as an empty one, which sees the values of the main graph.
        trainings = (training for training in model.training_info if not training.HasField("algorithm"))
    count = 0
    for training in trainings:
        for entry in training.initialization_binding:
            count += _rename_field(entry, "key", mapping)
        for entry in training.update_binding:
            count += _rename_field(entry, "key", mapping) + _rename_field(entry, "value", mapping)
    return count
