"""The rules: metadata in `rules.tsv`, a row for each; checks in `rules/`, a module for each scope.

Most checks are entries of a module's table `RULES`, by the sheet or list whose rows are checked and the rule's id:

    RULES = {
        "GraphProto": {
            "graph-doc-string-present": (
                lambda graph: graph.doc_string == EMPTY,            # which rows break the rule: a column of bool
                "graph {name!r} has no doc_string; describe it",    # the message; it names columns of the sheet
            ),
        },
    }

A third element, {name: function of the sheet that returns a column}, adds names to the message. Messages are made
later, so a column must not call `derive` or read the document by then. A list of entries is several faults of one
rule. The key ("NodeProto.input", "FunctionProto") checks node inputs of documents that have functions, too. A check
that needs more is a function with the decorator `rule`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts, Finding

    Find = Callable[[Facts], Iterable[Finding]]

SEVERITIES = ("error", "warning", "note")

# The modules of `rules/`, one a scope. Each is imported when a document has rows of one of its sheets.
MODULES = {
    "model": (),
    "opset_import": ("ModelProto", "OperatorSetIdProto"),
    "graph": ("GraphProto", "NodeProto", "ValueInfoProto", "TensorProto", "SparseTensorProto", "TensorAnnotation"),
    "value_info": ("ValueInfoProto",),
    "shape": ("TensorShapeProto.Dimension",),
    "types": ("TypeProto",),
    "node": ("NodeProto",),
    "signature": ("NodeProto",),
    "attribute": ("AttributeProto",),
    "tensor": ("TensorProto",),
    "tensor_values": ("TensorProto",),
    "dtype": ("TensorProto", "TypeProto.Tensor", "TypeProto.SparseTensor"),
    "sparse": ("SparseTensorProto",),
    "external": ("TensorProto",),
    "function": ("FunctionProto",),
    "training": ("TrainingInfoProto",),
    "device": (
        "DeviceConfigurationProto", "NodeDeviceConfigurationProto", "ShardingSpecProto", "ShardedDimProto",
        "SimpleShardedDimProto", "IntIntListEntryProto",
    ),
    "metadata": ("StringStringEntryProto", "TypeProto"),
    "operator_set": ("OperatorSetProto", "OperatorProto"),
    "data_value": ("SequenceProto", "MapProto", "OptionalProto"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of `rules.tsv`.

    since_ir, until_ir: the first and last IR version that it applies to, or None. reason: why the severity is lower
    than the word of the specification (must: error, should: warning) asks for, "" where it is not.
    """

    id: str
    severity: str
    since_ir: int | None
    until_ir: int | None
    scope: str
    text: str
    fields: str
    source: str
    reason: str

    def applies_to(self, ir_version: int | None) -> bool:
        """Return whether the rule applies to documents of an IR version; None: to documents without a version."""
        if ir_version is None:
            # Every document that defines an operator set has IR version 3 or later, which introduced them.
            return (self.since_ir is None or self.scope == "operator_set") and self.until_ir is None
        return (self.since_ir or 0) <= ir_version and (self.until_ir is None or ir_version <= self.until_ir)


class Check(NamedTuple):
    """One way to find breaches of a rule. tables: it runs only where each of these sheets and lists has rows."""

    tables: tuple[str, ...]
    find: Find


_checks: dict[str, list[Check]] = {}


def rule(id: str, *tables: str) -> Callable[[Find], Find]:
    """Register a function that yields the breaches of a rule; tables: as of `Check`."""

    def register(find: Find) -> Find:
        if id in _checks:
            raise ValueError(f"two modules check the rule {id}")
        _checks[id] = [Check(tables, find)]
        return find

    return register


_loaded: set[str] = set()
_loading = Lock()


def _load(name: str) -> None:
    """Import a module of `rules/` and register its table, once; other threads wait until that is done."""
    if name in _loaded:
        return
    with _loading:
        if name not in _loaded:
            _register(name)
            _loaded.add(name)


def _register(name: str) -> None:
    """Import a module of `rules/` and register its table; its functions register themselves."""
    module = import_module(f"onnxwire.checker.rules.{name}")
    added: dict[str, list[Check]] = {}
    for key, entries in getattr(module, "RULES", {}).items():
        tables = (key,) if isinstance(key, str) else key
        for id, entry in entries.items():
            for one in entry if isinstance(entry, list) else [entry]:
                added.setdefault(id, []).append(Check(tables, partial(_find_rows, tables[0], one)))
    if _checks.keys() & added.keys():
        raise ValueError(f"two modules check the rules {sorted(_checks.keys() & added.keys())}")
    _checks.update(added)


def _find_rows(table: str, entry: tuple[Any, ...], facts: Facts) -> Iterator[Finding]:
    """Yield the rows of a table that meet the condition of an entry of `RULES`."""
    condition, message, *columns = entry
    sheet = facts.table(table)
    found = sheet.at(condition(sheet), message)
    if len(found.rows):
        found.columns = {name: column(sheet) for more in columns for name, column in more.items()}
        yield found


@cache
def rules() -> dict[str, Rule]:
    """Return all rows of `rules.tsv` by id, in the order of the file."""
    rows = read_table("rules.tsv")
    return {row[0]: Rule(row[0], row[1], _version(row[2]), _version(row[3]), *row[4:9]) for row in rows}


@cache
def unchecked() -> dict[str, str]:
    """Return the ids of rules that can't be checked by looking at one file, each with the reason."""
    return {row[0]: row[1] for row in read_table("unchecked.tsv")}


def find(id: str, facts: Facts) -> Iterator[Finding]:
    """Yield the breaches of a rule. Nothing is computed where the sheets that it needs have no rows."""
    for check in _checks.get(id, ()):
        if all(map(facts.count, check.tables)):
            yield from check.find(facts)


def load_for(tables: frozenset[str]) -> None:
    """Import the modules of rules that can find something where these sheets have rows."""
    for name, needed in MODULES.items():
        if not needed or not tables.isdisjoint(needed):
            _load(name)


def checks_of(id: str, tables: frozenset[str]) -> list[Find]:
    """Return the functions that find breaches of a rule, where these sheets and lists have rows."""
    return [check.find for check in _checks.get(id, ()) if tables.issuperset(check.tables)]


@cache
def checked() -> frozenset[str]:
    """Return the ids of the rules that have a check; imports all modules."""
    for name in MODULES:
        _load(name)
    return frozenset(_checks)


def read_table(name: str) -> list[list[str]]:
    """Return the rows of a TSV file beside this module, without its head."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[1:] if line]


def _version(cell: str) -> int | None:
    return int(cell) if cell else None
