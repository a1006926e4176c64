"""Added messages that the program has no reference to are encoded; the others stay editable."""

from __future__ import annotations

import os
import random
import tracemalloc

import onnx
import pytest

import onnxwire

COUNT = 200


def fill(node, i):
    node.op_type = "Conv"
    node.name = f"conv_{i}"
    node.input.extend([f"x{i}", f"w{i}"])
    node.output.append(f"x{i + 1}")
    kernel = node.attribute.add(name="kernel_shape", type=7)
    kernel.ints.extend([3, 3, i])
    node.attribute.add(name="group", type=2, i=i)


REFERENCES = {
    "the node": lambda node: node,
    "its names": lambda node: node.input,
    "an iterator": lambda node: iter(node.input),
    "an attribute": lambda node: node.attribute[0],
    "numbers of an attribute": lambda node: node.attribute[0].ints,
    "the attributes": lambda node: node.attribute,
    "an absent message": lambda node: node.attribute[1].t,
    "a memoryview": lambda node: memoryview(node.attribute[0].ints),
}


@pytest.mark.parametrize("kind", REFERENCES)
def test_referenced_values_stay_attached_while_elements_are_added(kind):
    def make(package):
        graph, kept = package.GraphProto(), {}
        for i in range(COUNT):
            node = graph.node.add()
            fill(node, i)
            if i % 7 == 0:
                # protobuf has no buffers of its numbers.
                kept[i] = REFERENCES["numbers of an attribute" if package is onnx and kind == "a memoryview" else kind](
                    node
                )
        for i, held in kept.items():
            if kind == "the node":
                held.name = f"renamed_{i}"
                held.attribute.add(name="late", i=1)
            elif kind == "its names":
                held[0] = f"renamed_{i}"
            elif kind == "an iterator":
                assert next(held) == f"x{i}"
                graph.node[i].input.insert(1, "late")
                assert next(held) == "late"
            elif kind == "an attribute":
                held.ints.append(5)
                held.doc_string = "late"
            elif kind == "numbers of an attribute":
                held[:1] = [7, 8]
            elif kind == "the attributes":
                held.add(name="late")
                del held[0]
            elif kind == "an absent message":
                held.name = "late"
            else:
                assert list(held) == [3, 3, i]
        return graph.SerializeToString()

    assert make(onnxwire) == make(onnx)


def test_random_programs_that_add_and_edit_produce_the_official_bytes():
    def run(package, seed):
        chance = random.Random(seed)
        graph, held = package.GraphProto(), []
        for i in range(300):
            act = chance.randrange(12)
            if act < 6:
                fill(graph.node.add(), i)
            elif act == 6:
                held.append(graph.node.add(name=f"held_{i}"))
            elif act == 7 and len(graph.node):
                node = graph.node[chance.randrange(len(graph.node))]
                held.append(node)
                held.append(node.attribute.add(name=f"more_{i}"))
            elif act == 8 and held:
                message = held.pop(chance.randrange(len(held)))
                message.name = f"late_{i}"
                message.doc_string = "late"
            elif act == 9 and len(graph.node) > 1:
                del graph.node[chance.randrange(len(graph.node))]
            elif act == 10:
                graph.node.insert(chance.randrange(len(graph.node) + 1), package.NodeProto(name=f"inserted_{i}"))
            elif act == 11:
                graph.node.sort(key=lambda node: node.name)
        return graph.SerializeToString()

    for seed in range(30):
        assert run(onnxwire, seed) == run(onnx, seed)


def test_added_empty_messages_are_distinct():
    graph = onnxwire.GraphProto()
    for _ in range(COUNT):
        graph.node.add()
    for i, node in enumerate(graph.node):
        node.name = f"n{i}"
    assert [node.name for node in graph.node] == [f"n{i}" for i in range(COUNT)]


@pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="there only messages of 24 bytes are folded")
@pytest.mark.parametrize("levels", [1, 2, pytest.param(3, marks=pytest.mark.long)])
def test_a_built_message_takes_little_more_memory_than_its_bytes(levels):
    def build(graph, left):
        for i in range(20 if left > 1 else 2_000):
            node = graph.node.add()
            fill(node, i)
            if left > 1:
                build(node.attribute.add(name="body", type=5).g, left - 1)

    graph = onnxwire.GraphProto()
    build(graph.node.add().attribute.add().g, 1)  # the last element is not frozen
    graph = onnxwire.GraphProto()
    tracemalloc.start()
    try:
        build(graph, levels)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 2 * graph.ByteSize() + (1 << 16)  # C memory included
