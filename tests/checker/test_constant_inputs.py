"""Tests that inputs and attributes that a kernel does not support are reported, and ordinary ones are not."""

import numpy as np
from each import each
from onnx import TensorProto, helper, numpy_helper

import onnxwire

OPSETS = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3), helper.make_opsetid("com.microsoft", 1)]
FLOATS = np.zeros((2, 3, 4), np.float32)
IMAGE = np.zeros((1, 4, 8, 8), np.float32)


def _model(op, inputs=(), domain="", declared=None, **attributes):
    """Return the bytes of a model of one node.

    inputs: arrays, which become the constants i0, i1, ...; None for an omitted input. declared: the dims of an input x
    of the graph, which is the first input of the node; None for no such input.
    """
    names = [f"i{i}" if array is not None else "" for i, array in enumerate(inputs)]
    tensors = [
        numpy_helper.from_array(np.asarray(array), name) for name, array in zip(names, inputs, strict=True) if name
    ]
    values = []
    if declared is not None:
        names.insert(0, "x")
        values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, declared)]
    node = helper.make_node(op, names, ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", values, [helper.make_tensor_value_info("y", 1, None)], tensors)
    return helper.make_model(graph, opset_imports=OPSETS).SerializeToString()


def _broken_security_rules(data):
    """Return the security rules that a model breaks."""
    return [problem.rule for problem in onnxwire.check(data, untrusted=True, select="security")]


ML_DOMAIN = {"domain": "ai.onnx.ml"}
# Models by a description of an input or attribute, which is invalid in INVALID_MODELS and valid in VALID_MODELS.
INVALID_MODELS = {
    "index of a value of unknown size": _model("Gather", [[1 << 40]], declared=["a", "b"], axis=0),
    "many indices of a value of unknown size": _model("Gather", [np.full(1000, 1 << 40)], declared=["a", "b"]),
    "many tuples": _model("GatherND", [FLOATS, np.full((100, 2), 3)]),
    "elements of another rank": _model("GatherElements", [FLOATS, np.zeros((2, 3), np.int64)]),
    "elements of a longer axis": _model("GatherElements", [FLOATS, np.zeros((2, 9, 4), np.int64)], axis=0),
    "many unpooled": _model("MaxUnpool", [IMAGE, np.full(IMAGE.shape, 1 << 40)], kernel_shape=[2, 2], strides=[2, 2]),
    "unpooled to a shape": _model("MaxUnpool", [IMAGE, np.full(IMAGE.shape, 300), [1, 1, 16, 16]], kernel_shape=[2, 2]),
    "term of a scalar": _model("Einsum", [np.float32(1)], equation="ij->i"),
    "sizes of a letter": _model("Einsum", [np.zeros((2, 3)), np.zeros((4, 2))], equation="ij,jk->ik"),
    "letters": _model("Einsum", [np.zeros(2)], equation="1->1"),
    "negative repeats": _model("Tile", [FLOATS, [1, -1, 1]]),
    "repeats of another rank": _model("Tile", [FLOATS, [2, 2]]),
    "negative sizes": _model("Expand", [FLOATS, [2, -3, 4]]),
    "sizes of other axes": _model("Resize", [IMAGE, None, None, [1, 1]]),
    "scales of other axes": _model("Resize", [IMAGE, None, np.float32([1, 2])]),
    "axis to resize": _model("Resize", [IMAGE, None, None, [1, 1]], axes=[2, 9]),
    "axis to remove": _model("Squeeze", [FLOATS, [1]]),
    "axis to add": _model("Unsqueeze", [FLOATS, [9]]),
    "length of a transform": _model("DFT", [FLOATS, np.int64(-4)]),
    "axis of a transform": _model("DFT", [FLOATS, None, np.int64(7)]),
    "lengths of sequences": _model("ReverseSequence", [FLOATS, [1, 1]]),
    "boxes": _model("NonMaxSuppression", [np.zeros((1, 5, 4), np.float32), np.zeros((1, 2, 9), np.float32)]),
    "number of boxes": _model("NonMaxSuppression", [np.zeros((1, 5, 4), np.float32), np.zeros((1, 2, 5), np.float32),
                                                    [-1]]),
    "regions": _model("RoiAlign", [IMAGE, np.zeros((3, 4), np.float32), [0]]),
    "padded shape": _model("CenterCropPad", [FLOATS, [4, -4]], axes=[0, 1]),
    "size of a grid": _model("AffineGrid", [np.zeros((1, 2, 3), np.float32), [1, 1]]),
    "product": _model("MatMul", [np.zeros((2, 3), np.float32), np.zeros((4, 2), np.float32)]),
    "blocks of an image": _model("Col2Im", [np.zeros((1, 4, 4), np.float32), [4, 4], [2]]),
    "coefficients": _model("LinearRegressor", [FLOATS], coefficients=[1.0] * 7, targets=1, **ML_DOMAIN),
    "vectors": _model("SVMRegressor", [FLOATS], support_vectors=[1.0] * 6, coefficients=[1.0, 1.0], n_supports=2,
                      rho=[0.0], **ML_DOMAIN),
    "sample size": _model("Multinomial", [FLOATS[0]], sample_size=0),
    "time axis": _model("ReverseSequence", [FLOATS, [1, 1, 1]], time_axis=5),
    "threshold": _model("Binarizer", [FLOATS], threshold=float("nan"), **ML_DOMAIN),
    "weights of leaves": _model("TreeEnsembleRegressor", [FLOATS], target_weights=[float("nan")], **ML_DOMAIN),
    "length of an n-gram": _model("NGramRepeatBlock", [[[1]], FLOATS[0]], ngram_size=0, domain="com.microsoft"),
}  # fmt: skip
VALID_MODELS = {
    "index": _model("Gather", [np.full(1000, -5)], declared=["a", "b"]),
    "last index": _model("Gather", [[(1 << 31) - 1]], declared=["a", "b"]),
    "tuples": _model("GatherND", [FLOATS, np.full((100, 2), 1)]),
    "elements": _model("GatherElements", [FLOATS, np.zeros((9, 3, 4), np.int64)], axis=0),
    "unpooled": _model("MaxUnpool", [IMAGE, np.full(IMAGE.shape, 1000)], kernel_shape=[2, 2], strides=[2, 2]),
    "terms": _model("Einsum", [np.zeros((2, 3)), np.zeros((3, 1))], equation="ij, jk -> ik"),
    "terms with more axes": _model("Einsum", [FLOATS, FLOATS], equation="...ij,...kj->...ik"),
    "repeats": _model("Tile", [FLOATS, [1, 2, 0]]),
    "sizes": _model("Resize", [IMAGE, None, None, [4, 4]], axes=[2, 3]),
    "scales": _model("Resize", [IMAGE, None, np.float32([1, 1, 2, 2])]),
    "no region": _model("Resize", [IMAGE, np.zeros(0, np.float32), np.float32([1, 1, 2, 2])]),
    "axis to remove": _model("Squeeze", [IMAGE, [0]]),
    "axis to add": _model("Unsqueeze", [FLOATS, [0, -1]]),
    "transform": _model("DFT", [FLOATS, np.int64(4), np.int64(1)]),
    "lengths": _model("ReverseSequence", [FLOATS, [1, 2, 2]]),
    "boxes": _model("NonMaxSuppression", [np.zeros((1, 5, 4), np.float32), np.zeros((1, 2, 5), np.float32), [3]]),
    "grid": _model("AffineGrid", [np.zeros((1, 3, 4), np.float32), [1, 1, 2, 2, 2]]),
    "vector and matrix": _model("MatMul", [np.zeros(3, np.float32), np.zeros((3, 2), np.float32)]),
    "matrix and vector": _model("MatMul", [np.zeros((2, 3), np.float32), np.zeros(3, np.float32)]),
    "coefficients": _model("LinearRegressor", [FLOATS], coefficients=[1.0] * 8, targets=2, **ML_DOMAIN),
    "vectors": _model("SVMRegressor", [FLOATS], support_vectors=[1.0] * 8, coefficients=[1.0, 1.0], n_supports=2,
                      rho=[0.0], **ML_DOMAIN),
    "expanded": _model("Expand", [FLOATS, [-1, 3, 4]]),
}  # fmt: skip


@each("name", INVALID_MODELS)
def test_an_input_or_attribute_that_a_kernel_does_not_support_is_reported(name):
    assert set(_broken_security_rules(INVALID_MODELS[name])) & {
        "security-resource-index",
        "security-resource-argument",
        "security-attribute-range",
    }


@each("name", VALID_MODELS)
def test_ordinary_inputs_and_attributes_are_accepted(name):
    assert _broken_security_rules(VALID_MODELS[name]) == []


MESSAGES = {
    "'QuantizeLinear' has 2 scales for 1 channel": _model("QuantizeLinear", [IMAGE, np.float32([1, 2])], axis=0),
    "'Conv' has 2 numbers in 'strides' instead of 1": _model(
        "Conv", [np.zeros((1, 1, 8), np.float32), np.zeros((1, 1, 3), np.float32)], strides=[1, 1]
    ),
    "a constant of 'GatherElements' is out of range: index 8 along axis 1": INVALID_MODELS["elements of a longer axis"],
    "a constant of 'Compress' is out of range: condition of length 3": _model("Compress", [IMAGE, [True] * 3], axis=0),
}


@each("text", MESSAGES)
def test_messages_name_the_operator_and_use_the_singular_for_one(text):
    messages = [problem.message for problem in onnxwire.check(MESSAGES[text], untrusted=True, select="security")]
    assert any(message.startswith(f"{text};") for message in messages)
