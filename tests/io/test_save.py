"""onnxwire.save: the written bytes, the accepted targets, progress, errors, and models above 2 GiB."""

import errno
import io
import os
import resource
import subprocess
import sys
import warnings
from pathlib import Path

import budget
import onnx
import pytest
from onnx import helper
from wire import varint

import onnxwire

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
MIB = 1 << 20


def make_model(n_bytes: int = 3 * MIB) -> onnx.ModelProto:
    """Return a model with two weights of `n_bytes` each, too long to be copied through the encoder's buffer."""
    weights = [
        onnx.TensorProto(name=name, data_type=onnx.TensorProto.UINT8, dims=[n_bytes], raw_data=os.urandom(n_bytes))
        for name in "ab"
    ]
    nodes = [helper.make_node("Add", ["a", "b"], ["c"], name="first"), helper.make_node("Relu", ["c"], ["d"])]
    return helper.make_model(helper.make_graph(nodes, "g", [], [], initializer=weights))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.onnx"
    path.write_bytes(make_model().SerializeToString())
    return path


def load_edited(path: Path) -> tuple[onnxwire.ModelProto, bytes]:
    """Return a loaded model with edits before, between and after its weights, and the edited model's official bytes."""
    our_model = onnxwire.load(path)
    official = onnx.load(path)
    for model in (our_model, official):
        model.graph.node[0].name = "a longer name than before"
        model.graph.initializer[1].name = "renamed"
        model.graph.initializer.add(name="small", dims=[1], data_type=onnx.TensorProto.UINT8, raw_data=b"x")
        model.producer_name = "somebody"
    return our_model, official.SerializeToString()


def test_a_saved_model_has_the_bytes_of_serialize_to_string(path):
    our_model, official_bytes = load_edited(path)
    other_path = path.with_name("other.onnx")
    assert onnxwire.save(our_model, other_path) == len(official_bytes)
    assert other_path.read_bytes() == official_bytes == our_model.SerializeToString()


def test_an_unedited_model_is_saved_unchanged_unless_deterministic(path):
    # No serializer would write these bytes: the unknown field 100 comes first, and the varint of
    # ir_version, 7, has two bytes.
    path.write_bytes(b"\xa2\x06\x03abc\x08\x87\x00" + path.read_bytes())
    other_path = path.with_name("other.onnx")
    onnxwire.save(onnxwire.load(path), other_path)
    assert other_path.read_bytes() == path.read_bytes()
    onnxwire.save(onnxwire.load(path), other_path, deterministic=True)
    assert other_path.read_bytes() == onnx.load(path).SerializeToString()


def test_saving_over_the_file_that_is_open_leaves_the_views_valid(path):
    our_model, official_bytes = load_edited(path)
    weight = our_model.graph.initializer[0].raw_data
    onnxwire.save(our_model, path)
    assert path.read_bytes() == official_bytes
    assert our_model.graph.initializer[0].raw_data == weight
    our_model.graph.name = "again"
    onnxwire.save(our_model, path)
    assert onnx.load(path).graph.name == "again"


def test_a_message_inside_a_model_is_saved(path):
    model = onnxwire.load(path)
    onnxwire.save(model.graph.initializer[0], path.with_name("a.pb"))
    assert path.with_name("a.pb").read_bytes() == onnx.load(path).graph.initializer[0].SerializeToString()


def test_a_model_from_several_files_is_saved(path, tmp_path):
    other_path = tmp_path / "other.onnx"
    other_path.write_bytes(make_model().SerializeToString())
    expected = onnx.load(path)
    expected.graph.initializer.extend(onnx.load(other_path).graph.initializer)
    model = onnxwire.load(path)
    with onnxwire.load(other_path) as other_model:
        model.graph.initializer.extend(other_model.graph.initializer)
    onnxwire.save(model, path)
    assert path.read_bytes() == expected.SerializeToString()


