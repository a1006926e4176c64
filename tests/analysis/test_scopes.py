"""Names that graphs define or capture from outer graphs, the nesting limit, the cost of renaming and extracting,
suggestions of names."""

from __future__ import annotations

import sys

import pytest
from wire import len_record

import onnxwire
from onnxwire import FunctionProto, GraphProto, ModelProto, NodeProto
from onnxwire.analysis.live_scopes import captured_names, defined_names
from onnxwire.errors import did_you_mean


def graph(*nodes, outputs=(), inputs=(), sparse=()):
    """Make a graph. outputs, inputs, sparse: names of outputs, inputs and sparse initializers."""
    graph_proto = GraphProto(node=nodes)
    for name in outputs:
        graph_proto.output.add(name=name)
    for name in inputs:
        graph_proto.input.add(name=name)
    for name in sparse:
        graph_proto.sparse_initializer.add().values.name = name
    return graph_proto


def node(inputs="", outputs="", *graphs):
    """Make a node with graphs in its attributes. inputs, outputs: names, separated by spaces."""
    node_proto = NodeProto(input=inputs.split(), output=outputs.split())
    for subgraph in graphs:
        node_proto.attribute.add().g.CopyFrom(subgraph)
    return node_proto


def test_a_graph_defines_its_inputs_initializers_and_the_outputs_of_its_nodes():
    main_graph = graph(node("x w", "y"), node("", "z"), inputs=["x"], sparse=["s"], outputs=["z", "elsewhere"])
    main_graph.initializer.add(name="w")
    main_graph.node.add(output=[""])
    assert defined_names(main_graph) == {"x", "w", "s", "y", "z"}
    assert defined_names(FunctionProto(input=["a"], node=[node("a", "b")])) == {"a", "b"}


def test_names_that_graphs_use_but_do_not_define_are_captured_in_order_of_use():
    subgraph = graph(node("c a own", "d"), outputs=["d", "b"], inputs=["own"])
    assert captured_names(node("x", "y", subgraph, graph(outputs=["a", "e"]))) == ["c", "a", "b", "e"]
    assert captured_names(node("x", "y")) == []


def test_a_sparse_initializer_of_a_graph_is_not_captured():
    assert captured_names(node("", "y", graph(node("s x", "t"), sparse=["s"]))) == ["x"]


def test_a_name_that_a_graph_in_between_defines_is_not_captured():
    innermost = graph(node("between outside", "z"))
    assert captured_names(node("", "y", graph(node("", "between"), node("", "w", innermost)))) == ["outside"]


def test_all_graphs_of_an_attribute_are_searched():
    node_proto = NodeProto()
    node_proto.attribute.add(graphs=[graph(node("a", "x")), graph(node("x", "b"))])
    assert captured_names(node_proto) == ["a", "x"]


def deep_model(levels):
    """Make a model with `levels` nested graphs. The field numbers are 7 graph, 1 node, 5 attribute, 6 g."""
    data = b""
    for _ in range(levels):
        data = len_record(1, len_record(5, len_record(6, data)))
    return ModelProto.FromString(len_record(7, data))


@pytest.mark.parametrize(
    "action",
    [
        lambda model: captured_names(model.graph.node[0]),
        lambda model: onnxwire.rename_values(model, {"a": "b"}),
        lambda model: onnxwire.rename_nodes(model, {"a": "b"}),
        onnxwire.tensors,
    ],
)
def test_messages_nested_deeper_than_the_limit_of_protobuf_are_an_error(action):
    with pytest.raises(onnxwire.DecodeError, match="nested more than 100 deep"):
        action(deep_model(5000))


def count_calls(action):
    """Count the function calls that an action makes."""
    count = 0

    def count_event(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_event)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


class Name(str):
    """A name whose hash is computed by a Python function, so that `count_calls` counts lookups."""

    def __hash__(self):
        return super().__hash__()


def model_with_subgraphs(count):
    """Make a model with nodes whose subgraphs read a value of the main graph."""
    model = ModelProto(graph=graph(node("", "x")))
    for index in range(count):
        model.graph.node.append(node("", f"y{index}", graph(node("x", f"z{index}"), outputs=["x"])))
        model.graph.node[-1].name = f"n{index}"
    return model


def model_with_untyped_inputs(count):
    """Make a model with one node that reads many initializers without a type."""
    model = ModelProto(graph=graph(node(" ".join(f"w{i}" for i in range(count)), "y"), outputs=["y"]))
    for index in range(count):
        model.graph.initializer.add(name=f"w{index}")
    return model


def model_with_many_producers(count):
    """Make a model in which many nodes produce a value called x."""
    model = ModelProto(graph=graph(outputs=["y"]))
    for index in range(count):
        model.graph.node.append(node("", f"x o{index}"))
    model.graph.node.append(node("x " + " ".join(f"o{i}" for i in range(count)), "y"))
    return model


@pytest.mark.filterwarnings("ignore::onnxwire.UntypedValueWarning")
@pytest.mark.parametrize(
    ("make_model", "action"),
    [
        (model_with_subgraphs, lambda model: onnxwire.rename_values(model, {"x": "new", "z0": "other"})),
        (
            model_with_subgraphs,
            lambda model: onnxwire.rename_values(
                model, {Name(f"{old}{i}"): f"{old}{i}_" for old in "yz" for i in range(len(model.graph.node) // 2)}
            ),
        ),
        (model_with_subgraphs, lambda model: onnxwire.rename_nodes(model, {"n0": "new", "n1": "other"})),
        (
            model_with_untyped_inputs,
            lambda model: onnxwire.extract(model, [f"w{i}" for i in range(len(model.graph.initializer))], ["y"]),
        ),
        (model_with_many_producers, lambda model: onnxwire.extract(model, ["x"], ["y"])),
    ],
    ids=[
        "values in subgraphs",
        "values around and in subgraphs",
        "nodes and subgraphs",
        "untyped inputs",
        "one value with many producers",
    ],
)
def test_a_model_of_twice_the_size_needs_about_twice_the_calls(make_model, action):
    small_model, large_model = make_model(150), make_model(300)
    assert count_calls(lambda: action(large_model)) < 2.5 * count_calls(lambda: action(small_model))


@pytest.mark.filterwarnings("ignore::onnxwire.UntypedValueWarning")
def test_a_name_that_many_nodes_produce_is_replaced_in_each():
    part = onnxwire.extract(model_with_many_producers(3), ["x"], ["y"])
    outputs = [name for node in part.graph.node for name in node.output]
    assert "x" not in outputs
    assert len(set(outputs)) == len(outputs)


def test_the_closest_of_many_names_is_suggested():
    names = [f"layer_{i}" for i in range(50_000)]
    assert did_you_mean("zebra", [*names, "zebras"]) == "; did you mean 'zebras'?"
    assert did_you_mean("weight", ["fc.weight.transposed", "bias"]) == "; did you mean 'fc.weight.transposed'?"
    assert did_you_mean("nothing", ["else"]) == ""
    assert did_you_mean("x" * 1_000_000, ["x"]) == ""


def test_only_the_first_100_000_names_of_a_long_list_are_read():
    def names():
        for index in range(10**9):
            assert index < 100_000
            yield f"n{index}"

    assert did_you_mean("zzz", names()) == ""
