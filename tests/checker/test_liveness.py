"""Tests that nodes and tensors on which no output depends are found, also in nested graphs and calls of functions."""

import numpy as np
import onnx
from each import each
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire.checker.facts import Facts
from onnxwire.checker.liveness import Liveness
from onnxwire.engine.document import Document

WEIGHT = numpy_helper.from_array(np.zeros(1 << 14, np.float32), "w")  # 64 KiB


def _tensor(number, name="c", shape=()):
    """Return a tensor whose elements are all equal."""
    return numpy_helper.from_array(np.full(shape, number, np.float32), name)


def _node(op, inputs, output, **attributes):
    """Return a node. inputs: names separated by spaces."""
    return helper.make_node(op, inputs.split(), [output], **attributes)


def _graph(nodes, output="y", inputs=(), initializers=(), name="g"):
    """Return a graph of float values with one output."""
    values = [helper.make_tensor_value_info(value, TensorProto.FLOAT, None) for value in (*inputs, output)]
    return helper.make_graph(nodes, name, values[:-1], values[-1:], list(initializers))


def _model(nodes, *initializers, functions=()):
    """Return a model with input x, output y, the weight and other initializers."""
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    graph = _graph(nodes, "y", ["x"], [WEIGHT, *initializers])
    return helper.make_model(graph, opset_imports=domains, functions=functions)


def _function(name, inputs, nodes):
    """Return a function with output r."""
    return helper.make_function("f", name, inputs, ["r"], nodes, [helper.make_opsetid("", 17)])


def _if_node(*nodes, condition="x"):
    """Return an If whose then_branch has these nodes and the output t."""
    return _node(
        "If", condition, "y", then_branch=_graph(nodes, "t"), else_branch=_graph([_node("Neg", "x", "e")], "e")
    )


# Models by how they use the weight w. The output y depends on w in LIVE_WEIGHT_MODELS, not in DEAD_WEIGHT_MODELS.
LIVE_WEIGHT_MODELS = {
    "directly": _model([_node("Add", "x w", "y")]),
    "through nodes": _model([_node("Neg", "w", "a"), _node("Add", "x a", "y")]),
    "by a nested graph": _model([_if_node(_node("Neg", "w", "t"))]),
    "as the output of a nested graph": _model([_node("Neg", "w", "t"), _if_node()]),
    "by a function": _model([_node("F", "x w", "y", domain="f")],
                            functions=[_function("F", ["a", "b"], [_node("Add", "a b", "r")])]),
    "by a nested graph of a function": _model(
        [_node("F", "x w", "y", domain="f")],
        functions=[_function("F", ["a", "b"], [
            _node("If", "a", "r", then_branch=_graph([_node("Neg", "b", "t")], "t"),
                  else_branch=_graph([_node("Neg", "a", "e")], "e"))])]),
    "by a branch that is selected": _model([_if_node(_node("Neg", "w", "t"), condition="c")], _tensor(1)),
    "times one": _model([_node("Mul", "w c", "a"), _node("Add", "x a", "y")], _tensor(1)),
}  # fmt: skip
DEAD_WEIGHT_MODELS = {
    "by nothing": _model([_node("Neg", "x", "y")]),
    "by a node without effect": _model([_node("Neg", "w", "a"), _node("Relu", "a", "b"), _node("Neg", "x", "y")]),
    "by a nested graph of a node without effect": _model(
        [_node("If", "x", "z", then_branch=_graph([_node("Neg", "w", "t")], "t"),
               else_branch=_graph([_node("Neg", "x", "e")], "e")), _node("Neg", "x", "y")]),
    "times zero": _model([_node("Mul", "w c", "a"), _node("Add", "x a", "y")], _tensor(0)),
    "times a vector of zeros": _model([_node("Mul", "c w", "a"), _node("Add", "x a", "y")], _tensor(0, shape=(12,))),
    "times a constant of zero": _model([_node("Constant", "", "c", value=_tensor(0)), _node("Neg", "w", "v"),
                                        _node("Mul", "v c", "a"), _node("Add", "x a", "y")]),
    "by a branch that is not selected": _model([_if_node(_node("Neg", "w", "t"), condition="c")], _tensor(0)),
    "for its shape": _model([_node("Shape", "w", "a"), _node("Expand", "x a", "y")]),
    "with a factor of zero": _model([_node("Gemm", "w x x", "y", alpha=0.0)]),
    "by a function that ignores it": _model([_node("F", "x w", "y", domain="f")],
                                            functions=[_function("F", ["a", "b"], [_node("Neg", "a", "r")])]),
}  # fmt: skip


def _liveness(model):
    """Return the Liveness of a model."""
    return Facts(Document(model.SerializeToString()), onnxwire.ModelProto).derive(Liveness)


def _problems(model):
    """Return the problems of unused payloads."""
    return list(onnxwire.check(model.SerializeToString(), untrusted=True, select="security-payload-unused"))


@each("name", LIVE_WEIGHT_MODELS)
def test_a_weight_that_an_output_depends_on_is_live(name):
    assert not _liveness(LIVE_WEIGHT_MODELS[name]).is_dead_tensor[0]
    assert _problems(LIVE_WEIGHT_MODELS[name]) == []


@each("name", DEAD_WEIGHT_MODELS)
def test_a_weight_that_no_output_depends_on_is_reported(name):
    assert _liveness(DEAD_WEIGHT_MODELS[name]).is_dead_tensor[0]
    assert [problem.path for problem in _problems(DEAD_WEIGHT_MODELS[name])] == ["graph.initializer[0]"]


def test_a_large_constant_that_only_nodes_without_effect_read_is_reported():
    nodes = [_node("Constant", "", "c", value=WEIGHT), _node("Neg", "c", "a"), _node("Add", "x w", "y")]
    assert [problem.path for problem in _problems(_model(nodes))] == ["graph.node[0].attribute[0].t"]


def test_a_large_constant_without_readers_is_reported_if_no_node_has_an_input():
    nodes = [_node("Constant", "", "c", value=WEIGHT), _node("Constant", "", "y", value=_tensor(1))]
    model = helper.make_model(_graph(nodes))
    assert [problem.path for problem in _problems(model)] == ["graph.node[0].attribute[0].t"]


def test_many_small_tensors_without_effect_are_reported_once():
    # 17 tensors of 4 KiB are more than the limit of 64 KiB.
    parts = [_tensor(1, f"p{i}", (1 << 10,)) for i in range(17)]
    assert [problem.path for problem in _problems(_model([_node("Add", "x w", "y")], *parts))] == [
        "graph.initializer[1]"
    ]
    assert _problems(_model([_node("Add", "x w", "y")], *parts[:8])) == []


def test_every_node_of_a_long_chain_without_effect_is_dead():
    n = 20_000  # a quadratic algorithm would take minutes
    chain = [_node("Neg", f"v{i}" if i else "w", f"v{i + 1}") for i in range(n)]
    liveness = _liveness(_model([*chain, _node("Neg", "x", "y")]))
    assert liveness.is_dead_node.sum() == n and liveness.is_dead_tensor[0]


def test_an_empty_model_has_no_rows_of_nodes():
    assert len(_liveness(onnx.ModelProto()).is_dead_node) == 0
