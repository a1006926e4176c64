"""Rules of shapes and their dimensions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onnxwire.checker.declared_types import DeclaredTypes
from onnxwire.checker.facts import CLASH, EMPTY, IDENTIFIER, Facts, Finding, true_rows
from onnxwire.checker.registry import rule

_DENOTATIONS = (
    "DATA_BATCH", "DATA_CHANNEL", "DATA_TIME", "DATA_FEATURE", "FILTER_IN_CHANNEL", "FILTER_OUT_CHANNEL",
    "FILTER_SPATIAL",
)  # fmt: skip

RULES = {
    "TensorShapeProto.Dimension": {
        "shape-dim-oneof": (
            lambda dim: dim.flags & CLASH != 0,
            "the dimension has both dim_value and dim_param; remove one",
        ),
        "shape-dim-value-nonnegative": (
            lambda dim: dim.dim_value < 0,
            "dim_value {dim_value} is negative; leave an unknown size unset",
        ),
    },
    ("TensorShapeProto.Dimension", "TensorShapeProto.Dimension.dim_param"): {
        "shape-dim-param-empty": (
            lambda dim: dim.has("dim_param") & (dim.dim_param == EMPTY),
            "dim_param is empty; leave an unknown size unset",
        ),
        "shape-dim-param-wildcard": (
            lambda dim: dim.facts.are_among(dim.dim_param, "*"),
            "the dim_param '*' does not mean several dimensions; omit the shape if the rank is unknown",
        ),
        "dim-param-c90-identifier": (
            lambda dim: (dim.facts.traits[dim.dim_param] & IDENTIFIER == 0) & (dim.dim_param != EMPTY),
            "dim_param {dim_param!r} is not a C90 identifier; use letters, digits and _, and do not begin with a digit",
        ),
    },
    ("TensorShapeProto.Dimension", "TensorShapeProto.Dimension.denotation"): {
        "shape-dim-denotation-known": (
            lambda dim: ~dim.facts.are_among(dim.denotation, ("", *_DENOTATIONS)),
            f"denotation {{denotation!r}} is not one of {', '.join(_DENOTATIONS)}",
        ),
    },
}


@rule("shape-dim-param-consistent", "TensorShapeProto.Dimension.dim_param", "ValueInfoProto")
def dim_param_consistent(facts: Facts) -> Iterator[Finding]:
    """Yield values that contradict other values about the size of a dimension variable.

    If one description of a value has the variable and another one has a number, the number is the size.
    """
    infos, tensors = facts.ValueInfoProto, facts.TensorProto
    declared = facts.derive(DeclaredTypes)
    n_texts = facts.columns.text_count()
    infos_with_shape = true_rows((declared.graph >= 0) & (declared.shape >= 0) & (infos.name != EMPTY))
    initializer_rows = true_rows(tensors.under("GraphProto.initializer") & (tensors.name != EMPTY))
    keys = np.concatenate(
        [
            declared.graph[infos_with_shape].astype(np.int64) * n_texts + infos.name[infos_with_shape],
            tensors.parent[initializer_rows].astype(np.int64) * n_texts + tensors.name[initializer_rows],
        ]
    )
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    # Adjacent equal keys belong to a value that is described twice.
    is_same = np.append(sorted_keys[1:] == sorted_keys[:-1], False)
    sizes: dict[int, int] = {}
    messages = {}
    for position in true_rows(is_same).tolist():
        pair = [int(order[position]), int(order[position + 1])]
        shapes = [
            declared.dims(int(infos_with_shape[i]))
            if i < len(infos_with_shape)
            else declared.tensor_dims(int(initializer_rows[i - len(infos_with_shape)]))
            for i in pair
        ]
        if shapes[0] is None or shapes[1] is None:
            continue
        for (left_size, left_name), (right_size, right_name) in zip(shapes[0], shapes[1], strict=False):
            for name, size in ((left_name, right_size), (right_name, left_size)):
                if name == EMPTY or size is None:
                    continue
                if sizes.setdefault(name, size) != size:
                    row = int(infos_with_shape[min(pair)])
                    text = facts.text(name)
                    messages[row] = f"dim_param {text!r} is {size} here and {sizes[name]} elsewhere; use two variables"
    yield infos.each(messages)
