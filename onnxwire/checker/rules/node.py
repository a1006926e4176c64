"""Rules of nodes, and of the calls of local functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, List, Sheet, repeats, true_rows
from onnxwire.checker.registry import count_texts, rule
from onnxwire.checker.rules.attribute import attribute_type_names
from onnxwire.checker.rules.opset_import import normalized_domains
from onnxwire.checker.scopes import Scopes

_NEEDS_IR_10 = (
    "overload {overload!r} needs IR version 10, but the IR version is {facts.ir_version}; raise ir_version or "
    "remove the overload"
)
_TRAILING_EMPTY_NAME = "the last name is empty, which marks an omitted optional value; remove it"

# See registry.py: each function receives a `Sheet` or a `List`, and returns a bool column.
RULES = {
    "NodeProto": {
        "node-op-type-present": (lambda node: node.op_type == EMPTY, "node {name!r} has no op_type; name the operator"),
        "node-has-output": (
            lambda node: node.output == 0,
            "node {name!r} ({op_type}) has no output; name one or remove the node",
        ),
        "node-all-outputs-empty": (
            lambda node: (node.output > 0) & ~_has_named_output(node),
            "all outputs of node {name!r} ({op_type}) are omitted; name one or remove the node",
        ),
        "node-name-unique": (
            lambda node: repeats(node.parent_field, node.parent, node.name, where=_has_repeated_name(node)),
            "another node has the same name, {name!r}; rename one of them",
        ),
        # `function-opset-covers-body` reports nodes in functions, `function-domain-imported` calls of functions.
        "node-domain-imported": (
            lambda node: _is_of_unimported_domain(node.facts),
            "node {name!r} ({op_type}) is of domain {domain!r}, which the model does not import; "
            "add it to opset_import",
        ),
    },
    ("NodeProto", "NodeProto.domain"): {
        "node-domain-default-alias": (
            lambda node: _uses_alias(node),
            "the node has domain 'ai.onnx', but the model imports the default domain as '', and some tools treat these "
            "as two domains; leave the domain of the node empty",
        ),
        "node-domain-before-ir3": (
            lambda node: node.domain != EMPTY,
            "the domain of a node needs IR version 3, but the IR version is {facts.ir_version}",
        ),
    },
    ("NodeProto", "NodeProto.overload"): {
        "overload-before-ir10": (lambda node: node.overload != EMPTY, _NEEDS_IR_10),
        # The functions of a model are known, but not those that a standalone graph calls.
        "node-overload-resolves": (
            lambda node: (
                (node.overload != EMPTY) & (node.facts.root == "ModelProto") & (node.derive(Calls).function < 0)
            ),
            "no function of the model is {op_type!r} with overload {overload!r}; "
            "correct the overload or add the function",
        ),
    },
    ("FunctionProto", "FunctionProto.overload"): {
        "overload-before-ir10": (lambda function: function.overload != EMPTY, _NEEDS_IR_10)
    },
    "NodeProto.input": {"node-optional-empty-name": (lambda input: _is_trailing(input, "input"), _TRAILING_EMPTY_NAME)},
    "NodeProto.output": {
        "node-optional-empty-name": (lambda output: _is_trailing(output, "output"), _TRAILING_EMPTY_NAME)
    },
}


def _is_trailing(elements: List, field: str) -> Any:
    """Return whether each input or output is the last one of its node, and omitted."""
    return (elements.value == EMPTY) & (elements.index + 1 == getattr(elements.facts.NodeProto, field)[elements.parent])


def _has_named_output(nodes: Sheet) -> Any:
    """Return whether each node has an output that is not omitted."""
    outputs = nodes.facts.lists("NodeProto.output")
    result = np.zeros(nodes.n, bool)
    result[outputs.parent[outputs.value != EMPTY]] = True
    return result


def _has_repeated_name(nodes: Sheet) -> Any:
    """Return, for each node, whether another node in any graph or function has its name; False without a name."""
    counts = np.bincount(nodes.name)
    counts[EMPTY] = 0
    return counts[nodes.name] > 1


class Calls:
    """The calls of local functions. `facts.derive(Calls)` returns the object.

    function: for each node, the row of the FunctionProto that it calls, or -1.
    """

    def __init__(self, facts: Facts) -> None:
        nodes, functions = facts.NodeProto, facts.FunctionProto
        self.function = np.full(nodes.n, -1, np.int32)
        if not functions.n:
            return
        rows = true_rows(functions.under("ModelProto.functions"))
        is_name = np.zeros(facts.columns.text_count(), bool)
        is_name[functions.name[rows]] = True
        is_name[EMPTY] = False
        candidate_nodes = true_rows(is_name[nodes.op_type])
        if not len(candidate_nodes):
            return
        # In reverse order, so that the first of several functions with the same domain, name and overload is called.
        identities = {
            identity: row
            for row, *identity_parts in zip(
                rows.tolist()[::-1],
                normalized_domains(facts, functions.domain)[rows].tolist()[::-1],
                functions.name[rows].tolist()[::-1],
                functions.overload[rows].tolist()[::-1],
                strict=True,
            )
            for identity in [tuple(identity_parts)]
        }
        domains = normalized_domains(facts, nodes.domain[candidate_nodes])
        called_identities = zip(
            domains.tolist(),
            nodes.op_type[candidate_nodes].tolist(),
            nodes.overload[candidate_nodes].tolist(),
            strict=True,
        )
        self.function[candidate_nodes] = [identities.get(identity, -1) for identity in called_identities]


def are_imported(facts: Facts) -> Any:
    """Return whether each string, by id, is a domain that the model imports; see `normalized_domains`."""
    imports = facts.OperatorSetIdProto
    is_imported = np.zeros(facts.columns.text_count(), bool)
    is_imported[normalized_domains(facts, imports.domain[imports.under("ModelProto.opset_import")])] = True
    return is_imported


def _is_of_unimported_domain(facts: Facts) -> Any:
    """Return whether each node outside of functions has an operator of a domain that the model does not import.

    Calls of local functions do not count.
    """
    nodes = facts.NodeProto
    if not facts.derive(are_imported).any():
        return np.zeros(nodes.n, bool)  # a standalone graph, or a model that opset-import-required reports
    is_imported = facts.derive(are_imported)[normalized_domains(facts, nodes.domain)]
    return ~is_imported & (facts.derive(Scopes).node_function < 0) & (facts.derive(Calls).function < 0)


def _uses_alias(nodes: Sheet) -> Any:
    """Return whether each node names the default domain "ai.onnx", although the model imports it only as ""."""
    imports = nodes.facts.OperatorSetIdProto
    alias = nodes.facts.find("ai.onnx")
    imported_domains = imports.domain[imports.under("ModelProto.opset_import")]
    if alias < 0 or alias in imported_domains or EMPTY not in imported_domains:
        return np.zeros(nodes.n, bool)
    return nodes.domain == alias


def _call_counts(facts: Facts, field: str) -> Finding:
    """Return a finding about calls with more inputs or outputs than the called function declares.

    field: "input" or "output".
    """
    nodes, functions = facts.NodeProto, facts.FunctionProto
    callees = facts.derive(Calls).function
    declared_counts = np.append(getattr(functions, field), 0)[callees]
    passed_counts = getattr(nodes, field)
    return nodes.at(
        (callees >= 0) & (passed_counts > declared_counts),
        "the call of {op_type!r} has {passed}, but the function declares only {declared}; remove the surplus",
        passed=count_texts(passed_counts, field),
        declared=declared_counts,
    )


@rule("node-call-input-count", "NodeProto", "FunctionProto")
def call_input_count(facts: Facts) -> Iterator[Finding]:
    """Yield calls with more inputs than the function has."""
    yield _call_counts(facts, "input")


@rule("node-call-output-count", "NodeProto", "FunctionProto")
def call_output_count(facts: Facts) -> Iterator[Finding]:
    """Yield calls with more outputs than the function has."""
    yield _call_counts(facts, "output")


def _call_attributes(facts: Facts) -> tuple[Any, Any]:
    """Return the attributes of calls: rows of AttributeProto, and the rows of the called functions."""
    attributes = facts.AttributeProto
    callees = facts.derive(Calls).function
    rows = true_rows(attributes.under("NodeProto.attribute"))
    functions = callees[attributes.parent[rows]]
    return rows[functions >= 0], functions[functions >= 0]


@rule("node-call-attribute-declared", "AttributeProto", "FunctionProto")
def call_attribute_declared(facts: Facts) -> Iterator[Finding]:
    """Yield attributes of calls if the called function does not declare the attribute."""
    attributes, parameters_without_default = facts.AttributeProto, facts.lists("FunctionProto.attribute")
    rows, functions = facts.derive(_call_attributes)
    if not len(rows):
        return
    is_default = attributes.under("FunctionProto.attribute_proto")
    declared = (
        np.concatenate([parameters_without_default.parent, attributes.parent[is_default]]),
        np.concatenate([parameters_without_default.value, attributes.name[is_default]]),
    )
    positions = facts.join((functions, attributes.name[rows]), declared)
    yield attributes.at(
        rows[positions < 0], "the called function declares no attribute {name!r}; remove it or declare it"
    )


@rule("node-call-attribute-type", "AttributeProto", "FunctionProto")
def call_attribute_type(facts: Facts) -> Iterator[Finding]:
    """Yield attributes of calls if the attribute's default in the called function has another type."""
    attributes = facts.AttributeProto
    rows, functions = facts.derive(_call_attributes)
    defaults = true_rows(attributes.under("FunctionProto.attribute_proto"))
    positions = facts.join((functions, attributes.name[rows]), (attributes.parent[defaults], attributes.name[defaults]))
    rows, matching_defaults = rows[positions >= 0], defaults[positions[positions >= 0]]
    expected = np.zeros(attributes.n, np.int64)
    expected[rows] = attributes.type[matching_defaults]
    is_known = (attributes.type[rows] != 0) & (expected[rows] != 0)
    yield attributes.at(
        rows[is_known & (attributes.type[rows] != expected[rows])],
        "attribute {name!r} has type {actual}, but its default in the called function has type {expected}; "
        "make them agree",
        actual=attribute_type_names(attributes.type),
        expected=attribute_type_names(expected),
    )
