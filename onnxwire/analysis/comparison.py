"""Compares two models field by field: structure, and the values of weights."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import copysign

from onnxwire.analysis.describe import describe_call, describe_list, describe_type, describe_value
from onnxwire.analysis.tensor_distance import Distance, distance
from onnxwire.engine.repeated import Repeated
from onnxwire.errors import TensorError, count_text
from onnxwire.io.prefetch import fetch_in_order, open_external
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

_MAX_ELEMENTS = 24  # maximum number of elements of a list in a text
_MAX_CHARS = 200  # maximum number of characters of a value in a text
_MAX_SMALL_BYTES = 1 << 12  # tensors with fewer bytes are compared as messages first
_STORAGE_FIELDS = {"raw_data", *FIELDS, "external_data", "data_location"}
"""The fields that store or locate the elements of a tensor."""
_NESTED_FIELDS = {"t", "g", "tensors", "graphs", "sparse_tensor", "sparse_tensors"}
"""The fields of an attribute whose messages are compared field by field."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference of two models.

    change: the change from the first model to the second. "rewired" means that an input reads another value. "renamed"
    lists all new names in one difference, if nodes are matched by structure.
    kind, name: the kind and name of the element that differs. Kinds are "node", "tensor", "input", "output", "value",
    "opset", "metadata", "function", "graph", "model", ...; for "renamed", kind is "names", and name states how many.
    part: the part of the element that differs, such as "op_type" or "attribute axis"; "" for the whole element. path:
    the path of an added element in the second model, of any other element in the first; "" for "renamed". old, new:
    texts for people, or None.
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
_OWN_KIND_FIELDS = {
    "initializer", "sparse_initializer", "input", "output", "value_info", "opset_import", "metadata_props", "functions",
    "configuration",
}  # fmt: skip
"""The fields of a model or graph whose elements are reported by their own kind and name."""
_OWN_KIND_PARENTS = ("ModelProto", "GraphProto")  # elements of other messages are reported as parts

# Tuples, because creating a union of types takes longer than comparing an element.
_TENSOR_CLASSES = (TensorProto, SparseTensorProto)
_LARGE_CLASSES = (ModelProto, GraphProto)

_Element = tuple[str, str, str]
"""The kind and name of the element that is reported, and its part."""


