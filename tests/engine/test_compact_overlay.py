"""Overlays without views are compacted; all later reads return the same values."""

from __future__ import annotations

import copy
import tracemalloc

from wire import same

import onnxwire

NODE_COUNT = 3_000  # more than MAX_FULL_OVERLAYS of engine/overlay_index.pyx


def model_of_nodes(api, count=NODE_COUNT):
    """Return a parsed model of many nodes, each with fields of every kind."""
    model = api.ModelProto(ir_version=8)
    for i in range(count):
        node = model.graph.node.add(op_type="a", input=["x", str(i)], name=f"n{i}")
        node.attribute.add(name="k", ints=[1, 2], t={"dims": [3]})
    return api.ModelProto.FromString(model.SerializeToString())


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
    def body(api):
        model = model_of_nodes(api)
        edit_each(model)
        yield model.SerializeToString(deterministic=True)
        yield [node.name for node in model.graph.node], [list(node.input) for node in model.graph.node[::-7]]
        yield [
            (attribute.name, list(attribute.ints), list(attribute.t.dims))
            for node in model.graph.node
            for attribute in node.attribute
        ]

    same(body)


def test_many_edited_messages_can_be_edited_again():
    def body(api):
        model = model_of_nodes(api)
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
    def body(api):
        model = model_of_nodes(api)
        for i, node in enumerate(model.graph.node):
            if i % 2:
                parsed_node = api.NodeProto(op_type="b", name=f"p{i}", output=["y", str(i)])
                parsed_node.attribute.add(name="k", ints=[i], g={"name": "inner"})
                node.ParseFromString(parsed_node.SerializeToString())
            if i % 3:
                node.ClearField("input")
            if i % 5 == 0:
                node.ClearField("attribute")
        copied_model = api.ModelProto()
        copied_model.CopyFrom(model)
        yield model.SerializeToString(deterministic=True)
        yield [(node.name, list(node.output), len(node.attribute)) for node in model.graph.node[::-3]]
        for node in model.graph.node[::7]:
            for attribute in node.attribute:
                attribute.g.name = "again"
        edit_each(model)
        yield model.SerializeToString(deterministic=True)
        yield copied_model.SerializeToString(deterministic=True)
        second_copy = copy.deepcopy(copied_model)
        edit_each(second_copy)
        yield second_copy.SerializeToString(deterministic=True)

    same(body)


def test_a_message_made_by_parsing_takes_little_memory():
    def bytes_for_each(n):
        model = model_of_nodes(onnxwire, n)
        encoded = onnxwire.NodeProto(op_type="b", name="made").SerializeToString()
        tracemalloc.start()
        for node in model.graph.node:
            node.ParseFromString(encoded)
            node.ClearField("input")
        try:
            return tracemalloc.get_traced_memory()[0] / n
        finally:
            tracemalloc.stop()

    assert bytes_for_each(10_000) < 600


def test_earlier_views_and_sequences_see_later_edits():
    def body(api):
        model = model_of_nodes(api)
        nodes = [model.graph.node[i] for i in range(0, NODE_COUNT, 100)]
        inputs = [model.graph.node[i].input for i in range(0, NODE_COUNT, 100)]
        attributes = [model.graph.node[i].attribute[0] for i in range(50, NODE_COUNT, 100)]
        absent = [model.graph.node[i].attribute[0].g for i in range(25, NODE_COUNT, 100)]
        edit_each(model)
        for node, texts, attribute, graph in zip(nodes, inputs, attributes, absent, strict=True):
            texts.append("late")
            node.doc_string = "late"
            attribute.i = 7
            graph.name = "late"
        yield nodes, [list(texts) for texts in inputs], attributes, absent
        yield model.SerializeToString(deterministic=True)

    same(body)


def test_a_copy_of_many_edited_messages_is_independent():
    def body(api):
        model = model_of_nodes(api)
        edit_each(model)
        copied_model = copy.deepcopy(model)
        graph = api.GraphProto()
        graph.CopyFrom(model.graph)
        for node in model.graph.node:
            node.input[0] = "newer"
            for attribute in node.attribute:
                attribute.name = "newer"
        for node in graph.node[::3]:
            node.input.append("of the copy")
        for message in (model, copied_model, graph):
            yield message.SerializeToString(deterministic=True)
        yield [list(node.input) for node in copied_model.graph.node]

    same(body)


def test_an_edit_of_each_of_many_small_messages_takes_little_memory():
    n = 20_000
    model = onnxwire.ModelProto.FromString(model_of_nodes(onnxwire, 1).SerializeToString())
    model.graph.node.extend([onnxwire.NodeProto(input=["x"])] * n)
    model = onnxwire.ModelProto.FromString(model.SerializeToString())
    tracemalloc.start()
    bytes_before = tracemalloc.get_traced_memory()[0]
    for node in model.graph.node:
        node.domain = "new"
    bytes_of_edits = tracemalloc.get_traced_memory()[0] - bytes_before
    for node in model.graph.node:
        assert node.domain == "new"
    bytes_after_reads = tracemalloc.get_traced_memory()[0] - bytes_before
    tracemalloc.stop()
    # tracemalloc counts Python objects only; an Overlay of a node takes about 450 bytes.
    assert bytes_of_edits < 300 * n
    assert bytes_after_reads < 300 * n


def test_many_edited_messages_are_equal_where_the_official_ones_are():
    def body(api):
        edited_model, twice_edited_model, parsed_model = model_of_nodes(api), model_of_nodes(api), api.ModelProto()
        for model in (edited_model, twice_edited_model):
            edit_each(model)
        parsed_model.ParseFromString(edited_model.SerializeToString())
        yield (
            edited_model == twice_edited_model,
            twice_edited_model == edited_model,
            edited_model == parsed_model,
            parsed_model == twice_edited_model,
            edited_model == model_of_nodes(api),
        )
        node = twice_edited_model.graph.node[NODE_COUNT // 2]
        for edit, undo in (
            (lambda: node.attribute[0].ints.append(4), lambda: node.attribute[0].ints.pop()),
            (lambda: node.input.append("x"), lambda: node.input.pop()),
            (lambda: node.attribute[0].t.dims.append(1), lambda: node.attribute[0].t.dims.pop()),
            (lambda: node.MergeFromString(b"\xa0\x06\x01"), node.DiscardUnknownFields),
        ):
            edit()
            yield (
                edited_model == twice_edited_model,
                twice_edited_model == edited_model,
                parsed_model == twice_edited_model,
            )
            undo()
            yield (
                edited_model == twice_edited_model,
                twice_edited_model == edited_model,
                parsed_model == twice_edited_model,
            )

    same(body)
