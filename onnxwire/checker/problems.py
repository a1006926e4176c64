"""Stores the problems of a document as columns: an object for each would take too much memory for a hostile model."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np

from onnxwire.checker._problem import Problem, make_problem
from onnxwire.checker.registry import SEVERITIES, rules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from onnxwire.checker.facts import Finding, Table
    from onnxwire.checker.registry import Rule

_BATCH_ROWS = 4096  # problems whose offsets are looked up at a time
_MIN_SHARED_ROWS = 64  # minimum length of arrays that are compared with those of earlier findings


class _Group(NamedTuple):
    """One finding of a rule.

    rows: the rows of `finding.table` within the limit, int32. is_placed: whether offsets refer to the caller's bytes;
    False for a message that was encoded for the check.
    """

    rule: Rule
    finding: Finding
    rows: NDArray[np.int32]
    is_placed: bool

    def read(self, start: int, stop: int) -> Iterator[Problem]:
        """Yield the problems of a range of the rows."""
        for batch_start in range(start, stop, _BATCH_ROWS):
            rows = self.rows[batch_start : min(batch_start + _BATCH_ROWS, stop)]
            offsets = self.finding.table.offset_of(rows).tolist() if self.is_placed else [-1] * len(rows)
            for row, offset in zip(rows.tolist(), offsets, strict=True):
                yield make_problem(self.rule.id, self.rule.severity, self.finding, row, offset)


class Problems(Sequence[Problem]):
    """The findings of `check`: a sequence of Problem, each created on access. It equals a list of the same problems.

    omitted: the number of violations beyond the limit of `check`, by rule; only nonzero numbers. checked: the numbers
    of applied "rules" and of checked "nodes" and "tensors". in_baseline: the number of violations that are omitted
    because the trusted model also has them; None for a check without a baseline.
    """

    __slots__ = ("_groups", "_n", "checked", "in_baseline", "omitted")

    def __init__(self) -> None:
        self._groups: list[_Group] = []
        self._n = 0
        self.omitted: dict[str, int] = {}
        self.in_baseline: int | None = None
        self.checked = {"rules": 0, "nodes": 0, "tensors": 0}

    def add(self, rule: Rule, finding: Finding, limit: int | None, is_placed: bool) -> int | None:
        """Append a finding of a rule, up to the limit, and count the rest. Returns the remainder of the limit."""
        rows = finding.rows
        if limit is not None and len(rows) > limit:
            self.omitted[rule.id] = self.omitted.get(rule.id, 0) + len(rows) - limit
            rows = rows[:limit]
        if len(rows):
            rows32 = rows.astype(np.int32)
            if len(rows32) >= _MIN_SHARED_ROWS:
                # Rules with the same rows share one array.
                rows32 = next((group.rows for group in self._groups if _are_equal(group.rows, rows32)), rows32)
            self._groups.append(_Group(rule, finding, rows32, is_placed))
            finding.release_rows()
            self._n += len(rows)
        return None if limit is None else limit - len(rows)

    def counts(self) -> dict[str, int]:
        """Return the number of violations by severity, including those beyond the limit."""
        counts = dict.fromkeys(SEVERITIES, 0)
        for group in self._groups:
            counts[group.rule.severity] += len(group.rows)
        for id, n_omitted in self.omitted.items():
            is_security_rule = id not in rules()
            counts[rules(untrusted=is_security_rule)[id].severity] += n_omitted
        return counts

    def by_rule(self) -> Iterator[tuple[Rule, int, Iterator[Problem]]]:
        """Yield each broken rule, the number of its violations (including those beyond the limit), and its problems."""
        for rule, rule_groups in groupby(self._groups, key=lambda group: group.rule):
            groups = list(rule_groups)
            n_stored = sum(len(group.rows) for group in groups)
            yield rule, n_stored + self.omitted.get(rule.id, 0), _chain(groups)

    def findings(self) -> Iterator[tuple[Rule, Finding, NDArray[np.int32]]]:
        """Yield each rule and finding with its rows within the limit."""
        for group in self._groups:
            yield group.rule, group.finding, group.rows

    def rows(self, rules: Container[str]) -> Iterator[tuple[str, Table, NDArray[np.int32]]]:
        """Yield the stored violations of some rules: the rule's id, a table of the facts, and row numbers."""
        for group in self._groups:
            if group.rule.id in rules:
                yield group.rule.id, group.finding.table, group.rows

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Problem]:
        return _chain(self._groups)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._n)
            if step == 1:
                return list(islice(self._from(start), max(stop - start, 0)))
            return [self[i] for i in range(start, stop, step)]
        if index < 0:
            index += self._n
        if not 0 <= index < self._n:
            raise IndexError(f"index {index} is out of range: the number of problems is {self._n:,}")
        return next(self._from(index))

    def _from(self, start: int) -> Iterator[Problem]:
        """Yield the problems from an index on."""
        for group in self._groups:
            if start < len(group.rows):
                yield from group.read(start, len(group.rows))
            start = max(start - len(group.rows), 0)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Problems, list)):
            return NotImplemented
        return len(self) == len(other) and all(
            own_problem == other_problem for own_problem, other_problem in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        n_omitted = sum(self.omitted.values())
        shown = [*map(repr, self[:10])] + (["..."] if self._n > 10 else [])
        return f"[{', '.join(shown)}]" + (f" and {n_omitted:,} more" if n_omitted else "")


def _are_equal(left: NDArray[np.int32], right: NDArray[np.int32]) -> bool:
    """Return whether two columns are equal."""
    return len(left) == len(right) and bool((left == right).all())


def _chain(groups: Iterable[_Group]) -> Iterator[Problem]:
    """Yield the problems of several groups."""
    for group in groups:
        yield from group.read(0, len(group.rows))