class Comparison:
    """Compares two models.

    old: the first model. weights, progress: as for `diff`.
    skipped_fields: the fields of attributes that are not compared.
    """

    skipped_fields: frozenset[str] = frozenset()

    def __init__(self, old: ModelProto, weights: bool, progress: Callable[[int, int], object] | None) -> None:
        self._weights = weights
        self._progress = progress
        self._done_bytes = 0
        self._total_bytes = 0
        # The paths of all messages of `old` that contain tensors with external data. Equal messages of two models can
        # refer to different files.
        self._external_paths: set[str] = set()
        # For each pair of elements that contains the compared messages, its paths in the first and in the second model.
        self._pair_paths: list[tuple[str, str]] = []
        if weights:
            open_external(old)
        if weights or progress is not None:
            for path, tensor in find_tensors(old):
                self._total_bytes += tensor_bytes(tensor) if progress is not None else 0
                if is_external(tensor):
                    self._external_paths.update(path[:end] for end, char in enumerate(path) if char == ".")

    def compare(self, old: ModelProto, new: ModelProto) -> Iterator[Difference]:
        """Yield the differences of the models, and report the end of the progress."""
        if self._weights:
            open_external(new)
        with fetch_in_order(_paired_tensors(old, new) if self._weights else ()):
            yield from self._compare_messages(old, new, "", ("model", "", ""))
        self._report_end()

    def _report_end(self) -> None:
        """Report that all bytes were compared."""
        if self._progress is not None:
            self._progress(self._total_bytes, self._total_bytes)

    def _compare_messages(self, old: Any, new: Any, path: str, element: _Element) -> Iterator[Difference]:
        """Compare two messages of one class, field by field."""
        if self._skip_equal(old, new, path):
            return
        if isinstance(old, TensorProto):
            yield from self._compare_tensors(old, new, path, element)
            return
        if isinstance(old, SparseTensorProto):
            yield from self._compare_fields(old, new, path, element, ("dims",))
            for part in ("values", "indices"):
                part_element = (element[0], element[1], _join_parts(element[2], part))
                yield from self._compare_tensors(getattr(old, part), getattr(new, part), f"{path}.{part}", part_element)
            return
        if isinstance(old, ValueInfoProto) and _value_text(old) != _value_text(new):
            yield Difference("changed", *element, path, _value_text(old), _value_text(new))
            return
        if isinstance(old, GraphProto):
            element = ("graph", new.name or old.name, "")
        if isinstance(old, AttributeProto):
            yield from self._compare_attributes(old, new, path, element)
        else:
            yield from self._compare_fields(old, new, path, element, type(old).DESCRIPTOR.fields_by_name)
        old_unknown, new_unknown = old._unknown_fields(), new._unknown_fields()
        if old_unknown != new_unknown:
            yield Difference(
                "changed",
                *element[:2],
                _join_parts(element[2], "unknown fields"),
                path,
                _byte_count_text(old_unknown),
                _byte_count_text(new_unknown),
            )

    def _compare_fields(
        self, old: Any, new: Any, path: str, element: _Element, names: Iterable[str]
    ) -> Iterator[Difference]:
        """Compare the named fields of two messages of one class; skip fields that both lack."""
        present = {*old._present(), *new._present()}
        for name in names:
            if name not in present:
                continue
            field = type(old).DESCRIPTOR.fields_by_name[name]
            field_path = f"{path}.{name}" if path else name
            part_element = (element[0], element[1], _join_parts(element[2], name))
            if field.is_repeated and field.message_type is not None:
                if name == "node":
                    yield from self._compare_nodes(old.node, new.node, field_path)
                else:
                    yield from self._compare_elements(old, new, field, field_path, element)
            elif field.is_repeated:
                old_values, new_values = getattr(old, name), getattr(new, name)
                if not _are_equal(old_values, new_values):
                    texts = [describe_list(field, values, _MAX_ELEMENTS) for values in (old_values, new_values)]
                    yield Difference("changed", *part_element, field_path, texts[0], texts[1])
            elif field.message_type is not None:
                is_present = old.HasField(name), new.HasField(name)
                if all(is_present):
                    yield from self._compare_messages(getattr(old, name), getattr(new, name), field_path, part_element)
                elif is_present[0]:
                    yield Difference("removed", *part_element, field_path)
                elif is_present[1]:
                    yield Difference("added", *part_element, self._path_in_second(field_path))
            else:
                # An absent field equals its default, except in a oneof.
                is_present = old.HasField(name), new.HasField(name)
                is_other_member = field.containing_oneof is not None and is_present[0] != is_present[1]
                if is_other_member or (any(is_present) and not _are_equal(getattr(old, name), getattr(new, name))):
                    field_texts = [_field_text(message, field) for message in (old, new)]
                    yield Difference("changed", *part_element, field_path, field_texts[0], field_texts[1])

    def _compare_elements(
        self, old: Any, new: Any, field: FieldDescriptor, path: str, element: _Element
    ) -> Iterator[Difference]:
        """Compare a repeated field of messages. Elements are paired by key, or by index if `KEYS` lacks the field."""
        old_elements, new_elements = getattr(old, field.name), getattr(new, field.name)
        kind, key = KEYS.get(field.name, (field.name, None))
        has_own_kind = field.name in _OWN_KIND_FIELDS and type(old).DESCRIPTOR.name in _OWN_KIND_PARENTS

        def reported_element(value: Any, index: int) -> _Element:
            """Return the element that is reported for an element of the field."""
            name = str(index if key is None else key(value))
            return (
                (kind, name, "")
                if has_own_kind
                else (element[0], element[1], _join_parts(element[2], f"{kind} {name}"))
            )

        # Equal elements at the start are pairs; their keys need not be computed.
        start = 0
        for old_element, new_element in zip(old_elements, new_elements, strict=False):
            if not self._skip_equal(old_element, new_element, path, start):
                break
            start += 1
        matches = match_elements(old_elements, new_elements, start, key)
        is_unmatched = bytearray(b"\1") * (len(new_elements) - start)
        for index, new_index in enumerate(matches, start):
            value, element_path = old_elements[index], f"{path}[{index}]"
            if new_index < 0:
                yield Difference("removed", *reported_element(value, index), element_path, old=text_of(value))
            else:
                is_unmatched[new_index - start] = 0
                self._pair_paths.append((element_path, self._path_in_second(f"{path}[{new_index}]")))
                yield from self._compare_pair(
                    value, new_elements[new_index], element_path, reported_element(value, index)
                )
                self._pair_paths.pop()
        for index, is_added in enumerate(is_unmatched, start):
            if is_added:
                value, element_path = new_elements[index], self._path_in_second(f"{path}[{index}]")
                yield Difference("added", *reported_element(value, index), element_path, new=text_of(value))
        if field.name in ("input", "output"):
            # Callers can pass inputs and receive outputs by position, so the order of both matters.
            matched_indexes = [new_index for new_index in matches if new_index >= 0]
            sorted_indexes = sorted(matched_indexes)
            if matched_indexes != sorted_indexes:
                orders = [
                    [new_elements[index].name for index in (*range(start), *order)]
                    for order in (matched_indexes, sorted_indexes)
                ]
                part_element = (element[0], element[1], _join_parts(element[2], f"order of {field.name}s"))
                names = ValueInfoProto.DESCRIPTOR.fields_by_name["name"]
                texts = [describe_list(names, order, _MAX_ELEMENTS) for order in orders]
                yield Difference("changed", *part_element, path, texts[0], texts[1])

    def _compare_pair(self, old: Any, new: Any, path: str, element: _Element) -> Iterator[Difference]:
        """Compare two paired elements; operator sets, and entries such as metadata, are compared as a whole."""
        name = type(old).DESCRIPTOR.name
        if name == "OperatorSetIdProto":
            # The domain of ONNX's operators is "" or "ai.onnx".
            is_equal = old.version == new.version
        elif name == "StringStringEntryProto":
            is_equal = old == new
        else:
            yield from self._compare_messages(old, new, path, element)
            return
        if not is_equal:
            yield Difference("changed", *element, path, text_of(old), text_of(new))

    def _compare_nodes(
        self, old_nodes: Sequence[NodeProto], new_nodes: Sequence[NodeProto], path: str
    ) -> Iterator[Difference]:
        """Compare the nodes of two graphs or functions, paired by `pair_nodes`."""
        # Usually most nodes at the start and at the end are equal.
        start, ends = 0, [len(old_nodes), len(new_nodes)]
        while start < min(ends) and self._skip_equal(old_nodes[start], new_nodes[start], path, start):
            start += 1
        while start < min(ends) and self._skip_equal(old_nodes[ends[0] - 1], new_nodes[ends[1] - 1], path, ends[0] - 1):
            ends = [ends[0] - 1, ends[1] - 1]
        pairs = pair_nodes(old_nodes, new_nodes, range(start, ends[0]), range(start, ends[1]))
        for index in range(start, ends[0]):
            node, node_path = old_nodes[index], f"{path}[{index}]"
            if index in pairs:
                element = ("node", node_name(node), "")
                self._pair_paths.append((node_path, self._path_in_second(f"{path}[{pairs[index]}]")))
                yield from self._compare_messages(node, new_nodes[pairs[index]], node_path, element)
                self._pair_paths.pop()
            else:
                yield Difference("removed", "node", node_name(node), "", node_path, old=text_of(node))
        matched_indexes = set(pairs.values())
        for index in range(start, ends[1]):
            if index not in matched_indexes:
                node, node_path = new_nodes[index], self._path_in_second(f"{path}[{index}]")
                yield Difference("added", "node", node_name(node), "", node_path, new=text_of(node))

    def _path_in_second(self, path: str) -> str:
        """Return the path in the second model that corresponds to a path below the compared messages in the first."""
        if not self._pair_paths:
            return path
        old_path, new_path = self._pair_paths[-1]
        return new_path + path[len(old_path) :]

    def _skip_equal(self, old: Any, new: Any, path: str, index: int | None = None) -> bool:
        """Return whether two messages can be skipped because they are equal. Add an equal tensor to the progress.

        Returns False for models, graphs and large tensors, which are compared in parts. With `weights` or `progress`,
        also returns False for tensors with external data and for messages that contain them.
        path, index: the path of the old message, or of the list that contains it and its index.
        """
        is_tensor = isinstance(old, _TENSOR_CLASSES)
        if isinstance(old, _LARGE_CLASSES) or (is_tensor and old.ByteSize() >= _MAX_SMALL_BYTES) or old != new:
            return False
        if self._external_paths or self._progress is not None:
            tensors = ((old.values, old.indices) if isinstance(old, SparseTensorProto) else (old,)) if is_tensor else ()
            if (
                any(map(is_external, tensors))
                or (path if index is None else f"{path}[{index}]") in self._external_paths
            ):
                return False
            if self._progress is not None:
                self._report(sum(map(tensor_bytes, tensors)))
        return True

    def _compare_attributes(
        self, old: AttributeProto, new: AttributeProto, path: str, element: _Element
    ) -> Iterator[Difference]:
        """Compare two attributes of one name: in one difference if their texts show the change, else field by field."""
        names = sorted({*old._present(), *new._present()} - {"name", "doc_string", "type"} - self.skipped_fields)
        texts = [text_of(attribute) for attribute in (old, new)]
        differences = self._compare_fields(old, new, path, element, names)
        if old.type == new.type and (texts[0] == texts[1] or _NESTED_FIELDS.intersection(names)):
            # The text of the attribute does not show the differences.
            yield from differences
        elif texts[0] != texts[1] and next(differences, None) is not None:
            yield Difference("changed", *element, path, texts[0], texts[1])
        else:
            yield from self._compare_fields(old, new, path, element, ["type"])
            if texts[0] == texts[1]:
                common_names = [name for name in names if name in old._present() and name in new._present()]
                yield from self._compare_fields(old, new, path, element, common_names)
        yield from self._compare_fields(old, new, path, element, ["doc_string"])

    def _compare_tensors(
        self, old: TensorProto, new: TensorProto, path: str, element: _Element
    ) -> Iterator[Difference]:
        """Compare two tensors: the fields that do not store elements, the type and shape, and the values."""
        types = [f"{name_of(tensor.data_type)} {list(tensor.dims)}" for tensor in (old, new)]
        names = [
            field.name
            for field in type(old).DESCRIPTOR.fields
            if field.name not in {"dims", "data_type", *_STORAGE_FIELDS}
        ]
        yield from self._compare_fields(old, new, path, element, names)
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
            part_element = (element[0], element[1], _join_parts(element[2], "type"))
            yield Difference("changed", *part_element, path, types[0], types[1], weight_distance)
        elif weight_distance is not None and weight_distance.different:
            yield Difference("changed", *element, path, distance=weight_distance)

    def _report(self, n_bytes: int) -> None:
        """Report that a number of further bytes were compared."""
        self._done_bytes = min(self._done_bytes + n_bytes, self._total_bytes)
        if self._progress is not None:
            self._progress(self._done_bytes, self._total_bytes)


