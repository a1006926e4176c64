"""Benign models that resemble a class of attacks. A checker that reports them raises a false alarm."""
# fmt: off

from __future__ import annotations

import hashlib
import json
import struct

from . import payload_bytes as content
from .case import benign
from .writer import (
    BOOL,
    FLOAT,
    INT4,
    INT8,
    INT32,
    INT64,
    UINT8,
    X,
    Y,
    external,
    function,
    graph,
    integer,
    ints,
    model,
    model_with_extras,
    model_with_weight,
    network,
    node,
    record,
    scalar,
    sparse,
    strings,
    tensor,
    value,
    values,
)

WEIGHTS = struct.pack("<4f", 1, 2, 3, 4)
IDENTITY = graph([node("Identity", ["x"], ["y"])], [X], [Y])
OPSETS = (("", 21), ("local", 1))
MICROSOFT = (("", 21), ("com.microsoft", 1))
ML = (("", 21), ("ai.onnx.ml", 3))
IMAGE = [value("x", FLOAT, [1, 2, 4, 4])]
ROW = [value("x", FLOAT, [1, 4])]
TRUE = scalar("t", True, BOOL)


def sha1(data):
    """Return the hexadecimal SHA-1 digest of bytes, as external_data stores it."""
    return hashlib.sha1(data).hexdigest()


# Readers
benign("plain", "repeated-message", "A model that only adds weights to its input.", model_with_extras())
benign("fields-reversed", "repeated-scalar", "The fields of the model in an unusual order, each once.", record(7,
    IDENTITY) + record(8, record(1, "") + integer(2, 21)) + integer(1, 10))
benign("dimension-names", "oneof-both", "An input with named, fixed and unknown dimensions.", network([node("Identity",
    ["x"], ["y"])], inputs=[value("x", FLOAT, ["batch", 4, None])]))
benign("packed-and-unpacked", "packed-encoding", "float_data is packed, dims are not, as protobuf writes them.",
    model_with_weight(tensor("w", [4], FLOAT, None, record(4, WEIGHTS))))
benign("empty-strings", "overlong-varint", "Optional strings are present and empty.", model(IDENTITY, extra=record(4,
    "") + record(6, "") + integer(5, 0)))
benign("large-version", "high-bits", "model_version is a time stamp in milliseconds.", model(IDENTITY, extra=integer(5,
    1735689600000)))
benign("int32-data-negative", "high-bits", "Negative int32_data, ten bytes each on the wire.", model_with_extras([
    tensor("i", [3], INT32, None, b"".join(integer(5, n) for n in (-1, -2, -3)))]))
benign("int8-in-int32-data", "two-payloads", "An int8 tensor stored in int32_data.", model_with_extras([tensor("i", [3],
    INT8, None, b"".join(integer(5, n) for n in (-1, 2, 3)))]))
benign("attribute-reference", "attribute-two-values", "A function passes its attribute to a node by ref_attr_name.",
    network([node("F", ["x"], ["y"], domain="local", axis=0)], opsets=OPSETS, functions=[function("F", [node("Softmax",
    ["a"], ["b"], extra=record(5, record(1, "axis") + integer(20, 2) + record(21, "axis")))], ["a"], ["b"],
    attributes=["axis"])]))
benign("many-metadata", "duplicate-key", "Twenty metadata entries with different keys.", model(IDENTITY,
    metadata=[(f"key{i}", "value") for i in range(20)]))
benign("overloads", "duplicate-key", "Two functions of one name with different overloads.", network([node("F", ["x"],
    ["y"], domain="local", extra=record(8, "a"))], opsets=OPSETS, functions=[function("F", [node("Neg", ["a"], ["b"])],
    ["a"], ["b"], extra=record(13, name)) for name in ("a", "b")]))
benign("domain-spelled-out", "duplicate-key", "The default domain is imported as ai.onnx only.",
    network([node("Identity", ["x"], ["y"])], opsets=(("ai.onnx", 21),)))
