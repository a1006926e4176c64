"""Computes lower bounds of the sizes of operators' outputs, and the elements of small constants.

Each function of `OPERATORS` returns the Value of the first output, or None if it is unknown. "Size" in its docstring
means the shape in this Value. layout_operators.py and kernel_sizes.py have the functions of further operators.
Sources: docs/Operators.md of onnx 1.23.2, docs/ContribOperators.md of onnxruntime 1.32.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from onnxwire.checker.shape_values import OMITTED, Dims, Value, broadcast, elementwise, wrap
from onnxwire.checker.small_constants import MAX_KNOWN_ELEMENTS

_MAX_RANK = 64  # the limit of numpy 2
_MAX_SEQUENCE_TENSORS = 64  # maximum number of elements of a sequence that are known
# If constants enlarge an axis by such a factor, or by such a number of elements, the size counts as independent of the
# graph's inputs.
_LARGE_FACTOR = 1024
_LARGE_PAD = 1 << 20  # elements that Pad adds, or the size that CenterCropPad requests
_LARGE_WINDOW_PAD = 1 << 16  # elements that convolutions and pools add
# Numbers of TensorProto.DataType.
_FLOAT_TYPES, _BOOL = (1, 10, 11), 9
_INTEGER_TYPES = (2, 3, 4, 5, 6, 7, 12, 13)


class Call(Protocol):
    """A node, with the known Values of its inputs."""

    @property
    def inputs(self) -> list[Value]:
        """The Values of the inputs; OMITTED for an omitted input."""

    @property
    def op_type(self) -> str:
        """The name of the operator."""

    def value(self, index: int) -> Value | None:
        """Return the Value of an input, or None if the node has fewer inputs."""

    def attribute(self, name: str) -> Any:
        """Return the AttributeProto with a name, or None."""

    def ints(self, name: str, input: int | None = None) -> list[int] | None:
        """Return the integers of an input, or of an attribute if the node has no such input.

        Of an attribute, only the first MAX_KNOWN_ELEMENTS are returned. Returns None if the integers are unknown or
        absent, and if elements of the input are not integers.
        """

    def floats(self, name: str) -> list[float] | None:
        """Return the first MAX_KNOWN_ELEMENTS floats of an attribute, or None if it has none."""

    def int(self, name: str, default: int) -> int:
        """Return the integer of an attribute, or the default if it has none."""

    def text(self, name: str) -> str:
        """Return the string of an attribute, or ""."""

    def extent(self, index: builtins.int) -> tuple[builtins.int, builtins.int] | None:
        """Return the least and the greatest number of an input, or None.

        They are known only for a stored tensor of integers of at most 64 KiB.
        """

    def count(self, name: str) -> builtins.int:
        """Return the number of integers or strings of an attribute."""

    def head(self, index: builtins.int) -> bytes:
        """Return the first bytes of an input that is a stored tensor, if it has raw_data or at most 1 KiB; else b""."""

    def constant(self) -> Value | None:
        """Return the value of Constant, or the element that ConstantOfShape repeats; None if it is unknown."""


Operator = Callable[[Call], "Value | None"]


def _first_input(call: Call) -> Value:
    """Return the Value of the first input, an unknown one if the node has no inputs."""
    return call.value(0) or Value()


def _axis(axis: int, rank: int) -> int:
    """Return the index of an axis, from 0 on; a negative axis counts from the end. The result may be out of range."""
    return axis + rank if axis < 0 else axis


def _depends_on_input(call: Call) -> bool:
    """Return whether the size of an input of the node depends on the declared shape of a graph's input."""
    return any(value.depends_on_input for value in call.inputs)


def _unchanged_shape(call: Call) -> Value:
    """Return the size of the output of operators that preserve the shape of the first input."""
    value = _first_input(call)
    return Value(value.shape, None, value.depends_on_input)


def _cast(call: Call) -> Value:
    """Return the size of Cast, and the elements as bools, ints or floats; unchanged for other types."""
    value, target = _first_input(call), call.int("to", 1)
    if target == _BOOL and value.data is not None:
        return Value(value.shape, [bool(number) for number in value.data], value.depends_on_input)
    if value.data is None:
        return Value(value.shape, None, value.depends_on_input)
    is_integer = target in _INTEGER_TYPES
    try:
        data = [int(number) if is_integer else float(number) if target in _FLOAT_TYPES else number
                for number in value.data]  # fmt: skip
    except (ValueError, OverflowError, TypeError):
        return Value(value.shape, None, value.depends_on_input)
    return Value(value.shape, data, value.depends_on_input)


