"""Compares two models field by field: structure, and the values of weights."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import copysign

from onnxwire.analysis.describe import describe_call, describe_list, describe_type, describe_value
from onnxwire.analysis.tensor_distance import Distance, distance
from onnxwire.engine.repeated import Repeated
from onnxwire.errors import TensorError
from onnxwire.io.prefetch import open_external, scheduled
from onnxwire.io.tensor_list import find_tensors, is_external, tensor_bytes
from onnxwire.messages import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    ValueInfoProto,
)
from onnxwire.tensor.dtypes import FIELDS, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from typing import Any, Literal

    from onnxwire.engine.descriptor import FieldDescriptor

_MAX_ELEMENTS = 24  # maximum number of a list's elements in a text
_MAX_CHARS = 200  # maximum length of a text
_SMALL_BYTES = 1 << 12  # tensors up to this size are compared as messages first
_STORAGE = {"raw_data", *FIELDS, "external_data", "data_location"}
"""The fields that store the elements of a tensor."""
_NESTED_FIELDS = {"t", "g", "tensors", "graphs", "sparse_tensor", "sparse_tensors"}
"""The fields of an attribute that are compared field by field."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference of two models.

    change: the change from the first model to the second. "rewired" means that an input reads another value. "renamed"
    lists all new names in one difference, if nodes are matched by structure. kind, name: the kind and name of the
    element that differs: "node", "tensor", "input", "output", "value", "opset", "metadata", "function", "graph",
    "model", ... part:
    the part of the element that differs, such as "op_type" or "attribute axis"; "" for the whole element. path: the
    path of an added element in the second model, of any other in the first. old, new: texts for people, or None.
    distance: the distance of the values of weights; None if they were not compared. names: for "renamed", dicts from
    old to new names under "nodes" and "values".
    """

    __module__ = "onnxwire"

    change: Literal["added", "removed", "changed", "rewired", "renamed"]
    kind: str
    name: str
    part: str
    path: str
    old: str | None = None
    new: str | None = None
    distance: Distance | None = None
    names: dict[str, dict[str, str]] | None = None


# By repeated field: the kind of its elements, and a function that returns their key.
KEYS: dict[str, tuple[str, Callable[[Any], Hashable]]] = {
    "initializer": ("tensor", lambda tensor: tensor.name),
    "sparse_initializer": ("sparse tensor", lambda sparse: sparse.values.name),
    "input": ("input", lambda value: value.name),
    "output": ("output", lambda value: value.name),
    "value_info": ("value", lambda value: value.name),
    "opset_import": ("opset", lambda opset: opset.domain or "ai.onnx"),
    "metadata_props": ("metadata", lambda entry: entry.key),
    "functions": ("function", lambda f: f"{f.domain}.{f.name}{':' if f.overload else ''}{f.overload}"),
    "attribute": ("attribute", lambda attribute: attribute.name),
    "attribute_proto": ("attribute", lambda attribute: attribute.name),
    "quantization_annotation": ("annotation", lambda annotation: annotation.tensor_name),
    "quant_parameter_tensor_names": ("parameter", lambda entry: entry.key),
    "initialization_binding": ("binding", lambda entry: entry.key),
    "update_binding": ("binding", lambda entry: entry.key),
    "configuration": ("configuration", lambda configuration: configuration.name),
    "device_configurations": ("configuration", lambda configuration: configuration.configuration_id),
    "sharding_spec": ("sharding", lambda spec: spec.tensor_name),
}
_ELEMENT_KINDS = {
    "initializer", "sparse_initializer", "input", "output", "value_info", "opset_import", "metadata_props", "functions",
    "configuration",
}  # fmt: skip
"""The fields of a model or graph whose elements are reported by their own kind and name."""
_ELEMENT_PARENTS = ("ModelProto", "GraphProto")

# Tuples rather than unions of types: making a union takes longer than comparing an element.
_TENSORS = (TensorProto, SparseTensorProto)
_COMPARED_IN_PARTS = (ModelProto, GraphProto)

_Element = tuple[str, str, str]
"""The kind and name of the element that is reported, and its part."""


class Comparison:
    """Compares two models.

    left_out: the fields of attributes that are not compared.
    """

    left_out: frozenset[str] = frozenset()

    def __init__(self, old: ModelProto, weights: bool, progress: Callable[[int, int], object] | None) -> None:
        self._weights = weights
        self._progress = progress
        self._done = 0
        self._total = 0
        # The paths of all messages that contain tensors with external data: equal messages can name different files.
        self._external: set[str] = set()
        if weights:
            open_external(old)
        if weights or progress is not None:
            for path, tensor in find_tensors(old):
                self._total += tensor_bytes(tensor) if progress is not None else 0
                if is_external(tensor):
                    self._external.update(path[:end] for end, sign in enumerate(path) if sign == ".")

    def compare(self, old: ModelProto, new: ModelProto) -> Iterator[Difference]:
        """Compare the models."""
        if self._weights:
            open_external(new)
        with scheduled(_paired_tensors(old, new) if self._weights else ()):
            yield from self._messages(old, new, "", ("model", "", ""))
        self._finish()

    def _finish(self) -> None:
        if self._progress is not None:
            self._progress(self._total, self._total)

    def _messages(self, old: Any, new: Any, path: str, element: _Element) -> Iterator[Difference]:
        """Compare two messages of one class, field by field."""
        if self._are_same(old, new, path):
            return
        if isinstance(old, TensorProto):
            yield from self._tensors(old, new, path, element)
            return
        if isinstance(old, SparseTensorProto):
            yield from self._fields(old, new, path, element, ("dims",))
            for part in ("values", "indices"):
                inner = (element[0], element[1], _join(element[2], part))
                yield from self._tensors(getattr(old, part), getattr(new, part), f"{path}.{part}", inner)
            return
        if isinstance(old, ValueInfoProto) and _value_text(old) != _value_text(new):
            yield Difference("changed", *element, path, _value_text(old), _value_text(new))
            return
        if isinstance(old, GraphProto):
            element = ("graph", new.name or old.name, "")
        if isinstance(old, AttributeProto):
            yield from self._attributes(old, new, path, element)
        else:
            yield from self._fields(old, new, path, element, type(old).DESCRIPTOR.fields_by_name)
        ours, theirs = old._unknown_fields(), new._unknown_fields()
        if ours != theirs:
            yield Difference(
                "changed", *element[:2], _join(element[2], "unknown fields"), path, _count(ours), _count(theirs)
            )

    def _fields(self, old: Any, new: Any, path: str, element: _Element, names: Iterable[str]) -> Iterator[Difference]:
        """Compare fields of two messages of one class; skip fields that both lack."""
        present = {*old._present(), *new._present()}
        for name in names:
            if name not in present:
                continue
            field = type(old).DESCRIPTOR.fields_by_name[name]
            here = f"{path}.{name}" if path else name
            part = (element[0], element[1], _join(element[2], name))
            if field.is_repeated and field.message_type is not None:
                if name == "node":
                    yield from self._nodes(old.node, new.node, here)
                else:
                    yield from self._elements(old, new, field, here, element)
            elif field.is_repeated:
                ours, theirs = getattr(old, name), getattr(new, name)
                if not _are_alike(ours, theirs):
                    texts = [describe_list(field, values, _MAX_ELEMENTS) for values in (ours, theirs)]
                    yield Difference("changed", *part, here, texts[0], texts[1])
            elif field.message_type is not None:
                has = old.HasField(name), new.HasField(name)
                if all(has):
                    yield from self._messages(getattr(old, name), getattr(new, name), here, part)
                elif any(has):
                    yield Difference("added" if has[1] else "removed", *part, here)
            else:
                # An absent field equals its default, except in a oneof.
                has = old.HasField(name), new.HasField(name)
                is_choice = field.containing_oneof is not None and has[0] != has[1]
                if is_choice or (any(has) and not _are_alike(getattr(old, name), getattr(new, name))):
                    shown = [_field_text(message, field) for message in (old, new)]
                    yield Difference("changed", *part, here, shown[0], shown[1])

    def _elements(
        self, old: Any, new: Any, field: FieldDescriptor, path: str, element: _Element
    ) -> Iterator[Difference]:
        """Compare a repeated field. Elements are paired by name, or by index if they have no names."""
        ours, theirs = getattr(old, field.name), getattr(new, field.name)
        kind, key = KEYS.get(field.name, (field.name, None))
        is_own = field.name in _ELEMENT_KINDS and type(old).DESCRIPTOR.name in _ELEMENT_PARENTS

        def label(one: Any, index: int) -> _Element:
            name = str(index if key is None else key(one))
            return (kind, name, "") if is_own else (element[0], element[1], _join(element[2], f"{kind} {name}"))

        # Equal elements at the start are pairs.
        start = 0
        for first, second in zip(ours, theirs, strict=False):
            if not self._are_same(first, second, path, start):
                break
            start += 1
        matches = match_elements(ours, theirs, start, key)
        left = bytearray(b"\1") * (len(theirs) - start)
        for index, other in enumerate(matches, start):
            one, here = ours[index], f"{path}[{index}]"
            if other < 0:
                yield Difference("removed", *label(one, index), here, old=text_of(one))
            else:
                left[other - start] = 0
                yield from self._named(one, theirs[other], here, label(one, index))
        for index, is_left in enumerate(left, start):
            if is_left:
                one = theirs[index]
                yield Difference("added", *label(one, index), f"{path}[{index}]", new=text_of(one))
        if field.name in ("input", "output"):
            # Callers can pass inputs by position, so the order of the inputs matters.
            paired = [other for other in matches if other >= 0]
            in_order = sorted(paired)
            if paired != in_order:
                orders = [[theirs[index].name for index in (*range(start), *order)] for order in (paired, in_order)]
                part = (element[0], element[1], _join(element[2], f"order of {field.name}s"))
                names = ValueInfoProto.DESCRIPTOR.fields_by_name["name"]
                texts = [describe_list(names, order, _MAX_ELEMENTS) for order in orders]
                yield Difference("changed", *part, path, texts[0], texts[1])

    def _named(self, old: Any, new: Any, path: str, element: _Element) -> Iterator[Difference]:
        """Compare two elements of one name; operator sets and entries are compared as a whole."""
        name = type(old).DESCRIPTOR.name
        if name == "OperatorSetIdProto":
            # The domain of ONNX's operators is "" or "ai.onnx".
            is_same = old.version == new.version
        elif name == "StringStringEntryProto":
            is_same = old == new
        else:
            yield from self._messages(old, new, path, element)
            return
        if not is_same:
            yield Difference("changed", *element, path, text_of(old), text_of(new))

    def _nodes(self, ours: Sequence[NodeProto], theirs: Sequence[NodeProto], path: str) -> Iterator[Difference]:
        # Usually most nodes at the start and at the end are the same.
        start, ends = 0, [len(ours), len(theirs)]
        while start < min(ends) and self._are_same(ours[start], theirs[start], path, start):
            start += 1
        while start < min(ends) and self._are_same(ours[ends[0] - 1], theirs[ends[1] - 1], path, ends[0] - 1):
            ends = [ends[0] - 1, ends[1] - 1]
        pairs = pair_nodes(ours, theirs, range(start, ends[0]), range(start, ends[1]))
        for index in range(start, ends[0]):
            node, here = ours[index], f"{path}[{index}]"
            if index in pairs:
                element = ("node", node_name(node), "")
                yield from self._messages(node, theirs[pairs[index]], here, element)
            else:
                yield Difference("removed", "node", node_name(node), "", here, old=text_of(node))
        found = set(pairs.values())
        for index in range(start, ends[1]):
            if index not in found:
                node = theirs[index]
                yield Difference("added", "node", node_name(node), "", f"{path}[{index}]", new=text_of(node))

    def _are_same(self, old: Any, new: Any, path: str, index: int | None = None) -> bool:
        """Return whether two messages are equal; False for large tensors and graphs, which are compared in parts."""
        is_tensor = isinstance(old, _TENSORS)
        if isinstance(old, _COMPARED_IN_PARTS) or (is_tensor and old.ByteSize() >= _SMALL_BYTES) or old != new:
            return False
        if self._external or self._progress is not None:
            tensors = ((old.values, old.indices) if isinstance(old, SparseTensorProto) else (old,)) if is_tensor else ()
            if any(map(is_external, tensors)) or (path if index is None else f"{path}[{index}]") in self._external:
                return False
            if self._progress is not None:
                self._report(sum(map(tensor_bytes, tensors)))
        return True

    def _attributes(
        self, old: AttributeProto, new: AttributeProto, path: str, element: _Element
    ) -> Iterator[Difference]:
        names = sorted({*old._present(), *new._present()} - {"name", "doc_string", "type"} - self.left_out)
        texts = [text_of(attribute) for attribute in (old, new)]
        values = self._fields(old, new, path, element, names)
        if old.type == new.type and (texts[0] == texts[1] or _NESTED_FIELDS.intersection(names)):
            # The text of the attribute does not show the differences.
            yield from values
        elif texts[0] != texts[1] and next(values, None) is not None:
            yield Difference("changed", *element, path, texts[0], texts[1])
        else:
            yield from self._fields(old, new, path, element, ["type"])
        yield from self._fields(old, new, path, element, ["doc_string"])

    def _tensors(self, old: TensorProto, new: TensorProto, path: str, element: _Element) -> Iterator[Difference]:
        types = [f"{name_of(tensor.data_type)} {list(tensor.dims)}" for tensor in (old, new)]
        names = [f.name for f in type(old).DESCRIPTOR.fields if f.name not in {"dims", "data_type", *_STORAGE}]
        yield from self._fields(old, new, path, element, names)
        is_comparable = self._weights and list(old.dims) == list(new.dims) and old.segment == new.segment
        weight_distance = None
        if is_comparable and (is_external(old) or not _is_small(old) or old != new):
            try:
                weight_distance = distance(old, new, self._report if self._progress is not None else None)
            except TensorError:
                # A damaged tensor equals a tensor of the same bytes; any other comparison is an error.
                if is_external(old) or old != new:
                    raise
        elif self._progress is not None:
            self._report(tensor_bytes(old))
        if types[0] != types[1]:
            part = (element[0], element[1], _join(element[2], "type"))
            yield Difference("changed", *part, path, types[0], types[1], weight_distance)
        elif weight_distance is not None and weight_distance.different:
            yield Difference("changed", *element, path, distance=weight_distance)

    def _report(self, done: int) -> None:
        self._done = min(self._done + done, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)


def _paired_tensors(old: ModelProto, new: ModelProto) -> Iterator[tuple[TensorProto, TensorProto]]:
    """Yield the pairs of tensors of one name, type and shape in the order of their comparison, for remote models."""
    if old._document.memory is None and new._document.memory is None:
        return
    partners = {_key(path, tensor): tensor for path, tensor in find_tensors(new)}
    for path, tensor in find_tensors(old):
        partner = partners.get(_key(path, tensor))
        if partner is not None:
            yield tensor, partner


def _key(path: str, tensor: TensorProto) -> tuple[object, ...]:
    return tensor.name or path, tensor.data_type, *tensor.dims


def _is_small(tensor: TensorProto) -> bool:
    return tensor_bytes(tensor) < _SMALL_BYTES


def _join(outer: str, inner: str) -> str:
    return f"{outer} {inner}" if outer else inner


def match_elements(
    ours: Sequence[Any], theirs: Sequence[Any], start: int, key: Callable[[Any], Hashable] | None
) -> Sequence[int]:
    """Return the index in `theirs` of the partner of each element of `ours` from `start` on, or -1.

    The nth element with a key is paired with the nth one with that key. A hostile model has millions of elements of two
    bytes, so no object is made for each.
    """
    n, m = len(ours), len(theirs)
    if key is None:
        return array("q", [*range(start, min(n, m))] + [-1] * max(n - m, 0))
    # The indexes of one key are a list, linked by `following`.
    first: dict[Hashable, int] = {}
    last: dict[Hashable, int] = {}
    following = array("q", [-1]) * (m - start)
    for index in range(start, m):
        name = key(theirs[index])
        before = last.get(name)
        if before is None:
            first[name] = index
        else:
            following[before - start] = index
        last[name] = index
    matches = array("q")
    for index in range(start, n):
        name = key(ours[index])
        other = first.get(name, -1)
        matches.append(other)
        if other >= 0:
            first[name] = following[other - start]
    return matches


def pair_nodes(
    ours: Sequence[NodeProto], theirs: Sequence[NodeProto], old_indexes: range, new_indexes: range
) -> dict[int, int]:
    """Pair nodes of one name, then nodes with the same outputs, then nodes with the same first output.

    Of several nodes of one name, those with the same outputs are pairs. Nodes with neither are pairs if they are equal.
    """
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    keys: list[Callable[[NodeProto], Hashable]] = [
        lambda node: (node.name, node.op_type, *node.output) if node.name else None,
        lambda node: (node.name, node.op_type) if node.name else None,
        lambda node: node.name or None,
        lambda node: tuple(node.output) or None,
        lambda node: next(filter(None, node.output), None),
        lambda node: node.SerializeToString() if not node.name and not any(node.output) else None,
    ]
    for key in keys:
        waiting: dict[Hashable, list[int]] = {}
        for index in new_indexes:
            if index not in taken and (value := key(theirs[index])) is not None:
                waiting.setdefault(value, []).append(index)
        for values in waiting.values():
            values.reverse()
        for index in old_indexes:
            if index not in pairs and (value := key(ours[index])) is not None and waiting.get(value):
                pairs[index] = waiting[value].pop()
                taken.add(pairs[index])
    return pairs


# Texts.


def node_name(node: NodeProto) -> str:
    """Return the name of a node, or a text for one without."""
    return node.name or f"{node.op_type} -> {', '.join(node.output)}"


def _value_text(value: ValueInfoProto) -> str:
    return describe_type(value.type)


def _are_alike(old: Any, new: Any) -> bool:
    """Return whether two values, or lists of values, are equal."""
    if isinstance(old, Repeated):
        return len(old) == len(new) and all(map(_are_alike, old, new))
    if isinstance(old, float):
        # Unlike `==`, this comparison treats NaN as equal to NaN, and 0 as different from -0.
        return (old != old and new != new) or (old == new and copysign(1, old) == copysign(1, new))
    return bool(old == new)


def _field_text(message: Any, field: FieldDescriptor) -> str | None:
    """Return the value of a singular field as text; None if it is absent."""
    if not message.HasField(field.name):
        return None
    return describe_value(field, getattr(message, field.name), _MAX_CHARS)


def text_of(element: Any) -> str | None:
    """Return a short text for an element; None if its name identifies the element sufficiently."""
    if isinstance(element, NodeProto):
        return describe_call(element)
    if isinstance(element, TensorProto):
        return f"{name_of(element.data_type)} {list(element.dims)}"
    if isinstance(element, SparseTensorProto):
        return f"{name_of(element.values.data_type)} {list(element.dims)}"
    if isinstance(element, ValueInfoProto):
        return _value_text(element)
    if isinstance(element, AttributeProto):
        return _attribute_text(element)
    name = type(element).DESCRIPTOR.name
    if name == "StringStringEntryProto":
        return describe_value(type(element).DESCRIPTOR.fields_by_name["value"], element.value, _MAX_CHARS)
    if name == "OperatorSetIdProto":
        return str(element.version)
    if name == "FunctionProto":
        return f"{len(element.node):,} node{'' if len(element.node) == 1 else 's'}"
    return None


def _attribute_text(attribute: AttributeProto) -> str:
    if attribute.ref_attr_name:
        return f"attribute {attribute.ref_attr_name} of the function"
    for field, value in attribute.ListFields():
        if field.name in ("name", "doc_string", "type"):
            continue
        if field.is_repeated and field.message_type is None:
            return describe_list(field, value, _MAX_ELEMENTS)
        if field.is_repeated:
            return f"{len(value):,} {field.name}"
        if field.name == "g":
            return f"a graph of {len(value.node):,} nodes"
        if field.name == "tp":
            return describe_type(value)
        if field.message_type is None:
            return describe_value(field, value, _MAX_CHARS)
        return text_of(value) or field.message_type.name
    return AttributeProto.AttributeType.Name(attribute.type).lower() if attribute.type else "nothing"


def _count(data: bytes) -> str:
    return f"{len(data):,} byte{'' if len(data) == 1 else 's'}"
