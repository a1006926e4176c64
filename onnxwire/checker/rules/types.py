"""Rules of types: TypeProto messages of values, in attributes, and inside other types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.declared_types import DeclaredTypes
from onnxwire.checker.facts import CLASH, EMPTY, Facts, Finding, is_one_of, lookup, true_rows
from onnxwire.checker.registry import find, rule, rules
from onnxwire.checker.rules.value_info import is_main_io
from onnxwire.messages import TensorProto

_DENOTATIONS = ("TENSOR", "IMAGE", "AUDIO", "TEXT")
_DATA_TYPES = range(len(TensorProto.DataType.values()))  # the numbers have no gaps
_KEY_TYPES = tuple(
    TensorProto.DataType.Value(name)
    for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "STRING")
)
_UNKNOWN_ELEM_TYPE = (
    f"elem_type {{elem_type}} is not one of 1 to {_DATA_TYPES[-1]}; use a number of TensorProto.DataType"
)
# If a nested type breaks one of these rules, `type-nested-valid` is reported for the outermost type around it.
_NESTED_RULES = (
    "type-value-case-set", "type-tensor-elem-type", "type-sparse-elem-type", "type-sequence-elem-type-present",
    "type-map-key-type", "type-map-value-type", "type-optional-elem-type-present", "type-opaque-name-present",
    "type-optional-before-ir8",
)  # fmt: skip
_NESTED_TYPE_FIELDS = ("TypeProto.Sequence.elem_type", "TypeProto.Map.value_type", "TypeProto.Optional.elem_type")

RULES = {
    "TypeProto": {
        "type-value-case-set": [
            (
                lambda type_: (
                    type_.under(*_NESTED_TYPE_FIELDS, "AttributeProto.tp", "AttributeProto.type_protos")
                    & (type_.derive(DeclaredTypes).type_kind[:-1] < 0)
                ),
                "the type has no known kind; set tensor_type or another field",
            ),
            (lambda type_: type_.flags & CLASH != 0, "the type has several kinds; keep one of them"),
        ],
        # If no other denotation fits a tensor, TENSOR does.
        "type-denotation-present": (
            lambda type_: (type_.denotation == EMPTY) & type_.has("tensor_type") & (type_.derive(_io_names) >= 0),
            f"the type of {{value!r}} has no denotation; set {' or '.join(_DENOTATIONS)}",
            {"value": lambda type_: type_.texts(type_.derive(_io_names))},
        ),
        "type-sequence-map-before-ir6": (
            lambda type_: type_.has("sequence_type") | type_.has("map_type"),
            "before IR version 6, only ONNX-ML has sequences and maps, and the IR version is {facts.ir_version}; raise "
            "ir_version",
        ),
        "type-sparse-before-ir8": (
            lambda type_: type_.has("sparse_tensor_type"),
            "sparse tensor types need IR version 8, but the IR version is {facts.ir_version}; raise ir_version",
        ),
        "type-optional-before-ir8": (
            lambda type_: type_.has("optional_type"),
            "optional types need IR version 8, but the IR version is {facts.ir_version}; raise ir_version",
        ),
        "type-opaque-before-ir14": (
            lambda type_: type_.has("opaque_type"),
            "before IR version 14, only ONNX-ML has opaque types, and the IR version is {facts.ir_version}",
        ),
    },
    ("TypeProto", "TypeProto.Optional"): {
        "type-optional-elem-kind": [
            (
                lambda type_: type_.under("TypeProto.Optional.elem_type") & type_.has("optional_type"),
                "an optional contains an optional type; it may contain tensors, sparse tensors, sequences and maps",
            ),
            (
                lambda type_: type_.under("TypeProto.Optional.elem_type") & type_.has("opaque_type"),
                "an optional contains an opaque type; it may contain tensors, sparse tensors, sequences and maps",
            ),
        ],
    },
    ("TypeProto", "TypeProto.denotation"): {
        "type-denotation-known": (
            lambda type_: ~type_.facts.are_among(type_.denotation, ("", *_DENOTATIONS)),
            f"denotation {{denotation!r}} is not one of {', '.join(_DENOTATIONS)}; use one of them or leave it out",
        ),
    },
    "TypeProto.Tensor": {
        "type-tensor-elem-type": [
            (lambda tensor: tensor.elem_type == 0, "the tensor type has no element type; set elem_type"),
            (lambda tensor: _is_unknown(tensor.elem_type), _UNKNOWN_ELEM_TYPE),
        ],
    },
    "TypeProto.SparseTensor": {
        "type-sparse-elem-type": [
            (lambda tensor: tensor.elem_type == 0, "the sparse tensor type has no element type; set elem_type"),
            (lambda tensor: _is_unknown(tensor.elem_type), _UNKNOWN_ELEM_TYPE),
        ],
    },
    "TypeProto.Sequence": {
        "type-sequence-elem-type-present": (
            lambda sequence: sequence.elem_type < 0,
            "the sequence type has no element type; set elem_type",
        ),
    },
    "TypeProto.Map": {
        "type-map-key-type": [
            (lambda map_: map_.key_type == 0, "the map type has no key type; set key_type"),
            (
                lambda map_: (map_.key_type != 0) & ~is_one_of(map_.key_type, _KEY_TYPES),
                "key_type {key_type} is neither an integer type of 8 to 64 bits nor STRING (8); use one of these",
            ),
        ],
        "type-map-value-type": (
            lambda map_: map_.value_type < 0,
            "the map type has no value type; set value_type",
        ),
    },
    "TypeProto.Optional": {
        "type-optional-elem-type-present": (
            lambda optional: optional.elem_type < 0,
            "the optional type has no element type; set elem_type",
        ),
    },
    "TypeProto.Opaque": {
        "type-opaque-name-present": (lambda opaque: opaque.name == EMPTY, "the opaque type has no name; give it one"),
        "type-opaque-domain-default": (
            lambda opaque: opaque.domain == EMPTY,
            "opaque type {name!r} has no domain, which some readers interpret as ai.onnx and others as the model's "
            "domain; set one",
        ),
    },
}


def _is_unknown(elem_types: Any) -> Any:
    """Return whether each elem_type is no data type of ONNX."""
    return (elem_types < 0) | (elem_types > _DATA_TYPES[-1])


def _io_names(facts: Facts) -> Any:
    """Return, for each TypeProto, the id of the name of the model's input or output with that type, or -1."""
    types, infos = facts.TypeProto, facts.ValueInfoProto
    rows = true_rows(facts.derive(is_main_io) & (infos.type >= 0))
    return lookup(types.n, infos.type[rows], infos.name[rows])


