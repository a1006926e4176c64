"""Tests of the static evaluation of shapes, values and loops, and of the search for slow regular expressions."""

import numpy as np
import onnx
from each import each
from onnx import TensorProto, helper

import onnxwire
from onnxwire.checker.constant_inputs import ARGUMENT
from onnxwire.checker.facts import Facts
from onnxwire.checker.node_call import Scope
from onnxwire.checker.rules.security_resources import has_slow_repeats
from onnxwire.checker.shape_bounds import ShapeBounds
from onnxwire.checker.small_constants import SmallConstants
from onnxwire.engine.document import Document

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])


def _model(nodes, constants=(), inputs=(X,)):
    """Return the bytes of a model. constants: values by name."""
    tensors = [onnx.numpy_helper.from_array(np.array(value), name) for name, value in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", list(inputs), [], tensors)
    return helper.make_model(graph).SerializeToString()


def _node(op, inputs, output="y", **attributes):
    """Return a node with one output."""
    return helper.make_node(op, inputs, [output], **attributes)


def _doubling_nodes(count):
    """Return a chain of nodes, from v0 on, each of which doubles the size of the previous value."""
    return [_node("Concat", [f"v{i}", f"v{i}"], f"v{i + 1}", axis=0) for i in range(count)]


# The header of an image of 100,000 x 100,000 pixels.
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (100_000).to_bytes(4, "big") * 2
LARGE_VALUE_MODELS = {
    "attention": _model(
        [_node("Expand", ["v", "s"], "q"), _node("Attention", ["q", "q", "q"])],
        {"v": np.float32(1), "s": [1, 1, 1 << 20, 8]},
    ),
    "beam search": _model(
        [_node("BeamSearch", ["x", "n", "n", "n", "n"], domain="com.microsoft")], {"n": np.int32(1 << 13)}
    ),
    "cropped images": _model(
        [_node("CropAndResize", ["x", "b", "i", "s"], domain="com.microsoft")],
        {"b": np.zeros((1, 4), np.float32), "i": np.int32([0]), "s": np.int32([1 << 20, 1 << 20])},
    ),
    "distances": _model(
        [_node("Expand", ["v", "s"], "q"), _node("CDist", ["q", "q"], domain="com.microsoft")],
        {"v": np.float32(1), "s": [1 << 20, 4]},
    ),
    "image": _model([_node("ImageDecoder", ["f"])], {"f": np.frombuffer(PNG, np.uint8)}),
    "n-grams": _model([_node("TfIdfVectorizer", ["x"], ngram_indexes=[0, 1 << 40])]),
    "sequence": _model(
        [_node("Expand", ["v", "s"], "q"), _node("SplitToSequence", ["q"])], {"v": np.float32(1), "s": [1 << 26]}
    ),
    "chosen branch": _model(
        [
            _node(
                "If",
                ["c"],
                "s",
                **{
                    f"{name}_branch": helper.make_graph(
                        [_node("Constant", [], "o", value=onnx.numpy_helper.from_array(np.array([size])))],
                        "b",
                        [],
                        [helper.make_tensor_value_info("o", TensorProto.INT64, [1])],
                    )
                    for name, size in (("then", 1 << 40), ("else", 4))
                },
            ),
            _node("ConstantOfShape", ["s"]),
        ],
        {"c": np.bool_(True)},
    ),
    "expand": _model([_node("Expand", ["x", "s"])], {"s": [1 << 40, 4]}),
    "tile": _model([_node("Tile", ["x", "s"])], {"s": [1 << 20, 1 << 20]}),
    "range": _model([_node("Range", ["a", "b", "c"])], {"a": np.int64(0), "b": np.int64(1 << 40), "c": np.int64(1)}),
    "pad": _model([_node("Pad", ["x", "s"])], {"s": [0, 0, 1 << 40, 0]}),
    "resize": _model([_node("Resize", ["x", "", "s"])], {"s": np.array([1e6, 1e6], np.float32)}),
    "doubling": _model(_doubling_nodes(40), {"v0": np.zeros(16, np.float32)}),
    "outer product": _model(
        [_node("ConstantOfShape", ["s"], "a"), _node("Transpose", ["a"], "b"), _node("MatMul", ["a", "b"])],
        {"s": [1 << 20, 1]},
    ),
    "one hot": _model([_node("OneHot", ["i", "d", "v"])], {"i": [1], "d": np.int64(1 << 40), "v": [0, 1]}),
    "random": _model([_node("RandomNormal", [], shape=[1 << 20, 1 << 20])]),
    "folded shape": _model(
        [_node("Pow", ["a", "b"], "p"), _node("Concat", ["p", "p"], "s", axis=0), _node("ConstantOfShape", ["s"])],
        {"a": [1 << 10], "b": [2]},
    ),
    "dims of an empty value": _model(
        [_node("ConstantOfShape", ["s"], "a"), _node("Unsqueeze", ["a", "i"], "b"), _node("Flatten", ["b"], axis=2)],
        {"s": [0, 1 << 62, 8], "i": [0]},
    ),
    "values of unknown rank": _model([_node("Unknown", ["x"], "v0", domain="d"), *_doubling_nodes(40)]),
    "sequences of unknown rank": _model(
        [
            node
            for i in range(40)
            for node in (
                _node("SequenceConstruct", [f"v{i}", f"v{i}"], f"s{i}"),
                _node("ConcatFromSequence", [f"s{i}"], f"v{i + 1}", axis=0),
            )
        ]
    ),
    "after a pool": _model(
        [
            _node("GlobalAveragePool", ["p"], "f"),
            _node("Flatten", ["f"], "r"),
            _node("ReduceMean", ["r"], "v0", axes=[1]),
            *_doubling_nodes(40),
        ],
        {"p": np.zeros((1, 4, 8, 8), np.float32)},
    ),
    "split and cut": _model(
        [
            helper.make_node("Split", ["x", "n"], ["a", "b"], axis=1),
            _node("Slice", ["b", "o", "e", "o", "o"], "v0"),
            *_doubling_nodes(40),
        ],
        {"n": [1, 3], "o": [1], "e": [3]},
    ),
    "attribute": _model([_node("Constant", [], "s", value_ints=[1 << 20, 1 << 20]), _node("ConstantOfShape", ["s"])]),
}
ORDINARY_MODELS = {
    "cast of a weight": _model([_node("Cast", ["w"], to=10)], {"w": np.zeros((64, 64), np.float32)}),
    "declared shape": _model(
        [_node("MatMul", ["q", "k"])],
        inputs=[
            helper.make_tensor_value_info("q", TensorProto.FLOAT, [32, 8192, 64]),
            helper.make_tensor_value_info("k", TensorProto.FLOAT, [32, 64, 8192]),
        ],
    ),
    "unknown shape": _model([_node("Shape", ["x"], "s"), _node("ConstantOfShape", ["s"])]),
    "a few doublings": _model(_doubling_nodes(10), {"v0": np.zeros(16, np.float32)}),
}


def _bounds(data):
    """Return the ShapeBounds of a model in bytes."""
    return Facts(Document(data), onnxwire.ModelProto).derive(ShapeBounds)


def _output_shape(data):
    """Return the dims that ShapeBounds computes for the value y of a model's graph."""
    facts = Facts(Document(data), onnxwire.ModelProto)
    main_graph = facts.GraphProto.under("ModelProto.graph").tolist().index(True)
    scope = Scope(None)
    facts.derive(ShapeBounds)._run_graph(main_graph, scope, [])
    return list(scope.values[facts.find("y")].shape)


def test_elements_of_float16_in_int32_data_are_decoded_from_their_bits():
    tensor = helper.make_tensor("c", TensorProto.FLOAT16, [2], [1.5, -2.0])
    data = helper.make_model(helper.make_graph([], "g", [], [], [tensor])).SerializeToString()
    assert list(tensor.int32_data) == [0x3E00, 0xC000]
    assert SmallConstants(Facts(Document(data), onnxwire.ModelProto)).numbers(0) == [1.5, -2.0]


@each("name", LARGE_VALUE_MODELS)
def test_a_value_that_is_too_large_is_found(name):
    bounds = _bounds(LARGE_VALUE_MODELS[name])
    assert bounds.elements or bounds.overflows


@each("name", ORDINARY_MODELS)
def test_a_value_of_ordinary_size_is_accepted(name):
    bounds = _bounds(ORDINARY_MODELS[name])
    assert not bounds.elements and not bounds.overflows and bounds.total is None


@each("op_type, is_reported", [("Identity", True), ("StringSplit", False)], ids=str)
def test_the_parts_of_a_split_string_do_not_have_the_length_of_the_whole_string(op_type, is_reported):
    nodes = [
        _node("Constant", [], "text", value_string="a " * (1 << 12)),
        _node(op_type, ["text"], "parts"),
        _node("Expand", ["parts", "shape"]),
    ]
    assert bool(_bounds(_model(nodes, {"shape": [1 << 22, 1]})).texts) == is_reported


@each("string, doc_string, is_reported", [("a" * (1 << 13), "", True), ("a", "a" * (1 << 13), False)], ids=str)
def test_the_doc_string_of_a_tensor_does_not_count_as_one_of_its_strings(string, doc_string, is_reported):
    tensor = helper.make_tensor("text", TensorProto.STRING, [1], [string])
    tensor.doc_string = doc_string
    shape = onnx.numpy_helper.from_array(np.array([1 << 18]), "shape")
    graph = helper.make_graph([_node("Expand", ["text", "shape"])], "g", [], [], [tensor, shape])
    texts = _bounds(helper.make_model(graph).SerializeToString()).texts
    assert list(texts.values()) == ([len(string) << 18] if is_reported else [])


def test_a_value_of_more_than_max_elements_elements_is_reported_if_max_elements_is_small():
    data = _model([_node("ConstantOfShape", ["s"])], {"s": [1000]})
    options = {"untrusted": True, "select": "security-resource-elements"}
    assert len(onnxwire.check(data, max_elements=999, **options)) == 1
    assert len(onnxwire.check(data, max_elements=1000, **options)) == 0


def test_small_values_are_counted_in_the_total_of_elements_if_max_elements_is_small():
    """The limit of the total is 16 times max_elements, and each of the values has max_elements elements."""
    nodes = [_node("ConstantOfShape", ["s"], f"y{i}") for i in range(17)]
    options = {"untrusted": True, "max_elements": 1000, "select": "security-resource-total"}
    assert len(onnxwire.check(_model(nodes, {"s": [1000]}), **options)) == 1
    assert len(onnxwire.check(_model(nodes[:16], {"s": [1000]}), **options)) == 0


@each("is_tensor_first", [False, True], ids=str)
@each("shape", [[], [1]], ids=str)
def test_a_tensor_and_a_sequence_as_results_of_if_are_reported(shape, is_tensor_first):
    tensor = helper.make_tensor("", TensorProto.FLOAT, shape, [1.0])
    branches = [
        helper.make_graph([node], "branch", [], [onnx.ValueInfoProto(name="o")])
        for node in (_node("Constant", [], "o", value=tensor), _node("SequenceConstruct", ["x"], "o"))
    ]
    then_branch, else_branch = branches if is_tensor_first else branches[::-1]
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    data = _model([_node("If", ["c"], then_branch=then_branch, else_branch=else_branch)], inputs=(X, condition))
    assert _bounds(data).faults == {ARGUMENT: {0: "a tensor and a sequence as results"}}


def _loop_model(body, trips, condition="c"):
    """Return the bytes of a model with a Loop.

    body: nodes that compute u from v. trips: the trip count, or None. condition: the value of the body that decides
    whether the loop continues.
    """
    graph = helper.make_graph(
        [*body, _node("Identity", [condition], "d")],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("u", TensorProto.FLOAT, None),
        ],
    )
    inputs = ["m" if trips is not None else "", "yes", "v0"]
    constants = {"yes": np.bool_(True), "v0": np.zeros(16, np.float32), "far": np.int64(1 << 60)}
    return _model([_node("Loop", inputs, body=graph)], constants | ({} if trips is None else {"m": np.int64(trips)}))


