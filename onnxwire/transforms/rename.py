"""New names for values and nodes, wherever a name is used."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from onnxwire.analysis.live_scopes import defined_names
from onnxwire.analysis.paths import resolve
from onnxwire.engine.search import Search
from onnxwire.errors import EditError, FieldTextError, FieldTypeError, PathError, did_you_mean
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto, TrainingInfoProto
from onnxwire.transforms.extract import keep_if

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from onnxwire.analysis.live_scopes import Scope
    from onnxwire.engine.repeated import RepeatedSpan

_TRAINING_GRAPH = re.compile(r"training_info\[(\d+)\]\.(initialization|algorithm)")


def rename_values(model: ModelProto, names: Mapping[str, str], *, scope: str | None = None) -> int:
    """Give values new names: inputs, outputs, initializers, and what nodes make; returns how many occurrences changed.

    model: is changed. names: the new name by the old one; all are given at once, so two values can change names.
    A value is renamed where it comes from and wherever it is used: by nodes, by the graphs in their attributes and by
    training graphs, in value_info, quantization_annotation, sharding specs and training bindings. A name that the main
    graph does not have is looked for in graphs of attributes and in functions; it is renamed in each that has it.
    scope: the path of the one graph or function that the values are those of, such as "functions[0]"; what it takes
    from a graph around it is not its own.
    Raises PathError for a name that no value has, EditError for a new name that another value has already, or that is
    empty or not text, DecodeError for messages nested more than 100 deep; the model is then as it was.
    """
    names = _texts(model, names)
    for old, new in names.items():
        if old and not new:
            reason = "it can't be renamed to nothing; an empty name stands for a value that is left out"
            raise EditError(reason, f"{model._document.name}: {old!r}")
    main = names.keys() & defined_names(model.graph) if scope in (None, "graph") else set()
    _check_values(model, names, main, scope)
    return _rename(model, lambda path, own: _chosen(names, own, main, path, scope))


def _texts(model: ModelProto, names: Mapping[str, str]) -> dict[str, str]:
    """A copy of new names by old ones. Raises FieldTypeError and FieldTextError for a new one that no field takes."""
    names = dict(names)
    for old, new in names.items():
        place = f"{model._document.name}: {old!r}"
        if not isinstance(new, str):
            raise FieldTypeError(f"expected str for its new name, found {type(new).__name__}", place)
        try:
            new.encode()
        except UnicodeEncodeError as error:
            raise FieldTextError(error, place) from None
    return names


def replace_uses(model: ModelProto, old: str, new: str, *, scope: str = "graph") -> int:
    """Have whatever uses a value use another one; returns how many occurrences changed.

    model: is changed. old: the name of a value that nothing makes any more, of the graph or function at the path
    `scope`; new: one that is seen there. What is said of the old one alone, its type and quantization, is removed.
    Raises EditError where a graph inside has a value of its own called `new`; the model is then as it was.
    """
    holder = resolve(model, scope).value
    for path, inner in _scopes(model):
        if _sees(path, scope) and new in (own := defined_names(inner)) and old not in own:
            reason = f"{path} has a value of its own called {new!r}, which hides the one to be used for {old!r}"
            raise EditError(f"{reason}; rename one of them first", model._document.name)
    _forget(holder, old)
    own_names = {old: new}
    return _rename(model, lambda path, _: own_names if path == scope else {})


def _forget(scope: Scope, name: str) -> None:
    """Remove what a graph or function says of a value beside its uses."""
    keep_if(scope.value_info, lambda value: value.name != name)
    if isinstance(scope, GraphProto):
        keep_if(scope.quantization_annotation, lambda annotation: annotation.tensor_name != name)


def _rename(model: ModelProto, choose: Callable[[str, set[str]], Mapping[str, str]]) -> int:
    """Rename in all graphs and functions; returns how many occurrences changed.

    choose: the new names that begin in a graph or function, of its path and the names that it defines; what sees it
    sees them, too.
    """
    count = 0
    seen: dict[str, str] = {}  # the new names that hold where the walk is
    # Of each graph that it sees, itself included: its path, and what held before of the names that begin or end there.
    around: list[tuple[str, dict[str, str | None]]] = []
    for path, holder in _scopes(model):
        while around and not _sees(path, around[-1][0]):
            for name, new in around.pop()[1].items():
                if new is None:
                    del seen[name]
                else:
                    seen[name] = new
        own = defined_names(holder)
        chosen = choose(path, own)
        # What a graph has itself is another value than the outer one of that name, which it hides.
        around.append((path, {name: seen.pop(name, None) for name in own & seen.keys() | chosen.keys()}))
        seen.update(chosen)
        if seen:
            count += _rename_in(holder, seen) + _rename_bindings(model, path, seen)
    return count


def _chosen(names: dict[str, str], own: set[str], main: set[str], path: str, scope: str | None) -> dict[str, str]:
    """The new names of what a graph or function has itself."""
    if scope is not None and path != scope:
        return {}
    # What the main graph has is meant there alone; other graphs have it from there.
    olds = names.keys() & own if path == "graph" else (names.keys() & own) - main
    return {old: names[old] for old in olds if old != names[old]}


@dataclass(slots=True)
class _Level:
    """A graph or function whose values are renamed. taken: new names that it has already; given: those it gives."""

    path: str
    taken: set[str]
    given: list[str] = field(default_factory=list)


def _check_values(model: ModelProto, names: dict[str, str], main: set[str], scope: str | None) -> None:
    """Refuse names that no value has, and new ones that another has: in the graph, in one above it, or inside it."""
    source = model._document.name
    missing = dict.fromkeys(names)
    wanted = set(names.values())
    levels: list[_Level] = []
    around: dict[str, list[_Level]] = {}  # by new name: the levels that have it already
    given: dict[str, list[str]] = {}  # by new name: the old one, once for each level that gives it
    for path, holder in _scopes(model):
        while levels and not _sees(path, levels[-1].path):
            _leave(levels.pop(), around, given)
        own = defined_names(holder)
        if not own:
            continue
        if scope in (None, path):
            for old in names.keys() & own:
                missing.pop(old, None)
        level = _Level(path, own & wanted)
        chosen = _chosen(names, own, main, path, scope)
        for new in level.taken:
            if given.get(new):
                raise _taken(source, path, given[new][-1], new)
        for old, new in chosen.items():
            if new in level.taken and new not in chosen:
                raise _taken(source, path, old, new)
            if around.get(new):
                raise _taken(source, around[new][-1].path, old, new)
            # What hides a value of its own name does so under the new one.
            if given.get(new) and given[new][-1] != old:
                raise _twins(source, path, new)
            level.given.append(new)
            given.setdefault(new, []).append(old)
        for new in level.taken:
            around.setdefault(new, []).append(level)
        levels.append(level)
    for old in missing:
        known = (name for path, holder in _scopes(model) if scope in (None, path) for name in defined_names(holder))
        raise PathError(f"there is no value called {old!r}{did_you_mean(old, known)}", "", source)


def _leave(level: _Level, around: dict[str, list[_Level]], given: dict[str, list[str]]) -> None:
    """Take what a level has out of what is around the next one."""
    for new in level.taken:
        around[new].pop()
    for new in level.given:
        given[new].pop()


def _taken(source: str, path: str, old: str, new: str) -> EditError:
    reason = f"there is a value called {new!r} already; choose another name for {old!r}"
    return EditError(reason, f"{source}: {path}")


def _twins(source: str, path: str, new: str) -> EditError:
    return EditError(f"two can't both be renamed to {new!r}", f"{source}: {path}")


def rename_nodes(model: ModelProto, names: Mapping[str, str]) -> int:
    """Give nodes new names, in whichever graph or function they are; returns how many were renamed.

    model: is changed. names: the new name by the old one, for all at once. Nothing refers to a node by its name.
    Raises PathError for a name that no node has, or several in one graph have; EditError for one that another node of
    the graph has already, or that is not text, DecodeError for messages nested more than 100 deep; the model is then as
    it was.
    """
    names = _texts(model, names)
    _check_nodes(model, names)
    count = 0
    for _, node in Search(model, [NodeProto]):
        new = names.get(node.name)
        if new is not None:
            node.name = new
            count += 1
    return count


def _check_nodes(model: ModelProto, names: dict[str, str]) -> None:
    """Refuse names that no node has, or several in one graph, and new ones that another of the graph has."""
    source = model._document.name
    wanted = set(names.values())
    missing = dict.fromkeys(names)
    # Of each graph around the node that is looked at: its path, the paths of nodes to rename, and those of names that
    # are wanted. What a graph has is looked at when it is left, so that no more than these is kept.
    levels: list[tuple[str, dict[str, str], dict[str, str]]] = []
    for path, node in Search(model, [NodeProto]):
        graph = path.rpartition(".")[0]
        while levels and not (graph == levels[-1][0] or _is_in(graph, levels[-1][0])):
            _check_graph(source, names, *levels.pop())
        if not levels or levels[-1][0] != graph:
            levels.append((graph, {}, {}))
        _, found, taken = levels[-1]
        name = node.name
        if name in names:
            missing.pop(name, None)
            if name in found:
                paths = ", ".join([found[name], path])
                reason = f"several nodes are called {name!r}; set the name of one by its path: {paths}"
                raise PathError(reason, "", source)
            found[name] = path
        elif name in wanted:
            taken[name] = path
    for level in levels:
        _check_graph(source, names, *level)
    for old in names:
        if not old or old in missing:
            known = (node.name for _, node in Search(model, [NodeProto]))
            raise PathError(f"there is no node called {old!r}{did_you_mean(old, known)}", "", source)


def _check_graph(source: str, names: dict[str, str], _: str, found: dict[str, str], taken: dict[str, str]) -> None:
    """Refuse what can't be in one graph. found, taken: paths of nodes by names that are to go, and to come."""
    given: set[str] = set()
    for old, path in found.items():
        new = names[old]
        if new and new in taken:
            reason = f"it is called {new!r} already; choose another name for {old!r}"
            raise EditError(reason, f"{source}: {taken[new]}")
        if new and new in given:
            raise _twins(source, path, new)
        given.add(new)