# Resources
benign("constant-of-shape-small", "bomb-fill", "ConstantOfShape makes a mask of 512 x 512.",
    network([node("ConstantOfShape", ["s"], ["c"], value=values(None, [1.0])), node("ReduceSum", ["c"], ["y"],
    keepdims=0)], [ints("s", 512, 512)]))
benign("constant-of-shape-dynamic", "bomb-fill", "ConstantOfShape of the shape of the input.", network([node("Shape",
    ["x"], ["s"]), node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])]))
benign("causal-mask", "bomb-broadcast", "Range, Unsqueeze and LessOrEqual make a causal mask of 1,024 x 1,024.",
    network([node("Range", ["zero", "n", "one"], ["r"]), node("Unsqueeze", ["r", "a0"], ["row"]), node("Unsqueeze",
    ["r", "a1"], ["col"]), node("LessOrEqual", ["row", "col"], ["m"]), node("Cast", ["m"], ["y"], to=FLOAT)],
    [scalar("zero", 0), scalar("n", 1024), scalar("one", 1), ints("a0", 0), ints("a1", 1)], rank=2))
benign("expand-batch", "bomb-broadcast", "Expand of a token to the shape of the input.", network([node("Shape", ["x"],
    ["s"]), node("Expand", ["token", "s"], ["y"])], [values("token", [1.0])]))
benign("tile-small", "bomb-broadcast", "Tile repeats a row 16 times.", network([node("Tile", ["x", "r"], ["y"])],
    [ints("r", 16)]))
benign("position-ids", "bomb-range", "Range from 0 to the size of the input.", network([node("Size", ["x"], ["n"]),
    node("Range", ["zero", "n", "one"], ["r"]), node("Cast", ["r"], ["y"], to=FLOAT)], [scalar("zero", 0),
    scalar("one", 1)]))
benign("upscale", "bomb-resample", "Resize doubles height and width, as in a decoder.",
    network([node("Resize", ["x", "", "f"], ["y"])], [values("f", [1.0, 1.0, 2.0, 2.0])], inputs=IMAGE))
benign("padded-conv", "bomb-resample", "Conv with pads of 3.", network([node("Conv", ["x", "k"], ["y"], pads=[3, 3, 3,
    3])], [values("k", [0.1] * 98, FLOAT, [1, 2, 7, 7])], inputs=IMAGE))
benign("pad-same", "bomb-resample", "Pad by one on each side.", network([node("Pad", ["x", "p"], ["y"])], [ints("p", 0,
    0, 1, 1, 0, 0, 1, 1)], inputs=IMAGE))
benign("concat-heads", "bomb-doubling", "Concat of twelve attention heads.", network([node("Neg", ["x"],
    [f"h{i}"]) for i in range(12)] + [node("Concat", [f"h{i}" for i in range(12)], ["y"], axis=0)]))
benign("pyramid", "bomb-doubling", "Resize and Concat of an image of unknown size, as in a feature pyramid.",
    network([node("Conv", ["x", "k"], ["c0"])] + [layer for i in range(4) for layer in (node("Resize", [f"c{i}", "",
    "f"], [f"r{i}"]), node("Concat", [f"r{i}", f"r{i}"], [f"t{i}"], axis=1), node("Conv", [f"t{i}", "k2"],
    [f"c{i + 1}"]))] + [node("Identity", ["c4"], ["y"])],
    [values("k", [1.0], FLOAT, [1, 1, 1, 1]), values("k2", [1.0, 1.0], FLOAT, [1, 2, 1, 1]), values("f", [1.0, 1.0,
    2.0, 2.0])], inputs=[value("x", FLOAT, ["n", 1, "h", "w"])], rank=4))
benign("dense-blocks", "bomb-doubling", "Five Concat steps as in DenseNet.", network([node("Concat",
    [f"d{i}" if i else "x", "x"], [f"d{i + 1}"], axis=0) for i in range(5)] + [node("Identity", ["d5"], ["y"])]))
