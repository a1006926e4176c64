"""Rules of the signatures of operators: what a node has is what its operator, in the version imported, takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxwire.checker.facts import Facts, Finding
from onnxwire.checker.operators import counts
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.attribute import NAMES
from onnxwire.checker.signatures import (
    INPUT_COUNT,
    LACKS_ATTRIBUTE,
    OMITTED,
    OTHER_TYPE,
    OUTPUT_COUNT,
    UNKNOWN,
    WITHDRAWN,
    WRONG_KIND,
    WRONG_TYPE,
    Hints,
    SignatureCheck,
    formal,
    is_withdrawn,
)
from onnxwire.errors import count_text

if TYPE_CHECKING:
    from onnxwire.checker.operators import Parameter

_SHOWN = 12  # names in a message


@rule("signature-operator-known")
def operator_known(facts: Facts) -> Iterator[Finding]:
    """The operator is in the version of its domain that is imported."""
    nodes, held = facts.NodeProto, facts.derive(SignatureCheck)
    hints = Hints(held.operators)
    yield nodes.at(
        held.chosen == -1,
        "{0!r} is not an operator of {1}; {2}",
        nodes.texts(nodes.op_type),
        held.title,
        lambda row: hints.of(held.names[held.domains[row]], held.text_of(nodes.op_type[row]), int(held.versions[row])),
    )


@rule("signature-operator-withdrawn")
def operator_withdrawn(facts: Facts) -> Iterator[Finding]:
    """The operator is not an experiment of old that was taken back."""
    nodes = facts.NodeProto
    if any(facts.find(name) >= 0 for name in WITHDRAWN):
        yield nodes.at(
            is_withdrawn(facts),
            "{0!r} was an experiment that no version of the default operator set has; use other operators",
            nodes.texts(nodes.op_type),
        )


@rule("signature-operator-deprecated")
def operator_deprecated(facts: Facts) -> Iterator[Finding]:
    """The operator is not deprecated in the version that is imported."""
    nodes, held = facts.NodeProto, facts.derive(SignatureCheck)
    is_deprecated = np.array([signature.is_deprecated for signature in held.signatures] + [False, False], bool)
    yield nodes.at(
        is_deprecated[held.chosen],
        "{0!r} went with version {1} of its operator set, and {2} is imported; use its successor",
        nodes.texts(nodes.op_type),
        lambda row: held.signature(row).since,
        held.versions,
    )


def _counted(parameters: tuple[Parameter, ...], refused: tuple[int, ...], noun: str) -> str:
    least, most = counts(parameters)
    if most is None:
        return f"{count_text(least, noun)} or more"
    text = count_text(most, noun) if least == most else f"{least} to {count_text(most, noun)}"
    return text + (f" and not {' or '.join(map(str, refused))}" if refused else "")


@rule("signature-input-count")
def input_count(facts: Facts) -> Iterator[Finding]:
    """A node has as many inputs as its operator takes."""
    nodes, held = facts.NodeProto, facts.derive(SignatureCheck)
    yield nodes.at(
        held.nodes & INPUT_COUNT != 0,
        "{0!r} has {1}, and in {2} it takes {3}; correct the inputs",
        nodes.texts(nodes.op_type),
        _count_of(nodes.input, "input"),
        held.title,
        lambda row: _counted(held.signature(row).inputs, held.signature(row).refused_inputs, "input"),
    )


@rule("signature-output-count")
def output_count(facts: Facts) -> Iterator[Finding]:
    """A node has as many outputs as its operator makes."""
    nodes, held = facts.NodeProto, facts.derive(SignatureCheck)
    yield nodes.at(
        held.nodes & OUTPUT_COUNT != 0,
        "{0!r} has {1}, and in {2} it makes {3}; correct the outputs",
        nodes.texts(nodes.op_type),
        _count_of(nodes.output, "output"),
        held.title,
        lambda row: _counted(held.signature(row).outputs, held.signature(row).refused_outputs, "output"),
    )


def _count_of(column: Any, noun: str) -> Any:
    return lambda row: count_text(int(column[row]), noun)


class _Ends:
    """The words in which messages speak of elements of NodeProto.input or NodeProto.output."""

    def __init__(self, facts: Facts, field: str) -> None:
        self.held: SignatureCheck = facts.derive(SignatureCheck)
        self.elements = facts.lists(f"NodeProto.{field}")
        self.field = field
        self.operators = facts.NodeProto.op_type

    def operator(self, row: int) -> str:
        return self.held.text_of(self.operators[self.elements.parent[row]])

    def parameter(self, row: int) -> Parameter:
        signature = self.held.signature(int(self.elements.parent[row]))
        return formal(getattr(signature, f"{self.field}s"), int(self.elements.index[row]))

    def name(self, row: int) -> str:
        return self.parameter(row).name

    def value(self, row: int) -> str:
        return self.held.text_of(self.elements.value[row])

    def type(self, row: int) -> str:
        return self.held.type_of_input(row) if self.field == "input" else self.held.type_of_output(row)

    def allowed(self, row: int) -> str:
        return _listed(sorted(self.parameter(row).types))

    def title(self, row: int) -> str:
        return self.held.title(self.elements.parent[row])


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    if more > 0:
        return f"{', '.join(names[:_SHOWN])} or {more} others"
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _omitted(facts: Facts, field: str, faults: Any) -> Finding:
    ends = _Ends(facts, field)
    return ends.elements.at(
        faults & OMITTED != 0,
        f"{field} {{0!r}} of {{1!r}} is omitted, and must be there; name a value",
        ends.name,
        ends.operator,
    )


@rule("signature-input-omitted")
def input_omitted(facts: Facts) -> Iterator[Finding]:
    """Only inputs that are optional are omitted."""
    yield _omitted(facts, "input", facts.derive(SignatureCheck).inputs)


@rule("signature-output-omitted")
def output_omitted(facts: Facts) -> Iterator[Finding]:
    """Only outputs that are optional are omitted."""
    yield _omitted(facts, "output", facts.derive(SignatureCheck).outputs)


def _of_wrong_type(facts: Facts, field: str, faults: Any) -> Finding:
    ends = _Ends(facts, field)
    verb = "takes" if field == "input" else "makes"
    return ends.elements.at(
        faults & WRONG_TYPE != 0,
        f"{{0!r}} has type {{1}}, and as {field} {{2!r}} of {{3!r}} {{4}} {verb} {{5}}; convert it or correct its type",
        ends.value,
        ends.type,
        ends.name,
        ends.operator,
        ends.title,
        ends.allowed,
    )


@rule("signature-input-type")
def input_type(facts: Facts) -> Iterator[Finding]:
    """An input whose type is known has one that the operator takes."""
    yield _of_wrong_type(facts, "input", facts.derive(SignatureCheck).inputs)


@rule("signature-output-type")
def output_type(facts: Facts) -> Iterator[Finding]:
    """An output whose type is declared has one that the operator makes."""
    yield _of_wrong_type(facts, "output", facts.derive(SignatureCheck).outputs)


@rule("signature-type-agreement")
def type_agreement(facts: Facts) -> Iterator[Finding]:
    """Inputs and outputs of one type variable have one type, where their types are known."""
    held = facts.derive(SignatureCheck)
    for field, faults in (("input", held.inputs), ("output", held.outputs)):
        ends = _Ends(facts, field)
        yield ends.elements.at(
            faults & OTHER_TYPE != 0,
            f"{{0!r}} has type {{1}}, and as {field} {{2!r}} of {{3!r}} it shares type {{4}} with others before it, "
            "which have another type; convert it or correct its type",
            ends.value,
            ends.type,
            ends.name,
            ends.operator,
            lambda row, ends=ends: ends.parameter(row).variable,
        )


@rule("signature-attribute-known")
def attribute_known(facts: Facts) -> Iterator[Finding]:
    """A node has only attributes that its operator has; names that begin with two underscores are a tool's own."""
    attributes, nodes, held = facts.AttributeProto, facts.NodeProto, facts.derive(SignatureCheck)
    yield attributes.at(
        held.attributes & UNKNOWN != 0,
        "{0!r} has no attribute {1!r} in {2}; {3}",
        lambda row: held.text_of(nodes.op_type[attributes.parent[row]]),
        attributes.texts(attributes.name),
        lambda row: held.title(attributes.parent[row]),
        lambda row: _attributes_of(held, attributes.parent[row]),
    )


