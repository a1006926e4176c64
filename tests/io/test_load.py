"""`load` and `verify`: the sources that they open, the errors of invalid sources, closing, and large files."""

import bz2
import gc
import gzip
import io
import lzma
import mmap
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from wire import varint

import onnxwire
from onnxwire import errors
from onnxwire.io.source import open_document

EXAMPLES = Path(__file__).parents[2] / "examples"
MODEL = EXAMPLES / "digits_cnn.onnx"


@pytest.fixture(scope="module")
def data() -> bytes:
    return MODEL.read_bytes()


def test_path_string_and_path_object_load(data: bytes) -> None:
    assert onnxwire.load(str(MODEL)).SerializeToString() == data
    assert onnxwire.load(MODEL).SerializeToString() == data


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, io.BytesIO])
def test_bytes_in_memory_load(kind: type, data: bytes) -> None:
    source = kind(data)
    assert onnxwire.load(source).graph.name == onnx.ModelProto.FromString(data).graph.name


def test_an_mmap_loads_and_stays_open(data: bytes) -> None:
    with MODEL.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
        with onnxwire.load(mapping) as model:
            assert model.ByteSize() == len(data)
        assert mapping[:2] == data[:2]


def test_a_file_object_loads_from_its_position(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "prefixed"
    path.write_bytes(b"prefix" + data)
    with path.open("rb") as file:
        file.seek(6)
        assert onnxwire.load(file).SerializeToString() == data
    with MODEL.open("rb") as file:
        model = onnxwire.load(file)
    assert model.SerializeToString() == data


@pytest.mark.parametrize("may_map", [True, False])
def test_a_file_object_that_has_read_ahead_loads_from_its_position(may_map: bool, data: bytes) -> None:
    with MODEL.open("rb") as file:
        file.read(4)  # fills the buffer, so that the descriptor has another position than the file object
        file.seek(0)
        assert onnxwire.load(file, mmap=may_map).SerializeToString() == data


@pytest.mark.skipif(os.name == "nt", reason="the system has no fcntl")
def test_loading_a_file_object_leaves_the_flags_of_its_descriptor_unchanged() -> None:
    import fcntl

    with MODEL.open("rb") as file:
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        with onnxwire.load(file) as model:
            assert len(model.graph.node) > 0
            assert fcntl.fcntl(file, fcntl.F_GETFL) == flags


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="the system has no O_NOATIME")
def test_a_file_of_the_user_is_opened_with_o_noatime(tmp_path: Path, data: bytes) -> None:
    import fcntl

    path = tmp_path / "own.onnx"  # the system refuses the flag for files of other users
    path.write_bytes(data)
    document = open_document(path)
    try:
        assert fcntl.fcntl(document.descriptor, fcntl.F_GETFL) & os.O_NOATIME
    finally:
        document.close()


def test_a_pipe_loads(data: bytes) -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(write_end, "wb") as sink:
        writer = threading.Thread(target=lambda: (sink.write(data), sink.close()))
        writer.start()
        with os.fdopen(read_end, "rb") as file:
            assert onnxwire.load(file).SerializeToString() == data
        writer.join()


@pytest.mark.parametrize("module", [gzip, bz2, lzma], ids=["gzip", "bz2", "lzma"])
def test_a_file_object_that_decompresses_is_read_and_not_mapped(module: Any, tmp_path: Path, data: bytes) -> None:
    with module.open(tmp_path / "packed", "wb") as file:
        file.write(data)
    with module.open(tmp_path / "packed", "rb") as file:
        assert onnxwire.load(file).SerializeToString() == data


def test_a_buffer_is_released_when_loading_it_fails() -> None:
    source = bytearray(b"PK\x03\x04 this is a zip")
    with pytest.raises(onnxwire.DecodeError):
        onnxwire.load(source)
    source.append(0)


def test_bytes_are_shared_and_not_copied(data: bytes) -> None:
    tensor = helper.make_tensor("t", onnx.TensorProto.FLOAT, [1000], list(range(1000))).SerializeToString()
    numbers = np.asarray(onnxwire.load(tensor, type=onnxwire.TensorProto).float_data)
    assert np.shares_memory(numbers, np.frombuffer(tensor, np.uint8))


