"""Merges the changes of two models that have a common base, as `git merge` does for lines of text."""

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

_ORDERED_FIELDS = ("input", "output")
"""The fields whose order is part of the interface of a graph."""
_CONFLICT_RULES = (
    "error",
    "graph-value-info-known-name",
    "initializer-overridable",
    "quant-annotation-tensor-name",
    "quant-annotation-value-known",
)
"""A severity and rules whose faults are conflicts if only the merged model has them."""
_INDEX_IN_TEXT = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Conflict:
    """Changes of both sides that contradict each other, or a fault that only the merged model has.

    kind, name: the kind and name of the element: "node", "tensor", "input", "opset", "metadata", ...; "field" for a
    field without named elements; "order" for the order of inputs or outputs. For a fault, the severity and id of
    the rule. path: the path of the graph or function that contains the element, "" for the model; for a fault, its
    path. ours, theirs: the action of each side, such as "changed" or "removed"; for a fault, its text and "".
    """

    __module__ = "onnxwire"

    kind: str
    name: str
    path: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        """Return the conflict as one line."""
        subject = f"{self.kind} {self.name}{f' in {self.path}' if self.path else ''}"
        if not self.theirs:
            return f"{subject}: {self.ours}"
        if self.ours == self.theirs:
            return f"{subject}: {self.ours} by both sides, in different ways"
        return f"{subject}: our side {self.ours}, their side {self.theirs}"


def merge_changes(base: ModelProto, ours: ModelProto, theirs: ModelProto) -> tuple[ModelProto, list[Conflict]]:
    """Return a copy of `ours` with the changes that `theirs` makes to `base`, and the conflicts.

    Nodes, tensors, inputs, outputs, metadata entries and other elements with names are not divided: if one side added,
    changed or removed an element, the result has that side's version. Nodes are paired by name, else by the values that
    they produce. Changes inside functions, and inside the graphs of If, Loop and Scan, are merged likewise.
    If both sides changed one element in different ways, this is a conflict, and the merged model contains the element
    of `ours`. There are more kinds of conflicts:
        Both sides changed a field without named elements, or the order of inputs or outputs, in different ways.
        Both sides added inputs or outputs at the same position.
        Their side changed unknown fields, which can't be copied.
        One side changed the version of an operator set, and the other changed or added nodes of its domain.
        One side removed a function or changed its inputs, outputs or attributes, and the other changed or added calls.
        The merged model has a fault that neither side has, such as a node of one side that reads a value removed by the
            other. This is checked only if there are no other conflicts.
    Merged nodes are sorted topologically if the nodes of both sides are.
    Returns the merged model, which shares the bytes of `ours` and `theirs`, and the conflicts. Raises DecodeError for
    damage and FieldTypeError for messages other than ModelProto.
    """
    for model in (base, ours, theirs):
        if not isinstance(model, ModelProto):
            raise FieldTypeError(f"expected a ModelProto of onnxwire, not {type(model).__name__}")
    merged = ModelProto()
    merged.CopyFrom(ours)
    merge = _Merge()
    merge.merge_fields(base, ours, theirs, merged, "")
    merge.conflicts += _operator_set_conflicts(base, ours, theirs)
    merge.conflicts += _call_conflicts(base, ours, theirs)
    if not merge.conflicts:
        merge.conflicts += _new_fault_conflicts(merged, base, ours, theirs)
    return merged, merge.conflicts


