"""Tests constant inputs and attributes of the operators of networks: convolution, quantization, attention, search.

The inspectors are like those of constant_inputs.py, for operators of ONNX and of com.microsoft.
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

_MAX_SEARCH_STEPS = 1 << 20  # of tokens that a search makes
# The inputs of operators on quantized numbers that are scales.
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


def _rotated(call: Call) -> Faults:
    """Test the positions of RotaryEmbedding of ONNX, or of com.microsoft, whose inputs are in another order."""
    # Both caches have one shape; those of ONNX come before the positions.
    positions, cosines = ((value_of(call, index) or call.inputs[0]).shape for index in (1, 2))
    position, cache = (1, 2) if len(call.inputs) > 3 and positions != cosines else (3, 1)
    size = size_of(value_of(call, cache), 0)
    for number in integers_of(call, position) or call.extent(position) or ():
        if size is not None and not 0 <= number < size:
            yield INDEX, f"{number:,}"
            return


def _attended(call: Call) -> Faults:
    """Test the lengths of GroupQueryAttention, which are at most those of the cache and of the new values."""
    past, added = value_of(call, 3), size_of(value_of(call, 0), 1)
    cache = size_of(past, 2)
    is_empty = past is None or (past.shape is None and not past.is_fixed and len(call.inputs) <= 4)
    total = integers_of(call, 6)
    if total and added is not None and (cache is not None or is_empty) and not 0 <= total[0] <= (cache or 0) + added:
        yield INDEX, f"{total[0]:,}"
        return
    for number in integers_of(call, 5) if cache is not None else ():
        if not 0 <= number < (cache or 0) + (added or 1):
            yield INDEX, f"{number:,}"
            return


def _quantized(call: Call) -> Faults:
    yield from test_axes(call) if size_of(value_of(call, 1), 0) is not None else ()
    scales = value_of(call, 1)
    wrong = [] if scales is None else [x for x in scales.data or () if not 0 < x < math.inf]
    if wrong:
        yield ARGUMENT, f"a scale of {wrong[0]}"
    if scales is None or not scales.shape or scales.is_bound:
        return
    axis, block = call.int("axis", 1), call.int("block_size", 0)
    size = size_of(value_of(call, 0), axis)
    if block:
        count = size_of(scales, axis)
        if block > 0 and size is not None and count is not None and -(-size // block) != count:
            yield ARGUMENT, f"{count:,} scales for {size:,} numbers in blocks of {block:,}"
        return
    if len(scales.shape) == 1 and size is not None and scales.shape[0] not in (1, None, size):
        yield ARGUMENT, f"{scales.shape[0]:,} scales for {size:,} channels"


def _scaled(call: Call) -> Faults:
    for index in _SCALES[call.op_type]:
        value = value_of(call, index)
        if size_of(value, 0) == 0:
            yield ARGUMENT, "an empty scale"
            return
        for scale in (value.data or ()) if value is not None else ():
            if not 0 < scale < math.inf:
                yield ARGUMENT, f"a scale of {scale}"
                return


def _convolved(call: Call) -> Faults:
    ranks = {len(value.shape) for value in call.inputs[:2] if value.shape is not None and not value.is_bound}
    if len(ranks) > 1:
        yield ARGUMENT, "a kernel of another rank than its input"
    weights, kernel = value_of(call, 1), call.ints("kernel_shape")
    if kernel and weights is not None and weights.shape is not None and not weights.is_bound:
        sides = weights.shape[2:]
        if len(kernel) != len(sides) or any(size not in (None, side) for side, size in zip(kernel, sides, strict=True)):
            yield ARGUMENT, f"a kernel_shape of {kernel[:8]} for weights of {list(sides)[:8]}"
    yield from _windowed(call)


def _windowed(call: Call) -> Faults:
    """Test the lists of attributes of convolutions and pools, which have a number or two for each axis of the image."""
    rank = rank_of(call)
    kernel = call.ints("kernel_shape") or []
    n = rank - 2 if rank is not None else len(kernel)
    for name, length in {"kernel_shape": n, "strides": n, "dilations": n, "pads": 2 * n}.items():
        if n > 0 and call.attribute(name) is not None and call.count(name) != length:
            yield ARGUMENT, f"{count_text(call.count(name), 'number')} in {name!r} where {length:,} are needed"
            return
    if "Pool" in call.op_type and any(
        pad >= side > 0 for pad, side in zip(call.ints("pads") or (), kernel * 2, strict=False)
    ):
        yield ARGUMENT, "pads as large as its window"


def _searched(call: Call) -> Faults:
    """Test the numbers of BeamSearch and similar operators, which allocate all steps at the start."""
    length = integers_of(call, 1)
    if length and not 0 < length[0] <= _MAX_SEARCH_STEPS:
        yield ARGUMENT, f"a max_length of {length[0]:,}"
    beams, sequences = integers_of(call, 3), integers_of(call, 4)
    if "Beam" in call.op_type and beams and sequences and sequences[0] > beams[0]:
        yield ARGUMENT, f"{sequences[0]:,} sequences from {beams[0]:,} beams"


def _with_heads(call: Call) -> Faults:
    """Test the numbers of heads, and the sizes of the projections, of attention."""
    heads, kv_heads = call.int("q_num_heads", 0), call.int("kv_num_heads", 0)
    heads = heads or (call.int("num_heads", 0) if kv_heads else 0)
    if kv_heads > 0 and heads % kv_heads:
        yield ARGUMENT, f"{heads:,} heads, no multiple of {kv_heads:,} heads of keys"
    size, count = size_of(value_of(call, 0), -1), call.int("num_heads", 0)
    is_projected = call.op_type in ("Attention", "QAttention") and count > 0
    if call.op_type == "MultiHeadAttention" and rank_of(call) == 3 and count > 0 and size is not None and size % count:
        yield ARGUMENT, f"{count:,} heads for a hidden size of {size:,}"
    columns = size_of(value_of(call, 1), 1)
    if is_projected and columns is not None:
        sizes = call.ints("qkv_hidden_sizes") or [columns // 3] * 3
        if len(sizes) != 3 or sum(sizes) != columns:
            yield ARGUMENT, f"weights of {columns:,} columns for projections of {sizes[:8]}"
    past = integers_of(call, 7) if call.op_type == "DecoderMaskedMultiHeadAttention" else []
    cache = size_of(value_of(call, 5), 2)
    if past and cache is not None and not 0 <= past[0] < cache:
        yield INDEX, f"{past[0]:,}"


def _routed(call: Call) -> Faults:
    experts = size_of(value_of(call, 1), -1)
    if experts is not None and call.int("k", 1) > experts:
        yield ARGUMENT, f"a choice of {call.int('k', 1):,} of {experts:,} experts"


def _packed_weights(call: Call) -> Faults:
    """Test the attributes of MatMulNBits against the sizes of its packed weights and scales, and its groups."""
    columns, rows, bits = call.int("N", 0), call.int("K", 0), call.int("bits", 4)
    block = call.int("block_size", 0)
    if min(columns, rows, bits, block) < 1:
        return
    blocks = -(-rows // block)
    needed = {1: columns * blocks * (block * bits // 8), 2: columns * blocks, 3: columns * -(-blocks * bits // 8)}
    for index, size in needed.items():
        value = value_of(call, index)
        if value is not None and value.shape and None not in value.shape and value.size < size and not value.is_bound:
            yield ARGUMENT, f"an input {index} of {value.size:,} elements, and attributes that need {size:,}"
            return
    for number in integers_of(call, 4) or call.extent(4) or ():
        if not 0 <= number < blocks:
            yield INDEX, f"{number:,}"
            return


def _trained(call: Call) -> Faults:
    """Report Dropout in training mode: its output is random."""
    mode = value_of(call, 2)
    if mode is not None and mode.data and mode.data[0]:
        yield TRAINING, "training mode"


NETWORK_INSPECTORS: dict[str, Callable[[Any], Faults]] = {
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), _quantized),
    **dict.fromkeys(_SCALES, _scaled),
    "RotaryEmbedding": _rotated,
    "GroupQueryAttention": _attended,
    "MatMulNBits": _packed_weights,
    "Dropout": _trained,
    **dict.fromkeys(("Conv", "FusedConv", "ConvTranspose"), _convolved),
    **dict.fromkeys(("MaxPool", "AveragePool", "LpPool"), _windowed),
    **dict.fromkeys(("BeamSearch", "WhisperBeamSearch", "GreedySearch", "Sampling"), _searched),
    **dict.fromkeys(("MoE", "QMoE"), _routed),
    **dict.fromkeys(("Attention", "QAttention", "MultiHeadAttention", "DecoderMaskedMultiHeadAttention"), _with_heads),
}
