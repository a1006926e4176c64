"""Rules of the signatures of operators: the inputs, outputs and attributes of nodes match the imported version."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from onnxwire.checker.facts import Facts, Finding
from onnxwire.checker.operator_table import count_limits
from onnxwire.checker.registry import count_texts, rule
from onnxwire.checker.rules.attribute import NAMES
from onnxwire.checker.signatures import (
    INPUT_COUNT,
    LACKS_ATTRIBUTE,
    OMITTED,
    OTHER_TYPE,
    OUTPUT_COUNT,
    UNKNOWN,
    WRONG_KIND,
    WRONG_TYPE,
    Hints,
    SignatureCheck,
    formal_parameter,
    is_withdrawn,
    withdrawn,
)
from onnxwire.errors import count_text

if TYPE_CHECKING:
    from onnxwire.checker.operator_table import Parameter

MAX_SHOWN_NAMES = 12  # maximum number of names in a list of a message
_VERBS = {"input": "accepts", "output": "produces"}


@rule("signature-operator-known", "NodeProto")
def operator_known(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose operator is not in the imported version of its domain."""
    nodes, check = facts.NodeProto, facts.derive(SignatureCheck)
    hints = Hints(check.operators)
    yield nodes.at(
        check.signature_indices == -1,
        "{op_type!r} is not an operator of {title}; {hint}",
        title=check.title,
        hint=lambda row: hints.remedy(
            check.names[check.domains[row]], check.text_of(nodes.op_type[row]), int(check.versions[row])
        ),
    )


