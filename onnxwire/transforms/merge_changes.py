"""Merges the changes of two models that were made from one, as `git merge` does for lines of text."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from onnxwire.analysis.comparison import KEYS, match_elements, node_name, pair_nodes
from onnxwire.analysis.live_scopes import captured_names, graphs_of
from onnxwire.checker.run import check
from onnxwire.errors import FieldTypeError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, NodeProto

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onnxwire.checker._problem import Problem
    from onnxwire.engine.descriptor import FieldDescriptor

    _Scope = GraphProto | FunctionProto
    _Id = tuple[str, int]  # an element of a merged list: "base", "ours" or "theirs", and its index there

_ORDERED = ("input", "output")
"""The fields whose order is part of the interface of a graph."""
_CONTRADICTIONS = (
    "error",
    "graph-value-info-known-name",
    "initializer-overridable",
    "quant-annotation-tensor-name",
    "quant-annotation-value-known",
)
"""The rules, and a severity, whose faults are conflicts if only the merged model has them."""
_INDEX = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Conflict:
    """An element that both sides changed, each in another way.

    kind, name: the kind and name of the element: "node", "tensor", "input", "opset", "metadata", ...; "field" for a
    single field; the severity and id of a rule for a fault that only the merged model has. path: the path of the graph
    or function that contains the element, "" for the model. ours, theirs: what each side did, such as "changed" or
    "removed"; the text and "" for a fault.
    """

    __module__ = "onnxwire"

    kind: str
    name: str
    path: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        """Return the conflict as one line."""
        head = f"{self.kind} {self.name}{f' in {self.path}' if self.path else ''}"
        if not self.theirs:
            return f"{head}: {self.ours}"
        if self.ours == self.theirs:
            return f"{head}: {self.ours} by both sides, in different ways"
        return f"{head}: our side {self.ours}, their side {self.theirs}"


def merge_changes(base: ModelProto, ours: ModelProto, theirs: ModelProto) -> tuple[ModelProto, list[Conflict]]:
    """Apply the changes from `base` to `theirs` to a copy of `ours`.

    Nodes, tensors, inputs, outputs, metadata entries, functions and other elements with names are merged as wholes: an
    element that one side added, changed or removed is taken from that side. Nodes are paired by name, else by the
    values that they produce. Changes inside functions, and inside the graphs of If, Loop and Scan, are merged likewise.
    Where both sides changed one element in different ways there is a conflict, and the merged model has ours. These are
    conflicts too: an error of `check` that neither side has and the merged model would have, such as a node of one
    side that reads a value removed by the other; a new version of an operator set on one side with new or changed
    nodes of its domain on the other; and a function that one side removed, or whose inputs, outputs or attributes it
    changed, with new or changed calls of it on the other.
    Merged nodes are sorted topologically if those of both sides are.
    Returns the merged model, which shares the bytes of all three, and the conflicts. Raises DecodeError for damage and
    FieldTypeError for another message than a model.
    """
    for model in (base, ours, theirs):
        if not isinstance(model, ModelProto):
            raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    merged = ModelProto()
    merged.CopyFrom(ours)
    merge = _Merge()
    merge.merge_fields(base, ours, theirs, merged, "")
    merge.conflicts += _mixed_operators(base, ours, theirs)
    merge.conflicts += _mixed_calls(base, ours, theirs)
    if not merge.conflicts:
        merge.conflicts += _new_errors(merged, base, ours, theirs)
    return merged, merge.conflicts


class _Merge:
    """Merges messages and collects their conflicts."""

    def __init__(self) -> None:
        self.conflicts: list[Conflict] = []

    def merge_fields(self, base: Any, ours: Any, theirs: Any, merged: Any, path: str) -> None:
        """Merge three messages of one class, field by field, into `merged`, which is a copy of `ours`."""
        for field in type(ours).DESCRIPTOR.fields:
            if _are_equal(field, ours, theirs) or _are_equal(field, base, theirs):
                continue
            if _are_equal(field, base, ours):
                _copy_field(field, theirs, merged)
            elif field.is_repeated and field.message_type is not None and (field.name == "node" or field.name in KEYS):
                self._merge_elements(base, ours, theirs, merged, field, path)
            elif field.name == "graph" and all(model.HasField("graph") for model in (base, ours, theirs)):
                self.merge_fields(base.graph, ours.graph, theirs.graph, merged.graph, "graph")
            else:
                self.conflicts.append(Conflict("field", field.name, path, "changed", "changed"))
        unknown = [message._unknown_fields() for message in (base, ours, theirs)]
        if unknown[2] not in unknown[:2]:
            # Unknown fields cannot be assigned, so those of `theirs` would be lost.
            action = "kept" if unknown[0] == unknown[1] else "changed"
            self.conflicts.append(Conflict("field", "unknown fields", path, action, "changed"))

    def _merge_elements(
        self, base: Any, ours: Any, theirs: Any, merged: Any, field: FieldDescriptor, path: str
    ) -> None:
        """Merge a repeated field whose elements have names."""
        old, mine, other = (getattr(message, field.name) for message in (base, ours, theirs))
        ours_of, theirs_of = _pairs(field, old, mine), _pairs(field, old, other)
        my_ids: dict[int, _Id] = {index: ("base", at) for at, index in ours_of.items()}
        their_ids: dict[int, _Id] = {index: ("base", at) for at, index in theirs_of.items()}
        my_new = [index for index in range(len(mine)) if index not in my_ids]
        their_new = [index for index in range(len(other)) if index not in their_ids]
        # Elements of one name that both sides added.
        both = _pairs(field, [mine[index] for index in my_new], [other[index] for index in their_new])
        twins = {my_new[one]: their_new[two] for one, two in both.items()}

        versions: list[tuple[_Id, Any, Any, Any]] = [
            (("base", at), element, _at(mine, ours_of.get(at)), _at(other, theirs_of.get(at)))
            for at, element in enumerate(old)
        ]
        for index in my_new:
            my_ids[index] = ("ours", index)
            if index in twins:
                their_ids[twins[index]] = ("ours", index)
            versions.append((("ours", index), None, mine[index], _at(other, twins.get(index))))
        for index in their_new:
            if index not in their_ids:
                their_ids[index] = ("theirs", index)
                versions.append((("theirs", index), None, None, other[index]))
        content = {key: self._merge_element(field, path, *three) for key, *three in versions}

        my_order = [my_ids[index] for index in range(len(mine))]
        order = self._merge_orders(
            [("base", at) for at in range(len(old))],
            my_order,
            [their_ids[index] for index in range(len(other))],
            field,
            path,
        )
        order = [key for key in order if content[key] is not None]
        if field.name == "node":
            positions = _sorted_positions([content[key] for key in order], mine, other)
            order = [order[position] for position in positions]
        result = getattr(merged, field.name)
        if order != my_order:
            del result[:]
            result.extend([content[key] for key in order])
            return
        for index, key in enumerate(order):
            if content[key] is not mine[index]:
                result[index].CopyFrom(content[key])

    def _merge_element(self, field: FieldDescriptor, path: str, base: Any, ours: Any, theirs: Any) -> Any:
        """Return the merged element, or None if it is removed. Each version is None where there is none."""
        if _are_same(base, theirs) or _are_same(ours, theirs):
            return ours
        if _are_same(base, ours):
            return theirs
        if base is not None and ours is not None and theirs is not None:
            if isinstance(ours, FunctionProto):
                merged = FunctionProto()
                merged.CopyFrom(ours)
                self.merge_fields(base, ours, theirs, merged, f"functions[{ours.name}]")
                return merged
            if isinstance(ours, NodeProto) and (node := self._merge_graphs(base, ours, theirs, path)) is not None:
                return node
        kind, key = KEYS.get(field.name, ("node", node_name))
        name = str(key(ours or theirs or base))
        self.conflicts.append(Conflict(kind, name, path, _action(base, ours), _action(base, theirs)))
        return ours

    def _merge_graphs(self, base: NodeProto, ours: NodeProto, theirs: NodeProto, path: str) -> NodeProto | None:
        """Merge a node of which at most one side changed more than its graphs; returns None for any other node."""
        (old, old_graphs), (mine, my_graphs), (other, their_graphs) = map(_split, (base, ours, theirs))
        if not old_graphs or not old_graphs.keys() == my_graphs.keys() == their_graphs.keys():
            return None
        if not (_are_same(old, mine) or _are_same(old, other) or _are_same(mine, other)):
            return None
        merged = NodeProto()
        merged.CopyFrom(theirs if _are_same(old, mine) else ours)
        for attribute in merged.attribute:
            if (name := attribute.name) in my_graphs:
                attribute.g.CopyFrom(my_graphs[name])
                here = f"{path}.node[{node_name(ours)}].{name}"
                self.merge_fields(old_graphs[name], my_graphs[name], their_graphs[name], attribute.g, here)
        return merged

    def _merge_orders(
        self, base: list[_Id], ours: list[_Id], theirs: list[_Id], field: FieldDescriptor, path: str
    ) -> list[_Id]:
        """Return the order of the side that moved elements, with the elements that the other side added.

        An added element keeps its predecessor. Where both sides moved elements, our order wins, with a conflict if the
        order matters.
        """
        common = {*ours} & {*theirs}  # includes equal elements that both sides added
        old, mine, other = ([key for key in keys if key in common] for keys in (base, ours, theirs))
        is_ordered = field.name in _ORDERED
        first, second = (theirs, ours) if mine == old else (ours, theirs)
        is_ambiguous = is_ordered and mine != other and old not in (mine, other)
        kept = {*first}
        known = {*base, *second}
        anchor: _Id | None = None
        additions: dict[_Id | None, list[_Id]] = {}
        for key in second:
            if key in kept:
                anchor = key
            elif key[0] != "base":
                additions.setdefault(anchor, []).append(key)
        order: list[_Id] = []
        for before, following in zip([None, *first], [*first, None], strict=True):
            order += [] if before is None else [before]
            order += (added := additions.get(before, []))
            # Each side expects its own addition at this position.
            is_ambiguous |= is_ordered and bool(added) and following is not None and following not in known
        if is_ambiguous:
            self.conflicts.append(Conflict("order", f"of {field.name}s", path, "changed", "changed"))
        return order


def _at(elements: Sequence[Any], index: int | None) -> Any:
    return None if index is None else elements[index]


def _pairs(field: FieldDescriptor, old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    """Return the index in `new` of the partner of each element of `old` that has one."""
    if field.name == "node":
        return pair_nodes(old, new, range(len(old)), range(len(new)))
    matches = match_elements(old, new, 0, KEYS[field.name][1])
    return {index: other for index, other in enumerate(matches) if other >= 0}


def _are_same(one: Any, two: Any) -> bool:
    """Return whether two messages are equal, or both None. NaN equals NaN of the same bits."""
    if one is None or two is None:
        return one is two
    return bool(one == two) or (
        one.ByteSize() == two.ByteSize() and bool(one.SerializeToString() == two.SerializeToString())
    )


def _are_equal(field: FieldDescriptor, one: Any, two: Any) -> bool:
    """Return whether a field is equal in two messages."""
    if not field.is_repeated and one.HasField(field.name) != two.HasField(field.name):
        return False
    first, second = getattr(one, field.name), getattr(two, field.name)
    if field.message_type is None:
        return bool(first == second)
    if field.is_repeated:
        return len(first) == len(second) and all(map(_are_same, first, second))
    return _are_same(first, second)


def _copy_field(field: FieldDescriptor, source: Any, target: Any) -> None:
    """Make a field equal to that of another message."""
    target.ClearField(field.name)
    value = getattr(source, field.name)
    if field.is_repeated:
        getattr(target, field.name).extend(value)
    elif not source.HasField(field.name):
        return
    elif field.message_type is not None:
        getattr(target, field.name).CopyFrom(value)
    else:
        setattr(target, field.name, value)


def _action(base: Any, side: Any) -> str:
    if _are_same(base, side):
        return "kept"
    return "added" if base is None else "removed" if side is None else "changed"


def _split(node: NodeProto) -> tuple[NodeProto, dict[str, GraphProto]]:
    """Return a node without the graphs in its attributes, and these by the attribute's name."""
    own = NodeProto()
    own.CopyFrom(node)
    for attribute in own.attribute:
        attribute.ClearField("g")
    return own, {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}