def _scopes(model: ModelProto) -> Iterator[tuple[str, Scope]]:
    """All graphs and functions with their paths, the main graph before all others, each before those that see it.

    What sees a graph comes in one run, so that a stack has what is around each: graphs of initial values, which see
    nothing of the main graph as the algorithms beside them do, are last.
    """
    classes: list[type[Scope]] = [GraphProto, FunctionProto]
    if not model.training_info:
        yield from Search(model, classes)
        return
    for is_last in (False, True):
        for path, holder in Search(model, classes):
            if _is_of_training(path, "initialization") == is_last:
                yield path, holder


def _sees(path: str, outer: str) -> bool:
    """Whether what is at a path sees the values of the graph or function at another one.

    Source: onnx.proto, TrainingInfoProto: an algorithm runs appended to the main graph.
    """
    return _is_in(path, outer) or (outer == "graph" and _is_of_training(path, "algorithm"))


def _is_of_training(path: str, graph: str) -> bool:
    """Whether a path is of one kind of a training's two graphs, or of something inside it."""
    found = _TRAINING_GRAPH.match(path)
    return found is not None and found[2] == graph


def _is_in(path: str, outer: str) -> bool:
    """Whether a path is of something inside of what another one is of."""
    return path.startswith(outer) and path.startswith(".", len(outer))


