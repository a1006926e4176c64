"""Removes the findings of a check that a trusted model also has at the matching part.

A finding is omitted if the trusted model breaks the same rule at the matching part, with the same message except
names and indices, and the part is unchanged. Unchanged means the same operator, attributes, type and payload (only of a
tensor of at most 64 KiB without external data), with inputs that come from unchanged matching parts, up to two steps
back. Parts are matched as by `diff` with match="structure".
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.analysis.flat_graph import FlatGraph, Interner
from onnxwire.analysis.paths import resolve
from onnxwire.analysis.structure_diff import payload_key
from onnxwire.analysis.structure_match import UNMATCHED, Matching
from onnxwire.engine.message import Message
from onnxwire.engine.record_reader import bytes_at, read_record
from onnxwire.errors import Error, SourceError
from onnxwire.messages import FunctionProto, GraphProto, ModelProto, TensorProto, TrainingInfoProto, ValueInfoProto

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from onnxwire.checker.facts import Facts, Finding, Rows
    from onnxwire.checker.problems import Problems
    from onnxwire.engine.document import Document

# A step of a path whose message belongs to a vertex of a FlatGraph.
_PATH_STEP = re.compile(r"\.?(?<![a-z_])(node|input|output|initializer|sparse_initializer|value_info)\[(\d+)\]")
# The kinds of vertices by the field of their message.
_KINDS = {"node": "node", "input": "input", "output": "output", "initializer": "tensor", "sparse_initializer": "tensor"}
# Groups: the path of the outer graph, the indices of the node and its attribute, and the field of the attribute.
_NESTED_GRAPH = re.compile(r"(.*)\.node\[(\d+)\]\.attribute\[(\d+)\]\.(g|graphs\[\d+\])", re.S)
_LIST_INDEX = re.compile(r"\[\d+\]")
# A Python string literal in a message.
_QUOTED_NAME = re.compile(r"(?<!\w)(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
# The label of a node's vertex contains the content of paths below the node that begin with one of these texts.
_LABELLED_PATHS = (".attribute", ".input[", ".output[")
_WEIGHT_FIELDS = ("initializer", "sparse_initializer")
# Prefixes of the ids of rules whose findings are compared by more than the message.
_NAME_RULES = ("security-name-",)  # also by the texts of the part; see `_texts_of`
_PAYLOAD_RULES = ("security-payload-",)  # also by the payload and these texts
_RECORD_RULES = ("security-wire-", "security-payload-unknown")  # also by the bytes of the record
_CONTAINER_TYPES = (ModelProto, GraphProto, FunctionProto, TrainingInfoProto)
_UNCHANGED_STEPS = 2  # number of steps along the inputs of a node that must be unchanged
# The maximum size of compared tensors; longer remote values are not fetched with the structure.
_MAX_COMPARED_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 20  # bytes that are hashed at a time
MAX_KNOWN_PROBLEMS = 100_000  # maximum number of the trusted model's problems of one rule that are compared


class _Side:
    """One of the two models: its message, and the document that its findings refer to."""

    def __init__(self, model: Any, facts: Facts) -> None:
        self.model = model
        self.document: Document = facts.document
        self.is_placed: bool = facts.columns.is_placed  # False for a message encoded for the check

    def make_graph(self, interner: Interner) -> FlatGraph:
        """Return the FlatGraph of the model."""
        return FlatGraph(self.model, interner, _small_payload_key)

    def digest_of_record(self, offset: int) -> bytes | None:
        """Return a digest of the record at an offset, None if it cannot be read."""
        if not self.is_placed or offset < 0:
            return None
        end = read_record(self.document, offset, len(self.document), True)[3]
        if end is None:
            return None
        digest = blake2b(digest_size=16)
        for start in range(offset, end, _CHUNK_BYTES):
            digest.update(bytes_at(self.document, start, min(end, start + _CHUNK_BYTES)))
        return digest.digest()


class _Graphs:
    """The FlatGraphs of both models, with the matching of their vertices. `side` is 0 for `old`, and 1 for `new`."""

    def __init__(self, old: _Side, new: _Side) -> None:
        interner = Interner()
        self.sides = old.make_graph(interner), new.make_graph(interner)
        matching = Matching(*self.sides, by_name=False)
        # An edge of `edges` is a tuple: the source, the index of its output, and the port (`Edge` of flat_graph.pxd).
        self.old_of, self.edges = matching.old_of, matching.edges
        self._rewired = frozenset(matching.rewired_vertices())
        # By number of steps, for each vertex of `new`: 0 (not yet known), 1 (changed) or 2 (unchanged).
        self._unchanged = [bytearray(len(self.old_of)) for _ in range(_UNCHANGED_STEPS + 1)]
        # For each model: the first vertex of each kind in each scope.
        self._first: list[dict[tuple[int, str], int]] = []
        for graph in self.sides:
            first_vertices: dict[tuple[int, str], int] = {}
            for vertex in range(len(graph)):
                first_vertices.setdefault((graph.scope_index(vertex), graph.kind(vertex)), vertex)
            self._first.append(first_vertices)
        self._all_scopes = [graph.all_scopes() for graph in self.sides]
        self._scopes = [{path: index for index, (path, _) in enumerate(scopes)} for scopes in self._all_scopes]
        self._names: tuple[int, dict[str, str]] = UNMATCHED, {}  # the last vertex and result of `_old_names_at`

    def find_vertex(self, side: int, path: str) -> tuple[int, str, str]:
        """Return the innermost vertex that contains a path, the field of its message, and the path below the message.

        For a value_info, these are the vertex of the described value (UNMATCHED if there is none), "value_info", and
        the path below the value_info. For a path that no vertex contains, they are UNMATCHED, "" and the path.
        """
        scopes = self._all_scopes[side]
        for step in reversed([*_PATH_STEP.finditer(path)]):
            scope = self._scopes[side].get(path[: step.start()])
            if scope is None:
                continue
            field, index = step[1], int(step[2])
            if field == "value_info":
                name = scopes[scope][1].value_info[index].name
                return self._vertices[side].get((scope, name), UNMATCHED), field, path[step.end() :]
            if field == "sparse_initializer":
                index += len(scopes[scope][1].initializer)  # type: ignore[union-attr]
            first_vertex = self._first[side].get((scope, _KINDS[field]))
            return (UNMATCHED if first_vertex is None else first_vertex + index), field, path[step.end() :]
        return UNMATCHED, "", path

    def find_scope(self, side: int, path: str) -> tuple[Hashable, str]:
        """Return a key of the innermost graph or function that contains a path, and the path below it.

        Matching graphs or functions of the two models have equal keys. The key is None for a graph in a node of `new`
        without a match, and "" for a path outside of all graphs and functions.
        """
        end = len(path)
        while end > 0:
            if path[:end] in self._scopes[side]:
                return self._scope_keys[side][self._scopes[side][path[:end]]], path[end:]
            end = path.rfind(".", 0, end)
        return "", path

    @cached_property
    def _scope_keys(self) -> list[list[Hashable]]:
        """The keys that `find_scope` returns, for each model and each of its scopes."""
        keys: list[list[Hashable]] = []
        for side, graph in enumerate(self.sides):
            keys.append([])
            for path, message in self._all_scopes[side]:
                nested = _NESTED_GRAPH.fullmatch(path)
                if nested is None:
                    if isinstance(message, GraphProto):
                        keys[-1].append(path)
                    else:
                        keys[-1].append((message.domain, message.name, message.overload))
                    continue
                node = self._first[side][self._scopes[side][nested[1]], "node"] + int(nested[2])
                attribute = graph.message(node).attribute[int(nested[3])]
                vertex = self.old_of[node] if side else node
                keys[-1].append(None if vertex == UNMATCHED else (vertex, attribute.name, nested[4]))
        return keys

    @cached_property
    def _vertices(self) -> list[dict[tuple[int, str], int]]:
        """For each model: the vertex that defines a value, by (index of the scope, name)."""
        tables: list[dict[tuple[int, str], int]] = []
        for graph in self.sides:
            table: dict[tuple[int, str], int] = {}
            for vertex in range(len(graph)):
                for name in graph.outputs_of(vertex):
                    table.setdefault((graph.scope_index(vertex), name), vertex)
            tables.append(table)
        return tables

    def is_unchanged(self, vertex: int, steps: int = _UNCHANGED_STEPS) -> bool:
        """Return whether a vertex of `new` and its inputs, up to `steps` steps back, equal those of its match."""
        states = self._unchanged[steps]
        if not states[vertex]:
            old_vertex = self.old_of[vertex]
            is_equal = old_vertex != UNMATCHED and self.sides[1].label(vertex) == self.sides[0].label(old_vertex)
            if is_equal and old_vertex not in self._rewired and steps:
                sources = (source for source, _, _ in self.edges[1][vertex] if source != UNMATCHED)
                is_equal = all(self.is_unchanged(source, steps - 1) for source in sources)
            states[vertex] = 1 + (is_equal and old_vertex not in self._rewired)
        return states[vertex] == 2

    def old_name(self, vertex: int, literal: re.Match[str]) -> str:
        """Return the quoted name in `old` that matches a quoted name in `new`; without a match, the name in `new`.

        vertex: the vertex of `new` whose finding has the name, or UNMATCHED.
        """
        name = None if vertex == UNMATCHED else self._old_names_at(vertex).get(literal[0])
        return name or self._all_old_names.get(literal[0], literal[0])

    def _old_names_at(self, vertex: int) -> dict[str, str]:
        """Return a dict from names of a vertex of `new`, its graph, inputs and outputs to names in `old`, quoted."""
        if self._names[0] != vertex:
            old, new = self.sides
            old_vertex = self.old_of[vertex]
            pairs = [(new.name(vertex), old.name(old_vertex))]
            pairs += zip(new.outputs_of(vertex), old.outputs_of(old_vertex), strict=False)
            pairs.append((new.scope_of(vertex)[1].name, old.scope_of(old_vertex)[1].name))
            for old_edge, new_edge in zip(self.edges[0][old_vertex], self.edges[1][vertex], strict=False):
                if old_edge[2] >= 0 and new_edge[2] >= 0:
                    pairs.append((new.value_name(*new_edge[:2]), old.value_name(*old_edge[:2])))
            names: dict[str, str] = {}
            for name, old_name in pairs:
                names.setdefault(repr(name), repr(old_name))
            self._names = vertex, names
        return self._names[1]

    @cached_property
    def _all_old_names(self) -> dict[str, str]:
        """A dict from the names of all nodes and values of `new` to names in `old`, quoted.

        A name that occurs several times in `new` is mapped to the match of its first matched occurrence.
        """
        old, new = self.sides
        names: dict[str, str] = {}
        for vertex, old_vertex in enumerate(self.old_of):
            if old_vertex != UNMATCHED:
                names.setdefault(repr(new.name(vertex)), repr(old.name(old_vertex)))
                for name, old_name in zip(new.outputs_of(vertex), old.outputs_of(old_vertex), strict=False):
                    names.setdefault(repr(name), repr(old_name))
        return names


class Baseline:
    """Selects the findings about a model that a trusted model does not have."""

    def __init__(self, trusted: ModelProto, facts: Facts) -> None:
        """Store the facts of the trusted model before its check."""
        self._sides = [_Side(trusted, facts)]
        self._trusted_findings: dict[str, list[tuple[Finding, Rows]]] = {}
        # By rule and key: the number of the trusted model's findings that have no counterpart so far.
        self._counts: dict[str, Counter[bytes]] = {}
        self.omitted = 0  # number of rows that `select` removed from findings

    def add_known(self, problems: Problems) -> None:
        """Add the problems of the trusted model. Their paths are read later, so the model must stay open."""
        for rule, finding, rows in problems.findings():
            self._trusted_findings.setdefault(rule.id, []).append((finding, rows))

    def compare_with(self, model: ModelProto, facts: Facts) -> None:
        """Set the model whose findings `select` filters."""
        self._sides[1:] = [_Side(model, facts)]

    def select(self, rule: str, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings of a rule, with the rows that the trusted model does not have."""
        for finding in findings:
            if rule not in self._trusted_findings or not len(finding.rows):
                yield finding
                continue
            counts = self._counts.get(rule)
            if counts is None:
                counts = self._counts[rule] = Counter()
                for trusted_finding, rows in self._trusted_findings[rule]:
                    counts.update(key for row in rows.tolist() for key in self._keys(0, rule, trusted_finding, row))
            remaining_rows = []
            for row in finding.rows.tolist():
                key = (
                    next((key for key in self._keys(1, rule, finding, row) if key in counts), None) if counts else None
                )
                if key is None:
                    remaining_rows.append(row)
                elif counts[key] > 1:
                    counts[key] -= 1
                else:
                    del counts[key]
            self.omitted += len(finding.rows) - len(remaining_rows)
            finding.rows = np.array(remaining_rows, np.int64)
            yield finding

    @cached_property
    def _graphs(self) -> _Graphs:
        """The graphs of both models."""
        return _Graphs(*self._sides)

    def _keys(self, side: int, rule: str, finding: Finding, row: int) -> list[bytes]:
        """Return the keys of a finding: one with its message; for `new`, also one with the old names in the message.

        Findings under _NAME_RULES have only the first key. Findings of the two models are the same if they have a
        common key. The list is empty for a part that is changed, unreadable or without a counterpart.
        """
        graphs = self._graphs
        path = finding.table.path(row)
        vertex, field, path_below = graphs.find_vertex(side, path)
        content = self._content(side, rule, finding, row, path, vertex, field, path_below)
        if content is None:
            return []
        position: Hashable
        if vertex != UNMATCHED:
            if side and not graphs.is_unchanged(vertex):
                return []
            position = (
                graphs.old_of[vertex] if side else vertex,
                field == "value_info",
                _LIST_INDEX.sub("[]", path_below),
            )
        else:
            scope, path_below = graphs.find_scope(side, path)
            if scope is None:
                return []
            position = scope, _LIST_INDEX.sub("[]", path_below)
        message = finding.message(row)
        texts = [_LIST_INDEX.sub("[]", message)]
        if side and not rule.startswith(_NAME_RULES):
            texts.append(_LIST_INDEX.sub("[]", _QUOTED_NAME.sub(partial(graphs.old_name, vertex), message)))
        return [_digest(repr((position, text)).encode("utf-8", "surrogatepass"), *content) for text in texts]

    def _content(
        self, side: int, rule: str, finding: Finding, row: int, path: str, vertex: int, field: str, path_below: str
    ) -> list[bytes] | None:
        """Return the content that must be equal, except the message and the vertex's label; None if unreadable."""
        side_model = self._sides[side]
        if rule.startswith(_RECORD_RULES):
            if not side_model.is_placed:
                return None
            digest = side_model.digest_of_record(int(finding.table.offset_of(np.array([row]))[0]))
            return None if digest is None else [digest]
        # Whether the label of the vertex, which `is_unchanged` compares, contains the content.
        is_covered = (
            vertex != UNMATCHED
            and field in ("node", *_WEIGHT_FIELDS)
            and (not path_below or path_below.startswith(_LABELLED_PATHS))
        )
        if is_covered and not rule.startswith((*_NAME_RULES, *_PAYLOAD_RULES)):
            return []
        try:
            value = resolve(side_model.model, path).value
            if rule.startswith(_NAME_RULES):
                return _texts_of(value, "")
            if rule.startswith(_PAYLOAD_RULES):
                if isinstance(value, TensorProto):
                    return [repr(payload_key(value)).encode(), *_texts_of(value, finding.message(row))]
                return _texts_of(value, finding.message(row))
            if isinstance(value, ValueInfoProto):
                return [bytes(value.type.SerializeToString(deterministic=True))]
            if not isinstance(value, Message):
                return [] if vertex != UNMATCHED else [repr(value).encode("utf-8", "surrogatepass")]
            return [] if isinstance(value, _CONTAINER_TYPES) else [bytes(value.SerializeToString(deterministic=True))]
        except SourceError:
            raise
        except Error:
            return None


def _small_payload_key(tensor: TensorProto) -> Hashable:
    """Return the key of the payload of a small tensor without external data; None for any other tensor."""
    if tensor.ByteSize() > _MAX_COMPARED_BYTES or tensor.external_data:
        return None
    return payload_key(tensor)


def _texts_of(value: Any, message: str) -> list[bytes]:
    """Return the texts of a value: of a message, its singular string fields; of any other value, its str().

    message: the message of the finding, or ""; if it begins with the name of a field, only that field is returned.
    """
    if not isinstance(value, Message):
        return [str(value).encode("utf-8", "surrogatepass")]
    names = [
        field.name
        for field in type(value).DESCRIPTOR.fields
        if field.type == field.TYPE_STRING and not field.is_repeated
    ]
    first_word = message.partition(" ")[0]
    return [
        getattr(value, name).encode("utf-8", "surrogatepass")
        for name in ([first_word] if first_word in names else names)
    ]


def _digest(*parts: bytes) -> bytes:
    """Return a digest of byte strings and their lengths."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()
