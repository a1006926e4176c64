"""A Search yields the same tensors as a walk over all fields, and reports damage."""

from __future__ import annotations

import random

import pytest
from onnx import TensorProto, helper
from wire import len_record

import onnxwire
from onnxwire.engine.search import Search


def walk(message, path=""):
    """Yield the path and name of every tensor below a message, by reflection over all fields."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        values = value if field.is_repeated else [value]
        for index, submessage in enumerate(values):
            submessage_path = f"{path}{field.name}[{index}]" if field.is_repeated else f"{path}{field.name}"
            if isinstance(submessage, onnxwire.TensorProto):
                yield submessage_path, submessage.name
            yield from walk(submessage, f"{submessage_path}.")


def find_tensors(message):
    """Return the path and name of every tensor that a Search yields."""
    return [(path, tensor.name) for path, tensor in Search(message, [onnxwire.TensorProto])]


def random_graph(rng, depth, counter):
    """Return a graph of random nodes, some of which have tensors or subgraphs.

    depth: the maximum number of levels of subgraphs. counter: as for `make_tensor`.
    """
    nodes = []
    for index in range(rng.randrange(6)):
        node = helper.make_node("Op", [f"x{index}"], [f"y{index}"], name=f"n{index}")
        if rng.random() < 0.3:
            node.attribute.append(helper.make_attribute("axis", 1))
        if rng.random() < 0.2:
            node.attribute.append(helper.make_attribute("value", make_tensor(counter)))
        if rng.random() < 0.1:
            node.attribute.append(helper.make_attribute("values", [make_tensor(counter), make_tensor(counter)]))
        if depth and rng.random() < 0.4:
            node.attribute.append(helper.make_attribute("body", random_graph(rng, depth - 1, counter)))
        nodes.append(node)
    initializers = [make_tensor(counter) for _ in range(rng.choice([0, 0, 1, 2]))]
    return helper.make_graph(nodes, "g", [], [], initializers)


def make_tensor(counter):
    """Make a tensor whose name contains its number. counter: a list, which gets an element for each tensor."""
    counter.append(None)
    return helper.make_tensor(f"t{len(counter)}", TensorProto.FLOAT, [1], [1.0])


@pytest.mark.parametrize("seed", range(60))
def test_a_search_finds_the_same_tensors_as_a_walk_before_and_after_edits(seed):
    rng = random.Random(seed)
    official = helper.make_model(random_graph(rng, 4, []))
    model = onnxwire.ModelProto.FromString(official.SerializeToString())
    assert find_tensors(model) == list(walk(model))
    nodes = [node for _, node in Search(model, [onnxwire.NodeProto])]
    for node in rng.sample(nodes, min(len(nodes), 3)):
        node.name = "renamed"
        if rng.random() < 0.5:
            node.attribute.add(name="added").t.name = "added"
    if rng.random() < 0.5:
        model.graph.node.add(name="last").attribute.add().tensors.add(name="last")
    if rng.random() < 0.3 and len(model.graph.node) > 1:
        del model.graph.node[0]
    assert find_tensors(model) == list(walk(model))
    assert find_tensors(onnxwire.ModelProto.FromString(model.SerializeToString())) == list(walk(model))


def test_a_tensor_that_is_added_during_the_search_is_found():
    nodes = [helper.make_node("Op", [], [f"y{i}"]) for i in range(5)]
    nodes[1].attribute.append(helper.make_attribute("value", make_tensor([])))
    model = onnxwire.ModelProto.FromString(helper.make_model(helper.make_graph(nodes, "g", [], [])).SerializeToString())
    paths = []
    for path, _ in Search(model, [onnxwire.TensorProto]):
        if not paths:
            model.graph.node[3].attribute.add().t.name = "new"
        paths.append(path)
    assert paths == ["graph.node[1].attribute[0].t", "graph.node[3].attribute[0].t"]


def test_damage_in_a_message_without_tensors_is_reported():
    data = bytearray(helper.make_model(helper.make_graph([helper.make_node("Op", [], ["y"], axis=1)], "g", [], []))
                     .SerializeToString())  # fmt: skip
    position = data.index(b"axis") - 1
    data[position] = 0x7F  # replaces the length of the attribute's name
    model = onnxwire.load(bytes(data))
    with pytest.raises(onnxwire.DecodeError, match=r"graph\.node\[0\]\.attribute\[0\]"):
        find_tensors(model)


@pytest.mark.parametrize(("levels", "is_allowed"), [(33, True), (34, False)])
def test_graphs_without_tensors_may_be_nested_up_to_the_nesting_limit(levels, is_allowed):
    graph = onnxwire.GraphProto(name="innermost")
    data = graph.SerializeToString()
    for _ in range(levels):  # graph > node > attribute > graph
        data = len_record(1, len_record(5, len_record(6, data)))
    message = onnxwire.load(data, onnxwire.GraphProto)
    if is_allowed:
        assert find_tensors(message) == []
    else:
        with pytest.raises(onnxwire.DecodeError, match="100"):
            find_tensors(message)
