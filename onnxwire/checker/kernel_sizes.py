"""Computes lower bounds of the sizes of outputs and of buffers that kernels allocate; complements `shape_operators.py`.

Most operators here are those of ai.onnx.ml and com.microsoft. A function of an operator returns the Value of its first
output, or of a buffer; None if nothing is known. "Size" in its docstring means the shape in this Value.
Sources: docs/Operators.md and docs/Operators-ml.md of onnx 1.23.2, docs/ContribOperators.md of onnxruntime 1.32.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from onnxwire.checker.shape_operators import OPERATORS, Call
from onnxwire.checker.shape_values import Value

_SEQUENCE_TENSOR_ELEMENTS = 64  # memory overhead of a tensor in a sequence, in elements
_PIXEL_CHANNELS = 3
# If constants alone require this number of elements, the size counts as independent of the graph's inputs.
_MAX_CONSTANT_ELEMENTS = 1 << 20
# The header of a PBM, PGM or PPM image: comments, and width and height as groups.
_PORTABLE_MAP = re.compile(rb"P[1-7]\s+(?:#[^\n]*\n\s*)*(\d{1,18})\s+(\d{1,18})")
# The segment of a JPEG image that begins a frame of 8 bits per sample, with height and width as groups.
_JPEG_FRAME = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(..)(..)", re.S)


def _dims(call: Call, index: int, rank: int | None = None) -> tuple[int | None, ...] | None:
    """Return the dims of an input; None if they are unknown or their number is not `rank`."""
    value = call.value(index)
    if value is None or value.shape is None or (rank is not None and len(value.shape) != rank):
        return None
    return value.shape


def _depends_on_input(call: Call) -> bool:
    """Return whether the size of an input of the node depends on the declared shape of a graph's input."""
    return any(value.depends_on_input for value in call.inputs)


def _value_of_dims(call: Call, *dims: int | None, n_constant: int = 0) -> Value:
    """Return a value with these dims. n_constant: the number of elements that an attribute or constant requires."""
    return Value(dims, None, _depends_on_input(call) and n_constant < _MAX_CONSTANT_ELEMENTS)


def _number(call: Call, index: int, default: int = 1) -> int:
    """Return a constant integer input, at least 1, or the default if it is unknown."""
    value = call.value(index)
    if value is None or value.data is None or len(value.data) != 1 or not math.isfinite(value.data[0]):
        return default
    return max(int(value.data[0]), 1)


def _gather_nd(call: Call) -> Value | None:
    """Return the size of GatherND."""
    input_dims, indices = _dims(call, 0), _dims(call, 1)
    if input_dims is None or not indices or indices[-1] is None:
        return None
    return _value_of_dims(call, *indices[:-1], *input_dims[call.int("batch_dims", 0) + indices[-1] :])


def _feature_extractor(call: Call) -> Value | None:
    """Return the size of ArrayFeatureExtractor."""
    input_dims, indices = _dims(call, 0), call.value(1)
    if input_dims is None or indices is None or indices.shape is None:
        return None
    return _value_of_dims(call, *(input_dims[:-1] or (1,)), max(indices.size, 1))


def _one_hot_encoder(call: Call) -> Value | None:
    """Return the size of OneHotEncoder, with the number of categories as last dim."""
    input_dims = _dims(call, 0)
    categories = max(call.count("cats_int64s"), call.count("cats_strings"), 1)
    return _value_of_dims(call, *(input_dims or ()), categories)


def _tfidf(call: Call) -> Value | None:
    """Return the size of TfIdfVectorizer, whose last dim is one more than the greatest index of an n-gram."""
    indexes, input_dims = call.attribute("ngram_indexes"), _dims(call, 0)
    if indexes is None or not len(indexes.ints):
        return None
    size = max(max(indexes.ints), 0) + 1
    return _value_of_dims(call, *(input_dims or ())[:-1], size, n_constant=size)


def _crop_and_resize(call: Call) -> Value | None:
    """Return the size of CropAndResize: an image of the size crop_size for each box."""
    image, boxes, size = _dims(call, 0), _dims(call, 1), call.ints("crop_size", 3)
    if size is None or len(size) != 2:
        return None
    sides = [max(side, 1) for side in size]
    return _value_of_dims(call, (boxes or (1,))[0], (image or (1, 1))[1], *sides, n_constant=math.prod(sides))


def _roi_align(call: Call) -> Value | None:
    """Return the size of RoiAlign: an image of output_height and output_width for each box."""
    input_dims, boxes = _dims(call, 0, 4), _dims(call, 1, 2)
    channels = input_dims[1] if input_dims is not None else 1
    size = call.int("output_height", 1), call.int("output_width", 1)
    n_boxes = boxes[0] if boxes is not None else 1
    return _value_of_dims(call, n_boxes, channels, *size, n_constant=math.prod(size))


