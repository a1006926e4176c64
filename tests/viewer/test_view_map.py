"""The map of a model, tested by calls without a server: groups, repetitions, edges, positions of nodes, routes."""

from __future__ import annotations

import threading
from pathlib import Path

import onnx
import pytest
from graphs import layered_model
from onnx import TensorProto, helper

import onnxwire
from onnxwire.errors import PathError
from onnxwire.viewer.graph_layout import lay_out
from onnxwire.viewer.map_columns import MapColumns
from onnxwire.viewer.map_groups import Groups
from onnxwire.viewer.queries import Queries

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"


def queries_of(nodes, **options):
    """Return the queries of a model of these nodes. options: functions, and arguments of `helper.make_graph`."""
    functions = options.pop("functions", [])
    graph = helper.make_graph(nodes, "g", options.pop("inputs", []), options.pop("outputs", []), **options)
    return Queries(onnxwire.ModelProto.FromString(helper.make_model(graph, functions=functions).SerializeToString()))


def test_values_without_a_name_are_not_connected():
    nameless_info = helper.make_tensor_value_info("", TensorProto.FLOAT, [3])
    nameless_info.ClearField("name")
    input_info = helper.make_tensor_value_info("x", TensorProto.INT64, [1])
    nodes = [
        helper.make_node("Split", ["x", ""], ["", "a"], name="first"),
        helper.make_node("Neg", ["a"], ["y"], name="second"),
        helper.make_node("Split", ["y"], ["", "z"], name="third"),
        helper.make_node("Add", ["", "z"], ["last"], name="fourth"),
    ]
    tensor = helper.make_tensor("", TensorProto.INT8, [1], [1])
    tensor.ClearField("name")
    model = helper.make_model(helper.make_graph(nodes, "g", [input_info, nameless_info], [nameless_info], [tensor]))
    columns = MapColumns(onnxwire.ModelProto.FromString(model.SerializeToString()))
    value_of_row = {row: int(columns.output_value[i]) for i, row in enumerate(columns.output_row)}
    assert [columns.types[columns.type[value_of_row[row]]] for row in range(4)] == ["", "", "", ""]
    assert columns.is_input.sum() == 1
    assert not columns.is_output.any() and not columns.is_weight.any()
    assert [int(columns.producer[value_of_row[row]]) for row in range(4)] == [0, 1, 2, 3]
    # A graph that has only this input and output, or nothing at all, has an empty map.
    for infos in ([nameless_info], []):
        model = helper.make_model(helper.make_graph([], "g", infos, infos))
        assert inner_boxes(Queries(onnxwire.ModelProto.FromString(model.SerializeToString()))) == []


def chain(names, op_type="Relu"):
    """Return nodes with these names, each of which reads the output of the previous node."""
    return [helper.make_node(op_type, [f"x{i}"], [f"x{i + 1}"], name=name) for i, name in enumerate(names)]


def inner_boxes(queries, group="graph"):
    """Return the boxes of a group, except entry and exit, each as (kind, label, number of nodes)."""
    boxes = queries.map(group)["boxes"]
    return [(box["kind"], box["label"], box.get("nodes")) for box in boxes if box["kind"] not in ("entry", "exit")]


def labelled_edges(queries, group="graph"):
    """Return the edges of a group, each as (producer, consumer, count); a box without a label is given by its kind."""
    answer = queries.map(group)
    names = [box["label"] or box["kind"] for box in answer["boxes"]]
    return [(names[edge["from"]], names[edge["to"]], edge["count"]) for edge in answer["edges"]]


def test_nodes_are_grouped_by_the_scopes_in_their_names():
    names = ["/model/embed/Gather", "/model/layers.0/attn/MatMul", "/model/layers.0/attn/Add", "/model/layers.0/Add"]
    queries = queries_of(chain([*names, "/head/MatMul", "/head/Add"]))
    assert inner_boxes(queries) == [("scope", "model", 4), ("scope", "head", 2)]
    assert inner_boxes(queries, "graph/0") == [("node", "/model/embed/Gather", 1), ("scope", "layers.0", 3)]
    assert inner_boxes(queries, "graph/0/1") == [("scope", "attn", 2), ("node", "/model/layers.0/Add", 1)]
    assert sorted(labelled_edges(queries)) == [("entry", "model", 1), ("model", "head", 1)]