def _mixed_operators(base: ModelProto, *sides: ModelProto) -> Iterator[Conflict]:
    """Yield a conflict for each operator set that one side changed while the other changed or added its nodes.

    The operator sets of a function are its own.
    """
    old, *versions = map(_versions, (base, *sides))
    for scope, before in old.items():
        for side, other in ((0, 1), (1, 0)):
            now, there = versions[side].get(scope, {}), versions[other].get(scope, {})
            changed = {
                domain for domain, version in now.items() if before.get(domain, version) != version != there.get(domain)
            }
            if changed:
                nodes = _new_nodes(base, sides[other], sides[side], scope)
                for domain in sorted(changed & {_domain(node) for node in nodes}):
                    texts = ["changed the version", "changed or added nodes"]
                    yield Conflict("opset", domain, scope, texts[side], texts[other])


def _versions(model: ModelProto) -> dict[str, dict[str, int]]:
    """Return the versions of the operator sets by path, "" for the model's, and by domain."""
    holders: list[tuple[str, Any]] = [("", model)]
    holders += [(f"functions[{function.name}]", function) for function in model.functions]
    return {path: {_domain(opset): opset.version for opset in holder.opset_import} for path, holder in holders}


def _domain(element: Any) -> str:
    return element.domain or "ai.onnx"


