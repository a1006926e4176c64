"""The cost of opening a model hardly depends on the size of its weights, and the cost of an edit hardly depends on the
size of the model. Other costs grow at most in proportion to the number of bytes or elements.

Costs are measured in page faults, in bytes of system calls and in instructions (valgrind), never in seconds.
"""

import os
import resource
from pathlib import Path

import growth
import instructions
import pytest
from wire import LEN, len_record, tag, varint, varint_record

import onnxwire

IO_COUNTS = Path("/proc/self/io")


def write_weights(path, size, tensors=64):
    """Write a model with `tensors` tensors. Their values take `size` bytes in total, all in holes of the file."""
    tensor_bytes = size // tensors
    # Each tensor: dims, data_type UINT8, name, and the tag and length of raw_data.
    heads = [
        b"".join(
            [
                varint_record(1, tensor_bytes),
                varint_record(2, 2),
                len_record(8, b"weight_%04d" % index),
                tag(9, LEN),
                varint(tensor_bytes),
            ]
        )
        for index in range(tensors)
    ]
    # The tag and length of each element of the graph's field 5, initializer.
    lengths = [tag(5, LEN) + varint(len(head) + tensor_bytes) for head in heads]
    graph = len_record(2, b"weights")
    graph_size = len(graph) + sum(
        len(length) + len(head) + tensor_bytes for length, head in zip(lengths, heads, strict=True)
    )
    with open(path, "wb") as file:
        file.write(b"".join([varint_record(1, 10), tag(7, LEN), varint(graph_size), graph]))  # ir_version and graph
        for length, head in zip(lengths, heads, strict=True):
            file.write(length + head)
            file.seek(tensor_bytes, os.SEEK_CUR)
        file.truncate(file.tell())


def page_faults(function):
    """Return the number of page faults of a call of the function: the minimum of three calls."""
    fault_counts = []
    for _ in range(3):
        faults_before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        function()
        fault_counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults_before)
    return min(fault_counts)


def test_opening_and_listing_20_gib_of_weights_causes_about_as_many_page_faults_as_1_gib(tmp_path):
    def list_weights(path):
        with onnxwire.load(path) as model:
            return [(tensor.name, tuple(tensor.dims)) for tensor in model.graph.initializer]

    counts = []
    for size_in_gib in (1, 20):
        path = tmp_path / f"{size_in_gib}.onnx"
        write_weights(path, size_in_gib << 30)
        assert len(list_weights(path)) == 64
        counts.append(page_faults(lambda path=path: list_weights(path)))
    assert counts[1] <= counts[0] + 64, counts


@pytest.mark.skipif(not IO_COUNTS.exists(), reason="needs /proc/self/io")
def test_saving_reads_each_byte_at_most_once_and_writes_each_byte_once(tmp_path):
    def read_io_counts():
        return {name: int(count) for name, count in (line.split(":") for line in IO_COUNTS.read_text().splitlines())}

    onnxwire.save(onnxwire.ModelProto(ir_version=10), tmp_path / "saved.onnx")  # the first save imports modules
    for size in (16 << 20, 64 << 20):
        path = tmp_path / f"{size}.onnx"
        write_weights(path, size)
        path.write_bytes(path.read_bytes())  # replaces the holes by zeros
        with onnxwire.load(path) as model:
            model.graph.name = "renamed"
            counts_before = read_io_counts()
            onnxwire.save(model, tmp_path / "saved.onnx")
            counts_after = read_io_counts()
        file_size = (tmp_path / "saved.onnx").stat().st_size
        assert file_size <= counts_after["wchar"] - counts_before["wchar"] <= file_size + (1 << 16)
        assert counts_after["rchar"] - counts_before["rchar"] <= file_size + (1 << 16)


@pytest.fixture(
    scope="module", params=[growth.SIZES, pytest.param(growth.LARGE_SIZES, marks=pytest.mark.long)], ids=max
)
def sizes(request):
    """Return three sizes of an input, in nodes or elements; each is ten times the previous."""
    return request.param


@pytest.fixture(scope="module")
def counts(sizes):
    """Return the numbers of instructions of each call at the three sizes, by label."""
    return instructions.run("growth", "measure", sizes)


@instructions.needs_valgrind
@pytest.mark.parametrize("label", [*growth.CALLS, growth.EDITS_OF_ONE_MODEL])
def test_the_cost_of_a_call_grows_in_proportion_to_the_size_of_its_input(counts, label):
    # The subtractions remove the constant cost of a call. Linear work gives a ratio of 10, quadratic work one of 100.
    small_count, middle_count, large_count = counts[label]
    assert large_count - middle_count <= 15 * (middle_count - small_count), counts[label]


@instructions.needs_valgrind
def test_an_edit_costs_at_most_twice_as_much_in_a_model_a_hundred_times_as_large(counts):
    small_count, _, large_count = counts[growth.EDITS_OF_LARGER_MODELS]
    assert large_count <= 2 * small_count, counts[growth.EDITS_OF_LARGER_MODELS]


@instructions.needs_valgrind
def test_a_search_for_tensors_executes_fewer_than_800_instructions_per_node(sizes, counts):
    _, middle_count, large_count = counts["search_tensors"]
    n_added_nodes = sizes[2] - sizes[1]
    assert large_count - middle_count < 800 * n_added_nodes, counts["search_tensors"]
