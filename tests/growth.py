"""Calls whose instructions `test_growth.py` counts at three sizes of their input."""

from __future__ import annotations

import contextlib
import io
from functools import cache
from typing import TYPE_CHECKING

from wire_bytes import len_record, varint_record

import onnxwire
from onnxwire import ModelProto, TensorProto
from onnxwire.transforms.assign import remove

if TYPE_CHECKING:
    from instruction_counter import Counter

SIZES = (20, 200, 2_000)  # numbers of nodes or elements
LARGE_SIZES = (400, 4_000, 40_000)  # additional sizes with --long


@cache
def chain_bytes(nodes):
    """Return the bytes of a model: a chain of nodes, with a value_info of each intermediate value."""
    # A float tensor of shape 4 x 4. Field numbers of the graph: node 1, name 2, input 11, output 12, value_info 13.
    tensor_type = len_record(1, varint_record(1, 1) + len_record(2, len_record(1, varint_record(1, 4)) * 2))
    records = []
    # Field numbers of a node: input 1, output 2, name 3, op_type 4.
    for index in range(nodes):
        names = [
            len_record(1, b"/layer/v%d" % index),
            len_record(2, b"/layer/v%d" % (index + 1)),
            len_record(3, b"/layer/n%d" % index),
        ]
        records.append(len_record(1, b"".join(names) + len_record(4, b"Relu")))
    records.append(len_record(2, b"chain"))
    records.append(len_record(11, len_record(1, b"/layer/v0") + len_record(2, tensor_type)))
    records.append(len_record(12, len_record(1, b"/layer/v%d" % nodes) + len_record(2, tensor_type)))
    for index in range(1, nodes):
        records.append(len_record(13, len_record(1, b"/layer/v%d" % index) + len_record(2, tensor_type)))
    # Field numbers of the model: ir_version 1, graph 7, opset_import 8.
    return varint_record(1, 10) + len_record(7, b"".join(records)) + len_record(8, varint_record(2, 20))


# --- calls on a chain


def walk(model):
    """Read every node and value_info."""
    for node in model.graph.node:
        assert node.op_type == "Relu"
        assert len(list(node.input)) + len(list(node.output)) == 2
    for value in model.graph.value_info:
        assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [4, 4]


def check(model):
    assert not [problem for problem in onnxwire.check(model) if problem.severity == "error"]


def edit(model):
    """Rename every node and encode the model."""
    for node in model.graph.node:
        node.name += "_edited"
    model.SerializeToString()


def build(model):
    """Copy the nodes one by one to a new model and encode it."""
    copy = ModelProto()
    for node in model.graph.node:
        copy.graph.node.add().CopyFrom(node)
    copy.SerializeToString()


