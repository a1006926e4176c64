"""The queries of the page about a model, tested by calls without a server."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxwire
from onnxwire.errors import PathError
from onnxwire.viewer.queries import Queries

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
MODEL = onnx.load(DIGITS)


@pytest.fixture
def digits():
    """Return the queries of the digits model."""
    return Queries(onnxwire.load(DIGITS))


def queries_of(nodes, **options):
    """Return the queries of a model of these nodes. options: functions, and arguments of `helper.make_graph`."""
    functions = options.pop("functions", [])
    graph = helper.make_graph(nodes, "g", options.pop("inputs", []), options.pop("outputs", []), **options)
    model = helper.make_model(graph, functions=functions)
    return Queries(onnxwire.ModelProto.FromString(model.SerializeToString()))


def chain(length):
    """Return nodes named relu_0, relu_1 and so on, each of which reads the output of the previous node."""
    return [helper.make_node("Relu", [f"x{i}"], [f"x{i + 1}"], name=f"relu_{i}") for i in range(length)]


@pytest.fixture
def nested():
    """Return the queries of a model with a function and with an If whose branches read an outer value."""
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    then_branch = helper.make_graph([helper.make_node("Neg", ["x1"], ["y"], name="inner")], "then", [], [value])
    else_branch = helper.make_graph([helper.make_node("Abs", ["x1"], ["y"])], "else", [], [value])
    branch = helper.make_node("If", ["c"], ["y"], name="branch", then_branch=then_branch, else_branch=else_branch)
    function = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Exp", ["a"], ["b"])], [])
    return queries_of([helper.make_node("Relu", ["x"], ["x1"], name="first"), branch], functions=[function])


def test_outline_lists_graphs_subgraphs_and_functions(nested):
    rows = nested.outline()["rows"]
    assert [(row["path"], row["kind"], row["depth"]) for row in rows] == [
        ("graph", "graph", 0),
        ("graph.node[1].attribute[0].g", "subgraph", 1),
        ("graph.node[1].attribute[1].g", "subgraph", 1),
        ("functions[0]", "function", 0),
    ]
    # `of` is the operator and the name of the node that has the subgraph.
    assert {row["of"] for row in rows} == {"", "If branch"}


def test_nodes_come_in_pages(digits):
    answer = digits.nodes(start=3, count=2)
    assert answer["total"] == len(MODEL.graph.node)
    assert [row["name"] for row in answer["rows"]] == [node.name for node in MODEL.graph.node[3:5]]
    assert digits.nodes(start=1000)["rows"] == []


def test_search_matches_names_operators_and_values(digits):
    def matching_indices(search):
        return [row["index"] for row in digits.nodes(search=search)["rows"]]

    texts = [" ".join([node.op_type, node.name, *node.input, *node.output]).lower() for node in MODEL.graph.node]
    assert matching_indices("CONV") == [index for index, text in enumerate(texts) if "conv" in text]
    weight = MODEL.graph.initializer[0].name
    assert matching_indices(weight) == [i for i, node in enumerate(MODEL.graph.node) if weight in node.input]
    assert matching_indices("conv nothing-like-it") == []


def test_a_hundred_thousand_nodes_are_searched():
    queries = queries_of(chain(100_000))
    answer = queries.nodes(search="relu_99", start=1, count=3)
    assert [row["name"] for row in answer["rows"]] == ["relu_990", "relu_991", "relu_992"]
    assert answer["total"] == 1 + 10 + 100 + 1000


def test_initializers_of_the_main_graph_are_listed_before_other_tensors():
    def constant(name, value):
        return helper.make_node(
            "Constant", [], [name], value=helper.make_tensor("", TensorProto.FLOAT, [2], [value] * 2)
        )

    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [0, 1])
    branch_graph = helper.make_graph([constant("y", 1)], "then", [], [value], initializer=[weight])
    nodes = [constant("k", 2), helper.make_node("If", ["c"], ["z"], then_branch=branch_graph, else_branch=branch_graph)]
    graph = helper.make_graph(nodes, "g", [], [], initializer=[weight])
    function = helper.make_function("own", "F", [], ["k"], [constant("k", 3)], [])
    model = helper.make_model(graph, functions=[function])
    queries = Queries(onnxwire.ModelProto.FromString(model.SerializeToString()))
    rows = queries.tensors()["rows"]
    assert [row["name"] for row in rows] == ["w", "k", "y", "w", "y", "w"]
    assert rows[0]["path"] == "graph.initializer[0]"
    assert rows[3]["path"] == "graph.node[1].attribute[0].g.initializer[0]"
    assert queries.summary()["tensors"]["count"] == len(rows) + 1  # and the tensor in the function
    assert [row["index"] for row in queries.tensors(search="K")["rows"]] == [1]
    assert queries.tensors(start=5)["rows"] == [rows[5]]
    assert [row["name"] for row in queries.tensors("functions[0]")["rows"]] == ["k"]
    assert queries.tensor(rows[1]["path"])["shape"] == [2]


def test_tensors_are_listed_and_searched(digits):
    rows = digits.tensors(search="weight")["rows"]
    assert [row["name"] for row in rows] == [t.name for t in MODEL.graph.initializer if "weight" in t.name]
    assert rows[0]["shape"] == list(MODEL.graph.initializer[rows[0]["index"]].dims)


def test_a_node_lists_the_origins_of_its_inputs(digits):
    index = next(i for i, node in enumerate(MODEL.graph.node) if node.op_type == "Conv")
    node = digits.node(f"graph.node[{index}]")
    assert (node["op_type"], node["name"]) == ("Conv", MODEL.graph.node[index].name)
    assert [value["kind"] for value in node["inputs"]] == ["input", "weight", "weight"]
    assert digits.tensor(node["inputs"][1]["path"])["name"] == MODEL.graph.node[index].input[1]
    assert node["outputs"][0]["consumers"] == [f"graph.node[{index + 1}]"]
    strides = next(attribute for attribute in node["attributes"] if attribute["name"] == "strides")
    assert strides["text"] == "[1, 1]"


def test_a_captured_value_links_to_its_outer_producer(nested):
    node = nested.node("graph.node[1].attribute[0].g.node[0]")
    assert node["inputs"][0] == {"name": "x1", "type": "", "kind": "node", "path": "graph.node[0]"}
    # The If is listed among the consumers of the value.
    assert nested.node("graph.node[0]")["outputs"][0]["consumers"] == ["graph.node[1]"]


def test_subgraphs_are_linked_from_attributes(nested):
    links = [link for attribute in nested.node("graph.node[1]")["attributes"] for link in attribute["links"]]
    assert [(link["kind"], link["path"]) for link in links] == [
        ("graph", "graph.node[1].attribute[0].g"),
        ("graph", "graph.node[1].attribute[1].g"),
    ]


def test_around_contains_the_nodes_within_a_number_of_steps():
    queries = queries_of(chain(9))
    for hops in (0, 1, 3):
        drawing = queries.around("graph.node[4]", hops)
        assert [box["label"] for box in drawing["boxes"] if box["kind"] == "node"] == [
            f"relu_{i}" for i in range(4 - hops, 5 + hops)
        ]
        assert [edge["value"] for edge in drawing["edges"]] == [f"x{i}" for i in range(5 - hops, 5 + hops)]
        assert drawing["boxes"][drawing["focus"]]["label"] == "relu_4"


def test_a_chain_is_drawn_straight_down():
    boxes = queries_of(chain(5)).around("graph.node[2]", 2)["boxes"]
    nodes = [box for box in boxes if box["kind"] == "node"]
    assert len({box["x"] for box in nodes}) == 1
    assert [box["y"] for box in nodes] == sorted(box["y"] for box in nodes)


def test_boxes_never_overlap():
    random = np.random.default_rng(1)
    nodes = [
        helper.make_node("Sum", [f"v{random.integers(max(i, 1))}" for _ in range(3)], [f"v{i + 1}"]) for i in range(60)
    ]
    drawing = queries_of(nodes).around("graph.node[30]", 4)
    boxes = drawing["boxes"]
    assert len(boxes) > 10
    for i, a in enumerate(boxes):
        assert a["x"] - a["width"] / 2 >= -0.1
        assert a["x"] + a["width"] / 2 <= drawing["width"] + 0.1
        for b in boxes[:i]:
            assert abs(a["x"] - b["x"]) >= (a["width"] + b["width"]) / 2 or a["y"] != b["y"]
    for edge in drawing["edges"]:
        assert boxes[edge["from"]]["y"] < boxes[edge["to"]]["y"]


def test_omitted_connections_of_a_node_are_counted():
    nodes = [helper.make_node("Relu", ["x"], ["y"]), *[helper.make_node("Neg", ["y"], [f"n{i}"]) for i in range(500)]]
    drawing = queries_of(nodes).around("graph.node[0]", 1)
    drawn_count = sum(box["op_type"] == "Neg" for box in drawing["boxes"])
    assert drawn_count < 40
    assert drawing["boxes"][drawing["focus"]]["hidden"] == 500 - drawn_count


def test_a_cycle_is_drawn_without_the_edge_back():
    queries = queries_of([helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])])
    drawing = queries.around("graph.node[0]", 3)
    assert [edge["value"] for edge in drawing["edges"]] == ["a"]
    assert queries_of([helper.make_node("Relu", ["a"], ["a"])]).around("graph.node[0]")["edges"] == []


def test_weights_inputs_and_outputs_are_drawn():
    value = helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.ones(2, np.float32), "w")
    queries = queries_of(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        inputs=[value("x", TensorProto.FLOAT, [2])],
        outputs=[value("y", TensorProto.FLOAT, [2])],
        initializer=[weight],
    )
    boxes = queries.around("graph.node[0]")["boxes"]
    assert {(box["kind"], box["label"], box["path"]) for box in boxes if box["kind"] != "node"} == {
        ("input", "x", ""),
        ("weight", "w", "graph.initializer[0]"),
        ("output", "y", ""),
    }


def test_a_tensor_has_its_offset_and_the_number_of_its_consumers(digits):
    tensor = digits.tensor("graph.initializer[0]")
    official_tensor = MODEL.graph.initializer[0]
    data = DIGITS.read_bytes()[tensor["offset"] : tensor["offset"] + tensor["bytes"]]
    assert data == official_tensor.raw_data
    assert tensor["count"] == sum(official_tensor.name in node.input for node in MODEL.graph.node)


def test_raw_returns_the_bytes_of_any_field(digits):
    file = DIGITS.read_bytes()
    for path, expected_bytes in [
        ("", file),
        ("graph", MODEL.graph.SerializeToString()),
        ("graph.node[3]", MODEL.graph.node[3].SerializeToString()),
        ("graph.node[3].op_type", MODEL.graph.node[3].op_type.encode()),
        ("graph.node[3].input[1]", MODEL.graph.node[3].input[1].encode()),
        ("graph.initializer[2].raw_data", MODEL.graph.initializer[2].raw_data),
    ]:
        answer = digits.raw(path, 0, 64)
        assert bytes.fromhex(answer["bytes"]) == expected_bytes[:64]
        assert answer["length"] == len(expected_bytes)
        assert file[answer["offset"] : answer["offset"] + min(64, len(expected_bytes))] == expected_bytes[:64]


def test_raw_returns_a_page_from_the_middle(digits):
    answer = digits.raw("graph.initializer[0].raw_data", 100, 10)
    assert bytes.fromhex(answer["bytes"]) == MODEL.graph.initializer[0].raw_data[100:110]
    assert digits.raw("graph.initializer[0].raw_data", 1 << 40)["bytes"] == ""


def test_raw_returns_bytes_of_a_payload_in_another_file(tmp_path):
    with onnxwire.load(DIGITS) as model:
        onnxwire.save(model, tmp_path / "m.onnx", external="m.data", threshold=0)
    queries = Queries(onnxwire.load(tmp_path / "m.onnx"))
    answer = queries.raw("graph.initializer[1]", 0, 32, payload=True)
    assert answer["file"].endswith("m.data")
    data = (tmp_path / "m.data").read_bytes()[answer["offset"] : answer["offset"] + 32]
    assert bytes.fromhex(answer["bytes"]) == data == MODEL.graph.initializer[1].raw_data[:32]


def test_raw_of_a_payload_without_elements_raises_path_error():
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[0])
    model = onnx.ModelProto(graph=onnx.GraphProto(initializer=[tensor]))
    queries = Queries(onnxwire.ModelProto.FromString(model.SerializeToString()))
    with pytest.raises(PathError, match="no elements"):
        queries.raw("graph.initializer[0]", payload=True)


def test_records_have_their_offsets(digits):
    rows = digits.records("graph.node[3]")["rows"]
    node = MODEL.graph.node[3]
    assert [row["text"] for row in rows if row["name"] == "input"] == [f'"{name}"' for name in node.input]
    file = DIGITS.read_bytes()
    for row in rows:
        if row["wire"] == "bytes":
            raw = digits.raw(row["path"])
            assert (raw["offset"], raw["length"]) == (row["value"], row["length"])
            assert file[row["offset"]] == row["number"] << 3 | 2  # the tag: field number and wire type LEN
    assert digits.records("graph", 2, 3)["rows"][0]["path"] == "graph.node[2]"


def test_unknown_fields_have_records_too():
    # A record of field 15, which ModelProto does not have, with two bytes.
    data = bytes([15 << 3 | 2, 2]) + b"hi" + onnx.ModelProto(ir_version=8).SerializeToString()
    rows = Queries(onnxwire.ModelProto.FromString(data)).records("")["rows"]
    assert (rows[0]["path"], rows[0]["text"], rows[1]["name"]) == (None, '"hi"', "ir_version")


@pytest.mark.parametrize(
    "query",
    [
        lambda queries: queries.node("graph.node[999]"),
        lambda queries: queries.node("graph"),
        lambda queries: queries.around("graph.initializer[0]"),
        lambda queries: queries.tensor("graph.node[0]"),
        lambda queries: queries.nodes("graph.node[0]"),
        lambda queries: queries.raw("graph.nothing"),
        lambda queries: queries.raw("graph.node[0].doc_string"),
        lambda queries: queries.records("graph.name"),
        lambda queries: queries.raw("graph", payload=True),
    ],
)
def test_an_absent_or_unsuitable_element_raises_path_error(digits, query):
    with pytest.raises(PathError):
        query(digits)


def test_many_threads_may_ask_at_once():
    queries = queries_of(chain(3000))
    answers = [[] for _ in range(4)]

    def run_queries(thread_answers):
        for i in range(20):
            thread_answers.append(queries.nodes(search=f"relu_{i}")["total"])
            thread_answers.append(len(queries.around(f"graph.node[{i + 10}]", 1)["boxes"]))

    threads = [threading.Thread(target=run_queries, args=(thread_answers,)) for thread_answers in answers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers[0]) == 40
    assert answers == [answers[0]] * 4


def test_the_documentation_of_an_operator_is_that_of_the_imported_version():
    pytest.importorskip("onnx")
    queries = Queries(onnxwire.load(DIGITS))
    answer = queries.documentation("graph.node[2]")
    assert "consumes an input tensor and a filter" in answer["text"]
    assert answer["version"] == 11


@pytest.mark.parametrize("version", [-1, 0, 1 << 62])
def test_an_operator_that_onnx_does_not_know_has_no_documentation(version):
    model = onnxwire.ModelProto()
    model.opset_import.add(domain="d", version=version)
    model.graph.node.add(op_type="<script>\0", domain="d")
    assert Queries(model).documentation("graph.node[0]") == {"text": "", "version": 0}