def _paired_tensors(old: ModelProto, new: ModelProto) -> Iterator[tuple[TensorProto, TensorProto]]:
    """Yield the pairs of tensors with equal names (equal paths if unnamed), types and shapes, in order of comparison.

    Yields no pair if both models are local, since only remote payloads are fetched ahead.
    """
    if old._document.memory is None and new._document.memory is None:
        return
    new_tensors = {_pair_key(path, tensor): tensor for path, tensor in find_tensors(new)}
    for path, tensor in find_tensors(old):
        new_tensor = new_tensors.get(_pair_key(path, tensor))
        if new_tensor is not None:
            yield tensor, new_tensor


def _pair_key(path: str, tensor: TensorProto) -> tuple[object, ...]:
    """Return a key that the tensors of a pair share."""
    return tensor.name or path, tensor.data_type, *tensor.dims


def _is_small(tensor: TensorProto) -> bool:
    """Return whether the payload of a tensor is small."""
    return tensor_bytes(tensor) < _MAX_SMALL_BYTES


def _join_parts(prefix: str, part: str) -> str:
    """Return the name of a part in another part: "attribute axis" and "t" become "attribute axis t"."""
    return f"{prefix} {part}" if prefix else part


def match_elements(
    old_elements: Sequence[Any], new_elements: Sequence[Any], start: int, key: Callable[[Any], Hashable] | None
) -> Sequence[int]:
    """Return the index in `new_elements` of the partner of each element of `old_elements` from `start` on, or -1.

    key: returns the key of an element; None to pair elements by index. The nth element with a key is paired with the
    nth new element with that key. A hostile model can have millions of elements of two bytes, so the result is an
    array without an object for each element.
    """
    n_old, n_new = len(old_elements), len(new_elements)
    if key is None:
        return array("q", [*range(start, min(n_old, n_new))] + [-1] * max(n_old - n_new, 0))
    # The indexes of one key are a list, linked by `next_indexes`.
    first_by_key: dict[Hashable, int] = {}
    last_by_key: dict[Hashable, int] = {}
    next_indexes = array("q", [-1]) * (n_new - start)
    for index in range(start, n_new):
        element_key = key(new_elements[index])
        previous = last_by_key.get(element_key)
        if previous is None:
            first_by_key[element_key] = index
        else:
            next_indexes[previous - start] = index
        last_by_key[element_key] = index
    matches = array("q")
    for index in range(start, n_old):
        element_key = key(old_elements[index])
        new_index = first_by_key.get(element_key, -1)
        matches.append(new_index)
        if new_index >= 0:
            first_by_key[element_key] = next_indexes[new_index - start]
    return matches