def delete(model):
    """Remove the second half of the nodes one by one and encode the model."""
    nodes = model.graph.node
    for _ in range(len(nodes) // 2):
        nodes.pop()
    model.SerializeToString()


def remove_by_path(model):
    remove(model, ["graph.node[::2]", "graph.value_info[::2]"])


def rename(model):
    onnxwire.rename_values(model, {value.name: f"{value.name}_renamed" for value in model.graph.value_info})
    model.SerializeToString()


def tables(model):
    assert len(onnxwire.to_arrow(model, "nodes")) * 2 == len(onnxwire.to_arrow(model, "uses"))


def search_tensors(model):
    assert not onnxwire.tensors(model)


def extract(model):
    """Extract the first half of the chain."""
    middle_index = len(model.graph.value_info) // 2
    onnxwire.extract(model, [model.graph.input[0].name], [model.graph.value_info[middle_index].name])


# --- calls with other arguments


def unpacked_records(n):
    """Return n unpacked numbers of the field int64_data."""
    return varint_record(7, 5) * n


def packed_records(n):
    """Return n packed numbers of the field int64_data."""
    return len_record(7, b"\5" * n)


def index_numbers(tensor, n):
    """Loop by index; read the sequence and its length for each element, as programs for protobuf do."""
    index = 0
    while index < len(tensor.int64_data):
        assert tensor.int64_data[index] == 5
        index += 1
    assert index == n


def read_the_length(tensor, n):
    """Read the length of a sequence n times."""
    numbers = tensor.int64_data
    assert sum(1 for _ in range(n) if len(numbers) == n) == n


UNKNOWN_RECORD = len_record(1000, b"abcd")


def merge(n):
    """Merge n messages with an unknown field."""
    tensor, source = TensorProto(), TensorProto.FromString(UNKNOWN_RECORD)
    for _ in range(n):
        tensor.MergeFrom(source)
    assert tensor.SerializeToString() == UNKNOWN_RECORD * n


def merge_bytes(n):
    """Merge the bytes of n messages with an unknown field."""
    tensor = TensorProto()
    for _ in range(n):
        tensor.MergeFromString(UNKNOWN_RECORD)
    assert tensor.SerializeToString() == UNKNOWN_RECORD * n


def save_tensors_of_one_name(model):
    """Choose a unique file name for each tensor. The save then fails, since a file object has no folder for files."""
    with contextlib.suppress(onnxwire.EditError):
        onnxwire.save(model, io.BytesIO(), external="{name}", threshold=1)
        raise AssertionError("external data is saved beside a file object")


def tensors_of_one_name(n):
    """Return a model with n tensors of the same name."""
    model = ModelProto()
    for _ in range(n):
        model.graph.initializer.add(name="w", data_type=2, dims=[1], raw_data=b"x")
    return model


def edit_all(nodes):
    for node in nodes:
        node.doc_string = "edited"


def evenly_spaced_nodes(model, n):
    """Return at least n nodes of a model, at equal distances."""
    nodes = model.graph.node
    return [nodes[index] for index in range(0, len(nodes), len(nodes) // n)]


def load_chain(n):
    """Return a chain of n nodes."""
    return ModelProto.FromString(chain_bytes(n))


def tensor_of(records):
    """Return a function that makes the arguments (tensor that is decoded from `records(n)`, n)."""
    return lambda n: (TensorProto.FromString(records(n)), n)


def renamed_pair(nodes):
    """Return two models that differ in one operator, in the names of nodes, and in some names of values. Each is a
    chain of `nodes` nodes with as many additional readers of its input."""
    pair = []
    for prefix in ("old", "new"):
        model = load_chain(nodes)
        for index, node in enumerate(model.graph.node):
            node.name = f"{prefix}{index}"
        shared_value = model.graph.input[0].name
        for _ in range(nodes):
            model.graph.node.add(op_type="Abs", input=[shared_value], output=[f"{prefix}{len(model.graph.node)}"])
        model.graph.node[nodes // 2].op_type = prefix
        pair.append(model)
    return tuple(pair)


def diff_by_structure(old, new):
    assert len(list(onnxwire.diff(old, new, match="structure"))) > 1


# Label → (function that makes the arguments for a size, function whose instructions are counted).
CALLS = {
    # This call executes many instructions per node, so its models have half as many nodes.
    "diff by structure": (lambda n: renamed_pair(n // 4), diff_by_structure),
    **{
        call.__name__: (lambda n: (load_chain(n),), call)
        for call in (walk, check, edit, build, delete, remove_by_path, rename, extract, tables, search_tensors)
    },
    **{
        f"{call.__name__} {records.__name__}": (tensor_of(records), call)
        for call in (index_numbers, read_the_length)
        for records in (unpacked_records, packed_records)
    },
    "merge": (lambda n: (n,), merge),
    "merge bytes": (lambda n: (n,), merge_bytes),
    "save tensors of one name": (lambda n: (tensors_of_one_name(n // 4),), save_tensors_of_one_name),
}
EDITS_OF_ONE_MODEL, EDITS_OF_LARGER_MODELS = "edits of one model", "edits of larger models"


def measure(count: Counter, sizes: list[int]) -> dict[str, list[int]]:
    """Return the number of instructions of each call at each size, by label.

    EDITS_OF_ONE_MODEL counts edits of different numbers of nodes in one model. EDITS_OF_LARGER_MODELS counts edits of
    the same number of nodes in models of different sizes.
    """

    def instructions_of(call, call_arguments):
        with count:
            call(*call_arguments)
        return count.instructions

    # Python is ten times as slow once the first instructions have been counted, so import and make most models first.
    for make_arguments, call in CALLS.values():
        call(*make_arguments(sizes[0]))
    arguments_by_label = {label: [make_arguments(n) for n in sizes] for label, (make_arguments, _) in CALLS.items()}
    instructions = {
        label: [instructions_of(call, call_arguments) for call_arguments in arguments_by_label[label]]
        for label, (_, call) in CALLS.items()
    }
    instructions[EDITS_OF_ONE_MODEL] = [
        instructions_of(edit_all, (evenly_spaced_nodes(load_chain(sizes[-1]), n),)) for n in sizes
    ]
    instructions[EDITS_OF_LARGER_MODELS] = [
        instructions_of(edit_all, (evenly_spaced_nodes(load_chain(n), sizes[0]),)) for n in sizes
    ]
    return instructions
