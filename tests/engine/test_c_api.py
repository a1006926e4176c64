"""Extension modules in C and C++ read the encoding of a message in pieces, through the capsule `onnxwire._c_api`.

A piece is a range of the encoding that is contiguous in memory.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib.machinery
import importlib.util
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import sysconfig
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
from budget import IS_LONG
from graphs import write_sparse_model
from partial_documents import partial_document

import onnxwire as ow
from onnxwire.engine.document import keep_bytes_of
from onnxwire.engine.message import root_view

TEST_FOLDER = Path(__file__).parent
PAGE = TEST_FOLDER.parents[1] / "docs" / "c.md"
LAZY = 1  # the flag OW_PYTHON_LAZY
OUT_OF_RANGE, UNREADABLE = 1, 2  # results of `read`; OUT_OF_RANGE also for released pieces
LONG_BYTES = 1 << 16  # values of at least this size are pieces without a copy
C_COMPILER = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
COMPILERS = {"c": [*C_COMPILER, "-std=c99"], "c++": ["g++", "-std=c++11", "-x", "c++"]}
pytestmark = pytest.mark.skipif(
    shutil.which(C_COMPILER[0]) is None
    or not Path(sysconfig.get_path("include"), "Python.h").exists()
    or os.name != "posix",
    reason="needs POSIX, a C compiler and the headers of Python",
)


def compile_module(source, name, folder, language="c"):
    """Compile a source to an extension module, with all warnings as errors; return its path."""
    if shutil.which(COMPILERS[language][0]) is None:
        pytest.skip(f"{COMPILERS[language][0]} is not installed")
    target = folder / (name + importlib.machinery.EXTENSION_SUFFIXES[0])
    folders = [f"-I{ow.get_include()}", "-isystem", sysconfig.get_path("include")]
    flags = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O1", "-shared", "-fPIC", "-pthread"]
    subprocess.run([*COMPILERS[language], *flags, *folders, str(source), "-o", str(target)], check=True)
    return target


def import_module(path):
    """Import a compiled extension module."""
    loader = importlib.machinery.ExtensionFileLoader(path.name.partition(".")[0], str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=COMPILERS)
def module_of_language(request, tmp_path_factory):
    """Return the test module, compiled as C, or as C++ in the second run of each test."""
    folder = tmp_path_factory.mktemp("module")
    return import_module(compile_module(TEST_FOLDER / "c_api_module.c", "c_api_module", folder, request.param))


@pytest.fixture(scope="module")
def module_path(tmp_path_factory):
    """Return the path of the test module, compiled as C."""
    return compile_module(TEST_FOLDER / "c_api_module.c", "c_api_module", tmp_path_factory.mktemp("module"))


@pytest.fixture(scope="module")
def api(module_path):
    """Return the test module, compiled as C, after a call of ow_python_import."""
    module = import_module(module_path)
    module.load()
    return module


@pytest.fixture(scope="module", params=COMPILERS)
def example_module(request, tmp_path_factory):
    """Return the example of docs/c.md, compiled as C, or as C++ in the second run of each test."""
    blocks = re.findall(r"```c\n(.*?)```", PAGE.read_text(), re.S)
    (code,) = (block for block in blocks if "onnxwire_python.h" in block)
    folder = tmp_path_factory.mktemp("listing")
    (folder / "listing.c").write_text(code)
    return import_module(compile_module(folder / "listing.c", "listing", folder, request.param))


@contextlib.contextmanager
def exported_pieces(api, message, flags=0):
    """Export a message, and release it at the end.

    Yields its handle (see c_api_module.c), the size of its encoding in bytes, and a list with (offset, size, address,
    owner) of each piece. The address is 0 if the bytes have not been fetched.
    """
    handle = api.export_message(message, flags)
    try:
        yield handle, *api.describe(handle)
    finally:
        api.release(handle)


def joined_content(api, message, flags=0):
    """Return the encoding of a message, joined from its pieces.

    Asserts that each piece starts at the end of the piece before it, and that reads of ranges return the same bytes.
    """
    with exported_pieces(api, message, flags) as (handle, size, rows):
        assert [offset for offset, *_ in rows] == [sum(n for _, n, *_ in rows[:i]) for i in range(len(rows))]
        joined = b"".join(bytes(owner) for *_, owner in rows)
        read = b"".join(api.read(handle, i, min(7777, size - i)) for i in range(0, size, 7777))
        assert joined == read
        return joined


def long_model(n=3):
    """Return a model with n tensors of 64 KiB and more."""
    tensors = [ow.from_array(np.arange(LONG_BYTES // 4 + i, dtype=np.int32), f"w{i}") for i in range(n)]
    return ow.ModelProto(ir_version=8, graph={"name": "g", "node": [{"op_type": "Relu"}], "initializer": tensors})


def save_model(tmp_path, model=None):
    """Save a model, by default `long_model()`, and return its path."""
    path = tmp_path / "m.onnx"
    ow.save(model or long_model(), path)
    return path


# --- the pieces are the encoding


def test_c_and_cpp_read_an_edited_model(module_of_language, tmp_path):
    assert module_of_language.load() == 1
    model = ow.load(save_model(tmp_path))
    model.graph.name = "edited"
    model.graph.node.add(op_type="Sigmoid")
    del model.graph.initializer[1]
    assert joined_content(module_of_language, model) == model.SerializeToString()


@pytest.mark.parametrize("make", [ow.ModelProto, ow.NodeProto, lambda: ow.NodeProto(op_type="Relu"), long_model])
def test_messages_of_any_kind_are_exported(make, api):
    assert joined_content(api, make()) == make().SerializeToString()


def test_unchanged_values_are_pieces_of_the_mapped_file(api, tmp_path):
    model = ow.load(save_model(tmp_path))
    model.graph.name = "edited"
    addresses = {np.asarray(tensor).ctypes.data for tensor in model.graph.initializer}
    with exported_pieces(api, model) as (_, _, rows):
        spans = [(address, address + size) for _, size, address, _ in rows]
        assert all(any(start <= address < end for start, end in spans) for address in addresses)


def test_an_edited_model_of_5_gib_is_read_without_a_copy(example_module, tmp_path):
    path = tmp_path / "big.onnx"
    write_sparse_model(path, 5 << 30)
    model = ow.load(path)
    model.graph.node[0].name = "renamed"
    model.graph.initializer.append(ow.from_array(np.ones((2, 3), np.float32), "added"))
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows = example_module.initializers(model)  # for each: (name, data_type, shape, memoryview of the elements)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before < 50_000  # kilobytes
    expected = [
        (info.name, info.data_type, info.shape, info.nbytes)
        for info in ow.tensors(model)
        if info.path.startswith("graph.init")
    ]
    nbytes = [row[3].nbytes for row in rows]
    assert [(*row[:3], n) for row, n in zip(rows, nbytes, strict=True)] == expected
    assert nbytes[0] == 5 << 30
    mapped = np.asarray(model.graph.initializer[0])
    assert np.asarray(rows[0][3]).ctypes.data == mapped.ctypes.data
    del mapped
    with pytest.raises(ow.InUseError):
        model.close()
    del rows
    model.close()


def test_many_edited_nodes_are_a_few_pieces(api):
    count = 1_000_000 if IS_LONG else 20_000
    encoded = ow.NodeProto(op_type="Relu", input=["x"]).SerializeToString()
    record = b"\x0a" + bytes([len(encoded)]) + encoded  # field 1, node
    graph = ow.GraphProto.FromString(record * count)
    for node in graph.node:
        node.name = "n"
    with exported_pieces(api, graph) as (handle, size, rows):
        assert len(rows) < 100
        assert size == graph.ByteSize()
        assert api.read(handle, size - 100, 100) == graph.SerializeToString()[-100:]


def test_many_pieces_share_one_value(api):
    count = 100_000 if IS_LONG else 5_000
    payload = bytes(LONG_BYTES)
    graph = ow.GraphProto()
    for _ in range(count):
        graph.initializer.append(ow.TensorProto(raw_data=payload))
    with exported_pieces(api, graph) as (handle, size, rows):
        assert size > count * LONG_BYTES
        assert len(rows) == 2 * count
        assert len({address for _, n, address, _ in rows if n >= LONG_BYTES}) == 1
        offset, n, _, _ = rows[-1]
        assert n >= LONG_BYTES
        assert api.has_range(handle, offset, n)
        assert not api.has_range(handle, offset - 1, 2)
        assert api.read(handle, offset - 4, 8)[4:] == payload[:4]


def test_only_ranges_within_one_piece_have_a_pointer(api):
    model = long_model(1)
    with exported_pieces(api, model) as (handle, size, rows):
        assert len(rows) == 2
        first_size = rows[0][1]
        for offset, n, expected in [
            (0, first_size, True),
            (0, first_size + 1, False),
            (first_size, size - first_size, True),
            (size - 1, 1, True),
            (size, 0, False),
            (0, 1 << 63, False),
            (1 << 63, 1, False),
        ]:
            assert api.has_range(handle, offset, n) is expected


def test_reads_outside_of_the_encoding_fail(api):
    with exported_pieces(api, ow.NodeProto(op_type="Relu")) as (handle, size, _):
        assert api.read(handle, size, 0) == b""
        for offset, n in [(size, 1), (0, size + 1), (size + 1, 0), ((1 << 64) - 1, 2)]:
            assert api.read(handle, offset, n) == OUT_OF_RANGE
        api.check(handle)


# --- lifetime


def test_pieces_are_unchanged_by_edits(api, tmp_path):
    model = ow.load(save_model(tmp_path))
    model.graph.name = "before"
    model.graph.initializer[2].raw_data = b"q" * LONG_BYTES
    expected = model.SerializeToString()
    with exported_pieces(api, model) as (handle, size, _):
        model.graph.name = "after"
        model.graph.initializer[2].raw_data = b"r" * LONG_BYTES
        model.graph.initializer[0].ClearField("raw_data")
        del model.graph.initializer[:]
        del model
        gc.collect()
        assert api.read(handle, 0, size) == expected
        api.check(handle)


def test_pieces_outlive_their_message(api, tmp_path):
    model = ow.load(save_model(tmp_path))
    expected = model.SerializeToString()
    handle = api.export_message(model)
    del model
    gc.collect()
    assert api.read(handle, 0, len(expected)) == expected
    api.release(handle)


def test_an_owner_outlives_the_pieces(api, tmp_path):
    model = ow.load(save_model(tmp_path))
    model.graph.name = "edited"
    with exported_pieces(api, model) as (_, _, rows):
        owners = [owner for *_, owner in rows]
        expected = model.SerializeToString()
    del model, rows
    gc.collect()
    assert b"".join(owners) == expected


def test_a_document_is_not_closed_before_the_release(api, tmp_path):
    model = ow.load(save_model(tmp_path))
    handle = api.export_message(model)
    with pytest.raises(ow.InUseError):
        model.close()
    api.release(handle)
    model.close()
    with pytest.raises(ow.ClosedError):
        api.export_message(model)


def test_pieces_keep_their_bytes_when_their_file_is_replaced(api, tmp_path):
    path = save_model(tmp_path)
    model = ow.load(path)
    expected = model.SerializeToString()
    os.link(path, tmp_path / "link.onnx")
    with exported_pieces(api, model) as (handle, size, _):
        ow.save(ow.ModelProto(producer_name="another"), path)
        assert api.read(handle, 0, size) == expected
        # Changes of the mapped file's mode and links, which set its ctime, are no changes of its bytes.
        os.chmod(tmp_path / "link.onnx", 0o600)
        os.unlink(tmp_path / "link.onnx")
        assert api.read(handle, 0, size) == expected
        api.check(handle)


def test_pieces_keep_their_bytes_when_their_file_is_saved_in_place(api, tmp_path):
    path = save_model(tmp_path)
    model = ow.load(path)
    expected = model.SerializeToString()
    with exported_pieces(api, model) as (handle, size, rows), path.open("r+b") as file:
        keep_bytes_of(file.fileno())
        file.truncate(5)
        assert b"".join(bytes(owner) for *_, owner in rows) == api.read(handle, 0, size) == expected
        api.check(handle)
        assert joined_content(api, model) == expected


@pytest.mark.parametrize("change", ["truncate", "write"])
def test_a_change_of_the_mapped_file_is_detected(change, api, tmp_path):
    path = save_model(tmp_path)
    model = ow.load(path)
    with exported_pieces(api, model) as (handle, size, _):
        if change == "truncate":
            os.truncate(path, 100)
        else:
            data = path.read_bytes()
            path.write_bytes(data[:-1] + b"!")
            os.utime(path, ns=(1, 1))
        assert api.read(handle, 0, size) == UNREADABLE
        with pytest.raises(ow.SourceError, match=r"truncated|written"):
            api.check(handle)
        with pytest.raises(ow.SourceError):
            api.export_message(model)


def test_values_copied_from_another_file_are_pieces_of_that_file(api, tmp_path):
    source_model = ow.load(save_model(tmp_path))
    model = ow.ModelProto(graph=source_model.graph)
    model.graph.initializer[0].name = "edited"
    expected = model.SerializeToString()
    with exported_pieces(api, model) as (handle, size, _):
        del source_model
        assert api.read(handle, 0, size) == expected
        os.truncate(tmp_path / "m.onnx", 0)
        assert api.read(handle, 0, size) == UNREADABLE


def test_pieces_that_are_never_released_do_not_prevent_edits(api, tmp_path):
    model = ow.load(save_model(tmp_path))
    api.export_message(model)
    model.graph.name = "edited"
    assert ow.ModelProto.FromString(joined_content(api, model)).graph.name == "edited"


def test_released_pieces_free_their_array_and_reject_reads(api):
    array = np.zeros(LONG_BYTES, np.uint8)
    array_reference = weakref.ref(array)
    model = ow.ModelProto(graph={"initializer": [ow.from_array(array, "w")]})
    handle = api.export_message(model)
    del array, model
    gc.collect()
    assert array_reference() is not None
    api.release_in_other_thread(handle)
    gc.collect()
    assert array_reference() is None
    api.release(handle)
    with pytest.raises(ow.EditError, match="released"):
        api.check(handle)
    assert api.read(handle, 0, 1) == OUT_OF_RANGE


def test_threads_export_read_and_release_concurrently(api, tmp_path):
    model = ow.load(save_model(tmp_path))
    model.graph.name = "edited"
    expected = model.SerializeToString()
    shared_handle = api.export_message(model)
    failed_steps = []

    def use_handles():
        for i in range(60):
            handle = api.export_message(model)
            if (
                api.read(handle, 0, len(expected)) != expected
                or api.read(shared_handle, i, 9999) != expected[i : i + 9999]
            ):
                failed_steps.append(i)
            (api.release if i % 2 else api.release_in_other_thread)(handle)

    threads = [threading.Thread(target=use_handles) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    api.release(shared_handle)
    assert failed_steps == []
    model.close()


EXITING_PROGRAM = """
import sys
import numpy as np
sys.path[:0] = [sys.argv[1]]
import onnxwire, c_api_module as api
api.load()
model = onnxwire.ModelProto(graph={"initializer": [onnxwire.from_array(np.zeros(1 << 16, np.uint8), "w")]})
api.release_late([api.export_message(model) for _ in range(int(sys.argv[2]))])
"""


@pytest.mark.parametrize("count", [1, 50, 2000])
def test_handles_are_released_during_and_after_the_exit_of_python(count, module_path):
    environment = os.environ | {"PYTHONPATH": str(Path(ow.__file__).parents[1])}
    command = [sys.executable, "-c", EXITING_PROGRAM, str(module_path.parent), str(count)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (0, "released late\n", "")


FORKING_PROGRAM = """
import os, sys
sys.path[:0] = [sys.argv[1]]
import onnxwire, c_api_module as api
api.load()
handle = api.export_message(onnxwire.NodeProto(op_type="Relu"))
child = os.fork()
os.write(1, api.read(handle, 2, 4))  # the op_type, after its tag and its length
api.release_in_other_thread(handle)
if child: assert os.waitpid(child, 0)[1] == 0
"""


def test_both_processes_of_a_fork_read_and_release_pieces(module_path):
    environment = os.environ | {"PYTHONPATH": str(Path(ow.__file__).parents[1])}
    command = [sys.executable, "-W", "ignore", "-c", FORKING_PROGRAM, str(module_path.parent)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (process.returncode, process.stdout, process.stderr) == (0, "ReluRelu", "")


# --- files on servers


def remote_model(data):
    """Return a model of partial memory, as of a file on a server."""
    return root_view(partial_document(data), ow.ModelProto)


def test_long_values_on_a_server_are_fetched_by_default(api):
    data = long_model().SerializeToString()
    model = remote_model(data)
    model.graph.name = "edited"
    expected = ow.ModelProto.FromString(data)
    expected.graph.name = "edited"
    assert joined_content(api, model) == expected.SerializeToString()


def test_a_short_read_of_a_lazy_piece_fetches_at_most_8_kib(api):
    data = long_model().SerializeToString()
    model = remote_model(data)
    assert model.graph.name == "g"
    fetched_ranges = model._document.memory.source.fetched_ranges
    ranges_before = list(fetched_ranges)
    handle = api.export_message(model, LAZY)
    size, rows = api.describe(handle)
    unfetched_ranges = [(offset, n) for offset, n, address, _ in rows if not address]
    assert size == len(data)
    assert fetched_ranges == ranges_before
    assert len(unfetched_ranges) >= 1
    offset = data.index(np.arange(9, dtype=np.int32).tobytes()) + 16_000  # inside the first weight
    assert not api.has_range(handle, offset, 8)
    assert api.read(handle, offset, 8) == data[offset : offset + 8]
    assert 0 < sum(end - start for start, end in fetched_ranges[len(ranges_before) :]) <= 8192
    with pytest.raises(ow.InUseError):
        model._document.close()
    assert api.read(handle, 0, size) == data
    api.release_in_other_thread(handle)
    model._document.close()


def test_the_error_of_a_fetch_is_raised_by_check(api):
    model = remote_model(long_model().SerializeToString())
    assert model.graph.name == "g"
    source = model._document.memory.source

    def fail():
        raise ow.SourceError(errno.EIO, "the server is gone")

    handle = api.export_message(model, LAZY)
    api.check(handle)
    size, _ = api.describe(handle)
    source.on_fetch = fail
    assert api.read(handle, 0, size) == UNREADABLE
    with pytest.raises(ow.SourceError, match="the server is gone"):
        api.check(handle)
    api.release(handle)
    with pytest.raises(ow.SourceError, match="the server is gone"):
        api.export_message(model)


def test_edits_and_close_during_a_fetch_leave_valid_pieces_or_raise_closed_error(api):
    data = long_model().SerializeToString()
    model = remote_model(data)
    assert model.graph.name == "g"

    def edit_and_close():
        model.graph.name = "later"
        with contextlib.suppress(ow.InUseError):
            model._document.close()

    model._document.memory.source.on_fetch = edit_and_close
    try:
        handle = api.export_message(model)
    except ow.ClosedError:
        return
    size, _ = api.describe(handle)
    assert api.read(handle, 0, size) == data
    api.release(handle)


# --- misuse


@pytest.mark.parametrize("value", [None, 5, b"\x08\x01", ow.ModelProto, [], ...], ids=repr)
def test_objects_that_are_no_messages_are_rejected(value, api):
    with pytest.raises(TypeError, match="expected a message of onnxwire, not"):
        api.export_message(value)


def test_unknown_flags_are_rejected(api):
    with pytest.raises(ow.EditError, match="OW_PYTHON_LAZY"):
        api.export_message(ow.NodeProto(), 2)


@pytest.mark.parametrize(("version", "size"), [(0, 100), (1, 8), (0, 0)])
def test_an_older_package_is_rejected(version, size, api, monkeypatch):
    monkeypatch.setattr(ow, "_c_api", api.make_capsule(version, size))
    message = rf"have version {version} and a struct of {size} bytes, and this module needs version 1 and \d+ bytes"
    with pytest.raises(ImportError, match=message):
        api.load()
    monkeypatch.undo()
    assert api.load() == 1


def test_a_newer_package_is_accepted(api, monkeypatch):
    monkeypatch.setattr(ow, "_c_api", api.make_capsule(7, 500))
    assert api.load() == 7
    monkeypatch.undo()
    api.load()


def test_another_object_in_place_of_the_capsule_is_rejected(api, monkeypatch):
    monkeypatch.setattr(ow, "_c_api", 5)
    with pytest.raises(AttributeError, match=r"onnxwire\._c_api"):
        api.load()
    monkeypatch.undo()
    api.load()


def test_the_example_of_the_docs_reports_damage_and_other_objects(example_module):
    assert example_module.initializers(ow.ModelProto()) == []
    with pytest.raises(TypeError, match="expected a message"):
        example_module.initializers(b"")
    # A model whose graph has an initializer with a truncated varint.
    with pytest.raises(ValueError, match="damaged at offset"):
        example_module.initializers(ow.ModelProto.FromString(b"\x3a\x04\x2a\x02\x08\xff"))
