"""Tests inputs and attributes of operators of networks, such as convolution, quantization, attention.

This module has further inspectors (see constant_inputs.py), for operators of ONNX and of com.microsoft.
Sources: docs/Operators.md of onnx 1.23.2, docs/ContribOperators.md of onnxruntime 1.32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onnxwire.checker.constant_inputs import (
    ARGUMENT,
    INDEX,
    TRAINING,
    integers_of,
    rank_of,
    size_of,
    test_axes,
    value_of,
)
from onnxwire.errors import count_text

if TYPE_CHECKING:
    from onnxwire.checker.constant_inputs import Faults
    from onnxwire.checker.shape_operators import Call

_MAX_SEARCH_STEPS = 1 << 20  # maximum value of max_length of BeamSearch and similar operators
# By operator on quantized numbers: the indices of the inputs that are scales.
_SCALES = {
    "QLinearMatMul": (1, 4, 6),
    "QLinearConv": (1, 4, 6),
    "QLinearAdd": (1, 4, 6),
    "QLinearMul": (1, 4, 6),
    "QGemm": (1, 4, 7),
    "MatMulIntegerToFloat": (2, 3),
    "DynamicQuantizeMatMul": (2,),
    "QLinearAveragePool": (1, 3),
    "QLinearGlobalAveragePool": (1, 3),
    "QLinearSigmoid": (1, 3),
    "QLinearLeakyRelu": (1, 3),
    "QLinearSoftmax": (1, 3),
}


def _test_rotary_positions(call: Call) -> Faults:
    """Test the positions of RotaryEmbedding of ONNX, or of com.microsoft, whose inputs are in another order."""
    # Inputs 1 to 3 are cosines, sines and positions in ONNX, and positions, cosines and sines in com.microsoft. Cosines
    # and sines have equal shapes.
    shape_1, shape_2 = ((value_of(call, index) or call.inputs[0]).shape for index in (1, 2))
    position_input, cache_input = (1, 2) if len(call.inputs) > 3 and shape_1 != shape_2 else (3, 1)
    size = size_of(value_of(call, cache_input), 0)
    for number in integers_of(call, position_input) or call.extent(position_input) or ():
        if size is not None and not 0 <= number < size:
            yield INDEX, f"{number:,}"
            return


def _test_cache_lengths(call: Call) -> Faults:
    """Test seqlens_k and total_sequence_length of GroupQueryAttention against the lengths of cache and new values."""
    past_keys, n_new = value_of(call, 3), size_of(value_of(call, 0), 1)
    cache_length = size_of(past_keys, 2)
    is_empty = past_keys is None or (past_keys.shape is None and not past_keys.is_constant and len(call.inputs) <= 4)
    total_lengths = integers_of(call, 6)
    if (
        total_lengths
        and n_new is not None
        and (cache_length is not None or is_empty)
        and not 0 <= total_lengths[0] <= (cache_length or 0) + n_new
    ):
        yield INDEX, f"{total_lengths[0]:,}"
        return
    for number in integers_of(call, 5) if cache_length is not None else ():
        if not 0 <= number < (cache_length or 0) + (n_new or 1):
            yield INDEX, f"{number:,}"
            return


def _test_quantization(call: Call) -> Faults:
    """Test the axis and scales of QuantizeLinear and DequantizeLinear.

    Scales have to be positive and finite. An operator has a single scale, or one for each channel or block.
    """
    yield from test_axes(call) if size_of(value_of(call, 1), 0) is not None else ()
    scales = value_of(call, 1)
    invalid_scales = [] if scales is None else [scale for scale in scales.data or () if not 0 < scale < math.inf]
    if invalid_scales:
        yield ARGUMENT, f"a scale of {invalid_scales[0]}"
    if scales is None or not scales.shape or scales.is_lower_bound:
        return
    axis, block_size = call.int("axis", 1), call.int("block_size", 0)
    size = size_of(value_of(call, 0), axis)
    if block_size:
        count = size_of(scales, axis)
        if block_size > 0 and size is not None and count is not None and -(-size // block_size) != count:
            yield (
                ARGUMENT,
                f"{count_text(count, 'scale')} for {count_text(size, 'number')} in blocks of {block_size:,}",
            )
        return
    if len(scales.shape) == 1 and size is not None and scales.shape[0] not in (1, None, size):
        yield ARGUMENT, f"{count_text(scales.shape[0], 'scale')} for {count_text(size, 'channel')}"


def _test_scales(call: Call) -> Faults:
    """Test that the scales of an operator on quantized numbers are positive and finite."""
    for index in _SCALES[call.op_type]:
        value = value_of(call, index)
        if size_of(value, 0) == 0:
            yield ARGUMENT, "an empty scale"
            return
        for scale in (value.data or ()) if value is not None else ():
            if not 0 < scale < math.inf:
                yield ARGUMENT, f"a scale of {scale}"
                return


def _test_convolution(call: Call) -> Faults:
    """Test that a convolution's rank and kernel_shape fit the weights, and that its list attributes fit the rank."""
    ranks = {len(value.shape) for value in call.inputs[:2] if value.shape is not None and not value.is_lower_bound}
    if len(ranks) > 1:
        yield ARGUMENT, "a kernel of another rank than its input"
    weights, kernel = value_of(call, 1), call.ints("kernel_shape")
    if kernel and weights is not None and weights.shape is not None and not weights.is_lower_bound:
        sides = weights.shape[2:]
        if len(kernel) != len(sides) or any(size not in (None, side) for side, size in zip(kernel, sides, strict=True)):
            yield ARGUMENT, f"a kernel_shape of {kernel[:8]} for weights of {list(sides)[:8]}"
    yield from _test_window_lists(call)