def _shape(call: Call) -> Value | None:
    """Return the vector of the dims that Shape selects, with its elements if all these dims are known."""
    value = _first_input(call)
    if value.shape is None:
        return None
    rank = len(value.shape)
    start, end = _axis(call.int("start", 0), rank), _axis(call.int("end", rank), rank)
    dims = list(value.shape[max(start, 0) : max(end, 0)])
    return Value((len(dims),), None if None in dims else dims, value.depends_on_input)


def _size(call: Call) -> Value:
    """Return the result of Size."""
    value = _first_input(call)
    is_known = value.shape is not None and None not in value.shape
    return Value((), [wrap(value.size)] if is_known else None, value.depends_on_input)


def _by_shape(input: int | None, name: str = "shape") -> Operator:
    """Return the function of operators whose output has the shape that an input, or else an attribute, contains.

    The output of Col2Im has further dims before this shape.
    input: the index of the input, None for the attribute alone. name: the attribute.
    """

    def function(call: Call) -> Value | None:
        dims = call.ints(name, input)
        if dims is None:
            return None
        shape_input = call.value(input) if input is not None else None
        return Value(
            tuple(max(dim, 0) for dim in dims[:_MAX_RANK]),
            None,
            shape_input is not None and shape_input.depends_on_input,
        )

    return function


def _expand(call: Call) -> Value | None:
    """Return the size of Expand, at least that of its input."""
    target = _by_shape(1)(call)
    value = _first_input(call)
    if target is None or target.shape is None:
        return Value(value.shape, None, value.depends_on_input)
    return Value(broadcast([target.shape, value.shape or ()]), None, target.depends_on_input)


def _constant_of_shape(call: Call) -> Value | None:
    """Return the size of ConstantOfShape, and the elements if they are few; they are 0 by default."""
    value = _by_shape(0)(call)
    if value is not None and value.size <= MAX_KNOWN_ELEMENTS and call.constant() is not None:
        element = call.constant()
        value.data = (element.data or []) * value.size if element is not None and element.data else None
    elif value is not None and value.size <= MAX_KNOWN_ELEMENTS:
        value.data = [0] * value.size
    return value


def _tile(call: Call) -> Value:
    """Return the size of Tile, and the elements of a short repeated vector."""
    value, repeats = _first_input(call), call.ints("repeats", 1)
    if value.shape is None or repeats is None or len(repeats) != len(value.shape):
        # Without the shape the repeats alone are a lower bound.
        return Value(tuple(repeats) if repeats is not None else value.shape, None, value.depends_on_input)
    shape = tuple(
        count if dim is None else dim * max(count, 0) for dim, count in zip(value.shape, repeats, strict=True)
    )
    data = value.data * repeats[0] if value.data and len(shape) == 1 and 0 <= repeats[0] <= MAX_KNOWN_ELEMENTS else None
    return Value(
        shape,
        data if data is not None and len(data) <= MAX_KNOWN_ELEMENTS else None,
        value.depends_on_input and max(repeats) < _LARGE_FACTOR,
    )


def _range(call: Call) -> Value | None:
    """Return the size of Range, and the elements if they are few; None if its inputs are unknown."""
    inputs = [call.value(i) for i in range(3)]
    if any(value is None or value.data is None or len(value.data) != 1 for value in inputs):
        return None
    start, limit, delta = (value.data[0] for value in inputs if value is not None and value.data is not None)
    depends_on_input = _depends_on_input(call)
    try:
        count = max(math.ceil((limit - start) / delta), 0)
    except (ArithmeticError, ValueError, TypeError):
        return None
    data = [start + i * delta for i in range(count)] if count <= MAX_KNOWN_ELEMENTS else None
    return Value((count,), data, depends_on_input)