@pytest.mark.parametrize("name", ["a.b.c", "a::b::c", "a/b/c", "/a/b/c"])
def test_scopes_are_separated_by_slashes_colons_or_dots(name):
    queries = queries_of(chain([name, name[:-1] + "d", "other"]))
    assert inner_boxes(queries)[0] == ("scope", "a", 2)


@pytest.mark.parametrize(
    ("names", "first_box"),
    [
        (["p2o.Conv.0", "p2o.Relu.0", "p2o.Conv.1", "p2o.Relu.1"], ("node", "p2o.Conv.0", 1)),  # PaddlePaddle
        (["Conv.0", "Relu.0", "Conv.1", "Relu.1"], ("node", "Conv.0", 1)),  # PaddlePaddle, older
        (["Conv_0", "Relu_1", "Conv_2", "Relu_3"], ("node", "Conv_0", 1)),  # PyTorch before 1.13
        (["/c/Conv", "/c/Relu", "/d/Conv", "/d/Relu"], ("scope", "c", 2)),  # PyTorch, torch.jit
        (["node_Conv_0", "node_relu", "node_Conv_2", "node_relu_1"], ("node", "node_Conv_0", 1)),  # torch.export
        (["m/c/Conv2D", "m/c/Relu", "m/d/Conv2D", "m/d/Relu"], ("scope", "c", 2)),  # TensorFlow
        (["Sc_Scaler", "N", "Li_LinearClassifier", "Zi"], ("node", "Sc_Scaler", 1)),  # scikit-learn
        (["", "", "", ""], ("node", "x1", 1)),  # no names
    ],
)
def test_scopes_of_exporters_become_groups_but_operators_do_not(names, first_box):
    nodes = chain(names)
    for node, op_type in zip(nodes, ["Conv", "Relu"] * 2, strict=True):
        node.op_type = op_type
    boxes = inner_boxes(queries_of(nodes))
    assert boxes[0] == first_box
    assert len(boxes) == (4 if first_box[0] == "node" else 2)


def test_an_index_and_the_name_before_it_are_one_scope():
    queries = queries_of(chain(["m/layers/0/x", "m/layers/0/y", "m/layers/1/x", "m/z"]))
    assert inner_boxes(queries) == [("scope", "layers.0", 2), ("node", "m/layers/1/x", 1), ("node", "m/z", 1)]


def test_metadata_of_pytorch_defines_scopes_if_names_do_not():
    # The example was exported by torch.onnx; its nodes have names without scopes, such as node_conv2d.
    queries = Queries(onnxwire.load(DIGITS))
    labels = [label for kind, label, _ in inner_boxes(queries) if kind == "scope"]
    assert labels == ["features", "classifier"]
    features = queries.map("graph/2")["boxes"]
    official_model = onnx.load(DIGITS)
    weights = {tensor.name: tensor for tensor in official_model.graph.initializer}
    sizes = [onnx.numpy_helper.to_array(weights[name]).size for name in weights if name.startswith("features")]
    features_box = queries.map("graph")["boxes"][2]
    assert features_box["parameters"] == sum(sizes)
    assert sum(box.get("parameters", 0) for box in features) == sum(sizes)


def test_equal_blocks_are_one_box_that_opens_as_a_list_or_as_one_block():
    queries = Queries(onnxwire.ModelProto.FromString(layered_model(layers=12, width=8).SerializeToString()))
    repeat_box = queries.map("graph")["boxes"][1]
    assert (repeat_box["kind"], repeat_box["label"], repeat_box["times"]) == ("repeat", "layers.0", 12)
    assert repeat_box["nodes"] == 12 * 8
    assert [label for _, label, _ in inner_boxes(queries, "graph/1")] == [f"layers.{i}" for i in range(12)]
    for member in (0, 11):
        assert inner_boxes(queries, f"graph/1*{member}")[0][2] == 1
        assert queries.map(f"graph/1*{member}")["label"] == f"layers.{member}"
    assert {("layers.0", "/head/MatMul", 1), ("x", "/embed/Gather", 1)} <= set(labelled_edges(queries))


