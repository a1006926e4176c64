"""Registers rules. `rules.tsv` has the metadata, a row for each rule; `rules/` has the checks, in modules by subject.

Most checks are entries of a module's table `RULES`, keyed by the sheet or list (see facts.py) whose rows are checked,
or "UnknownFields", then by the id of the rule:

    RULES = {
        "GraphProto": {
            "graph-doc-string-present": (
                lambda graph: graph.doc_string == EMPTY,            # the rows that break the rule: a bool column
                "graph {name!r} has no doc_string; describe it",    # the message; names are columns of the sheet
            ),
        },
    }

A third element, {name: function of the sheet that returns a column}, adds names to the message. A column may be a
function of the row number. Messages are formatted after the check, so this function must not call `derive` or read the
document. A list of entries describes several faults of one rule. A key may also be a tuple, whose further names the
document must contain, so that conditions are not called for documents that cannot meet them. For example,
("NodeProto", "NodeProto.domain") checks nodes of documents in which some node has a domain. A check that does not fit
the table is a function with the decorator `rule`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onnxwire.checker.facts import Finding
from onnxwire.errors import count_text

if TYPE_CHECKING:
    from onnxwire.checker.facts import Facts

    Find = Callable[[Facts], Iterable[Finding]]

_BOOL = np.dtype(bool)

SEVERITIES = ("error", "warning", "note")

# The modules of `rules/`, with names of sheets. A module is imported for a document that has rows of one of its sheets;
# a module without sheets is always imported.
MODULES = {
    "model": (),
    "opset_import": ("ModelProto", "OperatorSetIdProto"),
    "graph": ("GraphProto", "NodeProto", "ValueInfoProto", "TensorProto", "SparseTensorProto", "TensorAnnotation"),
    "value_info": ("ValueInfoProto",),
    "shape": ("TensorShapeProto.Dimension",),
    "types": ("TypeProto",),
    "node": ("NodeProto", "FunctionProto"),
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
# Modules of rules that run only for untrusted models; `security.tsv` has their metadata.
SECURITY_MODULES: dict[str, tuple[str, ...]] = {
    "security_wire": (),
    "security_files": ("TensorProto",),
    "security_resources": (),
    "security_attributes": ("NodeProto", "AttributeProto"),
    "security_code": ("NodeProto", "FunctionProto", "StringStringEntryProto", "OperatorSetIdProto"),
    "security_names": (),
    "security_payloads": (),
    "security_behaviour": ("NodeProto", "TensorProto"),
    "security_triggers": ("NodeProto",),
}


class Rule(NamedTuple):
    """A row of `rules.tsv` or `security.tsv`.

    since_ir, until_ir: the first and last IR version that the rule applies to, or None. scope: the subject of the rule,
    such as "graph", or "security". text: the rule as a sentence. fields: the fields that the rule is about. source: the
    documents or code that state the rule. reason: why the severity is lower than the wording of the specification
    implies (must: error, should: warning), or "". weaknesses: for a security rule, its entries of CWE and CVE.
    explanation: for a security rule, a paragraph about the attack.
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
    weaknesses: tuple[str, ...] = ()
    explanation: str = ""

    def applies_to(self, ir_version: int | None) -> bool:
        """Return whether the rule applies to documents of an IR version (None: documents without a version)."""
        if ir_version is None:
            # Operator sets were introduced in IR version 3, so every document that defines one has that version or a
            # later one.
            return (self.since_ir is None or self.scope == "operator_set") and self.until_ir is None
        return (self.since_ir or 0) <= ir_version and (self.until_ir is None or ir_version <= self.until_ir)


class Check(NamedTuple):
    """A function that finds breaches of a rule; called if `Facts.present` contains all names in `required_names`."""

    required_names: tuple[str, ...]
    find: Find


_checks: dict[str, list[Check]] = {}


def rule(id: str, *required_names: str) -> Callable[[Find], Find]:
    """Return a decorator that registers a function that yields violations of a rule; required_names: see `Check`."""

    def register(find: Find) -> Find:
        if id in _checks:
            raise ValueError(f"two modules check the rule {id}")
        _checks[id] = [Check(required_names, find)]
        return find

    return register


_loaded_modules: set[str] = set()
_load_lock = Lock()


def _load(name: str) -> None:
    """Import a module of `rules/` and register its table, once; other threads wait for the import."""
    if name in _loaded_modules:
        return
    with _load_lock:
        if name not in _loaded_modules:
            _register(name)
            _loaded_modules.add(name)


