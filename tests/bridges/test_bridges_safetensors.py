"""Writing initializers to .safetensors files and reading them, compared with the safetensors package."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import stored_tensors
import wire
from budget import examples
from hypothesis import given
from hypothesis import strategies as st

import onnxwire
from onnxwire import ModelProto, TensorProto

pytest.importorskip("safetensors")
import safetensors.numpy

DIGITS = Path(__file__).parents[2] / "examples" / "digits_cnn.onnx"
DATA_TYPES = stored_tensors.DATA_TYPES
# Data types of ONNX that .safetensors files cannot store, and the dtypes of the others in these files.
UNSUPPORTED_TYPES = ["STRING", "COMPLEX128", "UINT4", "INT4", "UINT2", "INT2"]
DTYPES_BY_TYPE = {
    "BOOL": "BOOL", "FLOAT4E2M1": "F4", "FLOAT6E2M3": "F6_E2M3", "FLOAT6E3M2": "F6_E3M2", "UINT8": "U8", "INT8": "I8",
    "FLOAT8E5M2": "F8_E5M2", "FLOAT8E4M3FN": "F8_E4M3", "FLOAT8E8M0": "F8_E8M0", "FLOAT8E4M3FNUZ": "F8_E4M3FNUZ",
    "FLOAT8E5M2FNUZ": "F8_E5M2FNUZ", "INT16": "I16", "UINT16": "U16", "FLOAT16": "F16", "BFLOAT16": "BF16",
    "INT32": "I32", "UINT32": "U32", "FLOAT": "F32", "COMPLEX64": "C64", "DOUBLE": "F64", "INT64": "I64",
    "UINT64": "U64",
}  # fmt: skip
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def model_of(*encoded_tensors, **arrays_by_name):
    """Return a model with initializers, given as the bytes of messages or as arrays by name."""
    initializers = [TensorProto.FromString(tensor) for tensor in encoded_tensors]
    initializers += [onnxwire.from_array(array, name) for name, array in arrays_by_name.items()]
    return ModelProto(ir_version=10, graph={"name": "g", "initializer": initializers})


def tensors_by_name(model):
    return {tensor.name: tensor for tensor in model.graph.initializer}


def arrays_of(model):
    return {name: tensor.numpy() for name, tensor in tensors_by_name(model).items()}


def assert_same_arrays(arrays, expected):
    assert list(arrays) == list(expected)
    for name in expected:
        stored_tensors.assert_same_array(arrays[name], expected[name])


def write_safetensors(path, header, data=b"", length=None):
    """Write a .safetensors file, which may be invalid. Return its path.

    header: a dict or bytes. data: the bytes after the header. length: the header length that the file states; None for
    the true length.
    """
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header + data)
    return path


def header_entry(dtype="U8", shape=(1,), start=0, end=1):
    """Return the entry of a tensor in a header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def write_sparse_model(path, tensor, size, other_fields=b""):
    """Write a model whose last initializer has `size` zero bytes, which take no disk space. Return their offset.

    tensor: the encoded fields of the initializer, except raw_data. other_fields: encoded fields of the model.
    """
    # The tags are those of raw_data (9), initializer (5) and graph (7).
    tensor += wire.tag(9, wire.LEN) + wire.varint(size)
    tensor = wire.tag(5, wire.LEN) + wire.varint(len(tensor) + size) + tensor
    graph_field = wire.tag(7, wire.LEN) + wire.varint(len(tensor) + size) + tensor
    path.write_bytes(other_fields + graph_field)
    os.truncate(path, len(other_fields) + len(graph_field) + size)
    return len(other_fields) + len(graph_field)


def run_python(code, *arguments):
    """Return the output of code in a new interpreter. The code may call `peak_mebibytes()`, which returns the peak
    memory of the process."""
    prelude = (
        "import sys\n"
        "def peak_mebibytes():\n"
        "    lines = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "    return int(lines['VmHWM'].split()[0]) / 1024\n"
    )
    command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