def _rename_list(values: RepeatedSpan[str, str | bytes], mapping: Mapping[str, str]) -> int:
    count = 0
    for index, name in enumerate(list(values)):
        if name in mapping:
            values[index] = mapping[name]
            count += 1
    return count


def _rename_field(message: object, field: str, mapping: Mapping[str, str]) -> int:
    name = getattr(message, field)
    if name not in mapping:
        return 0
    setattr(message, field, mapping[name])
    return 1


def _rename_in(scope: Scope, mapping: Mapping[str, str]) -> int:
    """Rename in a graph or function, but not in the graphs inside."""
    count = 0
    if isinstance(scope, FunctionProto):
        count += _rename_list(scope.input, mapping) + _rename_list(scope.output, mapping)
    else:
        for values in (scope.input, scope.output):
            for value in values:
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
        for configuration in node.device_configurations:
            for spec in configuration.sharding_spec:
                count += _rename_field(spec, "tensor_name", mapping)
    return count


def _rename_bindings(model: ModelProto, path: str, mapping: Mapping[str, str]) -> int:
    """Rename what training binds to the values that a graph sees. Source: onnx.proto, TrainingInfoProto."""
    trainings: Iterable[TrainingInfoProto] = ()
    if found := _TRAINING_GRAPH.fullmatch(path):
        training = model.training_info[int(found[1])]
        if found[2] == "initialization":
            return sum(_rename_field(entry, "value", mapping) for entry in training.initialization_binding)
        trainings = [training]
    elif path == "graph":
        # An algorithm that is not there is an empty one, which sees what the main graph has.
        trainings = (training for training in model.training_info if not training.HasField("algorithm"))
    count = 0
    for training in trainings:
        for entry in training.initialization_binding:
            count += _rename_field(entry, "key", mapping)
        for entry in training.update_binding:
            count += _rename_field(entry, "key", mapping) + _rename_field(entry, "value", mapping)
    return count