def _attributes_of(held: SignatureCheck, node: int) -> str:
    names = sorted(held.signature(node).attributes)
    return f"remove it, or use {_listed(names)}" if names else "remove it"


@rule("signature-attribute-type")
def attribute_type(facts: Facts) -> Iterator[Finding]:
    """An attribute, a reference too, has the type that the operator takes."""
    attributes, held = facts.AttributeProto, facts.derive(SignatureCheck)
    yield attributes.at(
        held.attributes & WRONG_KIND != 0,
        "attribute {0!r} of {1!r} has type {2}, and the operator takes {3}; correct it",
        attributes.texts(attributes.name),
        lambda row, nodes=facts.NodeProto: held.text_of(nodes.op_type[attributes.parent[row]]),
        lambda row: NAMES.get(int(held.kind_of(row, attributes.type)), str(attributes.type[row])),
        lambda row: NAMES[held.signature(attributes.parent[row]).attributes[held.text_of(attributes.name[row])].type],
    )


@rule("signature-attribute-required")
def attribute_required(facts: Facts) -> Iterator[Finding]:
    """A node has the attributes that its operator can't do without."""
    attributes, nodes, held = facts.AttributeProto, facts.NodeProto, facts.derive(SignatureCheck)
    firsts = nodes.first("attribute")

    def lacking(row: int) -> str:
        first, n = int(firsts[row]), int(nodes.attribute[row])
        there = {held.text_of(attributes.name[i]) for i in range(first, first + n)}
        known = held.signature(row).attributes
        return " and ".join(repr(name) for name, it in known.items() if it.is_required and name not in there)

    yield nodes.at(
        held.nodes & LACKS_ATTRIBUTE != 0,
        "{0!r} needs attribute {1} in {2}; add it",
        nodes.texts(nodes.op_type),
        lacking,
        held.title,
    )
