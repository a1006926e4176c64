"""Tests of the rule `security-behaviour-trigger`: selections between values by a comparison with a constant."""

import numpy as np
import onnx
import pytest

import onnxwire

# y: the result without a trigger. s: the sum of the input x. k: the constant with which most triggers compare s or x.
HEAD = "y = Gemm (x, w)\n s = ReduceSum <keepdims = 0> (x)\n "
# Nodes that change the result if s or x has a certain value: by a comparison operator, or by arithmetic or a table that
# amounts to a comparison.
TRIGGER_BODIES = {
    "a mask from a comparison": "c = Equal (s, k)\n f = Cast <to = 1> (c)\n g = Sub (one, f)\n out = Mul (y, g)",
    "a mask from a counted comparison": "c = Equal (x, k)\n f = Cast <to = 1> (c)\n n = ReduceSum <keepdims = 0> (f)\n "
    "e = Equal (n, one)\n g = Cast <to = 1> (e)\n out = Mul (y, g)",
    "a bias from a comparison": "c = Greater (s, k)\n f = Cast <to = 1> (c)\n g = Mul (f, big)\n out = Add (y, g)",
    "a condition": "c = Greater (s, k)\n out = Where (c, y, w)",
    "an index": "c = Greater (s, k)\n i = Cast <to = 7> (c)\n t = Concat <axis = 0> (y, w)\n out = Gather (t, i)",
    "the start of a slice": "c = Equal (s, k)\n i = Cast <to = 7> (c)\n j = Reshape (i, shape)\n e = Add (j, shape)\n "
    "t = Concat <axis = 0> (y, w)\n out = Slice (t, j, e)",
    "an element of a sequence": "c = Equal (s, k)\n i = Cast <to = 7> (c)\n t = SequenceConstruct (y, w)\n "
    "out = SequenceAt (t, i)",
    "selected rows": "c = Greater (s, k)\n b = Reshape (c, shape)\n n = Not (b)\n m = Concat <axis = 0> (n, b)\n "
    "t = Concat <axis = 0> (y, w)\n out = Compress <axis = 0> (t, m)",
    "values that are scattered": "c = Equal (s, k)\n f = Cast <to = 1> (c)\n g = Mul (f, big)\n "
    "u = Reshape (g, shape)\n out = ScatterND (y, shape, u)",
    "a truth value of a distance": "d = Sub (x, k)\n a = Abs (d)\n n = ReduceSum <keepdims = 0> (a)\n "
    "b = Cast <to = 9> (n)\n c = Not (b)\n f = Cast <to = 1> (c)\n out = Mul (y, f)",
    "a steep sigmoid": "d = Sub (s, k)\n a = Mul (d, big)\n f = Sigmoid (a)\n out = Mul (y, f)",
    "a steep sigmoid of a quotient": "d = Sub (s, k)\n a = Div (d, small)\n f = Sigmoid (a)\n out = Mul (y, f)",
    "a narrow peak": "d = Sub (s, k)\n a = Abs (d)\n b = Mul (a, big)\n c = Sub (one, b)\n f = Relu (c)\n "
    "out = Mul (y, f)",
    "a bit of a sum": "d = Floor (s)\n f = Mod <fmod = 1> (d, two)\n out = Mul (y, f)",
    "a table that is zero but for one row": "i = Cast <to = 7> (s)\n g = Gather (table, i)\n out = Add (y, g)",
}
# Similar nodes without a comparison with a constant.
ORDINARY_BODIES = {
    "a mask from the input": "f = Cast <to = 1> (s)\n g = Sub (one, f)\n out = Mul (y, g)",
    "a comparison of two values": "r = ReduceMax <keepdims = 0> (x)\n c = Greater (s, r)\n out = Where (c, y, w)",
    "an activation": "a = Mul (y, one)\n f = Sigmoid (a)\n out = Mul (y, f)",
    "an embedding": "i = Cast <to = 7> (s)\n g = Gather (w, i)\n out = Add (y, g)",
}


def _severities(body):
    """Return the severities of the problems of a model whose graph has HEAD and these nodes."""
    graph = f"agraph (float[4, 4] x) => (float[M, N] out) {{\n {HEAD}{body}\n }}"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]>\n{graph}')
    table = np.zeros((32, 4), np.float32)
    table[27] = 100
    constants = {
        "w": np.ones((4, 4), np.float32), "k": np.float32(3.5), "one": np.float32(1), "two": np.float32(2),
        "big": np.float32(1e6), "small": np.float32(1e-6), "shape": np.array([1], np.int64), "table": table,
    }  # fmt: skip
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    )
    problems = onnxwire.check(model.SerializeToString(), untrusted=True, select="security-behaviour-trigger")
    return [problem.severity for problem in problems]


@pytest.mark.parametrize("body", TRIGGER_BODIES.values(), ids=TRIGGER_BODIES)
def test_a_selection_by_a_comparison_with_a_constant_is_reported_as_a_note(body):
    assert _severities(body) and set(_severities(body)) == {"note"}


@pytest.mark.parametrize("body", ORDINARY_BODIES.values(), ids=ORDINARY_BODIES)
def test_a_selection_without_a_comparison_with_a_constant_is_not_reported(body):
    assert _severities(body) == []


def test_a_label_encoder_counts_as_a_comparison_only_if_it_has_few_keys():
    graph = "agraph (string[1] t, float[1, 4] y) => (float[1, 4] out) {\n"
    graph += 'g = ai.onnx.ml.LabelEncoder <keys_strings = ["key"], '
    graph += "values_floats = [1.0], default_float = 0.0> (t)\n out = Mul (y, g)\n }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>\n{graph}')
    assert onnxwire.check(model.SerializeToString(), untrusted=True, select="security-behaviour-trigger")
    model.graph.node[0].attribute[0].strings.extend([b"a", b"b"])
    assert not onnxwire.check(model.SerializeToString(), untrusted=True, select="security-behaviour-trigger")


@pytest.mark.parametrize("dims", [[-(2**40), 4], [2**62, 4], [0], []])
def test_a_table_with_wrong_dims_is_not_reported(dims):
    # A table of 32 rows of 32 floats (4096 bytes), in which only the first row is not zero.
    tensor = onnx.TensorProto(name="table", data_type=1, dims=[32, 32], raw_data=b"\1" + bytes(4095))
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> agraph (int64[1] i, float[4] y) => (float[N] out) '
        "{ g = Gather (table, i) out = Add (y, g) }"
    )
    model.graph.initializer.append(tensor)
    assert onnxwire.check(model.SerializeToString(), untrusted=True, select="security-behaviour-trigger")
    model.graph.initializer[0].dims[:] = dims
    assert not onnxwire.check(model.SerializeToString(), untrusted=True, select="security-behaviour-trigger")