RELU_NODE = _node("Relu", ["v"], "u")


def test_a_loop_that_doubles_a_value_is_found():
    assert _bounds(_loop_model([_node("Concat", ["v", "v"], "u", axis=0)], 60)).elements


def test_a_loop_that_multiplies_a_size_is_found():
    growing_nodes = [_node("Resize", ["v", "", "scale"], "u"), _node("Constant", [], "scale", value_floats=[1.1])][::-1]
    # 16 elements, multiplied by 1.1 in each iteration, become fewer than 5,000 after 60, and more than 1e17 after 400.
    assert not _bounds(_loop_model(growing_nodes, 60)).elements
    assert _bounds(_loop_model(growing_nodes, 400)).elements
    # The condition always holds, but the trip count ends the loop.
    bounds = _bounds(_loop_model([*growing_nodes, _node("Less", ["i", "far"], "e")], 400, "e"))
    assert bounds.elements and not bounds.endless_loops


@each("trips", [10, 64, 65, 66, 1000])
def test_a_loop_that_adds_to_a_value_adds_in_each_iteration(trips):
    body = [_node("Constant", [], "part", value_floats=[1.0] * 7), _node("Concat", ["v", "part"], "u", axis=0)]
    assert _output_shape(_loop_model(body, trips)) == [16 + 7 * trips]


