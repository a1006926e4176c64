"""How work grows: opening not with the size of weights, saving as the bytes do, the rest as what is gone through.

Work is counted where the system counts it: page faults, and bytes that calls read and wrote. Where it does not, the
processor time of a large input is held against that of a small one; a quadratic path would cost ten times the share.
"""

import io
import os
import resource
import time
from pathlib import Path

import pytest
from wire import LEN, number, span, tag, varint

import onnxwire
from onnxwire import ModelProto, TensorProto
from onnxwire.transforms.assign import remove

COUNTS = Path("/proc/self/io")


def write_weights(path, size, tensors=64):
    """Write a model whose tensors have `size` bytes together, all of them holes."""
    each = size // tensors
    heads = [
        b"".join([number(1, each), number(2, 2), span(8, b"weight_%04d" % index), tag(9, LEN), varint(each)])
        for index in range(tensors)
    ]
    lengths = [tag(5, LEN) + varint(len(head) + each) for head in heads]
    graph = span(2, b"weights")
    total = len(graph) + sum(len(length) + len(head) + each for length, head in zip(lengths, heads, strict=True))
    with open(path, "wb") as file:
        file.write(b"".join([number(1, 10), tag(7, LEN), varint(total), graph]))
        for length, head in zip(lengths, heads, strict=True):
            file.write(length + head)
            file.seek(each, os.SEEK_CUR)
        file.truncate(file.tell())


def model_of(nodes):
    """The bytes of a model: a chain of nodes, each with a value_info."""
    elem = span(1, number(1, 1) + span(2, span(1, number(1, 4)) * 2))
    records = []
    for index in range(nodes):
        names = [span(1, b"/layer/v%d" % index), span(2, b"/layer/v%d" % (index + 1)), span(3, b"/layer/n%d" % index)]
        records.append(span(1, b"".join(names) + span(4, b"Relu")))
    records.append(span(2, b"chain"))
    records.append(span(11, span(1, b"/layer/v0") + span(2, elem)))
    records.append(span(12, span(1, b"/layer/v%d" % nodes) + span(2, elem)))
    for index in range(1, nodes):
        records.append(span(13, span(1, b"/layer/v%d" % index) + span(2, elem)))
    return number(1, 10) + span(7, b"".join(records)) + span(8, number(2, 20))


def faults(act):
    """Page faults of an act, the least of three times."""
    found = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        act()
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(found)


def test_opening_and_listing_touch_as_many_pages_of_20_gb_as_of_1(tmp_path):
    def list_weights(path):
        with onnxwire.load(path) as model:
            return [(tensor.name, tuple(tensor.dims)) for tensor in model.graph.initializer]

    counts = []
    for gigabytes in (1, 20):
        path = tmp_path / f"{gigabytes}.onnx"
        write_weights(path, gigabytes << 30)
        assert len(list_weights(path)) == 64
        counts.append(faults(lambda path=path: list_weights(path)))
    assert counts[1] <= counts[0] + 64, counts


@pytest.mark.skipif(not COUNTS.exists(), reason="the system does not count the bytes of calls")
def test_saving_reads_and_writes_each_byte_once(tmp_path):
    def moved():
        return {name: int(count) for name, count in (line.split(":") for line in COUNTS.read_text().splitlines())}

    for size in (16 << 20, 64 << 20):
        path = tmp_path / f"{size}.onnx"
        write_weights(path, size)
        path.write_bytes(path.read_bytes())  # without holes
        with onnxwire.load(path) as model:
            model.graph.name = "renamed"
            before = moved()
            onnxwire.save(model, tmp_path / "saved.onnx")
            after = moved()
        whole = (tmp_path / "saved.onnx").stat().st_size
        assert whole <= after["wchar"] - before["wchar"] <= whole + (1 << 16)
        assert after["rchar"] - before["rchar"] <= whole + (1 << 16)


def walk(model):
    for node in model.graph.node:
        assert node.op_type == "Relu"
        assert len(list(node.input)) + len(list(node.output)) == 2
    for value in model.graph.value_info:
        assert [dim.dim_value for dim in value.type.tensor_type.shape.dim] == [4, 4]


def check(model):
    assert not [problem for problem in onnxwire.check(model) if problem.severity == "error"]


def edit(model):
    for node in model.graph.node:
        node.name += "_edited"
    model.SerializeToString()


def build(model):
    other = ModelProto()
    for node in model.graph.node:
        other.graph.node.add().CopyFrom(node)
    other.SerializeToString()


