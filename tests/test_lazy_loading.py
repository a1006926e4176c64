"""Modules are imported and memory pages read only when needed; views are small, and indexing scans a list once."""

import gc
import os
import subprocess
import sys
import sysconfig
import tracemalloc
from pathlib import Path

import onnx
import pytest
from onnx import helper

import onnxwire

needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def run_python(code: str, *arguments: object) -> str:
    """Run code in a fresh interpreter and return its output."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_import_loads_neither_numpy_nor_protobuf_nor_onnx() -> None:
    # The hook of an editable install loads modules before this import. The warning of a free-threaded Python that
    # enables the GIL is ignored, because printing it loads modules.
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); before = set(sys.modules)\n"
        "import onnxwire; print(sorted(set(sys.modules) - before))"
    )
    loaded_modules = run_python(code)
    for name in ("numpy", "ml_dtypes", "google", "onnx", "re", "argparse", "inspect", "typing", "dataclasses"):
        assert f"'{name}'" not in loaded_modules


def test_reading_a_model_needs_neither_numpy_nor_protobuf_nor_onnx() -> None:
    path = Path(__file__).parent.parent / "examples" / "digits_cnn.onnx"
    code = (
        "import sys, onnxwire\n"
        "for name in ('numpy', 'onnx', 'google', 'google.protobuf'): sys.modules[name] = None\n"
        "from onnxwire.cli import main\n"
        "main(['info', sys.argv[1], '--raw']); onnxwire.verify(sys.argv[1])\n"
        "print(onnxwire.load(sys.argv[1]).graph.node[3].op_type)"
    )
    assert run_python(code, path).splitlines()[-1] == onnx.load(path).graph.node[3].op_type


def test_views_are_small_and_not_tracked_by_the_garbage_collector() -> None:
    model = onnxwire.ModelProto.FromString(helper.make_model(helper.make_graph([], "g", [], [])).SerializeToString())
    for view in (model, model.graph, model.graph.node, model.graph.node.__iter__(), model.opset_import[0]):
        assert not gc.is_tracked(view)
        assert not hasattr(view, "__dict__")
    # Besides the header of an object: 64 bytes, and a slot of 16 bytes for each of the two fields.
    assert sys.getsizeof(model.opset_import[0]) <= object.__basicsize__ + 64 + 2 * 16


def test_a_parent_has_no_reference_to_a_child() -> None:
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"]) for _ in range(100)], "g", [], [])
    model = onnxwire.ModelProto.FromString(helper.make_model(graph).SerializeToString())
    assert model.graph is not model.graph
    n_blocks_before = sys.getallocatedblocks()  # gc.get_objects does not return views, which are not tracked
    for node in model.graph.node:
        assert node.op_type == "Relu"
    assert sys.getallocatedblocks() <= n_blocks_before + 50  # references to the nodes would keep 100 more blocks


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="strings are not cached in free-threaded Python"
)
def test_short_strings_are_shared_and_few_are_cached() -> None:
    nodes = [helper.make_node("Relu", [f"in{i}"], [f"out{i}"]) for i in range(5000)]
    model = onnxwire.ModelProto.FromString(helper.make_model(helper.make_graph(nodes, "g", [], [])).SerializeToString())
    names = [node.op_type for node in model.graph.node]
    assert len({id(name) for name in names}) < 100
    tracemalloc.start()
    try:
        for node in model.graph.node:
            assert node.input[0][2:] == node.output[0][3:]
        del node
        cached_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cached_bytes < 10_000


@needs_proc
def test_listing_the_tensors_of_a_big_model_makes_little_of_it_resident(tmp_path: Path) -> None:
    # 96 tensors of 2 MiB, written by one call, so that the page cache may store them in large units (folios).
    # Reading one byte of a folio can make all of it resident.
    payload = os.urandom(1 << 20) * 2
    tensors = [onnx.TensorProto(name=f"w{i}", dims=[2 << 20], data_type=2, raw_data=payload) for i in range(96)]
    path = tmp_path / "big.onnx"
    path.write_bytes(onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(initializer=tensors)).SerializeToString())
    code = (
        "import sys, onnxwire\n"
        "def resident_kilobytes():\n"
        "    return next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmRSS'))\n"
        "onnxwire.load(sys.argv[2]).graph.initializer[0].name\n"
        "kilobytes_before = resident_kilobytes()\n"
        "model = onnxwire.load(sys.argv[1])\n"
        "tensors = [(t.name, t.data_type, tuple(t.dims)) for t in model.graph.initializer]\n"
        "print(len(tensors), resident_kilobytes() - kilobytes_before)"
    )
    small_model_path = Path(__file__).parent.parent / "examples" / "digits_cnn.onnx"
    count, kilobytes = map(int, run_python(code, path, small_model_path).split())
    assert count == 96
    assert kilobytes < 5000


@pytest.mark.normal_build
@pytest.mark.parametrize("n", [1000, 4000])
def test_an_index_lookup_through_a_new_view_does_not_scan_again(n: int) -> None:
    graph = helper.make_graph([helper.make_node("Relu", [f"x{i}"], ["y"]) for i in range(n)], "g", [], [])
    graph.node[-1].attribute.append(helper.make_attribute("ints", list(range(1000))))
    model = onnxwire.ModelProto.FromString(helper.make_model(graph).SerializeToString())
    assert [model.graph.node[i].input[0] for i in range(n)] == [f"x{i}" for i in range(n)]
    assert [model.graph.node[-1].attribute[0].ints[i] for i in range(1000)] == list(range(1000))
    # The caches have two entries of slots (graph, attribute), one index (nodes), one entry of numbers, and no parts of
    # merged messages; there are no overlays.
    assert model._document._cache_sizes() == (2, 1, 1, 0, 0)