def _pad(call: Call) -> Value:
    """Return the size of Pad; an unknown dim that is padded counts as 0."""
    value, pads = _first_input(call), call.ints("pads", 1) or call.ints("paddings")
    if pads is None:
        return Value(value.shape, None, value.depends_on_input)
    n = len(pads) // 2
    axes = call.ints("axes", 3) or list(range(n))
    shape: list[int | None] = list(value.shape) if value.shape is not None else [None] * (max([n - 1, *axes]) + 1)
    for i, axis in enumerate(axes[:n]):
        index = _axis(axis, len(shape))
        if 0 <= index < len(shape):
            shape[index] = max((shape[index] or 0) + pads[i] + pads[i + n], 0)
    return Value(tuple(shape), None, value.depends_on_input and max(pads, default=0) < _LARGE_PAD)


def _resize(call: Call) -> Value:
    """Return the size of Resize or Upsample by sizes or scales; an unknown dim that is scaled counts as 1."""
    value = _first_input(call)
    sizes = call.ints("sizes", 3) if call.op_type == "Resize" else None
    axes = call.ints("axes")
    scale_input = call.value(2 if len(call.inputs) > 2 else 1)  # with more than two inputs, input 1 is a region
    scales = scale_input.data if scale_input is not None else None
    if call.op_type == "Upsample" and scales is None:
        scales = call.floats("scales")
    rank = len(value.shape) if value.shape is not None else len(sizes or scales or ())
    shape: list[int | None] = list(value.shape) if value.shape is not None else [None] * rank
    factors = sizes or scales
    if not factors:
        return Value()
    is_large = False
    for axis, factor in zip(axes or range(rank), factors, strict=False):
        index = _axis(axis, rank)
        if not 0 <= index < rank:
            continue
        old_size = shape[index] or 1
        try:
            shape[index] = max(int(factor) if sizes else math.floor(old_size * factor), 0)
        except (ValueError, OverflowError):
            continue
        is_large |= (shape[index] or 0) > old_size * _LARGE_FACTOR
    return Value(tuple(shape), None, value.depends_on_input and not is_large)


def _concat(call: Call) -> Value | None:
    """Return the size of Concat, and the elements of short known vectors."""
    values = call.inputs
    shapes = [value.shape for value in values if value.shape is not None]
    if not shapes:
        # Each value of unknown rank counts as one element along the axis.
        axis = call.int("axis", 0)
        if not values or not -_MAX_RANK <= axis < _MAX_RANK:
            return None
        return Value((*[None] * axis, len(values), *[None] * (-axis - 1)), None, _depends_on_input(call))
    depends_on_input = _depends_on_input(call)
    rank = len(shapes[0])
    axis = _axis(call.int("axis", 0), rank)
    if any(len(shape) != rank for shape in shapes) or not 0 <= axis < rank:
        return None
    shape = list(shapes[0])
    # Unknown dims count as 1: the lower bound of a concatenation still grows with each operand.
    shape[axis] = sum(1 if operand_shape[axis] is None else operand_shape[axis] or 0 for operand_shape in shapes)
    if any(operand_shape[axis] is None for operand_shape in shapes) and len(shapes) == 1:
        shape[axis] = None
    data: list[Any] | None = None
    if rank == 1 and len(shapes) == len(values) and all(value.data is not None for value in values):
        data = [number for value in values for number in value.data or ()]
    return Value(tuple(shape), data if data is not None and len(data) <= MAX_KNOWN_ELEMENTS else None, depends_on_input)


