"""Runs the rules over a document."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING

from onnxwire.checker.facts import Facts
from onnxwire.checker.limits import MAX_ELEMENTS, MAX_READ_BYTES
from onnxwire.checker.operator_table import load_operators
from onnxwire.checker.problems import Problems
from onnxwire.checker.registry import SEVERITIES, Rule, checks_of, load_for, rules, unchecked
from onnxwire.engine.message import Message
from onnxwire.errors import FieldTypeError, FieldValueError, did_you_mean
from onnxwire.io.load import load
from onnxwire.messages import ModelProto, TensorProto

if TYPE_CHECKING:
    import os

    from onnxwire.checker.baseline import Baseline
    from onnxwire.checker.operator_table import Operators
    from onnxwire.checker.registry import Find
    from onnxwire.io.source import Source

    _Selectors = tuple[str, ...] | str | None  # ids of rules, severities and "security"

_MAX_ENCODED_BYTES = 1 << 26  # messages of fewer bytes are encoded with their weights


def check(
    source: Source | Message,
    type: type[Message] = ModelProto,
    *,
    ir_version: int | None = None,
    select: Iterable[str] | str | None = None,
    ignore: Iterable[str] | str | None = None,
    checksums: bool = False,
    limit: int | None = None,
    operators: str | os.PathLike[str] | None = None,
    untrusted: bool = False,
    max_elements: int = MAX_ELEMENTS,
    baseline: Source | ModelProto | None = None,
) -> Problems:
    """Check a document against every rule that applies to its IR version.

    source, type: as for `load`; source may also be a message, whose own type is used. ir_version: the version to check
    against, instead of the document's own. select, ignore: ids of rules, severities ("error", "warning", "note"), or
    with untrusted=True "security" for all rules of security; only rules that are selected and not ignored are applied.
    checksums: whether to read files of external data and compare their digests.
    limit: the maximum number of problems of one rule, None for all; further ones are counted in `Problems.omitted`.
    operators: the path of a table of further operators, in the notation of checker/operators.tsv.
    untrusted: whether to also apply the rules of security, which detect known attacks on programs that read models, and
    to open `source` with untrusted=True of `load`; a message that is already open is not affected.
    max_elements: the maximum number of elements of a value in the rules of security. The limit of some values is a
    multiple of it; see docs/untrusted.md.
    baseline: a trusted model, or a source of one, which is opened like `source`. Only problems that the trusted model
    does not have at the matching part are reported; parts are matched as by `diff` with match="structure".
    Returns a sequence of problems: errors, then warnings, then notes, each grouped by rule. They are stored as
    columns, a few bytes for each problem until it is read. Without `checksums`, `untrusted` and `baseline`, no rule
    reads a weight above 1 MiB as a whole.
    Raises DecodeError for damaged bytes and SourceError as `load` does, also for the baseline; DecodeError and
    SourceError for a malformed or unreadable table of operators; ValueError for an unknown rule id, for a rule of
    security without `untrusted`, and for a limit or max_elements below 1; TypeError for a selector that is no string,
    and for a baseline or a document compared with it that is no ModelProto.
    """
    select, ignore = _as_selectors(select), _as_selectors(ignore)
    _choose(select, ignore, untrusted)  # called only to raise its errors
    if limit is not None and limit < 1:
        raise FieldValueError(f"limit is {limit}; give a number from 1 on, or None for no limit")
    if max_elements < 1:
        raise FieldValueError(f"max_elements is {max_elements}; give a number from 1 on")
    operator_table = None if operators is None else load_operators(operators)
    with ExitStack() as stack:

        def open_facts(source: Source | Message, type: builtins.type[Message]) -> tuple[Message, Facts]:
            """Return the message of a source, and its facts."""
            if isinstance(source, Message):
                facts = _facts_of(source, ir_version, checksums, operator_table)
                facts.max_elements = max_elements
                return source, facts
            message = stack.enter_context(load(source, type, untrusted=untrusted))
            document = message._document
            return message, Facts(
                document, message.__class__, ir_version, checksums, True, None, operator_table, max_elements
            )

        if baseline is None:
            return _run(open_facts(source, type)[1], select, ignore, limit, untrusted)
        from onnxwire.checker.baseline import MAX_KNOWN_PROBLEMS, Baseline

        trusted, trusted_facts = open_facts(baseline, ModelProto)
        message, facts = open_facts(source, type)
        if not isinstance(trusted, ModelProto) or not isinstance(message, ModelProto):
            raise FieldTypeError("a baseline is a ModelProto, and so is the document that is compared with it")
        selection = Baseline(trusted, trusted_facts)
        selection.add_known(_run(trusted_facts, select, ignore, MAX_KNOWN_PROBLEMS, untrusted))
        selection.compare_with(message, facts)
        return _run(facts, select, ignore, limit, untrusted, selection)


def _facts_of(message: Message, ir_version: int | None, checksums: bool, operators: Operators | None) -> Facts:
    """Return the facts of a message in its current state.

    The message is encoded unless it is the root of an unedited document.
    """
    document = message._document
    size = message.ByteSize()
    if document.root is message.__class__ and size == len(document) and not document.is_edited:
        return Facts(document, message.__class__, ir_version, checksums, operators=operators)
    from onnxwire.io.save import encoded_document

    encoded = encoded_document(message if size < _MAX_ENCODED_BYTES else _without_weights(message), False)
    return Facts(encoded, message.__class__, ir_version, checksums, False, document, operators)


def _without_weights(message: Message) -> Message:
    """Return a copy whose long weights are zeros in a sparse file, except those that a rule scans."""
    import tempfile

    from onnxwire.checker.payloads import is_scanned
    from onnxwire.engine.record_reader import payload_at
    from onnxwire.engine.search import Search
    from onnxwire.io.source import open_document

    copy = type(message)()
    copy.CopyFrom(message)
    weights = [
        (tensor, len(payload))
        for _, tensor in Search(copy, [TensorProto])
        if (payload := tensor._payload("raw_data")) is not None
        and len(payload) > MAX_READ_BYTES
        and not is_scanned(tensor)
    ]
    with tempfile.TemporaryFile() as file:
        file.truncate(max((length for _, length in weights), default=1))
        zeros = open_document(file)
    for tensor, length in weights:
        tensor._share("raw_data", memoryview(payload_at(zeros, 0, length)))
    return copy


def _run(
    facts: Facts,
    select: _Selectors,
    ignore: _Selectors,
    limit: int | None,
    untrusted: bool,
    baseline: Baseline | None = None,
) -> Problems:
    """Apply the rules to a document and release its facts. baseline: filters the findings, if it is not None."""
    problems = Problems()
    n_rules, plan = _plan(select, ignore, facts.ir_version, facts.present, untrusted)
    problems.checked |= {"rules": n_rules, "nodes": facts.count("NodeProto"), "tensors": facts.count("TensorProto")}
    try:
        for rule, find_functions in plan:
            limit_left = limit
            for find in find_functions:
                for finding in find(facts) if baseline is None else baseline.select(rule.id, find(facts)):
                    limit_left = problems.add(rule, finding, limit_left, facts.columns.is_placed)
    finally:
        facts.release()
    if baseline is not None:
        problems.in_baseline = baseline.omitted
    return problems


@lru_cache(256)
def _plan(
    select: _Selectors, ignore: _Selectors, ir_version: int | None, present: frozenset[str], untrusted: bool
) -> tuple[int, list[tuple[Rule, list[Find]]]]:
    """Return the number of rules that apply, and the functions to call for each rule; present: see `Facts`."""
    load_for(present, untrusted)
    applicable_rules = [
        rule
        for rule in _choose(select, ignore, untrusted)
        if rule.id not in unchecked() and rule.applies_to(ir_version)
    ]
    return len(applicable_rules), [
        (rule, find_functions) for rule in applicable_rules if (find_functions := checks_of(rule.id, present))
    ]


def choose(
    select: Iterable[str] | str | None, ignore: Iterable[str] | str | None, untrusted: bool = False
) -> list[Rule]:
    """Return the rules that are selected and not ignored, by severity and in the order of the table.

    Raises ValueError for an unknown rule id, and for a rule of security without `untrusted`; TypeError for a selector
    that is no string.
    """
    return list(_choose(_as_selectors(select), _as_selectors(ignore), untrusted))


@lru_cache(256)
def _choose(select: _Selectors, ignore: _Selectors, untrusted: bool) -> tuple[Rule, ...]:
    """Return the rules that `choose` returns, for hashable arguments."""
    table = rules(untrusted)
    chosen_ids = _expand(select, untrusted) if select is not None else set(table)
    chosen_ids -= _expand(ignore or (), untrusted)
    return tuple(
        sorted((table[id] for id in table if id in chosen_ids), key=lambda rule: SEVERITIES.index(rule.severity))
    )


def _as_selectors(selectors: Iterable[str] | str | None) -> _Selectors:
    """Return selectors in a hashable form; a value of a wrong type is returned unchanged."""
    return (
        selectors
        if selectors is None or isinstance(selectors, str) or not isinstance(selectors, Iterable)
        else tuple(selectors)
    )


def _expand(words: Iterable[str] | str, untrusted: bool) -> set[str]:
    """Return the ids of the selected rules. words: ids of rules, severities and "security".

    Raises FieldTypeError for a word that is no string, and FieldValueError for an unknown word, and for a rule
    of security or "security" without `untrusted`.
    """
    table = rules(untrusted)
    ids: set[str] = set()
    for word in [words] if isinstance(words, str) or not isinstance(words, Iterable) else words:
        if not isinstance(word, str):
            raise FieldTypeError(f"expected the id of a rule or a severity, not {word!r}")
        if word in SEVERITIES:
            ids.update(id for id, rule in table.items() if rule.severity == word)
        elif word == "security" and untrusted:
            ids.update(id for id, rule in table.items() if rule.scope == word)
        elif word in table:
            ids.add(word)
        elif word == "security" or word in rules(untrusted=True):
            raise FieldValueError(f"{word} is for untrusted models only; add untrusted=True or --untrusted")
        else:
            hint = did_you_mean(word, [*table, *SEVERITIES]) or "; `onnxwire check --rules` lists them"
            raise FieldValueError(f"there is no rule or severity {word!r}{hint}")
    return ids
