"""Rules of the descriptions of values: inputs, outputs and value_info."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.declared_types import Values
from onnxwire.checker.facts import EMPTY, Facts, Finding
from onnxwire.checker.registry import rule
from onnxwire.checker.rules.graph import is_nested
from onnxwire.checker.scopes import MAIN, Scopes


def is_main_io(facts: Facts) -> Any:
    """Whether each ValueInfoProto is an input or output of the model's own graph."""
    infos, values = facts.ValueInfoProto, facts.derive(Values)
    is_main = np.append(facts.derive(Scopes).graph_kind == MAIN, False)
    return is_main[np.where(values.is_input | values.is_output, infos.parent, -1)]


@rule("value-info-name-present")
def name_present(facts: Facts) -> Iterator[Finding]:
    """A description says of what it is."""
    infos = facts.ValueInfoProto
    yield infos.at(infos.name == EMPTY, "the entry has no name; name the value that it describes")


@rule("main-io-type-present")
def type_present(facts: Facts) -> Iterator[Finding]:
    """Inputs and outputs of the model have a type."""
    infos = facts.ValueInfoProto
    yield infos.at(is_main_io(facts) & (infos.type < 0), "{0!r} has no type; set one", infos.texts(infos.name))


@rule("main-io-type-case-set")
def type_case_set(facts: Facts) -> Iterator[Finding]:
    """The type is of one kind."""
    infos = facts.ValueInfoProto
    yield infos.at(
        is_main_io(facts) & (infos.type >= 0) & (facts.derive(Values).kind < 0),
        "the type of {0!r} is of no known kind; set tensor_type or another",
        infos.texts(infos.name),
    )


@rule("main-io-shape-present")
def shape_present(facts: Facts) -> Iterator[Finding]:
    """A tensor that is an input or output of the model has a rank."""
    infos, values = facts.ValueInfoProto, facts.derive(Values)
    fields = facts.TypeProto.fields
    is_tensor = np.isin(values.kind, (fields.index("tensor_type"), fields.index("sparse_tensor_type")))
    yield infos.at(
        is_main_io(facts) & is_tensor & (values.shape < 0),
        "{0!r} has no shape; set one, with open dimensions where sizes are not known",
        infos.texts(infos.name),
    )


@rule("value-info-type-present-legacy")
def type_present_legacy(facts: Facts) -> Iterator[Finding]:
    """Every description has a type."""
    infos, values = facts.ValueInfoProto, facts.derive(Values)
    graphs = values.graph
    yield infos.at(
        (graphs >= 0) & (values.is_info | is_nested(facts, graphs)) & (infos.type < 0),
        f"{{0!r}} has no type, as IR version {facts.ir_version} asks for; set one",
        infos.texts(infos.name),
    )