def _outer_types(facts: Facts) -> Any:
    """Return the row of the TypeProto that directly contains each TypeProto, -1 if none does."""
    types = facts.TypeProto
    outer_types = np.full(types.n, -1, np.int64)
    for field in _NESTED_TYPE_FIELDS:
        rows = true_rows(types.under(field))
        outer_types[rows] = facts[field.rpartition(".")[0]].parent[types.parent[rows]]
    return outer_types


@rule("type-nested-valid", "TypeProto")
def nested_valid(facts: Facts) -> Iterator[Finding]:
    """Yield the outermost types around types that break a rule of _NESTED_RULES, each with the first such rule."""
    if not any(facts.count(field.rpartition(".")[0]) for field in _NESTED_TYPE_FIELDS):
        return
    types, outer_types = facts.TypeProto, _outer_types(facts)
    inner_rows = np.full(types.n, -1, np.int64)
    broken_rules: dict[int, str] = {}
    for id in _NESTED_RULES:
        if not rules()[id].applies_to(facts.ir_version):
            continue
        for finding in find(id, facts):
            rows = finding.rows if finding.table is types else finding.table.parent[finding.rows]  # type: ignore[attr-defined]
            rows = rows[outer_types[rows] >= 0]
            outermost = rows
            while (outer_types[outermost] >= 0).any():
                outermost = np.where(outer_types[outermost] >= 0, outer_types[outermost], outermost)
            is_new = inner_rows[outermost] < 0
            # Of several inner types in one finding, the last one is reported.
            inner_rows[outermost[is_new]] = rows[is_new]
            broken_rules.update(dict.fromkeys(outermost[is_new].tolist(), id))
    yield types.at(
        inner_rows >= 0,
        "the type contains {inner}, which breaks the rule {rule}; correct it",
        inner=lambda row: facts.path("TypeProto", int(inner_rows[row])),
        rule=broken_rules,
    )
