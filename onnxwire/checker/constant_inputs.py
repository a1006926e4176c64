"""Tests constant inputs, attributes and input shapes of nodes for values and sizes that kernels do not support.

An inspector is a function of a call (see `Call` of shape_operators.py) that yields the kind and the text of each fault.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from onnxwire.errors import count_text

if TYPE_CHECKING:
    from onnxwire.checker.shape_operators import Call
    from onnxwire.checker.shape_values import Value

    Faults = Iterator[tuple[str, str]]

# Kinds of faults.
INDEX, DIVISION, ARGUMENT, RANK, TRAINING = "index", "division", "argument", "rank", "training"
MAX_RANK = 64  # numpy's limit
_MAX_INDEX = 1 << 31  # assumed size of an axis of unknown size, for tests of indices
# By integer data type: (0, m) for the range from 0 to 2**m - 1, (-n, n) for the range from -2**n to 2**n - 1.
_INTEGER_BITS = {2: (0, 8), 3: (-7, 7), 4: (0, 16), 5: (-15, 15), 6: (-31, 31), 7: (-63, 63), 12: (0, 32), 13: (0, 64)}

# Operators that select by an index: the input with the indices; the input that they refer to; the axis, or the name and
# the default of the attribute that contains it; the indices that are allowed besides 0..size-1: `-` for negative ones,
# which count from the end, `=` for the size itself. RNN, GRU and LSTM use the attribute `layout` as the axis instead.
_INDEX_OPERATORS: dict[str, tuple[int, int, int | tuple[str, int], str]] = {
    "Gather": (1, 0, ("axis", 0), "-"),
    "GatherElements": (1, 0, ("axis", 0), "-"),
    "ScatterElements": (1, 0, ("axis", 0), "-"),
    "Scatter": (1, 0, ("axis", 0), "-"),
    "TensorScatter": (2, 0, ("axis", -2), ""),
    "ArrayFeatureExtractor": (1, 0, -1, ""),
    "GatherBlockQuantized": (1, 0, ("gather_axis", 0), "-"),
    "TorchEmbedding": (1, 0, 0, ""),
    "RoiAlign": (2, 0, 0, ""),
    "CropAndResize": (2, 0, 0, ""),
    "EmbedLayerNormalization": (0, 2, 0, ""),
    "NegativeLogLikelihoodLoss": (1, 0, 1, ""),
    "SoftmaxCrossEntropyLoss": (1, 0, 1, ""),
    "ReverseSequence": (1, 0, ("time_axis", 0), "="),
    "RNN": (4, 0, 0, "="),
    "GRU": (4, 0, 0, "="),
    "LSTM": (4, 0, 0, "="),
}


def value_of(call: Call, index: int) -> Value | None:
    """Return the Value of an input of a node, or None if the node has fewer inputs."""
    return call.inputs[index] if index < len(call.inputs) else None


def integers_of(call: Call, index: int) -> list[int]:
    """Return the integers of an input; [] if they are unknown or no integers, or if its shape is a lower bound."""
    value = value_of(call, index)
    if value is None or value.data is None or value.is_lower_bound:
        return []
    if not all(type(number) is int for number in value.data):
        return []
    return value.data


def _exact_integers(call: Call, name: str, index: int) -> list[int] | None:
    """Return the integers of an input, or of an attribute where the node has no such input.

    Returns None if they are unknown or no integers, or if the shape of the input is a lower bound.
    """
    value = value_of(call, index)
    return None if value is not None and value.is_lower_bound else call.ints(name, index)


def size_of(value: Value | None, axis: int) -> int | None:
    """Return the size of an axis, or None if it is not known exactly."""
    if value is None or not value.shape or value.is_lower_bound or not -len(value.shape) <= axis < len(value.shape):
        return None
    return value.shape[axis]


def _test_selected(call: Call) -> Faults:
    """Test the indices, and the axis, of an operator of `_INDEX_OPERATORS`."""
    indices, value_input, axis_source, extra_indices = _INDEX_OPERATORS[call.op_type]
    axis = axis_source if isinstance(axis_source, int) else call.int(*axis_source)
    if call.op_type in ("RNN", "GRU", "LSTM"):
        axis = call.int("layout", 0)
    if isinstance(axis_source, tuple) and value_input == 0:
        yield from _test_axis_numbers([axis], rank_of(call))
    size = size_of(value_of(call, value_input), axis)
    if call.text("mode") == "circular":
        return
    size = _MAX_INDEX if size is None else size
    ignored = call.int("ignore_index", 0) if call.attribute("ignore_index") is not None else None
    min_index, max_index = -size if "-" in extra_indices else 0, size if "=" in extra_indices else size - 1
    for number in _index_numbers(call, indices):
        if not min_index <= number <= max_index and number != ignored:
            yield INDEX, f"{number:,}"
            return


def _index_numbers(call: Call, index: int) -> list[int] | tuple[int, ...]:
    """Return the integers of an input, or else the least and the greatest one; () if they are unknown."""
    return integers_of(call, index) or call.extent(index) or ()


def _test_elements(call: Call) -> Faults:
    """Test the range, rank and shape of the indices of GatherElements, ScatterElements and Scatter."""
    yield from _test_selected(call)
    value, indices = value_of(call, 0), value_of(call, 1)
    if value is None or indices is None or value.shape is None or indices.shape is None:
        return
    if value.is_lower_bound or indices.is_lower_bound:
        return
    if len(value.shape) != len(indices.shape):
        yield ARGUMENT, f"indices of rank {len(indices.shape)} for a value of rank {len(value.shape)}"
        return
    axis = call.int("axis", 0) % max(len(value.shape), 1)
    for i, (size, length) in enumerate(zip(value.shape, indices.shape, strict=True)):
        if i != axis and size is not None and length is not None and length > size:
            yield INDEX, f"index {length - 1:,} along axis {i}"
            return


def _test_sequence(call: Call) -> Faults:
    """Test that the first input is a sequence and, for operators with an index, that the index is in range."""
    sequence = value_of(call, 0)
    if sequence is None:
        return
    if sequence.shape is not None and sequence.sequence is None:
        yield ARGUMENT, "a tensor as its sequence"
    if sequence.sequence is None or call.op_type not in ("SequenceAt", "SequenceErase", "SequenceInsert"):
        return
    n, index_input = len(sequence.sequence), 2 if call.op_type == "SequenceInsert" else 1
    for number in integers_of(call, index_input):
        if not -n <= number < n + (call.op_type == "SequenceInsert"):
            yield INDEX, f"{number:,}"


def _test_index_tuples(call: Call) -> Faults:
    """Test the indices of GatherND and ScatterND, each row of which selects along successive axes.

    For ScatterND, also test the shape of the updates.
    """
    value, indices = value_of(call, 0), value_of(call, 1)
    if value is None or not value.shape or value.is_lower_bound or indices is None or not indices.shape:
        return
    length, batch_dims = indices.shape[-1], call.int("batch_dims", 0)
    rank = len(value.shape)
    if not 0 <= batch_dims < rank or (length is not None and batch_dims + length > rank and not indices.is_lower_bound):
        yield (
            ARGUMENT,
            f"index tuples of length {length or 0:,} and batch_dims {batch_dims:,} for a value of rank {rank:,}",
        )
        return
    if call.op_type == "ScatterND" and length is not None and not indices.is_lower_bound:
        yield from _test_updates(call, (*indices.shape[:-1], *value.shape[length:]))
    sizes = value.shape[batch_dims : batch_dims + (length or 0)]
    max_size = max((_MAX_INDEX if size is None else size for size in sizes), default=_MAX_INDEX)
    for number in () if integers_of(call, 1) else call.extent(1) or ():
        if not -max_size <= number < max_size:
            yield INDEX, f"{number:,}"
            return
    for i, number in enumerate(integers_of(call, 1) if length else ()):
        axis = batch_dims + i % (length or 1)
        size = value.shape[axis] if 0 <= axis < len(value.shape) else None
        if size is not None and not -size <= number < size:
            yield INDEX, f"{number:,}"
            return


def _test_updates(call: Call, dims: tuple[int | None, ...]) -> Faults:
    """Test the shape of the updates of a scatter operator: its kernel copies as many updates as the indices require.

    dims: the shape that the indices require.
    """
    updates = value_of(call, 2)
    if updates is None or updates.shape is None or updates.is_lower_bound:
        return
    if len(updates.shape) != len(dims) or any(
        None not in (update_dim, dim) and update_dim != dim for update_dim, dim in zip(updates.shape, dims, strict=True)
    ):
        yield ARGUMENT, f"updates of shape {list(updates.shape)[:8]}, but the indices require {list(dims)[:8]}"


def _test_scatter(call: Call) -> Faults:
    """Test the indices and updates of ScatterElements and Scatter."""
    yield from _test_elements(call)
    indices = value_of(call, 1)
    if indices is not None and indices.shape is not None and not indices.is_lower_bound:
        yield from _test_updates(call, indices.shape)


def _test_pad(call: Call) -> Faults:
    """Test the pads of Pad: there are two for each axis.

    In mode "reflect", a pad is shorter than the axis. The negative pads of an axis remove at most all its elements.
    """
    rank, value = rank_of(call), value_of(call, 0)
    pads = _exact_integers(call, "pads", 1)
    axes = integers_of(call, 3)
    yield from _test_axis_numbers(axes, rank)
    if pads is None or rank is None or value is None or value.shape is None:
        return
    n = len(axes) or rank
    if len(pads) != 2 * n:
        yield ARGUMENT, f"{count_text(len(pads), 'pad')} instead of {2 * n:,}"
        return
    for i, axis in enumerate(axes or range(rank)):
        size = value.shape[axis] if -rank <= axis < rank else None
        if size is None:
            continue
        if pads[i] + pads[i + n] + size < 0:
            yield ARGUMENT, f"pads of {pads[i]:,} and {pads[i + n]:,} for an axis of size {size:,}"
            return
        long_pads = [pad for pad in (pads[i], pads[i + n]) if pad > max(size - 1, 0)]
        if long_pads and call.text("mode") == "reflect":
            yield ARGUMENT, f"a pad of {long_pads[0]:,} in mode 'reflect' for an axis of size {size:,}"
            return


def _test_one_hot(call: Call) -> Faults:
    """Test the depth and the values of OneHot."""
    depth, values = value_of(call, 1), value_of(call, 2)
    if depth is not None and depth.data and depth.data[0] <= 0:
        yield ARGUMENT, f"a depth of {depth.data[0]:,}"
    if (
        values is not None
        and values.shape is not None
        and not values.is_lower_bound
        and values.shape not in ((2,), (None,))
    ):
        yield ARGUMENT, "a number of values other than two"


def _test_window(call: Call) -> Faults:
    """Test the size of HannWindow and similar operators."""
    sizes = [number for number in integers_of(call, 0) if number < 0]
    if sizes:
        yield ARGUMENT, f"a size of {sizes[0]:,}"


def _test_mel_weights(call: Call) -> Faults:
    """Test the number of bins and the upper frequency of MelWeightMatrix."""
    yield from _test_window(call)
    rate, upper = value_of(call, 2), value_of(call, 4)
    if rate is not None and upper is not None and rate.data and upper.data and upper.data[0] > rate.data[0]:
        yield ARGUMENT, f"an upper frequency of {upper.data[0]:,} above the sample rate"


def _test_constant(call: Call) -> Faults:
    """Test that a Constant has only one value."""
    names = ("value", "value_float", "value_floats", "value_int", "value_ints", "value_string", "value_strings")
    present = [name for name in (*names, "sparse_value") if call.attribute(name) is not None]
    if len(present) > 1:
        yield ARGUMENT, f"two values, in {present[0]!r} and {present[1]!r}"


def _test_labels(call: Call) -> Faults:
    """Test that ZipMap has a label for each column of its input."""
    columns = size_of(value_of(call, 0), -1)
    labels = max(call.count("classlabels_int64s"), call.count("classlabels_strings"))
    if columns is not None and labels and columns != labels:
        yield ARGUMENT, f"{count_text(labels, 'label')} for {count_text(columns, 'column')}"


def _test_joined_features(call: Call) -> Faults:
    """Test that FeatureVectorizer has a size for each input, at most that of the input."""
    n_sizes = call.count("inputdimensions")
    if n_sizes and n_sizes != len(call.inputs):
        yield ARGUMENT, f"{count_text(n_sizes, 'size')} for {count_text(len(call.inputs), 'input')}"
    for index, size in enumerate((call.ints("inputdimensions") or ())[: len(call.inputs)]):
        input_size = size_of(value_of(call, index), -1)
        if input_size is not None and size > input_size:
            yield ARGUMENT, f"a size of {size:,} for an input of size {input_size:,}"
            return


def _test_max_unpool(call: Call) -> Faults:
    """Test the indices of MaxUnpool, which are positions in its output.

    Input 2 contains the shape of the output. Without it, the number of elements of the output is computed from the
    shape of the input, `kernel_shape` and `strides`, as if there were no padding.
    """
    value, kernel, output_shape = value_of(call, 0), call.ints("kernel_shape"), integers_of(call, 2)
    size = 1 << 63  # represents an unknown size: no index reaches it
    if output_shape:
        size = math.prod(max(dim, 0) for dim in output_shape)
    elif kernel and value is not None and value.shape and None not in value.shape and len(call.inputs) < 3:
        strides = call.ints("strides") or [1] * len(kernel)
        sizes = [max((dim or 0) - 1, 0) * step for dim, step in zip(value.shape[2:], strides, strict=False)]
        if not value.is_lower_bound:
            size = math.prod(dim or 0 for dim in value.shape[:2])
            size *= math.prod(length + width for length, width in zip(sizes, kernel, strict=False))
    for number in _index_numbers(call, 1):
        if not 0 <= number < size:
            yield INDEX, f"{number:,}"
            return


def _test_roi_pool(call: Call) -> Faults:
    """Test the image index of each region of MaxRoiPool, the first of five numbers."""
    size, regions = size_of(value_of(call, 0), 0), value_of(call, 1)
    for number in (regions.data or ())[::5] if regions is not None and size is not None else ():
        if not 0 <= number < (size or 0):
            yield INDEX, f"{number:,.0f}"
            return


def _test_compress(call: Call) -> Faults:
    """Test that the condition of Compress is not longer than the axis, if the node has the attribute axis."""
    condition_length, value = size_of(value_of(call, 1), 0), value_of(call, 0)
    if call.attribute("axis") is not None and condition_length is not None:
        size = size_of(value, call.int("axis", 0))
        if size is not None and condition_length > size:
            yield INDEX, f"condition of length {condition_length:,}"


def _test_division(call: Call) -> Faults:
    """Test for an integer division by 0, and for the division that overflows: of the least integer by -1."""
    divisors = integers_of(call, 1)
    if 0 in divisors:
        yield DIVISION, "0"
    elif -1 in divisors and any(number in (-(1 << 31), -(1 << 63)) for number in integers_of(call, 0)):
        yield ARGUMENT, "a division of the least integer by -1"


def rank_of(call: Call) -> int | None:
    """Return the rank of the first input, or None if it is not known."""
    value = value_of(call, 0)
    return None if value is None or value.shape is None or value.is_lower_bound else len(value.shape)


def _test_axis_numbers(axes: list[int], rank: int | None) -> Faults:
    """Yield a fault for the first axis that is out of range for the rank. Scalars count as vectors."""
    invalid_axes = [] if rank is None else [axis for axis in axes if not -max(rank, 1) <= axis < max(rank, 1)]
    if invalid_axes:
        yield INDEX, f"axis {invalid_axes[0]:,}"


def test_axes(call: Call) -> Faults:
    """Test the attributes axis, axes and perm."""
    axes = [call.int("axis", 0)] if call.attribute("axis") is not None else []
    rank = rank_of(call)
    if call.op_type == "Flatten" and rank is not None:
        rank += 1
    yield from _test_axis_numbers([*axes, *(call.ints("axes") or ()), *(call.ints("perm") or ())], rank)
    if call.op_type == "Transpose" and rank is not None and call.count("perm") not in (0, rank):
        yield ARGUMENT, f"a perm of length {call.count('perm'):,} for rank {rank:,}"


def _test_reshape(call: Call) -> Faults:
    """Test the dims of Reshape: their number and product, and the use of 0, -1 and lower numbers."""
    dims = integers_of(call, 1)
    yield from _test_rank(call)
    if call.int("allowzero", 0) and 0 in dims and -1 in dims:
        yield ARGUMENT, "both 0 and -1 in its dims, although allowzero is set"
    if dims.count(-1) > 1 or min(dims, default=0) < -1:
        yield ARGUMENT, f"the invalid dims {dims[:8]}"
    rank = rank_of(call)
    if rank is not None and not call.int("allowzero", 0) and 0 in dims[rank:]:
        yield ARGUMENT, "a dim of 0, which copies a dim of the input that does not exist"


def _test_stft(call: Call) -> Faults:
    """Test that the step of STFT is positive."""
    invalid_steps = [step for step in integers_of(call, 1) if step <= 0]
    if invalid_steps:
        yield ARGUMENT, f"a step of {invalid_steps[0]:,}"


def _test_image_blocks(call: Call) -> Faults:
    """Test that the sizes of the image and blocks of Col2Im are positive."""
    invalid_sizes = [size for size in (*integers_of(call, 1), *integers_of(call, 2)) if size <= 0]
    if invalid_sizes:
        yield ARGUMENT, f"an image or block of size {invalid_sizes[0]:,}"


def _test_shift(call: Call) -> Faults:
    """Test the numbers of bits by which BitShift shifts."""
    invalid_shifts = [number for number in integers_of(call, 1) if not 0 <= number < 64]
    if invalid_shifts:
        yield ARGUMENT, f"a shift by {invalid_shifts[0]:,} bits"


def _test_resize(call: Call) -> Faults:
    """Test that the scales of Upsample and Resize are positive and finite."""
    for index in (1, 2):
        scales = value_of(call, index)
        invalid_scales = [] if scales is None else [scale for scale in scales.data or () if not 0 < scale < math.inf]
        if invalid_scales and not (call.op_type == "Resize" and index == 1 and len(call.inputs) > 2):
            yield ARGUMENT, f"a scale of {invalid_scales[0]}"
            return


def _test_cast(call: Call) -> Faults:
    """Test that floats cast to an integer type are in its range. NaN is a fault; infinities are not tested."""
    value, bits = value_of(call, 0), _INTEGER_BITS.get(call.int("to", 0))
    if bits is None or value is None or call.attribute("to") is None:
        return
    min_integer = -(1 << -bits[0]) if bits[0] else 0
    for number in value.data or ():
        # For unsigned types of m bits, numbers from -2**m on are allowed: they wrap in all runtimes, and occur in
        # masks.
        is_tested = isinstance(number, float) and not math.isinf(number)
        if is_tested and not min(min_integer, -(1 << bits[1])) <= number < 1 << bits[1]:
            yield ARGUMENT, f"a cast of {number} to an integer type"
            return


def _test_range(call: Call) -> Faults:
    """Test the numbers of Range: they are finite, and the step is not 0."""
    step = value_of(call, 2)
    if step is not None and step.data == [0]:
        yield ARGUMENT, "a step of 0"
    for value in call.inputs:
        if value.data and not math.isfinite(value.data[0]):
            yield ARGUMENT, f"a start, limit or step of {value.data[0]}"
            return


def _test_slice(call: Call) -> Faults:
    """Test the starts, ends, axes and steps of Slice."""
    if len(starts := integers_of(call, 1)) != len(ends := integers_of(call, 2)) and starts and ends:
        yield ARGUMENT, f"{count_text(len(starts), 'start')} and {count_text(len(ends), 'end')}"
    yield from _test_axis_numbers(integers_of(call, 3), rank_of(call))
    axes, steps = integers_of(call, 3), integers_of(call, 4)
    invalid_steps = [step for step in steps if step in (0, -(1 << 63))]  # 2**63, the negated step, is no int64
    if invalid_steps:
        yield ARGUMENT, f"a step of {invalid_steps[0]:,}"
    if len(set(axes)) < len(axes):
        yield ARGUMENT, "an axis that is listed twice"
    if starts and steps and len(steps) != len(starts):
        yield ARGUMENT, f"{count_text(len(starts), 'start')} and {count_text(len(steps), 'step')}"
    if call.attribute("starts") is not None and call.count("starts") != call.count("ends"):
        yield ARGUMENT, f"{count_text(call.count('starts'), 'start')} and {count_text(call.count('ends'), 'end')}"


def _test_split(call: Call) -> Faults:
    """Test the sizes of the parts of Split and SplitToSequence."""
    if any(number < 0 for number in integers_of(call, 1)):
        yield ARGUMENT, "a part of negative size"
    yield from test_axes(call)
    parts, size = _exact_integers(call, "split", 1) or [], size_of(value_of(call, 0), call.int("axis", 0))
    split_input = value_of(call, 1)
    if call.op_type == "SplitToSequence" and split_input is not None and split_input.shape == ():
        if parts == [0]:  # a scalar is the size of each part
            yield ARGUMENT, "parts of size 0"
        return
    if parts and size is not None and sum(parts) != size:
        yield INDEX, f"sum of sizes {sum(parts):,}"


def _test_top_k(call: Call) -> Faults:
    """Test that k is not empty, is from 0 to 2**31 - 1, and is not greater than the size of the axis."""
    counts = _exact_integers(call, "k", 1) or ([call.int("k", 0)] if call.attribute("k") is not None else [])
    invalid_counts = [k for k in counts if not 0 <= k < 1 << 31]
    if invalid_counts:
        yield ARGUMENT, f"a k of {invalid_counts[0]:,}"
    if size_of(value_of(call, 1), 0) == 0:
        yield ARGUMENT, "an empty k"
    size = size_of(value_of(call, 0), call.int("axis", -1))
    if size is not None and any(k > size for k in counts):
        yield INDEX, f"k {max(counts):,}"


def _test_fill(call: Call) -> Faults:
    """Test the sizes and the value of ConstantOfShape."""
    if any(number < 0 for number in integers_of(call, 0)):
        yield ARGUMENT, "a negative size"
    fill_value = call.attribute("value")
    if fill_value is not None and fill_value.HasField("t") and math.prod(fill_value.t.dims) != 1:
        yield ARGUMENT, "a value that is not one element"


def _test_axes_input(call: Call) -> Faults:
    """Test the axes of operators that have them as input 1 or as an attribute."""
    invalid_axes = [axis for axis in integers_of(call, 1) if not -MAX_RANK <= axis < MAX_RANK]
    if invalid_axes:
        yield ARGUMENT, f"the invalid axis {invalid_axes[0]:,}"
    elif call.op_type == "Unsqueeze":
        axes = integers_of(call, 1) or call.ints("axes") or []
        if len(set(axes)) < len(axes):
            yield ARGUMENT, "an axis that is listed twice"
    else:
        yield from _test_axis_numbers(integers_of(call, 1), rank_of(call))
        yield from test_axes(call)


def _test_rank(call: Call) -> Faults:
    """Test input 1 of Expand, Tile and Reshape: the number and the values of its elements."""
    rank, dims = size_of(value_of(call, 1), 0), integers_of(call, 1)
    if rank is not None and rank > MAX_RANK:
        yield RANK, f"{rank:,}"
    if call.op_type != "Reshape" and min(dims, default=0) < (-1 if call.op_type == "Expand" else 0):
        noun = "repeat count" if call.op_type == "Tile" else "size"
        yield ARGUMENT, f"a {noun} of {min(dims):,}"
    if call.op_type == "Tile" and None not in (rank, rank_of(call)) and rank not in (1, rank_of(call)):
        yield ARGUMENT, f"{rank:,} repeats for an input of rank {rank_of(call):,}"
    if call.op_type == "Reshape" and math.prod(max(dim, 1) for dim in integers_of(call, 1)) >= 1 << 63:
        yield ARGUMENT, "dims whose product is 2**63 or more"


def _test_einsum(call: Call) -> Faults:
    """Test the equation of Einsum: its characters, terms and ranks, the sizes by letter, and the result's letters."""
    n_terms = call.text("equation").partition("->")[0].count(",") + 1
    max_term_chars = max((len(term.strip()) for term in re.split(",|->", call.text("equation"))), default=0)
    if max_term_chars > MAX_RANK + len("..."):
        yield RANK, f"{max_term_chars:,}"
    if call.inputs and n_terms != len(call.inputs):
        yield ARGUMENT, f"an equation of {count_text(n_terms, 'term')} for {count_text(len(call.inputs), 'input')}"

    input_terms, arrow, output_term = call.text("equation").replace(" ", "").partition("->")
    if not _EQUATION.fullmatch(input_terms + arrow + output_term):
        yield ARGUMENT, "an equation with invalid characters"
    sizes: dict[str, int] = {}
    for term, value in zip(input_terms.split(","), call.inputs, strict=False):
        if value.shape is None or value.is_lower_bound:
            continue
        letters = term.replace("...", "")
        if len(letters) > len(value.shape) or (letters == term and len(letters) != len(value.shape)):
            yield ARGUMENT, f"a term {term[:80]!r} for an input of rank {len(value.shape)}"
            return
        for letter, size in zip(letters, value.shape, strict=False) if letters == term else ():
            known_size = sizes.setdefault(letter, size) if size not in (None, 1) else size
            if size not in (None, 1) and known_size != size:
                yield ARGUMENT, f"sizes of {known_size:,} and {size:,} for the letter {letter!r}"
                return
    if arrow and (unbound := set(output_term) - set(input_terms)):
        yield ARGUMENT, f"an equation whose result has the letter {min(unbound)!r}, which is in no term"