class _Merge:
    """Merges messages and collects their conflicts."""

    def __init__(self) -> None:
        self.conflicts: list[Conflict] = []

    def merge_fields(self, base: Any, ours: Any, theirs: Any, merged: Any, path: str) -> None:
        """Merge three messages of one class, field by field, into `merged`, which is a copy of `ours`."""
        for field in type(ours).DESCRIPTOR.fields:
            if _is_equal_field(field, ours, theirs) or _is_equal_field(field, base, theirs):
                continue
            if _is_equal_field(field, base, ours):
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
        base_elements, our_elements, their_elements = (getattr(message, field.name) for message in (base, ours, theirs))
        # By index in `base`: the index of the element in `ours` and in `theirs`.
        ours_of, theirs_of = (
            _partner_indexes(field, base_elements, our_elements),
            _partner_indexes(field, base_elements, their_elements),
        )
        our_ids: dict[int, _Id] = {index: ("base", base_index) for base_index, index in ours_of.items()}
        their_ids: dict[int, _Id] = {index: ("base", base_index) for base_index, index in theirs_of.items()}
        our_new_indexes = [index for index in range(len(our_elements)) if index not in our_ids]
        their_new_indexes = [index for index in range(len(their_elements)) if index not in their_ids]
        # Pairs of elements of one name that both sides added.
        common_pairs = _partner_indexes(
            field,
            [our_elements[index] for index in our_new_indexes],
            [their_elements[index] for index in their_new_indexes],
        )
        their_by_our_index = {
            our_new_indexes[position]: their_new_indexes[their_position]
            for position, their_position in common_pairs.items()
        }

        # For each element: its id, and its versions in `base`, `ours` and `theirs`, None if absent.
        versions: list[tuple[_Id, Any, Any, Any]] = [
            (
                ("base", base_index),
                element,
                _element_or_none(our_elements, ours_of.get(base_index)),
                _element_or_none(their_elements, theirs_of.get(base_index)),
            )
            for base_index, element in enumerate(base_elements)
        ]
        for index in our_new_indexes:
            our_ids[index] = ("ours", index)
            if index in their_by_our_index:
                their_ids[their_by_our_index[index]] = ("ours", index)
            versions.append(
                (
                    ("ours", index),
                    None,
                    our_elements[index],
                    _element_or_none(their_elements, their_by_our_index.get(index)),
                )
            )
        for index in their_new_indexes:
            if index not in their_ids:
                their_ids[index] = ("theirs", index)
                versions.append((("theirs", index), None, None, their_elements[index]))
        # The merged elements by id; None if removed.
        content = {element_id: self._merge_element(field, path, *elements) for element_id, *elements in versions}

        our_order = [our_ids[index] for index in range(len(our_elements))]
        order = self._merge_orders(
            [("base", base_index) for base_index in range(len(base_elements))],
            our_order,
            [their_ids[index] for index in range(len(their_elements))],
            field,
            path,
        )
        order = [element_id for element_id in order if content[element_id] is not None]
        if field.name == "node":
            positions = _sorted_positions([content[element_id] for element_id in order], our_elements, their_elements)
            order = [order[position] for position in positions]
        result = getattr(merged, field.name)
        if order != our_order:
            del result[:]
            result.extend([content[element_id] for element_id in order])
            return
        for index, element_id in enumerate(order):
            if content[element_id] is not our_elements[index]:
                result[index].CopyFrom(content[element_id])

    def _merge_element(self, field: FieldDescriptor, path: str, base: Any, ours: Any, theirs: Any) -> Any:
        """Return the merged element, or None if it is removed. base, ours, theirs: its versions; None if absent."""
        if _are_equal(base, theirs) or _are_equal(ours, theirs):
            return ours
        if _are_equal(base, ours):
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
        """Return the merged node, or None if its graphs cannot be merged.

        They can be merged if all versions have graphs in the same attributes, and if the sides did not change other
        parts of the node in different ways.
        """
        (base_node, base_graphs), (our_node, our_graphs), (their_node, their_graphs) = map(
            _split_graphs, (base, ours, theirs)
        )
        if not base_graphs or not base_graphs.keys() == our_graphs.keys() == their_graphs.keys():
            return None
        if not (
            _are_equal(base_node, our_node) or _are_equal(base_node, their_node) or _are_equal(our_node, their_node)
        ):
            return None
        merged = NodeProto()
        merged.CopyFrom(theirs if _are_equal(base_node, our_node) else ours)
        for attribute in merged.attribute:
            if (name := attribute.name) in our_graphs:
                attribute.g.CopyFrom(our_graphs[name])
                graph_path = f"{path}.node[{node_name(ours)}].{name}"
                self.merge_fields(base_graphs[name], our_graphs[name], their_graphs[name], attribute.g, graph_path)
        return merged

    def _merge_orders(
        self, base: list[_Id], ours: list[_Id], theirs: list[_Id], field: FieldDescriptor, path: str
    ) -> list[_Id]:
        """Return the order of the side that moved elements, with the elements that the other side added.

        An added element follows the element that it follows on its side. If both sides moved elements, the order of
        `ours` is used; for inputs and outputs, this is a conflict unless both sides moved them in the same way. Inputs
        or outputs that both sides added at one position are a conflict, too.
        """
        common_ids = {*ours} & {*theirs}  # includes elements of one name that both sides added
        base_order, our_order, their_order = (
            [element_id for element_id in ids if element_id in common_ids] for ids in (base, ours, theirs)
        )
        is_ordered = field.name in _ORDERED_FIELDS
        moved_order, other_order = (theirs, ours) if our_order == base_order else (ours, theirs)
        is_ambiguous = is_ordered and our_order != their_order and base_order not in (our_order, their_order)
        moved_ids = {*moved_order}
        other_ids = {*base, *other_order}
        anchor: _Id | None = None
        additions: dict[_Id | None, list[_Id]] = {}  # by the element that they follow
        for element_id in other_order:
            if element_id in moved_ids:
                anchor = element_id
            elif element_id[0] != "base":
                additions.setdefault(anchor, []).append(element_id)
        order: list[_Id] = []
        for previous_id, next_id in zip([None, *moved_order], [*moved_order, None], strict=True):
            order += [] if previous_id is None else [previous_id]
            order += (new_ids := additions.get(previous_id, []))
            # Inputs and outputs that both sides added at one position have no defined order.
            is_ambiguous |= is_ordered and bool(new_ids) and next_id is not None and next_id not in other_ids
        if is_ambiguous:
            self.conflicts.append(Conflict("order", f"of {field.name}s", path, "changed", "changed"))
        return order


