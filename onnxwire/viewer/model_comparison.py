"""The page's comparison of two models: a list of differences, and the nodes to mark on both maps."""

from __future__ import annotations

import re
import threading
from typing import Any

from onnxwire.analysis.comparison import node_name
from onnxwire.analysis.diff import diff
from onnxwire.engine.search import Search
from onnxwire.messages import ModelProto, NodeProto

MAX_ROWS = 2_000
"""Maximum number of listed differences; all differences are counted and marked."""
_MAX_TEXT_CHARS = 300  # maximum length of a listed text
# The path of a node, or of an element in it: the node's path is the first group.
_NODE_PATH = re.compile(r"(.*\.node\[\d+\])(?:\..*)?", re.DOTALL)
_FIELDS = ("change", "kind", "name", "part", "old", "new")  # the listed fields of a Difference


class ModelComparison:
    """The differences of two models, computed for the first query. Thread-safe.

    match: as for `onnxwire.diff`.
    """

    def __init__(self, old: ModelProto, new: ModelProto, match: Any = "auto") -> None:
        self.models = old, new
        self.match = match
        self._lock = threading.Lock()
        self._cached_result: tuple[dict[str, Any], tuple[dict[str, str], dict[str, str]]] | None = None

    def comparison(self) -> dict[str, Any]:
        """List the differences.

        Returns total, counts by change, files (both names) and rows, up to 2,000: change, kind, name, part, old, new,
        distance (a text; "" except for weights), and left and right, the paths in the two models of the node that
        differs, or of the first node that uses the initializer that differs, or "".
        """
        return self._result()[0]

    def marks(self, side: int) -> dict[str, str] | None:
        """Return the changes of a model's nodes by path: added, removed, changed or rewired; equal nodes are absent.

        side: 0 for the first model, 1 for the second. A node also differs if an initializer that it uses
        differs. Returns None until `comparison` has been computed; maps do not wait for it.
        """
        return None if self._cached_result is None else self._cached_result[1][side]

    def _result(self) -> tuple[dict[str, Any], tuple[dict[str, str], dict[str, str]]]:
        """Return the result of `_compare`, which is computed once."""
        with self._lock:
            if self._cached_result is None:
                self._cached_result = self._compare()
            return self._cached_result

    def _compare(self) -> tuple[dict[str, Any], tuple[dict[str, str], dict[str, str]]]:
        """Return the answer of `comparison`, and the marks of both models."""
        rows: list[dict[str, Any]] = []
        counts: dict[str, int] = {}
        renamed: dict[str, dict[str, str]] = {"nodes": {}, "values": {}}
        # Differences are stored without old and new values, since there may be a million. Only the last difference
        # contains the new names of renamed nodes and values.
        differences: list[tuple[str, str, str, str]] = []
        for entry in diff(*self.models, match=self.match):
            counts[entry.change] = counts.get(entry.change, 0) + 1
            renamed |= entry.names or {}
            is_new = entry.change == "added"
            # A part that is added to a node, or removed, changes the node.
            change: str = "changed" if entry.part and entry.change in ("added", "removed") else entry.change
            differences.append((change, entry.kind, entry.name, entry.path if not entry.part or not is_new else ""))
            if len(rows) < MAX_ROWS:
                row = {name: _truncate(getattr(entry, name)) for name in _FIELDS}
                rows.append(row | {"distance": "" if entry.distance is None else entry.distance.describe()})
        marks: tuple[dict[str, str], dict[str, str]] = ({}, {})
        for side, side_name in enumerate(("left", "right")):
            nodes_by_name = _NodesByName(self.models[side])
            if not side:
                names = {kind: {new: old for old, new in renames.items()} for kind, renames in renamed.items()}
            else:
                names = renamed
            for i, (change, kind, name, path) in enumerate(differences):
                paths = _find_nodes(change, kind, name, path, side, nodes_by_name, names)
                for node in paths:
                    marks[side].setdefault(node, change)
                if i < len(rows):
                    rows[i][side_name] = paths[0] if paths else ""
        files = [model._document.name for model in self.models]
        return {"files": files, "total": len(differences), "counts": counts, "rows": rows}, marks


def _find_nodes(
    change: str,
    kind: str,
    name: str,
    path: str,
    side: int,
    nodes_by_name: _NodesByName,
    renamed: dict[str, dict[str, str]],
) -> list[str]:
    """Return the paths of the nodes of a model to which a difference refers.

    change, kind, name: as in `Difference`, but an added or removed part of a node is a change. path: the path in the
    second model for an added element, else in the first model; "" if it is unknown. side: 0 for the nodes of the first
    model, 1 for the nodes of the second model. renamed: the names in this model, by kind and by the name in the other
    model.
    """
    if side == (change == "added"):  # the path refers to this model
        match = _NODE_PATH.fullmatch(path)
        if match is not None:
            return [match[1]]
    elif kind == "node" and change in ("added", "removed"):
        return []
    if kind not in ("node", "tensor"):
        return []
    names = renamed[f"{kind}s" if kind == "node" else "values"]
    paths_by_name = nodes_by_name.nodes if kind == "node" else nodes_by_name.users
    # The name of the difference may be the name in either model.
    for candidate in (name, names.get(name, name)) if not side else (names.get(name, name), name):
        if candidate in paths_by_name:
            return paths_by_name[candidate][:1] if kind == "node" else paths_by_name[candidate]
    return []


class _NodesByName:
    """The nodes of a model by name.

    nodes: paths of nodes by their names. users: paths of nodes by the names of the initializers that they use.
    """

    def __init__(self, model: ModelProto) -> None:
        self.nodes: dict[str, list[str]] = {}
        self.users: dict[str, list[str]] = {}
        weights = {tensor.name for tensor in model.graph.initializer}
        for path, node in Search(model, [NodeProto]):
            self.nodes.setdefault(node_name(node), []).append(path)
            for name in node.input:
                if name in weights:
                    self.users.setdefault(name, []).append(path)


def _truncate(text: str | None) -> str:
    return "" if text is None else text if len(text) <= _MAX_TEXT_CHARS else f"{text[:_MAX_TEXT_CHARS]}…"