def _test_squeeze(call: Call) -> Faults:
    """Test that the axes to remove have the size 1."""
    yield from _test_axes_input(call)
    value = value_of(call, 0)
    for axis in integers_of(call, 1) or call.ints("axes") or ():
        if (size := size_of(value, axis)) not in (None, 1):
            yield ARGUMENT, f"an axis of size {size:,} to remove"
            return


def _test_unsqueeze(call: Call) -> Faults:
    """Test the number of the axes to insert, and that they are in range for the rank of the output."""
    yield from _test_axes_input(call)
    axes, rank = integers_of(call, 1) or call.ints("axes") or [], rank_of(call)
    n_axes = max(size_of(value_of(call, 1), 0) or 0, call.count("axes"))
    if n_axes > MAX_RANK:
        yield RANK, f"{n_axes:,}"
    if rank is not None:
        yield from _test_axis_numbers(axes, rank + len(axes))


def _test_resize_inputs(call: Call) -> Faults:
    """Test the scales, sizes and axes of Resize, and that the lists have the required lengths."""
    yield from _test_resize(call)
    n_axes, rank = call.count("axes"), rank_of(call)
    axes = call.ints("axes") or []
    yield from _test_axis_numbers(axes, rank)
    n_axes = n_axes or (rank or 0)
    for index, needed, noun in ((1, 2 * n_axes, "number"), (2, n_axes, "scale"), (3, n_axes, "size")):
        if index == 1 and call.text("coordinate_transformation_mode") != "tf_crop_and_resize":
            continue
        length = size_of(value_of(call, index), 0)
        if n_axes and length and length != needed and len(call.inputs) > 2:
            yield ARGUMENT, f"{count_text(length, noun)} in input {index} instead of {needed:,}"
            return
    if any(size < 0 for size in integers_of(call, 3)):
        yield ARGUMENT, "a size below 0"


