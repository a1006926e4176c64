"""Initializers are written to .safetensors files and read from them, compared with the safetensors package."""

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
T = stored_tensors.DATA_TYPES
UNSUPPORTED_TYPES = ["STRING", "COMPLEX128", "UINT4", "INT4", "UINT2", "INT2"]
NAMES = {
    "BOOL": "BOOL", "FLOAT4E2M1": "F4", "FLOAT6E2M3": "F6_E2M3", "FLOAT6E3M2": "F6_E3M2", "UINT8": "U8", "INT8": "I8",
    "FLOAT8E5M2": "F8_E5M2", "FLOAT8E4M3FN": "F8_E4M3", "FLOAT8E8M0": "F8_E8M0", "FLOAT8E4M3FNUZ": "F8_E4M3FNUZ",
    "FLOAT8E5M2FNUZ": "F8_E5M2FNUZ", "INT16": "I16", "UINT16": "U16", "FLOAT16": "F16", "BFLOAT16": "BF16",
    "INT32": "I32", "UINT32": "U32", "FLOAT": "F32", "COMPLEX64": "C64", "DOUBLE": "F64", "INT64": "I64",
    "UINT64": "U64",
}  # fmt: skip
needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def model_of(*tensors, **fields):
    """Return a model with these initializers, which are given as arrays by name, or as the bytes of messages."""
    made = [TensorProto.FromString(tensor) for tensor in tensors]
    made += [onnxwire.from_array(array, name) for name, array in fields.items()]
    return ModelProto(ir_version=10, graph={"name": "g", "initializer": made})


def by_name(model):
    return {tensor.name: tensor for tensor in model.graph.initializer}


def arrays_of(model):
    return {name: tensor.numpy() for name, tensor in by_name(model).items()}


def same_arrays(ours, wanted):
    assert list(ours) == list(wanted)
    for name in wanted:
        stored_tensors.same_array(ours[name], wanted[name])


def file_of(path, header, data=b"", length=None):
    """Write a .safetensors file, which may be invalid. header: its JSON, or bytes instead of it."""
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header + data)
    return path


def row(dtype="U8", shape=(1,), start=0, end=1):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def sparse_model(path, tensor, size, frame=b""):
    """Write a model whose last initializer has `size` zeros, which take no disk space; return their offset."""
    tensor += wire.tag(9, wire.LEN) + wire.varint(size)
    tensor = wire.tag(5, wire.LEN) + wire.varint(len(tensor) + size) + tensor
    graph = wire.tag(7, wire.LEN) + wire.varint(len(tensor) + size) + tensor
    path.write_bytes(frame + graph)
    os.truncate(path, len(frame) + len(graph) + size)
    return len(frame) + len(graph)


