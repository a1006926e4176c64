"""Rules of nodes, and of the calls of local functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, repeats
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.opset_import import plain_domains
from onnxwire.checker.scopes import Scopes


class Calls:
    """Nodes that call local functions; take them with `facts.derive(Calls)`.

    function: of each node, the row of the FunctionProto that it calls, or -1.
    """

    def __init__(self, facts: Facts) -> None:
        nodes, functions = facts.NodeProto, facts.FunctionProto
        self.function = np.full(nodes.n, -1, np.int64)
        rows = np.flatnonzero(functions.under("ModelProto.functions"))
        is_name = np.zeros(facts.columns.text_count(), bool)
        is_name[functions.name[rows]] = True
        is_name[EMPTY] = False
        some = np.flatnonzero(is_name[nodes.op_type])
        if not len(some):
            return
        identities = {
            identity: row
            for row, *identity_ in zip(
                rows.tolist()[::-1],
                plain_domains(facts, functions.domain)[rows].tolist()[::-1],
                functions.name[rows].tolist()[::-1],
                functions.overload[rows].tolist()[::-1],
                strict=True,
            )
            for identity in [tuple(identity_)]
        }
        domains = plain_domains(facts, nodes.domain[some])
        called = zip(domains.tolist(), nodes.op_type[some].tolist(), nodes.overload[some].tolist(), strict=True)
        self.function[some] = [identities.get(identity, -1) for identity in called]


@rule("node-op-type-present")
def op_type_present(facts: Facts) -> Iterator[Finding]:
    """A node names its operator."""
    nodes = facts.NodeProto
    yield nodes.at(nodes.op_type == EMPTY, "node {0!r} has no op_type; name the operator", nodes.texts(nodes.name))


@rule("node-has-output")
def has_output(facts: Facts) -> Iterator[Finding]:
    """A node makes something."""
    nodes = facts.NodeProto
    yield nodes.at(
        nodes.output == 0,
        "node {0!r} ({1}) has no output; name one or remove the node",
        nodes.texts(nodes.name),
        nodes.texts(nodes.op_type),
    )


@rule("node-all-outputs-empty")
def all_outputs_empty(facts: Facts) -> Iterator[Finding]:
    """Some output has a name."""
    nodes, outputs = facts.NodeProto, facts.lists("NodeProto.output")
    is_named = np.zeros(nodes.n, bool)
    is_named[outputs.parent[outputs.value != EMPTY]] = True
    yield nodes.at(
        (nodes.output > 0) & ~is_named,
        "all outputs of node {0!r} ({1}) are omitted; name one or remove the node",
        nodes.texts(nodes.name),
        nodes.texts(nodes.op_type),
    )


@rule("node-optional-empty-name")
def optional_empty_name(facts: Facts) -> Iterator[Finding]:
    """Omitted inputs and outputs at the end are left out."""
    nodes = facts.NodeProto
    for name, counts in (("NodeProto.input", nodes.input), ("NodeProto.output", nodes.output)):
        elements = facts.lists(name)
        is_last = elements.index + 1 == counts[elements.parent]
        is_empty = elements.value == EMPTY
        yield elements.at(is_last & is_empty, "an omitted optional at the end; it can be left out")


@rule("node-name-unique")
def name_unique(facts: Facts) -> Iterator[Finding]:
    """Nodes of a graph have different names."""
    nodes = facts.NodeProto
    rows = np.flatnonzero(nodes.name != EMPTY)
    counts = np.bincount(nodes.name[rows])
    rows = rows[counts[nodes.name[rows]] > 1]
    yield nodes.at(
        rows[repeats(nodes.edge[rows], nodes.parent[rows], nodes.name[rows])],
        "another node is named {0!r}, too; rename one of them",
        nodes.texts(nodes.name),
    )


def imported(facts: Facts) -> Any:
    """Whether each string is a domain that the model imports; both names of the default one count."""
    imports = facts.OperatorSetIdProto
    is_imported = np.zeros(facts.columns.text_count(), bool)
    is_imported[plain_domains(facts, imports.domain[imports.under("ModelProto.opset_import")])] = True
    return is_imported


@rule("node-domain-imported")
def domain_imported(facts: Facts) -> Iterator[Finding]:
    """The model imports the domains of its nodes.

    `function-opset-covers-body` speaks of those in functions, `function-domain-imported` of calls of functions.
    """
    nodes, scopes = facts.NodeProto, facts.derive(Scopes)
    if not facts.derive(imported).any():
        return  # a graph by itself, or a model of which opset-import-required speaks
    yield nodes.at(
        (scopes.node_function < 0)
        & (facts.derive(Calls).function < 0)
        & ~facts.derive(imported)[plain_domains(facts, nodes.domain)],
        "node {0!r} ({1}) is of domain {2!r}, which the model does not import; add it to opset_import",
        nodes.texts(nodes.name),
        nodes.texts(nodes.op_type),
        nodes.texts(nodes.domain),
    )


@rule("node-domain-default-alias")
def domain_default_alias(facts: Facts) -> Iterator[Finding]:
    """A node names the default domain as the model does."""
    nodes, imports = facts.NodeProto, facts.OperatorSetIdProto
    alias = facts.find("ai.onnx")
    listed = imports.domain[imports.under("ModelProto.opset_import")]
    if alias >= 0 and alias not in listed and EMPTY in listed:
        yield nodes.at(
            nodes.domain == alias,
            "the domain is given as ai.onnx and imported as the empty name, which some tools do not take for the same; "
            "leave it empty",
        )


@rule("node-domain-before-ir3")
def domain_before_ir3(facts: Facts) -> Iterator[Finding]:
    """Nodes have no domain yet."""
    nodes = facts.NodeProto
    yield nodes.at(
        nodes.domain != EMPTY, f"the domain of a node needs IR version 3, and the model has {facts.ir_version}"
    )


@rule("node-overload-resolves")
def overload_resolves(facts: Facts) -> Iterator[Finding]:
    """An overload is that of a local function."""
    nodes = facts.NodeProto
    if facts.root != "ModelProto":
        return  # the functions are elsewhere
    yield nodes.at(
        (nodes.overload != EMPTY) & (facts.derive(Calls).function < 0),
        "no function of the model is {0!r} with overload {1!r}; correct the overload or add the function",
        nodes.texts(nodes.op_type),
        nodes.texts(nodes.overload),
    )


def _call_counts(facts: Facts, field: str) -> Finding:
    nodes, functions = facts.NodeProto, facts.FunctionProto
    called = facts.derive(Calls).function
    declared = np.append(getattr(functions, field), 0)[called]
    passed = getattr(nodes, field)
    return nodes.at(
        (called >= 0) & (passed > declared),
        f"the call of {{0!r}} has {{1}} {field}s, and the function declares {{2}}; remove what is too much",
        nodes.texts(nodes.op_type),
        passed,
        declared,
    )


@rule("node-call-input-count")
def call_input_count(facts: Facts) -> Iterator[Finding]:
    """A call has no more inputs than the function."""
    yield _call_counts(facts, "input")


@rule("node-call-output-count")
def call_output_count(facts: Facts) -> Iterator[Finding]:
    """A call has no more outputs than the function."""
    yield _call_counts(facts, "output")


def _passed(facts: Facts) -> tuple[Any, Any]:
    """Attributes of calls: rows of AttributeProto, functions called."""
    attributes = facts.AttributeProto
    called = facts.derive(Calls).function
    rows = np.flatnonzero(attributes.under("NodeProto.attribute"))
    functions = called[attributes.parent[rows]]
    return rows[functions >= 0], functions[functions >= 0]


@rule("node-call-attribute-declared")
def call_attribute_declared(facts: Facts) -> Iterator[Finding]:
    """A call has only attributes that the function declares."""
    attributes, bare = facts.AttributeProto, facts.lists("FunctionProto.attribute")
    rows, functions = facts.derive(_passed)
    if not len(rows):
        return
    is_default = attributes.under("FunctionProto.attribute_proto")
    declared = (
        np.concatenate([bare.parent, attributes.parent[is_default]]),
        np.concatenate([bare.value, attributes.name[is_default]]),
    )
    found = facts.join((functions, attributes.name[rows]), declared)
    yield attributes.at(
        rows[found < 0],
        "the function that is called declares no attribute {0!r}; remove it or declare it",
        attributes.texts(attributes.name),
    )


@rule("node-call-attribute-type")
def call_attribute_type(facts: Facts) -> Iterator[Finding]:
    """An attribute of a call has the type of the function's default."""
    attributes = facts.AttributeProto
    rows, functions = facts.derive(_passed)
    defaults = np.flatnonzero(attributes.under("FunctionProto.attribute_proto"))
    found = facts.join((functions, attributes.name[rows]), (attributes.parent[defaults], attributes.name[defaults]))
    rows, other = rows[found >= 0], defaults[found[found >= 0]]
    wanted = np.zeros(attributes.n, np.int64)
    wanted[rows] = attributes.type[other]
    is_known = (attributes.type[rows] != 0) & (wanted[rows] != 0)
    yield attributes.at(
        rows[is_known & (attributes.type[rows] != wanted[rows])],
        "attribute {0!r} has type {1}, and the default of the function that is called has type {2}; make them agree",
        attributes.texts(attributes.name),
        attributes.type,
        wanted,
    )