def _test_dft(call: Call) -> Faults:
    """Test the length and the axis of DFT."""
    if any(length <= 0 for length in integers_of(call, 1)):
        yield ARGUMENT, f"a length of {min(integers_of(call, 1)):,}"
    yield from _test_axis_numbers(integers_of(call, 2), rank_of(call))


def _test_reverse_sequence(call: Call) -> Faults:
    """Test the lengths of ReverseSequence, one for each sequence."""
    yield from _test_selected(call)
    batch, n_lengths = size_of(value_of(call, 0), call.int("batch_axis", 1)), size_of(value_of(call, 1), 0)
    if batch is not None and n_lengths is not None and batch != n_lengths:
        yield ARGUMENT, f"{count_text(n_lengths, 'length')} for {count_text(batch, 'sequence')}"


def _shape_test(index: int, rank: int | None = None) -> Callable[[Call], Faults]:
    """Return the test of an operator that has an input of sizes: none is negative, and their number is allowed.

    index: the index of that input. rank: the number of sizes if there is no attribute `axes`; one more is allowed.
    """

    def inspect(call: Call) -> Faults:
        dims = integers_of(call, index)
        if any(dim < 0 for dim in dims):
            yield ARGUMENT, f"a size of {min(dims):,}"
        n_needed = call.count("axes") or rank
        if dims and n_needed and len(dims) not in (n_needed, n_needed + 1):
            yield ARGUMENT, f"{count_text(len(dims), 'size')} instead of {n_needed:,}"

    return inspect