# --- to_safetensors


@pytest.mark.parametrize("type_name", DTYPES_BY_TYPE)
@examples(10)
@given(data=st.data())
def test_supported_types_are_written_from_every_inline_field(type_name, tmp_path, data):
    # The number of elements is a multiple of 4, so that elements of 4 or 6 bits fill whole bytes.
    tensor = data.draw(
        stored_tensors.tensor_parts(DATA_TYPES[type_name]).filter(lambda tensor: len(tensor.elements) % 4 == 0)
    )
    for message in tensor.inline("w"):
        size = onnxwire.to_safetensors(model_of(message), tmp_path / "w.safetensors")
        file_bytes = (tmp_path / "w.safetensors").read_bytes()
        assert size == len(file_bytes)
        expected = {"dtype": DTYPES_BY_TYPE[type_name], "shape": list(tensor.dims), "data": tensor.raw}
        assert [(name, dict(fields_read)) for name, fields_read in safetensors.deserialize(file_bytes)] == [
            ("w", expected)
        ]


def test_safetensors_reads_the_same_arrays(tmp_path):
    path = tmp_path / "w.safetensors"
    with onnxwire.load(DIGITS) as model:
        onnxwire.to_safetensors(model, path)
        expected = arrays_of(model)
        assert_same_arrays(dict(sorted(safetensors.numpy.load_file(path).items())), dict(sorted(expected.items())))
        del expected  # otherwise the model could not be closed, because the arrays use its memory


