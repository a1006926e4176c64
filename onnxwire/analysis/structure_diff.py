"""The differences of two models whose nodes are matched by structure rather than by name."""

from __future__ import annotations

from functools import cache, partial
from hashlib import blake2b

from onnxwire.analysis.comparison import Comparison, Difference, node_name, text_of
from onnxwire.analysis.flat_graph import ABSENT, INITIALIZER, NODE, OUTPUT, FlatGraph, Interner, is_root
from onnxwire.analysis.structure_match import UNMATCHED, Matching
from onnxwire.errors import Error, SourceError, count_text
from onnxwire.messages import GraphProto, NodeProto, TensorProto, TrainingInfoProto, ValueInfoProto
from onnxwire.tensor.payload_digest import add_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from typing import Any

    from onnxwire.analysis.flat_graph import Place
    from onnxwire.engine.descriptor import FieldDescriptor
    from onnxwire.messages import ModelProto

_KINDS = ("node", "input", "tensor", "output")
_MATCHED_FIELDS = {"node", "input", "output", "initializer", "sparse_initializer", "value_info"}
"""The fields of graphs and functions that are compared by way of matching vertices and values."""
_MATCHED_MODEL_FIELDS = {"graph", "functions", "training_info"}
_BINDINGS = ("initialization_binding", "update_binding")
_NAMED = (NodeProto, TensorProto, ValueInfoProto)
_NOTES = ("doc_string", "metadata_props")
_NODE_NOTES = (*_NOTES, "device_configurations")
_NODE_FIELDS = ("op_type", "domain", "overload", "attribute", *_NODE_NOTES)


def structure_diff(
    old: ModelProto,
    new: ModelProto,
    *,
    weights: bool,
    by_name: bool,
    progress: Callable[[int, int], object] | None,
) -> Iterator[Difference]:
    """Yield the differences of two models whose nodes are matched by structure.

    weights: whether to match by payloads, too, and to compare their values. by_name: whether to match nodes of the same
    name and operator first. progress: as for `diff`. Raises the errors of `diff`.
    """
    yield from _StructureComparison(old, new, weights, by_name, progress).differences()


def payload_key(tensor: TensorProto) -> Hashable:
    """Return a digest of a tensor's payload, or a text for a payload that cannot be read."""
    digest = _hash_type()()
    try:
        add_payload(digest, tensor)
    except SourceError:
        raise
    except Error as error:
        return str(error)
    return bytes(digest.digest())


@cache
def _hash_type() -> Callable[[], Any]:
    try:
        from xxhash import xxh3_128
    except ImportError:
        return partial(blake2b, digest_size=16)
    return xxh3_128


def _no_key(tensor: TensorProto) -> Hashable:
    return None