def pair_nodes(
    old_nodes: Sequence[NodeProto], new_nodes: Sequence[NodeProto], old_indexes: range, new_indexes: range
) -> dict[int, int]:
    """Pair nodes of one name, then nodes with the same outputs, then nodes with the same first named output.

    old_indexes, new_indexes: the indexes of the nodes to pair. Of several nodes of one name, those with the same
    operator and outputs are paired first, then those with the same operator. Nodes without a name and without outputs
    are paired if they are equal. Returns the index of the new node by the index of the old node.
    """
    pairs: dict[int, int] = {}
    paired_indexes: set[int] = set()
    keys: list[Callable[[NodeProto], Hashable]] = [
        lambda node: (node.name, node.op_type, *node.output) if node.name else None,
        lambda node: (node.name, node.op_type) if node.name else None,
        lambda node: node.name or None,
        lambda node: tuple(node.output) or None,
        lambda node: next(filter(None, node.output), None),
        lambda node: node.SerializeToString() if not node.name and not any(node.output) else None,
    ]
    for key in keys:
        unpaired_by_key: dict[Hashable, list[int]] = {}
        for index in new_indexes:
            if index not in paired_indexes and (node_key := key(new_nodes[index])) is not None:
                unpaired_by_key.setdefault(node_key, []).append(index)
        for indexes in unpaired_by_key.values():
            indexes.reverse()
        for index in old_indexes:
            if index not in pairs and (node_key := key(old_nodes[index])) is not None and unpaired_by_key.get(node_key):
                pairs[index] = unpaired_by_key[node_key].pop()
                paired_indexes.add(pairs[index])
    return pairs


