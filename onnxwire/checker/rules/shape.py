"""Rules of shapes and their dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onnxwire.checker.declared_types import Values
from onnxwire.checker.facts import CLASH, EMPTY, IDENTIFIER, Facts, Finding
from onnxwire.checker.registry import rule

_DENOTATIONS = (
    "DATA_BATCH", "DATA_CHANNEL", "DATA_TIME", "DATA_FEATURE", "FILTER_IN_CHANNEL", "FILTER_OUT_CHANNEL",
    "FILTER_SPATIAL",
)  # fmt: skip


def _dims(facts: Facts) -> Any:
    return facts["TensorShapeProto.Dimension"]


@rule("shape-dim-oneof")
def dim_oneof(facts: Facts) -> Iterator[Finding]:
    """A dimension has a value or a variable."""
    dims = _dims(facts)
    yield dims.at(dims.flags & CLASH != 0, "the dimension has both dim_value and dim_param; remove one")


@rule("shape-dim-value-nonnegative")
def dim_value_nonnegative(facts: Facts) -> Iterator[Finding]:
    """A size is not negative."""
    dims = _dims(facts)
    yield dims.at(dims.dim_value < 0, "dim_value {0} is negative; leave a size that is not known unset", dims.dim_value)


@rule("shape-dim-param-empty")
def dim_param_empty(facts: Facts) -> Iterator[Finding]:
    """A variable has a name."""
    dims = _dims(facts)
    yield dims.at(
        dims.has("dim_param") & (dims.dim_param == EMPTY), "dim_param is empty; leave a size that is not known unset"
    )


@rule("shape-dim-param-wildcard")
def dim_param_wildcard(facts: Facts) -> Iterator[Finding]:
    """There is no sign for several dimensions."""
    dims = _dims(facts)
    star = facts.find("*")
    yield dims.at(
        (dims.dim_param == star) & (star >= 0), "dim_param * does not mean several dimensions; leave the shape out"
    )


@rule("dim-param-c90-identifier")
def dim_param_identifier(facts: Facts) -> Iterator[Finding]:
    """The name of a variable is an identifier of C."""
    dims = _dims(facts)
    yield dims.at(
        (facts.traits[dims.dim_param] & IDENTIFIER == 0) & (dims.dim_param != EMPTY),
        "dim_param {0!r} is not a C90 identifier; use letters, digits and _ only",
        dims.texts(dims.dim_param),
    )


@rule("shape-dim-param-consistent")
def dim_param_consistent(facts: Facts) -> Iterator[Finding]:
    """A variable is one size.

    The evidence: a value that is described twice, once with the variable and once with a size.
    """
    dims = _dims(facts)
    infos, tensors, values = facts.ValueInfoProto, facts.TensorProto, facts.derive(Values)
    if not dims.has("dim_param").any():
        return
    texts = facts.columns.text_count()
    shaped = np.flatnonzero((values.graph >= 0) & (values.shape >= 0) & (infos.name != EMPTY))
    constants = np.flatnonzero(tensors.under("GraphProto.initializer") & (tensors.name != EMPTY))
    keys = np.concatenate(
        [
            values.graph[shaped].astype(np.int64) * texts + infos.name[shaped],
            tensors.parent[constants].astype(np.int64) * texts + tensors.name[constants],
        ]
    )
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    # Where equal keys stand side by side, something is described twice.
    is_same = np.append(ordered[1:] == ordered[:-1], False)
    sizes: dict[int, int] = {}
    found = {}
    for at in np.flatnonzero(is_same).tolist():
        pair = [int(order[at]), int(order[at + 1])]
        both = [
            values.dims(int(shaped[i])) if i < len(shaped) else values.tensor_dims(int(constants[i - len(shaped)]))
            for i in pair
        ]
        if both[0] is None or both[1] is None:
            continue
        for (one, variable), (other, second) in zip(both[0], both[1], strict=False):
            for name, size in ((variable, other), (second, one)):
                if name == EMPTY or size is None:
                    continue
                if sizes.setdefault(name, size) != size:
                    row = int(shaped[min(pair)])
                    text = facts.text(name)
                    found[row] = f"dim_param {text!r} is {size} here and {sizes[name]} elsewhere; use two variables"
    yield infos.each(found)


@rule("shape-dim-denotation-known")
def dim_denotation_known(facts: Facts) -> Iterator[Finding]:
    """A denotation is of the vocabulary."""
    dims = _dims(facts)
    known = [EMPTY, *(facts.find(word) for word in _DENOTATIONS)]
    yield dims.at(
        ~np.isin(dims.denotation, known),
        f"denotation {{0!r}} is not one of {', '.join(_DENOTATIONS)}",
        dims.texts(dims.denotation),
    )