def python(code, *arguments):
    """Return the output of code in a new interpreter. The code may call `peak()`: the peak memory of the process in
    MiB."""
    prelude = (
        "import sys\n"
        "def peak():\n"
        "    lines = dict(line.split(':') for line in open('/proc/self/status'))\n"
        "    return int(lines['VmHWM'].split()[0]) / 1024\n"
    )
    command = [sys.executable, "-c", prelude + code, *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


# --- to_safetensors


@pytest.mark.parametrize("kind", NAMES)
@examples(10)
@given(data=st.data())
def test_every_type_is_written_from_every_storage(kind, tmp_path, data):
    tensor = data.draw(stored_tensors.stored(T[kind]).filter(lambda tensor: len(tensor.elements) % 4 == 0))
    for message in tensor.inline("w"):
        size = onnxwire.to_safetensors(model_of(message), tmp_path / "w.safetensors")
        written = (tmp_path / "w.safetensors").read_bytes()
        assert size == len(written)
        wanted = {"dtype": NAMES[kind], "shape": list(tensor.dims), "data": tensor.raw}
        assert [(name, dict(found)) for name, found in safetensors.deserialize(written)] == [("w", wanted)]


def test_the_package_reads_the_same_arrays(tmp_path):
    path = tmp_path / "w.safetensors"
    with onnxwire.load(DIGITS) as model:
        onnxwire.to_safetensors(model, path)
        wanted = arrays_of(model)
        same_arrays(dict(sorted(safetensors.numpy.load_file(path).items())), dict(sorted(wanted.items())))
        del wanted


def test_pytorch_reads_the_same_bits(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    kinds = ["BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT8E4M3FNUZ", "FLOAT8E5M2FNUZ", "COMPLEX64", "UINT16"]
    wanted = {kind: stored_tensors.Stored(T[kind], [2, 4], list(range(8))) for kind in kinds}
    model = model_of(*[tensor.inline(kind)[-1] for kind, tensor in wanted.items()])
    onnxwire.to_safetensors(model, tmp_path / "w.safetensors")
    for name, tensor in load_file(tmp_path / "w.safetensors").items():
        assert bytes(tensor.view(torch.uint8).numpy()) == wanted[name].raw
        assert torch.equal(tensor.view(torch.uint8), onnxwire.to_torch(by_name(model)[name]).view(torch.uint8))


def test_each_tensor_is_aligned_to_its_elements(tmp_path):
    model = model_of(a=np.ones(3, np.int8), b=np.ones(3, np.float16), c=np.ones(3), d=np.ones(3, np.float32))
    onnxwire.to_safetensors(model, tmp_path / "w.safetensors")
    data = (tmp_path / "w.safetensors").read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert length % 8 == 0
    rows = json.loads(data[8 : 8 + length])
    assert list(rows) == ["c", "d", "b", "a"]
    for name, tensor in by_name(model).items():
        assert rows[name]["data_offsets"][0] % tensor.dtype.itemsize == 0


def test_a_file_contains_the_metadata_and_the_named_tensors(tmp_path):
    path = tmp_path / "w.safetensors"
    model = model_of(a=np.ones(3, np.float32), b=np.zeros(2), texts=np.array(["s"]))
    reports = []
    size = onnxwire.to_safetensors(
        model, path, names=["b", "a"], metadata={"format": "pt", "ä": '"𝄞"'}, progress=lambda *at: reports.append(at)
    )
    assert reports[-1] == (size, size)
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
    read = safetensors.numpy.load_file(tmp_path / "w.safetensors")
    assert {name: array[0] for name, array in read.items()} == {name: array[0] for name, array in values.items()}


def test_external_and_unmapped_payloads_are_written_too(tmp_path):
    values = np.arange(5000, dtype=np.float32)
    onnxwire.save(model_of(w=values), tmp_path / "m.onnx", external="w.bin")
    for mapped in (True, False):
        with onnxwire.load(tmp_path / "m.onnx", mmap=mapped) as model:
            onnxwire.to_safetensors(model, tmp_path / "w.safetensors")
        assert np.array_equal(safetensors.numpy.load_file(tmp_path / "w.safetensors")["w"], values)


def test_a_model_without_initializers_makes_a_valid_file(tmp_path):
    onnxwire.to_safetensors(ModelProto(), tmp_path / "w.safetensors")
    assert safetensors.numpy.load_file(tmp_path / "w.safetensors") == {}


def chunk():
    tensor = TensorProto(name="w", data_type=T["FLOAT"], dims=[4], raw_data=bytes(8))
    tensor.segment.end = 2
    return tensor.SerializeToString()


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        *[
            ([stored_tensors.Stored(T[kind], [2], [b""] * 2 if kind == "STRING" else [0] * 2).inline("w")[0]], kind)
            for kind in UNSUPPORTED_TYPES
        ],
        ([stored_tensors.Stored(T["FLOAT4E2M1"], [3], [0] * 3).inline("w")[-1]], "do not fill the last byte"),
        ([stored_tensors.Stored(T["FLOAT6E2M3"], [2], [0] * 2).inline("w")[-1]], "do not fill the last byte"),
        ([stored_tensors.Stored(T["FLOAT"], [1], [0]).inline("w")[-1]] * 2, "'w'.*the same name"),
        ([stored_tensors.Stored(T["FLOAT"], [1], [0]).inline("")[-1]], "no name"),
        ([stored_tensors.Stored(T["FLOAT"], [1], [0]).inline("__metadata__")[-1]], "this name is reserved"),
        ([stored_tensors.Stored(T["FLOAT"], [2], [0]).message(wire.span(9, bytes(4)))], "'w'.*8 bytes"),
        ([chunk()], "'w'.*chunk"),
    ],
)
def test_tensors_that_the_format_can_not_store_are_rejected(tensors, reason, tmp_path):
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
def test_metadata_is_text(metadata, tmp_path):
    with pytest.raises(TypeError, match="maps str to str"):
        onnxwire.to_safetensors(ModelProto(), tmp_path / "w.safetensors", metadata=metadata)


