"""Rules of the operator sets that a model imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, repeats
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.model import is_reverse_dns

# IR versions, each with the first version of the default operator set that a release with it brought.
_FIRST_OPSETS = (
    (3, -(1 << 63)), (4, 9), (5, 10), (6, 11), (7, 12), (8, 15), (9, 19), (10, 21), (11, 23), (12, 24),
    (13, 25), (14, 28),
)  # fmt: skip


def plain_domains(facts: Facts, domains: Any) -> Any:
    """A column of domains with "ai.onnx" as the empty one, which names the same."""
    alias = facts.find("ai.onnx")
    return np.where(domains == alias, EMPTY, domains)


@rule("opset-import-required")
def required(facts: Facts) -> Iterator[Finding]:
    """At least one operator set is imported."""
    models = facts.ModelProto
    yield models.at(models.opset_import == 0, "no operator set is imported; add an entry to opset_import")


@rule("opset-import-absent-before-ir3")
def absent_before_ir3(facts: Facts) -> Iterator[Finding]:
    """The field did not exist yet."""
    models = facts.ModelProto
    yield models.at(
        models.opset_import > 0, f"opset_import needs IR version 3, and the model has {facts.ir_version}; raise it"
    )


@rule("opset-import-implied-before-ir3")
def implied_before_ir3(facts: Facts) -> Iterator[Finding]:
    """Nodes are of the first operator set."""
    models = facts.ModelProto
    yield models.at(
        models.opset_import == 0, "without opset_import, nodes are those of version 1 of the default operator set"
    )


@rule("opset-import-domain-conflict")
def domain_conflict(facts: Facts) -> Iterator[Finding]:
    """A domain is imported at one version."""
    imports = facts.OperatorSetIdProto
    domains = plain_domains(facts, imports.domain)
    is_models = imports.under("ModelProto.opset_import")
    keys = (~is_models, imports.parent, domains)
    yield imports.at(
        is_models & repeats(*keys) & ~repeats(*keys, imports.version),
        "domain {0!r} is imported again at version {1}; keep one of the entries",
        imports.texts(imports.domain),
        imports.version,
    )


@rule("opset-import-duplicate-entry")
def duplicate_entry(facts: Facts) -> Iterator[Finding]:
    """An entry is listed once."""
    imports = facts.OperatorSetIdProto
    yield imports.at(
        repeats(imports.edge, imports.parent, imports.domain, imports.version),
        "domain {0!r} at version {1} is listed before; remove one of the entries",
        imports.texts(imports.domain),
        imports.version,
    )


@rule("opset-import-default-alias")
def default_alias(facts: Facts) -> Iterator[Finding]:
    """The default domain has one of its two names."""
    imports = facts.OperatorSetIdProto
    alias = facts.find("ai.onnx")
    plain = plain_domains(facts, imports.domain)
    # An entry that repeats one of the same owner only when the two names count as one.
    again = repeats(imports.edge, imports.parent, plain)
    same = repeats(imports.edge, imports.parent, imports.domain)
    yield imports.at(
        (plain == EMPTY) & again & ~same & (alias >= 0),
        'the default operator set is imported as "" and as "ai.onnx"; keep one of the entries',
    )


@rule("opset-import-version-positive")
def version_positive(facts: Facts) -> Iterator[Finding]:
    """Each entry has a version that is positive and fits 32 bits."""
    imports = facts.OperatorSetIdProto
    yield imports.at(
        (imports.version <= 0) | (imports.version > 0x7FFFFFFF),
        "domain {0!r} is imported at version {1}; a version is a positive number of up to 31 bits",
        imports.texts(imports.domain),
        imports.version,
    )


@rule("opset-import-domain-reverse-dns")
def domain_reverse_dns(facts: Facts) -> Iterator[Finding]:
    """Other domains are dotted names."""
    imports = facts.OperatorSetIdProto
    yield imports.at(
        (imports.domain != EMPTY) & ~facts.matching(is_reverse_dns, imports.domain),
        "domain {0!r} is not a reverse-DNS name; write it like com.example",
        imports.texts(imports.domain),
    )


@rule("opset-import-default-present")
def default_present(facts: Facts) -> Iterator[Finding]:
    """The default operator set is listed."""
    models, imports = facts.ModelProto, facts.OperatorSetIdProto
    is_default = imports.under("ModelProto.opset_import") & (plain_domains(facts, imports.domain) == EMPTY)
    if not is_default.any():
        yield models.at(
            models.opset_import > 0, 'the default operator set is not imported; add an entry with domain ""'
        )


@rule("opset-import-version-implies-ir")
def version_implies_ir(facts: Facts) -> Iterator[Finding]:
    """The IR version is at least that of the release that brought the operator set."""
    imports = facts.OperatorSetIdProto
    is_default = imports.under("ModelProto.opset_import") & (plain_domains(facts, imports.domain) == EMPTY)
    brought, firsts = (np.array(column) for column in zip(*_FIRST_OPSETS, strict=True))
    needed = brought[np.searchsorted(firsts, imports.version, "right") - 1]
    if facts.ir_version is not None:
        yield imports.at(
            is_default & (needed > facts.ir_version),
            f"operator set {{0}} came with IR version {{1}}, and the model has {facts.ir_version}",
            imports.version,
            needed,
        )