def _mixed_calls(base: ModelProto, *sides: ModelProto) -> Iterator[Conflict]:
    """Yield a conflict for each function whose interface one side changed while the other changed or added calls."""
    old, *interfaces = map(_interfaces, (base, *sides))
    for side, other in ((0, 1), (1, 0)):
        now, there = interfaces[side], interfaces[other]
        changed = {key for key, text in old.items() if now.get(key) != text and now.get(key) != there.get(key)}
        if changed:
            calls = {_called(node) for node in _new_nodes(base, sides[other], sides[side])}
            for key in sorted(changed & calls):
                texts = ["removed" if key not in now else "changed the interface", "changed or added calls"]
                yield Conflict("function", f"{key[0]}.{key[1]}", "", texts[side], texts[other])


def _interfaces(model: ModelProto) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """Return the inputs, outputs and attributes of each function."""
    return {
        (_domain(function), function.name, function.overload): (
            list(function.input),
            list(function.output),
            list(function.attribute),
            [attribute.SerializeToString() for attribute in function.attribute_proto],
        )
        for function in model.functions
    }


def _called(node: NodeProto) -> tuple[str, str, str]:
    return _domain(node), node.op_type, node.overload


def _new_nodes(base: ModelProto, side: ModelProto, other: ModelProto, path: str | None = None) -> list[NodeProto]:
    """Return the nodes of `side` that are neither in `base` nor in `other`.

    path: select only nodes of the main graph ("") or of the function at the path; None selects all nodes.
    """
    known = {node.SerializeToString() for model in (base, other) for node in _nodes(model, path)}
    return [node for node in _nodes(side, path) if node.SerializeToString() not in known]