def _test_box_count(call: Call) -> Faults:
    """Test the maximum number of boxes of NonMaxSuppression."""
    if any(number < 0 for number in integers_of(call, 2)):
        yield ARGUMENT, f"a maximum of {min(integers_of(call, 2)):,} boxes"


def _test_coefficients(call: Call) -> Faults:
    """Test the number of coefficients of linear models, and of numbers in the support vectors of SVMs."""
    size = size_of(value_of(call, 0), -1)
    if not size:
        return
    name = "support_vectors" if call.op_type.startswith("SVM") else "coefficients"
    attribute = call.attribute(name)
    length = len(attribute.floats) if attribute is not None else 0
    n_rows = 0
    if name == "support_vectors":
        counts = call.attribute("vectors_per_class")
        n_rows = call.int("n_supports", 0) if counts is None else sum(max(number, 0) for number in counts.ints)
    elif call.op_type == "LinearRegressor":
        n_rows = call.int("targets", 1)
    if length and (length % size or (n_rows > 0 and length != n_rows * size)):
        yield ARGUMENT, f"{count_text(length, 'number')} in {name!r} for {count_text(size, 'feature')}"


def _test_features(call: Call) -> Faults:
    """Test attributes of ai.onnx.ml operators: indices of features, and lists of one number or one per feature."""
    size = size_of(value_of(call, 0), -1)
    if size is None:
        return
    if call.op_type.startswith("TreeEnsemble"):
        attribute = call.attribute("nodes_featureids")
        max_feature = max(attribute.ints, default=0) if attribute is not None else 0
        if max_feature >= size:
            yield INDEX, f"{max_feature:,}"
        return
    for name in ("offset", "scale", "imputed_value_floats", "imputed_value_int64s"):
        attribute = call.attribute(name)
        length = 1 if attribute is None else len(attribute.floats) or len(attribute.ints) or 1
        if length not in (1, size):
            yield ARGUMENT, f"{count_text(length, 'number')} in {name!r} for {count_text(size, 'feature')}"
            return