def test_a_bytearray_can_be_resized_again_after_its_model_is_closed(data: bytes) -> None:
    source = bytearray(data)
    with onnxwire.load(source) as model:
        with pytest.raises(BufferError):
            source.append(0)
        assert model.ir_version
    source.append(0)


@pytest.mark.parametrize("source", [3, None, ["a"], np.zeros((4, 4))[:, 1]])
def test_an_argument_that_is_not_a_source_raises_type_error(source: object) -> None:
    with pytest.raises(TypeError):
        onnxwire.load(source)  # type: ignore[arg-type]


def test_a_text_mode_file_raises_type_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="binary mode"):
        onnxwire.load(io.StringIO("x"))  # type: ignore[arg-type]


def test_a_type_that_is_no_message_class_raises_type_error(data: bytes) -> None:
    with pytest.raises(TypeError, match="message class"):
        onnxwire.load(data, type=int)  # type: ignore[type-var]
    with pytest.raises(TypeError, match="message class"):
        onnxwire.verify(data, type="ModelProto")  # type: ignore[arg-type]


# --- files that can't be opened


def test_a_missing_file_raises_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(onnxwire.SourceError, match=r"absent\.onnx: No such file") as error_info:
        onnxwire.load(tmp_path / "absent.onnx")
    assert isinstance(error_info.value, FileNotFoundError)
    with pytest.raises(onnxwire.SourceError, match="there is no directory"):
        onnxwire.load(tmp_path / "no" / "absent.onnx")


def test_a_directory_raises_is_a_directory_error(tmp_path: Path) -> None:
    with pytest.raises(onnxwire.SourceError, match=r"pass the path of the \.onnx file in it") as error_info:
        onnxwire.load(tmp_path)
    assert isinstance(error_info.value, IsADirectoryError)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_raises_permission_error(tmp_path: Path) -> None:
    path = tmp_path / "secret.onnx"
    path.write_bytes(b"\x08\x01")  # ir_version 1
    path.chmod(0)
    with pytest.raises(PermissionError) as error_info:
        onnxwire.load(path)
    assert isinstance(error_info.value, onnxwire.SourceError)


