"""Rules of documents that define an operator set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, LATEST_IR_VERSION, Facts, Finding, Sheet, repeats, true_rows, unique
from onnxwire.checker.operator_table import operators
from onnxwire.checker.registry import find, rule, rules
from onnxwire.checker.rules.model import is_reverse_dns
from onnxwire.checker.rules.opset_import import normalized_domains
from onnxwire.messages import OperatorProto

_MAGIC_WORD = "ONNXOPSET"
_SINCE_VERSION_FIELD = 2  # number of a withdrawn field of FunctionProto
_VARINT = 0  # the wire type

# Semantic versioning: identifiers separated by dots; numbers in a prerelease have no leading zeros.
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_PRERELEASE = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*")
_BUILD = re.compile(r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*")

# Rules that apply only to functions in a model: functions of a set have its domain, which may be the default one.
_MODEL_DOMAIN_RULES = ("function-domain-present", "function-domain-not-default")

RULES = {
    "OperatorSetProto": {
        "operator-set-magic": (
            lambda opset: opset.magic != opset.facts.find(_MAGIC_WORD),
            f"magic is {{magic!r}}; set it to {_MAGIC_WORD}",
        ),
        "operator-set-ir-version": [
            (
                lambda opset: opset.ir_version == 0,
                "ir_version is missing; set it to the version the set is written for",
            ),
            (
                lambda opset: (opset.ir_version < 0) | (opset.ir_version > LATEST_IR_VERSION),
                f"ir_version {{ir_version}} is not one of 1 to {LATEST_IR_VERSION}; "
                "use a version that exists, or a newer onnxwire",
            ),
        ],
        "operator-set-domain-reverse-dns": (
            lambda opset: (opset.domain != EMPTY) & ~opset.facts.matching(is_reverse_dns, opset.domain),
            "domain {domain!r} is not a reverse-DNS name; write it like com.example",
        ),
        "operator-set-prerelease-format": [
            (
                lambda opset, field=field, pattern=pattern: _is_malformed(opset, field, pattern),
                f"{field} {{{field}!r}} is not valid in a semantic version; "
                f"write words of letters, digits and hyphens, separated by dots{advice}",
            )
            for field, pattern, advice in (
                ("ir_version_prerelease", _PRERELEASE, ", and numbers without leading zeros"),
                ("ir_build_metadata", _BUILD, ""),
            )
        ],
        "operator-set-version-positive": (
            lambda opset: opset.opset_version <= 0,
            "opset_version is {opset_version}; a version is a positive number",
        ),
    },
    "OperatorProto": {
        "operator-op-type-present": (lambda op: op.op_type == EMPTY, "the operator has no op_type; name it"),
        "operator-op-type-unique": (
            lambda op: (op.op_type != EMPTY) & repeats(op.op_type, op.since_version),
            "operator {op_type!r} of version {since_version} is in the set more than once; keep one of them",
        ),
        "operator-since-version-bound": (
            lambda op: (_set_versions(op) > 0) & (op.since_version > _set_versions(op)),
            "operator {op_type!r} has since_version {since_version}, and the set is of version {newest}; "
            "correct one of them",
            {"newest": lambda op: _set_versions(op)},
        ),
        "operator-since-version-present": (
            lambda op: op.since_version <= 0,
            "operator {op_type!r} has since_version {since_version}; set it to the first version of the set that has "
            "the operator",
        ),
    },
    "UnknownFields": {
        "operator-status-valid": (
            lambda record: (
                record.under("OperatorProto")
                & (record.number == OperatorProto.STATUS_FIELD_NUMBER)
                & (record.wire == _VARINT)
            ),
            "status {value} is neither EXPERIMENTAL (0) nor STABLE (1); set one of them",
        ),
    },
}


@rule("operator-set-domain-present", "OperatorSetProto")
def domain_present(facts: Facts) -> Iterator[Finding]:
    """Yield a set that has no domain although it is not the default set.

    It is not the default set if it has a function of another domain, or has operators but none that ONNX defines in the
    default domain.
    """
    sets = facts.OperatorSetProto
    reason = _reason_not_default(facts) if (sets.domain == EMPTY).any() else ""
    if reason:
        yield sets.at(sets.domain == EMPTY, f"the set has no domain, like the default set, but {reason}; set `domain`")


def _reason_not_default(facts: Facts) -> str:
    """Return the reason why an operator set is not the default one, "" if there is none."""
    functions, ops = facts.FunctionProto, facts.OperatorProto
    rows = true_rows(functions.under("OperatorSetProto.functions"))
    if (normalized_domains(facts, functions.domain[rows]) != EMPTY).any():
        return "has functions of another domain"
    operator_names = ops.op_type[ops.op_type != EMPTY]
    default_names = [facts.find(name) for domain, name in operators().versions if not domain]
    return (
        "ONNX defines none of its operators in the default domain"
        if len(operator_names) and not np.isin(operator_names, default_names).any()
        else ""
    )


def _is_malformed(sets: Sheet, field: str, pattern: re.Pattern[str]) -> Any:
    """Return whether a field of each set is not empty and does not match a pattern."""
    ids = getattr(sets, field)
    return (ids != EMPTY) & ~sets.facts.matching(lambda text: pattern.fullmatch(text) is not None, ids)


def _set_versions(ops: Sheet) -> Any:
    """Return the opset_version of each operator's set, 0 without a set."""
    return np.append(ops.facts.OperatorSetProto.opset_version, 0)[ops.parent_under("OperatorSetProto.operator")]


