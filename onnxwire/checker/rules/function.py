"""Rules of local functions: identity, parameters, body, imports, value_info, calls of functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.facts import EMPTY, Facts, Finding, List, Sheet, repeats, true_rows, unique
from onnxwire.checker.operator_table import operators
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.attribute import MESSAGE_FIELDS, is_untyped
from onnxwire.checker.rules.graph import producer_paths
from onnxwire.checker.rules.node import Calls, are_imported
from onnxwire.checker.rules.opset_import import normalized_domains
from onnxwire.checker.scopes import IS_INPUT, IS_NODE, NOWHERE, PRODUCED_LATER, Scopes
from onnxwire.index.components import cyclic_components

RULES = {
    "FunctionProto": {
        "function-name-present": (lambda function: function.name == EMPTY, "the function has no name; give it one"),
        "function-domain-present": (
            lambda function: ~function.has("domain"),
            "function {name!r} has no domain; set one",
        ),
        "function-domain-not-default": (
            lambda function: function.has("domain") & (normalized_domains(function.facts, function.domain) == EMPTY),
            "function {name!r} is in the default domain, which is that of the standard operators; move it to another "
            "domain",
        ),
        "function-id-unique": (
            lambda function: _is_repeated(function.facts),
            "another function of domain {domain!r} has the same name, {name!r}; rename one of them",
        ),
        "function-id-unique-overload": (
            lambda function: _is_repeated(function.facts, function.overload),
            "another function of domain {domain!r} is named {name!r} with overload {overload!r}, too; rename one or "
            "change its overload",
        ),
        "function-shadows-operator": (
            lambda function: shadowing_functions(function.facts),
            "{name!r} of domain {domain!r} is also an operator of ONNX, and runtimes differ in which of the two they "
            "run; rename it",
        ),
    },
    "FunctionProto.input": {
        "function-input-name-unique": (
            lambda input: repeats(input.parent, input.value),
            "another input of the function has the same name, {value!r}; rename one of them",
        ),
        "function-io-name-present": (
            lambda input: input.value == EMPTY,
            "the input of the function has no name; give it one",
        ),
    },
    "FunctionProto.output": {
        "function-output-name-unique": (
            lambda output: repeats(output.parent, output.value),
            "another output of the function has the same name, {value!r}; rename one of them",
        ),
        "function-io-name-present": (
            lambda output: output.value == EMPTY,
            "the output of the function has no name; give it one",
        ),
        "function-output-defined": (
            lambda output: output.derive(Scopes).function_output_meanings == NOWHERE,
            "output {value!r} is not a value of the function; add a node that produces it, or correct the name",
        ),
    },
    "FunctionProto.attribute": {
        "function-attribute-name-unique": (
            lambda name: repeats(name.parent, name.value),
            "another attribute parameter of the function has the same name, {value!r}; rename one of them",
        ),
        "function-attribute-vs-io-name": (
            lambda name: (
                (name.value != EMPTY) & (name.facts.join((name.parent, name.value), name.derive(_value_names)) >= 0)
            ),
            "the attribute parameter {value!r} has the name of an input or output of the function; rename one of them",
        ),
    },
    ("AttributeProto", "FunctionProto"): {
        "function-attribute-proto-name-unique": (
            lambda attribute: repeats(
                attribute.parent, attribute.name, where=_is_default(attribute) & (attribute.name != EMPTY)
            ),
            "another attribute parameter of the function has the same name, {name!r}; keep one of them",
        ),
        "function-attribute-exclusive": (
            lambda attribute: _is_default(attribute) & _is_listed(attribute),
            "{name!r} is listed in `attribute` as well, without a default; remove one of the two",
        ),
        "function-attribute-vs-io-name": (
            lambda attribute: (
                _is_default(attribute)
                & (attribute.name != EMPTY)
                & (attribute.facts.join((attribute.parent, attribute.name), attribute.derive(_value_names)) >= 0)
            ),
            "the attribute parameter {name!r} has the name of an input or output of the function; rename one of them",
        ),
        # `attribute-scalar-value-present` reports absent numbers and strings, which are read as 0 and the empty string.
        "function-attribute-proto-has-value": [
            (
                lambda attribute: _is_default(attribute) & (attribute.ref_attr_name != EMPTY),
                "the default of {name!r} is a reference to {ref_attr_name!r}; give it a type and a value of its own",
            ),
            (
                lambda attribute: _is_own_value(attribute) & attribute.derive(is_untyped),
                "the default of {name!r} has no type; set `type`",
            ),
            *(
                (
                    lambda attribute, kind=kind, field=field: (
                        _is_own_value(attribute) & (attribute.type == kind) & ~attribute.has(field)
                    ),
                    f"the default of {{name!r}} has no value; set `{field}`, or list the parameter in `attribute`",
                )
                for kind, field in MESSAGE_FIELDS.items()
            ),
        ],
        "function-attribute-proto-before-ir9": (
            lambda attribute: attribute.under("FunctionProto.attribute_proto"),
            "attribute_proto needs IR version 9, but the IR version is {facts.ir_version}; raise ir_version",
        ),
    },
    ("NodeProto.input", "FunctionProto"): {
        "function-topological-order": (
            lambda input: (input.derive(Scopes).uses == PRODUCED_LATER) & _is_direct(input),
            "{value!r} is produced by {producer}, which does not come before this node; sort the nodes of the function",
            {"producer": lambda input: producer_paths(input)},
        ),
        "function-no-outer-capture": (
            lambda input: (input.derive(Scopes).uses == NOWHERE) & _is_direct(input),
            "no value in the function is named {value!r}, and a function sees no outer values; make it an input",
        ),
    },
    ("NodeProto.output", "FunctionProto"): {
        "function-node-output-ssa": (
            lambda output: (output.derive(Scopes).node_output_flags & (IS_INPUT | IS_NODE) != 0) & _is_direct(output),
            "an input or another node output of the function has the same name, {value!r}; rename the output",
        ),
    },
    ("NodeProto", "FunctionProto"): {
        "function-opset-covers-body": (
            lambda node: node.derive(_uncovered_nodes)[node.derive(Calls).function[node.derive(_uncovered_nodes)] < 0],
            "node {name!r} ({op_type}) is of domain {domain!r}, which the function does not import; add it to its "
            "opset_import",
        ),
    },
    "OperatorSetIdProto": {
        "function-opset-domain-unique": (
            lambda entry: entry.derive(Imports).rows[
                repeats(*(entry.derive(Imports).functions, entry.derive(Imports).domains))
                & ~repeats(
                    *(entry.derive(Imports).functions, entry.derive(Imports).domains),
                    entry.version[entry.derive(Imports).rows],
                )
            ],
            "the function imports domain {domain!r} again, at version {version}; keep one of the entries",
        ),
    },
    ("ValueInfoProto", "FunctionProto"): {
        "function-value-info-name-unique": (
            lambda info: repeats(
                info.parent, info.name, where=info.under("FunctionProto.value_info") & (info.name != EMPTY)
            ),
            "value_info has {name!r} more than once; keep one of the entries",
        ),
        "function-value-info-known-name": (
            lambda info: info.under("FunctionProto.value_info") & (info.derive(Scopes).value_info_meanings == NOWHERE),
            "value_info has {name!r}, which is not a value of the function; remove the entry",
        ),
        "function-value-info-before-ir10": (
            lambda info: info.under("FunctionProto.value_info"),
            "value_info of a function needs IR version 10, but the IR version is {facts.ir_version}; raise ir_version",
        ),
    },
    "UnknownFields": {
        "function-status-withdrawn": [
            (
                lambda record, number=number: record.under("FunctionProto") & (record.number == number),
                f"field {number} of functions, {name}, was withdrawn; remove it",
            )
            for number, name in ((2, "since_version"), (3, "status"))
        ],
    },
}


def _is_repeated(facts: Facts, *more_columns: Any) -> Any:
    """Return whether each function of a model has the domain, name and `more_columns` of an earlier function."""
    functions = facts.FunctionProto
    domains = normalized_domains(facts, functions.domain)
    is_repeated = repeats(functions.parent_field, domains, functions.name, *more_columns)
    return functions.under("ModelProto.functions") & (functions.name != EMPTY) & is_repeated


class Imports:
    """The imports of functions. `facts.derive(Imports)` returns the object.

    rows: rows of OperatorSetIdProto. functions: for each of these rows, the row of FunctionProto. domains: the ids of
    the domains, see `normalized_domains`.
    """

    def __init__(self, facts: Facts) -> None:
        imports = facts.OperatorSetIdProto
        self.rows = true_rows(imports.under("FunctionProto.opset_import"))
        self.functions = imports.parent[self.rows]
        self.domains = normalized_domains(facts, imports.domain)[self.rows]


def _uncovered_nodes(facts: Facts) -> Any:
    """Return the rows of nodes: for each function, the first node of each domain that the function does not import."""
    nodes, imports = facts.NodeProto, facts.derive(Imports)
    functions = facts.derive(Scopes).node_function
    rows = true_rows(functions >= 0)
    domains = normalized_domains(facts, nodes.domain[rows])
    positions = facts.join((functions[rows], domains), (imports.functions, imports.domains))
    rows, domains = rows[positions < 0], domains[positions < 0]
    return rows[~repeats(functions[rows], domains)]


@rule("function-domain-imported", "FunctionProto", "NodeProto")
def domain_imported(facts: Facts) -> Iterator[Finding]:
    """Yield calls of functions if the calling model or function does not import the domain of the called function.

    Of the nodes of one domain in a calling function, only the first is tested. Calls by the model are tested only if
    it imports a domain.
    """
    nodes, callees = facts.NodeProto, facts.derive(Calls).function
    rows = facts.derive(_uncovered_nodes)
    rows = rows[callees[rows] >= 0]
    is_call_of_model = (callees >= 0) & (facts.derive(Scopes).node_function < 0)
    if facts.derive(are_imported).any():
        is_call_of_model &= ~facts.derive(are_imported)[normalized_domains(facts, nodes.domain)]
        rows = np.concatenate([true_rows(is_call_of_model), rows])
    yield nodes.at(
        np.sort(rows),
        "the call of {op_type!r} is of domain {domain!r}, which the calling model or function does not import; add it "
        "to its opset_import",
    )


def _is_direct(elements: List) -> Any:
    """Return whether the node of each input or output is directly in a function and not in a nested graph."""
    return elements.facts.NodeProto.under("FunctionProto.node")[elements.parent]


def _is_listed(attributes: Sheet) -> Any:
    """Return whether each attribute's parent is a function that lists the attribute's name in `attribute`."""
    parameters_without_default = attributes.facts.lists("FunctionProto.attribute")
    return (
        attributes.facts.join(
            (attributes.parent, attributes.name), (parameters_without_default.parent, parameters_without_default.value)
        )
        >= 0
    )


def _is_default(attributes: Sheet) -> Any:
    """Return whether each attribute is the default of a parameter."""
    return attributes.under("FunctionProto.attribute_proto")


def _is_own_value(attributes: Sheet) -> Any:
    """Return whether each attribute is a default that is not a reference."""
    return _is_default(attributes) & (attributes.ref_attr_name == EMPTY)


def _value_names(facts: Facts) -> tuple[Any, Any]:
    """Return the inputs and outputs of functions: rows of FunctionProto, ids of names."""
    inputs, outputs = facts.lists("FunctionProto.input"), facts.lists("FunctionProto.output")
    return np.concatenate([inputs.parent, outputs.parent]), np.concatenate([inputs.value, outputs.value])


def shadowing_functions(facts: Facts) -> Any:
    """Return the rows of functions with the domain and name of an operator that ONNX defines."""
    functions, onnx_versions = facts.FunctionProto, operators().versions
    names = {name for _, name in onnx_versions}
    domains = normalized_domains(facts, functions.domain)
    rows = true_rows(facts.matching(names.__contains__, functions.name)).tolist()
    return [row for row in rows if (facts.text(domains[row]), facts.text(functions.name[row])) in onnx_versions]


@rule("function-no-recursion", "FunctionProto", "NodeProto")
def no_recursion(facts: Facts) -> Iterator[Finding]:
    """Yield the first function of each set of functions that call each other, and functions that call themselves."""
    functions, callees = facts.FunctionProto, facts.derive(Calls).function
    callers = facts.derive(Scopes).node_function
    rows = true_rows((callees >= 0) & (callers >= 0))
    edges = unique(callers[rows].astype(np.int64) * functions.n + callees[rows])
    messages = {}
    for members in cyclic_components(edges // functions.n, edges % functions.n):
        names = [repr(facts.text(functions.name[row])) for row in members[:4]]
        rest_of_list = f" and {len(members) - 4:,} more" if len(members) > 4 else ""
        messages[members[0]] = f"the functions {', '.join(names)}{rest_of_list} call each other in a cycle; break it"
        if len(members) == 1:
            messages[members[0]] = f"function {names[0]} calls itself; remove the call"
    yield functions.each(messages)


@rule("function-opset-compatible", "FunctionProto", "NodeProto")
def opset_compatible(facts: Facts) -> Iterator[Finding]:
    """Yield nodes of functions whose operator is defined differently in another imported version of its domain.

    The version that a function imports is compared with the model's, or, if the model does not import the domain, with
    that of the first function that does; of several versions, the highest is used. Operators that `facts.operators`
    does not define are skipped. Each operator is reported once for each function.
    """
    nodes, imports, function_imports = facts.NodeProto, facts.OperatorSetIdProto, facts.derive(Imports)
    model_imports = true_rows(imports.under("ModelProto.opset_import"))
    model_imports = model_imports[np.argsort(-imports.version[model_imports], kind="stable")]
    order = np.lexsort((-imports.version[function_imports.rows], function_imports.functions))
    rows = np.concatenate([model_imports, function_imports.rows[order]])
    domains = normalized_domains(facts, imports.domain)[rows]
    constant_key = np.zeros(len(rows), np.int64)
    versions = imports.version[rows]
    other_versions = versions[facts.join((constant_key, domains), (constant_key, domains))]
    is_different = versions != other_versions
    if not is_different[len(model_imports) :].any():
        return
    functions = facts.derive(Scopes).node_function
    body_nodes = true_rows(functions >= 0)
    body_domains = normalized_domains(facts, nodes.domain[body_nodes])
    matches = facts.join(
        (functions[body_nodes], body_domains), (function_imports.functions[order], function_imports.domains[order])
    )
    body_nodes, body_domains, matches = (
        column[(matches >= 0) & is_different[len(model_imports) + matches]]
        for column in (body_nodes, body_domains, matches)
    )
    matches = len(model_imports) + matches
    is_repeated = repeats(functions[body_nodes], body_domains, nodes.op_type[body_nodes])
    operator_table = facts.operators
    messages = {}
    for row, domain, function_version, other_version in zip(
        body_nodes[~is_repeated].tolist(),
        body_domains[~is_repeated].tolist(),
        versions[matches[~is_repeated]].tolist(),
        other_versions[matches[~is_repeated]].tolist(),
        strict=True,
    ):
        name, domain_name = facts.text(nodes.op_type[row]), facts.text(domain)
        if operator_table.since_version(domain_name, name, function_version) != operator_table.since_version(
            domain_name, name, other_version
        ):
            messages[row] = (
                f"{name!r} of domain {domain_name!r} is not the same in version {function_version}, which the function "
                f"imports, and in version {other_version}, which is imported elsewhere; import one version"
            )
    yield nodes.each(messages)
