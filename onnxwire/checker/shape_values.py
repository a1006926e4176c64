"""Describes values before the model runs, by a lower bound of their size, and by their elements if they are few."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Dims = tuple["int | None", ...]
_INT64 = 1 << 63  # the least positive integer that int64 does not represent


class Value:
    """The known properties of a value.

    shape: the dims, None for an unknown dim; None if the rank is unknown. data: the elements in order if there are few
    and all are known. depends_on_input: whether the size depends on the declared shape of a graph's input.
    is_lower_bound: whether the dims may be larger than `shape`. is_exact: whether the known dims are those of every
    run, and not an estimate. is_constant: whether the value depends on constants only. stored_elements: the number of
    elements of the largest stored tensor from which the value is computed. tensor: the row of TensorProto of a stored
    tensor without external data, otherwise -1. sequence: the elements of a sequence; None if they are unknown, and for
    any other value. text_bytes: an estimate of the bytes of each string: for a stored tensor, their mean; 0 for numbers
    and unknown strings. content_id: a number that is the same only for Values with equal properties, except `tensor`; 0
    until it is needed (known_results.py).
    """

    __slots__ = (
        "content_id",
        "data",
        "depends_on_input",
        "is_constant",
        "is_exact",
        "is_lower_bound",
        "sequence",
        "shape",
        "stored_elements",
        "tensor",
        "text_bytes",
    )

    def __init__(
        self, shape: Dims | None = None, data: list[Any] | None = None, depends_on_input: bool = False
    ) -> None:
        self.shape = shape
        self.data = data
        self.depends_on_input = depends_on_input
        self.stored_elements = 0
        self.tensor = -1
        self.text_bytes = 0
        self.is_lower_bound = False
        self.is_exact = False
        self.is_constant = False
        self.sequence: list[Value] | None = None
        self.content_id = 0

    def copy(self) -> Value:
        """Return a new Value with the same properties, except `content_id`."""
        copy = Value(self.shape, self.data, self.depends_on_input)
        copy.stored_elements, copy.tensor, copy.text_bytes, copy.sequence = (
            self.stored_elements,
            self.tensor,
            self.text_bytes,
            self.sequence,
        )
        copy.is_lower_bound, copy.is_exact, copy.is_constant = self.is_lower_bound, self.is_exact, self.is_constant
        return copy

    @property
    def size(self) -> int:
        """The number of elements, in which unknown dims count as 1; 0 if the rank is unknown."""
        return 0 if self.shape is None else math.prod(1 if dim is None else dim for dim in self.shape)

    def is_equal(self, other: Value) -> bool:
        """Return whether another value has the same known shape and elements."""
        return self.shape == other.shape and self.data == other.data


# Values without known properties: an omitted input, any other value, and a value that depends on constants only.
OMITTED, UNKNOWN, UNKNOWN_CONSTANT = Value(), Value(), Value()
UNKNOWN_CONSTANT.is_constant = True


def wrap(number: float) -> int | float:
    """Return an integer wrapped to 64 bits, as in int64 arithmetic; return floats unchanged."""
    if isinstance(number, int) and not -_INT64 <= number < _INT64:
        return (number + _INT64) % (1 << 64) - _INT64
    return number


def broadcast(shapes: Sequence[Dims]) -> Dims:
    """Return the shape of the result of an elementwise operation; of unequal known dims, it has the greatest.

    The exception is a dim of 1 beside a dim of 0, which results in 0. A dim of the result is unknown if it is unknown
    in one shape, and unknown or 1 in all others.
    """
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    rank = max(map(len, shapes), default=0)
    result: list[int | None] = []
    for axis in range(-rank, 0):
        dims = [shape[axis] for shape in shapes if len(shape) >= -axis]
        known_dims = [dim for dim in dims if dim is not None]
        max_dim = max(known_dims, default=None)
        if max_dim == 1 and 0 in known_dims:
            max_dim = 0
        result.append(None if max_dim in (None, 1) and len(known_dims) < len(dims) else max_dim)
    return tuple(result)


def elementwise(operation: Callable[..., Any] | None, values: Sequence[Value]) -> Value:
    """Return the result of an elementwise operation on any number of values.

    operation: a function of one element of each value; None if the elements of the result are not computed.
    """
    depends_on_input = True in [value.depends_on_input for value in values]
    known_shapes = [value.shape for value in values if value.shape is not None]
    if len(known_shapes) < len(values):
        # The result is at least as large as every known operand.
        return (
            Value(max(known_shapes, key=lambda shape: Value(shape).size), None, depends_on_input)
            if known_shapes
            else Value()
        )
    shape = broadcast(known_shapes)
    data: list[Any] | None = None
    if operation is not None:
        columns = [value.data for value in values if value.data is not None]
        data = _computed_elements(operation, columns, shape) if len(columns) == len(values) else None
    return Value(shape, data, depends_on_input)


def _computed_elements(operation: Callable[..., Any], columns: list[list[Any]], shape: Dims) -> list[Any] | None:
    """Return the elements of an elementwise result; None if `operation` fails, or `columns` do not fit `shape`.

    columns: the elements of each operand.
    """
    n = max(map(len, columns))
    if Value(shape).size != n or any(len(column) not in (1, n) for column in columns):
        return None
    try:
        rows = zip(*(column * n if len(column) == 1 else column for column in columns), strict=True)
        return [wrap(operation(*row)) for row in rows]
    except (ArithmeticError, ValueError, TypeError):
        return None