def test_pytorch_reads_the_same_bits(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    type_names = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ", "COMPLEX64", "UINT16"]
    parts_by_type = {
        type_name: stored_tensors.TensorParts(DATA_TYPES[type_name], [2, 4], list(range(8))) for type_name in type_names
    }
    model = model_of(*[tensor.inline(type_name)[-1] for type_name, tensor in parts_by_type.items()])
    onnxwire.to_safetensors(model, tmp_path / "w.safetensors")
    for name, tensor in load_file(tmp_path / "w.safetensors").items():
        assert bytes(tensor.view(torch.uint8).numpy()) == parts_by_type[name].raw
        assert torch.equal(tensor.view(torch.uint8), onnxwire.to_torch(tensors_by_name(model)[name]).view(torch.uint8))


def test_each_tensor_is_aligned_to_its_elements(tmp_path):
    model = model_of(a=np.ones(3, np.int8), b=np.ones(3, np.float16), c=np.ones(3), d=np.ones(3, np.float32))
    onnxwire.to_safetensors(model, tmp_path / "w.safetensors")
    data = (tmp_path / "w.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    header_entries = json.loads(data[8 : 8 + length])
    assert list(header_entries) == ["c", "d", "b", "a"]
    for name, tensor in tensors_by_name(model).items():
        assert header_entries[name]["data_offsets"][0] % tensor.dtype.itemsize == 0


def test_a_file_contains_the_metadata_and_the_named_tensors(tmp_path):
    path = tmp_path / "w.safetensors"
    model = model_of(a=np.ones(3, np.float32), b=np.zeros(2), texts=np.array(["s"]))
    progress_calls = []
    size = onnxwire.to_safetensors(
        model,
        path,
        names=["b", "a"],
        metadata={"format": "pt", "ä": '"𝄞"'},
        progress=lambda *position: progress_calls.append(position),
    )
    assert progress_calls[-1] == (size, size)
    with safetensors.safe_open(path, "np") as file:
        assert file.metadata() == {"format": "pt", "ä": '"𝄞"'}
        assert sorted(file.keys()) == ["a", "b"]


def test_a_model_that_is_edited_meanwhile_is_written_in_its_state_at_the_call(tmp_path):
    values = {name: np.full(1 << 20, i, np.float32) for i, name in enumerate("abcd")}
    model = model_of(**values)

    def edit(*_):
        for tensor in model.graph.initializer:
            tensor.raw_data = b""
        model.graph.initializer.reverse()

    onnxwire.to_safetensors(model, tmp_path / "w.safetensors", progress=edit)
    loaded_arrays = safetensors.numpy.load_file(tmp_path / "w.safetensors")
    assert {name: array[0] for name, array in loaded_arrays.items()} == {
        name: array[0] for name, array in values.items()
    }


def test_external_and_unmapped_payloads_are_written_too(tmp_path):
    values = np.arange(5000, dtype=np.float32)
    onnxwire.save(model_of(w=values), tmp_path / "m.onnx", external="w.bin")
    for is_mapped in (True, False):
        with onnxwire.load(tmp_path / "m.onnx", mmap=is_mapped) as model:
            onnxwire.to_safetensors(model, tmp_path / "w.safetensors")
        assert np.array_equal(safetensors.numpy.load_file(tmp_path / "w.safetensors")["w"], values)


def test_a_model_without_initializers_is_written_as_a_valid_file(tmp_path):
    onnxwire.to_safetensors(ModelProto(), tmp_path / "w.safetensors")
    assert safetensors.numpy.load_file(tmp_path / "w.safetensors") == {}


def tensor_with_segment():
    """Return an encoded tensor that is a part of a larger one."""
    tensor = TensorProto(name="w", data_type=DATA_TYPES["FLOAT"], dims=[4], raw_data=bytes(8))
    tensor.segment.end = 2
    return tensor.SerializeToString()


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        *[
            (
                [
                    stored_tensors.TensorParts(
                        DATA_TYPES[type_name], [2], [b""] * 2 if type_name == "STRING" else [0] * 2
                    ).inline("w")[0]
                ],
                type_name,
            )
            for type_name in UNSUPPORTED_TYPES
        ],
        (
            [stored_tensors.TensorParts(DATA_TYPES["FLOAT4E2M1"], [3], [0] * 3).inline("w")[-1]],
            "is not full",
        ),
        (
            [stored_tensors.TensorParts(DATA_TYPES["FLOAT6E2M3"], [2], [0] * 2).inline("w")[-1]],
            "is not full",
        ),
        ([stored_tensors.TensorParts(DATA_TYPES["FLOAT"], [1], [0]).inline("w")[-1]] * 2, "'w'.*the same name"),
        ([stored_tensors.TensorParts(DATA_TYPES["FLOAT"], [1], [0]).inline("")[-1]], "no name"),
        (
            [stored_tensors.TensorParts(DATA_TYPES["FLOAT"], [1], [0]).inline("__metadata__")[-1]],
            "this name is reserved",
        ),
        # \x10\x01: data_type FLOAT
        ([b"\x10\x01" + wire.len_record(8, b"\xff") + wire.len_record(9, bytes(4))], "not valid UTF-8"),
        (
            [stored_tensors.TensorParts(DATA_TYPES["FLOAT"], [2], [0]).message(wire.len_record(9, bytes(4)))],
            "'w'.*8 bytes",
        ),
        ([tensor_with_segment()], "'w'.*chunk"),
    ],
)
def test_tensors_that_the_format_cannot_store_are_rejected(tensors, reason, tmp_path):
    (tmp_path / "w.safetensors").write_bytes(b"old")
    with pytest.raises(onnxwire.TensorError, match=reason):
        onnxwire.to_safetensors(model_of(*tensors), tmp_path / "w.safetensors")
    assert os.listdir(tmp_path) == ["w.safetensors"]
    assert (tmp_path / "w.safetensors").read_bytes() == b"old"


def test_a_sparse_initializer_is_rejected_unless_others_are_chosen(tmp_path):
    model = model_of(a=np.ones(3, np.float32))
    model.graph.sparse_initializer.append(onnxwire.from_coo(np.ones(1), np.array([[2]]), (5,), name="s"))
    with pytest.raises(onnxwire.TensorError, match=r"'s'.*sparse"):
        onnxwire.to_safetensors(model, tmp_path / "w.safetensors")
    onnxwire.to_safetensors(model, tmp_path / "w.safetensors", names=["a"])
    with pytest.raises(onnxwire.TensorError, match=r"'b'.*no initializer"):
        onnxwire.to_safetensors(model, tmp_path / "w.safetensors", names=["b"])


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}])
def test_metadata_that_is_not_text_is_rejected(metadata, tmp_path):
    with pytest.raises(TypeError, match="maps str to str"):
        onnxwire.to_safetensors(ModelProto(), tmp_path / "w.safetensors", metadata=metadata)


