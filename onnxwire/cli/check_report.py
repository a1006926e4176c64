"""The reports of `onnxwire check`: text for terminals, lines for pipes, JSON and SARIF; and the list of its rules."""

from __future__ import annotations

import argparse
from itertools import groupby, islice
from typing import IO, TYPE_CHECKING, Any

from onnxwire.cli.terminal import make_painter, safe_text
from onnxwire.errors import count_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onnxwire.checker._problem import Problem
    from onnxwire.checker.fixes import Fixes
    from onnxwire.checker.problems import Problems
    from onnxwire.checker.registry import Rule

_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}
# Maximum number of problems of one rule that are printed without -v.
_MAX_PRINTED_PROBLEMS = {"error": 10, "warning": 10, "note": 1}


class Reporter:
    """The base class of reporters; it prints nothing.

    For each file, `add_fixes` is called if --fix was given, and then `add_problems`. If the file could not be checked
    or written, `add_fault` is called instead of the remaining calls.
    """

    def add_fixes(self, file: str, fixes: Fixes) -> None:
        """Report the repairs that will be applied to a file, or with --dry-run would be."""

    def add_problems(self, file: str, problems: Problems, seconds: float) -> None:
        """Report the problems of a file; if it was repaired, those that remain. seconds: the duration of the check."""

    def add_fault(self, file: str, reason: str) -> None:
        """Report that a file could not be checked or written. The caller also prints the error on stderr."""

    def finish(self) -> None:
        """Write the end of the report."""


def make_reporter(out: IO[str], options: argparse.Namespace, file_count: int) -> Reporter:
    """Make the reporter that the options select. file_count: the number of files."""
    if options.quiet:
        return Reporter()
    if options.json:
        return _JsonReporter(out)
    if options.sarif:
        return _SarifReporter(out, options.untrusted)
    return _TextReporter(out, options, file_count)


