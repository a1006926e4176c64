"""Scans of bytes select the messages that mention a name, and read the strings of a field."""

from __future__ import annotations

import pytest

import onnxwire
from onnxwire import ModelProto, NodeProto
from onnxwire.engine.scan import NameFilter, select_messages, strings_of
from onnxwire.engine.search import Search


def make_chain(n):
    """Make a model of n nodes, each of which reads the output of its predecessor; every third node has a subgraph."""
    model = ModelProto()
    for i in range(n):
        node = model.graph.node.add(op_type="Add", input=[f"v{i}", "c"], output=[f"v{i + 1}"])
        if i % 3 == 0:
            node.attribute.add(name="body").g.node.add(input=[f"inner{i}"])
    return ModelProto.FromString(model.SerializeToString())


def find_paths(model, names):
    """Return the paths of the nodes that a search with a filter for the names yields."""
    return [path for path, _ in Search(model, [NodeProto], None, NameFilter.of(names))]


def test_a_search_yields_the_messages_that_mention_a_name_at_any_depth():
    model = make_chain(10)
    assert find_paths(model, ["v4", "inner6"]) == [
        "graph.node[3]",
        "graph.node[4]",
        "graph.node[6]",
        "graph.node[6].attribute[0].g.node[0]",
    ]
    assert find_paths(model, ["absent"]) == find_paths(model, [""]) == find_paths(model, []) == []


def test_names_in_edited_messages_are_found():
    model = make_chain(10)
    model.graph.node[2].input[0] = "new"
    model.graph.node[3].attribute[0].g.node[0].input[0] = "new"
    model.graph.node.add(input=["new"])
    paths = set(find_paths(model, ["new"]))
    assert {"graph.node[2]", "graph.node[3].attribute[0].g.node[0]", "graph.node[10]"} <= paths
    assert [node.input[0] for node in select_messages(model.graph.node, NameFilter.of(["v7"])) if node.input[0] == "v7"]


def test_without_a_filter_all_messages_are_yielded():
    assert len(list(select_messages(make_chain(5).graph.node))) == 5
    # These names are too many, or too long, for a filter.
    assert NameFilter.of([f"n{i}" for i in range(1000)]) is None
    assert NameFilter.of(["x" * 100_000]) is None


def test_names_of_equal_length_and_names_that_are_not_utf_8_are_distinguished():
    model = ModelProto.FromString(
        ModelProto(graph=onnxwire.GraphProto(node=[NodeProto(name=name) for name in ("ab", "cb", "é", "abc")]))
        .SerializeToString()
        .replace("é".encode(), b"\xff\xfe")
    )
    assert find_paths(model, ["cb"]) == ["graph.node[1]"]
    assert find_paths(model, ["\udcff\udcfe"]) == ["graph.node[2]"]


def test_damaged_messages_are_selected_so_that_their_reader_raises():
    # model.graph.node[0].input[0] has 5 bytes, and its node ends after 2 of them.
    model = ModelProto.FromString(b"\x3a\x06\x0a\x04\x0a\x05ab")
    with pytest.raises(onnxwire.DecodeError):
        find_paths(model, ["absent"])
    with pytest.raises(onnxwire.DecodeError):
        list(strings_of(model.graph.node, "input"))


def test_strings_of_a_field_are_listed_per_message():
    model = make_chain(4)
    model.graph.node[1].input.append("more")
    assert list(strings_of(model.graph.node, "input")) == [list(node.input) for node in model.graph.node]
    assert list(strings_of(model.graph.initializer, "external_data")) == []


def test_scans_of_a_closed_document_raise_closed_error(tmp_path):
    onnxwire.save(make_chain(4), tmp_path / "m.onnx")
    model = onnxwire.load(tmp_path / "m.onnx")
    elements = iter(model.graph.node)
    nodes = [next(elements), next(elements)]
    model.close()
    with pytest.raises(onnxwire.ClosedError):
        list(strings_of(nodes, "input"))
    with pytest.raises(onnxwire.ClosedError):
        list(select_messages(nodes, NameFilter.of(["v1"])))