def test_metadata_that_is_not_utf8_is_rejected(tmp_path):
    with pytest.raises(onnxwire.EditError, match="no UTF-8 form"):
        onnxwire.to_safetensors(ModelProto(), tmp_path / "w.safetensors", metadata={"a": "\ud800"})


@needs_proc
def test_writing_and_loading_take_memory_that_does_not_grow_with_the_payload(tmp_path):
    size = 3 << 30
    path, out = tmp_path / "m.onnx", tmp_path / "w.safetensors"
    offset = write_sparse_model(path, stored_tensors.TensorParts(DATA_TYPES["FLOAT"], [size // 4], []).message(), size)
    with open(path, "r+b") as file:
        file.seek(offset + size - 4)
        file.write(np.float32(7).tobytes())
    code = (
        "import onnxwire, numpy\n"
        "model = onnxwire.load(sys.argv[1])\n"
        "model.graph.initializer[0].numpy()\n"
        "mebibytes_before = peak_mebibytes()\n"
        "onnxwire.to_safetensors(model, sys.argv[2])\n"
        "assert onnxwire.from_safetensors(model, sys.argv[2]) == 1\n"
        "assert model.graph.initializer[0].numpy()[-1] == 7\n"
        "print(peak_mebibytes() - mebibytes_before)"
    )
    assert float(run_python(code, path, out)) < 30
    assert out.stat().st_size >= size


# --- from_safetensors


def test_written_tensors_are_read_back(tmp_path):
    tensors = [
        stored_tensors.TensorParts(DATA_TYPES[type_name], [2, 4], [1] * 8).inline(type_name)[-1]
        for type_name in DTYPES_BY_TYPE
    ]
    model = model_of(*tensors, empty=np.zeros((0, 3)), scalar=np.float32(5))
    path = tmp_path / "w.safetensors"
    onnxwire.to_safetensors(model, path)
    filled_model = ModelProto(graph={"initializer": [{"name": tensor.name} for tensor in model.graph.initializer]})
    assert onnxwire.from_safetensors(filled_model, path) == len(DTYPES_BY_TYPE) + 2
    assert_same_arrays(arrays_of(filled_model), arrays_of(model))
    assert_same_arrays(arrays_of(ModelProto.FromString(filled_model.SerializeToString())), arrays_of(model))


@pytest.fixture
def folder_with_weights(tmp_path):
    """Return a folder with a model with initializers a and b, and a .safetensors file with c and other values of b."""
    onnxwire.save(model_of(a=np.zeros(3), b=np.zeros(4)), tmp_path / "m.onnx")
    arrays = {"c": np.ones(2), "b": np.arange(6000, dtype=np.float32).reshape(2, 3000)}
    safetensors.numpy.save_file(arrays, tmp_path / "w.safetensors", metadata={"format": "np"})
    return tmp_path


@pytest.mark.parametrize("is_mapped", [True, False], ids=["mapped", "read"])
def test_a_file_in_the_models_folder_becomes_its_external_data(folder_with_weights, is_mapped):
    expected = np.arange(6000, dtype=np.float32).reshape(2, 3000)
    with onnxwire.load(folder_with_weights / "m.onnx", mmap=is_mapped) as model:
        a, b = model.graph.initializer
        assert onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors") == 1
        assert [tensor.data_location for tensor in (a, b)] == [TensorProto.DEFAULT, TensorProto.EXTERNAL]
        assert np.array_equal(b.numpy(), expected)
        assert np.array_equal(a.numpy(), np.zeros(3))
        onnxwire.save(model, folder_with_weights / "new.onnx")
    assert (folder_with_weights / "new.onnx").stat().st_size < 1000
    official_initializers = onnx.load(folder_with_weights / "new.onnx").graph.initializer
    assert np.array_equal(onnx.numpy_helper.to_array(official_initializers[1]), expected)


def test_the_path_may_be_relative_and_in_a_subfolder(folder_with_weights, monkeypatch):
    (folder_with_weights / "below").mkdir()
    (folder_with_weights / "w.safetensors").rename(folder_with_weights / "below" / "w.safetensors")
    monkeypatch.chdir(folder_with_weights / "below")
    with onnxwire.load("../m.onnx") as model:
        onnxwire.from_safetensors(model, "w.safetensors")
        assert model.graph.initializer[1].external_data[0].value == "below/w.safetensors"
        assert model.graph.initializer[1].numpy()[1, 2999] == 5999


def test_a_file_in_another_folder_is_shared_until_the_model_is_saved(folder_with_weights, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.move(folder_with_weights / "w.safetensors", elsewhere)
    with onnxwire.load(folder_with_weights / "m.onnx") as model:
        assert onnxwire.from_safetensors(model, elsewhere / "w.safetensors") == 1
        b = model.graph.initializer[1]
        assert b.data_location == TensorProto.DEFAULT
        assert np.shares_memory(b.numpy(), b.numpy())
        if os.name == "posix":
            (elsewhere / "w.safetensors").unlink()
        gc.collect()
        onnxwire.save(model, folder_with_weights / "inline.onnx")
        onnxwire.save(model, folder_with_weights / "moved.onnx", external="moved.bin")
        del b
    for name in ("inline.onnx", "moved.onnx"):
        with onnxwire.load(folder_with_weights / name) as model:
            assert model.graph.initializer[1].numpy()[1, 2999] == 5999


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_the_target_of_a_link_to_another_folder_is_shared_too(folder_with_weights, tmp_path_factory):
    target = tmp_path_factory.mktemp("elsewhere") / "w.safetensors"
    (folder_with_weights / "w.safetensors").rename(target)
    (folder_with_weights / "w.safetensors").symlink_to(target)
    with onnxwire.load(folder_with_weights / "m.onnx") as model:
        onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors")
        assert model.graph.initializer[1].data_location == TensorProto.DEFAULT
        assert model.graph.initializer[1].numpy()[1, 2999] == 5999


def test_a_buffer_with_the_name_of_the_file_is_not_read_instead(folder_with_weights):
    with onnxwire.load(folder_with_weights / "m.onnx", external_data={"w.safetensors": b"other bytes"}) as model:
        onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors")
        assert model.graph.initializer[1].numpy()[1, 2999] == 5999


@pytest.mark.skipif(os.name == "nt", reason="an open file can't be replaced")
def test_a_replaced_file_is_read_again(folder_with_weights):
    with onnxwire.load(folder_with_weights / "m.onnx") as model:
        onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors")
        safetensors.numpy.save_file({"b": np.full(2, 8.0)}, folder_with_weights / "new")
        (folder_with_weights / "new").rename(folder_with_weights / "w.safetensors")
        onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors")
        assert np.array_equal(model.graph.initializer[1].numpy(), np.full(2, 8.0))


def test_a_mapping_of_names_selects_and_renames_tensors(folder_with_weights):
    with onnxwire.load(folder_with_weights / "m.onnx") as model:
        new_tensor = model.graph.initializer.add(name="new", data_type=DATA_TYPES["STRING"], string_data=[b"old"])
        assert (
            onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors", names={"a": "c", "new": "b"}) == 2
        )
        a, b, _ = model.graph.initializer
        assert np.array_equal(a.numpy(), np.ones(2))
        assert np.array_equal(b.numpy(), np.zeros(4))
        assert new_tensor.numpy().shape == (2, 3000)
        assert onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors", names=iter(["b"])) == 1
        assert model.graph.initializer[1].numpy().shape == (2, 3000)


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["b", "a"], "'a'.*has no tensor 'a'"), (["c"], "'c'.*no initializer"), ({"b": "z"}, "'b'.*has no tensor 'z'")],
)
def test_missing_names_leave_the_model_unchanged(names, reason, folder_with_weights):
    with onnxwire.load(folder_with_weights / "m.onnx") as model:
        with pytest.raises(onnxwire.TensorError, match=reason):
            onnxwire.from_safetensors(model, folder_with_weights / "w.safetensors", names=names)
        assert model.SerializeToString() == (folder_with_weights / "m.onnx").read_bytes()


def test_a_str_as_names_and_a_message_that_is_not_a_model_are_rejected(folder_with_weights):
    for bridge in (onnxwire.from_safetensors, onnxwire.to_safetensors):
        with pytest.raises(TypeError, match="list of names"):
            bridge(model_of(b=np.zeros(1)), folder_with_weights / "w.safetensors", names="b")
        with pytest.raises(TypeError, match="ModelProto"):
            bridge(model_of().graph, folder_with_weights / "w.safetensors")


def test_a_missing_file_raises_the_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        onnxwire.from_safetensors(model_of(), tmp_path / "w.safetensors")


# --- headers

# The header, the number of bytes after it, and the header length that the file states (None: the true length).
HOSTILE_FILES = {
    "an empty header": (b"", 0, None),
    "a length but no header": (b"", 0, 1),
    "a length that wraps": (b"{}", 0, (1 << 64) - 1),
    "a header of more than 100 MB": (b"{}", 0, 100_000_001),
    "bytes that are not UTF-8": (b'{"\xff": 1}', 0, None),
    "UTF-16": ("{}".encode("utf-16"), 0, None),
    "text that is not JSON": (b"{'a': 1}", 0, None),
    "deep JSON": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 0, None),
    "a number of 100,000 digits": (b'{"a":' + b"9" * 100_000 + b"}", 0, None),
    "a list": (b"[]", 0, None),
    "an entry that is null": ({"a": None}, 0, None),
    "an entry without dtype": ({"a": {"shape": [1], "data_offsets": [0, 1]}}, 1, None),
    "an entry without shape": ({"a": {"dtype": "U8", "data_offsets": [0, 1]}}, 1, None),
    "an entry without offsets": ({"a": {"dtype": "U8", "shape": [1]}}, 1, None),
    "an unknown dtype": ({"a": header_entry("I4")}, 1, None),
    "a dtype that is a list": ({"a": header_entry(["U8"])}, 1, None),
    "a negative dim": ({"a": header_entry(shape=(-1, -1))}, 1, None),
    "a dim that is not an int": ({"a": header_entry(shape=(1.0,))}, 1, None),
    "a dim that is a bool": ({"a": header_entry(shape=(True,))}, 1, None),
    "a dim of more than 64 bits": ({"a": header_entry(shape=(1 << 64,))}, 1, None),
    "a shape that overflows": ({"a": header_entry(shape=(1 << 32, 1 << 32), end=0)}, 0, None),
    "many large dims": ({"a": header_entry(shape=(1 << 62,) * 20_000)}, 1, None),
    "three offsets": ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, 1, None),
    "offsets that end before they begin": ({"a": header_entry(shape=(1,), start=1, end=0)}, 1, None),
    "fewer bytes than the shape": ({"a": header_entry(shape=(2,))}, 1, None),
    "more bytes than the shape": ({"a": header_entry(end=2)}, 2, None),
    "elements that end within a byte": ({"a": header_entry("F4", (1,))}, 1, None),
    "a range beyond the file": ({"a": header_entry(shape=(2,), end=2)}, 1, None),
    "bytes after the tensors": ({"a": header_entry()}, 2, None),
    "bytes and no tensors": ({}, 1, None),
    "a hole": ({"a": header_entry(), "b": header_entry(start=2, end=3)}, 3, None),
    "an overlap": ({"a": header_entry(shape=(2,), end=2), "b": header_entry(start=1, end=2)}, 2, None),
    "the same bytes twice": ({"a": header_entry(), "b": header_entry()}, 1, None),
    "metadata that is not text": ({"__metadata__": {"a": 1}}, 0, None),
    "infinity at an unknown key": ({"a": header_entry() | {"k": float("inf")}}, 1, None),
    "metadata that is a tensor": ({"__metadata__": header_entry()}, 1, None),
}