def test_metadata_that_is_not_utf8_is_rejected(tmp_path):
    with pytest.raises(onnxwire.EditError, match="no UTF-8 form"):
        onnxwire.to_safetensors(ModelProto(), tmp_path / "w.safetensors", metadata={"a": "\ud800"})


@needs_proc
def test_writing_and_loading_take_memory_that_does_not_grow_with_the_payload(tmp_path):
    size = 3 << 30
    path, out = tmp_path / "m.onnx", tmp_path / "w.safetensors"
    offset = sparse_model(path, stored_tensors.Stored(T["FLOAT"], [size // 4], []).message(), size)
    with open(path, "r+b") as file:
        file.seek(offset + size - 4)
        file.write(np.float32(7).tobytes())
    code = (
        "import onnxwire, numpy\n"
        "model = onnxwire.load(sys.argv[1])\n"
        "model.graph.initializer[0].numpy()\n"
        "before = peak()\n"
        "onnxwire.to_safetensors(model, sys.argv[2])\n"
        "assert onnxwire.from_safetensors(model, sys.argv[2]) == 1\n"
        "assert model.graph.initializer[0].numpy()[-1] == 7\n"
        "print(peak() - before)"
    )
    assert float(python(code, path, out)) < 30
    assert out.stat().st_size >= size


# --- from_safetensors


def test_written_tensors_are_read_back(tmp_path):
    tensors = [stored_tensors.Stored(T[kind], [2, 4], [1] * 8).inline(kind)[-1] for kind in NAMES]
    model = model_of(*tensors, empty=np.zeros((0, 3)), scalar=np.float32(5))
    path = tmp_path / "w.safetensors"
    onnxwire.to_safetensors(model, path)
    other = ModelProto(graph={"initializer": [{"name": tensor.name} for tensor in model.graph.initializer]})
    assert onnxwire.from_safetensors(other, path) == len(NAMES) + 2
    same_arrays(arrays_of(other), arrays_of(model))
    same_arrays(arrays_of(ModelProto.FromString(other.SerializeToString())), arrays_of(model))


@pytest.fixture
def beside(tmp_path):
    """Make a model with a and b, and in its folder a .safetensors file with other values for b and c."""
    onnxwire.save(model_of(a=np.zeros(3), b=np.zeros(4)), tmp_path / "m.onnx")
    arrays = {"c": np.ones(2), "b": np.arange(6000, dtype=np.float32).reshape(2, 3000)}
    safetensors.numpy.save_file(arrays, tmp_path / "w.safetensors", metadata={"format": "np"})
    return tmp_path


@pytest.mark.parametrize("mapped", [True, False], ids=["mapped", "read"])
def test_a_file_in_the_models_folder_becomes_its_external_data(beside, mapped):
    wanted = np.arange(6000, dtype=np.float32).reshape(2, 3000)
    with onnxwire.load(beside / "m.onnx", mmap=mapped) as model:
        a, b = model.graph.initializer
        assert onnxwire.from_safetensors(model, beside / "w.safetensors") == 1
        assert [tensor.data_location for tensor in (a, b)] == [TensorProto.DEFAULT, TensorProto.EXTERNAL]
        assert np.array_equal(b.numpy(), wanted)
        assert np.array_equal(a.numpy(), np.zeros(3))
        onnxwire.save(model, beside / "new.onnx")
    assert (beside / "new.onnx").stat().st_size < 1000
    official = onnx.load(beside / "new.onnx").graph.initializer
    assert np.array_equal(onnx.numpy_helper.to_array(official[1]), wanted)


def test_the_path_may_be_relative_and_in_a_subfolder(beside, monkeypatch):
    (beside / "below").mkdir()
    (beside / "w.safetensors").rename(beside / "below" / "w.safetensors")
    monkeypatch.chdir(beside / "below")
    with onnxwire.load("../m.onnx") as model:
        onnxwire.from_safetensors(model, "w.safetensors")
        assert model.graph.initializer[1].external_data[0].value == "below/w.safetensors"
        assert model.graph.initializer[1].numpy()[1, 2999] == 5999


def test_a_file_elsewhere_is_shared_until_the_model_is_saved(beside, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.move(beside / "w.safetensors", elsewhere)
    with onnxwire.load(beside / "m.onnx") as model:
        assert onnxwire.from_safetensors(model, elsewhere / "w.safetensors") == 1
        b = model.graph.initializer[1]
        assert b.data_location == TensorProto.DEFAULT
        assert np.shares_memory(b.numpy(), b.numpy())
        if os.name == "posix":
            (elsewhere / "w.safetensors").unlink()
        gc.collect()
        onnxwire.save(model, beside / "inline.onnx")
        onnxwire.save(model, beside / "moved.onnx", external="moved.bin")
        del b
    for name in ("inline.onnx", "moved.onnx"):
        with onnxwire.load(beside / name) as model:
            assert model.graph.initializer[1].numpy()[1, 2999] == 5999


@pytest.mark.skipif(os.name == "nt", reason="needs symbolic links")
def test_a_link_out_of_the_folder_is_shared_too(beside, tmp_path_factory):
    target = tmp_path_factory.mktemp("elsewhere") / "w.safetensors"
    (beside / "w.safetensors").rename(target)
    (beside / "w.safetensors").symlink_to(target)
    with onnxwire.load(beside / "m.onnx") as model:
        onnxwire.from_safetensors(model, beside / "w.safetensors")
        assert model.graph.initializer[1].data_location == TensorProto.DEFAULT
        assert model.graph.initializer[1].numpy()[1, 2999] == 5999


def test_a_pipe_is_not_mistaken_for_the_file(beside):
    with onnxwire.load(beside / "m.onnx", external_data={"w.safetensors": b"other bytes"}) as model:
        onnxwire.from_safetensors(model, beside / "w.safetensors")
        assert model.graph.initializer[1].numpy()[1, 2999] == 5999


@pytest.mark.skipif(os.name == "nt", reason="an open file can't be replaced")
def test_a_replaced_file_is_read_again(beside):
    with onnxwire.load(beside / "m.onnx") as model:
        onnxwire.from_safetensors(model, beside / "w.safetensors")
        safetensors.numpy.save_file({"b": np.full(2, 8.0)}, beside / "new")
        (beside / "new").rename(beside / "w.safetensors")
        onnxwire.from_safetensors(model, beside / "w.safetensors")
        assert np.array_equal(model.graph.initializer[1].numpy(), np.full(2, 8.0))


def test_a_mapping_of_names_selects_and_renames_tensors(beside):
    with onnxwire.load(beside / "m.onnx") as model:
        new = model.graph.initializer.add(name="new", data_type=T["STRING"], string_data=[b"old"])
        assert onnxwire.from_safetensors(model, beside / "w.safetensors", names={"a": "c", "new": "b"}) == 2
        a, b, _ = model.graph.initializer
        assert np.array_equal(a.numpy(), np.ones(2))
        assert np.array_equal(b.numpy(), np.zeros(4))
        assert new.numpy().shape == (2, 3000)
        assert onnxwire.from_safetensors(model, beside / "w.safetensors", names=iter(["b"])) == 1
        assert model.graph.initializer[1].numpy().shape == (2, 3000)


@pytest.mark.parametrize(
    ("names", "reason"),
    [(["b", "a"], "'a'.*has no tensor 'a'"), (["c"], "'c'.*no initializer"), ({"b": "z"}, "'b'.*has no tensor 'z'")],
)
def test_missing_names_leave_the_model_unchanged(names, reason, beside):
    with onnxwire.load(beside / "m.onnx") as model:
        with pytest.raises(onnxwire.TensorError, match=reason):
            onnxwire.from_safetensors(model, beside / "w.safetensors", names=names)
        assert model.SerializeToString() == (beside / "m.onnx").read_bytes()


def test_one_str_is_not_a_list_of_names(beside):
    for bridge in (onnxwire.from_safetensors, onnxwire.to_safetensors):
        with pytest.raises(TypeError, match="list of names"):
            bridge(model_of(b=np.zeros(1)), beside / "w.safetensors", names="b")
        with pytest.raises(TypeError, match="ModelProto"):
            bridge(model_of().graph, beside / "w.safetensors")


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        onnxwire.from_safetensors(model_of(), tmp_path / "w.safetensors")


# --- headers

HOSTILE = {
    "no bytes": (b"", 0, None),
    "a length that has no header": (b"", 0, 1),
    "a length that wraps": (b"{}", 0, (1 << 64) - 1),
    "a header of more than 100 MB": (b"{}", 0, 100_000_001),
    "no UTF-8": (b'{"\xff": 1}', 0, None),
    "UTF-16": ("{}".encode("utf-16"), 0, None),
    "no JSON": (b"{'a': 1}", 0, None),
    "deep JSON": (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 0, None),
    "an endless number": (b'{"a":' + b"9" * 100_000 + b"}", 0, None),
    "a list": (b"[]", 0, None),
    "an entry that is null": ({"a": None}, 0, None),
    "an entry without dtype": ({"a": {"shape": [1], "data_offsets": [0, 1]}}, 1, None),
    "an entry without shape": ({"a": {"dtype": "U8", "data_offsets": [0, 1]}}, 1, None),
    "an entry without offsets": ({"a": {"dtype": "U8", "shape": [1]}}, 1, None),
    "an unknown dtype": ({"a": row("I4")}, 1, None),
    "a dtype that is a list": ({"a": row(["U8"])}, 1, None),
    "a negative dim": ({"a": row(shape=(-1, -1))}, 1, None),
    "a dim that is not an int": ({"a": row(shape=(1.0,))}, 1, None),
    "a dim that is a bool": ({"a": row(shape=(True,))}, 1, None),
    "a dim of more than 64 bits": ({"a": row(shape=(1 << 64,))}, 1, None),
    "a shape that overflows": ({"a": row(shape=(1 << 32, 1 << 32), end=0)}, 0, None),
    "many great dims": ({"a": row(shape=(1 << 62,) * 20_000)}, 1, None),
    "three offsets": ({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1, 1]}}, 1, None),
    "offsets that end before they begin": ({"a": row(shape=(1,), start=1, end=0)}, 1, None),
    "fewer bytes than the shape": ({"a": row(shape=(2,))}, 1, None),
    "more bytes than the shape": ({"a": row(end=2)}, 2, None),
    "elements that end within a byte": ({"a": row("F4", (1,))}, 1, None),
    "a range beyond the file": ({"a": row(shape=(2,), end=2)}, 1, None),
    "bytes after the tensors": ({"a": row()}, 2, None),
    "bytes and no tensors": ({}, 1, None),
    "a hole": ({"a": row(), "b": row(start=2, end=3)}, 3, None),
    "an overlap": ({"a": row(shape=(2,), end=2), "b": row(start=1, end=2)}, 2, None),
    "the same bytes twice": ({"a": row(), "b": row()}, 1, None),
    "metadata that is not text": ({"__metadata__": {"a": 1}}, 0, None),
    "infinity in an unknown entry": ({"a": row() | {"k": float("inf")}}, 1, None),
    "metadata that is a tensor": ({"__metadata__": row()}, 1, None),
}


@pytest.mark.parametrize(("header", "data", "length"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_header_is_rejected_as_by_the_package(header, data, length, tmp_path):
    path = file_of(tmp_path / "w.safetensors", header, bytes(data), length)
    with pytest.raises(onnxwire.DecodeError, match=r"w\.safetensors: "):
        onnxwire.from_safetensors(model_of(), path)
    with pytest.raises(safetensors.SafetensorError):
        safetensors.deserialize(path.read_bytes())


def test_a_duplicate_name_is_rejected(tmp_path):
    entry = json.dumps(row())
    path = file_of(tmp_path / "w.safetensors", f'{{"a": {entry}, "a": {entry}}}'.encode(), b"\1")
    with pytest.raises(onnxwire.DecodeError, match="duplicated"):
        onnxwire.from_safetensors(model_of(), path)


VALID_FILES = {
    "a": row("F32", (2, 3), 0, 24), "b": row("U8", (3,), 24, 27), "e": row("I64", (0, 7), 27, 27),
    "f": row("F4", (4,), 27, 29), "__metadata__": {"k": "v"},
}  # fmt: skip
_sizes = st.integers(-1, 30) | st.sampled_from([1 << 31, 1 << 64])
_values = st.none() | st.booleans() | _sizes | st.floats() | st.text(max_size=3) | st.lists(_sizes, max_size=3)


@st.composite
def headers(draw):
    """Draw a valid header with one or two changes."""
    header = json.loads(json.dumps(VALID_FILES))
    for _ in range(draw(st.integers(0, 2))):
        entry = header[draw(st.sampled_from(list(VALID_FILES)))]
        if not isinstance(entry, dict) or draw(st.integers(0, 9)) == 0:
            header[draw(st.sampled_from([*VALID_FILES, "n"]))] = draw(_values)
        elif draw(st.booleans()):
            sizes = entry.get(draw(st.sampled_from(["shape", "data_offsets"])))
            if isinstance(sizes, list) and sizes:
                sizes[draw(st.integers(0, len(sizes) - 1))] = draw(_sizes)
        else:
            entry[draw(st.sampled_from(["dtype", "shape", "data_offsets", "k", "more"]))] = draw(
                _values | st.sampled_from([*NAMES.values(), "I4"])
            )
    return header


@examples(400)
@given(header=headers(), spare=st.sampled_from([0] * 8 + [-1, 1]))
def test_headers_are_accepted_and_rejected_as_by_the_package(header, spare, tmp_path):
    path = file_of(tmp_path / "w.safetensors", header, bytes(29 + spare))
    try:
        wanted = dict(safetensors.deserialize(path.read_bytes()))
    except safetensors.SafetensorError:
        wanted = None
    model = ModelProto(graph={"initializer": [{"name": name} for name in header if name != "__metadata__"]})
    try:
        assert onnxwire.from_safetensors(model, path) == len(model.graph.initializer)
    except onnxwire.DecodeError:
        assert wanted is None
        return
    assert wanted is not None
    for tensor in model.graph.initializer:
        assert list(tensor.shape) == wanted[tensor.name]["shape"]
        assert bytes(tensor.raw_view) == wanted[tensor.name]["data"]