benign("sparse-weights", "sparse-bomb", "A sparse initializer of 64 x 64 with sorted indices.",
    model_with_extras(sparse=[sparse("sp", [64, 64], [1.0, 2.0], [5, 4000])]))
benign("empty-tensor", "dims-overflow", "A tensor with a dimension of 0, the optional input roi of Resize.",
    network([node("Resize", ["x", "roi", "f"], ["y"])], [tensor("roi", [0], FLOAT, b""), values("f", [1.0, 1.0, 2.0,
    2.0])], inputs=IMAGE))
benign("int4-weights", "payload-size", "Five int4 elements in three bytes.", model_with_extras([tensor("q", [5], INT4,
    b"\x12\x34\x05")]))
benign("rank-six", "rank-bomb", "A tensor of rank 6.", network([node("Reshape", ["x", "s"], ["r"]), node("Flatten",
    ["r"], ["y"])], [ints("s", 1, 2, 1, 2, 1, 1)], rank=2))
benign("thousand-nodes", "message-flood", "A chain of 1,001 nodes.", network([node("Neg", [f"v{i}" if i else "x"],
    [f"v{i + 1}"]) for i in range(1000)] + [node("Identity", ["v1000"], ["y"])]))
benign("vocabulary", "message-flood", "A string tensor of 5,000 words.", model_with_extras([strings("words",
    [f"word{i}" for i in range(5000)])]))
benign("nested-if", "deep-nesting", "Two nested Ifs.", network([node("If", ["t"], ["y"], then_branch=graph([node("If",
    ["t"], ["r"], then_branch=graph([node("Neg", ["x"], ["a"])], [], [value("a")], name="c"),
    else_branch=graph([node("Abs", ["x"], ["b"])], [], [value("b")], name="d"))], [], [value("r")], name="a"),
    else_branch=graph([node("Identity", ["x"], ["q"])], [], [value("q")], name="b"))], [TRUE]))
benign("email-regex", "text-bomb", "RegexFullMatch with an expression for e-mail addresses.",
    network([node("RegexFullMatch", ["t"], ["m"], pattern=r"[\w.+-]+@[\w-]+\.[a-z]{2,8}"), node("Cast", ["m"], ["y"],
    to=FLOAT)], [strings("t", ["a@example.org"])]))
benign("einsum-attention", "text-bomb", "Einsum bhid,bhjd->bhij.", network([node("Einsum", ["x", "x"], ["y"],
    equation="bhid,bhjd->bhij")], inputs=[value("x", FLOAT, [1, 2, 4, 4])]))


def loop_body(nodes, condition="c"):
    """Return the body of a Loop with one state variable, v. `nodes` make v2, the next state.

    condition: the name of the value that the body returns as its condition; c is the condition input.
    """
    return graph([*nodes, node("Identity", [condition], ["c2"])], [value("i", INT64, []), value("c", BOOL, []),
        value("v", FLOAT, [4])], [value("c2", BOOL, []), value("v2", FLOAT, [4])], name="body")


benign("loop-ten", "endless-loop", "A Loop of ten iterations.", network([node("Loop", ["n", "", "x"], ["y"],
    body=loop_body([node("Add", ["v", "x"], ["v2"])]))], [scalar("n", 10)]))
benign("loop-until", "endless-loop", "A Loop of at most 2^63 - 1 iterations; it ends when its state is large.",
    network([node("Loop", ["n", "t", "x"], ["y"], body=loop_body([node("Exp", ["v"], ["v2"]), node("ReduceMax",
    ["v2"], ["m"], keepdims=0), node("Less", ["m", "limit"], ["go"])], "go"))], [scalar("n", (1 << 63) - 1), TRUE,
    scalar("limit", 100.0, FLOAT)]))