def _element_or_none(elements: Sequence[Any], index: int | None) -> Any:
    return None if index is None else elements[index]


def _partner_indexes(field: FieldDescriptor, old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    """Return the index in `new` of the partner of each element of `old` that has one."""
    if field.name == "node":
        return pair_nodes(old, new, range(len(old)), range(len(new)))
    matches = match_elements(old, new, 0, KEYS[field.name][1])
    return {index: new_index for index, new_index in enumerate(matches) if new_index >= 0}


def _are_equal(left: Any, right: Any) -> bool:
    """Return whether two messages are equal or both None. A NaN equals a NaN of the same bits."""
    if left is None or right is None:
        return left is right
    return bool(left == right) or (
        left.ByteSize() == right.ByteSize() and bool(left.SerializeToString() == right.SerializeToString())
    )


def _is_equal_field(field: FieldDescriptor, left: Any, right: Any) -> bool:
    """Return whether a field is equal in two messages."""
    if not field.is_repeated and left.HasField(field.name) != right.HasField(field.name):
        return False
    left_value, right_value = getattr(left, field.name), getattr(right, field.name)
    if field.message_type is None:
        return bool(left_value == right_value)
    if field.is_repeated:
        return len(left_value) == len(right_value) and all(map(_are_equal, left_value, right_value))
    return _are_equal(left_value, right_value)


def _copy_field(field: FieldDescriptor, source: Any, target: Any) -> None:
    """Copy a field from one message to another, or clear it if it is absent in the source."""
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
    """Return the action of a side on an element: "kept", "added", "removed" or "changed"."""
    if _are_equal(base, side):
        return "kept"
    return "added" if base is None else "removed" if side is None else "changed"


def _split_graphs(node: NodeProto) -> tuple[NodeProto, dict[str, GraphProto]]:
    """Return a node without the graphs in its attributes, and these graphs by the attribute's name.

    Lists of graphs remain in the node and are not returned separately.
    """
    copy = NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        attribute.ClearField("g")
    return copy, {attribute.name: attribute.g for attribute in node.attribute if attribute.HasField("g")}


def _operator_set_conflicts(base: ModelProto, *sides: ModelProto) -> Iterator[Conflict]:
    """Yield a conflict for each operator set that one side changed while the other changed or added its nodes.

    Functions import operator sets separately from the model.
    """
    base_versions, *versions = map(_operator_set_versions, (base, *sides))
    for scope, old_versions in base_versions.items():
        for side, other_side in ((0, 1), (1, 0)):
            side_versions, other_versions = versions[side].get(scope, {}), versions[other_side].get(scope, {})
            changed_domains = {
                domain
                for domain, version in side_versions.items()
                if old_versions.get(domain, version) != version != other_versions.get(domain)
            }
            if changed_domains:
                nodes = _new_nodes(base, sides[other_side], sides[side], scope)
                for domain in sorted(changed_domains & {_domain(node) for node in nodes}):
                    texts = ["changed the version", "changed or added nodes"]
                    yield Conflict("opset", domain, scope, texts[side], texts[other_side])


def _operator_set_versions(model: ModelProto) -> dict[str, dict[str, int]]:
    """Return the versions of operator sets by the path of their owner ("" for the model) and by domain."""
    owners: list[tuple[str, Any]] = [("", model)]
    owners += [(f"functions[{function.name}]", function) for function in model.functions]
    return {path: {_domain(opset): opset.version for opset in owner.opset_import} for path, owner in owners}


def _domain(element: Any) -> str:
    return element.domain or "ai.onnx"


def _call_conflicts(base: ModelProto, *sides: ModelProto) -> Iterator[Conflict]:
    """Yield a conflict for each function whose interface one side changed while the other changed or added calls."""
    base_interfaces, *interfaces = map(_interfaces, (base, *sides))
    for side, other_side in ((0, 1), (1, 0)):
        side_interfaces, other_interfaces = interfaces[side], interfaces[other_side]
        changed_keys = {
            key
            for key, text in base_interfaces.items()
            if side_interfaces.get(key) != text and side_interfaces.get(key) != other_interfaces.get(key)
        }
        if changed_keys:
            calls = {_called_function(node) for node in _new_nodes(base, sides[other_side], sides[side])}
            for key in sorted(changed_keys & calls):
                texts = ["removed" if key not in side_interfaces else "changed the interface", "changed or added calls"]
                yield Conflict("function", f"{key[0]}.{key[1]}", "", texts[side], texts[other_side])


def _interfaces(model: ModelProto) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """Return the inputs, outputs and attributes of each function, by domain, name and overload."""
    return {
        (_domain(function), function.name, function.overload): (
            list(function.input),
            list(function.output),
            list(function.attribute),
            [attribute.SerializeToString() for attribute in function.attribute_proto],
        )
        for function in model.functions
    }


def _called_function(node: NodeProto) -> tuple[str, str, str]:
    return _domain(node), node.op_type, node.overload


def _new_nodes(base: ModelProto, side: ModelProto, other_side: ModelProto, path: str | None = None) -> list[NodeProto]:
    """Return the nodes of `side` that are neither in `base` nor in `other_side`.

    path: select only nodes of the main graph ("") or of the function at the path; None selects all nodes.
    """
    known_nodes = {node.SerializeToString() for model in (base, other_side) for node in _nodes(model, path)}
    return [node for node in _nodes(side, path) if node.SerializeToString() not in known_nodes]


def _nodes(model: ModelProto, path: str | None = None) -> Iterator[NodeProto]:
    """Yield the nodes of the main graph, of functions, and of nested graphs. path: as for `_new_nodes`."""
    pending_scopes: list[_Scope] = [] if path else [model.graph]
    pending_scopes += [
        function for function in model.functions if path is None or path == f"functions[{function.name}]"
    ]
    while pending_scopes:
        for node in pending_scopes.pop().node:
            yield node
            pending_scopes += graphs_of(node)


def _sorted_positions(nodes: list[NodeProto], *sides: Sequence[NodeProto]) -> Sequence[int]:
    """Return the positions of nodes in topological order, close to their present order.

    Returns the present order if it is topological, if the order of a side is not topological, and if there are cycles.
    """
    order = range(len(nodes))
    producers_by_node = _producers_by_node(nodes)
    if _is_sorted(producers_by_node) or not all(_is_sorted(_producers_by_node(side)) for side in sides):
        return order
    n_pending = list(map(len, producers_by_node))
    readers: list[list[int]] = [[] for _ in nodes]
    for reader, producers in enumerate(producers_by_node):
        for producer in producers:
            readers[producer].append(reader)
    ready_positions = [position for position in order if not n_pending[position]]
    positions: list[int] = []
    while ready_positions:
        positions.append(position := heapq.heappop(ready_positions))
        for reader in readers[position]:
            n_pending[reader] -= 1
            if not n_pending[reader]:
                heapq.heappush(ready_positions, reader)
    return positions if len(positions) == len(nodes) else order


def _producers_by_node(nodes: Sequence[NodeProto]) -> list[set[int]]:
    """Return, for each node, the positions of the nodes whose outputs it reads."""
    producers: dict[str, int] = {}
    for position, node in enumerate(nodes):
        for name in node.output:
            producers.setdefault(name, position)
    producers.pop("", None)
    return [{producers[name] for name in (*node.input, *captured_names(node)) if name in producers} for node in nodes]


def _is_sorted(producers_by_node: list[set[int]]) -> bool:
    """Return whether nodes are in topological order. producers_by_node: the result of `_producers_by_node`."""
    return all(max(producers, default=-1) < reader for reader, producers in enumerate(producers_by_node))


def _new_fault_conflicts(merged: ModelProto, base: ModelProto, *sides: ModelProto) -> list[Conflict]:
    """Return a conflict for each fault that the merged model has and neither side has.

    The indexes in the text of a fault are ignored, because they may have changed. So faults are counted by text.
    """
    problems = check(merged, select=_CONFLICT_RULES)
    if not problems:
        return []
    base_counts, *side_counts = (
        Counter(map(_fault_key, check(model, select=_CONFLICT_RULES))) for model in (base, *sides)
    )
    # The expected number of faults of each text is the greatest of three numbers: those of both sides, and that of the
    # base plus the faults that each side added.
    n_expected = {
        fault: max(
            *(counts[fault] for counts in side_counts),
            sum(counts[fault] for counts in side_counts) - base_counts[fault],
        )
        for fault in {_fault_key(problem) for problem in problems}
    }
    conflicts = []
    for problem in problems:
        n_expected[_fault_key(problem)] -= 1
        if n_expected[_fault_key(problem)] < 0:
            conflicts.append(Conflict(problem.severity, problem.rule, problem.path, problem.message, ""))
    return conflicts


def _fault_key(problem: Problem) -> tuple[str, str]:
    """Return the rule and the text of a fault without indexes."""
    return problem.rule, _INDEX_IN_TEXT.sub("[]", problem.message)