def test_a_loop_is_endless_if_its_condition_is_known_to_hold():
    assert _bounds(_loop_model([RELU_NODE, _node("Less", ["i", "far"], "e")], None, "e")).endless_loops
    assert not _bounds(_loop_model([RELU_NODE, _node("Greater", ["x", "far"], "e")], None, "e")).endless_loops
    assert (
        _bounds(_loop_model([RELU_NODE], None)).endless_loops
        and not _bounds(_loop_model([RELU_NODE], 100)).endless_loops
    )


def test_a_loop_whose_condition_becomes_false_ends_there():
    body = [
        _node("Concat", ["v", "v"], "u", axis=0),
        _node("Constant", [], "two", value_int=2),
        _node("Less", ["i", "two"], "e"),
    ]
    assert _output_shape(_loop_model(body, 60, "e")) == [16 * 2**3]  # the condition is false when i is 2
    # False after the first iteration only: the loop ends, although the condition would be true later.
    is_later = [RELU_NODE, _node("Constant", [], "zero", value_int=0), _node("Greater", ["i", "zero"], "e")]
    assert not _bounds(_loop_model(is_later, 1 << 60, "e")).endless_loops


def test_the_evaluation_of_nested_loops_stops_when_the_budget_is_exhausted():
    body = [RELU_NODE]
    for _ in range(12):
        graph = onnx.load_from_string(_loop_model(body, 1 << 40)).graph
        body = [*graph.node, RELU_NODE]
    # The evaluation stops soon after the budget is exhausted; without a limit, its cost is exponential in the depth.
    assert _bounds(_loop_model(body, 1 << 40)).budget > -100_000