@pytest.mark.parametrize("change", ["operator", "wiring", "shape"])
def test_a_different_block_is_not_part_of_a_repeat(change):
    model = layered_model(layers=8, width=6)
    node = next(node for node in model.graph.node if node.name.startswith("/layers.5/"))
    if change == "operator":
        node.op_type = "Sub"
    elif change == "wiring":
        node.input.append(node.input[0])
    else:
        weight = next(tensor for tensor in model.graph.initializer if tensor.name == node.input[1])
        weight.CopyFrom(helper.make_tensor(weight.name, TensorProto.FLOAT, [4, 1], [0.0] * 4))
    queries = Queries(onnxwire.ModelProto.FromString(model.SerializeToString()))
    labels_and_times = [
        (box["label"], box.get("times")) for box in queries.map("graph")["boxes"] if box["kind"] in ("repeat", "scope")
    ]
    assert labels_and_times[0] == ("layers.0", 5)
    assert labels_and_times[1] == ("layers.5", None)


def test_blocks_without_names_are_found_by_their_period():
    operators = ["MatMul", "Add", "Relu", "Mul", "Sigmoid"]
    nodes = [helper.make_node(operators[i % 5], [f"x{i}"], [f"x{i + 1}"]) for i in range(100)]
    queries = queries_of([helper.make_node("Cast", ["x"], ["x0"], to=1), *nodes])
    repeat_box = queries.map("graph")["boxes"][1]
    assert (repeat_box["kind"], repeat_box["member_kind"], repeat_box["times"], repeat_box["nodes"]) == (
        "repeat",
        "block",
        20,
        100,
    )
    operators_inside = [box["op_type"] for box in queries.map("graph/1*7")["boxes"] if box["kind"] == "node"]
    assert operators_inside == operators


def test_a_long_sequence_is_divided_where_few_values_cross():
    nodes = []
    # 40 blocks of 15 nodes with different operators. Each block reads only the last value of the previous block.
    for block in range(40):
        names = [f"b{block}"]
        for k in range(15):
            names.append(f"b{block + 1}" if k == 14 else f"n{block}_{k}")
            nodes.append(helper.make_node(f"Op{len(nodes)}", names[:-1], [names[-1]]))
    queries = queries_of(nodes)
    parts = queries.map("graph")["boxes"]
    assert {box["kind"] for box in parts} == {"run", "entry"}
    assert [box["nodes"] % 15 for box in parts if box["kind"] == "run"] == [0] * 6
    assert sum(box.get("nodes", 0) for box in parts) == 600
    assert [count for *_, count in labelled_edges(queries)] == [1] * 6


def test_subgraphs_and_functions_are_groups():
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    then_branch = helper.make_graph([helper.make_node("Neg", ["x1"], ["y"], name="inner")], "then", [], [value])
    else_branch = helper.make_graph([helper.make_node("Abs", ["x1"], ["y"])], "else", [], [value])
    branch = helper.make_node("If", ["c"], ["y"], name="branch", then_branch=then_branch, else_branch=else_branch)
    function = helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Exp", ["a"], ["b"])], [])
    call = helper.make_node("F", ["y"], ["z"], domain="own", name="call")
    queries = queries_of([helper.make_node("Relu", ["x"], ["x1"]), branch, call], functions=[function])
    boxes = {box["label"]: box for box in queries.map("graph")["boxes"]}
    assert boxes["branch"]["opens"] and boxes["branch"]["nodes"] == 3
    # The branches read a value of the enclosing graph.
    assert ("x1", "branch", 1) in labelled_edges(queries)
    inner_groups = [(kind, label) for kind, label, _ in inner_boxes(queries, "graph/1")]
    assert inner_groups == [("graph", "else_branch"), ("graph", "then_branch")]
    assert inner_boxes(queries, "graph/1/1")[0] == ("node", "inner", 1)
    assert boxes["call"]["opens"]
    assert queries.map("graph/2")["boxes"][0]["op_type"] == "Exp"
    assert queries.locate("graph.node[1].attribute[1].g.node[0]") == {
        "opened": ["graph", "graph/1", "graph/1/1"],
        "name": "graph/1/1/0",
    }