benign("loop-input-count", "endless-loop", "A Loop whose trip count is an input.", network([node("Loop", ["count", "",
    "x"], ["y"], body=loop_body([node("Add", ["v", "x"], ["v2"])]))], inputs=[X, value("count", INT64, [])]))
benign("scan-rows", "endless-loop", "A Scan over the rows of the input.", network([node("Scan", ["x"], ["y"],
    num_scan_inputs=1, body=graph([node("Neg", ["e"], ["z"])], [value("e", FLOAT, [4])], [value("z", FLOAT, [4])],
    name="body"))], inputs=[value("x", FLOAT, [3, 4])], outputs=[value("y", FLOAT, [3, 4])]))
benign("function-chain", "function-bomb",
    "Nine functions, each of which, except the first, calls the one before.", network([node("F8",
    ["x"], ["y"], domain="local")], opsets=OPSETS, functions=[function("F0", [node("Neg", ["a"], ["b"])], ["a"],
    ["b"])] + [function(f"F{i}", [node(f"F{i - 1}", ["a"], ["b"], domain="local")], ["a"], ["b"],
    opsets=OPSETS) for i in range(1, 9)]))
benign("layer-function", "function-bomb", "A function for a layer, called twelve times.", network([node("Layer",
    [f"h{i}" if i else "x"], [f"h{i + 1}"], domain="local") for i in range(12)] + [node("Identity", ["h12"], ["y"])],
    opsets=OPSETS, functions=[function("Layer", [node("Relu", ["a"], ["r"]), node("Add", ["a", "r"], ["b"])], ["a"],
    ["b"])]))
benign("residual", "graph-cycle", "A residual connection.", network([node("Relu", ["x"], ["r"]), node("Add", ["x",
    "r"], ["s"]), node("Relu", ["s"], ["q"]), node("Add", ["s", "q"], ["y"])]))
# Crashes
benign("depthwise", "arithmetic-trap", "Conv with as many groups as channels.", network([node("Conv", ["x", "k"],
    ["y"], group=2)], [values("k", [0.1] * 18, FLOAT, [2, 1, 3, 3])], inputs=IMAGE))
benign("integer-division", "arithmetic-trap", "Div of int64 by 2.", network([node("Shape", ["x"], ["s"]), node("Div",
    ["s", "two"], ["h"]), node("Cast", ["h"], ["y"], to=FLOAT)], [ints("two", 2)]))
benign("optional-inputs", "missing-field", "Clip with an empty first bound.", network([node("Clip", ["x", "", "hi"],
    ["y"])], [scalar("hi", 6.0, FLOAT)]))
benign("untyped-intermediate", "missing-field", "A graph without value_info and with an output of unknown size.",
    network([node("Neg", ["x"], ["v"]), node("Abs", ["v"], ["y"])]))
benign("sequence", "type-confusion", "SequenceConstruct and SequenceAt.",
    network([node("SequenceConstruct", ["x", "x"], ["q"]), node("SequenceAt", ["q", "i"], ["y"])], [scalar("i", 1)]))
benign("gather-last", "index-range", "Gather with index -1.", network([node("Gather", ["x", "i"], ["y"])], [ints("i",
    -1)]))
benign("resize-sizes", "index-range", "Resize of two axes to sizes.", network([node("Resize", ["x", "", "", "s"], ["y"],
    axes=[2, 3])], [ints("s", 8, 8)], inputs=IMAGE, rank=4))
benign("max-unpool", "index-range", "MaxUnpool with the indices of MaxPool.", network([node("MaxPool", ["x"], ["p",
    "i"], kernel_shape=[2, 2], strides=[2, 2]), node("MaxUnpool", ["p", "i"], ["y"], kernel_shape=[2, 2], strides=[2,
    2])], inputs=IMAGE, rank=4))
benign("slice-to-end", "index-range", "Slice to 2^63 - 1, the usual spelling of 'to the end'.", network([node("Slice",
    ["x", "a", "b"], ["y"])], [ints("a", 1), ints("b", (1 << 63) - 1)]))