def _nodes(model: ModelProto, path: str | None = None) -> Iterator[NodeProto]:
    """Yield the nodes of the main graph and of functions, and those of graphs in their attributes. path: as above."""
    waiting: list[_Scope] = [] if path else [model.graph]
    waiting += [function for function in model.functions if path is None or path == f"functions[{function.name}]"]
    while waiting:
        for node in waiting.pop().node:
            yield node
            waiting += graphs_of(node)


def _sorted_positions(nodes: list[NodeProto], *sides: Sequence[NodeProto]) -> Sequence[int]:
    """Return the positions of nodes in topological order, near their own order.

    Returns their own order if it is topological, if that of a side is not, and if there are cycles.
    """
    order = range(len(nodes))
    reads = _reads(nodes)
    if _is_sorted(reads) or not all(_is_sorted(_reads(side)) for side in sides):
        return order
    waiting = list(map(len, reads))
    readers: list[list[int]] = [[] for _ in nodes]
    for reader, producers in enumerate(reads):
        for producer in producers:
            readers[producer].append(reader)
    ready = [position for position in order if not waiting[position]]
    positions: list[int] = []
    while ready:
        positions.append(position := heapq.heappop(ready))
        for reader in readers[position]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return positions if len(positions) == len(nodes) else order


def _reads(nodes: Sequence[NodeProto]) -> list[set[int]]:
    """Return, for each node, the positions of the nodes whose outputs it reads."""
    producers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in node.output:
            producers.setdefault(name, position)
    producers.pop("", None)
    return [{producers[name] for name in (*node.input, *captured_names(node)) if name in producers} for node in nodes]


def _is_sorted(reads: list[set[int]]) -> bool:
    return all(max(producers, default=-1) < reader for reader, producers in enumerate(reads))


def _new_errors(merged: ModelProto, base: ModelProto, *sides: ModelProto) -> list[Conflict]:
    """Return a conflict for each fault that the merged model has and no side has.

    Equal faults of both sides are counted, since a text does not identify a fault: positions in it may have changed.
    """
    found = check(merged, select=_CONTRADICTIONS)
    if not found:
        return []
    old, *others = (Counter(map(_fault, check(model, select=_CONTRADICTIONS))) for model in (base, *sides))
    rest = {
        fault: max(*(side[fault] for side in others), sum(side[fault] for side in others) - old[fault])
        for fault in {_fault(problem) for problem in found}
    }
    conflicts = []
    for problem in found:
        rest[_fault(problem)] -= 1
        if rest[_fault(problem)] < 0:
            conflicts.append(Conflict(problem.severity, problem.rule, problem.path, problem.message, ""))
    return conflicts


def _fault(problem: Problem) -> tuple[str, str]:
    return problem.rule, _INDEX.sub("[]", problem.message)