def test_locate_returns_the_box_and_the_groups_of_a_node():
    queries = Queries(onnxwire.ModelProto.FromString(layered_model(layers=30, width=40).SerializeToString()))
    count = queries.summary()["nodes"]["count"]
    for index in range(0, count, 97):
        path = f"graph.node[{index}]"
        location = queries.locate(path)
        group, _, number = location["name"].rpartition("/")
        assert location["opened"][-1] == group
        assert queries.map(group)["boxes"][int(number)]["path"] == path


def test_a_route_is_highlighted_in_all_groups():
    queries = Queries(onnxwire.ModelProto.FromString(layered_model(layers=6, width=4).SerializeToString()))
    ends = {"start": "graph.node[0]", "end": "graph.node[25]"}
    assert queries.route(**ends)["nodes"] == 26
    highlighted_labels = [box["label"] for box in queries.map("graph", **ends)["boxes"] if box.get("lit")]
    assert highlighted_labels == ["/embed/Gather", "layers.0", "/head/MatMul"]
    assert [edge["lit"] for edge in queries.map("graph", **ends)["edges"]].count(True) == 2
    layer_boxes = queries.map("graph/1*3", **ends)["boxes"]
    assert [box.get("lit") for box in layer_boxes if box["kind"] == "node"] == [True] * 4
    # The route may also lead against the direction of edges.
    assert queries.route("graph.node[25]", "graph.node[0]")["nodes"] == 26


def test_edges_list_types():
    queries = Queries(onnxwire.load(DIGITS))
    types = {edge["value"]: edge["types"] for edge in queries.map("graph")["edges"]}
    assert types["image"] == ["float[batch, 1, 8, 8]"]
    assert types["max_pool2d"] == ["float[batch, 32, 4, 4]"]


@pytest.mark.parametrize(
    "query",
    [
        lambda queries: queries.map("nothing"),
        lambda queries: queries.map("graph/99"),
        lambda queries: queries.map("graph/0*5"),
        lambda queries: queries.map("graph/x"),
        lambda queries: queries.map("graph" + "/0" * 500),
        lambda queries: queries.map(""),
        lambda queries: queries.locate("graph.node[99]"),
        lambda queries: queries.locate("graph.initializer[0]"),
        lambda queries: queries.route("graph.node[0]", "graph.node[99]"),
        lambda queries: queries.route("graph.node[0]", "graph.node[2]"),
    ],
)
def test_absent_groups_nodes_and_routes_raise_path_error(query):
    queries = queries_of([*chain(["a", "b"]), helper.make_node("Relu", ["p"], ["q"])])
    with pytest.raises(PathError):
        query(queries)


@pytest.mark.parametrize("has_mask", [False, True])
def test_parts_end_with_residual_blocks_despite_a_shared_value(has_mask):
    # Without the mask the end of each block is an articulation point of the graph; with it, hardly any node is.
    nodes = [helper.make_node("Mask", ["h0"], ["mask"])] if has_mask else []
    block_ends = set()
    for block in range(60):
        last_value = f"h{block}"
        for k in range(6 + block % 5):
            input_names = [last_value, "mask"] if has_mask and k == 2 else [last_value]
            last_value = f"t{block}_{k}"
            nodes.append(helper.make_node(f"Op{len(nodes)}", input_names, [last_value]))
        nodes.append(helper.make_node(f"Op{len(nodes)}", [f"h{block}", last_value], [f"h{block + 1}"]))
        block_ends.add(len(nodes))
    _, parts = Groups(MapColumns(onnxwire.ModelProto.FromString(
        helper.make_model(helper.make_graph(nodes, "g", [], [])).SerializeToString()
    ))).find("graph")  # fmt: skip
    assert [part.kind for part in parts] == ["run"] * 6
    assert {int(part.rows[-1]) + 1 for part in parts} <= block_ends