def _grid_sample(call: Call) -> Value | None:
    """Return the size of GridSample."""
    input_dims, grid = _dims(call, 0), _dims(call, 1)
    if input_dims is None or grid is None or len(input_dims) < 3 or len(grid) != len(input_dims):
        return None
    return _value_of_dims(call, *input_dims[:2], *grid[1:-1])


def _recurrent(call: Call) -> Value | None:
    """Return the size of the first output of RNN, GRU or LSTM."""
    input_dims = _dims(call, 0, 3)
    if input_dims is None:
        return None
    size, n_directions = call.int("hidden_size", 1), 2 if call.text("direction") == "bidirectional" else 1
    return _value_of_dims(call, input_dims[0], n_directions, input_dims[1], size, n_constant=size)


def _distances(call: Call) -> Value | None:
    """Return the size of CDist: a number for each pair of rows."""
    left, right = _dims(call, 0, 2), _dims(call, 1, 2)
    return None if left is None or right is None else _value_of_dims(call, left[0], right[0])


def _fused_matmul(call: Call) -> Value | None:
    """Return the size of a product of matrices, either of which may be transposed."""
    left, right = _dims(call, 0), _dims(call, 1)
    if left is None or right is None or len(left) < 2 or len(right) < 2:
        return None
    rows = left[-1 if call.int("transA", 0) else -2]
    columns = right[-2 if call.int("transB", 0) else -1]
    return _value_of_dims(call, *max(left[:-2], right[:-2], key=len), rows, columns)


def _operator_by_attribute(name: str) -> Callable[[Call], Value | None]:
    """Return the function of operators whose output has the value of an attribute as last dim."""

    def function(call: Call) -> Value | None:
        input_dims = _dims(call, 0)
        size = max(call.int(name, 1), 1)
        return _value_of_dims(call, *(input_dims or ())[:-1], size, n_constant=size)

    return function


def _beam_search(call: Call) -> Value:
    """Return the size of the sequences of a search: batch, beams times returned sequences (1 without beams), length."""
    ids = _dims(call, 0)
    beams = 1 if call.op_type in ("GreedySearch", "Sampling") else _number(call, 3) * _number(call, 4)
    length = _number(call, 1)
    return _value_of_dims(call, (ids or (1,))[0], beams, length, n_constant=beams * length)


