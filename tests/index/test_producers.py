"""The index of the nodes that produce values, against the dicts of `definitions_of`."""

import random

import pytest
from wire import span

from onnxwire import DecodeError, FunctionProto, GraphProto, ModelProto, NodeProto, load
from onnxwire.index.names import definitions_of
from onnxwire.index.producers import producers_of

NAMES = ["", "a", "b", "ä", "a" * 7, "b" * 8, "c" * 9, "long " * 30, *(f"value_{i}" for i in range(30))]


def assert_same(nodes, others=()):
    _, hidden, expected = definitions_of((), others, (node.output for node in nodes))
    found = producers_of(nodes, others)
    assert dict(found) == dict(found.items()) == expected
    assert list(found) == list(expected)
    assert len(found) == len(expected)
    for name in NAMES:
        assert found.get(name) == expected.get(name)
        assert (name in found) == (name in expected)
    assert hidden.keys().isdisjoint(found)


def random_graph(choose, n, cls=GraphProto):
    graph = cls()
    for _ in range(n):
        graph.node.add(
            op_type="Op", input=choose.choices(NAMES, k=2), output=choose.choices(NAMES, k=choose.randint(0, 3))
        )
    return graph


def test_the_first_node_that_produces_a_name_counts():
    choose = random.Random(0)
    for cls in (GraphProto, FunctionProto):
        for _ in range(20):
            graph = random_graph(choose, choose.randint(0, 40), cls)
            others = choose.sample(NAMES, 5)
            assert_same(graph.node, others)
            assert_same(cls.FromString(graph.SerializeToString()).node, others)


def test_edited_moved_and_copied_nodes_count_in_their_current_state():
    choose = random.Random(1)
    graph = GraphProto.FromString(random_graph(choose, 30).SerializeToString())
    graph.node[3].output[:] = ["new", "a"]
    graph.node[7].attribute.add(name="alpha")
    assert_same(graph.node)
    del graph.node[5]
    graph.node.insert(2, NodeProto(output=["first"]))
    graph.node.extend(random_graph(choose, 5).node)
    graph.node.reverse()
    assert_same(graph.node)
    copy = GraphProto()
    copy.CopyFrom(graph)
    assert_same(copy.node)


def test_more_names_than_the_first_table_are_found():
    graph = GraphProto()
    for i in range(5000):
        graph.node.add(output=[f"v{i}", f"w{i % 100}"])
    found = producers_of(GraphProto.FromString(graph.SerializeToString()).node, ["v3", "absent"])
    assert len(found) == 5099
    assert all(found[f"v{i}"] == i for i in range(5000) if i != 3)
    with pytest.raises(KeyError):
        found["v3"]


def test_names_that_are_no_text_are_absent():
    graph = GraphProto.FromString(span(1, span(2, b"\xff")))
    found = producers_of(graph.node, ())
    assert list(found) == [graph.node[0].output[0]] == ["\udcff"]
    assert found["\udcff"] == 0
    for key in (b"\xff", None, 3, "\ud800"):
        assert key not in found
        assert found.get(key, "none") == "none"


def test_a_damaged_node_raises_and_a_closed_document_too(tmp_path):
    damaged = GraphProto.FromString(span(1, span(2, b"a")) + span(1, span(2, b"b") + b"\x12\x05b"))
    with pytest.raises(DecodeError):
        producers_of(damaged.node, ())
    (tmp_path / "m.onnx").write_bytes(ModelProto(graph=GraphProto()).SerializeToString())
    with load(tmp_path / "m.onnx") as model:
        nodes = model.graph.node
    with pytest.raises(ValueError, match="closed"):
        producers_of(nodes, ())


def test_the_index_outlives_its_document(tmp_path):
    (tmp_path / "g.pb").write_bytes(random_graph(random.Random(2), 20).SerializeToString())
    with load(tmp_path / "g.pb", GraphProto) as graph:
        expected = {name: index for index, node in reversed([*enumerate(graph.node)]) for name in node.output if name}
        found = producers_of(graph.node, ())
    assert {name: found[name] for name in found} == expected
