"""Overlays without views are compacted; every way of reading them again gives the same values."""

from __future__ import annotations

import copy
import tracemalloc

from wire import same

import onnxwire

NODE_COUNT = 3_000  # more than MAX_FULL_OVERLAYS of engine/overlay_index.pyx


def nodes(m, count=NODE_COUNT):
    """Return a parsed model of many nodes, each with fields of every kind."""
    made = m.ModelProto(ir_version=8)
    for i in range(count):
        node = made.graph.node.add(op_type="a", input=["x", str(i)], name=f"n{i}")
        node.attribute.add(name="k", ints=[1, 2], t={"dims": [3]})
    return m.ModelProto.FromString(made.SerializeToString())


def edit_each(model):
    for i, node in enumerate(model.graph.node):
        node.input[:1] = ["new"]
        node.name = f"m{i}"
        for attribute in node.attribute[: i % 3]:
            attribute.ints.append(3)
        for attribute in node.attribute[: i % 5]:
            attribute.t.dims[:] = [i]
        if i % 7 == 0:
            del node.attribute[:]
        if i % 11 == 0:
            node.attribute.add(name="added").g.name = "made"
        if i % 13 == 0:
            node.ClearField("op_type")


def test_many_edited_messages_keep_their_edits():
    def body(m):
        model = nodes(m)
        edit_each(model)
        yield model.SerializeToString(deterministic=True)
        yield [node.name for node in model.graph.node], [list(node.input) for node in model.graph.node[::-7]]
        yield [(a.name, list(a.ints), list(a.t.dims)) for node in model.graph.node for a in node.attribute]

    same(body)


def test_many_edited_messages_can_be_edited_again():
    def body(m):
        model = nodes(m)
        for _ in range(2):
            edit_each(model)
        for node in model.graph.node[:100]:
            node.Clear()
        for node in model.graph.node[100:200]:
            node.CopyFrom(model.graph.node[300])
        for node in model.graph.node[200:300]:
            node.ClearField("input")
            node.MergeFrom(model.graph.node[400])
        edit_each(model)
        yield model.SerializeToString(deterministic=True)

    same(body)


def test_many_parsed_or_cleared_messages_keep_their_content():
    def body(m):
        model = nodes(m)
        for i, node in enumerate(model.graph.node):
            if i % 2:
                made = m.NodeProto(op_type="b", name=f"p{i}", output=["y", str(i)])
                made.attribute.add(name="k", ints=[i], g={"name": "inner"})
                node.ParseFromString(made.SerializeToString())
            if i % 3:
                node.ClearField("input")
            if i % 5 == 0:
                node.ClearField("attribute")
        copied = m.ModelProto()
        copied.CopyFrom(model)
        yield model.SerializeToString(deterministic=True)
        yield [(node.name, list(node.output), len(node.attribute)) for node in model.graph.node[::-3]]
        for node in model.graph.node[::7]:
            for attribute in node.attribute:
                attribute.g.name = "again"
        edit_each(model)
        yield model.SerializeToString(deterministic=True)
        yield copied.SerializeToString(deterministic=True)
        again = copy.deepcopy(copied)
        edit_each(again)
        yield again.SerializeToString(deterministic=True)

    same(body)


def test_a_message_made_by_parsing_takes_little_memory():
    def bytes_for_each(n):
        model = nodes(onnxwire, n)
        made = onnxwire.NodeProto(op_type="b", name="made").SerializeToString()
        tracemalloc.start()
        for node in model.graph.node:
            node.ParseFromString(made)
            node.ClearField("input")
        try:
            return tracemalloc.get_traced_memory()[0] / n
        finally:
            tracemalloc.stop()

    assert bytes_for_each(10_000) < 600


def test_earlier_views_and_sequences_see_later_edits():
    def body(m):
        model = nodes(m)
        held = [model.graph.node[i] for i in range(0, NODE_COUNT, 100)]
        inputs = [model.graph.node[i].input for i in range(0, NODE_COUNT, 100)]
        attributes = [model.graph.node[i].attribute[0] for i in range(50, NODE_COUNT, 100)]
        absent = [model.graph.node[i].attribute[0].g for i in range(25, NODE_COUNT, 100)]
        edit_each(model)
        for node, texts, attribute, graph in zip(held, inputs, attributes, absent, strict=True):
            texts.append("late")
            node.doc_string = "late"
            attribute.i = 7
            graph.name = "late"
        yield held, [list(texts) for texts in inputs], attributes, absent
        yield model.SerializeToString(deterministic=True)

    same(body)


def test_a_copy_of_many_edited_messages_is_independent():
    def body(m):
        model = nodes(m)
        edit_each(model)
        other = copy.deepcopy(model)
        graph = m.GraphProto()
        graph.CopyFrom(model.graph)
        for node in model.graph.node:
            node.input[0] = "newer"
            for attribute in node.attribute:
                attribute.name = "newer"
        for node in graph.node[::3]:
            node.input.append("of the copy")
        for one in (model, other, graph):
            yield one.SerializeToString(deterministic=True)
        yield [list(node.input) for node in other.graph.node]

    same(body)


def test_an_edit_of_each_of_many_small_messages_takes_little_memory():
    n = 20_000
    model = onnxwire.ModelProto.FromString(nodes(onnxwire, 1).SerializeToString())
    model.graph.node.extend([onnxwire.NodeProto(input=["x"])] * n)
    model = onnxwire.ModelProto.FromString(model.SerializeToString())
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for node in model.graph.node:
        node.domain = "new"
    taken = tracemalloc.get_traced_memory()[0] - before
    for node in model.graph.node:
        assert node.domain == "new"
    looked = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    # Python objects only; an Overlay of a node takes about 450 bytes.
    assert taken < 300 * n
    assert looked < 300 * n


def test_many_edited_messages_are_equal_where_the_official_ones_are():
    def body(m):
        ours, theirs, built = nodes(m), nodes(m), m.ModelProto()
        for model in (ours, theirs):
            edit_each(model)
        built.ParseFromString(ours.SerializeToString())
        yield ours == theirs, theirs == ours, ours == built, built == theirs, ours == nodes(m)
        node = theirs.graph.node[NODE_COUNT // 2]
        for change, undo in (
            (lambda: node.attribute[0].ints.append(4), lambda: node.attribute[0].ints.pop()),
            (lambda: node.input.append("x"), lambda: node.input.pop()),
            (lambda: node.attribute[0].t.dims.append(1), lambda: node.attribute[0].t.dims.pop()),
            (lambda: node.MergeFromString(b"\xa0\x06\x01"), node.DiscardUnknownFields),
        ):
            change()
            yield ours == theirs, theirs == ours, built == theirs
            undo()
            yield ours == theirs, theirs == ours, built == theirs

    same(body)
