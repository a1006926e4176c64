"""The index of the nodes that produce values, compared with the dicts of `definitions_of`."""

import random

import pytest
from wire import len_record

from onnxwire import DecodeError, FunctionProto, GraphProto, ModelProto, NodeProto, load
from onnxwire.index.names import definitions_of
from onnxwire.index.producers import producers_of

NAMES = ["", "a", "b", "ä", "a" * 7, "b" * 8, "c" * 9, "long " * 30, *(f"value_{i}" for i in range(30))]


def assert_same_definitions(nodes, excluded_names=()):
    """Check that the index of nodes equals the dict of `definitions_of`; excluded_names: names of initializers."""
    _, initializers, expected = definitions_of((), excluded_names, (node.output for node in nodes))
    index_of_producers = producers_of(nodes, excluded_names)
    assert dict(index_of_producers) == dict(index_of_producers.items()) == expected
    assert list(index_of_producers) == list(expected)
    assert len(index_of_producers) == len(expected)
    for name in NAMES:
        assert index_of_producers.get(name) == expected.get(name)
        assert (name in index_of_producers) == (name in expected)
    assert initializers.keys().isdisjoint(index_of_producers)


def random_graph(rng, n, cls=GraphProto):
    graph = cls()
    for _ in range(n):
        graph.node.add(op_type="Op", input=rng.choices(NAMES, k=2), output=rng.choices(NAMES, k=rng.randint(0, 3)))
    return graph


def test_the_first_node_that_produces_a_name_is_its_producer():
    rng = random.Random(0)
    for cls in (GraphProto, FunctionProto):
        for _ in range(20):
            graph = random_graph(rng, rng.randint(0, 40), cls)
            excluded_names = rng.sample(NAMES, 5)
            assert_same_definitions(graph.node, excluded_names)
            assert_same_definitions(cls.FromString(graph.SerializeToString()).node, excluded_names)


def test_edited_moved_and_copied_nodes_are_indexed_in_their_current_state():
    rng = random.Random(1)
    graph = GraphProto.FromString(random_graph(rng, 30).SerializeToString())
    graph.node[3].output[:] = ["new", "a"]
    graph.node[7].attribute.add(name="alpha")
    assert_same_definitions(graph.node)
    del graph.node[5]
    graph.node.insert(2, NodeProto(output=["first"]))
    graph.node.extend(random_graph(rng, 5).node)
    graph.node.reverse()
    assert_same_definitions(graph.node)
    copy = GraphProto()
    copy.CopyFrom(graph)
    assert_same_definitions(copy.node)


def test_names_are_found_after_the_hash_table_has_grown():
    graph = GraphProto()
    for i in range(5000):
        graph.node.add(output=[f"v{i}", f"w{i % 100}"])
    index_of_producers = producers_of(GraphProto.FromString(graph.SerializeToString()).node, ["v3", "absent"])
    assert len(index_of_producers) == 5099
    assert all(index_of_producers[f"v{i}"] == i for i in range(5000) if i != 3)
    with pytest.raises(KeyError):
        index_of_producers["v3"]


def test_names_that_are_not_utf8_are_found_by_their_surrogate_escapes():
    graph = GraphProto.FromString(len_record(1, len_record(2, b"\xff")))  # the output of a node
    index_of_producers = producers_of(graph.node, ())
    assert list(index_of_producers) == [graph.node[0].output[0]] == ["\udcff"]
    assert index_of_producers["\udcff"] == 0
    for key in (b"\xff", None, 3, "\ud800"):
        assert key not in index_of_producers
        assert index_of_producers.get(key, "none") == "none"


def test_damaged_nodes_and_closed_documents_raise(tmp_path):
    # Two nodes; the second has an output whose length, 5, runs past the end of the node.
    damaged_graph = GraphProto.FromString(
        len_record(1, len_record(2, b"a")) + len_record(1, len_record(2, b"b") + b"\x12\x05b")
    )
    with pytest.raises(DecodeError):
        producers_of(damaged_graph.node, ())
    (tmp_path / "m.onnx").write_bytes(ModelProto(graph=GraphProto()).SerializeToString())
    with load(tmp_path / "m.onnx") as model:
        nodes = model.graph.node
    with pytest.raises(ValueError, match="closed"):
        producers_of(nodes, ())


def test_the_index_outlives_its_document(tmp_path):
    (tmp_path / "g.pb").write_bytes(random_graph(random.Random(2), 20).SerializeToString())
    with load(tmp_path / "g.pb", GraphProto) as graph:
        expected = {name: index for index, node in reversed([*enumerate(graph.node)]) for name in node.output if name}
        index_of_producers = producers_of(graph.node, ())
    assert {name: index_of_producers[name] for name in index_of_producers} == expected
