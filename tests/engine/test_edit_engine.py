"""Interactions of views, sequences and copies that could crash or lose data.

Field numbers of wire bytes in this module: 7 graph of a model; 1 node, 2 name, 5 initializer and 10 doc_string of a
graph; 4 op_type of a node; 6 g and 11 graphs of an attribute; 5 map_type and 7 opaque_type of a TypeProto.
"""

import contextlib
import gc
import threading

import pytest
import wire

import onnxwire
from onnxwire import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto


def test_an_iterator_over_a_merged_message_outlives_an_edit_by_another_view():
    def graph_record(name: bytes) -> bytes:
        return wire.len_record(7, wire.len_record(1, wire.len_record(4, name)) * 3)

    model = ModelProto.FromString(graph_record(b"a") + graph_record(b"b"))
    graph = model.graph
    nodes = iter(graph.node)
    next(nodes)
    model.graph.name = "x"
    assert [node.op_type for node in nodes] == ["a", "a", "b", "b", "b"]


def test_copies_of_a_merged_message_and_of_its_neighbours_outlive_the_source():
    text = wire.len_record(2, b"two" * 1000)
    data = (
        wire.len_record(6, wire.len_record(2, b"one"))
        + wire.len_record(6, wire.len_record(10, b"doc"))
        + wire.len_record(11, text) * 200
    )
    source, target = AttributeProto.FromString(data), AttributeProto()
    target.graphs.extend([source.g, source.graphs[0], source.graphs[1]])
    del source, data
    assert [graph.name for graph in target.graphs] == ["one", "two" * 1000, "two" * 1000]


def test_copies_of_a_message_and_of_its_submessage_are_independent():
    outer = NodeProto(op_type="outer")
    outer.attribute.add(name="b").g.node.append(NodeProto(op_type="inner"))
    outer = GraphProto.FromString(GraphProto(node=[outer]).SerializeToString()).node[0]
    graph = GraphProto()
    graph.node.extend([outer, outer.attribute[0].g.node[0]])
    graph.node[1].op_type = "changed"
    assert graph.node[0].attribute[0].g.node[0].op_type == "inner"


def test_an_edit_of_an_empty_message_at_the_end_of_a_copy_changes_no_other_message():
    graph = GraphProto()
    graph.value_info.extend([onnxwire.ValueInfoProto(name=name, type=TypeProto()) for name in "ab"])
    graph.value_info[1].name = "changed"
    graph.value_info[0].type.denotation = "edited"
    reparsed = GraphProto.FromString(graph.SerializeToString())
    assert [(info.name, info.type.denotation) for info in reparsed.value_info] == [("a", "edited"), ("changed", "")]


@pytest.mark.parametrize(
    "replacement", [lambda n: wire.len_record(5, bytes(n - 2)), bytes], ids=["an initializer", "zeros"]
)
def test_bytes_that_change_under_an_edited_message_raise_decode_error_or_no_error(replacement):
    nodes = GraphProto(node=[NodeProto(name="a" * 20)] * 3).SerializeToString()
    data = bytearray(nodes)
    graph = onnxwire.load(data, type=GraphProto)
    graph.node[1].name = "edited"
    data[:] = replacement(len(nodes))
    for operation in (graph.SerializeToString, graph.ByteSize, lambda: list(graph.initializer), lambda: repr(graph)):
        with contextlib.suppress(onnxwire.DecodeError):
            operation()
    # Other messages are not affected.
    assert GraphProto.FromString(nodes).SerializeToString(deterministic=True) == nodes


def test_a_copy_during_which_a_finalizer_clears_the_source_is_complete_or_empty():
    source = GraphProto(node=[NodeProto(op_type="x", attribute=[AttributeProto(name="a")]) for _ in range(50)])
    source = GraphProto.FromString(source.SerializeToString())
    for node in source.node:
        node.attribute[0].name = "y" * 5000
    graph = GraphProto()
    graph.node.extend(source.node)

    class ClearingFinalizer:
        """An object that clears `graph`, the source of the copy, when the garbage collector frees the object."""

        def __init__(self):
            self.self_reference = self  # a cycle, so that only the garbage collector frees the object

        def __del__(self):
            del graph.node[:]

    threshold = gc.get_threshold()
    ClearingFinalizer()
    gc.set_threshold(1)
    copy = GraphProto()
    try:
        copy.CopyFrom(graph)
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert len(graph.node) == 0  # the finalizer has run
    assert len(copy.node) in (0, 50)
    assert list(copy.node) == list(source.node)[: len(copy.node)]


