"""Rules of local functions: who they are, their parameters, their bodies, whom they call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.cycles import circles
from onnxwire.checker.facts import EMPTY, Facts, Finding, repeats
from onnxwire.checker.operators import operators
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.attribute import MESSAGE_FIELDS, is_untyped
from onnxwire.checker.rules.node import Calls, imported
from onnxwire.checker.rules.opset_import import plain_domains
from onnxwire.checker.scopes import IS_INPUT, IS_NODE, LATER, NOWHERE, Scopes


@rule("overload-before-ir10")
def overload_before_ir10(facts: Facts) -> Iterator[Finding]:
    """Nodes and functions have no overload yet."""
    for sheet in (facts.NodeProto, facts.FunctionProto):
        yield sheet.at(
            sheet.overload != EMPTY,
            f"overload {{0!r}} needs IR version 10, and the model has {facts.ir_version}; raise that or remove it",
            sheet.texts(sheet.overload),
        )


@rule("function-name-present")
def name_present(facts: Facts) -> Iterator[Finding]:
    """A function has a name."""
    functions = facts.FunctionProto
    yield functions.at(functions.name == EMPTY, "the function has no name; give it one")


@rule("function-domain-present")
def domain_present(facts: Facts) -> Iterator[Finding]:
    """A function has a domain, be it the empty one."""
    functions = facts.FunctionProto
    yield functions.at(
        ~functions.has("domain"), "function {0!r} has no domain; set one", functions.texts(functions.name)
    )


@rule("function-domain-not-default")
def domain_not_default(facts: Facts) -> Iterator[Finding]:
    """The domain is not that of the standard operators."""
    functions = facts.FunctionProto
    yield functions.at(
        functions.has("domain") & (plain_domains(facts, functions.domain) == EMPTY),
        "function {0!r} is in the default domain, which is that of the standard operators; move it to one of its own",
        functions.texts(functions.name),
    )


def _again(facts: Facts, *more: Any) -> Any:
    """Functions of a model that have the domain, the name and what else is given of an earlier one."""
    functions = facts.FunctionProto
    again = repeats(functions.edge, plain_domains(facts, functions.domain), functions.name, *more)
    return functions.under("ModelProto.functions") & (functions.name != EMPTY) & again


@rule("function-id-unique")
def id_unique(facts: Facts) -> Iterator[Finding]:
    """Functions of a model differ in domain or name."""
    functions = facts.FunctionProto
    yield functions.at(
        _again(facts),
        "another function of domain {0!r} is named {1!r}, too; rename one of them",
        functions.texts(functions.domain),
        functions.texts(functions.name),
    )


@rule("function-id-unique-overload")
def id_unique_overload(facts: Facts) -> Iterator[Finding]:
    """Functions of a model differ in domain, name or overload."""
    functions = facts.FunctionProto
    yield functions.at(
        _again(facts, functions.overload),
        "another function of domain {0!r} is named {1!r} with overload {2!r}, too; rename one or change its overload",
        functions.texts(functions.domain),
        functions.texts(functions.name),
        functions.texts(functions.overload),
    )


class Imports:
    """The imports of functions; take it with `facts.derive(Imports)`.

    rows: of OperatorSetIdProto. functions: of FunctionProto. domains: ids, the default one by its empty name only.
    """

    def __init__(self, facts: Facts) -> None:
        imports = facts.OperatorSetIdProto
        self.rows = np.flatnonzero(imports.under("FunctionProto.opset_import"))
        self.functions = imports.parent[self.rows]
        self.domains = plain_domains(facts, imports.domain)[self.rows]


def _uncovered(facts: Facts) -> Any:
    """Nodes in functions whose domain the function does not import: the first of each function and domain."""
    nodes, imports = facts.NodeProto, facts.derive(Imports)
    functions = facts.derive(Scopes).node_function
    rows = np.flatnonzero(functions >= 0)
    domains = plain_domains(facts, nodes.domain[rows])
    found = facts.join((functions[rows], domains), (imports.functions, imports.domains))
    rows, domains = rows[found < 0], domains[found < 0]
    return rows[~repeats(functions[rows], domains)]


@rule("function-domain-imported")
def domain_imported(facts: Facts) -> Iterator[Finding]:
    """Who calls a function imports its domain, be it the model or a function."""
    nodes, called = facts.NodeProto, facts.derive(Calls).function
    rows = facts.derive(_uncovered)
    rows = rows[called[rows] >= 0]
    is_caller = (called >= 0) & (facts.derive(Scopes).node_function < 0)
    if facts.derive(imported).any():
        is_caller &= ~facts.derive(imported)[plain_domains(facts, nodes.domain)]
        rows = np.concatenate([np.flatnonzero(is_caller), rows])
    yield nodes.at(
        np.sort(rows),
        "the call of {0!r} is of domain {1!r}, which its surroundings do not import; add it to their opset_import",
        nodes.texts(nodes.op_type),
        nodes.texts(nodes.domain),
    )


def _repeated(facts: Facts, field: str, what: str) -> Finding:
    elements = facts.lists(f"FunctionProto.{field}")
    return elements.at(
        repeats(elements.parent, elements.value),
        f"another {what} of the function is named {{0!r}}, too; rename one of them",
        elements.texts(elements.value),
    )


@rule("function-input-name-unique")
def input_name_unique(facts: Facts) -> Iterator[Finding]:
    """Inputs of a function have different names."""
    yield _repeated(facts, "input", "input")


@rule("function-output-name-unique")
def output_name_unique(facts: Facts) -> Iterator[Finding]:
    """Outputs of a function have different names."""
    yield _repeated(facts, "output", "output")


@rule("function-output-defined")
def output_defined(facts: Facts) -> Iterator[Finding]:
    """Each output is a value of the function."""
    outputs = facts.lists("FunctionProto.output")
    yield outputs.at(
        facts.derive(Scopes).function_outputs == NOWHERE,
        "output {0!r} is not a value of the function: let a node make it, or correct the name",
        outputs.texts(outputs.value),
    )


@rule("function-io-name-present")
def io_name_present(facts: Facts) -> Iterator[Finding]:
    """Inputs and outputs of a function have names."""
    for field in ("input", "output"):
        elements = facts.lists(f"FunctionProto.{field}")
        yield elements.at(elements.value == EMPTY, f"the {field} of the function has no name; give it one")


@rule("function-attribute-name-unique")
def attribute_name_unique(facts: Facts) -> Iterator[Finding]:
    """Attribute parameters without default have different names."""
    yield _repeated(facts, "attribute", "attribute parameter")


@rule("function-attribute-proto-name-unique")
def attribute_proto_name_unique(facts: Facts) -> Iterator[Finding]:
    """Attribute parameters with default have different names."""
    attributes = facts.AttributeProto
    rows = np.flatnonzero(attributes.under("FunctionProto.attribute_proto") & (attributes.name != EMPTY))
    yield attributes.at(
        rows[repeats(attributes.parent[rows], attributes.name[rows])],
        "another attribute parameter of the function is named {0!r}, too; keep one of them",
        attributes.texts(attributes.name),
    )


@rule("function-attribute-exclusive")
def attribute_exclusive(facts: Facts) -> Iterator[Finding]:
    """An attribute parameter has a default or none."""
    attributes, bare = facts.AttributeProto, facts.lists("FunctionProto.attribute")
    rows = np.flatnonzero(attributes.under("FunctionProto.attribute_proto"))
    found = facts.join((attributes.parent[rows], attributes.name[rows]), (bare.parent, bare.value))
    yield attributes.at(
        rows[found >= 0],
        "{0!r} is listed in `attribute` as well, without a default; remove one of the two",
        attributes.texts(attributes.name),
    )


@rule("function-attribute-vs-io-name")
def attribute_vs_io_name(facts: Facts) -> Iterator[Finding]:
    """Attribute parameters are named otherwise than inputs and outputs."""
    inputs, outputs = facts.lists("FunctionProto.input"), facts.lists("FunctionProto.output")
    values = np.concatenate([inputs.parent, outputs.parent]), np.concatenate([inputs.value, outputs.value])
    text = "the attribute parameter {0!r} has the name of an input or output of the function; rename one of them"
    bare, attributes = facts.lists("FunctionProto.attribute"), facts.AttributeProto
    is_value = facts.join((bare.parent, bare.value), values) >= 0
    yield bare.at(is_value & (bare.value != EMPTY), text, bare.texts(bare.value))
    rows = np.flatnonzero(attributes.under("FunctionProto.attribute_proto") & (attributes.name != EMPTY))
    found = facts.join((attributes.parent[rows], attributes.name[rows]), values)
    yield attributes.at(rows[found >= 0], text, attributes.texts(attributes.name))


@rule("function-attribute-proto-has-value")
def attribute_proto_has_value(facts: Facts) -> Iterator[Finding]:
    """A default has a type and a value, and refers to nothing.

    Numbers and strings that are absent are 0 and empty, and `attribute-scalar-value-present` speaks of them.
    """
    attributes = facts.AttributeProto
    is_default = attributes.under("FunctionProto.attribute_proto")
    refers = is_default & (attributes.ref_attr_name != EMPTY)
    names = attributes.texts(attributes.name)
    yield attributes.at(
        refers,
        "the default of {0!r} is a reference to {1!r}; give it a type and a value of its own",
        names,
        attributes.texts(attributes.ref_attr_name),
    )
    yield attributes.at(
        is_default & ~refers & facts.derive(is_untyped), "the default of {0!r} has no type; set `type`", names
    )
    for kind, field in MESSAGE_FIELDS.items():
        yield attributes.at(
            is_default & ~refers & (attributes.type == kind) & ~attributes.has(field),
            f"the default of {{0!r}} has no value; set `{field}`, or list the parameter in `attribute`",
            names,
        )


@rule("function-attribute-proto-before-ir9")
def attribute_proto_before_ir9(facts: Facts) -> Iterator[Finding]:
    """Attribute parameters have no defaults yet."""
    attributes = facts.AttributeProto
    yield attributes.at(
        attributes.under("FunctionProto.attribute_proto"),
        f"attribute_proto needs IR version 9, and the model has {facts.ir_version}; raise ir_version",
    )


def _is_direct(facts: Facts, field: str) -> Any:
    """Whether each input or output of nodes is of one that stands in a function itself, not in a nested graph."""
    return facts.NodeProto.under("FunctionProto.node")[facts.lists(f"NodeProto.{field}").parent]


@rule("function-topological-order")
def topological_order(facts: Facts) -> Iterator[Finding]:
    """A node of a function comes after those whose outputs it reads."""
    scopes, inputs = facts.derive(Scopes), facts.lists("NodeProto.input")
    makers = scopes.makers
    yield inputs.at(
        (scopes.uses == LATER) & _is_direct(facts, "input"),
        "{0!r} is made by {1}, which does not come before this node; sort the nodes of the function",
        inputs.texts(inputs.value),
        lambda row: facts.path("NodeProto", int(makers[row])),
    )


@rule("function-no-outer-capture")
def no_outer_capture(facts: Facts) -> Iterator[Finding]:
    """A node of a function reads values of the function only."""
    inputs = facts.lists("NodeProto.input")
    yield inputs.at(
        (facts.derive(Scopes).uses == NOWHERE) & _is_direct(facts, "input"),
        "nothing in the function is named {0!r}, and a function sees no values from outside; make it an input",
        inputs.texts(inputs.value),
    )


@rule("function-node-output-ssa")
def node_output_ssa(facts: Facts) -> Iterator[Finding]:
    """A name is made once in a function, and no input is made again."""
    outputs, defined = facts.lists("NodeProto.output"), facts.derive(Scopes).defined
    yield outputs.at(
        (defined & (IS_INPUT | IS_NODE) != 0) & _is_direct(facts, "output"),
        "{0!r} is an input of the function, or made before; rename the output",
        outputs.texts(outputs.value),
    )


@rule("function-no-recursion")
def no_recursion(facts: Facts) -> Iterator[Finding]:
    """No function calls itself, be it by way of others."""
    functions, called = facts.FunctionProto, facts.derive(Calls).function
    callers = facts.derive(Scopes).node_function
    rows = np.flatnonzero((called >= 0) & (callers >= 0))
    edges = np.unique(callers[rows].astype(np.int64) * functions.n + called[rows])
    found = {}
    for members in circles(edges // functions.n, edges % functions.n):
        names = [repr(facts.text(functions.name[row])) for row in members[:4]]
        more = f" and {len(members) - 4:,} more" if len(members) > 4 else ""
        found[members[0]] = f"the functions {', '.join(names)}{more} call each other in a circle; break it"
        if len(members) == 1:
            found[members[0]] = f"function {names[0]} calls itself; let it call another one"
    yield functions.each(found)


@rule("function-opset-covers-body")
def opset_covers_body(facts: Facts) -> Iterator[Finding]:
    """A function imports the domains of its nodes, nested ones too; the first node of each domain is reported.

    `function-domain-imported` speaks of calls of functions.
    """
    nodes, rows = facts.NodeProto, facts.derive(_uncovered)
    yield nodes.at(
        rows[facts.derive(Calls).function[rows] < 0],
        "node {0!r} ({1}) is of domain {2!r}, which the function does not import; add it to its opset_import",
        nodes.texts(nodes.name),
        nodes.texts(nodes.op_type),
        nodes.texts(nodes.domain),
    )


@rule("function-opset-domain-unique")
def opset_domain_unique(facts: Facts) -> Iterator[Finding]:
    """A function imports a domain at one version."""
    imports, own = facts.OperatorSetIdProto, facts.derive(Imports)
    keys = (own.functions, own.domains)
    yield imports.at(
        own.rows[repeats(*keys) & ~repeats(*keys, imports.version[own.rows])],
        "the function imports domain {0!r} again, at version {1}; keep one of the entries",
        imports.texts(imports.domain),
        imports.version,
    )


@rule("function-opset-compatible")
def opset_compatible(facts: Facts) -> Iterator[Finding]:
    """Where versions of a domain differ, the nodes of functions are of operators that are the same in both.

    A function's version is held against the model's, or that of the first function that imports the domain; of several
    versions the highest counts. Operators that ONNX does not define are left out: only their own definitions could
    tell. Each operator is reported once.
    """
    nodes, imports, own = facts.NodeProto, facts.OperatorSetIdProto, facts.derive(Imports)
    models = np.flatnonzero(imports.under("ModelProto.opset_import"))
    models = models[np.argsort(-imports.version[models], kind="stable")]
    order = np.lexsort((-imports.version[own.rows], own.functions))
    rows = np.concatenate([models, own.rows[order]])
    domains = plain_domains(facts, imports.domain)[rows]
    zeros = np.zeros(len(rows), np.int64)
    versions = imports.version[rows]
    versions_there = versions[facts.join((zeros, domains), (zeros, domains))]
    is_other = versions != versions_there
    if not is_other[len(models) :].any():
        return
    functions = facts.derive(Scopes).node_function
    suspects = np.flatnonzero(functions >= 0)
    suspect_domains = plain_domains(facts, nodes.domain[suspects])
    matches = facts.join((functions[suspects], suspect_domains), (own.functions[order], own.domains[order]))
    suspects, suspect_domains, matches = (
        column[(matches >= 0) & is_other[len(models) + matches]] for column in (suspects, suspect_domains, matches)
    )
    matches = len(models) + matches
    is_again = repeats(functions[suspects], suspect_domains, nodes.op_type[suspects])
    known = facts.operators
    found = {}
    for row, domain, here, there in zip(
        suspects[~is_again].tolist(),
        suspect_domains[~is_again].tolist(),
        versions[matches[~is_again]].tolist(),
        versions_there[matches[~is_again]].tolist(),
        strict=True,
    ):
        name, of = facts.text(nodes.op_type[row]), facts.text(domain)
        if known.since_version(of, name, here) != known.since_version(of, name, there):
            found[row] = (
                f"{name!r} of domain {of!r} is not the same in version {here}, which the function imports, and in "
                f"version {there}, which is imported elsewhere; import one version"
            )
    yield nodes.each(found)


@rule("function-value-info-name-unique")
def value_info_name_unique(facts: Facts) -> Iterator[Finding]:
    """value_info of a function describes a value once."""
    infos = facts.ValueInfoProto
    rows = np.flatnonzero(infos.under("FunctionProto.value_info") & (infos.name != EMPTY))
    yield infos.at(
        rows[repeats(infos.parent[rows], infos.name[rows])],
        "value_info has {0!r} before; remove one of the entries",
        infos.texts(infos.name),
    )


@rule("function-value-info-known-name")
def value_info_known_name(facts: Facts) -> Iterator[Finding]:
    """value_info of a function describes its values."""
    infos = facts.ValueInfoProto
    yield infos.at(
        infos.under("FunctionProto.value_info") & (facts.derive(Scopes).named == NOWHERE),
        "value_info has {0!r}, which is not a value of the function; remove the entry",
        infos.texts(infos.name),
    )


@rule("function-value-info-before-ir10")
def value_info_before_ir10(facts: Facts) -> Iterator[Finding]:
    """Functions have no value_info yet."""
    infos = facts.ValueInfoProto
    yield infos.at(
        infos.under("FunctionProto.value_info"),
        f"value_info of a function needs IR version 10, and the model has {facts.ir_version}; raise ir_version",
    )


@rule("function-status-withdrawn")
def status_withdrawn(facts: Facts) -> Iterator[Finding]:
    """since_version and status are not written any more."""
    unknown = facts.unknown_fields
    for number, name in ((2, "since_version"), (3, "status")):
        yield unknown.at(
            unknown.under("FunctionProto") & (unknown.number == number),
            f"field {number} of functions, {name}, was withdrawn; remove it",
        )


@rule("function-shadows-operator")
def shadows_operator(facts: Facts) -> Iterator[Finding]:
    """A function is named otherwise than the operators that ONNX defines."""
    functions = facts.FunctionProto
    known = operators().versions
    names = {name for _, name in known}
    suspects = np.flatnonzero(facts.matching(names.__contains__, functions.name))
    domains = plain_domains(facts, functions.domain)
    yield functions.at(
        {row for row in suspects.tolist() if (facts.text(domains[row]), facts.text(functions.name[row])) in known},
        "{0!r} of domain {1!r} is an operator of ONNX, too, and runtimes differ in which they take; rename it",
        functions.texts(functions.name),
        functions.texts(functions.domain),
    )