def _stft(call: Call) -> Value | None:
    """Return the size of STFT: batch, frames, frequencies, and 2 for complex numbers."""
    signal, step = _dims(call, 0), _number(call, 1)
    window = _dims(call, 2, 1)
    length = _number(call, 3, (window[0] or 1) if window is not None else 1)
    if signal is None or len(signal) < 2 or signal[1] is None or signal[1] < length:
        return None
    n_frequencies = length // 2 + 1 if call.int("onesided", 1) else length
    return _value_of_dims(call, signal[0], (signal[1] - length) // step + 1, n_frequencies, 2)


def _attention_scores(call: Call) -> Value | None:
    """Return the size of the scores of attention: a number for each batch element, head and pair of positions."""
    query, key = _dims(call, 0), _dims(call, 1)
    if query is None or len(query) not in (3, 4):
        return None
    if len(query) == 4:
        return _value_of_dims(
            call, query[0], query[1], query[2], key[2] if key is not None and len(key) == 4 else query[2]
        )
    heads = max(call.int("num_heads", 1), call.int("q_num_heads", 1))
    is_projected = call.op_type == "Attention" and call.attribute("num_heads") is not None
    length = key[1] if key is not None and len(key) == 3 and not is_projected else query[1]
    return _value_of_dims(call, query[0], heads, query[1], length)


def _sequence_cost(call: Call) -> Value | None:
    """Return the memory overhead of the tensors of a sequence, which may exceed the size of their elements."""
    input_dims, split_sizes = _dims(call, 0), call.ints("split", 1)
    axis = call.int("axis", 0)
    if input_dims is None or not -len(input_dims) <= axis < len(input_dims):
        return None
    part_size = max(split_sizes[0], 1) if split_sizes is not None and len(split_sizes) == 1 else 1
    n_parts = (
        len(split_sizes) if split_sizes is not None and len(split_sizes) > 1 else (input_dims[axis] or 1) // part_size
    )
    return _value_of_dims(call, n_parts, _SEQUENCE_TENSOR_ELEMENTS)


def _image(call: Call) -> Value | None:
    """Return the size of a decoded image, as stated in the header of the constant image file.

    Only the number of elements matters, so width and height are in any order.
    """
    first_bytes = call.head(0)
    sides: tuple[int, int] | None = None
    if first_bytes[:8] == b"\x89PNG\r\n\x1a\n" and first_bytes[12:16] == b"IHDR":
        sides = int.from_bytes(first_bytes[16:20], "big"), int.from_bytes(first_bytes[20:24], "big")
    elif first_bytes[:4] == b"GIF8":
        sides = int.from_bytes(first_bytes[6:8], "little"), int.from_bytes(first_bytes[8:10], "little")
    elif first_bytes[:2] == b"BM":
        width, height = (int.from_bytes(first_bytes[offset : offset + 4], "little", signed=True) for offset in (18, 22))
        sides = abs(width), abs(height)
    elif first_bytes[:2] == b"\xff\xd8" and (frame := _JPEG_FRAME.search(first_bytes)) is not None:
        sides = int.from_bytes(frame[1], "big"), int.from_bytes(frame[2], "big")
    elif first_bytes[:4] == b"RIFF" and first_bytes[12:16] == b"VP8X":
        sides = int.from_bytes(first_bytes[24:27], "little") + 1, int.from_bytes(first_bytes[27:30], "little") + 1
    elif (text_header := _PORTABLE_MAP.match(first_bytes)) is not None:
        sides = int(text_header[1]), int(text_header[2])
    if sides is None:
        return None
    return Value((*sides, 1 if call.text("pixel_format") == "Grayscale" else _PIXEL_CHANNELS))


def _position_bias(call: Call) -> Value:
    """Return the size of RelativePositionBias: two lengths, which are inputs, and 1 for the unknown number of heads."""
    lengths = _number(call, 1), _number(call, 2)
    return _value_of_dims(call, 1, 1, *lengths, n_constant=math.prod(lengths))


OPERATORS_OF_LIBRARIES: dict[str, Callable[[Call], Value | None]] = {
    "GatherND": _gather_nd,
    "ArrayFeatureExtractor": _feature_extractor,
    "OneHotEncoder": _one_hot_encoder,
    "TfIdfVectorizer": _tfidf,
    "CropAndResize": _crop_and_resize,
    "RoiAlign": _roi_align,
    "GridSample": _grid_sample,
    "RNN": _recurrent,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "CDist": _distances,
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul,
    "FusedGemm": OPERATORS["Gemm"],
    "GemmFastGelu": OPERATORS["MatMul"],
    "MatMulNBits": _operator_by_attribute("N"),
    "MatMulBnb4": _operator_by_attribute("N"),
    "MatMulFpQ4": _operator_by_attribute("N"),
    "BeamSearch": _beam_search,
    "WhisperBeamSearch": _beam_search,
    "GreedySearch": _beam_search,
    "Sampling": _beam_search,
    "RelativePositionBias": _position_bias,
    "UnfoldTensor": _operator_by_attribute("size"),
    "STFT": _stft,
    "ImageDecoder": _image,
    "DecodeImage": _image,
    "FusedConv": OPERATORS["Conv"],
    "NhwcMaxPool": OPERATORS["MaxPool"],
    "DeformConv": OPERATORS["Conv"],
}
# Buffers that a kernel allocates besides its outputs.
BUFFERS: dict[str, Callable[[Call], Value | None]] = {
    "Attention": _attention_scores,
    "MultiHeadAttention": _attention_scores,
    "DecoderMaskedMultiHeadAttention": _attention_scores,
    "GroupQueryAttention": _attention_scores,
    "QAttention": _attention_scores,
    "SplitToSequence": _sequence_cost,
}
# Operators whose output may be larger than the size that their function above returns.
INEXACT_SIZE_LIBRARY_OPERATORS = (
    "RelativePositionBias", "UnfoldTensor", "FusedConv", "NhwcMaxPool", "DeformConv", "BeamSearch", "WhisperBeamSearch",
    "GreedySearch", "Sampling", "MatMulNBits", "MatMulBnb4", "MatMulFpQ4", "FusedMatMul", "FusedMatMulActivation",
    "TransposeMatMul", "TfIdfVectorizer", "RNN", "GRU", "LSTM", "OneHotEncoder", "CropAndResize", "RoiAlign",
    "ArrayFeatureExtractor",
)  # fmt: skip
# Operators for which the lengths of output strings are estimated from the strings of the inputs: see `ShapeBounds`.
# StringSplit and Tokenizer are absent: their strings are parts of those of the input.
TEXT_OPERATORS = frozenset(
    ("Identity", "Reshape", "Expand", "Tile", "Gather", "GatherElements", "GatherND", "Concat", "Where", "Squeeze",
     "Unsqueeze", "Transpose", "Flatten", "StringNormalizer", "StringConcat", "Slice", "Split", "Pad", "If",
     "Loop", "Scan", "Cast", "Compress", "ScatterElements", "ScatterND", "Unique")
)  # fmt: skip