def node_name(node: NodeProto) -> str:
    """Return the name of a node, or its operator and outputs if it has no name."""
    return node.name or f"{node.op_type} -> {', '.join(node.output)}"


def _value_text(value: ValueInfoProto) -> str:
    return describe_type(value.type)


def _are_equal(old: Any, new: Any) -> bool:
    """Return whether two values, or lists of values, are equal."""
    if isinstance(old, Repeated):
        return len(old) == len(new) and all(map(_are_equal, old, new))
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
    """Return a short text for an element; None if its name is sufficient."""
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
        return count_text(len(element.node), "node")
    return None


def _attribute_text(attribute: AttributeProto) -> str:
    """Return a short text for the value of an attribute."""
    if attribute.ref_attr_name:
        return f"attribute {attribute.ref_attr_name} of the function"
    for field, value in attribute.ListFields():
        if field.name in ("name", "doc_string", "type"):
            continue
        if field.is_repeated and field.message_type is None:
            return describe_list(field, value, _MAX_ELEMENTS)
        if field.is_repeated:
            return count_text(len(value), field.name.removesuffix("s"))  # such as "2 tensors"
        if field.name == "g":
            return f"a graph of {count_text(len(value.node), 'node')}"
        if field.name == "tp":
            return describe_type(value)
        if field.message_type is None:
            return describe_value(field, value, _MAX_CHARS)
        return text_of(value) or field.message_type.name
    type_name = AttributeProto.AttributeType.Name(attribute.type)
    return "[]" if type_name.endswith("S") else f"no value ({type_name})"  # the names of list types end with S


def _byte_count_text(data: bytes) -> str:
    return count_text(len(data), "byte")
