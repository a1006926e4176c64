"""Lower bounds of the sizes of outputs of operators that reduce, select or rearrange elements.

Complements `shape_operators.py`. Source: docs/Operators.md of onnx 1.23.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from onnxwire.checker.shape_operators import OPERATORS, Call
from onnxwire.checker.shape_values import Dims, Value

_MAX_PARTS = 64  # outputs of Split


def _first_with_shape(call: Call) -> tuple[Value, Dims] | None:
    """Return the first input and its shape, if that is known."""
    value = call.value(0)
    return None if value is None or value.shape is None else (value, value.shape)


def _product(dims: Dims) -> int:
    return math.prod(1 if dim is None else dim for dim in dims)


def _position(axis: int, rank: int) -> int | None:
    """Return an axis counted from the first one, or None if a value of that rank does not have it."""
    return axis % rank if -rank <= axis < rank else None


def _flatten(call: Call) -> Value | None:
    found = _first_with_shape(call)
    if found is None:
        return None
    value, shape = found
    axis = call.int("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    return Value((_product(shape[:axis]), _product(shape[axis:])), value.data, value.depends_on_input)


def _global_pool(call: Call) -> Value | None:
    found = _first_with_shape(call)
    if found is None or len(found[1]) < 2:
        return None
    value, shape = found
    return Value((*shape[:2], *[1] * (len(shape) - 2)), None, value.depends_on_input)


def _blocks(call: Call) -> Value | None:
    """Return the size of DepthToSpace and SpaceToDepth, which have as many elements as their input."""
    found = _first_with_shape(call)
    block = call.int("blocksize", 1)
    if found is None or len(found[1]) != 4 or block < 1:
        return None
    value, (batch, channels, *sides) = found
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
    known = OPERATORS[call.op_type](call) if call.op_type in OPERATORS else None
    found = _first_with_shape(call)
    if found is None or (known is not None and len(found[1]) < 2):
        return known
    value, shape = found
    axes = call.ints("axes", 1)
    given = call.value(1)
    if axes is None and given is not None and given.shape != (0,) and len(call.inputs) > 1:
        return Value((None,) * len(shape), None, value.depends_on_input) if call.int("keepdims", 1) else None
    if not axes:
        if call.int("noop_with_empty_axes", 0):
            return Value(shape, None, value.depends_on_input)
        axes = list(range(len(shape)))
    return _remove_axes(value, shape, axes, bool(call.int("keepdims", 1)))


def _remove_axes(value: Value, shape: Dims, axes: list[int], keepdims: bool) -> Value:
    removed_axes = {_position(axis, len(shape)) for axis in axes}
    if keepdims:
        return Value(
            tuple(1 if i in removed_axes else dim for i, dim in enumerate(shape)), None, value.depends_on_input
        )
    return Value(tuple(dim for i, dim in enumerate(shape) if i not in removed_axes), None, value.depends_on_input)


def _arg_extreme(call: Call) -> Value | None:
    """Return the size of ArgMax and ArgMin."""
    found = _first_with_shape(call)
    return None if found is None else _remove_axes(*found, [call.int("axis", 0)], bool(call.int("keepdims", 1)))


def _with_size(value: Value, shape: Dims, axis: int, size: int | None) -> Value | None:
    """Return a value with another size along an axis."""
    at = _position(axis, len(shape))
    return None if at is None else Value((*shape[:at], size, *shape[at + 1 :]), None, value.depends_on_input)


def _top_k(call: Call) -> list[Value | None] | None:
    found, counts = _first_with_shape(call), call.ints("k", 1)
    k = counts[0] if counts else call.int("k", -1)
    if found is None or k < 0:
        return None
    made = _with_size(*found, call.int("axis", -1), k)
    return [made, made]


def _split(call: Call) -> list[Value | None] | None:
    found, sizes = _first_with_shape(call), call.ints("split", 1)
    axis = call.int("axis", 0)
    if found is None:
        return None
    at, n = _position(axis, len(found[1])), call.int("num_outputs", 0)
    if sizes is None and n > 0 and at is not None and (size := found[1][at]) is not None:
        part = -(-size // n)
        sizes = [part] * min(n - 1, _MAX_PARTS)
    if sizes is None:
        return None
    return [_with_size(*found, axis, max(size, 0)) for size in sizes[:_MAX_PARTS]]


def _slice(call: Call) -> Value | None:
    known = OPERATORS["Slice"](call)
    found, starts, ends = _first_with_shape(call), call.ints("starts", 1), call.ints("ends", 2)
    if known is not None or found is None or starts is None or ends is None:
        return known
    value, shape = found
    if (len(call.inputs) > 3 and call.ints("axes", 3) is None) or (len(call.inputs) > 4 and call.ints("", 4) is None):
        return Value((None,) * len(shape), None, value.depends_on_input)
    axes = call.ints("axes", 3) or list(range(len(starts)))
    steps = call.ints("steps", 4) or [1] * len(starts)
    dims = list(shape)
    for axis, *bounds in zip(axes, starts, ends, steps, strict=False):
        at = _position(axis, len(shape))
        if at is not None and (size := dims[at]) is not None:
            dims[at] = len(range(*slice(*bounds).indices(size)))
    return Value(tuple(dims), None, value.depends_on_input)


def _unique(call: Call) -> Value | None:
    found = _first_with_shape(call)
    if found is None or call.attribute("axis") is None:
        return Value((None,))
    return _with_size(*found, call.int("axis", 0), None)


def _coordinates(call: Call) -> Value | None:
    found = _first_with_shape(call)
    return None if found is None else Value((max(len(found[1]), 1), None))


_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)
LAYOUT_OPERATORS: dict[str, Callable[[Call], object]] = {
    **dict.fromkeys(_REDUCTIONS.split(), _reduction),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"), _global_pool),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _blocks),
    **dict.fromkeys(("ArgMax", "ArgMin"), _arg_extreme),
    "Flatten": _flatten,
    "TopK": _top_k,
    "Split": _split,
    "Slice": _slice,
    "Unique": _unique,
    "NonZero": _coordinates,
    "NonMaxSuppression": lambda _: Value((None, 3)),
    "ConvInteger": OPERATORS["Conv"],
    "QLinearConv": OPERATORS["Conv"],
    "QLinearAdd": OPERATORS["PRelu"],
    "QLinearMul": OPERATORS["PRelu"],
    "DynamicQuantizeLinear": OPERATORS["Relu"],
}
INEXACT_LAYOUTS = ("ConvInteger", "QLinearConv", "QLinearAdd", "QLinearMul", "Unique")
