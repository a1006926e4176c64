"""Growth of work: opening is independent of the size of weights; other work is proportional to the number of bytes or
elements.

Work is measured in page faults, in bytes of system calls, and in instructions (valgrind), never in seconds.
"""

import os
import resource
from pathlib import Path

import growth
import instructions
import pytest
from wire import LEN, number, span, tag, varint

import onnxwire

COUNTS = Path("/proc/self/io")


def write_weights(path, size, tensors=64):
    """Write a model with tensors of `size` bytes in all, which are holes in the file."""
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


def faults(act):
    """Return the page faults of a call, the minimum of three runs."""
    found = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        act()
        found.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    return min(found)


def test_opening_and_listing_weights_of_20_gb_touches_as_many_pages_as_of_1_gb(tmp_path):
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

    onnxwire.save(onnxwire.ModelProto(ir_version=10), tmp_path / "saved.onnx")  # reads modules that it imports
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


@pytest.fixture(
    scope="module", params=[growth.SIZES, pytest.param(growth.LARGE_SIZES, marks=pytest.mark.long)], ids=max
)
def sizes(request):
    """Return three numbers of nodes; each is ten times the previous."""
    return request.param


@pytest.fixture(scope="module")
def counts(sizes):
    """Return the instructions of each call at the three sizes."""
    return instructions.run("growth", "measure", sizes)


@instructions.needs_valgrind
@pytest.mark.parametrize("label", [*growth.CALLS, growth.SOME_EDITS])
def test_a_call_on_ten_times_as_much_costs_ten_times_as_much(counts, label):
    # Differences remove the constant cost of a call. Linear work gives a ratio of 10, n log n gives 12.
    small, middle, large = counts[label]
    assert large - middle <= 15 * (middle - small), counts[label]


@instructions.needs_valgrind
def test_an_edit_costs_no_more_in_a_larger_model(counts):
    small, _, large = counts[growth.SAME_EDITS]
    assert large <= 2 * small, counts[growth.SAME_EDITS]


@instructions.needs_valgrind
def test_nodes_without_tensors_cost_a_search_a_scan_of_their_bytes_and_no_view(sizes, counts):
    _, middle, large = counts["search_tensors"]
    nodes = sizes[2] - sizes[1]
    assert large - middle < 800 * nodes, counts["search_tensors"]