class _TextReporter(Reporter):
    """Prints problems under headings on a terminal; elsewhere each line begins with the name of the file."""

    def __init__(self, out: IO[str], options: argparse.Namespace, file_count: int) -> None:
        self.out = out
        self.paint = make_painter(options.color, out)
        self.is_grouped = out.isatty()
        self.is_verbose = options.verbose
        self.shows_notes = options.strict or options.select is not None
        self.is_dry_run = options.dry_run
        self.file_count = file_count
        self.totals = dict.fromkeys(_COLORS, 0)

    def add_fixes(self, file: str, fixes: Fixes) -> None:
        if not fixes:
            return
        verb = "would repair" if self.is_dry_run else "repair"
        if self.is_grouped:
            self._print(f"{self.paint(safe_text(file), 'bold')}: {self.paint(verb, 'green')}")
        for fix in fixes:
            self._print_problem(file, verb, f"{fix.path}: {fix.message}", fix.rule)
        if fixes.omitted:
            prefix = "" if self.is_grouped else f"{safe_text(file)}: "
            repairs, remaining = count_text(len(fixes), "repair"), count_text(fixes.omitted, "more problem")
            advice = f"{repairs} at once; run --fix again for {remaining}"
            self._print(f"{prefix}{self.paint(advice, 'dim')}")

    def add_problems(self, file: str, problems: Problems, seconds: float) -> None:
        counts = problems.counts()
        n_hidden_notes = 0 if self.shows_notes else counts["note"]
        for severity, count in counts.items():
            self.totals[severity] += count
        name = self.paint(safe_text(file), "bold")
        if sum(counts.values()) == n_hidden_notes:
            if self.is_grouped:
                self._print(
                    f"{name}: {self.paint('no problem', 'green')}: {_checked_text(problems, seconds, n_hidden_notes)}"
                )
            return
        if self.is_grouped:
            self._print(f"{name}: {self._counts_text(counts)}")
        heading = ""
        for rule, count, rule_problems in problems.by_rule():
            if n_hidden_notes and rule.severity == "note":
                break
            if self.is_grouped and heading != rule.severity:
                self._print(self.paint(f"{rule.severity}s", f"bold {_COLORS[rule.severity]}"))
            heading = rule.severity
            self._add_rule(file, rule, count, rule_problems)
        if n_hidden_notes:
            prefix = "" if self.is_grouped else f"{safe_text(file)}: "
            self._print(f"{prefix}{self.paint(_notes_hint(n_hidden_notes), 'dim')}")

    def _add_rule(self, file: str, rule: Rule, count: int, problems: Iterator[Problem]) -> None:
        """Print the first problems of a rule (with -v, all that `check` returned), and the number of the others."""
        # A problem is printed when the next one has been read, since the line of the last one also shows how many
        # problems are omitted.
        line = ""
        n_printed = 0
        for problem in problems if self.is_verbose else islice(problems, _MAX_PRINTED_PROBLEMS[rule.severity]):
            if n_printed:
                self._print_problem(file, rule.severity, line, rule.id)
            location = [f"byte {problem.offset:,}"] if problem.offset is not None else []
            location += [problem.path] if problem.path else []
            line = ": ".join([*location, problem.message])
            n_printed += 1
        n_omitted = count - n_printed
        advice = "--limit" if self.is_verbose else "-v"
        self._print_problem(
            file, rule.severity, line, rule.id, f" and {n_omitted:,} more ({advice} prints more)" if n_omitted else ""
        )
        if self.is_verbose and self.is_grouped:
            self._print(self.paint(f"    {rule.id}: {rule.text} ({rule.source})", "dim"))

    def _print_problem(self, file: str, label: str, text: str, rule: str, suffix: str = "") -> None:
        prefix = "  " if self.is_grouped else f"{safe_text(file)}: {self.paint(label, _COLORS.get(label, 'green'))}: "
        self._print(f"{prefix}{safe_text(text)} {self.paint(f'[{rule}]{suffix}', 'dim')}")

    def _counts_text(self, counts: dict[str, int]) -> str:
        texts = [
            self.paint(count_text(count, severity), _COLORS[severity]) for severity, count in counts.items() if count
        ]
        return ", ".join(texts) or self.paint("no problem", "green")

    def finish(self) -> None:
        if self.is_grouped and self.file_count > 1:
            self._print(f"{self.paint(f'{self.file_count:,} files', 'bold')}: {self._counts_text(self.totals)}")

    def _print(self, text: str) -> None:
        self.out.write(text + "\n")


def _checked_text(problems: Problems, seconds: float, notes: int) -> str:
    """Format the numbers of applied rules, checked nodes and tensors, the duration, and the number of notes.

    The number of problems that the baseline also has is added if it is not 0. notes: the number of notes that are not
    printed.
    """
    counts = [count_text(count, noun.removesuffix("s")) for noun, count in problems.checked.items()]
    if problems.in_baseline:
        counts.append(f"{count_text(problems.in_baseline, 'problem')} of the baseline left out")
    return f"{', '.join(counts)}, {seconds:.2f} s" + (f"; {_notes_hint(notes)}" if notes else "")


def _notes_hint(count: int) -> str:
    return f"{count_text(count, 'note')}; --select note lists {'it' if count == 1 else 'them'}"


class _JsonReporter(Reporter):
    """Prints a JSON list with one object per file; each problem or repair is one line."""

    def __init__(self, out: IO[str]) -> None:
        from json import dumps  # imported here, since other reports do not need it

        self.encode = dumps
        self.out = out
        self.start = "["  # the text before the next file
        self.is_begun = False  # whether the repairs of the current file were written

    def add_fixes(self, file: str, fixes: Fixes) -> None:
        self._begin_file(file)
        self._write_list("fixes", fixes, ("rule", "path", "message"))
        self.out.write(f', "omitted_fixes": {fixes.omitted}, ' if fixes.omitted else ", ")
        self.is_begun = True

    def add_problems(self, file: str, problems: Problems, seconds: float) -> None:
        self._begin_file(file)
        self._write_list("problems", problems, ("rule", "severity", "path", "offset", "message"))
        if problems.omitted:
            self.out.write(f', "omitted": {self.encode(problems.omitted)}')
        if problems.in_baseline is not None:
            self.out.write(f', "in_baseline": {problems.in_baseline}')
        self.out.write("}")

    def add_fault(self, file: str, reason: str) -> None:
        self._begin_file(file)
        self.out.write(f'"error": {self.encode(reason)}}}')

    def finish(self) -> None:
        self.out.write("]\n" if self.start != "[" else "[]\n")

    def _begin_file(self, file: str) -> None:
        if not self.is_begun:
            self.out.write(f'{self.start}{{"file": {self.encode(file)}, ')
        self.start, self.is_begun = ",\n", False

    def _write_list(self, name: str, entries: Iterable[Any], fields: tuple[str, ...]) -> None:
        self.out.write(f'"{name}": [')
        start = "\n  "
        for entry in entries:
            self.out.write(start + self.encode({field: getattr(entry, field) for field in fields}))
            start = ",\n  "
        self.out.write("]")