def _test_window_lists(call: Call) -> Faults:
    """Test the attributes of convolutions and pools that are lists of one or two numbers for each axis of the image.

    The pads of pools have to be smaller than the window.
    """
    rank = rank_of(call)
    kernel = call.ints("kernel_shape") or []
    n = rank - 2 if rank is not None else len(kernel)
    for name, length in {"kernel_shape": n, "strides": n, "dilations": n, "pads": 2 * n}.items():
        if n > 0 and call.attribute(name) is not None and call.count(name) != length:
            yield ARGUMENT, f"{count_text(call.count(name), 'number')} in {name!r} instead of {length:,}"
            return
    if "Pool" in call.op_type and any(
        pad >= side > 0 for pad, side in zip(call.ints("pads") or (), kernel * 2, strict=False)
    ):
        yield ARGUMENT, "pads as large as its window, or larger"


def _test_search(call: Call) -> Faults:
    """Test max_length of BeamSearch and similar operators, and num_return_sequences against num_beams.

    These operators allocate the memory of all steps before the first one.
    """
    length = integers_of(call, 1)
    if length and not 0 < length[0] <= _MAX_SEARCH_STEPS:
        yield ARGUMENT, f"a max_length of {length[0]:,}"
    beams, sequences = integers_of(call, 3), integers_of(call, 4)
    if "Beam" in call.op_type and beams and sequences and sequences[0] > beams[0]:
        yield ARGUMENT, f"{count_text(sequences[0], 'sequence')} from {count_text(beams[0], 'beam')}"


def _test_heads(call: Call) -> Faults:
    """Test the numbers of heads, the sizes of the projections and past_sequence_length of attention operators."""
    heads, kv_heads = call.int("q_num_heads", 0), call.int("kv_num_heads", 0)
    heads = heads or (call.int("num_heads", 0) if kv_heads else 0)
    if kv_heads > 0 and heads % kv_heads:
        yield ARGUMENT, f"{count_text(heads, 'head')}, not a multiple of the {kv_heads:,} heads of keys"
    size, n_heads = size_of(value_of(call, 0), -1), call.int("num_heads", 0)
    is_projected = call.op_type in ("Attention", "QAttention") and n_heads > 0
    if (
        call.op_type == "MultiHeadAttention"
        and rank_of(call) == 3
        and n_heads > 0
        and size is not None
        and size % n_heads
    ):
        yield ARGUMENT, f"{n_heads:,} heads for a hidden size of {size:,}"
    columns = size_of(value_of(call, 1), 1)
    if is_projected and columns is not None:
        sizes = call.ints("qkv_hidden_sizes") or [columns // 3] * 3
        if len(sizes) != 3 or sum(sizes) != columns:
            yield ARGUMENT, f"weights of {count_text(columns, 'column')} for projections of {sizes[:8]}"
    past_lengths = integers_of(call, 7) if call.op_type == "DecoderMaskedMultiHeadAttention" else []
    cache_length = size_of(value_of(call, 5), 2)
    if past_lengths and cache_length is not None and not 0 <= past_lengths[0] < cache_length:
        yield INDEX, f"{past_lengths[0]:,}"


def _test_experts(call: Call) -> Faults:
    """Test that MoE and QMoE have at least the number of experts that they select."""
    experts = size_of(value_of(call, 1), -1)
    if experts is not None and call.int("k", 1) > experts:
        yield ARGUMENT, f"a choice of {call.int('k', 1):,} of {count_text(experts, 'expert')}"


def _test_packed_weights(call: Call) -> Faults:
    """Test the attributes of MatMulNBits against the sizes of weights, scales and zero points; test group indices."""
    columns, rows, bits = call.int("N", 0), call.int("K", 0), call.int("bits", 4)
    block_size = call.int("block_size", 0)
    if min(columns, rows, bits, block_size) < 1:
        return
    blocks = -(-rows // block_size)
    needed_sizes = {  # by index of the input
        1: columns * blocks * (block_size * bits // 8),  # packed weights
        2: columns * blocks,  # scales
        3: columns * -(-blocks * bits // 8),  # packed zero points
    }
    for index, size in needed_sizes.items():
        value = value_of(call, index)
        if (
            value is not None
            and value.shape
            and None not in value.shape
            and value.size < size
            and not value.is_lower_bound
        ):
            elements = count_text(value.size, "element")
            yield ARGUMENT, f"an input {index} of {elements}, and attributes that need {size:,}"
            return
    for number in integers_of(call, 4) or call.extent(4) or ():
        if not 0 <= number < blocks:
            yield INDEX, f"{number:,}"
            return


def _test_training_mode(call: Call) -> Faults:
    """Report Dropout in training mode: its output is random."""
    mode = value_of(call, 2)
    if mode is not None and mode.data and mode.data[0]:
        yield TRAINING, "training mode"


NETWORK_INSPECTORS: dict[str, Callable[[Any], Faults]] = {
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _test_quantization),
    **dict.fromkeys(_SCALES, _test_scales),
    "RotaryEmbedding": _test_rotary_positions,
    "GroupQueryAttention": _test_cache_lengths,
    "MatMulNBits": _test_packed_weights,
    "Dropout": _test_training_mode,
    **dict.fromkeys(("Conv", "FusedConv", "ConvTranspose"), _test_convolution),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _test_window_lists),
    **dict.fromkeys(("BeamSearch", "WhisperBeamSearch", "GreedySearch", "Sampling"), _test_search),
    **dict.fromkeys(("MoE", "QMoE"), _test_experts),
    **dict.fromkeys(("Attention", "QAttention", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention"), _test_heads),
}
