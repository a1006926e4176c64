"""The engine compacts overlays without views; all later reads return the same values."""

from __future__ import annotations

import copy
import os
import random
import tracemalloc

import pytest
from wire import assert_same_as_official
from wire_bytes import len_record, varint_record

import onnxwire

NODE_COUNT = 3_000  # more than OW_MAX_FULL_OVERLAYS of engine/thresholds.h


def model_of_nodes(api, count=NODE_COUNT):
    """Return a parsed model of many nodes; each has an attribute with a tensor.

    api: a namespace of the message classes of onnxwire, or of the official ones.
    """
    model = api.ModelProto(ir_version=8)
    for i in range(count):
        node = model.graph.node.add(op_type="a", input=["x", str(i)], name=f"n{i}")
        node.attribute.add(name="k", ints=[1, 2], t={"dims": [3]})
    return api.ModelProto.FromString(model.SerializeToString())


def edit_each(model):
    """Edit the inputs and the name of each node, and depending on its index also its op_type and its attributes."""
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

    assert_same_as_official(body)


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

    assert_same_as_official(body)


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

    assert_same_as_official(body)


def test_a_message_changed_by_parsing_takes_little_memory():
    def bytes_per_node(n):
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

    assert bytes_per_node(10_000) < 600


def test_earlier_views_and_sequences_see_later_edits():
    def body(api):
        model = model_of_nodes(api)
        nodes = [model.graph.node[i] for i in range(0, NODE_COUNT, 100)]
        inputs = [model.graph.node[i].input for i in range(0, NODE_COUNT, 100)]
        attributes = [model.graph.node[i].attribute[0] for i in range(50, NODE_COUNT, 100)]
        absent_graphs = [model.graph.node[i].attribute[0].g for i in range(25, NODE_COUNT, 100)]
        edit_each(model)
        for node, texts, attribute, graph in zip(nodes, inputs, attributes, absent_graphs, strict=True):
            texts.append("late")
            node.doc_string = "late"
            attribute.i = 7
            graph.name = "late"
        yield nodes, [list(texts) for texts in inputs], attributes, absent_graphs
        yield model.SerializeToString(deterministic=True)

    assert_same_as_official(body)


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

    assert_same_as_official(body)


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
    # An Overlay of a node takes about 450 bytes, a compact overlay less.
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
            (lambda: node.MergeFromString(varint_record(100, 1)), node.DiscardUnknownFields),  # an unknown field
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

    assert_same_as_official(body)


FIRST_EDITS = {
    "assign a string": lambda node: setattr(node, "name", "first"),
    "assign an absent string": lambda node: setattr(node, "doc_string", "first"),
    "clear a string": lambda node: node.ClearField("name"),
    "append a string": lambda node: node.input.append("first"),
    "append to an absent field": lambda node: node.output.append("first"),
    "assign a number": lambda node: setattr(node.attribute[0], "i", 7),
    "extend numbers": lambda node: node.attribute[0].ints.extend([8, 9]),
    "extend absent numbers": lambda node: node.attribute[0].floats.extend([0.5]),
    "extend packed numbers": lambda node: node.attribute[0].t.dims.extend([8, 9]),
    "add a message": lambda node: node.attribute.add(name="first", g={"name": "inner", "node": [{"name": "in"}]}),
    "copy a message": lambda node: node.attribute[0].CopyFrom(node.attribute[0].__class__(name="first", ints=[1])),
    "clear a message": lambda node: node.attribute[0].Clear(),
}


@pytest.mark.parametrize("name", FIRST_EDITS)
def test_a_first_edit_is_seen_by_earlier_and_later_views(name):
    def body(api):
        model = model_of_nodes(api)
        early_view = model.graph.node[5]
        texts, attribute, numbers = early_view.input, early_view.attribute[0], early_view.attribute[0].ints
        iterator = iter(early_view.input)
        yield next(iterator)
        for node in model.graph.node:
            FIRST_EDITS[name](node)
        yield early_view, list(texts), attribute, list(numbers), list(iterator)
        yield [(node.name, list(node.input), len(node.attribute)) for node in model.graph.node[::37]]
        copied = copy.deepcopy(model)
        yield copied == model, model.ByteSize()
        for _ in range(2):
            for node in model.graph.node:
                FIRST_EDITS[name](node)
                node.op_type = "again"
        yield early_view, list(texts), attribute, list(numbers)
        yield model.SerializeToString(deterministic=True), copied.SerializeToString(deterministic=True)

    assert_same_as_official(body)


def test_a_view_sees_edits_by_another_view_between_edits_of_other_messages():
    def body(api):
        model = model_of_nodes(api, 40)
        views = [(node, node.attribute[0], node.input) for node in model.graph.node]
        rng = random.Random(1)
        for step in range(400):
            i = rng.randrange(40)
            node = model.graph.node[i]
            edit = rng.choice(list(FIRST_EDITS.values()))
            if len(node.attribute):
                edit(node)
            else:
                node.attribute.add(ints=[step])
            early_node, early_attribute, early_input = views[rng.choice([i, rng.randrange(40)])]
            yield early_node.name, list(early_input), early_attribute.i, list(early_attribute.ints)
            if step % 50 == 0:
                model.graph.name = str(step)
                yield model.graph.name, len(model.graph.node)
        yield model.SerializeToString(deterministic=True)

    assert_same_as_official(body)


