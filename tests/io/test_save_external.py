"""onnxwire.save with external= and inline_align=: the layout of files, the values, checksums, arguments, and
references to other files."""

import hashlib
import importlib.util
import io
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import stored_tensors
import wire
from budget import examples
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper

import onnxwire

EXAMPLES = Path(__file__).parents[2] / "examples"
EVERY_TYPE = pytest.mark.parametrize("data_type", stored_tensors.DATA_TYPES.values(), ids=stored_tensors.DATA_TYPES)
BOTH_MMAP_MODES = pytest.mark.parametrize("is_mapped", [True, False], ids=["mapped", "read"])
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def file_by_size(info):
    """Return one of two locations, or None, depending on the size of the tensor."""
    return {0: "even.data", 1: "deep/odd.data", 2: None}[info.nbytes // 4 % 3]


# Options of `save` that choose the files of the payloads.
CHOICES = {
    "one file": {"external": "w.data"},
    "a file per tensor": {"external": "d/{name}.bin"},
    "shards": {"external": "d/w.data", "shard_size": 5000},
    "a function": {"external": file_by_size},
}
EVERY_CHOICE = pytest.mark.parametrize("options", CHOICES.values(), ids=CHOICES)


def floats(first, n=300):
    """Return n floats from `first` on, in steps of 1."""
    return np.arange(n, dtype=np.float32) + first


def make_model(arrays):
    """Return the official model with the given (name, array) pairs as initializers."""
    weights = [numpy_helper.from_array(array, name) for name, array in arrays]
    return helper.make_model(helper.make_graph([], "g", [], [], initializer=weights))


def model_with_tensors_in_many_fields():
    """Make a model with tensors in initializers and attributes of graphs, nested graphs, functions and training_info,
    dense and sparse; each has a different size, and many have the same name."""
    sizes = iter(range(300, 400))

    def tensor(name):
        n = next(sizes)
        return numpy_helper.from_array(floats(n, n), name)

    def sparse(name):
        values = tensor(name)
        indices = np.arange(values.dims[0], dtype=np.int64)
        return helper.make_sparse_tensor(values, numpy_helper.from_array(indices), [1000])

    def graph(depth):
        attributes = [
            helper.make_attribute("value", tensor("")),
            helper.make_attribute("sparse", sparse("s")),
            helper.make_attribute("list", [tensor("w"), tensor("W")]),
        ]
        if depth:
            attributes += [helper.make_attribute("g", graph(0)), helper.make_attribute("gs", [graph(0)])]
        node = onnx.NodeProto(op_type="Op", domain="test", attribute=attributes)
        weights, sparse_tensors = [tensor("w"), tensor("a/b"), tensor("a_b")], [sparse("w")]
        return helper.make_graph([node], "g", [], [], initializer=weights, sparse_initializer=sparse_tensors)

    model = helper.make_model(graph(1))
    model.functions.add(name="f", domain="test", node=graph(1).node)
    model.training_info.add(initialization=graph(0), algorithm=graph(0))
    return model


def read_values(path):
    """Return the array of every tensor by its path in the model.

    The official reader reads each tensor separately, since its function for models misses some tensors.
    """
    model = onnx.load(path, load_external_data=False)
    folder = os.path.dirname(path)
    return {
        tensor_path: numpy_helper.to_array(tensor, folder) for tensor_path, tensor in stored_tensors.tensors_in(model)
    }


def check_values(path, expected):
    """Assert that the official reader, and onnxwire with and without mmap, read these arrays, and that checksums are
    correct. expected: the array of each tensor by its path in the model."""
    actual = read_values(path)
    assert actual.keys() == expected.keys()
    for tensor_path, array in expected.items():
        stored_tensors.assert_same_array(actual[tensor_path], array)
    for is_mapped in (True, False):
        with onnxwire.load(path, mmap=is_mapped) as model:
            for tensor_path, tensor in stored_tensors.tensors_in(model):
                stored_tensors.assert_same_array(tensor.numpy(), expected[tensor_path])
    onnxwire.verify(path, checksums=True)


def external_tensors(path):
    """Return those tensors of `onnxwire.tensors` that are external."""
    return [info for info in onnxwire.tensors(path) if info.location is not None]


def files(folder):
    """Return the sorted paths of all files below a folder, relative to the folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


@pytest.fixture(autouse=True)
def skip_fsync(monkeypatch):
    """Skip fsync, since hundreds of files are written here; test_save_external_faults tests that bytes reach the
    disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def path(tmp_path):
    """Write a model with tensors in many fields, all inline."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_with_tensors_in_many_fields().SerializeToString())
    return path


# --- the file and offset of each payload


def load_edited(path):
    """Load a model, rename a tensor, add a tensor, and replace the values of a sparse tensor."""
    model = onnxwire.load(path)
    model.graph.initializer[0].name = "renamed"
    model.graph.initializer.append(onnxwire.from_array(floats(7), "new"))
    model.graph.sparse_initializer[0].values.CopyFrom(onnxwire.from_array(floats(8, 5), "other"))
    return model


def build_model(path):
    """Build a model of arrays. The path is not used."""
    model = onnxwire.ModelProto(ir_version=10)
    model.graph.initializer.extend([onnxwire.from_array(floats(k, k), f"w{k}") for k in range(300, 310)])
    return model


def load_externalized(path):
    """Save a model with external data beside it, and load the saved model."""
    externalized_path = path.with_name("beside.onnx")
    onnxwire.save(onnxwire.load(path), externalized_path, external="beside.data", threshold=1)
    return onnxwire.load(externalized_path)


SOURCES = {
    "mapped": onnxwire.load,
    "read": lambda path: onnxwire.load(path, mmap=False),
    "bytes": lambda path: onnxwire.load(path.read_bytes()),
    "edited": load_edited,
    "made of arrays": build_model,
    "external already": load_externalized,
}


@EVERY_CHOICE
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_payloads_move_from_any_storage_and_the_message_does_not_change(path, source, options):
    model = source(path)
    encoded_before = model.SerializeToString()
    arrays = {tensor_path: tensor.numpy() for tensor_path, tensor in stored_tensors.tensors_in(model)}
    copies = {tensor_path: array.copy() for tensor_path, array in arrays.items()}
    new_path = path.parent / "out" / "new.onnx"
    new_path.parent.mkdir()
    size = onnxwire.save(model, new_path, threshold=1, **options)
    assert size == new_path.stat().st_size
    check_values(new_path, copies)
    assert all(info.offset % 4096 == 0 for info in external_tensors(new_path))
    assert {info.location for info in external_tensors(new_path)} | {"new.onnx"} == set(files(new_path.parent))
    assert model.SerializeToString() == encoded_before
    for tensor_path, array in arrays.items():
        stored_tensors.assert_same_array(array, copies[tensor_path])
    del array, arrays
    model.close()  # raises no InUseError, because no array refers to the model


def test_one_file_contains_all_payloads_in_order_and_ends_after_the_last(path):
    onnxwire.save(onnxwire.load(path), path, external="w.data", align=1)
    infos, end = external_tensors(path), 0
    for info in infos:
        assert (info.location, info.offset) == ("w.data", end)
        end += info.nbytes
    assert path.with_name("w.data").stat().st_size == end
    assert len(infos) == len(onnxwire.tensors(path)) == len(read_values(path))


def test_a_pattern_names_the_file_of_each_tensor_and_a_function_gets_the_tensors_that_reach_the_threshold(path):
    onnxwire.save(onnxwire.load(path), path, external="d/{name}.bin")
    sizes = {info.location: info.nbytes for info in external_tensors(path)}
    assert len(sizes) == len(external_tensors(path)) == len(onnxwire.tensors(path))
    assert all((path.parent / location).stat().st_size == size for location, size in sizes.items())
    infos = []
    onnxwire.save(onnxwire.load(path), path.with_name("f.onnx"), external=infos.append, threshold=1300)
    assert infos == [info for info in onnxwire.tensors(path) if info.nbytes >= 1300]
    assert external_tensors(path.with_name("f.onnx")) == []


def test_a_shard_begins_when_the_previous_shard_would_become_too_long(tmp_path):
    path = tmp_path / "m.onnx"
    sizes = [1000, 1000, 1000, 5000, 1000, 3000]
    model = make_model([(str(n), floats(n, size // 4)) for n, size in enumerate(sizes)])
    source = onnxwire.load(model.SerializeToString())
    onnxwire.save(source, path, external="w.data", threshold=1, align=8, shard_size=3000)
    assert [(info.location, info.offset) for info in external_tensors(path)] == [
        ("w-00001-of-00004.data", 0), ("w-00001-of-00004.data", 1000), ("w-00001-of-00004.data", 2000),
        ("w-00002-of-00004.data", 0), ("w-00003-of-00004.data", 0), ("w-00004-of-00004.data", 0),
    ]  # fmt: skip
    onnxwire.save(onnxwire.load(path), tmp_path / "n.onnx", external="n.data", threshold=1, shard_size=1 << 20)
    assert {info.location for info in external_tensors(tmp_path / "n.onnx")} == {"n.data"}


@pytest.mark.parametrize("align", [1, 2, 64, 100, 4096, 1 << 22])
def test_each_payload_begins_at_a_multiple_of_align(path, align):
    expected = read_values(path)
    onnxwire.save(onnxwire.load(path), path, external="w.data", align=align)
    offsets = [info.offset for info in external_tensors(path)]
    assert offsets == sorted(offsets)
    assert all(offset % align == 0 for offset in offsets)
    # A payload has less than 4,000 bytes.
    assert all(offset - previous < max(2 * align, 4000) for previous, offset in itertools.pairwise(offsets))
    assert path.with_name("w.data").stat().st_blocks * 512 < 1 << 20  # the gaps take no disk space
    check_values(path, expected)


def test_the_threshold_is_the_smallest_size_of_a_moved_payload(tmp_path):
    path = tmp_path / "m.onnx"
    arrays = [(str(n), np.arange(n, dtype=np.uint8)) for n in (0, 1, 99, 100, 101)]
    path.write_bytes(make_model(arrays).SerializeToString())
    expected = read_values(path)
    for threshold, moved_names in [(100, "100 101"), (101, "101"), (102, ""), (1, "1 99 100 101"), (0, "1 99 100 101")]:
        # External payloads below the new threshold become inline.
        onnxwire.save(onnxwire.load(path), path, external="w.data", threshold=threshold, overwrite=True)
        assert [info.name for info in external_tensors(path)] == moved_names.split()
        check_values(path, expected)


@EVERY_TYPE
@examples(10)
@given(data=st.data())
def test_payloads_of_every_type_except_strings_move_as_raw_bytes(data_type, tmp_path, data):
    stored_tensor = data.draw(stored_tensors.tensor_parts(data_type))
    for message in stored_tensor.inline():
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        # The fields are ir_version (1), graph (7) and initializer (5).
        source = onnxwire.load(wire.varint_record(1, 10) + wire.len_record(7, wire.len_record(5, message)))
        onnxwire.save(source, folder / "m.onnx", external="w.data", threshold=1, align=1)
        if data_type == stored_tensors.DATA_TYPES["STRING"] or not stored_tensor.raw:
            assert files(folder) == ["m.onnx"]
            assert onnx.load(folder / "m.onnx").SerializeToString() == source.SerializeToString(deterministic=True)
            continue
        assert (folder / "w.data").read_bytes() == stored_tensor.raw
        check_values(folder / "m.onnx", {"graph.initializer[0]": stored_tensor.array()})
        onnxwire.save(onnxwire.load(folder / "m.onnx"), folder / "m.onnx", external=None)
        tensor = onnx.load(folder / "m.onnx").graph.initializer[0]
        assert tensor == onnx.TensorProto.FromString(stored_tensor.inline()[-1])


def test_a_segment_of_a_tensor_moves_as_a_segment(tmp_path):
    tensor = onnxwire.TensorProto(
        name="c", dims=[100, 2], data_type=onnx.TensorProto.FLOAT, raw_data=floats(3, 50).tobytes()
    )
    tensor.segment.begin, tensor.segment.end = 20, 70
    model = onnxwire.ModelProto(graph={"initializer": [tensor]})
    onnxwire.save(model, tmp_path / "m.onnx", external="w.data", threshold=200, align=1)
    assert (tmp_path / "w.data").read_bytes() == tensor.raw_data
    with onnxwire.load(tmp_path / "m.onnx") as reloaded_model:
        assert (reloaded_model.graph.initializer[0].numpy() == floats(3, 50)).all()


def test_data_that_tensors_share_is_written_once(tmp_path):
    path = tmp_path / "m.onnx"
    (tmp_path / "w.data").write_bytes(floats(1).tobytes())
    model = onnx.ModelProto(ir_version=10)
    for name in "abc":
        tensor = model.graph.initializer.add(
            name=name, dims=[300], data_type=onnx.TensorProto.FLOAT, data_location=onnx.TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value="w.data")
    path.write_bytes(model.SerializeToString())
    onnxwire.save(onnxwire.load(path), path, external="v.data", checksum=True)
    assert [info.offset for info in external_tensors(path)] == [0, 0, 0]
    assert (tmp_path / "v.data").stat().st_size == 1200
    check_values(path, {f"graph.initializer[{i}]": floats(1) for i in range(3)})


def test_a_standalone_tensor_is_saved_with_external_data(tmp_path):
    path = tmp_path / "t.pb"
    onnxwire.save(onnxwire.from_array(floats(1), "t"), path, external="t.data", inline_align=64)
    assert (numpy_helper.to_array(onnx.load_tensor(path), str(tmp_path)) == floats(1)).all()
    with onnxwire.load(path, onnxwire.TensorProto) as tensor:
        onnxwire.save(tensor, path, external=None)
    assert onnx.load_tensor(path) == numpy_helper.from_array(floats(1), "t")


# --- checksums


@EVERY_CHOICE
def test_checksums_match_the_files_and_detect_a_flipped_bit(path, options):
    onnxwire.save(onnxwire.load(path), path, checksum=True, **options)
    onnxwire.verify(path, checksums=True)
    for _, tensor in stored_tensors.tensors_in(onnx.load(path, load_external_data=False)):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            data = Path(path.parent, entries["location"]).read_bytes()
            assert entries["checksum"] == hashlib.sha1(data).hexdigest()
    for location in {info.location for info in external_tensors(path)}:
        file = path.parent / location
        data = file.read_bytes()
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        onnxwire.verify(path)
        with pytest.raises(onnxwire.ExternalDataError, match="SHA-1"):
            onnxwire.verify(path, checksums=True)
        file.write_bytes(data)


def test_models_without_checksums_are_valid(path):
    sources = [path.read_bytes(), io.BytesIO(path.read_bytes()), path]
    for source in sources:
        onnxwire.verify(source, checksums=True)
    onnxwire.save(onnxwire.load(path), path, external="w.data", checksum=True)
    onnxwire.save(onnxwire.load(path), path, external="w.data")
    assert b"checksum" not in path.read_bytes()
    onnxwire.verify(path, checksums=True)


# --- back and forth between readers and writers


@EVERY_CHOICE
@BOTH_MMAP_MODES
def test_a_save_with_external_none_restores_the_original_model(path, options, is_mapped):
    original_model = onnx.load(path)
    onnxwire.save(onnxwire.load(path), path, **options)
    with onnxwire.load(path, mmap=is_mapped) as model:
        onnxwire.save(model, path, external=None)
        file = io.BytesIO()
        onnxwire.save(model, file, external=None)
    assert onnx.load(path) == original_model == onnx.ModelProto.FromString(file.getvalue())
    assert path.read_bytes() == file.getvalue()


@pytest.mark.parametrize("in_one_file", [True, False], ids=["one file", "a file per tensor"])
def test_external_data_of_the_official_writer_is_read_moved_and_made_inline(tmp_path, in_one_file):
    path, original_model = tmp_path / "m.onnx", make_model([(f"w{k}", floats(k, k)) for k in range(300, 306)])
    copy = onnx.ModelProto.FromString(original_model.SerializeToString())
    onnx.save(
        copy, path, save_as_external_data=True, all_tensors_to_one_file=in_one_file, location="w.data", size_threshold=0
    )
    model = onnxwire.load(path)
    onnxwire.save(model, path, external="ours.data")
    reloaded_model = onnx.load(path)
    for weight in reloaded_model.graph.initializer:
        weight.ClearField("data_location")  # the official reader sets the field to DEFAULT
    assert reloaded_model == original_model
    onnxwire.save(model, path, external=None)
    assert onnx.load(path) == original_model


def test_onnx_ir_and_onnxwire_read_each_others_files(tmp_path):
    ir = pytest.importorskip("onnx_ir")
    original_model = make_model([(f"w{k}", floats(k, k)) for k in range(300, 306)])
    original_model.opset_import[0].version = 17
    expected = {weight.name: numpy_helper.to_array(weight) for weight in original_model.graph.initializer}
    onnx_ir_path, onnxwire_path = tmp_path / "theirs.onnx", tmp_path / "ours.onnx"
    ir.save(ir.from_proto(original_model), onnx_ir_path, external_data="theirs.data")
    assert external_tensors(onnx_ir_path)
    onnxwire.save(onnxwire.load(onnx_ir_path), onnxwire_path, external="ours/{name}.data", checksum=True)
    for path in (onnx_ir_path, onnxwire_path):
        with onnxwire.load(path) as model:
            assert all((expected[tensor.name] == tensor.numpy()).all() for tensor in model.graph.initializer)
    for name, weight in ir.load(onnxwire_path).graph.initializers.items():
        assert (weight.const_value.numpy() == expected[name]).all()


def test_external_data_from_buffers_and_other_folders_is_saved(path, tmp_path):
    expected, data_folder = read_values(path), tmp_path / "elsewhere"
    data_folder.mkdir()
    onnxwire.save(onnxwire.load(path), data_folder / "m.onnx", external="w.data")
    buffers = {"w.data": (data_folder / "w.data").read_bytes()}
    for load_options in (
        {"external_data": buffers},
        {"external_root": data_folder},
        {"external_root": data_folder, "mmap": False},
    ):
        for external in (None, "v.data"):
            model = onnxwire.load((data_folder / "m.onnx").read_bytes(), **load_options)
            onnxwire.save(model, path, external=external, overwrite=True)
            check_values(path, expected)


# Values of `external`. The default is Ellipsis (`...`).
EXTERNALS = [..., None, "w.data", "v.data", "d/{name}.bin", file_by_size]


@examples(30)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "external": st.sampled_from(EXTERNALS),
                "threshold": st.sampled_from([0, 1, 1250, 1 << 20]),
                "align": st.sampled_from([1, 64, 100, 4096]),
                "shard_size": st.sampled_from([None, 1, 5000]),
                "checksum": st.booleans(),
                "inline_align": st.sampled_from([1, 64, 4096]),
                "deterministic": st.booleans(),
            }
        ).flatmap(lambda options: st.tuples(st.just(options), st.booleans(), st.booleans())),
        min_size=2,
        max_size=5,
    )
)
def test_any_sequence_of_saves_over_the_same_files_keeps_every_value(tmp_path, saves):
    path = Path(tempfile.mkdtemp(dir=tmp_path)) / "m.onnx"
    path.write_bytes(model_with_tensors_in_many_fields().SerializeToString())
    expected, arrays_of_saves = read_values(path), []
    for step, (options, is_mapped, is_edited) in enumerate(saves):
        model = onnxwire.load(path, mmap=is_mapped)
        arrays_of_saves.append(
            [(tensor.numpy(), expected[tensor_path]) for tensor_path, tensor in stored_tensors.tensors_in(model)]
        )
        if is_edited:
            model.graph.initializer[step % 3].CopyFrom(onnxwire.from_array(floats(step, 400), "edited"))
            expected = {**expected, f"graph.initializer[{step % 3}]": floats(step, 400)}
        onnxwire.save(model, path, overwrite=True, **options)
        check_values(path, expected)
        check_offsets(path, options)
        assert not [name for name in files(path.parent) if "tmp" in name]
    for array, expected_array in itertools.chain.from_iterable(arrays_of_saves):
        stored_tensors.assert_same_array(array, expected_array)


def check_offsets(path, options):
    """Assert that payloads are aligned, and that small payloads are inline, as the options of `save` require."""
    for info in onnxwire.tensors(path):
        if info.nbytes >= max(options["threshold"], 1):
            if info.location is None:
                assert info.offset % options["inline_align"] == 0
            elif options["external"] is not ...:
                assert info.offset % options["align"] == 0
        elif options["external"] is not ...:
            assert info.location is None


# --- aligned inline payloads


@pytest.mark.parametrize("align", [8, 64, 4096])
def test_inline_payloads_are_aligned_for_every_reader_and_aligning_again_changes_nothing(path, align):
    expected, model = read_values(path), onnxwire.load(path)
    encoded_before = model.SerializeToString()
    size = onnxwire.save(model, path, inline_align=align)
    assert path.stat().st_size == size
    assert model.SerializeToString() == encoded_before
    assert {info.offset % align for info in onnxwire.tensors(path)} == {0}
    check_values(path, expected)
    realigned, file = path.with_name("again.onnx"), io.BytesIO()
    for target in (realigned, file):
        onnxwire.save(onnxwire.load(path), target, inline_align=align)
    assert realigned.read_bytes() == file.getvalue() == path.read_bytes()
    with onnxwire.load(path) as model:
        address = model.graph.initializer[0].numpy().ctypes.data
    assert address % align == 0


def test_inline_payloads_can_be_aligned_while_others_move(path):
    expected = read_values(path)
    onnxwire.save(onnxwire.load(path), path, external=file_by_size, inline_align=64, threshold=1250)
    inline_infos = [info for info in onnxwire.tensors(path) if info.location is None]
    assert external_tensors(path)
    assert {info.offset % 64 for info in inline_infos if info.nbytes >= 1250} == {0}
    check_values(path, expected)


SAVE_OPTIONS = {
    "aligned": {"inline_align": 64},
    "aligned to pages": {"inline_align": 4096},
    "external": {"external": "w.data", "checksum": True},
    "a file per tensor": {"external": "w/{name}.bin", "threshold": 1},
    "both": {"external": lambda info: "w.data" if len(info.shape) > 1 else None, "inline_align": 64, "threshold": 1},
}


@pytest.mark.parametrize("options", SAVE_OPTIONS.values(), ids=SAVE_OPTIONS)
def test_onnxruntime_computes_equal_outputs_from_every_layout(tmp_path, options):
    runtime = pytest.importorskip("onnxruntime")
    original_path, path = EXAMPLES / "digits_cnn.onnx", tmp_path / "m.onnx"
    onnxwire.save(onnxwire.load(original_path), path, **options)
    onnx.checker.check_model(path)
    check_values(path, read_values(original_path))
    outputs = []
    for model in (original_path, path):
        session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
        shape = [side if isinstance(side, int) else 2 for side in session.get_inputs()[0].shape]
        image = np.random.default_rng(0).random(shape, dtype=np.float32)
        outputs.append(session.run(None, {session.get_inputs()[0].name: image}))
    assert all((a == b).all() for a, b in zip(*outputs, strict=True))


# --- progress, warnings, arguments


@pytest.mark.parametrize("options", [*CHOICES.values(), {"external": None}, {"external": "w.data", "inline_align": 64}])
def test_progress_rises_to_the_total_size_of_all_files(tmp_path, options):
    calls, folder = [], tmp_path / "out"
    folder.mkdir()
    model = make_model([(str(n), np.zeros(n << 18, np.float32)) for n in (1, 5, 20, 1)])
    source = onnxwire.load(model.SerializeToString())
    onnxwire.save(source, folder / "m.onnx", progress=lambda *call: calls.append(call), **options)
    total = sum((folder / name).stat().st_size for name in files(folder))
    assert calls == sorted(calls)
    assert calls[-1] == (total, total)
    assert {total for _, total in calls} == {total}
    assert len(calls) > 3


@pytest.mark.parametrize("load", [onnxwire.load, lambda path: onnxwire.load(path.read_bytes())], ids=["path", "bytes"])
def test_only_references_that_would_dangle_cause_a_warning(path, load):
    (path.parent / "out").mkdir()
    new_path = path.parent / "out" / "new.onnx"
    onnxwire.save(onnxwire.load(path), path, external="w.data")
    with pytest.warns(onnxwire.ExternalDataWarning, match=r"'w\.data', which is not in .*out") as caught_warnings:
        onnxwire.save(load(path), new_path)
    assert caught_warnings[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new_path.with_name("w.data").write_bytes(path.with_name("w.data").read_bytes())
        onnxwire.save(load(path), new_path)
        model = onnxwire.load(path)
        onnxwire.save(model, path.with_name("beside.onnx"))
        onnxwire.save(model, new_path, external=None)
        onnxwire.save(model, new_path, external="v.data")


def test_invalid_arguments_are_refused(path):
    bytes_before, model = path.read_bytes(), onnxwire.load(path)
    for options in ({"align": 0}, {"align": -1}, {"external": ""}, {"external": "d/"}):
        with pytest.raises(onnxwire.EditError) as error_info:
            onnxwire.save(model, path, **{"external": "w.data", **options})
        assert isinstance(error_info.value, ValueError)
    with pytest.raises(onnxwire.EditError, match="path") as error_info:
        onnxwire.save(model, io.BytesIO(), external="w.data")
    assert isinstance(error_info.value, TypeError)
    assert path.read_bytes() == bytes_before
    assert files(path.parent) == ["model.onnx"]


@pytest.mark.parametrize("name", ["align", "inline_align", "shard_size", "threshold"])
def test_an_invalid_number_of_bytes_is_refused(path, name):
    bytes_before, model = path.read_bytes(), onnxwire.load(path)
    invalid_values = [(1.5, TypeError), ("4", TypeError), ([], TypeError), (-1, ValueError), (1 << 63, ValueError)]
    if "align" in name:
        invalid_values.append(((1 << 30) + 1, ValueError))
    if name != "shard_size":
        invalid_values.append((None, TypeError))
    for value, kind in invalid_values:
        for external in ({}, {"external": None}, {"external": "w.data"}):
            with pytest.raises(onnxwire.EditError, match=rf"^{name} is a number of bytes") as error_info:
                onnxwire.save(model, path, **external, **{name: value})
            assert isinstance(error_info.value, kind)
    assert (path.read_bytes(), files(path.parent)) == (bytes_before, ["model.onnx"])
    onnxwire.save(model, path, external="w.data", **{name: np.int64(4096)})
    onnx.load(path)


def test_a_tensor_that_can_not_be_moved_is_named_and_nothing_is_written(path):
    bytes_before, model = path.read_bytes(), onnxwire.load(path)
    model.graph.initializer[1].raw_data = b"x" * 2001  # not a multiple of the 4 bytes of an element
    with pytest.raises(onnxwire.TensorError, match=r"'a/b'.*2,001"):
        onnxwire.save(model, path, external="w.data")
    assert (path.read_bytes(), files(path.parent)) == (bytes_before, ["model.onnx"])


def test_a_relative_path_and_a_link_are_saved_to(path, monkeypatch):
    expected, folder = read_values(path), path.parent / "links"
    folder.mkdir()
    (folder / "link.onnx").symlink_to("model.onnx")
    path.rename(folder / "model.onnx")
    monkeypatch.chdir(folder)
    onnxwire.save(onnxwire.load("link.onnx"), "link.onnx", external="w.data")
    assert Path("link.onnx").is_symlink()
    assert files(folder) == ["link.onnx", "model.onnx", "w.data"]
    with onnxwire.load("link.onnx") as model:
        arrays = {tensor_path: tensor.numpy(copy=True) for tensor_path, tensor in stored_tensors.tensors_in(model)}
    for tensor_path, array in expected.items():
        stored_tensors.assert_same_array(arrays[tensor_path], array)


# --- beyond 4 GiB


@needs_linux
def test_a_model_above_4_gib_is_unpacked_and_packed_in_little_memory(tmp_path):
    specification = importlib.util.spec_from_file_location("make_big_model", EXAMPLES / "make_big_model.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["make_big_model"] = module  # dataclasses looks the module up in sys.modules
    specification.loader.exec_module(module)
    original_path, unpacked_path, packed_path = (tmp_path / name for name in ("big.onnx", "out.onnx", "back.onnx"))
    module.write_model(original_path)
    last_info = onnxwire.tensors(original_path)[-1]
    with open(original_path, "r+b") as file:
        file.seek(last_info.offset)
        file.write(b"the last weight")
    code = (
        "import onnxwire, resource, sys\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "model = onnxwire.load(sys.argv[1]); before = peak()\n"
        "onnxwire.save(model, sys.argv[2], external=sys.argv[3] or None, inline_align=4096)\n"
        "print(peak() - before)"
    )
    for source, target, location in [(original_path, unpacked_path, "w.data"), (unpacked_path, packed_path, "")]:
        command = [sys.executable, "-W", "ignore", "-c", code, source, target, location]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        assert int(process.stdout) < 30_000  # kilobytes: no weight was in memory
    infos = external_tensors(unpacked_path)
    assert infos[-1].offset > 1 << 32
    assert all(info.offset % 4096 == 0 for info in infos)
    assert {info.offset % 4096 for info in onnxwire.tensors(packed_path) if info.nbytes >= 1024} == {0}
    for path, name in ((unpacked_path, "w.data"), (packed_path, "back.onnx")):
        info = onnxwire.tensors(path)[-1]
        assert (info.name, info.shape, info.nbytes) == (last_info.name, last_info.shape, last_info.nbytes)
        assert (tmp_path / name).stat().st_blocks * 512 < 8 << 20
        with onnxwire.load(path, mmap=path == packed_path) as model:
            assert model.graph.initializer[-1].read((0, slice(0, 8))).tobytes() == b"the last weight\0"
    assert (tmp_path / "w.data").stat().st_size == infos[-1].offset + infos[-1].nbytes


@pytest.mark.normal_build
def test_a_moved_payload_needs_less_than_900_bytes_of_memory(tmp_path):
    import tracemalloc

    def peak_bytes(n_tensors):
        model = onnxwire.load(
            make_model([(str(i), np.zeros(4, np.float32)) for i in range(n_tensors)]).SerializeToString()
        )
        tracemalloc.start()
        onnxwire.save(model, tmp_path / f"{n_tensors}.onnx", external=f"{n_tensors}.data", threshold=1, align=16)
        try:
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak_bytes(10)
    assert (peak_bytes(12_000) - peak_bytes(2_000)) / 10_000 < 900


# --- changes of the message and of its files during a save


def first_elements(path):
    """Return the first element of each tensor that the official runtime reads, by name."""
    return {tensor.name: numpy_helper.to_array(tensor)[0] for tensor in onnx.load(path).graph.initializer}


def save_numbered_tensors(path, **options):
    """Save a model of tensors w0, w1, w2, in which each element of w{i} is i. Return i by the name w{i}."""
    model = make_model([(f"w{i}", np.full(300, i, np.float32)) for i in range(3)])
    onnxwire.save(onnxwire.ModelProto.FromString(model.SerializeToString()), path, **options)
    return {f"w{i}": i for i in range(3)}


@BOTH_MMAP_MODES
def test_references_to_a_file_that_was_replaced_are_refused_without_overwrite(is_mapped, tmp_path):
    path = tmp_path / "m.onnx"
    expected = save_numbered_tensors(path, external="w.data")
    with onnxwire.load(path, mmap=is_mapped) as model:
        model.graph.initializer.reverse()
        onnxwire.save(model, path, external="w.data")
        for target in (path, tmp_path / "other.onnx"):
            with pytest.raises(onnxwire.SaveError, match=r"graph.initializer\[0\].*'w.data'.*external="):
                onnxwire.save(model, target)
        assert first_elements(path) == expected
        onnxwire.save(model, path, external="w.data")
        assert first_elements(path) == expected
        onnxwire.save(model, tmp_path / "whole.onnx", external=None)
        assert first_elements(tmp_path / "whole.onnx") == expected
        onnxwire.save(model, path, overwrite=True)


@BOTH_MMAP_MODES
def test_data_of_deleted_tensors_stays_readable_when_its_file_is_replaced(is_mapped, tmp_path):
    path = tmp_path / "m.onnx"
    expected = save_numbered_tensors(path, external="{name}.data")
    with onnxwire.load(path, mmap=is_mapped) as model:
        deleted_tensor, copied_model = model.graph.initializer[1], onnxwire.ModelProto()
        copied_model.CopyFrom(model)
        del model.graph.initializer[1]
        model.graph.initializer[0].CopyFrom(onnxwire.from_array(np.full(300, 9, np.float32), "w1"))
        onnxwire.save(model, path, external="{name}.data")
        assert deleted_tensor.numpy()[0] == 1
        assert {tensor.name: tensor.numpy()[0] for tensor in copied_model.graph.initializer} == expected
        assert first_elements(path) == {"w1": 9, "w2": 2}
        del deleted_tensor, copied_model


@pytest.mark.parametrize("edit", ["reverse", "clear"])
def test_the_message_is_saved_in_its_state_at_the_call(edit, tmp_path):
    tensors = [
        onnxwire.TensorProto(name=f"w{i}", data_type=onnx.TensorProto.FLOAT, dims=[300], float_data=[i] * 300)
        for i in range(10)
    ]
    tensors += [onnxwire.from_array(np.full(300, i, np.float32), f"w{i}") for i in range(10, 20)]
    model = onnxwire.ModelProto(ir_version=10, graph=onnxwire.GraphProto(name="g", initializer=tensors))

    def choose(info):
        getattr(model.graph.initializer, edit)()
        return "w.data"

    onnxwire.save(model, tmp_path / "m.onnx", external=choose)
    assert first_elements(tmp_path / "m.onnx") == {f"w{i}": i for i in range(20)}


# --- files that unmoved payloads refer to


def save_external_model(folder, name, data="w.data", model="m.onnx"):
    """Save a model of one tensor with external data. Return the model's path.

    name: the name of the tensor, from which its elements are computed. data, model: the names of the files.
    """
    folder.mkdir(exist_ok=True)
    model_to_save = onnxwire.ModelProto(ir_version=10, graph={"name": "g"})
    model_to_save.graph.initializer.append(onnxwire.from_array(floats(sum(map(ord, name))), name))
    onnxwire.save(model_to_save, folder / model, external=data, threshold=0, overwrite=True)
    return folder / model


def encode_arrays(model):
    """Return the bytes of each initializer's elements, by name."""
    return {tensor.name: tensor.numpy().tobytes() for tensor in model.graph.initializer}


COPY_CALLS = {
    "append": lambda target, source: target.append(source[0]),
    "extend": lambda target, source: target.extend(source),
    "CopyFrom": lambda target, source: target.add().CopyFrom(source[0]),
}


@pytest.mark.parametrize("copy_call", COPY_CALLS)
def test_a_tensor_of_another_folder_does_not_refer_to_a_file_of_the_same_name(tmp_path, copy_call):
    path, other_path = save_external_model(tmp_path / "a", "x"), save_external_model(tmp_path / "b", "y")
    with onnxwire.load(path) as model, onnxwire.load(other_path) as other_model:
        COPY_CALLS[copy_call](model.graph.initializer, other_model.graph.initializer)
        bytes_before, expected = path.read_bytes(), encode_arrays(model)
        with pytest.raises(
            onnxwire.SaveError, match=r"in two different files named 'w\.data'; pass external= to write"
        ):
            onnxwire.save(model, path)
        assert path.read_bytes() == bytes_before
        onnxwire.save(model, path, external="w.data")
    with onnxwire.load(path) as model:
        assert encode_arrays(model) == expected


def test_a_different_file_of_the_same_name_in_the_new_folder_causes_a_warning(tmp_path):
    path, other_path = save_external_model(tmp_path / "a", "x"), save_external_model(tmp_path / "b", "y")
    (tmp_path / "c").mkdir()
    with onnxwire.load(path) as model:
        copied_model = onnxwire.ModelProto(ir_version=10, graph=model.graph)
        for message in (model, copied_model):
            with pytest.warns(
                onnxwire.ExternalDataWarning, match=r"in a 'w\.data' that differs from the file in .*b, which"
            ):
                onnxwire.save(message, other_path.with_name("new.onnx"))
            with pytest.warns(onnxwire.ExternalDataWarning, match=r"'w\.data', which is not in .*c: copy it, or save"):
                onnxwire.save(message, tmp_path / "c" / "new.onnx")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                onnxwire.save(message, path.with_name("new.onnx"))
        shutil.copytree(tmp_path / "a", tmp_path / "d")
        os.utime(tmp_path / "d" / "w.data", (0, 0))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            onnxwire.save(model, tmp_path / "d" / "m.onnx")


def test_a_tensor_of_another_model_keeps_the_file_that_it_was_opened_with(tmp_path):
    path, other_path = save_external_model(tmp_path, "x"), save_external_model(tmp_path, "y", "k.data", "k.onnx")
    with onnxwire.load(path) as model, onnxwire.load(other_path) as other_model:
        model.graph.initializer.append(other_model.graph.initializer[0])
        expected = encode_arrays(model)
        save_external_model(tmp_path, "z", "k.data", "k.onnx")
        with pytest.raises(onnxwire.SaveError, match=r"initializer\[1\] has its data in 'k\.data', which was replaced"):
            onnxwire.save(model, path)
        assert encode_arrays(model) == expected


def test_data_that_was_removed_while_it_was_open_causes_a_warning(tmp_path):
    path = save_external_model(tmp_path, "x")
    with onnxwire.load(path) as model:
        expected = encode_arrays(model)
        (tmp_path / "w.data").unlink()
        with pytest.warns(onnxwire.ExternalDataWarning, match=r"'w\.data', which is not in "):
            onnxwire.save(model, path)
        onnxwire.save(model, path, external="w.data")
    with onnxwire.load(path) as model:
        assert encode_arrays(model) == expected
