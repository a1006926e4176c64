"""Tests whether the shapes of a node's inputs fit one another and its attributes: kernels compute addresses from them.

A row of input_shapes.tsv has operators, a condition, and the dims of each input; `;` separates inputs. A dim is the
name of an attribute or of a size that several inputs share, a number, a product such as 4*hidden_size, alternatives
such as c/1, or _ for any size. ... means any number of dims, and - an input that is not tested. The condition is empty,
name=value of an attribute (an absent attribute has the value 0), +name if the attribute must exist, or -name if it must
not exist. The name `directions` means 2 for bidirectional operators and 1 for others.
Sources: docs/Operators.md of onnx 1.23.2, docs/ContribOperators.md of onnxruntime 1.32.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnxwire.checker.registry import read_table

if TYPE_CHECKING:
    from onnxwire.checker.shape_operators import Call

    Alternatives = tuple[tuple[str, ...], ...]  # each a product of names and numbers

# The default values of attributes. Any other name that is not an attribute of the node is a size that inputs share,
# except `directions`.
_DEFAULTS = {"group": 1}
_ANY_SIZE, _ANY_DIMS, _UNTESTED = "_", "...", "-"


def _parse_dims(dims: str) -> list[Alternatives | None]:
    """Return the dims of an input, with None in place of `...`."""
    return [
        None if dim == _ANY_DIMS else tuple(tuple(product.split("*")) for product in dim.split("/"))
        for dim in dims.split()
    ]


def _read_rows() -> dict[str, list[tuple[str, list[list[Alternatives | None]]]]]:
    """Return the rows of input_shapes.tsv by operator: the condition, and the dims of each input."""
    rows_by_operator: dict[str, list[tuple[str, list[list[Alternatives | None]]]]] = {}
    for operators, condition, inputs in read_table("input_shapes.tsv"):
        row = condition, [_parse_dims(dims) if dims.strip() != _UNTESTED else [] for dims in inputs.split(";")]
        for operator in operators.split():
            rows_by_operator.setdefault(operator, []).append(row)
    return rows_by_operator


INPUT_SHAPES = _read_rows()


def find_misfit(call: Call) -> str:
    """Return a description of an input that does not fit, "" if all fit.

    The operator must be in INPUT_SHAPES.
    """
    for condition, inputs in INPUT_SHAPES[call.op_type]:
        if not _meets_condition(call, condition):
            continue
        known_sizes: list[tuple[int, int, Alternatives, int]] = []  # input, axis, the allowed sizes, the size
        for index, dims in enumerate(inputs):
            value = call.value(index)
            if value is None or value.shape is None or value.is_lower_bound or not dims:
                continue
            pairs = _match_dims(dims, value.shape)
            if pairs is None:
                return f"an input {index} of rank {len(value.shape)}, which the operator does not allow"
            known_sizes += [(index, axis, dim, size) for axis, dim, size in pairs]
        sizes = _sizes(call, known_sizes)
        for index, axis, dim, size in known_sizes:
            allowed = [_product(product, sizes) for product in dim]
            if size not in allowed and None not in allowed:
                required = " or ".join(f"{number:,}" for number in dict.fromkeys(allowed))
                return f"an input {index} of size {size:,} along axis {axis}, where {required} is required"
    return ""


def _meets_condition(call: Call, condition: str) -> bool:
    """Return whether a node meets the condition of a row."""
    if condition[:1] in ("+", "-"):
        return (call.attribute(condition[1:]) is not None) == (condition[0] == "+")
    name, _, number = condition.partition("=")
    return not name or call.int(name, 0) == int(number)


def _match_dims(
    dims: list[Alternatives | None], shape: tuple[int | None, ...]
) -> list[tuple[int, Alternatives, int]] | None:
    """Return the axis, the expected dim and the size of the known dims of a shape; None for a wrong rank.

    Without `...` in `dims`, the rank must equal their number; a scalar is allowed in place of a vector of 1.
    """
    if None in dims:
        split_position = dims.index(None)
        leading_dims, trailing_dims = dims[:split_position], dims[split_position + 1 :]
        if len(shape) < len(leading_dims) + len(trailing_dims):
            return []  # some operators accept fewer dims, with other rules
        axes = [*range(len(leading_dims)), *range(len(shape) - len(trailing_dims), len(shape))]
        expected = leading_dims + trailing_dims
    else:
        if len(shape) != len(dims):
            is_scalar = not shape and len(dims) == 1 and ("1",) in (dims[0] or ())
            return [] if is_scalar else None
        axes, expected = [*range(len(shape))], dims
    matches = []
    for axis, dim in zip(axes, expected, strict=True):
        size = shape[axis]
        if size is not None and dim is not None and dim != ((_ANY_SIZE,),):
            matches.append((axis, dim, size))
    return matches


def _sizes(call: Call, known_sizes: list[tuple[int, int, Alternatives, int]]) -> dict[str, int]:
    """Return the value of each name: the attribute or its default, else the first size of a dim that is only this name.

    known_sizes: as in `find_misfit`.
    """
    sizes = {"directions": 2 if call.text("direction") == "bidirectional" else 1}
    for _, _, dim, _ in known_sizes:
        for name in (name for product in dim for name in product if name not in sizes and not name.isdecimal()):
            if call.attribute(name) is not None or name in _DEFAULTS:
                sizes[name] = call.int(name, _DEFAULTS.get(name, 0))
    for _, _, dim, size in known_sizes:
        if len(dim) == 1 and len(dim[0]) == 1 and not dim[0][0].isdecimal():
            sizes.setdefault(dim[0][0], size)
    return sizes


def _product(names: tuple[str, ...], sizes: dict[str, int]) -> int | None:
    """Return the product of named sizes and numbers; None if a size is unknown."""
    factors = [int(name) if name.isdecimal() else sizes.get(name) for name in names]
    return None if None in factors else math.prod(factor for factor in factors if factor is not None)