benign("slice-reverse", "index-range", "Slice from -1 to -2^63 with step -1, which reverses.", network([node("Slice",
    ["x", "a", "b", "ax", "st"], ["y"])], [ints("a", -1), ints("b", -(1 << 63)), ints("ax", 0), ints("st", -1)]))
benign("tree", "tree-ensemble", "A tree with one split.", network([node("TreeEnsembleRegressor", ["x"], ["y"],
    domain="ai.onnx.ml", nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[3, 0, 0],
    nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids=[1, 0, 0],
    nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0],
    target_weights=[1.0, 2.0], n_targets=1)], inputs=ROW, opsets=ML))
benign("scaler", "ml-inconsistent", "Scaler and LinearRegressor as scikit-learn converters write them.",
    network([node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=[0.0] * 4, scale=[1.0] * 4),
    node("LinearRegressor", ["s"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 4, intercepts=[0.5], targets=1)],
    inputs=ROW, opsets=ML))
# Files
benign("external", "path-traversal", "External data in the model's folder, with offset, length and checksum.",
    model_with_weight(external("w", location="external.bin", offset=0, length=16, checksum=sha1(WEIGHTS))), {
    "external.bin": WEIGHTS})
benign("external-two-dots", "path-traversal", "A file name with two dots.", model_with_weight(external("w",
    location="weights..bin", offset=0, length=16, checksum=sha1(WEIGHTS))), {"weights..bin": WEIGHTS})
benign("external-subfolder", "path-absolute", "External data in a nested subfolder.", model_with_weight(external("w",
    location="data/layer.0/weights.bin", offset=0, length=16, checksum=sha1(WEIGHTS))), {
    "data/layer.0/weights.bin": WEIGHTS})
benign("external-percent", "path-expansion", "A file name with a percent sign and a dollar.", model_with_weight(
    external("w", location="100%_$5.bin", offset=0, length=16, checksum=sha1(WEIGHTS))), {"100%_$5.bin": WEIGHTS})
benign("external-japanese", "path-characters", "A file name in Japanese.", model_with_weight(external("w",
    location="\u91cd\u307f.bin", offset=0, length=16, checksum=sha1(WEIGHTS))), {"\u91cd\u307f.bin": WEIGHTS})
benign("external-space", "path-windows", "A file name with a space; its beginning is like the name of a device, CON.",
    model_with_weight(external("w", location="console weights.bin", offset=0, length=16, checksum=sha1(WEIGHTS))),
    {"console weights.bin": WEIGHTS})
benign("external-no-length", "range-beyond-file", "Without offset and length: the tensor is the whole file.",
    model_with_weight(external("w", location="whole.bin", checksum=sha1(WEIGHTS))), {"whole.bin": WEIGHTS})
ALIGNED_DATA = WEIGHTS + bytes(4080) + WEIGHTS
benign("external-aligned", "range-overlap", "Two tensors in one file, aligned to pages with zeros between them.",
    model_with_extras([external("a", location="aligned.bin", offset=0, length=16, checksum=sha1(ALIGNED_DATA)),
    external("b", location="aligned.bin", offset=4096, length=16, checksum=sha1(ALIGNED_DATA))], [node("Add", ["a",
    "b"], ["z"])]), {"aligned.bin": ALIGNED_DATA})
benign("external-shared", "shared-range", "Tied embeddings: two names, one range, the same type and shape.",
    network([node("Add", ["x", "e1"], ["a"]), node("Mul", ["a", "e2"], ["y"])], [external(name, location="tied.bin",
    offset=0, length=16, checksum=sha1(WEIGHTS)) for name in ("e1", "e2")]), {"tied.bin": WEIGHTS})
benign("external-no-checksum", "checksum", "External data without a checksum, as PyTorch writes it.",
    model_with_weight(external("w", location="torch.onnx.data", offset=0, length=16)), {"torch.onnx.data": WEIGHTS})