@pytest.mark.parametrize(("header", "n_data_bytes", "length"), HOSTILE_FILES.values(), ids=HOSTILE_FILES)
def test_a_hostile_header_is_rejected_as_by_safetensors(header, n_data_bytes, length, tmp_path):
    path = write_safetensors(tmp_path / "w.safetensors", header, bytes(n_data_bytes), length)
    with pytest.raises(onnxwire.DecodeError, match=r"w\.safetensors: "):
        onnxwire.from_safetensors(model_of(), path)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(path.read_bytes())


def test_a_duplicate_name_is_rejected(tmp_path):
    entry_json = json.dumps(header_entry())
    path = write_safetensors(tmp_path / "w.safetensors", f'{{"a": {entry_json}, "a": {entry_json}}}'.encode(), b"\1")
    with pytest.raises(onnxwire.DecodeError, match="duplicated"):
        onnxwire.from_safetensors(model_of(), path)


VALID_HEADER = {  # of a file with 29 bytes after the header
    "a": header_entry("F32", (2, 3), 0, 24),
    "b": header_entry("U8", (3,), 24, 27),
    "e": header_entry("I64", (0, 7), 27, 27),
    "f": header_entry("F4", (4,), 27, 29),
    "__metadata__": {"k": "v"},
}
_SIZES = st.integers(-1, 30) | st.sampled_from([1 << 31, 1 << 64])
_VALUES = st.none() | st.booleans() | _SIZES | st.floats() | st.text(max_size=3) | st.lists(_SIZES, max_size=3)


