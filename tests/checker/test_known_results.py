"""Tests of results that are reused for equal nodes and calls, and of the order and recursion of functions."""

from __future__ import annotations

import math

import numpy as np
import onnx
from each import each
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire.checker.constant_inputs import INDEX
from onnxwire.checker.facts import Facts
from onnxwire.checker.function_calls import FunctionCalls
from onnxwire.checker.known_results import _MAX_RESULTS, KnownResults
from onnxwire.checker.rules.security_resources import InlinedSizes
from onnxwire.checker.shape_bounds import ShapeBounds
from onnxwire.checker.shape_values import OMITTED, UNKNOWN, UNKNOWN_CONSTANT, Value
from onnxwire.engine.document import Document

LARGE = 1 << 40  # a size that is reported
DOMAIN = "own"


def _model(nodes, constants=(), functions=(), inputs=("x",)):
    """Return the bytes of a model. constants: arrays by name. inputs: names of inputs of shape [4, 4]."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in inputs],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in dict(constants).items()],
    )
    return helper.make_model(graph, functions=functions, ir_version=10).SerializeToString()


def _bounds(*arguments, **options):
    """Return the ShapeBounds of a model; for the arguments, see `_model`."""
    return Facts(Document(_model(*arguments, **options)), onnxwire.ModelProto).derive(ShapeBounds)


def _function(name, nodes, inputs=(), outputs=(), attributes=()):
    """Return a function of DOMAIN."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, inputs, outputs, nodes, opsets, attributes)


def _call(name, inputs, outputs, **attributes):
    """Return a node that calls a function."""
    return helper.make_node(name, inputs, outputs, domain=DOMAIN, **attributes)


def test_a_fault_is_reported_for_each_of_equal_nodes():
    nodes = [helper.make_node("Gather", ["x", "i"], [f"y{k}"]) for k in range(3)]
    assert _bounds(nodes, {"i": np.int64(9)}).faults[INDEX] == dict.fromkeys(range(3), "9")


@each("order", ["ab", "ba"])
def test_both_of_two_tensors_of_equal_shape_are_read(order):
    arrays = {"a": np.zeros(1000, np.int64), "b": np.full(1000, 9)}
    nodes = [helper.make_node("Gather", ["x", name], [f"y{name}"]) for name in order]
    assert list(_bounds(nodes, arrays).faults[INDEX]) == [order.index("b")]


@each("order", ["ab", "ba"])
def test_tensors_that_a_function_reads_are_read_for_each_call(order):
    arrays = {"a": np.zeros(1000, np.int64), "b": np.full(1000, 9)}
    function = _function("f", [helper.make_node("Gather", ["v", "i"], ["o"])], ["v", "i"], ["o"])
    nodes = [_call("f", ["x", name], [f"y{name}"]) for name in order]
    assert len(_bounds(nodes, arrays, [function]).faults[INDEX]) == 1


@each("order", ["ab", "ba"])
def test_a_call_returns_its_own_tensor(order):
    arrays = {"a": np.zeros(1000, np.int64), "b": np.full(1000, 9)}
    function = _function("f", [helper.make_node("Identity", ["i"], ["o"])], ["i"], ["o"])
    nodes = [_call("f", [name], [f"i{name}"]) for name in order]
    nodes += [helper.make_node("Gather", ["x", f"i{name}"], [f"y{name}"]) for name in order]
    assert list(_bounds(nodes, arrays, [function]).faults[INDEX]) == [2 + order.index("b")]


def test_a_function_is_evaluated_for_each_of_several_different_arguments():
    function = _function("f", [helper.make_node("ConstantOfShape", ["s"], ["o"])], ["s"], ["o"])
    sizes = {"small": np.array([4]), "large": np.array([LARGE])}
    nodes = [_call("f", [name], [f"y{i}"]) for i, name in enumerate(["small", "large", "small"])]
    bounds = _bounds(nodes, sizes, [function])
    assert list(bounds.elements.values()) == [LARGE]


def test_attributes_of_a_call_are_used():
    constant_node = helper.make_node("Constant", [], ["s"])
    constant_node.attribute.append(
        onnx.AttributeProto(name="value_ints", ref_attr_name="size", type=onnx.AttributeProto.INTS)
    )
    function = _function("f", [constant_node, helper.make_node("ConstantOfShape", ["s"], ["o"])], [], ["o"], ["size"])
    nodes = [_call("f", [], [f"y{size}"], size=[size]) for size in (1, LARGE)]
    assert list(_bounds(nodes, functions=[function]).elements.values()) == [LARGE]


def test_the_sum_of_elements_includes_the_outputs_of_each_of_several_equal_nodes_and_calls():
    # The limit of the sum is 16 times the number of elements of one output.
    size = {"s": np.array([1 << 27])}
    nodes = [helper.make_node("ConstantOfShape", ["s"], [f"y{i}"]) for i in range(20)]
    assert _bounds(nodes, size).total is not None and _bounds(nodes[:10], size).total is None
    function_nodes = [
        helper.make_node("Constant", [], ["s"], value_ints=[1 << 27]),
        helper.make_node("ConstantOfShape", ["s"], ["o"]),
    ]
    calls = [_call("f", [], [f"y{i}"]) for i in range(20)]
    function = _function("f", function_nodes, [], ["o"])
    assert _bounds(calls, functions=[function]).total is not None
    assert _bounds(calls[:10], functions=[function]).total is None


