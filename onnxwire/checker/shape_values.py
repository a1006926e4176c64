"""Properties of values known before the model runs: a lower bound of the size, and the elements if they are few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from onnxwire.checker.small_constants import MAX_ELEMENTS

Dims = tuple["int | None", ...]
_INT64 = 1 << 63


class Value:
    """A value. shape: its dims, None for an unknown dim, or None if the rank is unknown. data: its elements in order if
    there are few and all are known. is_given: whether its size depends on the declared shape of a graph's input.
    is_bound: whether its dims may be larger than stated. is_fixed: whether it depends on constants only.
    stored: the elements of the largest stored tensor that it is computed from. tensor: the row of the stored tensor
    that it is, or -1. sequence: the elements of a sequence, None if it is none or they are not known.
    text: a lower bound of the bytes of each string, 0 for numbers. is_exact: whether the known dims are those of every
    run, and not an estimate. kind: a number that equal Values share, 0 until it is needed (known_results.py)."""

    __slots__ = (
        "data",
        "is_bound",
        "is_exact",
        "is_fixed",
        "is_given",
        "kind",
        "sequence",
        "shape",
        "stored",
        "tensor",
        "text",
    )

    def __init__(self, shape: Dims | None = None, data: list[Any] | None = None, is_given: bool = False) -> None:
        self.shape = shape
        self.data = data
        self.is_given = is_given
        self.stored = 0
        self.tensor = -1
        self.text = 0
        self.is_bound = False
        self.is_exact = False
        self.is_fixed = False
        self.sequence: list[Value] | None = None
        self.kind = 0

    def copy(self) -> Value:
        """Return a Value with the same properties that can be changed."""
        other = Value(self.shape, self.data, self.is_given)
        other.stored, other.tensor, other.text, other.sequence = self.stored, self.tensor, self.text, self.sequence
        other.is_bound, other.is_exact, other.is_fixed = self.is_bound, self.is_exact, self.is_fixed
        return other

    @property
    def size(self) -> int:
        """A lower bound of the number of elements, if it is not empty: unknown dims count as 1."""
        return 0 if self.shape is None else math.prod(1 if dim is None else dim for dim in self.shape)

    def same_as(self, other: Value) -> bool:
        """Return whether another value has the same known properties."""
        return self.shape == other.shape and self.data == other.data


# Values of which nothing is known: of an input without a name, of any other, and of one that depends on constants only.
OMITTED, UNKNOWN, FIXED = Value(), Value(), Value()
FIXED.is_fixed = True


def vector(data: list[Any], is_given: bool = False) -> Value:
    """Return a one-dimensional value with known elements."""
    return Value((len(data),), data if len(data) <= MAX_ELEMENTS else None, is_given)


def wrap(number: float) -> int | float:
    """Return an integer wrapped to 64 bits, as in int64 arithmetic; return floats unchanged."""
    if isinstance(number, int) and not -_INT64 <= number < _INT64:
        return (number + _INT64) % (1 << 64) - _INT64
    return number


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Return the shape of an elementwise operation; of unequal dims the greater."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    result: list[int | None] = []
    for axis in range(-rank, 0):
        dims = [shape[axis] for shape in shapes if len(shape) >= -axis]
        known = [dim for dim in dims if dim is not None]
        greatest = max(known, default=None)
        result.append(None if greatest in (None, 1) and len(known) < len(dims) else greatest)
    return tuple(result)


def elementwise(operation: Callable[..., Any] | None, values: Sequence[Value]) -> Value:
    """Return the result of an elementwise operation of any number of values."""
    is_given = True in [value.is_given for value in values]
    known = [value.shape for value in values if value.shape is not None]
    if len(known) < len(values):
        # The result is at least as large as every known operand.
        return Value(max(known, key=lambda shape: Value(shape).size), None, is_given) if known else Value()
    shape = broadcast(known)
    data: list[Any] | None = None
    if operation is not None:
        columns = [value.data for value in values if value.data is not None]
        data = _computed(operation, columns, shape) if len(columns) == len(values) else None
    return Value(shape, data, is_given)


def _computed(operation: Callable[..., Any], columns: list[list[Any]], shape: Dims) -> list[Any] | None:
    n = max(map(len, columns))
    if Value(shape).size != n or any(len(column) not in (1, n) for column in columns):
        return None
    try:
        rows = zip(*(column * n if len(column) == 1 else column for column in columns), strict=True)
        return [wrap(operation(*row)) for row in rows]
    except (ArithmeticError, ValueError, TypeError):
        return None