# By name: nodes that compute y, and the shape of y.
SHAPED_NODES = {
    "axis of OneHot": ([_node("OneHot", ["i", "depth", "off_on"], axis=0)], [5, 2, 3]),
    "last axis of OneHot": ([_node("OneHot", ["i", "depth", "off_on"])], [2, 3, 5]),
    "cropped axes": ([_node("CenterCropPad", ["i", "depth"], axes=[1])], [2, 5]),
    "grid of images": ([_node("AffineGrid", ["theta", "images"])], [2, 4, 5, 2]),
    "sum of no elements and one": ([_node("Add", ["none", "depth"])], [0]),
    "parts of strings": ([_node("StringSplit", ["words"])], [2, None]),
}


@each("name", SHAPED_NODES)
def test_the_evaluated_shape_is_that_of_the_output_of_the_operator(name):
    nodes, expected = SHAPED_NODES[name]
    constants = {
        "i": np.zeros((2, 3), np.int64),
        "depth": np.array([5]),
        "off_on": np.float32([0, 1]),
        "theta": np.zeros((2, 2, 3), np.float32),
        "images": np.array([2, 100, 4, 5]),
        "words": np.array(["a b", "c"], object),
        "none": np.zeros(0, np.int64),
    }
    assert _output_shape(_model(nodes, constants)) == expected


def test_the_elements_of_a_clip_with_an_unknown_limit_are_unknown():
    for limits, is_reported in ((["", "seven"], True), (["", "n"], False)):
        nodes = [
            _node("Size", ["x"], "n"),
            _node("Clip", ["nine", *limits], "index"),
            _node("Gather", ["x", "index"], axis=1),
        ]
        bounds = _bounds(_model(nodes, {"nine": np.int64(9), "seven": np.int64(7)}))
        assert bool(bounds.faults.get("index")) == is_reported


def test_an_index_beyond_a_lower_bound_of_a_dimension_is_not_reported():
    """The size of a Concat with an unknown part is a lower bound, so an index beyond it may be in range."""
    nodes = [
        _node("Concat", ["x", "x"], "v", axis=0),
        _node("Gather", ["v", "i"], axis=0),
    ]
    assert not ShapeBounds(Facts(Document(_model(nodes, {"i": np.int64(3)})), onnxwire.ModelProto)).faults