_AXES_INPUT_OPERATORS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
    "ReduceSumSquare CumSum"
)
_AXIS_OPERATORS = (
    "Transpose Concat Softmax LogSoftmax Hardmax ArgMax ArgMin Flatten LayerNormalization LpNormalization Unique"
)
_EQUATION = re.compile(r"[A-Za-z.,]*(?:->[A-Za-z.]*)?")  # of Einsum, without spaces
# The tests by operator; network_inputs.py has more.
INSPECTORS: dict[str, Callable[[Any], Faults]] = {
    **dict.fromkeys(_INDEX_OPERATORS, _test_selected),
    **dict.fromkeys(_AXES_INPUT_OPERATORS.split(), _test_axes_input),
    **dict.fromkeys(("GatherND", "ScatterND"), _test_index_tuples),
    **dict.fromkeys(("Div", "Mod"), _test_division),
    "Upsample": _test_resize,
    "Resize": _test_resize_inputs,
    "Squeeze": _test_squeeze,
    "Unsqueeze": _test_unsqueeze,
    "GatherElements": _test_elements,
    "ReverseSequence": _test_reverse_sequence,
    "DFT": _test_dft,
    "NonMaxSuppression": _test_box_count,
    "CenterCropPad": _shape_test(1),
    "AffineGrid": _shape_test(1, 4),
    **dict.fromkeys(("LinearRegressor", "LinearClassifier", "SVMRegressor", "SVMClassifier"), _test_coefficients),
    **dict.fromkeys(("Expand", "Tile"), _test_rank),
    **dict.fromkeys(_AXIS_OPERATORS.split(), test_axes),
    **dict.fromkeys(("ScatterElements", "Scatter"), _test_scatter),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), _test_window),
    "MelWeightMatrix": _test_mel_weights,
    "Pad": _test_pad,
    "OneHot": _test_one_hot,
    "Constant": _test_constant,
    "ZipMap": _test_labels,
    "FeatureVectorizer": _test_joined_features,
    "Reshape": _test_reshape,
    "STFT": _test_stft,
    "Col2Im": _test_image_blocks,
    **dict.fromkeys(
        ("TreeEnsembleRegressor", "TreeEnsembleClassifier", "TreeEnsemble", "Scaler", "Imputer"), _test_features
    ),
    **dict.fromkeys(
        ("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength", "ConcatFromSequence"), _test_sequence
    ),
    "MaxUnpool": _test_max_unpool,
    "MaxRoiPool": _test_roi_pool,
    "Compress": _test_compress,
    "BitShift": _test_shift,
    "Cast": _test_cast,
    "Range": _test_range,
    "Slice": _test_slice,
    **dict.fromkeys(("Split", "SplitToSequence"), _test_split),
    "TopK": _test_top_k,
    "ConstantOfShape": _test_fill,
    "Einsum": _test_einsum,
}