def test_no_nesting_of_messages_overflows_the_stack():
    def nest():
        graph = GraphProto()
        for _ in range(10_000):
            graph = graph.node.add(attribute=[{}]).attribute[0].g
            graph.SetInParent()

    def wrap():
        type_ = TypeProto()
        for _ in range(10_000):
            type_ = TypeProto(sequence_type={"elem_type": type_})
        return type_.SerializeToString()

    cycle = {}
    cycle["sequence_type"] = {"elem_type": cycle}
    for operation, error in ((nest, onnxwire.EditError), (lambda: TypeProto(**cycle), RecursionError)):
        with pytest.raises(error):
            operation()
    # `wrap` may raise an error or succeed, because small messages are copied by encoding them.
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(wire.result_or_error(wrap)))
    thread.start()
    thread.join()
    assert len(outcomes) == 1


def test_numbers_of_an_absent_message_are_read_again_after_an_edit():
    attribute = AttributeProto()
    dims = attribute.t.dims
    assert list(dims) == []
    attribute.MergeFromString(AttributeProto(t=TensorProto(dims=[1, 2, 3])).SerializeToString())
    dims.append(5)
    assert list(attribute.t.dims) == list(dims) == [1, 2, 3, 5]


def test_clearing_an_absent_field_does_not_restore_a_removed_message():
    # opaque_type with a domain, then map_type, then opaque_type with a name: map_type removes the first opaque_type.
    data = (
        wire.len_record(7, wire.len_record(1, b"old"))
        + wire.len_record(5, b"")
        + wire.len_record(7, wire.len_record(2, b"n"))
    )
    type_ = TypeProto.FromString(data)
    type_.ClearField("map_type")
    assert TypeProto.FromString(type_.SerializeToString()).opaque_type.domain == ""


def test_unknown_values_of_a_packed_enum_field_survive_an_edit():
    message_class = wire.class_namespaces()[0].Everything
    message = message_class.FromString(wire.len_record(70, b"\x07\xe7\x07\x00"))  # packed_shade: 7, 999 and 0
    message.packed_shade.append(0)
    reparsed = message_class.FromString(message.SerializeToString())
    assert reparsed._unknown_fields() == message._unknown_fields() != b""
    assert list(reparsed.packed_shade) == list(message.packed_shade)


def test_views_of_an_absent_message_share_edits():
    type_ = TypeProto()
    shape = type_.tensor_type.shape
    type_.MergeFromString(TypeProto(tensor_type={"elem_type": 1}).SerializeToString())
    shape.dim.add(denotation="first")
    second_shape = type(shape)(dim=[{"denotation": f"d{i}"} for i in range(3)])
    type_.tensor_type.shape.ParseFromString(second_shape.SerializeToString())
    assert [dim.denotation for dim in shape.dim] == ["d0", "d1", "d2"]


def test_a_sequence_refers_to_its_removed_elements_even_if_equal_elements_replace_them():
    data = GraphProto(node=[NodeProto(op_type="a")] * 3).SerializeToString()
    graph = GraphProto.FromString(data)
    nodes = graph.node
    graph.ParseFromString(data)
    nodes[0].op_type = "mine"
    nodes.append(NodeProto(op_type="new"))
    assert [node.op_type for node in nodes] == ["mine", "a", "a", "new"]
    assert [node.op_type for node in graph.node] == ["a", "a", "a"]


def test_closing_a_nested_message_does_not_close_a_shared_document():
    graph = GraphProto(node=[NodeProto(op_type="a")] * 3)
    for node in graph.node:
        node.close()
    with graph.node[0]:
        pass
    assert [node.op_type for node in graph.node] == ["a", "a", "a"]


@pytest.mark.parametrize("n", [2000])
def test_alternating_edits_and_copies_affect_the_right_nodes(n):
    source = GraphProto.FromString(GraphProto(node=[NodeProto(op_type="x")] * n).SerializeToString())
    target = GraphProto()
    order = [*range(1, n, 2), *range(0, n, 2)]
    for i in order:
        source.node[i].name = str(i)
        target.node.append(source.node[i])
    assert [int(node.name) for node in target.node] == order
    assert GraphProto.FromString(source.SerializeToString()) == source