def test_where_broadcasts_the_elements_that_it_selects():
    nodes = [
        _node("Where", ["true", "a", "b"], "sizes"),
        _node("ConstantOfShape", ["sizes"]),
    ]
    constants = {"true": np.bool_(True), "a": np.array([3]), "b": np.array([1, 2])}
    assert _output_shape(_model(nodes, constants)) == [3, 3]


@each("op_type", ["Expand", "Tile", "Pad", "Reshape", "Squeeze"])
def test_an_axis_or_index_of_an_output_of_unknown_shape_is_not_reported(op_type):
    nodes = [
        _node("Shape", ["x"], "sizes"),
        _node("Concat", ["sizes", "sizes"], "pads", axis=0),
        _node("Slice", ["sizes", "zero", "one"], "axes"),
        _node(op_type, ["v", {"Pad": "pads", "Squeeze": "axes"}.get(op_type, "sizes")], "output"),
        _node("Gather", ["output", "three"], axis=1 if op_type == "Reshape" else 0),
        _node("Transpose", ["output"], "z", perm=[1, 0]),
    ]
    v = np.zeros({"Reshape": 8, "Squeeze": (1, 9, 1)}.get(op_type, (1, 1)), np.float32)
    constants = {"v": v, "zero": np.array([0]), "one": np.array([1]), "three": np.int64(3)}
    assert not _bounds(_model(nodes, constants)).faults


def test_a_resize_to_unknown_sizes_does_not_use_the_region_as_scales():
    nodes = [
        _node("Shape", ["x"], "s"),
        _node("Concat", ["s", "s"], "sizes", axis=0),
        _node("Resize", ["v", "region", "", "sizes"]),
    ]
    constants = {"v": np.zeros((1, 1, 2, 2), np.float32), "region": np.full(8, 1 << 10, np.float32)}
    bounds = _bounds(_model(nodes, constants))
    assert not bounds.elements and not bounds.overflows


@each("n_out_of_range, is_reported", [(1000, True), (1, True), (0, False)], ids=str)
def test_many_indices_are_compared(n_out_of_range, is_reported):
    indices = np.zeros(1000, np.int64)
    indices[:n_out_of_range] = 4
    facts = Facts(Document(_model([_node("Gather", ["x", "i"], axis=1)], {"i": indices})), onnxwire.ModelProto)
    assert bool(ShapeBounds(facts).faults) is is_reported


@each(
    "expression, is_reported",
    [
        ("(a+)+", True),
        ("((a{1,900}){1,900}){1,900}", True),
        ("(a|a)*", True),
        ("(ab|ac)+", True),
        ("(?:a|b|ab)*c", True),
        ("a*a*a*b", True),
        (r"\s*\s*\s*$", True),
        ("a*b*a*", False),
        ("(?:a|b)*", False),
        ("(a|b)*", False),
        ("(a{2})*", False),
        (r"\(a+\)+", False),
        ("[()+*]*", False),
        (r"'s|'t| ?\p{L}+| ?[^\s\p{L}]+|\s+(?!\S)|\s+", False),
        ("(" * 2000 + "a" + ")+" * 2000, True),
    ],
    ids=str,
)
def test_an_expression_that_can_backtrack_excessively_is_found(expression, is_reported):
    assert has_slow_repeats(expression) is is_reported


WEIGHTS = {"w": np.zeros((1, 16, 3), np.float32), "r": np.zeros((1, 16, 4), np.float32)}
SEQUENCE = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["s", 1, 3])


@each("hidden_size, is_reported", [(4, False), (5, True)])
def test_sizes_of_inputs_are_compared_with_attributes(hidden_size, is_reported):
    data = _model([_node("LSTM", ["x", "w", "r"], hidden_size=hidden_size)], WEIGHTS, [SEQUENCE])
    rules = [problem.rule for problem in onnxwire.check(data, untrusted=True, select="security-resource-argument")]
    assert bool(rules) == is_reported


@each("channels, is_reported", [(4, False), (3, True), ("c", False)])
def test_sizes_of_inputs_are_compared_with_other_inputs(channels, is_reported):
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 8, 8])
    data = _model([_node("BatchNormalization", ["x", *"pppp"])], {"p": np.zeros(4, np.float32)}, [image])
    rules = [problem.rule for problem in onnxwire.check(data, untrusted=True, select="security-resource-argument")]
    assert bool(rules) == is_reported