def test_the_members_of_a_oneof_replace_each_other_in_a_first_edit():
    def body(api):
        shape = api.TensorShapeProto()
        for i in range(NODE_COUNT):
            shape.dim.add(**({"dim_value": i} if i % 2 else {"dim_param": str(i)}))
        shape = api.TensorShapeProto.FromString(shape.SerializeToString())
        for i, dim in enumerate(shape.dim):
            if i % 3 == 0:
                dim.dim_value = 5
            elif i % 3 == 1:
                dim.dim_param = "p"
            if i % 4 == 0:
                dim.denotation = "d"
        yield [(dim.WhichOneof("value"), dim.dim_value, dim.dim_param) for dim in shape.dim]
        yield shape.SerializeToString(deterministic=True)

    assert_same_as_official(body)


def test_replaced_content_of_a_merged_message_is_read_after_compaction():
    # Field numbers: 15 sparse_initializer of a graph; 1 values and 2 indices of a sparse tensor; 2 data_type,
    # 7 int64_data and 8 name of a tensor.
    indices = len_record(2, len_record(8, b"first") + len_record(7, b"\1\2\3")), len_record(2, len_record(8, b"second"))
    data = (
        indices[0] + len_record(1, len_record(8, b"values") + len_record(7, b"\4\5") + varint_record(2, 7)) + indices[1]
    )

    def body(api):
        graph = api.GraphProto.FromString(len_record(15, data) * 200)
        for tensor in graph.sparse_initializer:
            tensor.indices.CopyFrom(tensor.values)
        duplicate = copy.deepcopy(graph)
        yield duplicate.SerializeToString(deterministic=True)
        yield graph.SerializeToString(deterministic=True)
        yield len(duplicate.SerializeToString()), duplicate == graph, graph == duplicate
        for tensor in duplicate.sparse_initializer:
            yield tensor.indices.name, list(tensor.indices.int64_data)

    assert_same_as_official(body)


def test_long_messages_and_fields_with_tags_of_two_bytes_are_edited():
    def body(api):
        graph = api.GraphProto()
        for i in range(200):
            graph.node.add(name=f"n{i}", doc_string="d" * 2000, metadata_props=[{"key": str(k)} for k in range(9)])
            graph.metadata_props.add(key=str(i))  # field 16, whose tag has two bytes
        graph = api.GraphProto.FromString(graph.SerializeToString())
        for i, node in enumerate(graph.node):
            node.name = "x"
            if i % 2:
                node.metadata_props.add(key="new")
                del node.metadata_props[0]
        graph.metadata_props.insert(0, graph.metadata_props[20])
        yield [(node.name, len(node.doc_string), [entry.key for entry in node.metadata_props]) for node in graph.node]
        yield graph.SerializeToString(deterministic=True)
        yield [graph.metadata_props[i].key for i in range(0, 200, 3)]

    assert_same_as_official(body)


def test_unread_elements_of_a_long_field_are_found_by_index():
    model = model_of_nodes(onnxwire)
    for i in (0, 8, 31, 32, 40, NODE_COUNT - 1):
        assert model.graph.node[i].name == f"n{i}"
        assert model.graph.node[i - NODE_COUNT].name == f"n{i}"


def bytes_per_edit(edit, n=10_000):
    """Return the memory that an edit of each node takes, in bytes per node."""
    model = model_of_nodes(onnxwire, n)
    tracemalloc.start()
    for node in model.graph.node:
        edit(node)
    try:
        return tracemalloc.get_traced_memory()[0] / n
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(
    "ONNXWIRE_SANITIZE" in os.environ,
    reason="with the small limits of sanitized builds, compact overlays store all slots",
)
@pytest.mark.parametrize("name, limit", [("assign a string", 240), ("append a string", 390), ("add a message", 800)])
def test_a_first_edit_of_each_message_takes_little_memory(name, limit):
    assert bytes_per_edit(FIRST_EDITS[name] if "add" not in name else lambda node: node.attribute.add(i=1)) < limit


def test_added_messages_with_a_view_stay_editable_when_others_are_encoded():
    def body(api):
        model = model_of_nodes(api)
        early_views = []
        for i, node in enumerate(model.graph.node):
            added = node.attribute.add(name="added", ints=[i], strings=[b"x"])
            metadata = node.metadata_props.add(key="k")
            if i % 11 == 0:
                early_views.append((added, added.ints, metadata, node.attribute))
        for i, (added, ints, metadata, attributes) in enumerate(early_views):
            added.name = f"renamed{i}"
            ints.append(i)
            metadata.value = "v"
            attributes.add(name="more")
        yield [[attribute.name for attribute in node.attribute] for node in model.graph.node]
        yield [list(node.attribute[1].ints) for node in model.graph.node]
        for node in model.graph.node[::3]:
            node.attribute[1].floats.append(0.25)
        yield model.SerializeToString(deterministic=True)

    assert_same_as_official(body)