def test_a_model_built_from_scratch_is_saved(tmp_path):
    weight = bytes(range(256)) * 4096
    model = onnxwire.ModelProto(graph={"initializer": [{"name": "w", "raw_data": weight, "string_data": [weight]}]})
    onnxwire.save(model, tmp_path / "m.onnx")
    assert onnx.load(tmp_path / "m.onnx").graph.initializer[0].string_data == [weight]


def test_storage_options_of_a_local_path_are_refused(path, tmp_path):
    with pytest.raises(TypeError, match="applies to addresses"):
        onnxwire.save(onnxwire.load(path), tmp_path / "new.onnx", storage_options={"region": "x"})
    assert not (tmp_path / "new.onnx").exists()


def test_a_file_object_is_written_to(path):
    our_model, official_bytes = load_edited(path)
    file = io.BytesIO()
    onnxwire.save(our_model, file)
    assert file.getvalue() == official_bytes

    class SlowFile(io.RawIOBase):
        """A file object that accepts at most 1,000 bytes at a time, as an unbuffered pipe may."""

        received = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.received += data[:1000]
            return min(len(data), 1000)

    file = SlowFile()
    onnxwire.save(our_model.graph.initializer[0], file)
    assert file.received == our_model.graph.initializer[0].SerializeToString()


@pytest.mark.parametrize("target", [None, 3, b"model.onnx", object()], ids=lambda target: type(target).__name__)
@pytest.mark.parametrize("options", [{}, {"external": None}], ids=repr)
def test_an_argument_that_is_not_a_target_raises_type_error(target, options):
    with pytest.raises(TypeError, match=f"expected a path or a binary file object, not {type(target).__name__}"):
        onnxwire.save(onnxwire.ModelProto(), target, **options)


def test_an_error_of_a_file_object_raises_os_error(path):
    class FailingFile(io.RawIOBase):
        def write(self, data):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    model = onnxwire.load(path)
    with pytest.raises(OSError, match="Input/output error"):
        onnxwire.save(model, FailingFile())
    model.close()  # raises no InUseError, because no array refers to the model


def test_a_pipe_is_written_to(path):
    code = "import onnxwire, sys; onnxwire.save(onnxwire.load(sys.argv[1]), sys.argv[2])"
    process = subprocess.run([sys.executable, "-c", code, path, "/dev/stdout"], capture_output=True, check=True)
    assert process.stdout == path.read_bytes()


def test_progress_counts_up_to_the_size(path):
    our_model, official_bytes = load_edited(path)
    for target in (path.with_name("other.onnx"), io.BytesIO()):
        calls = []
        onnxwire.save(our_model, target, progress=lambda *call, calls=calls: calls.append(call))
        assert calls == sorted(calls)
        assert calls[-1] == (len(official_bytes), len(official_bytes))
        assert {total for _, total in calls} == {len(official_bytes)}


def test_an_exception_of_progress_leaves_the_old_file(path):
    def stop(n_written, total):
        raise KeyboardInterrupt

    bytes_before = path.read_bytes()
    model = load_edited(path)[0]
    with pytest.raises(KeyboardInterrupt):
        onnxwire.save(model, path, progress=stop)
    assert path.read_bytes() == bytes_before
    assert os.listdir(path.parent) == [path.name]
    model.close()


@pytest.mark.parametrize("value", [None, b"bytes", onnx.ModelProto(), "model.onnx"])
def test_an_object_that_is_not_a_message_is_not_saved(value, tmp_path):
    with pytest.raises(TypeError, match="expected a message"):
        onnxwire.save(value, tmp_path / "m.onnx")
    assert os.listdir(tmp_path) == []


def test_a_closed_model_is_not_saved(path):
    model = onnxwire.load(path)
    model.close()
    with pytest.raises(onnxwire.ClosedError):
        onnxwire.save(model, path.with_name("other.onnx"))
    assert os.listdir(path.parent) == [path.name]


def test_a_missing_directory_is_named(path):
    with pytest.raises(onnxwire.SaveError, match=r"there is no directory .*none$") as error_info:
        onnxwire.save(onnxwire.load(path), path.parent / "none" / "m.onnx")
    assert isinstance(error_info.value, FileNotFoundError)


