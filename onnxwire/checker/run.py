"""Runs the rules over a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxwire._message import Message
from onnxwire.checker._problem import Problem, add_problems
from onnxwire.checker.facts import Facts
from onnxwire.checker.registry import SEVERITIES, Rule, checks, rules
from onnxwire.errors import FieldTypeError, FieldValueError, did_you_mean
from onnxwire.messages import ModelProto
from onnxwire.model import encoded_document, load

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnxwire.source import Source


def check(
    source: Source | Message,
    type: type[Message] = ModelProto,
    *,
    ir_version: int | None = None,
    select: Iterable[str] | str | None = None,
    ignore: Iterable[str] | str | None = None,
    checksums: bool = False,
) -> list[Problem]:
    """Check a document against every rule of the ONNX IR that its IR version asks for.

    source, type: as for `load`, or a message, whose own type counts. ir_version: the version to judge by, instead of
    the document's own. select, ignore: ids of rules, or severities ("error", "warning", "note"); only what is selected
    and not ignored is reported. checksums: whether files of external data are read to compare their digests.
    Returns the problems: errors, then warnings, then notes, and within them by rule and by place. No weight is read.
    Raises DecodeError for bytes that are damaged and SourceError as `load` does; ValueError for an id that no rule has.
    """
    chosen = choose(select, ignore)
    if isinstance(source, Message):
        return _check_message(source, chosen, ir_version, checksums)
    with load(source, type) as message:
        return _run(Facts(message._document, message.__class__, ir_version, checksums), chosen)


def _check_message(message: Message, chosen: list[Rule], ir_version: int | None, checksums: bool) -> list[Problem]:
    """Check a message as it is now: as it would be saved, unless it is an unedited document."""
    document = message._document
    is_whole = document.root is message.__class__ and message.ByteSize() == len(document)
    if is_whole and not document._kept()[3]:
        return _run(Facts(document, message.__class__, ir_version, checksums), chosen)
    encoded = encoded_document(message, False)
    return _run(Facts(encoded, message.__class__, ir_version, checksums, is_placed=False, home=document), chosen)


def _run(facts: Facts, chosen: list[Rule]) -> list[Problem]:
    problems: list[Problem] = []
    functions = checks()
    try:
        for rule in chosen:
            if rule.id in functions and rule.applies_to(facts.ir_version):
                for found in functions[rule.id](facts):
                    if len(found.rows):
                        offsets = found.table.offset_of(found.rows)
                        add_problems(problems, rule.id, rule.severity, found, offsets, facts.columns.is_placed)
    finally:
        facts.forget()
    return problems


def choose(select: Iterable[str] | str | None, ignore: Iterable[str] | str | None) -> list[Rule]:
    """The rules that are selected and not ignored, by severity and in the order of the table.

    Raises ValueError for an id that no rule has.
    """
    table = rules()
    picked = _expand(select) if select is not None else set(table)
    picked -= _expand(ignore or ())
    return sorted((table[id] for id in table if id in picked), key=lambda rule: SEVERITIES.index(rule.severity))


def _expand(words: Iterable[str] | str) -> set[str]:
    table = rules()
    ids: set[str] = set()
    for word in [words] if isinstance(words, str) else words:
        if not isinstance(word, str):
            raise FieldTypeError(f"expected the id of a rule or a severity, not {word!r}")
        if word in SEVERITIES:
            ids.update(id for id, rule in table.items() if rule.severity == word)
        elif word in table:
            ids.add(word)
        else:
            hint = did_you_mean(word, [*table, *SEVERITIES]) or "; `onnxwire check --rules` lists them"
            raise FieldValueError(f"there is no rule or severity {word!r}{hint}")
    return ids
