"""The nodes of all graphs of a model as integer columns: operators, scopes, inputs and outputs.

A scope here is a part of the model that names or metadata of nodes describe, such as the module layers.3 in the name
/layers.3/Conv.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.arrow._columns import Columns
from onnxwire.arrow.arrow_table import columns_of
from onnxwire.arrow.tables import TABLES
from onnxwire.messages import ModelProto
from onnxwire.viewer._column_ids import Ids, integers_of

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

_BATCH_ROWS = 5_000  # rows whose text is in memory at once
_MAX_DEPTH = 40  # maximum depth of nested scopes
# Nodes of further scopes belong to the nearest existing scope around them. Also the maximum number of cached names.
_MAX_SCOPES = 100_000
_MAX_TYPES = 100_000  # values of further types with dims have an unknown type
# Only this number of characters of a name is read to find its scopes, and four times as many of a metadata value.
_MAX_NAME_CHARS = 1_000
_MAX_PARTS = 4 * _MAX_DEPTH  # maximum number of separators at which a name is split
_MAX_LABEL_CHARS = 200  # maximum length of a label; longer texts are truncated
_MAX_SHOWN_DIMS = 12  # maximum number of dims in the text of a type
_MAX_DIM_CHARS = 40  # maximum length of a dim in the text of a type
_MAX_COMPARED_DIMS = 32  # weights whose types differ only in further dims have the same type
# Keys of the metadata in which PyTorch's exporter stores the scopes of a node.
_NAMESPACES = {"pkg.torch.onnx.name_scopes", "namespace"}
_NO_MODULE = "_empty_nn_module_stack"  # PyTorch's name for "outside all modules"
# Columns in the notation of `arrow/tables.py`. The path is omitted, because it is long for nested tensors; the column
# `node` suffices here.
_TENSORS = TABLES["tensors"]._replace(
    columns=(
        ("data_type", "string", "type name", "data_type"),
        ("dims", "[int64]", "list", "dims"),
        ("elements", "int64", "storage elements", ""),
        ("bytes", "int64", "storage size", ""),
        ("node", "int64", "node", ""),
    )
)
# A string literal of Python, in single or double quotes.
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
# The path of a graph in an attribute: the path of the outer graph, and the index of the node in it.
_OWNER = re.compile(r"(.*)\.node\[(\d+)\](?:\..*)?", re.DOTALL)


class Graph:
    """A graph or function, whose nodes have the rows from `start` to `stop` (excluded).

    number: its index among the graphs of MapColumns.
    """

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.number = number
        self.start = 0
        self.stop = 0

    @property
    def is_function(self) -> bool:
        """Whether this is a function, not a graph."""
        return self.path.startswith("functions[") and "." not in self.path

    def row(self, index: int) -> int:
        """Return the row of the node with an index, -1 if there is none."""
        return self.start + index if index < self.stop - self.start else -1


class Scopes:
    """The tree of scopes, such as modules, that names or metadata of nodes describe; scope 0 is the root.

    parent, depth, label: lists with an element per scope. After `finish`, the inner scopes of a scope directly follow
    it, and `end` has, for each scope, the number of the first later scope that is not inside it.
    """

    def __init__(self) -> None:
        self.parent = [0]
        self.depth = [0]
        self.label = [""]
        self._child_scopes: dict[tuple[int, str], int] = {}
        self._scope_by_head: dict[str, int] = {}

    def find(self, head: str, parts: Iterable[str]) -> int:
        """Return the scope with these labels, the outermost first; add it if it is new.

        If there are too many or too deep scopes, return the innermost existing scope.

        head: the part of a name or metadata value from which the labels were read; a key of the cache.
        """
        number = 0
        for part in parts:
            key = number, part[:_MAX_LABEL_CHARS]
            scope = self._child_scopes.get(key)
            if scope is None:
                if len(self.parent) >= _MAX_SCOPES or self.depth[number] >= _MAX_DEPTH:
                    break
                scope = self._child_scopes[key] = len(self.parent)
                self.parent.append(number)
                self.depth.append(self.depth[number] + 1)
                self.label.append(key[1])
            number = scope
        if len(self._scope_by_head) < _MAX_SCOPES:
            self._scope_by_head[head] = number
        return number

    def of_name(self, name: str, op_type: str) -> int:
        """Return the scope of a node by its name, such as `/model/layers.3/attn/MatMul`; 0 if it has none.

        A second-last part equal to the operator is not a scope: PaddlePaddle's names are like p2o.Conv.0.
        """
        name = name[:_MAX_NAME_CHARS]
        separator = _separator(name)
        head = name.rpartition(separator)[0]
        outer_head, _, last_part = head.rpartition(separator)
        head = outer_head if last_part == op_type else head
        if not head:
            return 0
        scope = self._scope_by_head.get(head)
        return self.find(head, _join_indices(head.split(separator, _MAX_PARTS))) if scope is None else scope

    def of_metadata(self, key: str, value: str) -> int:
        """Return the scope of a node by the metadata that PyTorch's exporter writes.

        Source: torch.onnx, `pkg.torch.onnx.name_scopes`: a list of module paths in Python's notation, and
        `namespace`: module paths with their classes. Each path extends the previous one; the last is that of the node
        itself and is ignored.
        """
        value = value[: _MAX_NAME_CHARS * 4]
        is_list = key != "namespace"
        head = value.rpartition("," if is_list else "/")[0]
        scope = self._scope_by_head.get(head)
        if scope is not None:
            return scope
        if is_list:
            paths = [single_quoted or double_quoted for single_quoted, double_quoted in _QUOTED.findall(head)]
        else:
            paths = [part.partition(":")[0].strip() for part in head.split("/")]
        parts, previous_path = [], ""
        for path in paths:
            if not path or path.startswith(_NO_MODULE):
                continue
            part = path.removeprefix(f"{previous_path}.")
            # An index needs the name of its list: layers.3.
            parts.append(f"{previous_path.rpartition('.')[2]}.{part}" if part.isdecimal() and previous_path else part)
            previous_path = path
        return self.find(head, parts)

    def finish(self) -> Array:
        """Renumber the scopes in depth-first order; returns the new number of each scope, by its old number."""
        count = len(self.parent)
        children: list[list[int]] = [[] for _ in range(count)]
        for number in range(1, count):
            children[self.parent[number]].append(number)
        old_numbers, stack = [], [0]
        while stack:
            number = stack.pop()
            old_numbers.append(number)
            stack.extend(reversed(children[number]))
        new_numbers = np.zeros(count, np.int32)
        new_numbers[old_numbers] = np.arange(count, dtype=np.int32)
        parents = [int(new_numbers[self.parent[number]]) for number in old_numbers]
        end = list(range(1, count + 1))
        for number in range(count - 1, 0, -1):
            end[parents[number]] = max(end[parents[number]], end[number])
        self.parent, self.end = parents, np.array(end, np.int32)
        self.label = [self.label[number] for number in old_numbers]
        self.depth = [self.depth[number] for number in old_numbers]
        self._child_scopes.clear()
        self._scope_by_head.clear()
        return new_numbers

    def labels_of(self, scope: int) -> list[str]:
        """Return the labels of a scope and the scopes around it, the outermost first."""
        labels = []
        while scope:
            labels.append(self.label[scope])
            scope = self.parent[scope]
        return labels[::-1]

    def child(self, scope: int, descendant: int) -> int:
        """Return the child of `scope` that is, or contains, the scope `descendant`."""
        while self.parent[descendant] != scope:
            descendant = self.parent[descendant]
        return descendant


def split_name(name: str) -> tuple[str, list[str]]:
    """Return the separator in a node's name, and its parts; each index is joined to the part before it: layers.3."""
    separator = _separator(name)
    return separator, _join_indices(name.split(separator, _MAX_PARTS))