def delete(model):
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


def extract(model):
    middle = len(model.graph.value_info) // 2
    onnxwire.extract(model, [model.graph.input[0].name], [model.graph.value_info[middle].name])


ACTS = [walk, check, edit, build, delete, remove_by_path, rename, extract, tables]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_ten_times_as_many_nodes_cost_ten_times_as_much(act):
    def seconds(nodes):
        data = model_of(nodes)
        best = float("inf")
        for _ in range(3):
            model = ModelProto.FromString(data)
            start = time.process_time()
            act(model)
            best = min(best, time.process_time() - start)
        return best

    act(ModelProto.FromString(model_of(100)))  # imports what it takes
    small, large = seconds(4_000), seconds(40_000)
    assert large <= 30 * small + 0.05, f"{small:.4f} s of 4,000 nodes, {large:.4f} s of 40,000"


def index_numbers(n, record):
    """A loop as the official runtime has it at no cost: a sequence anew, and its length, for each number."""
    tensor = TensorProto.FromString(record(n))
    index = 0
    while index < len(tensor.int64_data):
        assert tensor.int64_data[index] == 5
        index += 1
    assert index == n


def ask_for_the_length(n, record):
    numbers = TensorProto.FromString(record(n)).int64_data
    assert sum(1 for _ in range(n) if len(numbers) == n) == n


RECORDS = {"unpacked": lambda n: number(7, 5) * n, "packed": lambda n: span(7, b"\5" * n)}


@pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
@pytest.mark.parametrize("act", [index_numbers, ask_for_the_length], ids=lambda act: act.__name__)
def test_eight_times_as_many_numbers_cost_eight_times_as_much(act, record):
    def seconds(n):
        start = time.process_time()
        act(n, record)
        return time.process_time() - start

    few, many = 4_000, 32_000
    if record is RECORDS["packed"]:
        few, many = 50_000, 400_000  # 64 are counted at once
    small, large = min(seconds(few) for _ in range(3)), seconds(many)
    assert large <= 24 * small + 0.05, f"{small:.4f} s of {few:,} numbers, {large:.4f} s of {many:,}"


@pytest.mark.parametrize("method", ["MergeFrom", "MergeFromString"])
def test_ten_times_as_many_merges_of_unknown_fields_cost_ten_times_as_much(method):
    unknown = span(1000, b"abcd")
    other = TensorProto.FromString(unknown) if method == "MergeFrom" else unknown

    def seconds(n):
        tensor = TensorProto()
        merge = getattr(tensor, method)
        start = time.process_time()
        for _ in range(n):
            merge(other)
        taken = time.process_time() - start
        assert tensor.SerializeToString() == unknown * n
        return taken

    small, large = min(seconds(10_000) for _ in range(3)), seconds(100_000)
    assert large <= 30 * small + 0.05, f"{small:.4f} s of 10,000 merges, {large:.4f} s of 100,000"


def test_ten_times_as_many_tensors_of_one_name_cost_ten_times_as_much():
    def seconds(tensors):
        model = ModelProto()
        for _ in range(tensors):
            model.graph.initializer.add(name="w", data_type=2, dims=[1], raw_data=b"x")
        start = time.process_time()
        # It is refused when each has the name of its file.
        with pytest.raises(onnxwire.EditError, match="path of a file"):
            onnxwire.save(model, io.BytesIO(), external="{name}", threshold=1)
        return time.process_time() - start

    seconds(10)
    small, large = min(seconds(1_000) for _ in range(3)), seconds(10_000)
    assert large <= 30 * small + 0.05, f"{small:.4f} s of 1,000 tensors, {large:.4f} s of 10,000"


def test_a_thousand_edits_cost_a_thousand_times_one():
    """An edit is charged for what it changes, not for the edits before it, nor for the model that it is in."""

    def seconds(edits, nodes):
        model = ModelProto.FromString(model_of(nodes))
        chosen = [model.graph.node[index] for index in range(0, nodes, nodes // edits)]
        start = time.process_time()
        for node in chosen:
            node.doc_string = "edited"
        return time.process_time() - start

    seconds(10, 1000)
    few = min(seconds(200, 20_000) for _ in range(5))
    many = min(seconds(10_000, 20_000) for _ in range(3))
    assert many <= 150 * few + 0.05, (few, many)
    small = min(seconds(1000, 2_000) for _ in range(5))
    large = min(seconds(1000, 40_000) for _ in range(5))
    assert large <= 3 * small + 0.05, (small, large)