def test_a_graph_without_nodes_is_empty():
    assert queries_of([]).map()["boxes"] == []


# Functions that make the nodes of hostile models.
HOSTILE = {
    "thousands of nested scopes": lambda: chain(["/".join(map(str, range(i, i + 3000))) for i in range(40)]),
    "names that begin with 5,000 slashes": lambda: chain(["/" * 5000 + str(i) for i in range(300)]),
    "20,000 nodes in scopes of their own": lambda: chain([f"s{i}/t{i}/u{i}/n" for i in range(20_000)]),
    "names of a megabyte": lambda: chain([f"{i}" + "x" * (1 << 20) for i in range(20)]),
    "5,000 nodes with the same name": lambda: chain(["same"] * 5000),
    "empty nodes": lambda: [onnx.NodeProto()] * 200_000,
    "cycles": lambda: [
        helper.make_node("Add", [f"x{i}", f"x{(i + 7) % 300}"], [f"x{(i + 1) % 300}"]) for i in range(300)
    ],
    "3,000 nodes with the same output": lambda: [helper.make_node("Abs", ["y"], ["y"]) for _ in range(3000)],
    "each node reads the outputs of all previous nodes": lambda: [
        helper.make_node("Sum" if i % 3 else f"Op{i}", [f"x{k}" for k in range(i)], [f"x{i}"]) for i in range(240)
    ],
    "20,000 nodes with the same input": lambda: [helper.make_node(f"Op{i}", ["x"], [f"y{i}"]) for i in range(20_000)],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_models_are_drawn_within_bounds(name):
    graph = onnx.GraphProto(node=HOSTILE[name]())
    data = onnx.ModelProto(graph=graph).SerializeToString()
    queries = Queries(onnxwire.ModelProto.FromString(data))
    group, depth = "graph", 0
    # Open the largest group, then the largest one in it, and so on.
    while depth < 60:
        answer = queries.map(group, to_right=depth % 2 == 1)
        boxes = [box for box in answer["boxes"] if box["number"] is not None]
        assert len(boxes) <= 240
        assert len(answer["edges"]) <= 1_500
        assert sum(len(edge["bends"]) for edge in answer["edges"]) <= 6_000
        assert all(len(box["label"]) <= 220 for box in boxes)
        largest_box = max(boxes, key=lambda box: box["nodes"], default=None)
        if largest_box is None or largest_box["kind"] == "node":
            break
        group, depth = f"{group}/{largest_box['number']}", depth + 1
    assert depth < 60
    location = queries.locate(f"graph.node[{len(graph.node) - 1}]")
    assert queries.map(location["opened"][-1])


def test_names_that_are_not_utf8_are_drawn():
    node = onnx.NodeProto(op_type="Relu", name="a/AAAA", input=["x"], output=["y"])
    data = (
        onnx.ModelProto(graph=onnx.GraphProto(node=[node] * 3))
        .SerializeToString()
        .replace(b"AAAA", b"\xff\xfe\xff\xfe")
    )
    queries = Queries(onnxwire.ModelProto.FromString(data))
    assert queries.map()["boxes"]


def test_a_function_that_calls_itself_opens_up_to_a_maximum_depth():
    call = helper.make_node("F", ["a"], ["b"], domain="own")
    function = helper.make_function("own", "F", ["a"], ["b"], [call], [])
    queries = queries_of([helper.make_node("F", ["x"], ["y"], domain="own", name="call")], functions=[function])
    name = "graph"
    for _ in range(50):
        assert queries.map(name)["boxes"][0]["opens"]
        name += "/0"
    with pytest.raises(PathError):
        queries.map("graph" + "/0" * 300)


def test_several_threads_may_query_at_once():
    queries = Queries(onnxwire.ModelProto.FromString(layered_model(layers=20, width=20).SerializeToString()))
    expected = {group: queries.map(group) for group in ("graph", "graph/1", "graph/1*3")}
    wrong_groups = []

    def repeat_queries():
        for _ in range(20):
            for group, answer in expected.items():
                if queries.map(group) != answer:
                    wrong_groups.append(group)

    threads = [threading.Thread(target=repeat_queries) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong_groups == []


def test_boxes_of_a_layout_never_overlap_and_edges_lead_down():
    edges = [(i // 3, i) for i in range(1, 60)] + [(i, i + 7) for i in range(40)]
    sizes = [(100 + 7 * (i % 5), 30 + i % 3) for i in range(60)]
    layout = lay_out(sizes, edges)
    for a in range(60):
        for b in range(a):
            assert abs(layout.x[a] - layout.x[b]) >= (sizes[a][0] + sizes[b][0]) / 2 or layout.rows[a] != layout.rows[b]
    assert all(layout.rows[start] < layout.rows[end] for start, end in edges)
    bends = [abs(layout.rows[end] - layout.rows[start]) - 1 for start, end in edges]
    assert [len(line) for line in layout.bends] == bends


def test_a_cycle_has_one_edge_that_leads_up():
    layout = lay_out([(10, 10)] * 4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    assert layout.rows == [0, 1, 2, 3]
    assert len(layout.bends[3]) == 2


def test_a_drawing_without_crossings_is_found():
    # Two chains, 0-3-4-7 and 1-2-5-6; the edges cross if the nodes of each row are in the order of their numbers.
    edges = [(0, 3), (1, 2), (3, 4), (2, 5), (4, 7), (5, 6)]
    layout = lay_out([(10, 10)] * 8, edges)
    is_left = [
        layout.x[0] < layout.x[1],
        layout.x[3] < layout.x[2],
        layout.x[4] < layout.x[5],
        layout.x[7] < layout.x[6],
    ]
    assert len(set(is_left)) == 1


def test_chains_are_next_to_their_consumers_and_producers():
    # A short chain joins the last node of a long chain, or leaves its first node.
    long_chain = [(i, i + 1) for i in range(9)]
    layout_of_joining = lay_out([(10, 10)] * 12, [*long_chain, (10, 11), (11, 9)])
    assert (
        layout_of_joining.rows[9] - layout_of_joining.rows[11]
        == layout_of_joining.rows[11] - layout_of_joining.rows[10]
        == 1
    )
    layout_of_leaving = lay_out([(10, 10)] * 12, [*long_chain, (0, 10), (10, 11)])
    assert (
        layout_of_leaving.rows[10] - layout_of_leaving.rows[0]
        == layout_of_leaving.rows[11] - layout_of_leaving.rows[10]
        == 1
    )


# --- scopes that would form cycles


def test_scopes_that_form_a_cycle_are_not_groups():
    # The module `shared` is called between nodes of `a`, so that a -> shared -> a would be a cycle of boxes.
    names = ["m/a/x", "m/shared/x", "m/a/y", "m/shared/y", "m/a/z", "m/b/x", "m/b/y"]
    queries = queries_of(chain(names))
    assert [label for _, label, _ in inner_boxes(queries)] == [*names[:5], "b"]
    edges = {(edge["from"], edge["to"]) for edge in queries.map("graph")["edges"]}
    assert not {(end, start) for start, end in edges} & edges


def test_scopes_named_like_alternating_operators_are_not_groups():
    # The names of operators are the outermost scopes, so edges would alternate between boxes.
    names = [f"{op}/layers.{i}/{j}/n" for i in range(4) for j in range(3) for op in ("conv", "relu")]
    groups = inner_boxes(queries_of(chain(names)))
    assert [label for _, label, _ in groups if label in ("conv", "relu")] == []


def test_scopes_whose_edges_have_one_direction_remain():
    names = ["m/rotary/x", "m/l.0/x", "m/l.0/y", "m/rotary/y", "m/l.1/x", "m/l.1/y"]
    nodes = [helper.make_node("Relu", ["x"], [name], name=name) for name in names]
    nodes[2].input[0] = nodes[1].output[0]
    nodes[5].input[0] = nodes[3].output[0]
    assert [label for kind, label, _ in inner_boxes(queries_of(nodes)) if kind == "scope"] == ["rotary", "l.0", "l.1"]