def _separator(name: str) -> str:
    return "/" if "/" in name else "::" if "::" in name else "."


def _join_indices(parts: Iterable[str]) -> list[str]:
    """Return the parts of a name, each index joined to the name before it: layers.3."""
    joined: list[str] = []
    for part in parts:
        if part.isdecimal() and joined:
            joined[-1] += f".{part}"
        elif part:
            joined.append(part)
    return joined


class MapColumns:
    """The nodes of all graphs of a model, one row each; the nodes of a graph are contiguous and in order.

    count: the number of rows. graphs: the graphs by path. graph_of: the number of each row's graph. operators: (domain,
    op_type). op, scope: each row's index into `operators` and `scopes`.
    use_row, use_value, use_index: for each input of a node, the node's row, the value's number and the input's index,
    sorted by row; after the inputs of a node come the values that the graphs in its attributes capture, with index -1.
    output_row, output_value, output_index: the same for each output.
    use_start: the index in `use_row` of each row's first entry, then len(use_row). first_use: the index of each value's
    first entry, or -1.
    producer: the row that produces a value, or -1; producer_output: the index of that output. type: each value's index
    into `types`, 0 if unknown. is_weight: whether a value is an initializer; parameters, bytes: the numbers of elements
    and bytes of that initializer, else 0. own_parameters, own_bytes: the numbers for the tensors in a row's attributes,
    including the graphs in them; inner_node_counts: the number of nodes in these graphs. is_input, is_output: whether a
    value is an input or output of its graph; false for those of functions. graphs_in: by row, the paths of the graphs
    in its attributes. functions: paths by domain and name.
    """

    def __init__(self, model: ModelProto) -> None:
        self.graphs: dict[str, Graph] = {}
        self.operators: list[tuple[str, str]] = []
        self.types: list[str] = [""]
        self.scopes = Scopes()
        self._values = Ids()
        self._find_functions(model)
        self._read_nodes(model)
        self._read_uses(model)
        self._read_values(model)
        self._read_tensors(model)
        self._sum_inner_graphs()

    def _graph(self, path: str) -> Graph:
        """Return the graph at a path; add it if it is new."""
        graph = self.graphs.get(path)
        if graph is None:
            graph = self.graphs[path] = Graph(path, len(self.graphs))
        return graph

    def _graph_numbers(self, columns: Columns) -> Array:
        """Return the number of the graph of each row of a table."""
        ids, first_rows = _intern_column(Ids(), columns, "graph")
        graph_numbers = [self._graph(columns.to_pylist("graph", row, row + 1)[0]).number for row in first_rows]
        return np.array([*graph_numbers, 0], np.int32)[ids]

    def _read_nodes(self, model: ModelProto) -> None:
        """Read the graphs, operators and scopes of all nodes."""
        columns = _make_columns(model, "nodes", "graph", "name", "op_type", "domain")
        self.count = len(columns)
        graph_of = self._graph_numbers(columns)
        order = np.argsort(graph_of, kind="stable")
        ends = np.cumsum(np.bincount(graph_of, minlength=len(self.graphs))).tolist()
        for graph in self.graphs.values():
            graph.start, graph.stop = ends[graph.number - 1] if graph.number else 0, ends[graph.number]
        domain, _ = _intern_column(Ids(), columns, "domain")
        op_ids, first_rows = _intern_column(Ids(), columns, "op_type", domain)
        self.operators = [
            (_read_cell(columns, "domain", row), _read_cell(columns, "op_type", row)) for row in first_rows
        ] + [("", "")]
        # Names of one operator that differ only in their last part have the same id.
        name_ids, first_rows = _intern_column(Ids(), columns, "name", op_ids, max_bytes=_MAX_NAME_CHARS)
        scope_numbers, has_separator = [], []
        for row in first_rows:
            name = columns.to_pylist("name", row, row + 1)[0]
            scope_numbers.append(self.scopes.of_name(name, _read_cell(columns, "op_type", row)))
            has_separator.append("/" in name or "::" in name)
        self.graph_of, self.op = graph_of[order], np.where(op_ids < 0, len(self.operators) - 1, op_ids)[order]
        scope = np.array([*scope_numbers, 0], np.int32)[name_ids][order]
        is_named = np.array([*has_separator, False])[name_ids][order] & (scope > 0)
        del columns
        # Metadata of PyTorch has precedence over dots in a name, but not over slashes and double colons.
        for path, key, value in _read_table(model, "metadata", "path", "key", "value"):
            if key in _NAMESPACES and value and (row := self.row_of(path or "")) >= 0 and not is_named[row]:
                scope[row] = self.scopes.of_metadata(key, value) or scope[row]
        self.scope = self.scopes.finish()[scope]

    def row_of(self, path: str) -> int:
        """Return the row of the node at a path, -1 if there is none."""
        match = re.fullmatch(r"(.*)\.node\[(\d{1,12})\]", path, re.DOTALL)
        graph = self.graphs.get(match[1]) if match else None
        return -1 if match is None or graph is None else graph.row(int(match[2]))

    def _owner_row(self, graph: Graph) -> int:
        """Return the row of the node whose attribute contains a graph, -1 for other graphs."""
        match = _OWNER.fullmatch(graph.path)
        return self.row_of(f"{match[1]}.node[{match[2]}]") if match else -1

    def graph_at(self, row: int) -> Graph:
        """Return the graph of a row."""
        return self._by_number[int(self.graph_of[row])]

    def _read_uses(self, model: ModelProto) -> None:
        """Read the inputs and outputs of all nodes."""
        columns = _make_columns(model, "uses", "graph", "name", "node", "slot", "kind")
        graph_of = self._graph_numbers(columns)
        values, _ = _intern_column(self._values, columns, "name", graph_of)
        starts = np.array([graph.start for graph in self.graphs.values()], np.int32)
        row = (starts[graph_of] + _read_integers(columns, "node")).astype(np.int32)
        slot = _read_integers(columns, "slot").astype(np.int32)
        kind_ids, first_rows = _intern_column(Ids(), columns, "kind")
        is_output = np.array([*(_read_cell(columns, "kind", row) == "output" for row in first_rows), False])[kind_ids]
        self._function_inputs = values[self._find_redefined_inputs(columns, graph_of, is_output)]
        del columns
        order = np.lexsort((slot.view(np.uint32), row))
        output_uses, input_uses = order[is_output[order]], order[~is_output[order]]
        self.use_row, self.use_value, self.use_index = row[input_uses], values[input_uses], slot[input_uses]
        self.output_row, self.output_value, self.output_index = row[output_uses], values[output_uses], slot[output_uses]

    def _find_redefined_inputs(self, columns: Columns, graph_of: Array, is_output: Array) -> list[int]:
        """Return the rows of the table of uses that are outputs with the name of an input of the same function."""
        graphs = list(self.graphs.values())
        has_inputs = np.array([bool(self._inputs_of.get(graph.path)) for graph in graphs], bool)
        rows = np.flatnonzero(is_output & has_inputs[graph_of]).tolist() if has_inputs.any() else []
        names = (columns.to_pylist("name", row, row + 1)[0] for row in rows)
        return [
            row for row, name in zip(rows, names, strict=True) if name in self._inputs_of[graphs[graph_of[row]].path]
        ]

    def _read_values(self, model: ModelProto) -> None:
        """Read the types of values, and the inputs and outputs of graphs."""
        columns = _make_columns(model, "values")
        values, _ = _intern_column(self._values, columns, "name", self._graph_numbers(columns))
        kind_ids, first_rows = _intern_column(Ids(), columns, "kind")
        roles = [*(_read_cell(columns, "kind", row) for row in first_rows), ""]
        type_ids, _ = _intern_column(Ids(), columns, "type")
        shape_ids, first_rows = _intern_column(Ids(), columns, "dims", type_ids)
        for row in first_rows[: _MAX_TYPES - 1]:
            self.types.append(
                _join_type_and_dims(_read_cell(columns, "type", row), columns.to_pylist("dims", row, row + 1)[0])
            )
        n_types = len(self.types)
        # Values of unknown shape have no dims; their types are numbered after the types with shapes.
        bare_type_ids, first_rows = _intern_column(Ids(), columns, "type")
        self.types += [_read_cell(columns, "type", row).removeprefix("tensor(").removesuffix(")") for row in first_rows]
        type_numbers = np.where(
            shape_ids >= 0,
            np.where(shape_ids + 1 < n_types, shape_ids + 1, 0),
            np.where(bare_type_ids < 0, 0, bare_type_ids + n_types),
        )
        count = len(self._values)
        self.type = np.zeros(count, np.int32)
        _set_values(self.type, values, type_numbers)
        self.is_input, self.is_output = np.zeros(count, bool), np.zeros(count, bool)
        _set_values(self.is_input, values[np.array([role == "input" for role in roles])[kind_ids]], True)
        _set_values(self.is_output, values[np.array([role == "output" for role in roles])[kind_ids]], True)

    def _read_tensors(self, model: ModelProto) -> None:
        """Read the sizes of tensors and missing types of initializers, and set the producers of values."""
        columns = _make_columns(model, "tensors", "graph", "name")
        graph_of = self._graph_numbers(columns)
        graphs = list(self.graphs.values())
        values, _ = _intern_column(self._values, columns, "name", graph_of)
        columns = columns_of(model, _TENSORS, False)
        node = _read_integers(columns, "node").astype(np.int32)
        count = len(self._values)
        n_new = count - len(self.type)
        self.type = np.concatenate([self.type, np.zeros(n_new, np.int32)])
        self.is_input = np.concatenate([self.is_input, np.zeros(n_new, bool)])
        self.is_output = np.concatenate([self.is_output, np.zeros(n_new, bool)])
        # A tensor outside of nodes is an initializer, or the default value of a function's attribute.
        is_weight = (node < 0) & (values >= 0) & np.array([not graph.is_function for graph in graphs], bool)[graph_of]
        dims_ids: dict[Any, int] = {}
        for i, (data_type, dims) in enumerate(_read_rows(columns, "data_type", "dims")):
            if is_weight[i] and not self.type[values[i]]:
                key = data_type, tuple(dims[:_MAX_COMPARED_DIMS])
                number = dims_ids.get(key)
                if number is None and len(dims_ids) < _MAX_TYPES:
                    number = dims_ids[key] = len(self.types)
                    self.types.append(_join_type_and_dims((data_type or "").lower(), dims))
                self.type[values[i]] = number or 0
        elements, size = _read_integers(columns, "elements"), _read_integers(columns, "bytes")
        del columns
        self.is_weight = np.zeros(count, bool)
        self.is_weight[values[is_weight]] = True
        self.parameters = np.bincount(values[is_weight], elements[is_weight], count)
        self.bytes = np.bincount(values[is_weight], size[is_weight], count)
        # A tensor in a node, or in a graph of its attributes, counts for that node; `_sum_inner_graphs` adds it to
        # outer nodes.
        start = np.array([graph.start for graph in graphs], np.int32)[graph_of]
        stop = np.array([graph.stop for graph in graphs], np.int32)[graph_of]
        owner_row = np.array([self._owner_row(graph) for graph in graphs], np.int32)[graph_of]
        row = np.where(node < 0, owner_row, np.where(node < stop - start, start + node, -1))
        is_owned = row >= 0
        self.own_parameters = np.bincount(row[is_owned], elements[is_owned], self.count)
        self.own_bytes = np.bincount(row[is_owned], size[is_owned], self.count)
        self.producer = np.full(count, -1, np.int32)
        self.producer_output = np.zeros(count, np.int32)
        # By the rules of `index/names`, the first of several producers is used, and inputs and initializers have none.
        _set_values(self.producer, self.output_value[::-1], self.output_row[::-1])
        _set_values(self.producer_output, self.output_value[::-1], self.output_index[::-1])
        self.producer[self.is_weight | self.is_input] = -1
        self.producer[self._function_inputs] = -1

    def _find_functions(self, model: ModelProto) -> None:
        """Read the paths and the input names of functions."""
        self.functions: dict[tuple[str, str], str] = {}
        self._inputs_of: dict[str, set[str]] = {}
        for index, domain, name, inputs in _read_table(model, "functions", "index", "domain", "name", "inputs"):
            if inputs:
                self._inputs_of[f"functions[{index}]"] = set(inputs)
            key = (domain or "")[:_MAX_LABEL_CHARS], (name or "")[:_MAX_LABEL_CHARS]
            self.functions.setdefault(key, f"functions[{index}]")

    def _sum_inner_graphs(self) -> None:
        """Add the sizes of graphs in attributes to their nodes, and index the uses by row and by value."""
        del self._values
        self._by_number = list(self.graphs.values())
        self.graphs_in: dict[int, list[str]] = {}
        self.inner_node_counts = np.zeros(self.count, np.int64)
        owners = [(self._owner_row(graph), graph) for graph in self._by_number]
        for row, graph in owners:
            if row >= 0:
                self.graphs_in.setdefault(row, []).append(graph.path)
        # Start with the innermost graphs, whose paths are the longest.
        for row, graph in sorted(owners, key=lambda owner: -len(owner[1].path)):
            if row >= 0:
                rows = slice(graph.start, graph.stop)
                self.inner_node_counts[row] += graph.stop - graph.start + self.inner_node_counts[rows].sum()
                self.own_parameters[row] += self.own_parameters[rows].sum()
                self.own_bytes[row] += self.own_bytes[rows].sum()
        self.first_use = np.full(len(self.type), -1, np.int32)
        _set_values(self.first_use, self.use_value[::-1], np.arange(len(self.use_value) - 1, -1, -1))
        all_rows = np.arange(self.count + 1, dtype=np.int32)
        self.use_start = np.searchsorted(self.use_row, all_rows).astype(np.int32)