class _StructureComparison(Comparison):
    """Compares two models along the vertices that match."""

    left_out = frozenset({"g", "graphs"})

    def __init__(
        self,
        old: ModelProto,
        new: ModelProto,
        weights: bool,
        by_name: bool,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        super().__init__(old, weights, progress)
        self._models = old, new
        intern = Interner()
        key = payload_key if weights else _no_key
        self._graphs = FlatGraph(old, intern, key), FlatGraph(new, intern, key)
        matching = Matching(*self._graphs, by_name=by_name)
        self._new_of, self._old_of = matching.new_of, matching.old_of
        self._edges = matching.edges
        self._rewired = matching.rewired()
        self._renamed: dict[str, dict[str, str]] = {"nodes": {}, "values": {}}

    def differences(self) -> Iterator[Difference]:
        """Yield the differences: nodes and tensors, then connections, then everything else, then the renames."""
        old, new = self._models
        yield from self._vertices()
        yield from self._connections()
        yield from self._value_infos()
        model_fields = [name for name in type(old).DESCRIPTOR.fields_by_name if name not in _MATCHED_MODEL_FIELDS]
        yield from self._fields(old, new, "", ("model", "", ""), model_fields)
        yield from self._bindings(old, new)
        yield from self._scopes()
        counts = [count_text(len(names), kind[:-1]) for kind, names in self._renamed.items() if names]
        if counts:
            yield Difference("renamed", "names", " and ".join(counts), "", "", names=self._renamed)
        self._finish()

    def _vertices(self) -> Iterator[Difference]:
        """Yield removed, changed and added nodes, tensors, inputs and outputs; record their new names."""
        old, new = self._graphs
        for vertex, other in enumerate(self._new_of):
            kind = old.kinds[vertex]
            if other == UNMATCHED:
                if kind != OUTPUT or is_root(old.scope_paths[old.scopes[vertex]]):
                    yield self._whole("removed", old, vertex)
                continue
            if kind == NODE:
                self._note("nodes", old.names[vertex], new.names[other])
            for name, other_name in zip(old.outputs[vertex], new.outputs[other], strict=False):
                self._note("values", name, other_name)
            yield from self._pair(kind, vertex, other)
        for vertex, other in enumerate(self._old_of):
            if other == UNMATCHED:
                kind = new.kinds[vertex]
                if kind != OUTPUT or is_root(new.scope_paths[new.scopes[vertex]]):
                    yield self._whole("added", new, vertex)

    def _note(self, kind: str, old: str, new: str) -> None:
        if old != new:
            self._renamed[kind][old] = new

    def _whole(self, change: Any, graph: FlatGraph, vertex: int) -> Difference:
        message = graph.message(vertex)
        kind = graph.kinds[vertex]
        is_text = isinstance(message, str)
        name = node_name(message) if kind == NODE else graph.names[vertex]
        text = None if is_text else text_of(message)
        old, new = (text, None) if change == "removed" else (None, text)
        return Difference(change, _KINDS[kind], name, "", graph.path(vertex), old, new)

    def _pair(self, kind: int, vertex: int, other: int) -> Iterator[Difference]:
        """Yield the differences of two matching messages except names and connections."""
        old, new = self._graphs
        is_alike = self._weights and old.labels[vertex] == new.labels[other]
        if is_alike and kind in (NODE, INITIALIZER) and not (old.has_notes[vertex] or new.has_notes[other]):
            return
        ours, theirs = old.message(vertex), new.message(other)
        if isinstance(ours, str) or type(ours) is not type(theirs):
            return
        path = old.path(vertex)
        if kind == NODE:
            element = ("node", node_name(ours), "")
            yield from self._fields(ours, theirs, path, element, _NODE_NOTES if is_alike else _NODE_FIELDS)
        elif is_alike and kind == INITIALIZER:
            yield from self._fields(ours, theirs, path, ("tensor", old.names[vertex], ""), _NOTES)
        else:
            yield from self._messages(ours, theirs, path, (_KINDS[kind], old.names[vertex], ""))

    def _fields(self, old: Any, new: Any, path: str, element: Any, names: Iterable[str]) -> Iterator[Difference]:
        """Compare fields, but not the names of nodes, tensors and values."""
        if isinstance(old, _NAMED):
            names = [name for name in names if name != "name"]
        return super()._fields(old, new, path, element, names)

    def _elements(self, old: Any, new: Any, field: FieldDescriptor, path: str, element: Any) -> Iterator[Difference]:
        """Compare a repeated field. Annotations of values are paired by the new names of the values."""
        if field.name == "quantization_annotation":
            old = self._with_new_names(old)
        return super()._elements(old, new, field, path, element)

    def _with_new_names(self, graph: GraphProto) -> GraphProto:
        """Return a graph with the annotations of a graph of `old`, in the names of `new`."""
        names = self._renamed["values"]
        result = GraphProto(quantization_annotation=graph.quantization_annotation)
        for annotation in result.quantization_annotation:
            annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
            for entry in annotation.quant_parameter_tensor_names:
                entry.value = names.get(entry.value, entry.value)
        return result

    def _bindings(self, old: ModelProto, new: ModelProto) -> Iterator[Difference]:
        """Yield the differences of the training bindings, which name values."""
        names = self._renamed["values"]
        for index in range(max(len(old.training_info), len(new.training_info))):
            ours, theirs = TrainingInfoProto(), TrainingInfoProto()
            for side, model in ((ours, old), (theirs, new)):
                if index < len(model.training_info):
                    for field in _BINDINGS:
                        getattr(side, field).extend(getattr(model.training_info[index], field))
            for entry in (*ours.initialization_binding, *ours.update_binding):
                entry.key, entry.value = names.get(entry.key, entry.key), names.get(entry.value, entry.value)
            path = f"training_info[{index}]"
            yield from self._fields(ours, theirs, path, ("model", "", path), _BINDINGS)

    def _connections(self) -> Iterator[Difference]:
        """Yield the inputs that read another value: one difference for each pair of old and new value."""
        old, new = self._graphs
        uses: dict[tuple[Place, Place], list[tuple[int, int]]] = {}
        for vertex in self._rewired:
            ours, theirs = self._edges[0][vertex], self._edges[1][self._new_of[vertex]]
            others = {slot: (source, output) for source, output, slot in theirs}
            for source, output, slot in ours:
                there = others.pop(slot, (ABSENT, 0))
                if (self._new_of[source] if source != ABSENT else ABSENT, output) != there:
                    uses.setdefault(((source, output), there), []).append((vertex, slot))
            for slot, there in others.items():
                if there[0] != ABSENT:
                    uses.setdefault(((ABSENT, 0), there), []).append((vertex, slot))
        for (before, after), users in uses.items():
            vertex, slot = users[0]
            kind = _KINDS[old.kinds[vertex]]
            name = node_name(old.message(vertex)) if old.kinds[vertex] == NODE else old.names[vertex]
            part = f"input {slot}" if kind == "node" and slot >= 0 else ""
            if len(users) > 1:
                part += f" and {count_text(len(users) - 1, 'other use')}"
            yield Difference(
                "rewired", kind, name, part, old.path(vertex), old.value_name(before), new.value_name(after)
            )

    def _value_infos(self) -> Iterator[Difference]:
        """Yield the changed types of matching values."""
        types = [_value_infos_of(graph) for graph in self._graphs]
        if not types[0] or not types[1]:
            return
        for vertex, other in enumerate(self._new_of):
            if other == UNMATCHED:
                continue
            scopes = self._graphs[0].scopes[vertex], self._graphs[1].scopes[other]
            for name, other_name in zip(self._graphs[0].outputs[vertex], self._graphs[1].outputs[other], strict=False):
                ours, theirs = types[0].get((scopes[0], name)), types[1].get((scopes[1], other_name))
                if ours is not None and theirs is not None and ours[1].type != theirs[1].type:
                    path = f"{self._graphs[0].scope_paths[scopes[0]]}.value_info[{ours[0]}]"
                    yield from self._fields(ours[1], theirs[1], path, ("value", name, ""), ["type"])

    def _scopes(self) -> Iterator[Difference]:
        """Yield the differences of graphs and functions, except those of nodes and values."""
        scopes = [dict(graph.root_scopes()) for graph in self._graphs]
        for key in [*scopes[0], *(key for key in scopes[1] if key not in scopes[0])]:
            ours, theirs = scopes[0].get(key), scopes[1].get(key)
            kind = "graph" if is_root(key) else "function"
            if ours is None or theirs is None:
                path = (ours or theirs or ("",))[0]
                yield Difference("added" if ours is None else "removed", kind, key, "", path)
                continue
            names = [name for name in type(ours[1]).DESCRIPTOR.fields_by_name if name not in _MATCHED_FIELDS]
            name = ours[1].name if kind == "graph" else key
            yield from self._fields(ours[1], theirs[1], ours[0], (kind, name, ""), names)


def _value_infos_of(graph: FlatGraph) -> dict[tuple[int, str], tuple[int, Any]]:
    """Return the value_info entries of all graphs and functions with their indexes, by scope and name."""
    return {
        (scope, value.name): (index, value)
        for scope, message in enumerate(graph.scope_messages)
        for index, value in enumerate(message.value_info)
    }
