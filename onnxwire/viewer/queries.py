"""Queries of the page about a model.

Results are values that json can encode. Each query reads only the necessary parts of the model.
"""

from __future__ import annotations

import heapq
import re
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from onnxwire.analysis.describe import describe_list, describe_number, describe_type, describe_value
from onnxwire.analysis.paths import resolve
from onnxwire.analysis.summary import summarize
from onnxwire.engine.message import Message
from onnxwire.engine.search import Paths, Search
from onnxwire.errors import PathError, count_text
from onnxwire.io.tensor_list import find_tensors, tensor_bytes
from onnxwire.messages import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
)
from onnxwire.tensor.dtypes import name_of
from onnxwire.viewer.field_tree import MAX_ROWS
from onnxwire.viewer.neighbourhood import Connections, Scope, draw_around
from onnxwire.viewer.tensor_queries import TensorQueries, shorten, tensor_row

if TYPE_CHECKING:
    from onnxwire.viewer.graph_map import ModelMap

_MAX_CACHED_ANSWERS = 16  # maximum number of cached searches, connections of graphs and other answers
_MAX_GRAPHS = 5000  # maximum number of graphs and functions in an outline
_MAX_ELEMENTS = 16  # maximum number of elements of an attribute, or of a list of consumers
_MAX_TEXT_CHARS = 400  # maximum length of the text of a string attribute
_MAX_DOC_CHARS = 8000  # maximum length of an operator's documentation
_MAX_HOPS = 6  # maximum number of steps from the central node of a drawing