def _reshape(call: Call) -> Value:
    """Return the size of Reshape, and the known elements of its input."""
    value, dims = _first_input(call), call.ints("shape", 1)
    if dims is None:
        return Value(None if value.shape is None else (value.size,), None, value.depends_on_input)
    shape: list[int | None] = []
    for i, dim in enumerate(dims):
        if dim == 0 and not call.int("allowzero", 0):
            shape.append(value.shape[i] if value.shape is not None and i < len(value.shape) else None)
        else:
            shape.append(None if dim == -1 else max(dim, 0))
    if shape.count(None) == 1 and value.shape is not None and None not in value.shape and -1 in dims:
        known_product = math.prod(dim or 1 for dim in shape)
        # If the input's shape is a lower bound, the inferred dim counts as at least 1.
        shape[shape.index(None)] = max(value.size // known_product, value.is_lower_bound) if known_product else None
    # A reshape keeps the number of elements: a shape with more elements than the input fails at run time.
    is_exact = value.shape is not None and None not in value.shape and not value.is_lower_bound
    if is_exact and Value(tuple(shape)).size > value.size:
        return Value(None, None, value.depends_on_input)
    return Value(tuple(shape), value.data, value.depends_on_input)


def _unsqueeze(call: Call) -> Value | None:
    """Return the size of Unsqueeze, and the known elements of its input."""
    value, axes = _first_input(call), call.ints("axes", 1)
    if value.shape is None or axes is None or len(value.shape) + len(axes) > _MAX_RANK:
        return None
    rank = len(value.shape) + len(axes)
    new_axes = {_axis(axis, rank) for axis in axes}
    old_dims = iter(value.shape)
    shape: Dims = tuple(1 if i in new_axes else next(old_dims, None) for i in range(rank))
    return Value(shape, value.data, value.depends_on_input)


def _squeeze(call: Call) -> Value | None:
    """Return the size of Squeeze, and the known elements of its input."""
    value, axes = _first_input(call), call.ints("axes", 1)
    if value.shape is None:
        return None
    rank = len(value.shape)
    removed_axes = (
        {_axis(axis, rank) for axis in axes} if axes else {i for i, dim in enumerate(value.shape) if dim == 1}
    )
    return Value(
        tuple(dim for i, dim in enumerate(value.shape) if i not in removed_axes), value.data, value.depends_on_input
    )


def _transpose(call: Call) -> Value | None:
    """Return the size of Transpose, and the known elements in their new order."""
    value = _first_input(call)
    if value.shape is None:
        return None
    order = call.ints("perm") or list(range(len(value.shape)))[::-1]
    if sorted(order) != list(range(len(value.shape))):
        return None
    elements = _rearrange(value, lambda array: array.transpose(order))
    return elements or Value(tuple(value.shape[i] for i in order), None, value.depends_on_input)


def _gather(call: Call) -> Value | None:
    """Return the size of Gather, and the elements that are selected from a known vector."""
    value, indices = _first_input(call), call.value(1)
    axis = call.int("axis", 0)
    if indices is None or indices.shape is None:
        return None
    if value.shape is None:
        return Value(indices.shape, None, indices.depends_on_input)
    axis = _axis(axis, len(value.shape))
    shape = (*value.shape[:axis], *indices.shape, *value.shape[axis + 1 :])
    data = None
    if value.data is not None and len(value.shape) == 1 and indices.data is not None:
        n = len(value.data)
        if all(isinstance(i, int) and -n <= i < n for i in indices.data):
            data = [value.data[i] for i in indices.data]
    return Value(shape[:_MAX_RANK], data, _depends_on_input(call))


def _slice(call: Call) -> Value | None:
    """Return the known elements that Slice selects; None if some are unknown."""
    value, starts, ends = _first_input(call), call.ints("starts", 1), call.ints("ends", 2)
    if value.data is None or value.shape is None or starts is None or ends is None:
        return None
    axes = call.ints("axes", 3) or list(range(len(starts)))
    steps = call.ints("steps", 4) or [1] * len(starts)
    index = [slice(None)] * len(value.shape)
    for axis, *bounds in zip(axes, starts, ends, steps, strict=False):
        index[axis] = slice(*bounds)
    return _rearrange(value, lambda array: array[tuple(index)])


def _rearrange(value: Value, operation: Callable[[Any], Any]) -> Value | None:
    """Return a known value whose elements are rearranged as `operation` rearranges an array of their indices."""
    if value.data is None or value.shape is None or None in value.shape or value.size != len(value.data):
        return None
    positions = operation(np.arange(len(value.data)).reshape([dim or 0 for dim in value.shape]))
    data = [value.data[i] for i in positions.reshape(-1).tolist()]
    return Value(positions.shape, data, value.depends_on_input)


def _matmul(call: Call) -> Value | None:
    """Return the size of a product of matrices or vectors."""
    left, right = _first_input(call), call.value(1)
    if right is None or left.shape is None or right.shape is None or not left.shape or not right.shape:
        return None
    rows = left.shape[:-1][-1:]
    columns = right.shape[-1:] if len(right.shape) > 1 else ()
    batch = broadcast([left.shape[:-2], right.shape[:-2]])
    return Value((*batch, *rows, *columns), None, _depends_on_input(call))


def _gemm(call: Call) -> Value | None:
    """Return the size of a product of two matrices, either of which may be transposed."""
    left, right = _first_input(call), call.value(1)
    if right is None or left.shape is None or right.shape is None or len(left.shape) != 2 or len(right.shape) != 2:
        return None
    rows = left.shape[1 if call.int("transA", 0) else 0]
    return Value((rows, right.shape[0 if call.int("transB", 0) else 1]), None, _depends_on_input(call))


def _one_hot(call: Call) -> Value | None:
    """Return the size of OneHot: that of the indices, and the depth as an additional dim."""
    indices, depth = _first_input(call), call.value(1)
    if depth is None or not depth.data:
        return None
    shape = list(indices.shape or ())
    shape.insert(_axis(call.int("axis", -1), len(shape) + 1), max(int(depth.data[0]), 0))
    return Value(tuple(shape), None, depth.depends_on_input)


def _window(call: Call) -> Value | None:
    """Return the size of the output of window functions, such as HannWindow."""
    size = call.value(0)
    if size is None or not size.data:
        return None
    return Value((max(int(size.data[0]), 0),), None, size.depends_on_input)


def _mel_weights(call: Call) -> Value | None:
    """Return the size of MelWeightMatrix."""
    bins, length = call.value(0), call.value(1)
    if bins is None or length is None or not bins.data or not length.data:
        return None
    return Value((max(int(length.data[0]), 0) // 2 + 1, max(int(bins.data[0]), 0)))


def _einsum(call: Call) -> Value | None:
    """Return the size of Einsum; the dim of a letter is the greatest of its dims in the inputs."""
    equation = call.text("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or "." in equation or len(terms) != len(call.inputs):
        return None
    sizes: dict[str, int] = {}
    for term, value in zip(terms, call.inputs, strict=True):
        if value.shape is None or len(term) != len(value.shape):
            return None
        for letter, dim in zip(term, value.shape, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), dim or 1)
    return Value(tuple(sizes.get(letter, 1) for letter in right), None, _depends_on_input(call))


def _convolution(call: Call) -> Value | None:
    """Return the size of a convolution or pool with padding; batch and channels count as 1.

    Returns None without padding, because the image does not grow then.
    """
    value, pads = _first_input(call), call.ints("pads")
    if not pads:
        return None
    n = len(pads) // 2
    strides, kernel, dilations = (
        (call.ints(name) or []) + [1] * n for name in ("strides", "kernel_shape", "dilations")
    )
    shape: list[int | None] = [1, 1]
    for i in range(n):
        input_size = value.shape[i + 2] if value.shape is not None and len(value.shape) == n + 2 else 1
        kernel_extent = max(kernel[i] - 1, 0) * max(dilations[i], 0)
        shape.append(max(((input_size or 1) + pads[i] + pads[i + n] - kernel_extent) // strides[i], 1))
    return Value(tuple(shape), None, value.depends_on_input and max(pads) < _LARGE_WINDOW_PAD)


def _transposed_convolution(call: Call) -> Value | None:
    """Return the size of ConvTranspose from output_shape, or from strides and output_padding."""
    value, shape = _first_input(call), call.ints("output_shape")
    if shape:
        return Value((1, 1, *(max(dim, 0) for dim in shape)))
    strides, output_padding = call.ints("strides") or [], call.ints("output_padding") or []
    if value.shape is None or not strides:
        return Value(tuple(max(dim, 1) for dim in output_padding)) if output_padding else None
    dims = [(dim or 1) * stride for dim, stride in zip(value.shape[2:], strides, strict=False)]
    is_large = max(strides) > _LARGE_FACTOR or max(output_padding, default=0) > _LARGE_WINDOW_PAD
    dims = [dim + extra for dim, extra in zip(dims, output_padding or [0] * len(dims), strict=False)]
    return Value((1, 1, *dims), None, value.depends_on_input and not is_large)


def _crop_pad(call: Call) -> Value | None:
    """Return the size of CenterCropPad: that of its input, with the requested sizes of `axes` (default: all axes)."""
    target, value, axes = _by_shape(1)(call), _first_input(call), call.ints("axes")
    if target is None or target.shape is None or value.shape is None or not axes:
        return target
    shape = list(value.shape)
    for axis, size in zip(axes, target.shape, strict=False):
        shape[_axis(axis, len(shape))] = size
    return Value(
        tuple(shape), None, value.depends_on_input and max((size or 0 for size in target.shape), default=0) < _LARGE_PAD
    )


def _affine_grid(call: Call) -> Value | None:
    """Return the size of AffineGrid: a vector of coordinates for each position of each image."""
    images = _by_shape(1)(call)
    if images is None or images.shape is None or len(images.shape) < 3:
        return None
    n, _, *sides = images.shape
    return Value((n, *sides, len(sides)), None, images.depends_on_input)


def _split_strings(call: Call) -> Value:
    """Return the size of StringSplit: that of the input, and an unknown last dim, the maximum number of parts."""
    value = _first_input(call)
    return Value(None if value.shape is None else (*value.shape, None), None, value.depends_on_input)


def _dft(call: Call) -> Value | None:
    """Return a lower bound of the size of DFT: the length of the transform."""
    length = call.value(1)
    if length is None or not length.data:
        return None
    return Value((max(int(length.data[0]), 0),), None, length.depends_on_input)


def _multinomial(call: Call) -> Value:
    """Return a lower bound of the size of Multinomial: the samples of one distribution."""
    return Value((1, call.int("sample_size", 1)))


def _reduction(operation: Callable[[list[Any]], Any]) -> Operator:
    """Return the function of an operator that reduces a vector or scalar to one number.

    layout_operators.py uses it for vectors and scalars only.
    """

    def function(call: Call) -> Value | None:
        value = _first_input(call)
        if not value.data:
            return None
        try:
            return Value((1,) if call.int("keepdims", 1) else (), [wrap(operation(value.data))], value.depends_on_input)
        except (ArithmeticError, ValueError, TypeError):
            return None

    return function


def _where(call: Call) -> Value:
    """Return the size of Where, and the elements that a known condition selects."""
    condition, *values = (call.inputs + [Value()] * 3)[:3]
    if condition.data is not None and len(condition.data) > 1:
        return elementwise(lambda test, if_true, if_false: if_true if test else if_false, [condition, *values])
    if condition.data is not None and len(condition.data) == 1:
        selected = values[0] if condition.data[0] else values[1]
        result = Value(elementwise(None, [condition, *values]).shape, None, selected.depends_on_input)
        if selected.data is not None and result.size <= MAX_KNOWN_ELEMENTS:
            data = selected.data * result.size if len(selected.data) == 1 else selected.data
            result.data = data if len(data) == result.size else None
        return result
    return elementwise(None, [condition, *values])


def _divide(left: Any, right: Any) -> Any:
    """Return a quotient; that of integers is truncated towards 0."""
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return left / right


def _power(base: Any, exponent: Any) -> Any:
    """Return a power. Raises OverflowError for an integer that may have more than 4096 bits, which would take long."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(base).bit_length() * max(exponent, 0) > 4096:
        raise OverflowError
    return base**exponent


def _elementwise(operation: Callable[..., Any] | None) -> Operator:
    """Return the function of an elementwise operator; operation: None if the elements are not computed."""
    return lambda call: elementwise(operation, call.inputs)


def _sequence(items: list[Value] | None) -> Value:
    """Return the Value of a sequence; items: its elements, or None if they are unknown."""
    value = Value()
    value.sequence = items if items is not None and len(items) <= _MAX_SEQUENCE_TENSORS else None
    return value


def _insert(call: Call) -> Value:
    """Return the result of SequenceInsert, as if it inserted the new element at the end."""
    items = _first_input(call).sequence
    return _sequence(None if items is None or len(call.inputs) < 2 else [*items, call.inputs[1]])


def _erase(call: Call) -> Value:
    """Return the result of SequenceErase; its elements are unknown unless all elements of the input are equal."""
    items = _first_input(call).sequence
    return _sequence(items[:-1] if items and all(item.is_equal(items[0]) for item in items) else None)


def _element_at(call: Call) -> Value | None:
    """Return the result of SequenceAt, None unless all elements of the sequence are equal."""
    items = _first_input(call).sequence
    return items[0] if items and all(item.is_equal(items[0]) for item in items) else None


def _concat_sequence(call: Call) -> Value | None:
    """Return the size of ConcatFromSequence."""
    items = _first_input(call).sequence
    if not items:
        return None
    axis = call.int("axis", 0)
    if any(item.shape is None for item in items):
        is_valid_axis = -_MAX_RANK <= axis < _MAX_RANK
        return Value((*[None] * axis, len(items), *[None] * (-axis - 1))) if is_valid_axis else None
    shape = list(items[0].shape or ())
    if call.int("new_axis", 0):
        return Value((len(items), *shape))
    if any(len(item.shape or ()) != len(shape) for item in items) or not -len(shape) <= axis < len(shape):
        return None
    shape[axis] = sum((item.shape or ())[axis] or 1 for item in items)
    return Value(tuple(shape), None, any(item.depends_on_input for item in items))


def _shift(call: Call) -> Value:
    """Return the result of BitShift."""
    if call.text("direction") == "LEFT":
        return elementwise(lambda left, right: left << min(max(right, 0), 64), call.inputs)
    return elementwise(lambda left, right: left >> min(max(right, 0), 64), call.inputs)


def _logical_operator(deciding: bool, operation: Callable[..., Any]) -> Operator:
    """Return the function of a logical operator: an operand of one element that is `deciding` determines the result."""

    def function(call: Call) -> Value:
        for value in call.inputs:
            if value.data is not None and len(value.data) == 1 and bool(value.data[0]) is deciding:
                return Value(elementwise(None, call.inputs).shape or (), [deciding])
        return elementwise(operation, call.inputs)

    return function


def _comparison(operation: Callable[..., Any]) -> Operator:
    """Return the function of a comparison, whose result is False if one of the operands is a single NaN."""

    def function(call: Call) -> Value:
        for value in call.inputs:
            if value.data is not None and len(value.data) == 1 and value.data[0] != value.data[0]:
                return Value(elementwise(None, call.inputs).shape or (), [False])
        return elementwise(operation, call.inputs)

    return function


def _clip(call: Call) -> Value:
    """Return the size of Clip, and the elements if they and the limits are known."""
    value = _first_input(call)
    data = value.data
    for index, name, choose in ((1, "min", max), (2, "max", min)):
        limit, attribute = call.value(index), call.attribute(name)
        if attribute is not None:
            limits = [attribute.f]
        elif limit is None or limit is OMITTED:
            continue
        else:
            limits = limit.data or []
        data = [choose(number, limits[0]) for number in data] if data is not None and len(limits) == 1 else None
    return Value(value.shape, data, value.depends_on_input)


# Operators whose output has the shape of their first input.
_SAME_SHAPE = (
    "Relu Sigmoid Tanh "
    "Erf Softmax LogSoftmax LeakyRelu Elu Selu Celu HardSigmoid HardSwish Gelu Mish Softplus Softsign "
    "Dropout Trilu CumSum LayerNormalization BatchNormalization InstanceNormalization GroupNormalization "
    "RMSNormalization LpNormalization LRN MeanVarianceNormalization Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh "
    "Acosh Atanh Reciprocal Sign Round IsNaN IsInf BitwiseNot RandomNormalLike RandomUniformLike Bernoulli "
    "Shrink ThresholdedRelu QuantizeLinear DequantizeLinear ReverseSequence ScatterElements ScatterND Scatter Hardmax "
    "EyeLike QuickGelu FastGelu BiasGelu"
)
# Elementwise operators for which only the shape is computed.
_BROADCAST = "PRelu BitwiseAnd BitwiseOr BitwiseXor"
OPERATORS: dict[str, Operator] = {
    **dict.fromkeys(_SAME_SHAPE.split(), _unchanged_shape),
    **dict.fromkeys(_BROADCAST.split(), _elementwise(None)),
    "BitShift": _shift,
    "SequenceEmpty": lambda _: _sequence([]),
    "SequenceConstruct": lambda call: _sequence(call.inputs),
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _element_at,
    "ConcatFromSequence": _concat_sequence,
    "Identity": lambda call: call.value(0),
    "Cast": _cast,
    "CastLike": _unchanged_shape,
    "Constant": lambda call: call.constant(),
    "ConstantOfShape": _constant_of_shape,
    "Shape": _shape,
    "Size": _size,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "Pad": _pad,
    "Resize": _resize,
    "Upsample": _resize,
    "Concat": _concat,
    "Reshape": _reshape,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Gather": _gather,
    "GatherElements": lambda call: Value(call.inputs[1].shape, None, _depends_on_input(call)),
    "Slice": _slice,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "Gemm": _gemm,
    "OneHot": _one_hot,
    "HannWindow": _window,
    "HammingWindow": _window,
    "BlackmanWindow": _window,
    "MelWeightMatrix": _mel_weights,
    "Einsum": _einsum,
    "Conv": _convolution,
    "MaxPool": _convolution,
    "AveragePool": _convolution,
    "LpPool": _convolution,
    "ConvTranspose": _transposed_convolution,
    "MaxUnpool": _by_shape(2, "output_shape"),
    "Col2Im": _by_shape(1, "image_shape"),
    "CenterCropPad": _crop_pad,
    "DFT": _dft,
    "AffineGrid": _affine_grid,
    "RandomNormal": _by_shape(None),
    "RandomUniform": _by_shape(None),
    "Multinomial": _multinomial,
    "Where": _where,
    "And": _logical_operator(False, lambda left, right: bool(left and right)),
    "Or": _logical_operator(True, lambda left, right: bool(left or right)),
    "Xor": _elementwise(lambda left, right: bool(left) != bool(right)),
    "Not": _elementwise(operator.not_),
    "StringConcat": _elementwise(None),
    "StringSplit": _split_strings,
    "StringNormalizer": _unchanged_shape,
    "Equal": _comparison(operator.eq),
    "Less": _comparison(operator.lt),
    "Greater": _comparison(operator.gt),
    "LessOrEqual": _comparison(operator.le),
    "GreaterOrEqual": _comparison(operator.ge),
    "Add": _elementwise(operator.add),
    "Sub": _elementwise(operator.sub),
    "Mul": _elementwise(operator.mul),
    "Div": _elementwise(_divide),
    "Pow": _elementwise(_power),
    "Mod": _elementwise(operator.mod),
    "Max": _elementwise(max),
    "Min": _elementwise(min),
    "Sum": _elementwise(lambda *numbers: sum(numbers)),
    "Clip": _clip,
    "Exp": _elementwise(math.exp),
    "Log": _elementwise(math.log),
    "Neg": _elementwise(operator.neg),
    "Abs": _elementwise(abs),
    "Floor": _elementwise(math.floor),
    "Ceil": _elementwise(math.ceil),
    "Sqrt": _elementwise(math.sqrt),
    "ReduceProd": _reduction(math.prod),
    "ReduceSum": _reduction(sum),
    "ReduceMax": _reduction(max),
    "ReduceMin": _reduction(min),
}
# Operators whose computed size does not become a lower bound if dims of an input are unknown.
EXACT_SIZE_OPERATORS = frozenset(
    (*_SAME_SHAPE.split(), "Identity", "Cast", "CastLike", "Transpose", "Squeeze", "Unsqueeze", "Shape", "Size")
    + ("Constant",)
)
# Operators whose results have exactly the shapes that their functions return, if those of the inputs are exact.
EXACT_SHAPE_OPERATORS = frozenset(
    (*_SAME_SHAPE.split(), "Cast", "Transpose", "Constant", "Add", "Sub", "Mul", "Div", "MatMul", "Concat", "Gather")
    + ("Identity", "Neg", "Abs", "Sqrt", "Exp", "Log", "Floor", "Ceil", "Not")
)
# Operators whose computed size may be less than the actual size, or of a lower rank.
INEXACT_SIZE_OPERATORS = frozenset(
    ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool", "Einsum", "DFT", "Multinomial", "MelWeightMatrix")
    + ("Col2Im", "If", "Loop", "Scan")
)
# Operators with random outputs.
RANDOM_OPERATORS = (
    "RandomNormal",
    "RandomUniform",
    "RandomNormalLike",
    "RandomUniformLike",
    "Bernoulli",
    "Multinomial",
)
# By operator: the indices of the inputs whose elements can make the output large.
SIZE_INPUTS = {
    "ConstantOfShape": (0,), "Expand": (1,), "Tile": (1,), "Range": (0, 1, 2), "Pad": (1,), "OneHot": (1,),
    "Upsample": (1,), "Resize": (2, 3), "CenterCropPad": (1,), "AffineGrid": (1,), "Col2Im": (1,), "HannWindow": (0,),
    "HammingWindow": (0,), "BlackmanWindow": (0,), "MaxUnpool": (2,),
}  # fmt: skip
