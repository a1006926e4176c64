"""The engine encodes ("freezes") added messages that the program does not reference.

They stay editable, up to the limit of the nesting of edited messages.
"""

from __future__ import annotations

import os
import random
import tracemalloc

import onnx
import pytest

import onnxwire

NODE_COUNT = 200
MAX_OVERLAY_DEPTH = 500  # the maximum nesting of edited messages; defined in onnxwire/_nesting_limits.pxd


def fill_node(node, i):
    """Set names and attributes of the node with index i."""
    node.op_type = "Conv"
    node.name = f"conv_{i}"
    node.input.extend([f"x{i}", f"w{i}"])
    node.output.append(f"x{i + 1}")
    kernel = node.attribute.add(name="kernel_shape", type=7)
    kernel.ints.extend([3, 3, i])
    node.attribute.add(name="group", type=2, i=i)


# Description → a function that returns a reference to a node or to a part of it.
REFERENCES = {
    "the node": lambda node: node,
    "its inputs": lambda node: node.input,
    "an iterator": lambda node: iter(node.input),
    "an attribute": lambda node: node.attribute[0],
    "numbers of an attribute": lambda node: node.attribute[0].ints,
    "the attributes": lambda node: node.attribute,
    "an absent message": lambda node: node.attribute[1].t,
    "a memoryview": lambda node: memoryview(node.attribute[0].ints),
}


@pytest.mark.parametrize("reference", REFERENCES)
def test_referenced_values_stay_attached_while_elements_are_added(reference):
    def build_and_edit(package):
        """Add nodes, keep references to every seventh, and edit through these; return the encoding of the graph."""
        graph, references = package.GraphProto(), {}
        for i in range(NODE_COUNT):
            node = graph.node.add()
            fill_node(node, i)
            if i % 7 == 0:
                # The official sequences of numbers do not support the buffer protocol.
                references[i] = REFERENCES[
                    "numbers of an attribute" if package is onnx and reference == "a memoryview" else reference
                ](node)
        for i, value in references.items():
            if reference == "the node":
                value.name = f"renamed_{i}"
                value.attribute.add(name="late", i=1)
            elif reference == "its inputs":
                value[0] = f"renamed_{i}"
            elif reference == "an iterator":
                assert next(value) == f"x{i}"
                graph.node[i].input.insert(1, "late")
                assert next(value) == "late"
            elif reference == "an attribute":
                value.ints.append(5)
                value.doc_string = "late"
            elif reference == "numbers of an attribute":
                value[:1] = [7, 8]
            elif reference == "the attributes":
                value.add(name="late")
                del value[0]
            elif reference == "an absent message":
                value.name = "late"
            else:
                assert list(value) == [3, 3, i]
        return graph.SerializeToString()

    assert build_and_edit(onnxwire) == build_and_edit(onnx)


def test_random_programs_that_add_and_edit_produce_the_official_bytes():
    def run_program(package, seed):
        """Make up to 300 random edits of a new graph; return its encoding."""
        rng = random.Random(seed)
        graph, references = package.GraphProto(), []
        for i in range(300):
            edit = rng.randrange(12)
            if edit < 6:
                fill_node(graph.node.add(), i)
            elif edit == 6:
                references.append(graph.node.add(name=f"referenced_{i}"))
            elif edit == 7 and len(graph.node):
                node = graph.node[rng.randrange(len(graph.node))]
                references.append(node)
                references.append(node.attribute.add(name=f"more_{i}"))
            elif edit == 8 and references:
                message = references.pop(rng.randrange(len(references)))
                message.name = f"late_{i}"
                message.doc_string = "late"
            elif edit == 9 and len(graph.node) > 1:
                del graph.node[rng.randrange(len(graph.node))]
            elif edit == 10:
                graph.node.insert(rng.randrange(len(graph.node) + 1), package.NodeProto(name=f"inserted_{i}"))
            elif edit == 11:
                graph.node.sort(key=lambda node: node.name)
        return graph.SerializeToString()

    for seed in range(30):
        assert run_program(onnxwire, seed) == run_program(onnx, seed)


def test_added_empty_messages_are_distinct():
    graph = onnxwire.GraphProto()
    for _ in range(NODE_COUNT):
        graph.node.add()
    for i, node in enumerate(graph.node):
        node.name = f"n{i}"
    assert [node.name for node in graph.node] == [f"n{i}" for i in range(NODE_COUNT)]


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitized build freezes only messages of up to 24 bytes"
)
@pytest.mark.parametrize("levels", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_a_built_message_takes_less_than_about_twice_the_memory_of_its_encoding(levels):
    def build(graph, n_levels):
        for i in range(20 if n_levels > 1 else 2_000):
            node = graph.node.add()
            fill_node(node, i)
            if n_levels > 1:
                build(node.attribute.add(name="body", type=5).g, n_levels - 1)

    graph = onnxwire.GraphProto()
    build(graph.node.add().attribute.add().g, 1)  # fills caches and free lists before the measurement
    graph = onnxwire.GraphProto()
    tracemalloc.start()
    try:
        build(graph, levels)
        traced_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert traced_bytes < 2 * graph.ByteSize() + (1 << 16)  # tracemalloc also counts the memory of the C code


def graph_and_deepest_node():
    """Return a graph, and a node in it to which one more level of edited messages can be added."""
    root = graph = onnxwire.GraphProto()
    for _ in range(MAX_OVERLAY_DEPTH // 3):
        graph = graph.node.add().attribute.add().g
        graph.name = "level"
    return root, graph.node.add()


def test_frozen_messages_at_the_nesting_limit_stay_editable():
    root, node = graph_and_deepest_node()
    for i in range(NODE_COUNT):
        node.attribute.add(name=str(i))
    for attribute in node.attribute:
        attribute.s = b"first"
        attribute.floats.append(1)
        attribute.strings.append(b"x")
    for attribute in node.attribute:
        assert (attribute.s, *attribute.floats, *attribute.strings) == (b"first", 1, b"x")
    assert len(root.SerializeToString()) == root.ByteSize()


def test_a_first_edit_beyond_the_nesting_limit_changes_nothing():
    _, node = graph_and_deepest_node()
    graph = onnxwire.GraphProto(name="g", node=[{"name": "inner", "input": ["a"]}])
    parsed_attribute = onnxwire.AttributeProto.FromString(
        onnxwire.AttributeProto(name="parsed", g=graph).SerializeToString()
    )
    for _ in range(40):
        node.attribute.append(parsed_attribute)
    for attribute in node.attribute:
        inner_node = attribute.g.node[0]
        for edit in (lambda: setattr(inner_node, "name", "new"), lambda: inner_node.input.append("b")):  # noqa: B023
            with pytest.raises(onnxwire.EditError, match=f"nested more than {MAX_OVERLAY_DEPTH} deep"):
                edit()
            assert (inner_node.name, list(inner_node.input)) == ("inner", ["a"])