class Queries(TensorQueries):
    """The queries of the page about one model. Thread-safe.

    model: the loaded model, which must not be edited.
    """

    def __init__(self, model: ModelProto) -> None:
        super().__init__(model)
        self.model = model
        self._lock = threading.Lock()
        self._map_lock = threading.Lock()
        self._cache: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self.marks: Callable[[], dict[str, str] | None] | None = None
        """Returns the marks of nodes on the map by path, None before they are known; set if two models are compared."""

    def summary(self) -> dict[str, Any]:
        """Return the output of `onnxwire info --json`, the 12 largest tensors, and the paths of inputs and outputs."""
        return self._cached(("summary",), self._make_summary)  # type: ignore[no-any-return]

    def _make_summary(self) -> dict[str, Any]:
        """Compute the answer of `summary`."""
        summary = summarize(self.model)
        summary["tensors"]["largest"] = largest_tensors(self.model, 12)
        for field in ("input", "output"):
            paths = {value.name: f"graph.{field}[{i}]" for i, value in enumerate(getattr(self.model.graph, field))}
            for row in summary["graph"][f"{field}s"]:
                row["path"] = paths[row["name"]]
        return summary

    def outline(self) -> dict[str, Any]:
        """List the main graph, graphs in attributes, graphs for training, and functions.

        Returns left_off, the number of graphs and functions that are not listed, and rows, with depth in the tree,
        path, kind (graph, subgraph, function or training), name, nodes and tensors (the numbers of nodes and
        initializers), and `of`, the operator and name of the node that has a subgraph.
        """
        return self._cached(("outline",), self._make_outline)  # type: ignore[no-any-return]

    def _make_outline(self) -> dict[str, Any]:
        """Compute the answer of `outline`."""
        rows: list[dict[str, Any]] = []
        left_off = 0
        classes: list[type[Message]] = [GraphProto, FunctionProto]
        message: Any
        for path, message in Search(self.model, classes):
            if len(rows) >= _MAX_GRAPHS:
                left_off += 1
                continue
            row: dict[str, Any] = {"path": path, "name": message.name, "nodes": len(message.node), "of": ""}
            row["depth"] = path.count(".attribute[")
            row["tensors"] = len(message.initializer) if isinstance(message, GraphProto) else 0
            row["kind"] = "subgraph" if row["depth"] else "graph"
            if isinstance(message, FunctionProto):
                row["kind"] = "function"
                row["name"] = f"{message.domain}.{message.name}" if message.domain else message.name
            elif path.startswith("training_info"):
                row["kind"] = "training" if not row["depth"] else "subgraph"
            if row["depth"]:
                owner, _, attribute = path.rpartition(".attribute[")
                node: NodeProto = resolve(self.model, owner).value
                owner_attribute = node.attribute[int(attribute.partition("]")[0])]
                row["of"] = f"{node.op_type} {node.name}".strip()
                row["name"] = f"{owner_attribute.name}: {message.name}" if message.name else owner_attribute.name
            rows.append(row)
        return {"rows": rows, "left_off": left_off}

    def nodes(self, scope: str = "graph", search: str = "", start: int = 0, count: int = 100) -> dict[str, Any]:
        """List some nodes of a graph or function.

        scope: the path of the graph or function. search: words that must all occur in the node's name, operator, domain
        or values, ignoring case. start: the index of the first row among the matches; count: the number of rows, up to
        1,000.
        Returns total (the number of matches) and rows: index, path, name (for an unnamed node, its first output),
        op_type, domain.
        """
        nodes = self._resolve_scope(scope).node
        indices = self._find_matches(("nodes", scope, search), search, lambda: map(_node_text, nodes))
        matches = indices if indices is not None else range(len(nodes))
        rows = []
        for index in matches[max(start, 0) : max(start, 0) + min(max(count, 0), MAX_ROWS)]:
            node = nodes[index]
            rows.append(
                {
                    "index": index,
                    "path": f"{scope}.node[{index}]",
                    "name": node.name or next(iter(node.output), ""),
                    "op_type": node.op_type,
                    "domain": node.domain,
                }
            )
        return {"total": len(matches), "rows": rows}

    def tensors(self, scope: str = "graph", search: str = "", start: int = 0, count: int = 100) -> dict[str, Any]:
        """List some tensors of a graph or function.

        search: words that must all occur in the tensor's name or data type, ignoring case. Other arguments: as for
        `nodes`. The initializers come first, then all other tensors: those in attributes, in graphs in attributes, and
        in sparse initializers.
        Returns total and rows: index, path, name, data_type, shape, bytes.
        """
        initializers = getattr(self._resolve_scope(scope), "initializer", ())
        n_initializers = len(initializers)
        paths, other_indices = self._cached(("tensors", scope), lambda: self._other_tensors(scope))

        def texts() -> Iterator[str]:
            yield from map(_tensor_text, initializers)
            for path_index in other_indices:
                tensor, name = self._find_named_tensor(f"{scope}.{paths[path_index]}")
                yield f"{name}\n{_tensor_text(tensor)}"

        indices = self._find_matches(("found tensors", scope, search), search, texts)
        matches = indices if indices is not None else range(n_initializers + len(other_indices))
        rows = []
        for index in matches[max(start, 0) : max(start, 0) + min(max(count, 0), MAX_ROWS)]:
            if index < n_initializers:
                row = tensor_row(initializers[index], f"{scope}.initializer[{index}]")
            else:
                path = f"{scope}.{paths[other_indices[index - n_initializers]]}"
                tensor, name = self._find_named_tensor(path)
                row = tensor_row(tensor, path) | {"name": name}
            rows.append({"index": index} | row)
        return {"total": len(matches), "rows": rows}

    def _other_tensors(self, scope: str) -> tuple[Paths, array[int]]:
        """Return the paths in a graph or function, and the indices of the paths of tensors other than initializers."""
        paths, other_indices = Paths(), array("q")
        for path_index, _ in Search(self._resolve_scope(scope), [TensorProto], paths):
            if not paths[path_index].startswith("initializer["):
                other_indices.append(path_index)
        return paths, other_indices

    def _find_named_tensor(self, path: str) -> tuple[TensorProto, str]:
        """Return a tensor and its name.

        The name of an unnamed tensor is the first output of the node (such as Constant) that has the tensor in the
        field `t` of an attribute, or else the path.
        """
        tensor: TensorProto = resolve(self.model, path).value
        owner, _, attribute = path.rpartition(".attribute[")
        if tensor.name or not owner or not attribute.endswith("].t"):
            return tensor, tensor.name or path
        return tensor, next(iter(resolve(self.model, owner).value.output), path)

    def node(self, path: str) -> dict[str, Any]:
        """Describe a node: its attributes, its inputs with producers and types, its outputs with consumers and types.

        path: the path of the node. Raises PathError if there is no node.
        """
        node, scope_path, index = self._resolve_node(path)
        scope = self._resolve_scope(scope_path)
        connections = self._connections(scope_path)
        types = self._types(scope_path)
        span = node._span
        return {
            "path": path,
            "scope": scope_path,
            "index": index,
            "name": node.name,
            "op_type": node.op_type,
            "domain": node.domain,
            "overload": node.overload,
            "doc_string": shorten(node.doc_string),
            "inputs": [self._describe_input(name, scope, scope_path, connections, types) for name in node.input],
            "outputs": [
                {
                    "name": name,
                    "type": types.get(name, ""),
                    "is_output": name in connections.outputs,
                    "consumers": [
                        f"{scope_path}.node[{n}]" for n in connections.consumers.get(name, ())[:_MAX_ELEMENTS]
                    ],
                    "count": len(connections.consumers.get(name, ())),
                }
                for name in node.output
            ],
            "attributes": [
                _describe_attribute(attribute, f"{path}.attribute[{i}]") for i, attribute in enumerate(node.attribute)
            ],
            "metadata": [{"key": entry.key, "value": shorten(entry.value)} for entry in node.metadata_props],
            "offset": span[0] if span else None,
            "length": span[1] - span[0] if span else None,
        }

    def documentation(self, path: str) -> dict[str, Any]:
        """Return the onnx package's documentation of a node's operator.

        The documentation is that for the opset version that the model, or the function that contains the node, imports.

        path: the path of the node. Returns text, up to 8,000 characters, and version, the opset version since which the
        operator is unchanged; "" and 0 if onnx is not installed or does not know the operator, or if the operator's
        domain is not imported. Raises PathError if there is no node.
        """
        from onnxwire.bridges.onnx import import_official

        node, scope_path, _ = self._resolve_node(path)
        function = re.match(r"functions\[\d+\]", scope_path)
        imports = resolve(self.model, function[0]).value.opset_import if function else self.model.opset_import
        domain = "" if node.domain == "ai.onnx" else node.domain
        version = next((opset.version for opset in imports if opset.domain in (domain, node.domain)), 0)
        try:
            schema = import_official("defs").get_schema(node.op_type, min(max(version, 0), (1 << 31) - 1), domain)
        except Exception:  # the package's exceptions have no common base class
            return {"text": "", "version": 0}
        lines = (line.strip() for line in (schema.doc or "").strip().splitlines())
        return {"text": "\n".join(lines)[:_MAX_DOC_CHARS], "version": schema.since_version}

    def _describe_input(
        self, name: str, scope: Scope, path: str, connections: Connections, types: dict[str, str]
    ) -> dict[str, Any]:
        """Describe an input of a node.

        scope: the graph of the node; path: the path of the graph; connections, types: those of the graph. Returns name,
        type, kind ("node", "weight", "input", "none" for an omitted input, or "outer" if neither this graph nor a graph
        around it defines the value) and the path of the producer or tensor, or "".
        """
        entry: dict[str, Any] = {"name": name, "type": types.get(name, ""), "kind": "outer", "path": ""}
        if not name:
            return entry | {"kind": "none"}
        kind, producer_path = connections.origin(name, path)
        if isinstance(scope, GraphProto) and name in connections.initializers and kind == "weight":
            entry["type"] = _tensor_type(scope.initializer[connections.initializers[name]])
        if kind != "outer":
            return entry | {"kind": kind, "path": producer_path}
        # The value may belong to an outer graph.
        if ".attribute[" in path:
            outer_path = path.rpartition(".attribute[")[0].rpartition(".node[")[0]
            return self._describe_input(
                name,
                self._resolve_scope(outer_path),
                outer_path,
                self._connections(outer_path),
                self._types(outer_path),
            )
        return entry

    def around(self, path: str, hops: int = 2) -> dict[str, Any]:
        """Draw the graph around a node.

        path: the path of the node; hops: the number of steps in both directions, up to 6.
        Returns width and height in pixels, boxes (kind, label, path, op_type, x, y of the center, width, height,
        hidden: the number of omitted connections), edges (from and to, indices of boxes, value, points) and focus, the
        index of the node's box. Raises PathError if there is no node.
        """
        _, scope_path, index = self._resolve_node(path)
        connections = self._connections(scope_path)
        scope = self._resolve_scope(scope_path)
        drawing = draw_around(scope, scope_path, connections, index, min(max(hops, 0), _MAX_HOPS))
        names = ("kind", "label", "path", "op_type", "x", "y", "width", "height", "hidden")
        boxes = [{name: getattr(box, name) for name in names} for box in drawing.boxes]
        return {
            "width": drawing.width,
            "height": drawing.height,
            "boxes": boxes,
            "edges": [
                {"from": start, "to": end, "value": value, "points": points}
                for (start, end, value), points in zip(drawing.edges, drawing.bends, strict=True)
            ],
            "focus": next(i for i, box in enumerate(drawing.boxes) if box.kind == "node" and box.index == index),
        }

    def map(self, group: str = "graph", start: str = "", end: str = "", *, to_right: bool = False) -> dict[str, Any]:
        """Draw a group of nodes; see `ModelMap.contents`.

        start, end: the paths of two nodes, between which a shortest route is highlighted.
        """
        with self._map_lock:
            marks = None if self.marks is None else self.marks()
            if marks is not None:
                self._map.mark(marks)
            route = self._map.route(start, end) if start and end else None
            return self._map.contents(group, route, to_right=to_right)

    def locate(self, path: str) -> dict[str, Any]:
        """Return the groups of the map around a node; see `ModelMap.locate`."""
        with self._map_lock:
            return self._map.locate(path)

    def route(self, start: str, end: str) -> dict[str, Any]:
        """Count the nodes on a shortest route between two nodes.

        Raises PathError if a node does not exist, or if there is no route.
        """
        with self._map_lock:
            return {"nodes": len(self._map.route(start, end))}

    def tensor(self, path: str) -> dict[str, Any]:
        """Extend the base class: `consumers` lists up to 16 nodes of the graph that use an initializer, `count` is the
        number of all these nodes."""
        result = super().tensor(path)
        match = re.fullmatch(r"(.*)\.(?:initializer\[\d+\]|sparse_initializer\[\d+\]\.values)", path)
        if match is not None:
            nodes = self._resolve_scope(match[1]).node
            indices = self._connections(match[1]).consumers.get(result["name"], [])
            result["count"] = len(indices)
            result["consumers"] = [
                {"path": f"{match[1]}.node[{n}]", "op_type": nodes[n].op_type, "name": nodes[n].name}
                for n in indices[:_MAX_ELEMENTS]
            ]
        return result

    @property
    def _map(self) -> ModelMap:
        """The map. The caller must have locked `_map_lock`, since the map caches groups."""
        from onnxwire.viewer.graph_map import ModelMap  # imported here, because it imports numpy

        return self._cached(("map",), lambda: ModelMap(self.model))  # type: ignore[no-any-return]

    def _resolve_scope(self, path: str) -> Scope:
        scope = resolve(self.model, path).value
        if not isinstance(scope, GraphProto | FunctionProto):
            raise PathError("this is neither a graph nor a function", path, self.model._document.name)
        return scope

    def _resolve_node(self, path: str) -> tuple[NodeProto, str, int]:
        """Return the node at a path, the path of its graph, and its index there."""
        target = self._resolve(path, NodeProto, "node")
        scope_path = target.path.rpartition(".node[")[0]
        if target.element_index is None:
            raise PathError("this is not a node of a graph", path, self.model._document.name)
        return target.value, scope_path, target.element_index

    def _connections(self, path: str) -> Connections:
        """Return the producers and consumers of the values of a graph."""
        connections: Connections = self._cached(("connections", path), lambda: Connections(self._resolve_scope(path)))
        return connections

    def _types(self, path: str) -> dict[str, str]:
        """Return the types of a graph's values, by name."""
        types: dict[str, str] = self._cached(("types", path), lambda: self._list_types(path))
        return types

    def _list_types(self, path: str) -> dict[str, str]:
        """Compute the result of `_types`."""
        scope = self._resolve_scope(path)
        values = list(scope.value_info)
        if isinstance(scope, GraphProto):
            values += [*scope.input, *scope.output]
        return {value.name: describe_type(value.type) for value in values}

    def _find_matches(self, key: tuple[str, ...], search: str, texts: Callable[[], Any]) -> list[int] | None:
        """Return the indices of the texts that contain all words of `search`; None if it has no words."""
        words = search.casefold().split()
        if not words:
            return None
        return self._cached(  # type: ignore[no-any-return]
            key,
            lambda: [index for index, text in enumerate(texts()) if all(word in text.casefold() for word in words)],
        )

    def _cached(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """Return the cached answer for a key; compute it if it is not cached."""
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        # Computed without the lock, so that a search in a big graph does not block other threads. Two threads may
        # compute the same answer.
        answer = make()
        with self._lock:
            self._cache[key] = answer
            while len(self._cache) > _MAX_CACHED_ANSWERS:
                self._cache.popitem(last=False)
        return answer


def largest_tensors(model: ModelProto, count: int) -> list[dict[str, Any]]:
    """Return the largest tensors at any depth of a model: path, name, data_type, shape, bytes."""
    largest: list[tuple[int, int, str, TensorProto]] = []
    for index, (path, tensor) in enumerate(find_tensors(model)):
        size = tensor_bytes(tensor)
        if len(largest) < count:
            heapq.heappush(largest, (size, -index, path, tensor))
        elif size > largest[0][0]:
            heapq.heapreplace(largest, (size, -index, path, tensor))
    return [
        tensor_row(tensor, path) for _, _, path, tensor in sorted(largest, key=lambda entry: (-entry[0], -entry[1]))
    ]


def _node_text(node: NodeProto) -> str:
    return "\n".join((node.name, node.op_type, node.domain, *node.input, *node.output))


def _tensor_text(tensor: TensorProto) -> str:
    return f"{tensor.name}\n{name_of(tensor.data_type)}"


def _tensor_type(tensor: TensorProto) -> str:
    return f"{name_of(tensor.data_type).lower()}[{', '.join(map(str, tensor.dims))}]"


def _describe_attribute(attribute: AttributeProto, path: str) -> dict[str, Any]:
    """Describe an attribute: name, type, text (of its value), path, and links to the tensors and graphs in it."""
    type_name = describe_number(attribute.DESCRIPTOR.fields_by_name["type"], attribute.type)
    links: list[dict[str, str]] = []
    text = attribute.ref_attr_name and f"the function's {attribute.ref_attr_name}"
    for field in ("t", "g", "sparse_tensor"):
        if attribute.HasField(field):
            links.append(_link(getattr(attribute, field), f"{path}.{field}"))
    for field in ("tensors", "graphs", "sparse_tensors"):
        elements = getattr(attribute, field)
        links += [_link(element, f"{path}.{field}[{i}]") for i, element in enumerate(elements[:_MAX_ELEMENTS])]
    if not links and not text:
        fields = attribute.DESCRIPTOR.fields_by_name
        for name in ("ints", "floats", "strings"):
            values = getattr(attribute, name)
            if values:
                text = describe_list(fields[name], values, _MAX_ELEMENTS)
        # Read as a payload, since some strings contain a whole model of another format.
        if attribute.HasField("s"):
            text = describe_value(fields["s"], attribute._payload("s"), _MAX_TEXT_CHARS)
        elif attribute.HasField("i"):
            text = describe_number(fields["i"], attribute.i)
        elif attribute.HasField("f"):
            text = describe_number(fields["f"], attribute.f)
        if attribute.HasField("tp"):
            text = describe_type(attribute.tp)
    return {"name": attribute.name, "type": type_name, "text": text, "links": links, "path": path}


def _link(message: Any, path: str) -> dict[str, str]:
    """Return the kind, path and text of a link to a tensor or graph."""
    if isinstance(message, SparseTensorProto):
        message, path = message.values, f"{path}.values"
    if isinstance(message, TensorProto):
        return {"kind": "tensor", "path": path, "text": _tensor_type(message)}
    return {
        "kind": "graph",
        "path": path,
        "text": f"{message.name or 'graph'} ({count_text(len(message.node), 'node')})",
    }