@needs_linux
def test_a_limit_on_the_file_size_leaves_the_old_file(path):
    bytes_before = path.read_bytes()
    code = (
        "import onnxwire, resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))\n"
        "model = onnxwire.load(sys.argv[1]); model.graph.name = 'changed'\n"
        "try: onnxwire.save(model, sys.argv[1])\n"
        "except onnxwire.SaveError as error: print(error)\n"
    )
    process = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert "allows no file of this size" in process.stdout
    assert path.read_bytes() == bytes_before
    assert os.listdir(path.parent) == [path.name]


@needs_linux
def test_a_source_that_was_truncated_is_an_error_and_leaves_the_target_unchanged(path):
    model = onnxwire.load(path)
    model.graph.name = "changed"
    other_path = path.with_name("other.onnx")
    other_path.write_bytes(b"old")
    os.truncate(path, MIB)
    with pytest.raises(onnxwire.SourceError, match="load it again"):
        onnxwire.save(model, other_path)
    assert other_path.read_bytes() == b"old"


# --- beyond 2 and 4 GiB


def write_sparse_model(path: Path, n_bytes: int) -> int:
    """Write a model with one weight of zeros that takes no disk space. Return the size of the file in bytes."""
    # The tags are those of raw_data (0x4a), initializer (0x2a) and, after ir_version 10, graph (0x3a).
    weight = onnxwire.TensorProto(name="big", data_type=onnxwire.TensorProto.UINT8, dims=[n_bytes])
    tensor_start = weight.SerializeToString() + b"\x4a" + varint(n_bytes)
    graph = b"\x2a" + varint(len(tensor_start) + n_bytes) + tensor_start
    graph_end = onnxwire.GraphProto(name="g", doc_string="after the weight").SerializeToString()
    file_start = b"\x08\x0a\x3a" + varint(len(graph) + n_bytes + len(graph_end)) + graph
    with open(path, "wb") as file:
        file.write(file_start)
        file.seek(n_bytes, os.SEEK_CUR)
        file.write(graph_end)
    return len(file_start) + n_bytes + len(graph_end)


@needs_linux
@pytest.mark.parametrize("n_bytes", [(2 << 30) + 5, pytest.param((4 << 30) + 5, marks=pytest.mark.long)])
def test_a_model_above_2_and_4_gib_is_edited_saved_and_read_back(tmp_path, n_bytes):
    path = tmp_path / "big.onnx"
    size = write_sparse_model(path, n_bytes)
    model = onnxwire.load(path)
    assert model.ByteSize() == size
    assert model.graph.doc_string == "after the weight"
    model.graph.node.add(op_type="Identity", input=["big"], output=["y"])
    model.graph.initializer[0].name = "renamed"
    model.graph.doc_string = "edited"
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.warns(onnxwire.LargeFileWarning, match="external data"):
        n_written = onnxwire.save(model, path)
    # The peak is in kilobytes. It shows that the weight was never in memory.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < peak_before + 20_000
    assert path.stat().st_size == n_written == model.ByteSize() > n_bytes
    assert path.stat().st_blocks * 512 < 64 * MIB
    onnxwire.verify(path)
    reloaded_model = onnxwire.load(path)
    if budget.IS_LONG:  # the comparison reads each page of both files
        assert reloaded_model.graph == model.graph
    weight = reloaded_model.graph.initializer[0]
    assert len(weight._payload("raw_data")) == n_bytes
    for start in (0, n_bytes // 2, n_bytes - MIB):
        assert not weight.read(slice(start, start + MIB)).any()
    assert reloaded_model.graph.node == model.graph.node
    assert (reloaded_model.graph.initializer[0].name, reloaded_model.graph.doc_string) == ("renamed", "edited")
    assert reloaded_model.graph.node[0].op_type == "Identity"


def test_a_model_below_2_gib_is_saved_without_a_warning(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnxwire.save(onnxwire.load(path), path)
