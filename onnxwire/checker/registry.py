"""The rules: a row of `rules.tsv` each, and the function that is registered under its id."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onnxwire.checker.facts import Facts, Finding

    Check = Callable[[Facts], Iterable[Finding]]

SEVERITIES = ("error", "warning", "note")

# One module a scope; each registers its rules when it is imported.
MODULES = (
    "model", "opset_import", "graph", "value_info", "shape", "types", "node", "signature", "attribute", "tensor",
    "tensor_values", "dtype", "sparse", "external", "function", "training", "device", "metadata", "operator_set",
    "data_value",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table.

    since_ir, until_ir: the first and last IR version that it applies to, or None. reason: why the severity is lower
    than the word of the specification (must: error, should: warning) would have it, "" where it is not.
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
        """Whether documents of an IR version are to follow it; of those that name none, whether all are."""
        if ir_version is None:
            # All documents that define operator sets are of the version that brought these, or of a later one.
            return (self.since_ir is None or self.scope == "operator_set") and self.until_ir is None
        return (self.since_ir or 0) <= ir_version and (self.until_ir is None or ir_version <= self.until_ir)


_checks: dict[str, Check] = {}


def rule(id: str) -> Callable[[Check], Check]:
    """Register a function under the id of a rule.

    It takes the facts of a document and yields what it found. IR version and severity are not its concern.
    """

    def register(check: Check) -> Check:
        if id in _checks:
            raise ValueError(f"the rule {id} has two functions")
        _checks[id] = check
        return check

    return register


@cache
def rules() -> dict[str, Rule]:
    """All rows of the table by id, in its order."""
    rows = read_table("rules.tsv")
    return {row[0]: Rule(row[0], row[1], _version(row[2]), _version(row[3]), *row[4:9]) for row in rows}


@cache
def unchecked() -> dict[str, str]:
    """The ids of rules that no file alone can be checked against, each with the reason."""
    return {row[0]: row[1] for row in read_table("unchecked.tsv")}


@cache
def checks() -> dict[str, Check]:
    """The registered functions by id."""
    for module in MODULES:
        import_module(f"onnxwire.checker.rules.{module}")
    return dict(_checks)


def read_table(name: str) -> list[list[str]]:
    """The rows of a table beside this module, without its head."""
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()[1:] if line]


def _version(cell: str) -> int | None:
    return int(cell) if cell else None