def _join_type_and_dims(type_text: str, dims: list[Any] | None) -> str:
    """Return a type with its shape: float[1, N, ?]. dims: None for an unknown shape."""
    text = type_text.removeprefix("tensor(").removesuffix(")") if type_text.startswith("tensor(") else type_text
    if dims is None:
        return text
    shape = ", ".join("?" if dim is None else str(dim)[:_MAX_DIM_CHARS] for dim in dims[:_MAX_SHOWN_DIMS])
    return f"{text}[{shape}{', …' if len(dims) > _MAX_SHOWN_DIMS else ''}]"


def _make_columns(model: ModelProto, table: str, *names: str) -> Columns:
    """Return a table of a model, or only some of its columns."""
    spec = TABLES[table]
    if names:
        spec = spec._replace(columns=tuple(column for column in spec.columns if column[0] in names))
    return columns_of(model, spec, False)


def _intern_column(
    ids: Ids, columns: Columns, name: str, salts: Any = None, max_bytes: int = 0
) -> tuple[Array, list[int]]:
    """Return the ids of the rows of a column of strings, and the first row of each new id; see `Ids.add`."""
    ids_bytes, first_rows = ids.add(columns, name, salts, max_bytes)
    return np.frombuffer(ids_bytes, np.int32), first_rows


def _set_values(target: Array, values: Array, numbers: Any) -> None:
    """Set the elements of a column for some values; skip values without a name, which are -1."""
    is_named = values >= 0
    target[values[is_named]] = numbers[is_named] if isinstance(numbers, np.ndarray) else numbers


def _read_integers(columns: Columns, name: str) -> Array:
    """Return a column of integers; -1 for null."""
    return np.frombuffer(integers_of(columns, name), np.int64)


def _read_cell(columns: Columns, name: str, row: int) -> str:
    """Return a string of a column, truncated; "" for null."""
    return (columns.to_pylist(name, row, row + 1)[0] or "")[:_MAX_LABEL_CHARS]


def _read_rows(columns: Columns, *names: str) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of some columns, converting them to Python objects in batches."""
    for start in range(0, len(columns), _BATCH_ROWS):
        yield from zip(*(columns.to_pylist(name, start, start + _BATCH_ROWS) for name in names), strict=True)


def _read_table(model: ModelProto, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """Iterate over the rows of some columns of a table of a model."""
    return _read_rows(_make_columns(model, table, *names), *names)