@st.composite
def headers(draw):
    """Draw a valid header with at most two changes."""
    header = json.loads(json.dumps(VALID_HEADER))
    for _ in range(draw(st.integers(0, 2))):
        entry = header[draw(st.sampled_from(list(VALID_HEADER)))]
        if not isinstance(entry, dict) or draw(st.integers(0, 9)) == 0:
            header[draw(st.sampled_from([*VALID_HEADER, "n"]))] = draw(_VALUES)
        elif draw(st.booleans()):
            sizes = entry.get(draw(st.sampled_from(["shape", "data_offsets"])))
            if isinstance(sizes, list) and sizes:
                sizes[draw(st.integers(0, len(sizes) - 1))] = draw(_SIZES)
        else:
            entry[draw(st.sampled_from(["dtype", "shape", "data_offsets", "k", "more"]))] = draw(
                _VALUES | st.sampled_from([*DTYPES_BY_TYPE.values(), "I4"])
            )
    return header


@examples(400)
@given(header=headers(), extra_bytes=st.sampled_from([0] * 8 + [-1, 1]))
def test_headers_are_accepted_and_rejected_as_by_safetensors(header, extra_bytes, tmp_path):
    path = write_safetensors(tmp_path / "w.safetensors", header, bytes(29 + extra_bytes))
    try:
        expected = dict(safetensors.deserialize(path.read_bytes()))
    except safetensors.SafetensorError:
        expected = None
    model = ModelProto(graph={"initializer": [{"name": name} for name in header if name != "__metadata__"]})
    try:
        assert onnxwire.from_safetensors(model, path) == len(model.graph.initializer)
    except onnxwire.DecodeError:
        assert expected is None
        return
    assert expected is not None
    for tensor in model.graph.initializer:
        assert list(tensor.shape) == expected[tensor.name]["shape"]
        assert bytes(tensor.raw_view) == expected[tensor.name]["data"]
