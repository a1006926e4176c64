"""Rules of types: what a TypeProto says, at the boundary of a graph and inside other types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.declared_types import Values
from onnxwire.checker.facts import CLASH, EMPTY, Facts, Finding, lookup
from onnxwire.checker.registry import rule, rules
from onnxwire.checker.rules.value_info import is_main_io
from onnxwire.messages import TensorProto

_DENOTATIONS = ("TENSOR", "IMAGE", "AUDIO", "TEXT")
_DATA_TYPES = tuple(TensorProto.DataType.values())
_KEY_TYPES = tuple(
    TensorProto.DataType.Value(name)
    for name in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "STRING")
)
_INSIDE = ("TypeProto.Sequence.elem_type", "TypeProto.Map.value_type", "TypeProto.Optional.elem_type")


def _is_kind(facts: Facts, *fields: str) -> Any:
    """Whether each TypeProto is of one of the kinds."""
    indices = [facts.TypeProto.fields.index(field) for field in fields]
    return np.isin(facts.derive(Values).type_kind[:-1], indices)


@rule("type-value-case-set")
def value_case_set(facts: Facts) -> Iterator[Finding]:
    """A type is of one kind; `main-io-type-case-set` speaks of those at the boundary of the model that are of none."""
    types = facts.TypeProto
    is_used = types.under(*_INSIDE, "AttributeProto.tp", "AttributeProto.type_protos")
    yield types.at(
        is_used & (facts.derive(Values).type_kind[:-1] < 0),
        "the type is of no known kind; set tensor_type or another",
    )
    yield types.at(types.flags & CLASH != 0, "the type is of several kinds; keep one of them")


def _elem_type(facts: Facts, name: str, what: str) -> Iterator[Finding]:
    tensors = facts[name]
    yield tensors.at(tensors.elem_type == 0, f"the {what} type has no element type; set elem_type")
    yield tensors.at(
        (tensors.elem_type != 0) & ~np.isin(tensors.elem_type, _DATA_TYPES),
        f"elem_type {{0}} is not one of 1 to {max(_DATA_TYPES)}; use a number of TensorProto.DataType",
        tensors.elem_type,
    )


@rule("type-tensor-elem-type")
def tensor_elem_type(facts: Facts) -> Iterator[Finding]:
    """A tensor type says what its elements are."""
    return _elem_type(facts, "TypeProto.Tensor", "tensor")


@rule("type-sparse-elem-type")
def sparse_elem_type(facts: Facts) -> Iterator[Finding]:
    """A sparse tensor type says what its elements are."""
    return _elem_type(facts, "TypeProto.SparseTensor", "sparse tensor")


@rule("type-sequence-elem-type-present")
def sequence_elem_type_present(facts: Facts) -> Iterator[Finding]:
    """A sequence type says what it holds."""
    sequences = facts["TypeProto.Sequence"]
    yield sequences.at(sequences.elem_type < 0, "the sequence type does not say what it holds; set elem_type")


@rule("type-map-key-type")
def map_key_type(facts: Facts) -> Iterator[Finding]:
    """A map type has integers or strings as keys."""
    maps = facts["TypeProto.Map"]
    yield maps.at(maps.key_type == 0, "the map type does not say what its keys are; set key_type")
    yield maps.at(
        (maps.key_type != 0) & ~np.isin(maps.key_type, _KEY_TYPES),
        "keys of type {0} are neither integers of 8 to 64 bits nor strings; use such a key_type",
        maps.key_type,
    )


@rule("type-map-value-type")
def map_value_type(facts: Facts) -> Iterator[Finding]:
    """A map type says what its values are."""
    maps = facts["TypeProto.Map"]
    yield maps.at(maps.value_type < 0, "the map type does not say what its values are; set value_type")


@rule("type-optional-elem-type-present")
def optional_elem_type_present(facts: Facts) -> Iterator[Finding]:
    """An optional type says what it wraps."""
    optionals = facts["TypeProto.Optional"]
    yield optionals.at(optionals.elem_type < 0, "the optional type does not say what it wraps; set elem_type")


@rule("type-optional-elem-kind")
def optional_elem_kind(facts: Facts) -> Iterator[Finding]:
    """An optional type wraps neither an optional nor an opaque type."""
    types = facts.TypeProto
    is_wrapped = types.under("TypeProto.Optional.elem_type")
    for field, what in (("optional_type", "optional"), ("opaque_type", "opaque")):
        yield types.at(
            is_wrapped & _is_kind(facts, field),
            f"an optional wraps an {what} type here; it is for tensors, sparse tensors, sequences and maps",
        )


@rule("type-opaque-name-present")
def opaque_name_present(facts: Facts) -> Iterator[Finding]:
    """An opaque type has a name."""
    opaques = facts["TypeProto.Opaque"]
    yield opaques.at(opaques.name == EMPTY, "the opaque type has no name; give it one")


@rule("type-opaque-domain-default")
def opaque_domain_default(facts: Facts) -> Iterator[Finding]:
    """An opaque type has a domain, as texts differ on what leaving it out means."""
    opaques = facts["TypeProto.Opaque"]
    yield opaques.at(
        opaques.domain == EMPTY,
        "opaque type {0!r} has no domain, which means ai.onnx to some and the model's domain to others; set one",
        opaques.texts(opaques.name),
    )


@rule("type-denotation-known")
def denotation_known(facts: Facts) -> Iterator[Finding]:
    """A denotation is of the vocabulary."""
    types = facts.TypeProto
    known = [EMPTY, *(facts.find(word) for word in _DENOTATIONS)]
    yield types.at(
        ~np.isin(types.denotation, known),
        f"denotation {{0!r}} is not one of {', '.join(_DENOTATIONS)}; use one of them or leave it out",
        types.texts(types.denotation),
    )


@rule("type-denotation-present")
def denotation_present(facts: Facts) -> Iterator[Finding]:
    """Tensors at the boundary of the model say what they hold; TENSOR fits them all."""
    types, infos = facts.TypeProto, facts.ValueInfoProto
    rows = np.flatnonzero(is_main_io(facts) & (infos.type >= 0))
    names = lookup(types.n, infos.type[rows], infos.name[rows], EMPTY)
    is_meant = lookup(types.n, infos.type[rows], infos.type[rows]) >= 0
    yield types.at(
        is_meant & (types.denotation == EMPTY) & _is_kind(facts, "tensor_type"),
        f"the type of {{0!r}} has no denotation; set {' or '.join(_DENOTATIONS)}",
        types.texts(names),
    )


@rule("type-sequence-map-before-ir6")
def sequence_map_before_ir6(facts: Facts) -> Iterator[Finding]:
    """Sequences and maps are not for every model yet."""
    types = facts.TypeProto
    yield types.at(
        _is_kind(facts, "sequence_type", "map_type"),
        f"sequences and maps are for ONNX-ML only before IR version 6, and the model has {facts.ir_version}; raise it",
    )


@rule("type-sparse-before-ir8")
def sparse_before_ir8(facts: Facts) -> Iterator[Finding]:
    """There are no sparse tensor types yet."""
    types = facts.TypeProto
    yield types.at(
        _is_kind(facts, "sparse_tensor_type"),
        f"sparse tensor types need IR version 8, and the model has {facts.ir_version}; raise it",
    )


@rule("type-optional-before-ir8")
def optional_before_ir8(facts: Facts) -> Iterator[Finding]:
    """There are no optional types yet."""
    types = facts.TypeProto
    yield types.at(
        _is_kind(facts, "optional_type"),
        f"optional types need IR version 8, and the model has {facts.ir_version}; raise it",
    )


@rule("type-opaque-before-ir14")
def opaque_before_ir14(facts: Facts) -> Iterator[Finding]:
    """Opaque types are not for every model yet."""
    types = facts.TypeProto
    yield types.at(
        _is_kind(facts, "opaque_type"),
        f"opaque types are for ONNX-ML only before IR version 14, and the model has {facts.ir_version}",
    )


def _above(facts: Facts) -> Any:
    """The row of the TypeProto that holds each TypeProto, -1 where none does."""
    types = facts.TypeProto
    above = np.full(types.n, -1, np.int64)
    for field in _INSIDE:
        rows = np.flatnonzero(types.under(field))
        above[rows] = facts[field.rpartition(".")[0]].parent[types.parent[rows]]
    return above


# What a type is told of itself is told of the type around it, too.
_ERRORS = {
    "type-value-case-set": value_case_set,
    "type-tensor-elem-type": tensor_elem_type,
    "type-sparse-elem-type": sparse_elem_type,
    "type-sequence-elem-type-present": sequence_elem_type_present,
    "type-map-key-type": map_key_type,
    "type-map-value-type": map_value_type,
    "type-optional-elem-type-present": optional_elem_type_present,
    "type-opaque-name-present": opaque_name_present,
    "type-optional-before-ir8": optional_before_ir8,
}


@rule("type-nested-valid")
def nested_valid(facts: Facts) -> Iterator[Finding]:
    """The types inside a type are right; the outermost one is reported, and the rule that speaks of the inner one."""
    types, above = facts.TypeProto, facts.derive(_above)
    if not (above >= 0).any():
        return
    inner = np.full(types.n, -1, np.int64)
    broken: dict[int, str] = {}
    for id, find in _ERRORS.items():
        if not rules()[id].applies_to(facts.ir_version):
            continue
        for found in find(facts):
            rows = found.rows if found.table is types else found.table.parent[found.rows]  # type: ignore[attr-defined]
            rows = rows[above[rows] >= 0]
            outer = rows
            while (above[outer] >= 0).any():
                outer = np.where(above[outer] >= 0, above[outer], outer)
            is_first = inner[outer] < 0
            # Of several the last one that is written stays, which is as good as the others.
            inner[outer[is_first]] = rows[is_first]
            broken.update(dict.fromkeys(outer[is_first].tolist(), id))
    yield types.at(
        inner >= 0,
        "the type holds {0}, which {1} speaks of; correct it",
        lambda row: facts.path("TypeProto", int(inner[row])),
        broken,
    )