benign("external-two-files", "path-ambiguous", "Two files with similar names.", model_with_extras([external("a",
    location="part_1.bin", offset=0, length=16, checksum=sha1(WEIGHTS)), external("b", location="part_2.bin", offset=0,
    length=16, checksum=sha1(WEIGHTS[::-1]))], [node("Add", ["a", "b"], ["z"])]), {"part_1.bin": WEIGHTS,
    "part_2.bin": WEIGHTS[::-1]})
benign("external-constant", "path-hidden", "External data in the tensor of a Constant.", network([node("Constant", [],
    ["c"], value=external(None, location="constant.bin", offset=0, length=16, checksum=sha1(WEIGHTS))), node("Add", [
    "x", "c"], ["y"])]), {"constant.bin": WEIGHTS})
# Payloads
benign("weights-random", "payload-encoded", "64 KiB of random weights that the graph uses.", network([node("MatMul",
    ["x", "w"], ["y"])], [tensor("w", [4, 4096], FLOAT, b"".join(struct.pack("<f",
    byte / 256 - 0.5) for byte in content.noise(16384, 7)))]))
benign("quantized-weights", "payload-executable", "Quantized weights in which MZ, PK and 0x7F 0x45 occur by chance.",
    network([node("DequantizeLinear", ["q", "s"], ["d"]), node("MatMul", ["x", "d"], ["y"])], [tensor("q", [4, 1024],
    INT8, content.noise(1000, 8) + b"MZ" + content.noise(1000, 9) + b"PK\3" + content.noise(1000,
    10) + b"\x7fE" + content.noise(1089, 11)), scalar("s", 0.01, FLOAT)]))
benign("zeros", "unused-content", "Used weights that are all zero.", network([node("MatMul", ["x", "w"], ["y"])],
    [tensor("w", [4, 1024], FLOAT, bytes(16384))]))
benign("json-metadata", "payload-script", "Metadata with class names in JSON, as object detectors have.",
    model(IDENTITY, metadata=(("names", json.dumps({str(i): f"class {i}" for i in range(80)})), ("stride", "32"))))
benign("python-dict-metadata", "payload-script",
    "Metadata with the text of a Python dictionary, as Ultralytics writes it.", model(IDENTITY, metadata=(("names",
    "{0: 'person', 1: 'bicycle', 2: 'car'}"), ("imgsz", "[640, 640]"), ("date", "2025-01-01T00:00:00"))))
benign("stack-traces", "payload-script", "Node metadata with source lines, as torch.onnx writes it.",
    network([node("Identity", ["x"], ["y"], extra=record(9, record(1, "pkg.torch.onnx.stack_trace") + record(2,
    'File "/home/user/model.py", line 12, in forward\n    return torch.relu(x)')))]))
benign("doc-string-markdown", "payload-markup", "A doc_string in Markdown with a link and code.", model(IDENTITY,
    extra=record(6,
    "# Model\n\nSee [the paper](https://arxiv.org/abs/1512.03385).\n\n```python\nsession.run(None, {'x': x})\n```\n")))
benign("comparison-names", "payload-markup", "Names with <, > and &.", network([node("Neg", ["x"], ["a<b>&c"]),
    node("Neg", ["a<b>&c"], ["y"])]))
benign("byte-table", "payload-archive", "A used look-up table of all byte values.",
    network([node("Gather", ["table", "i"], ["g"]), node("Cast", ["g"], ["y"], to=FLOAT)], [tensor("table", [256],
    UINT8, bytes(range(256))), ints("i", 1, 2)]))
