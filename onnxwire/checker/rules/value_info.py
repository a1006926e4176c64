"""Rules of the descriptions of values: inputs, outputs and value_info."""

from __future__ import annotations

from typing import Any

from onnxwire.checker.declared_types import DeclaredTypes
from onnxwire.checker.facts import EMPTY, Facts
from onnxwire.checker.rules.graph import is_nested
from onnxwire.checker.scopes import Scopes

RULES = {
    "ValueInfoProto": {
        "value-info-name-present": (
            lambda info: info.name == EMPTY,
            "the entry has no name; set the name of a value",
        ),
        "main-io-type-present": (
            lambda info: info.derive(is_main_io) & (info.type < 0),
            "{name!r} has no type; set one",
        ),
        "main-io-type-case-set": (
            lambda info: info.derive(is_main_io) & (info.type >= 0) & (info.derive(DeclaredTypes).kind < 0),
            "the type of {name!r} has no known kind; set tensor_type or another field",
        ),
        "main-io-shape-present": (
            lambda info: info.derive(is_main_io) & _is_tensor(info) & (info.derive(DeclaredTypes).shape < 0),
            "{name!r} has no shape; set one, with unset dimensions where sizes are unknown",
        ),
        "value-info-type-present-legacy": (
            lambda info: (
                (info.type < 0)
                & (info.derive(DeclaredTypes).graph >= 0)
                & (info.under("GraphProto.value_info") | is_nested(info.facts, info.derive(DeclaredTypes).graph))
            ),
            "{name!r} has no type, which IR version {facts.ir_version} requires; set one",
        ),
    },
}


def is_main_io(facts: Facts) -> Any:
    """Return whether each ValueInfoProto is an input or output of the model's own graph."""
    graphs = facts.ValueInfoProto.parent_under("GraphProto.input", "GraphProto.output")
    return facts.derive(Scopes).is_main[graphs]


def _is_tensor(infos: Any) -> Any:
    """Return whether each value has a dense or sparse tensor type."""
    fields = infos.facts.TypeProto.fields
    kind = infos.derive(DeclaredTypes).kind
    return (kind == fields.index("tensor_type")) | (kind == fields.index("sparse_tensor_type"))
