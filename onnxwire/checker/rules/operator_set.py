"""Rules of documents that define an operator set."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, LATEST_IR_VERSION, Facts, Finding, repeats
from onnxwire.checker.operators import operators
from onnxwire.checker.registry import checks, rule, rules
from onnxwire.checker.rules.model import is_reverse_dns
from onnxwire.checker.rules.opset_import import plain_domains
from onnxwire.messages import OperatorProto

_MAGIC = "ONNXOPSET"
_SINCE_VERSION = 2  # the number of a field of FunctionProto, which was withdrawn
_VARINT = 0

# Identifiers with dots between; in a prerelease numbers have no leading zeros.
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_PRERELEASE = re.compile(rf"{_IDENTIFIER}(?:\.{_IDENTIFIER})*")
_BUILD = re.compile(r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*")

# Of functions in a model only: a set may be the default one, and its domain is that of its functions.
_OF_MODELS = ("function-domain-present", "function-domain-not-default")


@rule("operator-set-magic")
def magic(facts: Facts) -> Iterator[Finding]:
    """The document says what it is."""
    sets = facts.OperatorSetProto
    yield sets.at(sets.magic != facts.find(_MAGIC), f"magic is {{0!r}}; set it to {_MAGIC}", sets.texts(sets.magic))


@rule("operator-set-ir-version")
def ir_version(facts: Facts) -> Iterator[Finding]:
    """ir_version is one that was published."""
    sets = facts.OperatorSetProto
    yield sets.at(sets.ir_version == 0, "ir_version is missing; set it to the version the set is written for")
    yield sets.at(
        (sets.ir_version < 0) | (sets.ir_version > LATEST_IR_VERSION),
        f"ir_version {{0}} is not one of 1 to {LATEST_IR_VERSION}; use a version that exists, or a newer onnxwire",
        sets.ir_version,
    )


@rule("operator-set-domain-present")
def domain_present(facts: Facts) -> Iterator[Finding]:
    """A set that is not the default one has a domain.

    That it is not is known where it has functions of another domain, or operators and none that ONNX defines.
    """
    sets = facts.OperatorSetProto
    reason = _is_other(facts) if (sets.domain == EMPTY).any() else ""
    if reason:
        yield sets.at(sets.domain == EMPTY, f"the set has no domain, as the default one, and {reason}; set domain")


def _is_other(facts: Facts) -> str:
    """Why an operator set is not the default one, "" where nothing tells."""
    functions, ops = facts.FunctionProto, facts.OperatorProto
    rows = np.flatnonzero(functions.under("OperatorSetProto.functions"))
    if (plain_domains(facts, functions.domain[rows]) != EMPTY).any():
        return "has functions of another one"
    named = ops.op_type[ops.op_type != EMPTY]
    known = [facts.find(name) for domain, name in operators().versions if not domain]
    return "none of its operators is one of ONNX" if len(named) and not np.isin(named, known).any() else ""


@rule("operator-set-domain-reverse-dns")
def domain_reverse_dns(facts: Facts) -> Iterator[Finding]:
    """The domain is a dotted name."""
    sets = facts.OperatorSetProto
    yield sets.at(
        (sets.domain != EMPTY) & ~facts.matching(is_reverse_dns, sets.domain),
        "domain {0!r} is not a reverse-DNS name; write it like com.example",
        sets.texts(sets.domain),
    )


@rule("operator-set-version-positive")
def version_positive(facts: Facts) -> Iterator[Finding]:
    """The set has a version."""
    sets = facts.OperatorSetProto
    yield sets.at(sets.opset_version <= 0, "opset_version is {0}; a version is a positive number", sets.opset_version)


def _is_prerelease(text: str) -> bool:
    return _PRERELEASE.fullmatch(text) is not None


def _is_build(text: str) -> bool:
    return _BUILD.fullmatch(text) is not None


@rule("operator-set-prerelease-format")
def prerelease_format(facts: Facts) -> Iterator[Finding]:
    """The parts of a semantic version are written as such."""
    sets = facts.OperatorSetProto
    for field, accepts in (("ir_version_prerelease", _is_prerelease), ("ir_build_metadata", _is_build)):
        ids = getattr(sets, field)
        yield sets.at(
            (ids != EMPTY) & ~facts.matching(accepts, ids),
            f"{field} {{0!r}} is not part of a semantic version; write letters, digits and hyphens, with dots between",
            sets.texts(ids),
        )


@rule("operator-op-type-present")
def op_type_present(facts: Facts) -> Iterator[Finding]:
    """An operator has a name."""
    ops = facts.OperatorProto
    yield ops.at(ops.op_type == EMPTY, "the operator has no op_type; name it")


@rule("operator-op-type-unique")
def op_type_unique(facts: Facts) -> Iterator[Finding]:
    """A set has one operator of a name and version."""
    ops = facts.OperatorProto
    yield ops.at(
        (ops.op_type != EMPTY) & repeats(ops.op_type, ops.since_version),
        "operator {0!r} of version {1} is in the set before; remove one of them",
        ops.texts(ops.op_type),
        ops.since_version,
    )


@rule("operator-since-version-present")
def since_version_present(facts: Facts) -> Iterator[Finding]:
    """An operator says since when it is in the set."""
    ops = facts.OperatorProto
    yield ops.at(
        ops.since_version <= 0,
        "operator {0!r} has since_version {1}; set it to the version of the set that first had the operator",
        ops.texts(ops.op_type),
        ops.since_version,
    )


@rule("operator-since-version-bound")
def since_version_bound(facts: Facts) -> Iterator[Finding]:
    """An operator is no newer than its set."""
    sets, ops = facts.OperatorSetProto, facts.OperatorProto
    owners = np.where(ops.under("OperatorSetProto.operator"), ops.parent, -1)
    newest = np.append(sets.opset_version, 0)[owners]
    yield ops.at(
        (newest > 0) & (ops.since_version > newest),
        "operator {0!r} has since_version {1}, and the set is of version {2}; correct one of them",
        ops.texts(ops.op_type),
        ops.since_version,
        newest,
    )


@rule("operator-status-valid")
def status_valid(facts: Facts) -> Iterator[Finding]:
    """The status is one that there is."""
    unknown = facts.unknown_fields
    if unknown.n:
        yield unknown.at(
            unknown.under("OperatorProto")
            & (unknown.number == OperatorProto.STATUS_FIELD_NUMBER)
            & (unknown.wire == _VARINT),
            "status {0} is neither EXPERIMENTAL (0) nor STABLE (1); set one of them",
            unknown.value,
        )


def _function_versions(facts: Facts) -> Any:
    """The since_version that FunctionProto had before IR version 8, 0 where there is none."""
    unknown, versions = facts.unknown_fields, np.zeros(facts.FunctionProto.n, np.int64)
    if unknown.n:
        is_version = unknown.under("FunctionProto") & (unknown.number == _SINCE_VERSION) & (unknown.wire == _VARINT)
        versions[unknown.row[is_version]] = unknown.value[is_version]
    return versions


@rule("operator-set-functions-unique")
def functions_unique(facts: Facts) -> Iterator[Finding]:
    """A set has no function twice, and none that is an operator of the same version; without a version names decide."""
    functions, ops = facts.FunctionProto, facts.OperatorProto
    rows = np.flatnonzero(functions.under("OperatorSetProto.functions") & (functions.name != EMPTY))
    if not len(rows):
        return
    versions = _function_versions(facts)
    domains = plain_domains(facts, functions.domain)
    yield functions.at(
        rows[repeats(domains[rows], functions.name[rows], functions.overload[rows], versions[rows])],
        "function {0!r} is in the set before; remove one of them",
        functions.texts(functions.name),
    )
    known = np.maximum(versions[rows], 0)
    same_version = facts.join((known, functions.name[rows]), (np.maximum(ops.since_version, 0), ops.op_type))
    is_named = np.isin(functions.name[rows], ops.op_type)
    yield functions.at(
        rows[np.where(known > 0, same_version >= 0, is_named)],
        "function {0!r} is an operator of the set, too; remove one of them or rename it",
        functions.texts(functions.name),
    )


@rule("operator-set-functions-valid")
def functions_valid(facts: Facts) -> Iterator[Finding]:
    """The functions of a set are right; each is reported once, and the rule that speaks of what is wrong."""
    functions = facts.FunctionProto
    rows = np.flatnonzero(functions.under("OperatorSetProto.functions"))
    if not len(rows):
        return
    # What stands in a function has its bytes there.
    starts = functions.start[rows]
    broken: dict[int, str] = {}
    for id, find in checks().items():
        about = rules()[id]
        if about.scope != "function" or about.severity != "error" or id in _OF_MODELS:
            continue
        for found in find(facts) if about.applies_to(facts.ir_version) else ():
            owners = np.searchsorted(starts, found.table.offset_of(found.rows), "right") - 1
            for row in rows[np.unique(owners[owners >= 0])].tolist():
                broken.setdefault(row, id)
    yield functions.at(
        broken, "function {0!r} is not right, which {1} speaks of; correct it", functions.texts(functions.name), broken
    )