def _function_versions(facts: Facts) -> Any:
    """Return each function's since_version, a field that was withdrawn in IR version 8; 0 if it is absent."""
    unknown, versions = facts.unknown_fields, np.zeros(facts.FunctionProto.n, np.int64)
    if unknown.n:
        is_version = (
            unknown.under("FunctionProto") & (unknown.number == _SINCE_VERSION_FIELD) & (unknown.wire == _VARINT)
        )
        versions[unknown.row[is_version]] = unknown.value[is_version]
    return versions


@rule("operator-set-functions-unique", "OperatorSetProto", "FunctionProto")
def functions_unique(facts: Facts) -> Iterator[Finding]:
    """Yield repeated functions, and functions that are also operators (of the function's version, if it has one)."""
    functions, ops = facts.FunctionProto, facts.OperatorProto
    rows = true_rows(functions.under("OperatorSetProto.functions") & (functions.name != EMPTY))
    if not len(rows):
        return
    versions = _function_versions(facts)
    domains = normalized_domains(facts, functions.domain)
    yield functions.at(
        rows[repeats(domains[rows], functions.name[rows], functions.overload[rows], versions[rows])],
        "function {name!r} is in the set more than once; keep one of them",
    )
    known_versions = np.maximum(versions[rows], 0)
    positions = facts.join((known_versions, functions.name[rows]), (np.maximum(ops.since_version, 0), ops.op_type))
    is_operator_name = np.isin(functions.name[rows], ops.op_type)
    yield functions.at(
        rows[np.where(known_versions > 0, positions >= 0, is_operator_name)],
        "function {name!r} is also an operator of the set; remove one of them or rename it",
    )


@rule("operator-set-functions-valid", "OperatorSetProto", "FunctionProto")
def functions_valid(facts: Facts) -> Iterator[Finding]:
    """Yield functions that break a rule of scope "function" and severity "error", each with the first such rule.

    _MODEL_DOMAIN_RULES are skipped.
    """
    functions = facts.FunctionProto
    rows = true_rows(functions.under("OperatorSetProto.functions"))
    if not len(rows):
        return
    # A message is in the function with the last start that is not after the offset of the message.
    starts = functions.start[rows]
    broken_rules: dict[int, str] = {}
    for id, rule_row in rules().items():
        if rule_row.scope != "function" or rule_row.severity != "error" or id in _MODEL_DOMAIN_RULES:
            continue
        for finding in find(id, facts) if rule_row.applies_to(facts.ir_version) else ():
            owners = np.searchsorted(starts, finding.table.offset_of(finding.rows), "right") - 1
            for row in rows[unique(owners[owners >= 0])].tolist():
                broken_rules.setdefault(row, id)
    yield functions.at(broken_rules, "function {name!r} breaks the rule {rule}; correct it", rule=broken_rules)
