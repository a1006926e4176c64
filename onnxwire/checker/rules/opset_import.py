"""Rules of the operator sets that models and functions import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, repeats
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.model import is_reverse_dns

# IR versions, each with the first version of the default operator set that a release with that IR version introduced.
# All versions of the set before 9 count as introduced with IR version 3.
_IR_VERSIONS, _FIRST_OPSETS = np.array((
    (3, -(1 << 63)), (4, 9), (5, 10), (6, 11), (7, 12), (8, 15), (9, 19), (10, 21), (11, 23), (12, 24),
    (13, 25), (14, 28),
)).T.copy()  # fmt: skip
_MAX_VERSION = 0x7FFFFFFF  # a version has at most 31 bits

RULES = {
    "ModelProto": {
        "opset-import-required": (
            lambda model: model.opset_import == 0,
            "no operator set is imported; add an entry to opset_import",
        ),
        "opset-import-absent-before-ir3": (
            lambda model: model.opset_import > 0,
            "opset_import needs IR version 3, but the IR version is {facts.ir_version}; raise ir_version",
        ),
        "opset-import-default-present": (
            lambda model: (model.opset_import > 0) & ~_is_default(model.facts.OperatorSetIdProto).any(),
            'the default operator set is not imported; add an entry with domain ""',
        ),
    },
    "OperatorSetIdProto": {
        "opset-import-duplicate-entry": (
            lambda entry: repeats(entry.parent_field, entry.parent, entry.domain, entry.version),
            "domain {domain!r} at version {version} is listed more than once; keep one of the entries",
        ),
        "opset-import-version-positive": (
            lambda entry: (entry.version <= 0) | (entry.version > _MAX_VERSION),
            "domain {domain!r} is imported at version {version}; a version is a positive number of up to 31 bits",
        ),
        "opset-import-version-implies-ir": (
            lambda entry: _is_default(entry) & (_needed_ir(entry) > (entry.facts.ir_version or 0)),
            "operator set {version} was introduced in IR version {needed}, but the IR version is {facts.ir_version}",
            {"needed": lambda entry: _needed_ir(entry)},
        ),
    },
    ("OperatorSetIdProto", "OperatorSetIdProto.domain"): {
        # Reports an entry if earlier entries of the same model or function import the default domain, but only under
        # its other name.
        "opset-import-default-alias": (
            lambda entry: (
                (_normalized_domain(entry) == EMPTY)
                & repeats(entry.parent_field, entry.parent, _normalized_domain(entry))
                & ~repeats(entry.parent_field, entry.parent, entry.domain)
            ),
            'the default operator set is imported as "" and as "ai.onnx"; keep one of the entries',
        ),
        "opset-import-domain-reverse-dns": (
            lambda entry: (entry.domain != EMPTY) & ~entry.facts.matching(is_reverse_dns, entry.domain),
            "domain {domain!r} is not a reverse-DNS name; write it like com.example",
        ),
    },
}


def normalized_domains(facts: Facts, domains: Any) -> Any:
    """Return a column of domains with "ai.onnx" replaced by the empty string, the other name of the default domain."""
    alias = facts.find("ai.onnx")
    return domains if alias < 0 else np.where(domains == alias, EMPTY, domains)


def _normalized_domain(imports: Any) -> Any:
    """Return the normalized domain of each entry."""
    return normalized_domains(imports.facts, imports.domain)


def _is_default(imports: Any) -> Any:
    """Return whether each entry imports the default operator set into the model."""
    return imports.under("ModelProto.opset_import") & (_normalized_domain(imports) == EMPTY)


def _needed_ir(imports: Any) -> Any:
    """Return the IR version of the release that introduced each entry's version of the default operator set."""
    return _IR_VERSIONS[_FIRST_OPSETS.searchsorted(imports.version, "right") - 1]


@rule("opset-import-domain-conflict", "OperatorSetIdProto")
def domain_conflict(facts: Facts) -> Iterator[Finding]:
    """Yield entries of the model that import a domain again at another version."""
    imports = facts.OperatorSetIdProto
    if imports.n < 2:
        return
    is_of_model = imports.under("ModelProto.opset_import")
    keys = (~is_of_model, imports.parent, _normalized_domain(imports))
    yield imports.at(
        is_of_model & repeats(*keys) & ~repeats(*keys, imports.version),
        "domain {domain!r} is imported again at version {version}; keep one of the entries",
    )