class _SarifReporter(Reporter):
    """Prints a SARIF log of all files."""

    def __init__(self, out: IO[str], untrusted: bool) -> None:
        from onnxwire.checker.sarif import SarifWriter

        self.writer = SarifWriter(out, untrusted)

    def add_problems(self, file: str, problems: Problems, seconds: float) -> None:
        self.writer.add(file, problems)

    def add_fault(self, file: str, reason: str) -> None:
        self.writer.add_fault(file, reason)

    def finish(self) -> None:
        self.writer.finish()


def print_rules(out: IO[str], options: argparse.Namespace, select: list[str] | None, ignore: list[str] | None) -> None:
    """List the selected rules by scope, and the reasons why some are not checked. select, ignore: as for `choose`."""
    from onnxwire.checker.fixes import fixable_rules
    from onnxwire.checker.registry import checked, rules, unchecked
    from onnxwire.checker.run import choose

    scopes = list(dict.fromkeys(rule.scope for rule in rules(options.untrusted).values()))
    selected_rules = sorted(choose(select, ignore, options.untrusted), key=lambda rule: scopes.index(rule.scope))
    if options.json:
        entries = [
            {
                "id": rule.id,
                "severity": rule.severity,
                "since_ir": rule.since_ir,
                "until_ir": rule.until_ir,
                "scope": rule.scope,
                "text": rule.text,
                "source": rule.source,
                "reason": rule.reason,
                "fix": rule.id in fixable_rules(),
                "unchecked": unchecked().get(rule.id),
            }
            | ({"weaknesses": rule.weaknesses, "explanation": rule.explanation} if rule.weaknesses else {})
            for rule in selected_rules
        ]
        import json

        json.dump(entries, out, indent=1)
        out.write("\n")
        return
    paint = make_painter(options.color, out)
    width = max((len(rule.id) for rule in selected_rules), default=0)
    checked_ids = checked(options.untrusted)
    for scope, scope_rules in groupby(
        (rule for rule in selected_rules if rule.id in checked_ids), key=lambda rule: rule.scope
    ):
        out.write(paint(scope, "bold") + "\n")
        for rule in scope_rules:
            severity = paint(f"{rule.severity:<7}", _COLORS[rule.severity])
            versions = _ir_versions(rule)
            repair = " (--fix)" if rule.id in fixable_rules() else ""
            reason = f" ({rule.reason or '; '.join(rule.weaknesses)})" if rule.reason or rule.weaknesses else ""
            out.write(f"  {rule.id:<{width}}  {severity}  {rule.text}{paint(versions + reason + repair, 'dim')}\n")
    unchecked_rules = [rule for rule in selected_rules if rule.id in unchecked()]
    if unchecked_rules:
        out.write(paint("not checked", "bold") + "\n")
    for rule in unchecked_rules:
        out.write(f"  {rule.id:<{width}}  {unchecked()[rule.id]}\n")


def _ir_versions(rule: Rule) -> str:
    """Return the IR versions that a rule applies to, such as " (IR 3 and later)", or "" for all versions."""
    if rule.since_ir and rule.until_ir:
        return f" (IR {rule.since_ir} to {rule.until_ir})"
    if rule.until_ir:
        return f" (IR {rule.until_ir} and earlier)"
    return f" (IR {rule.since_ir} and later)" if rule.since_ir else ""