def _register(name: str) -> None:
    """Import a module of `rules/` and register its table; its functions register themselves."""
    module = import_module(f"onnxwire.checker.rules.{name}")
    checks_by_rule: dict[str, list[Check]] = {}
    for key, entries in getattr(module, "RULES", {}).items():
        required_names = (key,) if isinstance(key, str) else key
        for id, entry in entries.items():
            for condition, message, *columns in entry if isinstance(entry, list) else [entry]:
                find = partial(_find_rows, required_names[0], condition, message, columns[0] if columns else {})
                checks_by_rule.setdefault(id, []).append(Check(required_names, find))
    if _checks.keys() & checks_by_rule.keys():
        raise ValueError(f"two modules check the rules {sorted(_checks.keys() & checks_by_rule.keys())}")
    _checks.update(checks_by_rule)


def _find_rows(
    table: str, condition: Callable[[Any], Any], message: str, columns: dict[str, Any], facts: Facts
) -> Sequence[Finding]:
    """Return one finding about the rows of a table that meet the condition of an entry of `RULES`, or no finding.

    The condition returns a bool column, or other rows that `Sheet.at` accepts.
    """
    sheet = facts.table(table)
    condition_result = condition(sheet)
    if isinstance(condition_result, np.ndarray) and condition_result.dtype is _BOOL:
        rows = condition_result.nonzero()[0]
        if not len(rows):
            return ()
        return (Finding(sheet, rows, message, {name: column(sheet) for name, column in columns.items()}),)
    finding = sheet.at(condition_result, message)
    if not len(finding.rows):
        return ()
    finding.columns = {name: column(sheet) for name, column in columns.items()}
    return (finding,)


@cache
def rules(untrusted: bool = False) -> dict[str, Rule]:
    """Return the rows of `rules.tsv` by id, in the order of the file; with untrusted, also those of `security.tsv`."""
    if untrusted:
        return rules() | {row[0]: _security_rule(*row) for row in read_table("security.tsv")}
    return {row[0]: _rule(*row) for row in read_table("rules.tsv")}


def _rule(
    id: str, severity: str, since: str, until: str, scope: str, text: str, fields: str, source: str, reason: str
) -> Rule:
    """Return a rule, from the cells of a row of rules.tsv."""
    return Rule(id, severity, _version(since), _version(until), scope, text, fields, source, reason)


def _security_rule(
    id: str, severity: str, fields: str, weaknesses: str, source: str, text: str, explanation: str
) -> Rule:
    """Return a rule of security, from the cells of a row of security.tsv."""
    return Rule(
        id, severity, None, None, "security", text, fields, source, "", tuple(weaknesses.split("; ")), explanation
    )


@cache
def unchecked() -> dict[str, str]:
    """Return the ids of the rules that have no check, each with the reason."""
    return {row[0]: row[1] for row in read_table("unchecked.tsv")}


def count_texts(counts: Any, noun: str) -> Callable[[int], str]:
    """Return a column for messages: a function of the row that returns its count with the noun, such as "2 inputs"."""
    return lambda row: count_text(int(counts[row]), noun)


def find(id: str, facts: Facts) -> Iterator[Finding]:
    """Yield the breaches of a rule. Checks whose `required_names` the document does not contain are skipped."""
    for find in checks_of(id, facts.present):
        yield from find(facts)


def load_for(present: frozenset[str], untrusted: bool = False) -> None:
    """Import the modules of rules that can find something in a document; present: see `Facts`."""
    for name, sheet_names in (MODULES | SECURITY_MODULES if untrusted else MODULES).items():
        if not sheet_names or not present.isdisjoint(sheet_names):
            _load(name)


def checks_of(id: str, present: frozenset[str]) -> list[Find]:
    """Return the functions that can find breaches of a rule in a document; present: see `Facts`."""
    return [check.find for check in _checks.get(id, ()) if present.issuperset(check.required_names)]


@cache
def checked(untrusted: bool = False) -> frozenset[str]:
    """Import all modules and return the ids of the rules that have a check; with untrusted, also rules of security."""
    for name in MODULES | SECURITY_MODULES if untrusted else MODULES:
        _load(name)
    return frozenset(_checks) & rules(untrusted).keys()


def read_table(name: str) -> list[list[str]]:
    """Return the rows of a TSV file in this module's folder, without its header."""
    with open(os.path.join(os.path.dirname(__file__), name), encoding="utf-8") as file:
        return [line.split("\t") for line in file.read().splitlines()[1:] if line]


def _version(cell: str) -> int | None:
    """Return the version in a cell, None for an empty cell."""
    return int(cell) if cell else None