def test_all_nodes_are_evaluated_if_their_results_exceed_the_cache():
    n = _MAX_RESULTS + 100
    nodes = [
        helper.make_node("Concat", ["x"] * 2 if not i else [f"v{i - 1}", "x"], [f"v{i}"], axis=0) for i in range(n)
    ]
    nodes.append(helper.make_node("Gather", [f"v{n - 1}", "i"], ["y"]))
    assert not _bounds(nodes, {"i": np.int64(4 * n)}).faults
    assert _bounds(nodes, {"i": np.int64(4 * n + 4)}).faults[INDEX] == {n: f"{4 * n + 4:,}"}


def test_values_that_operators_distinguish_have_different_content_ids():
    results = KnownResults()
    values = [Value((1,), [number]) for number in (1, True, 1.0, 0.0, -0.0)] + [Value(None), Value(()), Value((None,))]
    values += [Value((1,), [1], depends_on_input=True), UNKNOWN, OMITTED, UNKNOWN_CONSTANT]
    for name in ("is_lower_bound", "is_exact", "is_constant", "stored_elements", "text_bytes"):
        values.append(Value((1,), [1]))
        setattr(values[-1], name, 7 if name in ("stored_elements", "text_bytes") else True)
    content_ids = [results.content_id(value) for value in values]
    # Only the content ids of Value(None), which has index 5, and UNKNOWN are equal.
    assert content_ids.index(results.content_id(Value())) == 5 and content_ids[5] == results.content_id(UNKNOWN)
    assert len(set(content_ids)) == len(content_ids) - 1
    assert [results.content_id(value.copy()) for value in values if value is not OMITTED] == [
        content_id for content_id, value in zip(content_ids, values, strict=True) if value is not OMITTED
    ]


def test_the_evaluation_of_a_long_chain_of_functions_stops_once_at_the_limit_of_depth():
    n = 3000
    functions = [_function(f"f{i}", [_call(f"f{i + 1}", ["v"], ["o"])], ["v"], ["o"]) for i in range(n)]
    bounds = _bounds([_call("f0", ["x"], ["y"])], functions=functions)
    assert bounds.results_cache.n_unevaluated_calls == 1
    assert bounds.budget > 0


@each("n", [1, 2, 5])
def test_recursive_functions_are_detected_before_a_limit_ends_their_evaluation(n):
    functions = [
        _function(f"f{i}", [_call(f"f{(i + 1) % n}", ["v"], ["o"]) for _ in range(50)], ["v"], ["o"]) for i in range(n)
    ]
    facts = Facts(Document(_model([_call("f0", ["x"], ["y"])], functions=functions)), onnxwire.ModelProto)
    # Vertex 0 is the main graph, and vertex i + 1 the function fi.
    assert facts.derive(FunctionCalls).recursive == set(range(1, n + 1))
    assert facts.derive(ShapeBounds).results_cache.n_unevaluated_calls == 0


def test_a_function_that_calls_a_recursive_function_has_infinite_size_and_depth():
    functions = [_function("f0", [_call("f1", [], [])]), _function("f1", [_call("f1", [], [])])]
    facts = Facts(Document(_model([_call("f0", [], [])], functions=functions)), onnxwire.ModelProto)
    inlined = facts.derive(InlinedSizes)
    assert inlined.sizes == inlined.depths == [math.inf, math.inf]
    assert inlined.main == inlined.depth == math.inf


def test_the_order_of_functions_is_callees_first():
    functions = [_function("f0", [_call("f1", [], []), _call("f2", [], [])]), _function("f1", [_call("f2", [], [])])]
    functions.append(_function("f2", []))
    facts = Facts(Document(_model([_call("f0", [], [])], functions=functions)), onnxwire.ModelProto)
    calls = facts.derive(FunctionCalls)
    # Vertex 0 is the main graph, and vertex i + 1 the function fi.
    assert calls.order.tolist() == [3, 2, 1, 0] and not calls.recursive


def test_a_chain_of_convolutions_with_padding_does_not_grow():
    """Convolutions whose outputs have the same shape as their inputs share a few cached results."""
    n = 200
    weight = {"w": np.zeros((4, 4, 3, 3), np.float32)}
    attributes = {"kernel_shape": [3, 3], "pads": [1] * 4}
    graph = helper.make_graph(
        [helper.make_node("Conv", [f"v{i}", "w"], [f"v{i + 1}"], **attributes) for i in range(n)],
        "g",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info(f"v{n}", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weight.items()],
    )
    data = helper.make_model(graph, ir_version=10).SerializeToString()
    bounds = Facts(Document(data), onnxwire.ModelProto).derive(ShapeBounds)
    assert not bounds.elements and len(bounds.results_cache._results) < 5