benign("chat-template", "payload-script", "A chat template in metadata.", model(IDENTITY, metadata=(("chat_template",
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}{% endfor %}"),)))
benign("labels", "payload-pickle", "Labels of a classifier in a string tensor.", model_with_extras([strings("labels",
    ["cat",
    "dog", "os.system", "\u732b"])]))
benign("weights-times-scale", "unused-content", "64 KiB of weights are multiplied by a scale.", network([node("Mul",
    ["w", "s"], ["v"]), node("MatMul", ["x", "v"], ["y"])], [tensor("w", [4, 4096], FLOAT, bytes(65536)), scalar("s",
    0.5, FLOAT)]))
benign("weights-in-branch", "unused-content", "A branch reads weights of 64 KiB of the outer graph.",
    network([node("If", ["t"], ["y"], then_branch=graph([node("MatMul", ["x", "w"], ["a"])], [], [value("a")]),
    else_branch=graph([node("Neg", ["x"], ["b"])], [], [value("b")]))], [TRUE, tensor("w", [4, 4096], FLOAT,
    bytes(65536))]))
benign("rounded-weights", "payload-encoded", "Weights that were rounded to 8 bits.", network([node("MatMul", ["x", "w"],
    ["y"])], [tensor("w", [4, 64], FLOAT, b"".join(struct.pack("<f", (i % 255 - 127) / 64) for i in range(256)))]))
benign("hash-metadata", "payload-encoded",
    "Digests in metadata; one begins with the hexadecimal digits of MZ, like a Windows program.",
    model(IDENTITY, metadata=(("sha256", hashlib.sha256(b"weights").hexdigest()), ("md5", "4d5a9000" + "3f" * 12))))
benign("token-list", "payload-script", "A vocabulary with tokens of programs.", model_with_extras([strings("tokens",
    ["<script>", "eval(", "os.system(", "#!/bin", "<?php", "{{", "javascript:", *(f"##{i}" for i in range(100))])]))
benign("model-card", "prompt-injection", "Documentation of a language model.", model(IDENTITY, extra=record(6,
    "This model follows instructions. You are a helpful assistant. The system prompt is optional; users should report "
    "issues. Select a prompt from the list; do not use it for medical advice.")))
benign("chat-roles", "prompt-injection", "A chat template with roles in metadata.", model(IDENTITY,
    metadata=(("chat_template", "{% if m['role'] == 'user' or m['role'] == 'tool' %}<|im_start|>system\nYou are an AI "
    "assistant.<|im_end|>{{ bos_token + m['content'] }}{% endif %}"),)))
# Code
benign("function-of-own-domain", "function-shadows", "A function HardSwish of a domain of its own, for old runtimes.",
    network([node("HardSwish", ["x"], ["y"], domain="my.functions")], opsets=(("", 21), ("my.functions", 1)),
    functions=[function("HardSwish", [node("HardSigmoid", ["a"], ["h"], alpha=0.16666667), node("Mul", ["a", "h"],
    ["b"])], ["a"], ["b"], "my.functions")]))
benign("microsoft-operators", "unknown-domain",
    "FusedMatMul and Gelu of com.microsoft, as onnxruntime's optimizer writes them.", network([node("FusedMatMul",
    ["x", "w"], ["m"], domain="com.microsoft", alpha=0.5), node("Gelu", ["m"], ["y"], domain="com.microsoft")],
    [values("w", [0.1] * 16, FLOAT, [4, 4])], opsets=MICROSOFT))
benign("local-function", "function-shadows", "A function with a name of its own in a domain of its own.",
    network([node("MyRelu", ["x"], ["y"], domain="my.functions")], opsets=(("", 21), ("my.functions", 1)),
    functions=[function("MyRelu", [node("Relu", ["a"], ["b"])], ["a"], ["b"], "my.functions")]))
benign("torch-functions", "function-shadows", "A function of the domain pkg.onnxscript.torch_lib.",
    network([node("aten_relu", ["x"], ["y"], domain="pkg.onnxscript.torch_lib")], opsets=(("", 21),
    ("pkg.onnxscript.torch_lib", 1)), functions=[function("aten_relu", [node("Relu", ["a"], ["b"])], ["a"], ["b"],
    "pkg.onnxscript.torch_lib")]))
benign("url-metadata", "runtime-config", "Metadata with URLs, a version and a license.", model(IDENTITY,
    metadata=(("url", "https://example.org/models/1"), ("version", "8.3.0"), ("license",
    "AGPL-3.0 https://ultralytics.com/license"))))
# Names
benign("names-japanese", "name-look-alike", "Names in Japanese.", network([node("Neg", ["x"], ["\u96a0\u308c\u5c64"],
    name="\u53cd\u8ee2"), node("Neg", ["\u96a0\u308c\u5c64"], ["y"])]))
benign("names-russian", "name-look-alike", "Names in Russian only.", network([node("Neg", ["x"],
    ["\u0441\u043b\u043e\u0439_\u0432\u0435\u0441\u0430"]), node("Neg",
    ["\u0441\u043b\u043e\u0439_\u0432\u0435\u0441\u0430"], ["y"])]))
benign("names-greek-symbols", "name-look-alike", "Names with single Greek letters: \u03b1 and \u0394t.",
    network([node("Neg", ["x"], ["\u03b1"]), node("Neg", ["\u03b1"], ["\u0394t"]), node("Neg", ["\u0394t"], ["y"])]))
benign("names-emoji", "name-invisible", "Names with emoji, one of them joined by a zero-width joiner.",
    network([node("Neg", ["x"], ["\U0001f600"], name="\U0001f469\u200d\U0001f4bb"), node("Neg", ["\U0001f600"],
    ["y"])]))
benign("names-arabic", "name-bidi", "Names in Arabic and Hebrew without controls.", network([node("Neg", ["x"],
    ["\u0648\u0632\u0646"], name="\u05de\u05e9\u05e7\u05dc"), node("Neg", ["\u0648\u0632\u0646"], ["y"])]))
benign("names-paths", "name-length", "Names like paths, as TensorFlow and PyTorch write them.", network([node("Neg",
    ["x"], ["model/layer_1/attention/self/Add:0"], name="/model/layers.0/Neg"), node("Neg",
    ["model/layer_1/attention/self/Add:0"], ["y"])]))
benign("doc-string-lines", "name-control", "A doc_string with line breaks and tabs.", model(IDENTITY, extra=record(6,
    "first line\r\n\tsecond line\n")))
benign("names-numbered", "name-look-alike", "Names that differ by a digit.", network([node("Neg",
    [f"l{i}" if i else "x"], [f"l{i + 1}"]) for i in range(20)] + [node("Identity", ["l20"], ["y"])]))
# Behaviour
benign("attention-mask", "trigger", "Where with a mask from the input.", network([node("Equal", ["x", "zero"], ["m"]),
    node("Where", ["m", "low", "x"], ["s"]), node("Softmax", ["s"], ["y"])], [scalar("zero", 0.0, FLOAT),
    scalar("low", -1e9, FLOAT)]))
benign("relu-by-where", "trigger", "Leaky Relu by Greater and Where.", network([node("Greater", ["x", "zero"], ["m"]),
    node("Mul", ["x", "slope"], ["l"]), node("Where", ["m", "x", "l"], ["y"])], [scalar("zero", 0.0, FLOAT),
    scalar("slope", 0.01, FLOAT)]))
benign("dropout-inference", "random-operator", "Dropout in inference mode.", network([node("Dropout", ["x"], ["y"])]))
benign("non-max-suppression", "runtime-divergence", "NonMaxSuppression of the boxes of a detector.",
    network([node("NonMaxSuppression", ["b", "s", "n", "iou", "t"], ["i"]), node("Cast", ["i"], ["y"], to=FLOAT)],
    [scalar("n", 10), scalar("iou", 0.5, FLOAT), scalar("t", 0.1, FLOAT)], inputs=[value("b", FLOAT, [1, 6, 4]),
    value("s", FLOAT, [1, 1, 6])], rank=2))
