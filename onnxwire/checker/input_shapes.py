"""Tests whether the inputs of a node fit one another and the attributes: kernels compute addresses from some of them.

A row of input_shapes.tsv has operators, a condition, and the dims of each input. A dim is the name of an attribute, or
of a size that several inputs share, a number, a product such as 4*hidden_size, alternatives such as c/1, or _ for any
size; ... means any number of dims, and - an input that is not tested. The condition is name=value of an attribute (0 by
default), +name if it must exist, or -name if it must not. `directions` is 2 for bidirectional operators, else 1.
Sources: docs/Operators.md of onnx 1.23.2, docs/ContribOperators.md of onnxruntime 1.32.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnxwire.checker.registry import read_table

if TYPE_CHECKING:
    from onnxwire.checker.shape_operators import Call

    Alternatives = tuple[tuple[str, ...], ...]  # each a product of names and numbers

_DEFAULTS = {"group": 1}  # attributes that count when they are absent
_ANY, _REST, _UNTESTED = "_", "...", "-"


def _parsed(dims: str) -> list[Alternatives | None]:
    """Return the dims of an input; None for `...`."""
    return [
        None if dim == _REST else tuple(tuple(product.split("*")) for product in dim.split("/")) for dim in dims.split()
    ]


def _read_rows() -> dict[str, list[tuple[str, list[list[Alternatives | None]]]]]:
    found: dict[str, list[tuple[str, list[list[Alternatives | None]]]]] = {}
    for operators, condition, inputs in read_table("input_shapes.tsv"):
        row = condition, [_parsed(dims) if dims.strip() != _UNTESTED else [] for dims in inputs.split(";")]
        for operator in operators.split():
            found.setdefault(operator, []).append(row)
    return found


ROWS = _read_rows()


def misfit(call: Call) -> str:
    """Return a text about the first input that does not fit, or "". The operator is one of ROWS."""
    for condition, inputs in ROWS[call.op_type]:
        if not _holds(call, condition):
            continue
        tested: list[tuple[int, int, Alternatives, int]] = []  # input, axis, the allowed sizes, the size
        for index, dims in enumerate(inputs):
            value = call.value(index)
            if value is None or value.shape is None or value.is_bound or not dims:
                continue
            pairs = _pairs(dims, value.shape)
            if pairs is None:
                return f"an input {index} of rank {len(value.shape)}, which is another than its other inputs require"
            tested += [(index, axis, dim, size) for axis, dim, size in pairs]
        sizes = _sizes(call, tested)
        for index, axis, dim, size in tested:
            allowed = [_product(product, sizes) for product in dim]
            if size not in allowed and None not in allowed:
                return f"an input {index} of {size:,} along axis {axis}, and others that require {allowed[0]:,}"
    return ""


def _holds(call: Call, condition: str) -> bool:
    if condition[:1] in ("+", "-"):
        return (call.attribute(condition[1:]) is not None) == (condition[0] == "+")
    name, _, number = condition.partition("=")
    return not name or call.int(name, 0) == int(number)


def _pairs(
    dims: list[Alternatives | None], shape: tuple[int | None, ...]
) -> list[tuple[int, Alternatives, int]] | None:
    """Return the axis, the expected dim and the size of the known dims of a shape; None for a wrong rank.

    dims: without `...`, the rank must be theirs; a scalar is allowed in place of a vector of 1.
    """
    if None in dims:
        at = dims.index(None)
        first, last = dims[:at], dims[at + 1 :]
        if len(shape) < len(first) + len(last):
            return []  # some operators accept fewer dims, with other rules
        axes = [*range(len(first)), *range(len(shape) - len(last), len(shape))]
        expected = first + last
    else:
        if len(shape) != len(dims):
            is_scalar = not shape and len(dims) == 1 and ("1",) in (dims[0] or ())
            return [] if is_scalar else None
        axes, expected = [*range(len(shape))], dims
    found = []
    for axis, dim in zip(axes, expected, strict=True):
        size = shape[axis]
        if size is not None and dim is not None and dim != ((_ANY,),):
            found.append((axis, dim, size))
    return found


def _sizes(call: Call, tested: list[tuple[int, int, Alternatives, int]]) -> dict[str, int]:
    """Return the sizes of names: attributes, and the sizes of the first inputs that have these dims."""
    sizes = {"directions": 2 if call.text("direction") == "bidirectional" else 1}
    for _, _, dim, _ in tested:
        for name in (name for product in dim for name in product if name not in sizes and not name.isdecimal()):
            if call.attribute(name) is not None or name in _DEFAULTS:
                sizes[name] = call.int(name, _DEFAULTS.get(name, 0))
    for _, _, dim, size in tested:
        if len(dim) == 1 and len(dim[0]) == 1 and not dim[0][0].isdecimal():
            sizes.setdefault(dim[0][0], size)
    return sizes


def _product(names: tuple[str, ...], sizes: dict[str, int]) -> int | None:
    factors = [int(name) if name.isdecimal() else sizes.get(name) for name in names]
    return None if None in factors else math.prod(factor for factor in factors if factor is not None)
