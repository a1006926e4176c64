"""Computes lower bounds of the sizes of outputs of operators that reduce, select, rearrange or quantize elements,
and of operators on quantized elements.

The functions are like those of `shape_operators.py`; some return a list with the Value of each output. "Size" in their
docstrings means the shape in such a Value.
Sources: docs/Operators.md of onnx 1.23.2, docs/ContribOperators.md of onnxruntime 1.32.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from onnxwire.checker.shape_operators import OPERATORS, Call
from onnxwire.checker.shape_values import Dims, Value

_MAX_PARTS = 64  # maximum number of outputs of Split whose sizes are computed


def _first_input_and_shape(call: Call) -> tuple[Value, Dims] | None:
    """Return the first input and its shape, or None if the shape is unknown."""
    value = call.value(0)
    return None if value is None or value.shape is None else (value, value.shape)


def _product(dims: Dims) -> int:
    """Return the product of dims, where an unknown one counts as 1."""
    return math.prod(1 if dim is None else dim for dim in dims)


def _nonnegative_axis(axis: int, rank: int) -> int | None:
    """Return an axis counted from the first one, or None if a value of that rank does not have it."""
    return axis % rank if -rank <= axis < rank else None


def _flatten(call: Call) -> Value | None:
    """Return the size of Flatten, and the known elements of its input."""
    first_input = _first_input_and_shape(call)
    if first_input is None:
        return None
    value, shape = first_input
    axis = call.int("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return Value((_product(shape[:axis]), _product(shape[axis:])), value.data, value.depends_on_input)


def _global_pool(call: Call) -> Value | None:
    """Return the size of a pool over all axes except the first two."""
    first_input = _first_input_and_shape(call)
    if first_input is None or len(first_input[1]) < 2:
        return None
    value, shape = first_input
    return Value((*shape[:2], *[1] * (len(shape) - 2)), None, value.depends_on_input)


def _depth_or_space(call: Call) -> Value | None:
    """Return the size of DepthToSpace or SpaceToDepth."""
    first_input = _first_input_and_shape(call)
    block = call.int("blocksize", 1)
    if first_input is None or len(first_input[1]) != 4 or block < 1:
        return None
    value, (batch, channels, *sides) = first_input
    if call.op_type == "SpaceToDepth":
        depth = None if channels is None or None in sides else channels * block * block
        return Value(
            (batch, depth, *[None if side is None else side // block for side in sides]), None, value.depends_on_input
        )
    if channels is None:
        return Value((batch, None, *sides), None, value.depends_on_input)
    sides = [None if side is None else side * block for side in sides]
    return Value((batch, channels // (block * block) or None, *sides), None, value.depends_on_input)


def _reduction(call: Call) -> Value | None:
    """Return the size of a reduction; for a scalar or vector, the result if `OPERATORS` computes it."""
    computed_value = OPERATORS[call.op_type](call) if call.op_type in OPERATORS else None
    first_input = _first_input_and_shape(call)
    if first_input is None or (computed_value is not None and len(first_input[1]) < 2):
        return computed_value
    value, shape = first_input
    axes = call.ints("axes", 1)
    axes_input = call.value(1)
    if axes is None and axes_input is not None and axes_input.shape != (0,) and len(call.inputs) > 1:  # unknown axes
        return Value((None,) * len(shape), None, value.depends_on_input) if call.int("keepdims", 1) else None
    if not axes:
        if call.int("noop_with_empty_axes", 0):
            return Value(shape, None, value.depends_on_input)
        axes = list(range(len(shape)))
    return _remove_axes(value, shape, axes, bool(call.int("keepdims", 1)))


def _remove_axes(value: Value, shape: Dims, axes: list[int], keepdims: bool) -> Value:
    """Return a value without some axes; with keepdims, these axes have size 1."""
    removed_axes = {_nonnegative_axis(axis, len(shape)) for axis in axes}
    if keepdims:
        return Value(
            tuple(1 if i in removed_axes else dim for i, dim in enumerate(shape)), None, value.depends_on_input
        )
    return Value(tuple(dim for i, dim in enumerate(shape) if i not in removed_axes), None, value.depends_on_input)


def _arg_extreme(call: Call) -> Value | None:
    """Return the size of ArgMax and ArgMin."""
    first_input = _first_input_and_shape(call)
    return (
        None
        if first_input is None
        else _remove_axes(*first_input, [call.int("axis", 0)], bool(call.int("keepdims", 1)))
    )


def _with_size(value: Value, shape: Dims, axis: int, size: int | None) -> Value | None:
    """Return a value with another size along an axis; None if the axis is out of range."""
    index = _nonnegative_axis(axis, len(shape))
    return None if index is None else Value((*shape[:index], size, *shape[index + 1 :]), None, value.depends_on_input)


def _top_k(call: Call) -> list[Value | None] | None:
    """Return the equal sizes of the two outputs of TopK."""
    first_input, counts = _first_input_and_shape(call), call.ints("k", 1)
    k = counts[0] if counts else call.int("k", -1)
    if first_input is None or k < 0:
        return None
    result = _with_size(*first_input, call.int("axis", -1), k)
    return [result, result]


def _split(call: Call) -> list[Value | None] | None:
    """Return the sizes of the parts of Split, without the last one if only the number of parts is known."""
    first_input, sizes = _first_input_and_shape(call), call.ints("split", 1)
    axis = call.int("axis", 0)
    if first_input is None:
        return None
    index, n_parts = _nonnegative_axis(axis, len(first_input[1])), call.int("num_outputs", 0)
    if sizes is None and n_parts > 0 and index is not None and (size := first_input[1][index]) is not None:
        part_size = -(-size // n_parts)
        sizes = [part_size] * min(n_parts - 1, _MAX_PARTS)  # the last part may be smaller
    if sizes is None:
        return None
    return [_with_size(*first_input, axis, max(size, 0)) for size in sizes[:_MAX_PARTS]]


def _slice(call: Call) -> Value | None:
    """Return the size of Slice, or its elements if `OPERATORS` computes them."""
    computed_value = OPERATORS["Slice"](call)
    first_input, starts, ends = _first_input_and_shape(call), call.ints("starts", 1), call.ints("ends", 2)
    if computed_value is not None or first_input is None or starts is None or ends is None:
        return computed_value
    value, shape = first_input
    if (len(call.inputs) > 3 and call.ints("axes", 3) is None) or (len(call.inputs) > 4 and call.ints("", 4) is None):
        return Value((None,) * len(shape), None, value.depends_on_input)
    axes = call.ints("axes", 3) or list(range(len(starts)))
    steps = call.ints("steps", 4) or [1] * len(starts)
    dims = list(shape)
    for axis, *bounds in zip(axes, starts, ends, steps, strict=False):
        index = _nonnegative_axis(axis, len(shape))
        if index is not None and (size := dims[index]) is not None:
            dims[index] = len(range(*slice(*bounds).indices(size)))
    return Value(tuple(dims), None, value.depends_on_input)


def _unique(call: Call) -> Value | None:
    """Return the size of Unique, which has an unknown number of elements."""
    first_input = _first_input_and_shape(call)
    if first_input is None or call.attribute("axis") is None:
        return Value((None,))
    return _with_size(*first_input, call.int("axis", 0), None)


def _non_zero(call: Call) -> Value | None:
    """Return the size of NonZero: an unknown number of indices along each axis."""
    first_input = _first_input_and_shape(call)
    return None if first_input is None else Value((max(len(first_input[1]), 1), None))


_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
LAYOUT_OPERATORS: dict[str, Callable[[Call], object]] = {
    **dict.fromkeys(_REDUCTIONS.split(), _reduction),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _global_pool),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _depth_or_space),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg_extreme),
    "Flatten": _flatten,
    "TopK": _top_k,
    "Split": _split,
    "Slice": _slice,
    "Unique": _unique,
    "NonZero": _non_zero,
    "NonMaxSuppression": lambda _: Value((None, 3)),
    "ConvInteger": OPERATORS["Conv"],
    "QLinearConv": OPERATORS["Conv"],
    "QLinearAdd": OPERATORS["PRelu"],
    "QLinearMul": OPERATORS["PRelu"],
    "DynamicQuantizeLinear": OPERATORS["Relu"],
}
# Operators whose computed size may be less than the actual size, even if the shapes of all inputs are known.
INEXACT_LAYOUTS = ("ConvInteger", "QLinearConv", "QLinearAdd", "QLinearMul", "Unique")