@rule("signature-operator-withdrawn", "NodeProto")
def operator_withdrawn(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose operator was an experiment that was withdrawn."""
    nodes = facts.NodeProto
    if facts.derive(withdrawn):
        yield nodes.at(
            is_withdrawn(facts),
            "{op_type!r} was an experiment that no version of the default operator set has; use other operators",
        )


@rule("signature-operator-deprecated", "NodeProto")
def operator_deprecated(facts: Facts) -> Iterator[Finding]:
    """Yield nodes whose operator is deprecated in the imported version."""
    nodes, check = facts.NodeProto, facts.derive(SignatureCheck)
    # The indices -1 and -2 of nodes without a signature refer to the last two elements.
    is_deprecated = np.array([signature.is_deprecated for signature in check.signatures] + [False, False], bool)
    yield nodes.at(
        is_deprecated[check.signature_indices],
        "{op_type!r} is deprecated since version {since} of its operator set, and version {versions} is imported; use "
        "its successor",
        since=lambda row: check.signature(row).since,
        versions=check.versions,
    )


def _count_range(parameters: tuple[Parameter, ...], disallowed: tuple[int, ...], noun: str) -> str:
    """Return the allowed numbers of inputs or outputs as text."""
    min_count, max_count = count_limits(parameters)
    if max_count is None:
        return f"{count_text(min_count, noun)} or more"
    text = count_text(max_count, noun) if min_count == max_count else f"{min_count} to {count_text(max_count, noun)}"
    return text + (f", but not {' or '.join(map(str, disallowed))}" if disallowed else "")


def _check_counts(facts: Facts, field: str, fault: int) -> Iterator[Finding]:
    """Yield nodes with a number of inputs or outputs that the operator does not accept or produce."""
    nodes, check = facts.NodeProto, facts.derive(SignatureCheck)

    def expected(row: int) -> str:
        signature = check.signature(row)
        return _count_range(getattr(signature, f"{field}s"), getattr(signature, f"disallowed_{field}s"), field)

    yield nodes.at(
        check.nodes & fault != 0,
        f"{{op_type!r}} has {{count}}, and in {{title}} it {_VERBS[field]} {{expected}}; correct the {field}s",
        count=count_texts(getattr(nodes, field), field),
        title=check.title,
        expected=expected,
    )


class _ValueColumns:
    """Methods that return values for placeholders of messages about a row of NodeProto.input or NodeProto.output."""

    def __init__(self, facts: Facts, field: str) -> None:
        self.check: SignatureCheck = facts.derive(SignatureCheck)
        self.faults = getattr(self.check, f"{field}s")
        self.elements = facts.lists(f"NodeProto.{field}")
        self.field = field
        self.operators = facts.NodeProto.op_type

    def operator(self, row: int) -> str:
        return self.check.text_of(self.operators[self.elements.parent[row]])

    def parameter(self, row: int) -> Parameter:
        signature = self.check.signature(int(self.elements.parent[row]))
        return formal_parameter(getattr(signature, f"{self.field}s"), int(self.elements.index[row]))

    def name(self, row: int) -> str:
        return self.parameter(row).name

    def value(self, row: int) -> str:
        return self.check.text_of(self.elements.value[row])

    def type(self, row: int) -> str:
        return self.check.type_of_input(row) if self.field == "input" else self.check.type_of_output(row)

    def allowed(self, row: int) -> str:
        return _join_names(sorted(self.parameter(row).types))

    def title(self, row: int) -> str:
        return self.check.title(self.elements.parent[row])


def _join_names(names: list[str]) -> str:
    """Return the first MAX_SHOWN_NAMES names as a list with "or", and the number of the others."""
    n_omitted = len(names) - MAX_SHOWN_NAMES
    if n_omitted > 0:
        return f"{', '.join(names[:MAX_SHOWN_NAMES])} or {count_text(n_omitted, 'other')}"
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _check_omitted(facts: Facts, field: str) -> Iterator[Finding]:
    """Yield omitted inputs or outputs that are not optional."""
    columns = _ValueColumns(facts, field)
    yield columns.elements.at(
        columns.faults & OMITTED != 0,
        f"{field} {{name!r}} of {{operator!r}} is required but omitted; name a value",
        name=columns.name,
        operator=columns.operator,
    )


def _check_types(facts: Facts, field: str) -> Iterator[Finding]:
    """Yield inputs whose known type, or outputs whose declared type, the operator does not accept or produce."""
    columns = _ValueColumns(facts, field)
    yield columns.elements.at(
        columns.faults & WRONG_TYPE != 0,
        f"{{value!r}} has type {{type}}, but in {{title}} {{operator!r}} {_VERBS[field]} {{allowed}} as {field} "
        "{name!r}; convert it or correct its type",
        value=columns.value,
        type=columns.type,
        name=columns.name,
        operator=columns.operator,
        title=columns.title,
        allowed=columns.allowed,
    )


for _field, _fault in (("input", INPUT_COUNT), ("output", OUTPUT_COUNT)):
    rule(f"signature-{_field}-count", "NodeProto")(partial(_check_counts, field=_field, fault=_fault))
    rule(f"signature-{_field}-omitted", "NodeProto")(partial(_check_omitted, field=_field))
    rule(f"signature-{_field}-type", "NodeProto")(partial(_check_types, field=_field))


@rule("signature-type-agreement", "NodeProto")
def type_agreement(facts: Facts) -> Iterator[Finding]:
    """Yield inputs and outputs whose type differs from that of an earlier parameter with the same type variable."""
    for field in _VERBS:
        columns = _ValueColumns(facts, field)
        yield columns.elements.at(
            columns.faults & OTHER_TYPE != 0,
            f"{{value!r}} has type {{type}}, but {field} {{name!r}} of {{operator!r}} must have the type of the "
            "earlier inputs and outputs with type variable {variable}; convert it or correct its type",
            value=columns.value,
            type=columns.type,
            name=columns.name,
            operator=columns.operator,
            variable=lambda row, columns=columns: columns.parameter(row).variable,
        )


@rule("signature-attribute-known", "NodeProto", "AttributeProto")
def attribute_known(facts: Facts) -> Iterator[Finding]:
    """Yield attributes that the operator does not have, unless their names begin with two underscores."""
    attributes, nodes, check = facts.AttributeProto, facts.NodeProto, facts.derive(SignatureCheck)
    yield attributes.at(
        check.attributes & UNKNOWN != 0,
        "{op_type!r} has no attribute {name!r} in {title}; {remedy}",
        op_type=lambda row: check.text_of(nodes.op_type[attributes.parent[row]]),
        title=lambda row: check.title(attributes.parent[row]),
        remedy=lambda row: _attribute_remedy(check, attributes.parent[row]),
    )


def _attribute_remedy(check: SignatureCheck, node: int) -> str:
    """Return the advice for an attribute that the operator of a node does not have."""
    names = sorted(check.signature(node).attributes)
    return f"remove it, or use {_join_names(names)}" if names else "remove it"


@rule("signature-attribute-type", "NodeProto", "AttributeProto")
def attribute_type(facts: Facts) -> Iterator[Finding]:
    """Yield attributes, including references to attributes of a function, whose type the operator does not accept."""
    attributes, check = facts.AttributeProto, facts.derive(SignatureCheck)
    yield attributes.at(
        check.attributes & WRONG_KIND != 0,
        "attribute {name!r} of {op_type!r} has type {actual}, but the operator accepts {expected}; correct it",
        op_type=lambda row, nodes=facts.NodeProto: check.text_of(nodes.op_type[attributes.parent[row]]),
        actual=lambda row: NAMES.get(int(check.kind_of(row, attributes.type)), str(attributes.type[row])),
        expected=lambda row: NAMES[
            check.signature(attributes.parent[row]).attributes[check.text_of(attributes.name[row])].type
        ],
    )


@rule("signature-attribute-required", "NodeProto")
def attribute_required(facts: Facts) -> Iterator[Finding]:
    """Yield nodes that lack an attribute that the operator requires."""
    attributes, nodes, check = facts.AttributeProto, facts.NodeProto, facts.derive(SignatureCheck)
    first_attributes = nodes.first("attribute")

    def missing_attributes(row: int) -> str:
        start, n = int(first_attributes[row]), int(nodes.attribute[row])
        present_names = {check.text_of(attributes.name[i]) for i in range(start, start + n)}
        return " and ".join(
            f"attribute {name!r}"
            for name, attribute in check.signature(row).attributes.items()
            if attribute.is_required and name not in present_names
        )

    yield nodes.at(
        check.nodes & LACKS_ATTRIBUTE != 0,
        "{op_type!r} lacks {missing}, which it requires in {title}; add {missing}",
        missing=missing_attributes,
        title=check.title,
    )