def test_an_empty_file_is_refused_but_verify_accepts_empty_bytes(tmp_path: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.touch()
    for call in (onnxwire.load, onnxwire.verify):
        with pytest.raises(onnxwire.DecodeError, match="is empty"):
            call(path)
    with pytest.raises(onnxwire.DecodeError, match="is empty"):
        onnxwire.load(b"")
    onnxwire.verify(b"")
    assert onnxwire.ModelProto.FromString(b"") == onnxwire.ModelProto()


# --- bytes that are not ONNX


def make_zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("a", "b")
    return sink.getvalue()


SAFETENSORS = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'

# Bytes of files, by a part of the error that names their format.
FOREIGN_FILES = {
    "zip": make_zip(),
    "gzip": gzip.compress(b"x" * 100),
    "git-lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n",
    "HTML": b"<!DOCTYPE html><html><body>404</body></html>",
    "safetensors": len(SAFETENSORS).to_bytes(8, "little") + SAFETENSORS + bytes(4),
    "JSON": b'{"irVersion": 3}',
    "HDF5": b"\x89HDF\r\n\x1a\n" + bytes(20),
    "npy": b"\x93NUMPY\x01\x00" + bytes(20),
    "GGUF": b"GGUF" + bytes(20),
    "NUL bytes": bytes(64),
    "plain text": b"hello, this is a text file\n" * 3,
    # A GraphDef with one NodeDef: the name x, the operator Placeholder, and an attribute dtype with an empty value.
    "TensorFlow graph": b"\x0a\x1b\x0a\x01x\x12\x0bPlaceholder\x2a\x09\x0a\x05dtype\x12\x00",
    # The pickles are of the dict {"a": 1}, and of an empty list.
    "pickle": b"\x80\x04\x95\x0b\0\0\0\0\0\0\0}\x94\x8c\x01a\x94K\x01s.",
    "perhaps a PyTorch checkpoint": b"\x80\x05]\x94.",
    "text form; convert it with onnxwire.from_text": b'ir_version: 8\nproducer_name: "me"\n',
    "text form for onnx.parser": b'<ir_version: 8, opset_import: ["" : 17]>\na (float[N] x) => (float[N] y) {}',
}


@pytest.mark.parametrize("name", FOREIGN_FILES)
def test_foreign_formats_are_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(FOREIGN_FILES[name])
    with pytest.raises(onnxwire.DecodeError, match=name) as error_info:
        onnxwire.load(path)
    assert str(path) in str(error_info.value)


def test_a_file_without_a_known_field_is_refused() -> None:
    with pytest.raises(onnxwire.DecodeError, match="no known field of ModelProto"):
        onnxwire.load(b"\xf8\x07\x01" * 5)  # the number 1 in field 127


def encode_official_messages() -> dict[str, bytes]:
    """Return an encoded message of each of five types, by the name of its type."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"], name="n")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(np.arange(3, dtype=np.float32), "w")],
    )
    return {
        "TensorProto": graph.initializer[0].SerializeToString(),
        "GraphProto": graph.SerializeToString(),
        "NodeProto": graph.node[0].SerializeToString(),
        "ModelProto": helper.make_model(graph, producer_name="p").SerializeToString(),
        "OperatorSetProto": onnx.onnx_operators_ml_pb2.OperatorSetProto(
            magic="ONNXOPSET", ir_version=8, domain="d", opset_version=3
        ).SerializeToString(),
    }


@pytest.mark.parametrize("type_name", ["TensorProto", "GraphProto", "NodeProto", "OperatorSetProto"])
def test_the_error_of_another_message_loaded_as_a_model_names_its_type(type_name: str) -> None:
    reason = f"looks like {type_name}, not ModelProto; .*type=onnxwire.{type_name}"
    with pytest.raises(onnxwire.DecodeError, match=reason):
        onnxwire.load(encode_official_messages()[type_name])


def test_the_error_of_a_model_loaded_as_a_tensor_names_its_type() -> None:
    with pytest.raises(onnxwire.DecodeError, match="looks like ModelProto, not TensorProto"):
        onnxwire.load(encode_official_messages()["ModelProto"], type=onnxwire.TensorProto)


def test_the_error_of_a_sequence_loaded_as_a_tensor_names_its_type() -> None:
    tensor = helper.make_tensor("t", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    sequence = onnx.SequenceProto(name="seq", elem_type=1, tensor_values=[tensor, tensor]).SerializeToString()
    with pytest.raises(onnxwire.DecodeError, match="looks like SequenceProto, not TensorProto"):
        onnxwire.load(sequence, type=onnxwire.TensorProto)
    assert len(onnxwire.load(sequence, type=onnxwire.SequenceProto).tensor_values) == 2


@pytest.mark.parametrize("type_name", list(encode_official_messages()))
def test_a_message_loads_as_its_type(type_name: str) -> None:
    data = encode_official_messages()[type_name]
    assert onnxwire.load(data, type=getattr(onnxwire, type_name)).SerializeToString() == data


def test_a_model_of_a_later_version_loads_with_its_unknown_field() -> None:
    data = encode_official_messages()["ModelProto"] + b"\xf2\x0f\x03new"  # 3 bytes in field 254
    model = onnxwire.load(data)
    assert model.graph.node[0].op_type == "Relu"
    assert model.SerializeToString() == data


# --- damage


def test_the_error_of_a_truncated_file_has_the_expected_length(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[:100_000])
    with pytest.raises(onnxwire.DecodeError, match="looks truncated") as error_info:
        onnxwire.load(path)
    graph_end = onnxwire.load(data).graph._span[1]
    assert f"expected at least {graph_end:,} bytes" in str(error_info.value)
    assert error_info.value.path == "graph"
    assert data[error_info.value.offset] == 7 << 3 | 2  # the tag of the field `graph`


def test_the_error_of_a_fault_in_a_nested_message_has_its_byte_and_path() -> None:
    node = helper.make_node("Conv", ["x"], ["y"], pads=[1, 2, 3])
    first_node = helper.make_node("Relu", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([first_node, node], "g", [], []))
    attribute = model.graph.node[1].attribute[0].SerializeToString()
    damaged_attribute = attribute[:-3] + b"\x0f\x01\x07"  # wire type 7 in the last tag
    data = model.SerializeToString().replace(attribute, damaged_attribute)
    with pytest.raises(onnxwire.DecodeError) as error_info:
        onnxwire.verify(data)
    assert error_info.value.path.startswith("graph.node[1].attribute[0]")
    start = data.index(damaged_attribute)
    assert start <= error_info.value.offset < start + len(damaged_attribute)
    with pytest.raises(onnxwire.DecodeError) as lazy_error:
        for loaded_node in onnxwire.load(data).graph.node:
            for loaded_attribute in loaded_node.attribute:
                assert loaded_attribute.name
    assert (lazy_error.value.offset, lazy_error.value.path) == (error_info.value.offset, error_info.value.path)


def test_the_path_of_an_error_counts_only_the_records_of_the_field() -> None:
    # A record of the field's number with another wire type is not an element of the field. The last record is a node
    # whose input runs past the end.
    data = b"\x08\x05" + onnx.GraphProto(node=[onnx.NodeProto(name="a")]).SerializeToString() + b"\x0a\x02\x0a\x07"
    with pytest.raises(onnxwire.DecodeError) as error_info:
        onnxwire.verify(data, type=onnxwire.GraphProto)
    assert error_info.value.path == "node[1].input[0]"


def test_the_path_of_a_fault_below_many_levels_is_short() -> None:
    data = b"\x0f"  # a tag of wire type 7, which does not exist
    for _ in range(90):
        data = b"\x3a" + varint(len(data)) + data  # the tag of OptionalProto.optional_value
    with pytest.raises(onnxwire.DecodeError) as error_info:
        onnxwire.verify(data, type=onnxwire.OptionalProto)
    assert "more)" in error_info.value.path
    assert len(error_info.value.path) < 1000


def test_the_error_of_a_packed_run_cut_inside_a_number_names_its_field() -> None:
    tensor = onnxwire.TensorProto.FromString(b"\x0a\x02\x01\x80")  # packed dims, of which the second is cut
    with pytest.raises(onnxwire.DecodeError, match="ends inside a varint") as error_info:
        list(tensor.dims)
    assert error_info.value.path == "dims"
    with pytest.raises(onnxwire.DecodeError, match="not a multiple of the 4 bytes"):
        onnxwire.verify(b"\x22\x03\x01\x02\x03", type=onnxwire.TensorProto)  # 3 bytes of packed float_data


def test_errors_of_reading_are_subclasses_of_error_and_of_builtin_errors() -> None:
    assert issubclass(onnxwire.DecodeError, ValueError)
    assert issubclass(onnxwire.SourceError, OSError)
    for kind in (onnxwire.DecodeError, onnxwire.SourceError, onnxwire.ClosedError, onnxwire.InUseError):
        assert issubclass(kind, onnxwire.Error)
        assert kind.__doc__
    assert issubclass(errors.SourceNotFoundError, FileNotFoundError)


def test_a_decode_error_survives_pickling() -> None:
    import pickle

    with pytest.raises(onnxwire.DecodeError) as error_info:
        onnxwire.verify(b"\x08")  # a tag without a value
    unpickled = pickle.loads(pickle.dumps(error_info.value))
    assert (str(unpickled), unpickled.offset, unpickled.path) == (
        str(error_info.value),
        error_info.value.offset,
        error_info.value.path,
    )


# --- closing


def test_remaining_views_do_not_prevent_a_with_block_from_closing(tmp_path: Path, data: bytes) -> None:
    with onnxwire.load(MODEL) as model:
        node = model.graph.node[0]
        nodes = model.graph.node
        assert node.op_type
    for read in (lambda: node.op_type, lambda: model.graph, lambda: len(nodes), lambda: list(nodes)):
        with pytest.raises(onnxwire.ClosedError, match=r"digits_cnn\.onnx was closed"):
            read()
    model.close()


def test_a_mapping_is_released_with_the_last_view(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(data)

    def count_mappings() -> int:
        return Path("/proc/self/maps").read_text().count(str(path))

    if not Path("/proc/self/maps").exists():
        pytest.skip("needs /proc")
    n_before = count_mappings()
    node = onnxwire.load(path).graph.node[0]
    assert count_mappings() > n_before
    assert node.op_type
    del node
    gc.collect()
    assert count_mappings() == n_before


def test_a_with_block_that_raises_keeps_its_own_error() -> None:
    tensor = helper.make_tensor("t", onnx.TensorProto.FLOAT, [3], [1, 2, 3]).SerializeToString()
    with (
        pytest.raises(KeyError, match="mine"),
        onnxwire.load(tensor, type=onnxwire.TensorProto) as message,
    ):
        array = np.asarray(message.float_data)
        raise KeyError("mine")
    assert array.tolist() == [1, 2, 3]


# --- size


def write_sparse_model(path: Path, size_in_gib: int) -> int:
    """Write a model whose only payload is a hole of `size_in_gib` GiB. Return the size of the payload in bytes."""
    n_bytes = size_in_gib << 30
    tensor = onnx.TensorProto(dims=[n_bytes], data_type=onnx.TensorProto.UINT8, name="w").SerializeToString()
    # The tags are those of raw_data (0x4a), initializer (0x2a) and, after ir_version 8, graph (0x3a).
    tensor_start = tensor + b"\x4a" + varint(n_bytes)
    graph_end = onnx.GraphProto(doc_string="after").SerializeToString()
    graph = b"\x2a" + varint(len(tensor_start) + n_bytes) + tensor_start
    with path.open("wb") as file:
        file.write(b"\x08\x08\x3a" + varint(len(graph) + n_bytes + len(graph_end)) + graph)
        file.seek(n_bytes, os.SEEK_CUR)
        file.write(graph_end + onnx.ModelProto(domain="end").SerializeToString())
    return n_bytes


@pytest.mark.parametrize("size_in_gib", [3, 5, 40])
def test_files_of_more_than_2_4_and_32_gib_decode(size_in_gib: int, tmp_path: Path) -> None:
    path = tmp_path / "big.onnx"
    n_bytes = write_sparse_model(path, size_in_gib)
    onnxwire.verify(path)
    with onnxwire.load(path) as model:
        assert model.domain == "end"
        assert model.graph.doc_string == "after"
        start, end = model.graph.initializer[0]._payload("raw_data").span
        assert end - start == n_bytes
        assert model.ByteSize() == path.stat().st_size


def write_layers(path: Path, sizes: list[int]) -> list[str]:
    """Write a model whose payloads are holes of these sizes in bytes. Return the names of the tensors."""
    # The tags are those of raw_data (0x4a), initializer (0x2a) and, after ir_version 8, graph (0x3a).
    starts = [
        onnx.TensorProto(name="w" * (k % 7 + 1), dims=[size], data_type=onnx.TensorProto.UINT8).SerializeToString()
        + b"\x4a"
        + varint(size)
        for k, size in enumerate(sizes)
    ]
    starts = [b"\x2a" + varint(len(start) + size) + start for start, size in zip(starts, sizes, strict=True)]
    with path.open("wb") as file:
        file.write(b"\x08\x08\x3a" + varint(sum(map(len, starts)) + sum(sizes)))
        for start, size in zip(starts, sizes, strict=True):
            file.write(start)
            file.seek(size, os.SEEK_CUR)
        file.truncate(file.tell())
    return ["w" * (k % 7 + 1) for k in range(len(sizes))]


@pytest.mark.parametrize(
    "sizes",
    [
        [5 << 20] * 40,
        [3 << 20, 3 << 20, 9 << 20, 300_001] * 20,
        [(k * k % 37 + 1) << 19 for k in range(60)],
        [1 << 20] * 30 + [200 << 20, 1],
    ],
    ids=["equal", "layers", "irregular", "a wrong prediction"],
)
def test_the_headers_of_large_tensors_are_found_despite_wrong_predictions(sizes: list[int], tmp_path: Path) -> None:
    path = tmp_path / "layers.onnx"
    names = write_layers(path, sizes)
    # Evict the file from the page cache: predicted headers are requested only if they are not in memory
    # (engine/advise.h).
    fd = os.open(path, os.O_RDONLY)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    with onnxwire.load(path) as model:
        assert [tensor.name for tensor in model.graph.initializer] == names
        assert [tensor.dims[0] for tensor in model.graph.initializer] == sizes
    os.truncate(path, path.stat().st_size - sizes[-1] - 1)
    with pytest.raises(onnxwire.DecodeError), onnxwire.load(path) as model:
        len(model.graph.initializer)
