"""The differences of two models whose nodes are matched by structure rather than by name."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from hashlib import blake2b

from onnxwire.analysis.comparison import Comparison, Difference, node_name, text_of
from onnxwire.analysis.flat_graph import FlatGraph, Interner, changed_types
from onnxwire.analysis.structure_match import UNMATCHED, Matching
from onnxwire.engine.write import chunks_of, encode_pieces
from onnxwire.errors import Error, SourceError, count_text
from onnxwire.io.tensor_list import is_external
from onnxwire.messages import GraphProto, NodeProto, TensorProto, TrainingInfoProto, ValueInfoProto
from onnxwire.tensor.dtypes import BY_NUMBER
from onnxwire.tensor.payload_digest import add_payload, small_payload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from typing import Any

    from onnxwire.engine.descriptor import FieldDescriptor
    from onnxwire.messages import FunctionProto, ModelProto

    Scope = GraphProto | FunctionProto
    Value = tuple[int, int]
    """The value at an output of a vertex: the indexes of the vertex and of the output."""

_ABSENT_SOURCE = (UNMATCHED, 0)  # the source of an omitted input
_MATCHED_FIELDS = {"node", "input", "output", "initializer", "sparse_initializer", "value_info"}
"""The fields of graphs and functions that are compared by comparing matched vertices and values."""
_MATCHED_MODEL_FIELDS = {"graph", "functions", "training_info"}
"""The fields of the model whose contents are compared as graphs, functions and bindings."""
_BINDINGS = ("initialization_binding", "update_binding")
_NAMED_CLASSES = (NodeProto, TensorProto, ValueInfoProto)
"""The messages whose names are not compared; new names are reported together."""
_ANNOTATION_FIELDS = ("doc_string", "metadata_props")
_NODE_ANNOTATION_FIELDS = (*_ANNOTATION_FIELDS, "device_configurations")
_MAX_SMALL_BYTES = 1 << 12  # maximum size of an encoded tensor that is copied before its payload is read
_CHUNK_BYTES = 1 << 22  # bytes of an encoded tensor that are hashed at once
# The fields of nodes that are compared. With `weights`, only the annotations are compared if the labels of the two
# nodes (see `Vertex` in flat_graph.pxd) are equal.
_NODE_FIELDS = ("op_type", "domain", "overload", "attribute", *_NODE_ANNOTATION_FIELDS)


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
    """Return a digest of a tensor's payload; a text if it is damaged, not allowed or of an unknown data type.

    The text depends on the fault and on all fields of the tensor except name, doc_string and metadata_props.
    Raises SourceError for a file that cannot be read.
    """
    if tensor.ByteSize() > _MAX_SMALL_BYTES or is_external(tensor):
        return _read_key(tensor, tensor)
    payload = small_payload(tensor)
    if payload is None:
        return _key_of_bytes(_without_name(tensor).SerializeToString(deterministic=True))
    digest = _hash_type()()
    digest.update(payload)
    return bytes(digest.digest())


@lru_cache(1024)
def _key_of_bytes(encoded: bytes) -> Hashable:
    """Return the key of an encoded tensor.

    The cache serves damaged files, which can have hundreds of thousands of equal tensors.
    """
    tensor = TensorProto.FromString(encoded)
    return _read_key(tensor, _without_name(tensor))


def _read_key(tensor: TensorProto, payload_tensor: TensorProto) -> Hashable:
    """Return the key of a tensor. payload_tensor: the tensor or a copy without its name; its payload is read."""
    digest = _hash_type()()
    reason = f"data_type {tensor.data_type}"
    if tensor.data_type in BY_NUMBER:
        try:
            add_payload(digest, payload_tensor)  # an error of a copy is raised without computing its path
            return bytes(digest.digest())
        except SourceError:
            raise
        except Error as error:
            reason = getattr(error, "reason", "")
    if payload_tensor is tensor:
        payload_tensor = _without_name(tensor)
    _, pieces = encode_pieces(payload_tensor, True, None)
    for chunk in chunks_of(pieces, _CHUNK_BYTES):
        digest.update(chunk)
    return f"{reason} {digest.hexdigest()}"


def _without_name(tensor: TensorProto) -> TensorProto:
    """Return a copy of a tensor without its name, doc_string and metadata_props."""
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.ClearField("name")
    copy.ClearField("doc_string")
    copy.ClearField("metadata_props")
    return copy


@cache
def _hash_type() -> Callable[[], Any]:
    """Return the type of digests: XXH3, or BLAKE2b if xxhash is not installed."""
    try:
        from xxhash import xxh3_128
    except ImportError:
        return partial(blake2b, digest_size=16)
    return xxh3_128


def _empty_key(tensor: TensorProto) -> Hashable:
    """Return one key for all payloads."""
    return None


class _StructureComparison(Comparison):
    """Compares two models by their matching vertices. The arguments are those of `structure_diff`."""

    skipped_fields = frozenset({"g", "graphs"})

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
        interner = Interner()
        key = payload_key if weights else _empty_key
        self._graphs = FlatGraph(old, interner, key), FlatGraph(new, interner, key)
        matching = Matching(*self._graphs, by_name=by_name)
        self._new_of, self._old_of = matching.new_of, matching.old_of
        self._edges = matching.edges
        self._matching = matching
        self._new_names = matching.new_names()

    def differences(self) -> Iterator[Difference]:
        """Yield the differences: nodes and tensors, connections, other fields, and finally the new names."""
        old, new = self._models
        yield from self._compare_vertices()
        yield from self._compare_connections()
        yield from self._compare_types()
        model_fields = [name for name in type(old).DESCRIPTOR.fields_by_name if name not in _MATCHED_MODEL_FIELDS]
        yield from self._compare_fields(old, new, "", ("model", "", ""), model_fields)
        yield from self._compare_bindings(old, new)
        yield from self._compare_scopes()
        # The kinds are "nodes" and "values"; count_text adds the s.
        counts = [count_text(len(names), kind[:-1]) for kind, names in self._new_names.items() if names]
        if counts:
            yield Difference("renamed", "names", " and ".join(counts), "", "", names=self._new_names)
        self._report_end()

    def _compare_vertices(self) -> Iterator[Difference]:
        """Yield removed, changed and added nodes, tensors, inputs and outputs."""
        old, new = self._graphs
        for vertex in self._matching.unequal_vertices(self._weights):
            if self._new_of[vertex] != UNMATCHED:
                yield from self._compare_pair_of_vertices(vertex, self._new_of[vertex])
            elif old.kind(vertex) != "output" or old.is_of_root_graph(vertex):
                yield self._vertex_difference("removed", old, vertex)
        for vertex, old_vertex in enumerate(self._old_of):
            if old_vertex == UNMATCHED and (new.kind(vertex) != "output" or new.is_of_root_graph(vertex)):
                yield self._vertex_difference("added", new, vertex)

    def _vertex_difference(self, change: Any, graph: FlatGraph, vertex: int) -> Difference:
        """Return the difference for a vertex without a match. change: "added" or "removed"."""
        message = graph.message(vertex)
        text = None if isinstance(message, str) else text_of(message)
        old, new = (text, None) if change == "removed" else (None, text)
        return Difference(change, graph.kind(vertex), _name_of(graph, vertex), "", graph.path(vertex), old, new)

    def _compare_pair_of_vertices(self, vertex: int, new_vertex: int) -> Iterator[Difference]:
        """Yield the differences of two matching messages except names and connections."""
        old, new = self._graphs
        kind = old.kind(vertex)
        has_equal_label = self._weights and self._matching.has_equal_label(vertex)
        old_message, new_message = old.message(vertex), new.message(new_vertex)
        if isinstance(old_message, str) or type(old_message) is not type(new_message):
            return
        path = old.path(vertex)
        element = (kind, _name_of(old, vertex), "")
        if kind == "node":
            yield from self._compare_fields(
                old_message, new_message, path, element, _NODE_ANNOTATION_FIELDS if has_equal_label else _NODE_FIELDS
            )
        elif has_equal_label and kind == "tensor":
            yield from self._compare_fields(old_message, new_message, path, element, _ANNOTATION_FIELDS)
        else:
            yield from self._compare_messages(old_message, new_message, path, element)

    def _compare_fields(
        self, old: Any, new: Any, path: str, element: Any, names: Iterable[str]
    ) -> Iterator[Difference]:
        """Compare fields, but not the names of nodes, tensors and values."""
        if isinstance(old, _NAMED_CLASSES):
            names = [name for name in names if name != "name"]
        return super()._compare_fields(old, new, path, element, names)

    def _compare_elements(
        self, old: Any, new: Any, field: FieldDescriptor, path: str, element: Any
    ) -> Iterator[Difference]:
        """Compare a repeated field. Quantization annotations are paired by the new names of their values."""
        if field.name == "quantization_annotation":
            old = self._with_new_names(old)
        return super()._compare_elements(old, new, field, path, element)

    def _with_new_names(self, graph: GraphProto) -> GraphProto:
        """Return a GraphProto with only the quantization annotations of `graph`, with the new names of values."""
        names = self._new_names["values"]
        result = GraphProto(quantization_annotation=graph.quantization_annotation)
        for annotation in result.quantization_annotation:
            annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
            for entry in annotation.quant_parameter_tensor_names:
                entry.value = names.get(entry.value, entry.value)
        return result

    def _compare_bindings(self, old: ModelProto, new: ModelProto) -> Iterator[Difference]:
        """Yield the differences of the training bindings, which name values."""
        names = self._new_names["values"]
        for index in range(max(len(old.training_info), len(new.training_info))):
            old_bindings, new_bindings = TrainingInfoProto(), TrainingInfoProto()
            for bindings, model in ((old_bindings, old), (new_bindings, new)):
                if index < len(model.training_info):
                    for field in _BINDINGS:
                        getattr(bindings, field).extend(getattr(model.training_info[index], field))
            for entry in (*old_bindings.initialization_binding, *old_bindings.update_binding):
                entry.key, entry.value = names.get(entry.key, entry.key), names.get(entry.value, entry.value)
            path = f"training_info[{index}]"
            yield from self._compare_fields(old_bindings, new_bindings, path, ("model", "", path), _BINDINGS)

    def _compare_connections(self) -> Iterator[Difference]:
        """Yield the inputs that read another value: one difference for each pair of old and new value."""
        old, new = self._graphs
        # By old and new value: the vertex and the port (see `Edge` in flat_graph.pxd) of each input that reads the new
        # value instead of the old one.
        uses: dict[tuple[Value, Value], list[tuple[int, int]]] = {}
        for vertex in self._matching.rewired_vertices():
            old_edges, new_edges = self._edges[0][vertex], self._edges[1][self._new_of[vertex]]
            new_values = {port: (source, output) for source, output, port in new_edges}
            for source, output, port in old_edges:
                new_value = new_values.pop(port, _ABSENT_SOURCE)
                new_source = self._new_of[source] if source != UNMATCHED else UNMATCHED
                # An output of a nested graph that is absent in the new model is not listed as a removed element.
                is_removed_output = source != new_source == UNMATCHED and old.kind(source) == "output"
                if is_removed_output or (new_source, output) != new_value:
                    uses.setdefault(((source, output), new_value), []).append((vertex, port))
            for port, new_value in new_values.items():
                if new_value != _ABSENT_SOURCE:
                    uses.setdefault((_ABSENT_SOURCE, new_value), []).append((vertex, port))
        for (old_value, new_value), users in uses.items():
            vertex, port = users[0]
            kind = old.kind(vertex)
            part = f"input {port}" if kind == "node" and port >= 0 else ""
            if len(users) > 1:
                part += f"{' and' if part else 'with'} {count_text(len(users) - 1, 'other use')}"
            texts = _source_name(old, old_value), _source_name(new, new_value)
            yield Difference("rewired", kind, _name_of(old, vertex), part, old.path(vertex), *texts)

    def _compare_types(self) -> Iterator[Difference]:
        """Yield the changed types of matching values."""
        old, new = self._graphs
        for vertex, output, old_row, new_row in changed_types(old, new, self._new_of):
            path, scope = old.scope_of(vertex)
            old_info, new_info = scope.value_info[old_row], new.scope_of(self._new_of[vertex])[1].value_info[new_row]
            if old_info.type != new_info.type:
                element = ("value", old.value_name(vertex, output), "")
                yield from self._compare_fields(old_info, new_info, f"{path}.value_info[{old_row}]", element, ["type"])

    def _compare_scopes(self) -> Iterator[Difference]:
        """Yield the differences of functions and of graphs that are not nested, except those of nodes and values."""
        old, new = map(_roots_by_key, self._graphs)
        for key, (path, scope) in {**old, **{key: root for key, root in new.items() if key not in old}}.items():
            kind = "graph" if isinstance(scope, GraphProto) else "function"
            if key not in old or key not in new:
                yield Difference("removed" if key in old else "added", kind, key, "", path)
                continue
            names = [name for name in type(scope).DESCRIPTOR.fields_by_name if name not in _MATCHED_FIELDS]
            name = scope.name if kind == "graph" else key
            yield from self._compare_fields(scope, new[key][1], path, (kind, name, ""), names)


def _name_of(graph: FlatGraph, vertex: int) -> str:
    return node_name(graph.message(vertex)) if graph.kind(vertex) == "node" else graph.name(vertex)


def _source_name(graph: FlatGraph, value: Value) -> str:
    """Return the name of the value at the source of an edge: an output of a vertex, or of a nested graph."""
    vertex, _ = value
    is_output = vertex != UNMATCHED and graph.kind(vertex) == "output"
    return graph.name(vertex) if is_output else graph.value_name(*value)


def _roots_by_key(graph: FlatGraph) -> dict[str, tuple[str, Scope]]:
    """Return the path and message of each graph and function that is not nested, by key."""
    roots = map(graph.root, range(graph.scope_count()))
    return dict(_scope_key(root) for root in roots if root is not None)


def _scope_key(root: tuple[str, Scope]) -> tuple[str, tuple[str, Scope]]:
    """Return a key of a graph or function that does not depend on the order of functions, and the root itself."""
    path, scope = root
    if isinstance(scope, GraphProto):
        return path, root
    return f"{scope.domain}.{scope.name}{f':{scope.overload}' if scope.overload else ''}", root
