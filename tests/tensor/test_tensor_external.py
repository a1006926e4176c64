"""Tensors with external data, and the list of all tensors of a model."""

from __future__ import annotations

import os
import tempfile

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
import stored_tensors
import wire
from budget import examples
from each import each
from hypothesis import given
from hypothesis import strategies as st
from test_bundled_files import FILES, ONNX_FOLDER
from test_tensor_numpy import basic_indices_of, with_ellipsis

import onnxwire
from onnxwire import ModelProto, TensorProto

DATA_TYPES = stored_tensors.DATA_TYPES
NUMERIC_TYPES = {name: value for name, value in DATA_TYPES.items() if name != "STRING"}
EVERY_NUMERIC_TYPE = pytest.mark.parametrize("data_type", NUMERIC_TYPES.values(), ids=NUMERIC_TYPES)
BOTH_MMAP_MODES = pytest.mark.parametrize("is_mapped", [True, False], ids=["mapped", "read"])


def address(array):
    """Return the address of an array's first byte."""
    return array.__array_interface__["data"][0]


def save_model(folder, *tensors, name="m.onnx"):
    """Save a model with initializers.

    tensors: tuples of a name, TensorParts, and the records external_data and data_location.
    The field numbers are 1 ir_version, 7 graph, and 5 initializer of the graph. Returns the path.
    """
    graph = b"".join(
        wire.len_record(5, tensor.message(location, tensor_name)) for tensor_name, tensor, location in tensors
    )
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(wire.varint_record(1, 10) + wire.len_record(7, graph))  # ir_version, graph
    return path


def float_tensor(n):
    """Return the TensorParts of the float32 numbers 0 to n - 1."""
    return stored_tensors.TensorParts(
        DATA_TYPES["FLOAT"], [n], [int(bits) for bits in np.arange(n, dtype="<f4").view("<u4")]
    )


@pytest.fixture
def path_of_two_tensors(tmp_path):
    """Write a model with 1,000 floats at byte 4 of w.bin and 500 at byte 8,000; return its path."""
    first, second = float_tensor(1000), float_tensor(500)
    (tmp_path / "w.bin").write_bytes(b"head" + first.raw + bytes(8000 - 4004) + second.raw + b"tail")
    return save_model(
        tmp_path,
        ("a", first, stored_tensors.external("w.bin", 4, 4000)),
        ("b", second, stored_tensors.external("w.bin", 8000, 2000)),
    )


# --- arrays


@BOTH_MMAP_MODES
@EVERY_NUMERIC_TYPE
@examples(15)
@given(data=st.data(), offset=st.integers(0, 9))
def test_the_array_is_the_official_one(is_mapped, data_type, tmp_path, data, offset):
    tensor = data.draw(stored_tensors.tensor_parts(data_type))
    folder = tempfile.mkdtemp(dir=tmp_path)
    with open(os.path.join(folder, "w.bin"), "wb") as file:
        file.write(b"x" * offset + tensor.raw + b"yy")
    location = stored_tensors.external("w.bin", offset, len(tensor.raw))
    path = save_model(folder, ("w", tensor, location))
    expected = tensor.array()
    if tensor.raw:  # the official reader treats length 0 as absent
        official = onnx.load(path, load_external_data=False).graph.initializer[0]
        stored_tensors.assert_same_array(onnx.numpy_helper.to_array(official, folder), expected)
    with onnxwire.load(path, mmap=is_mapped) as model:
        our_tensor = model.graph.initializer[0]
        for array in (our_tensor.numpy(), np.asarray(our_tensor), our_tensor.numpy(copy=True), our_tensor.read(...)):
            stored_tensors.assert_same_array(array, expected)
        for _ in range(3):
            index = data.draw(basic_indices_of(expected.shape))
            stored_tensors.assert_same_array(our_tensor.read(index), expected[with_ellipsis(index)])
        assert (our_tensor.shape, our_tensor.dtype, our_tensor.nbytes) == (
            expected.shape,
            expected.dtype,
            len(tensor.raw),
        )
        assert bytes(our_tensor.raw_view) == our_tensor.numpy(packed=True).tobytes() == tensor.raw
        del array


def test_tensors_of_one_file_share_one_mapping(path_of_two_tensors):
    model = onnxwire.load(path_of_two_tensors)
    first, second = (tensor.numpy() for tensor in model.graph.initializer)
    assert address(second) - address(first) == 8000 - 4
    assert address(np.frombuffer(model.graph.initializer[1].raw_view, np.uint8)) == address(second)
    assert address(onnxwire.load(path_of_two_tensors).graph.initializer[0].numpy()) != address(first)
    for array in (first, second):
        assert not array.flags.writeable
        with pytest.raises(ValueError):
            array.setflags(write=True)


def test_without_offset_or_length_the_tensor_begins_and_ends_with_the_file(tmp_path):
    tensor = float_tensor(10)
    (tmp_path / "w.bin").write_bytes(tensor.raw)
    for options in ({}, {"length": 40}, {"offset": 0}):
        location = stored_tensors.external("w.bin", **options)
        path = save_model(tmp_path, ("w", tensor, location))
        stored_tensors.assert_same_array(onnxwire.load(path).graph.initializer[0].numpy(), tensor.array())


@BOTH_MMAP_MODES
def test_writing_to_an_array_does_not_change_the_file(path_of_two_tensors, is_mapped):
    folder = os.path.dirname(path_of_two_tensors)
    with open(os.path.join(folder, "w.bin"), "rb") as file:
        bytes_before = file.read()
    with onnxwire.load(path_of_two_tensors, mmap=is_mapped) as model:
        tensor = model.graph.initializer[0]
        for array in (tensor.numpy(writable=True), tensor.numpy(copy=True), np.array(tensor), tensor.read(...)):
            array[:] = -1
        stored_tensors.assert_same_array(tensor.numpy(), float_tensor(1000).array())
    with open(os.path.join(folder, "w.bin"), "rb") as file:
        assert file.read() == bytes_before


def test_files_are_opened_at_their_first_use(path_of_two_tensors):
    os.remove(os.path.join(os.path.dirname(path_of_two_tensors), "w.bin"))
    with onnxwire.load(path_of_two_tensors) as model:
        tensor = model.graph.initializer[0]
        assert (tensor.shape, tensor.dtype, tensor.nbytes) == ((1000,), np.float32, 4000)
        with pytest.raises(onnxwire.SourceError, match=r"w\.bin") as error_info:
            tensor.numpy()
        assert isinstance(error_info.value, FileNotFoundError)


def test_a_model_can_be_closed_when_no_array_refers_to_its_files(path_of_two_tensors):
    model = onnxwire.load(path_of_two_tensors)
    tensor = model.graph.initializer[0]
    array = tensor.numpy()[5:]
    with pytest.raises(onnxwire.InUseError):
        model.close()
    stored_tensors.assert_same_array(model.graph.initializer[1].numpy(), float_tensor(500).array())
    del array
    model.close()
    with pytest.raises(onnxwire.ClosedError):
        tensor.numpy()


def test_an_array_outlives_its_model(path_of_two_tensors):
    array = onnxwire.load(path_of_two_tensors).graph.initializer[1].numpy()
    assert array.tolist() == list(range(500))


def test_edited_and_added_external_data_is_read_from_the_file(path_of_two_tensors):
    with onnxwire.load(path_of_two_tensors) as model:
        tensor = model.graph.initializer[1]
        tensor.external_data[1].value = "4"  # the offset
        assert tensor.read(slice(3)).tolist() == [0, 1, 2]
        added_tensor = model.graph.initializer.add(
            name="c", data_type=DATA_TYPES["FLOAT"], dims=[2], data_location=TensorProto.EXTERNAL
        )
        for key, value in {"location": "w.bin", "offset": "8", "length": "8"}.items():
            added_tensor.external_data.add(key=key, value=value)
        assert added_tensor.read(...).tolist() == [1, 2]


# --- other folders and buffers


@BOTH_MMAP_MODES
def test_data_is_read_from_external_root(path_of_two_tensors, tmp_path, is_mapped):
    other_folder = tmp_path / "other" / "deep"
    other_folder.mkdir(parents=True)
    os.rename(tmp_path / "w.bin", other_folder / "w.bin")
    with onnxwire.load(path_of_two_tensors, external_root=other_folder, mmap=is_mapped) as model:
        stored_tensors.assert_same_array(model.graph.initializer[0].numpy(), float_tensor(1000).array())
    with open(path_of_two_tensors, "rb") as file:
        data = file.read()
    with onnxwire.load(data, external_root=other_folder) as model:
        stored_tensors.assert_same_array(model.graph.initializer[1].numpy(), float_tensor(500).array())


@pytest.mark.parametrize("is_callable", [True, False])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, np.frombuffer])
def test_buffers_of_the_caller_have_precedence_over_files(path_of_two_tensors, kind, is_callable):
    data = bytes(4) + np.full(1000, 7, "<f4").tobytes()
    buffer = np.frombuffer(data, np.uint8) if kind is np.frombuffer else kind(data)
    files = {"w.bin": buffer}
    with onnxwire.load(path_of_two_tensors, external_data=files.get if is_callable else files) as model:
        array = model.graph.initializer[0].numpy()
        assert array.tolist() == [7] * 1000
        assert np.shares_memory(array, np.frombuffer(buffer, np.uint8))
        assert not array.flags.writeable
        del array


@pytest.mark.parametrize("files", [{}, {"other.bin": b""}.get])
def test_a_location_without_a_buffer_is_opened_in_the_folder(path_of_two_tensors, files):
    with onnxwire.load(path_of_two_tensors, external_data=files) as model:
        stored_tensors.assert_same_array(model.graph.initializer[0].numpy(), float_tensor(1000).array())


# --- reading without mapping


def measure_bytes_read(function):
    """Return the result of a function, and the number of bytes that this process read from files during the call."""

    def count_bytes_read():
        with open("/proc/self/io") as file:
            return int(file.readline().split()[1])

    count_bytes_read()
    bytes_of_counting = -count_bytes_read() + count_bytes_read()
    count_before = count_bytes_read()
    result = function()
    return result, count_bytes_read() - count_before - bytes_of_counting


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs /proc/self/io")
@pytest.mark.parametrize(
    "index, n_elements",
    [
        (0, 1 << 10),
        (-1, 1 << 10),
        ((7, 5), 1),
        (slice(2, 5), 3 << 10),
        ((3, slice(100, 300)), 200),
        ((3, slice(None, None, -1)), 1 << 10),
        (slice(9, 9), 0),
        (..., 1 << 20),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["FLOAT", "INT4", "FLOAT6E2M3"])
def test_only_the_requested_bytes_are_read(tmp_path, name, index, n_elements):
    payload = (
        np.random.default_rng(0)
        .integers(0, 256, (stored_tensors.BITS[DATA_TYPES[name]] << 20) // 8, np.uint8)
        .tobytes()
    )
    (tmp_path / "w.bin").write_bytes(payload)
    tensor = stored_tensors.TensorParts(DATA_TYPES[name], [1024, 1024], [])
    path = save_model(tmp_path, ("w", tensor, stored_tensors.external("w.bin", 0, len(payload))))
    official_array = onnx.numpy_helper.to_array(
        onnx.TensorProto.FromString(tensor.message(wire.len_record(9, payload)))
    )
    with onnxwire.load(path, mmap=False) as model:
        our_tensor = model.graph.initializer[0]
        our_tensor.read((0, 0))  # imports modules and opens files, which happens only once
        array, n = measure_bytes_read(lambda: our_tensor.read(index))
        stored_tensors.assert_same_array(array, np.asarray(official_array[index]))
        n_required = n_elements * stored_tensors.BITS[DATA_TYPES[name]] // 8
        # Elements of less than a byte are read with neighbours that share their bytes.
        assert n_required <= n <= n_required + 16


@pytest.mark.parametrize("read", [lambda tensor: tensor.numpy(), lambda tensor: tensor.read(slice(5))])
def test_reading_a_truncated_file_raises(path_of_two_tensors, read):
    with onnxwire.load(path_of_two_tensors, mmap=False) as model:
        model.graph.initializer[1].read(0)
        os.truncate(os.path.join(os.path.dirname(path_of_two_tensors), "w.bin"), 8010)
        with pytest.raises(onnxwire.Error) as error_info:
            read(model.graph.initializer[1])
        assert isinstance(error_info.value, (onnxwire.SourceError, onnxwire.TensorError))
        with pytest.raises(onnxwire.SourceError):
            model.graph.initializer[0].read(3)  # the file still has the bytes of this tensor, but they may have changed


# --- invalid ranges


@BOTH_MMAP_MODES
@pytest.mark.parametrize(
    "offset, length, expected_numbers",
    [
        (0, 39, {"40", "39"}),
        (0, 41, {"40", "41"}),
        (0, 0, {"40", "0"}),
        (61, 40, {"61", "40", "100"}),
        (61, None, {"40"}),
        (101, 0, {"101", "100"}),
        ((1 << 63) - 1, 40, {str((1 << 63) - 1)}),
        (0, 1 << 64, {str(1 << 64)}),
        (-1, 40, {"-1"}),
    ],
)
def test_a_range_of_another_size_or_outside_the_file_raises(tmp_path, is_mapped, offset, length, expected_numbers):
    location = stored_tensors.external("w.bin", offset, length)
    (tmp_path / "w.bin").write_bytes(bytes(100))
    path = save_model(
        tmp_path,
        ("first", float_tensor(10), stored_tensors.external("w.bin", 0, 40)),
        ("w0", float_tensor(10), location),
    )
    with onnxwire.load(path, mmap=is_mapped) as model:
        for read in (lambda tensor: tensor.numpy(), lambda tensor: tensor.read(0), lambda tensor: tensor.raw_view):
            with pytest.raises(onnxwire.TensorError) as error_info:
                read(model.graph.initializer[1])
            assert (error_info.value.tensor, error_info.value.path) == ("w0", "graph.initializer[1]")
            assert expected_numbers <= stored_tensors.numbers_in(str(error_info.value))
            assert path in str(error_info.value)


def test_a_huge_tensor_of_a_small_file_raises(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(100))
    huge_tensor = stored_tensors.TensorParts(DATA_TYPES["INT8"], [10**18], [])
    for location in (stored_tensors.external("w.bin"), stored_tensors.external("w.bin", 0, 10**18)):
        with onnxwire.load(save_model(tmp_path, ("w", huge_tensor, location)), mmap=False) as model:
            for read in (lambda tensor: tensor.numpy(), lambda tensor: tensor.read(5)):
                with pytest.raises(onnxwire.TensorError):
                    read(model.graph.initializer[0])


# --- the list of all tensors


def check_list(source, official):
    """Assert that onnxwire.tensors lists exactly the tensors of the official message; return the infos by path."""
    infos = {info.path: info for info in onnxwire.tensors(source)}
    expected = dict(stored_tensors.tensors_in(official))
    assert sorted(infos) == sorted(expected)
    for path, tensor in expected.items():
        info = infos[path]
        name = tensor.name if isinstance(tensor.name, bytes) else tensor.name.encode()
        assert info.name.encode("utf-8", "surrogateescape") == name
        assert info.data_type == tensor.data_type
        assert info.shape == tuple(tensor.dims)
    return infos


@each("file", [file for file in FILES if file.endswith(".onnx")])
def test_every_tensor_of_a_file_is_listed(file):
    path = os.path.join(ONNX_FOLDER, file)
    with open(path, "rb") as opened_file:
        data = opened_file.read()
    if not data:
        return
    official = onnx.ModelProto.FromString(data)
    infos = check_list(path, official)
    for tensor_path, tensor in stored_tensors.tensors_in(official):
        if tensor.HasField("raw_data"):
            info = infos[tensor_path]
            assert data[info.offset : info.offset + info.nbytes] == tensor.raw_data


@st.composite
def dense_tensors(draw):
    """Draw the bytes of a tensor of any type and storage, including external data."""
    tensor = draw(stored_tensors.tensor_parts(draw(st.sampled_from(list(DATA_TYPES.values()))), max_side=3))
    name = draw(st.sampled_from(["", "w", "w0", "ä"]))
    if tensor.data_type != DATA_TYPES["STRING"] and draw(st.integers(0, 3)) == 0:
        return tensor.message(stored_tensors.external("w.bin", draw(st.integers(0, 1 << 40)), len(tensor.raw)), name)
    return draw(st.sampled_from(tensor.inline(name)))


def sparse_tensors():
    """Draw the bytes of a sparse tensor: values (field 1), indices (2) and dims (3)."""
    tensor = dense_tensors()
    return st.tuples(tensor, tensor).map(
        lambda pair: wire.len_record(1, pair[0]) + wire.len_record(2, pair[1]) + wire.varint_record(3, 9)
    )


def records_of(number, parts):
    """Draw up to two records of a field; parts: a strategy for the bytes of one value."""
    return st.lists(parts.map(lambda part: wire.len_record(number, part)), max_size=2).map(b"".join)


def attributes(depth):
    """Draw an attribute with at most one of the fields that can contain tensors, directly or in graphs.

    The field numbers are 5 t, 10 tensors, 22 sparse_tensor, 23 sparse_tensors, 6 g and 11 graphs.
    """
    kinds = [
        dense_tensors().map(lambda part: wire.len_record(5, part)),
        records_of(10, dense_tensors()),
        sparse_tensors().map(lambda part: wire.len_record(22, part)),
        records_of(23, sparse_tensors()),
    ]
    if depth:
        kinds += [graphs(depth - 1).map(lambda part: wire.len_record(6, part)), records_of(11, graphs(depth - 1))]
    return st.one_of(kinds)


def nodes(depth):
    """Draw a node with up to two attributes."""
    return records_of(5, attributes(depth))


def graphs(depth=2):
    """Draw a graph with nodes (field 1), initializers (5) and sparse initializers (15). depth: levels of subgraphs."""
    parts = [
        records_of(1, nodes(depth)),
        records_of(5, dense_tensors()),
        records_of(15, sparse_tensors()),
    ]
    return st.permutations([0, 1, 2]).flatmap(lambda order: st.tuples(*(parts[i] for i in order))).map(b"".join)


def models():
    """Draw a model with tensors at any possible position; its graph may be encoded in two records, which are merged.

    The field numbers are 7 graph, 20 training_info, 25 functions and 1 ir_version; of training_info 1 initialization
    and 2 algorithm; of functions 7 node and 11 attribute_proto.
    """
    # The initialization and the algorithm of a training; the nodes and the default attributes of a function.
    training = st.tuples(graphs(1), graphs(1)).map(
        lambda pair: wire.len_record(1, pair[0]) + wire.len_record(2, pair[1])
    )
    function = st.tuples(records_of(7, nodes(1)), records_of(11, attributes(1))).map(b"".join)
    parts = [
        records_of(7, graphs()),
        records_of(20, training),
        records_of(25, function),
        st.just(wire.varint_record(1, 10)),
    ]
    return st.permutations(range(4)).flatmap(lambda order: st.tuples(*(parts[i] for i in order))).map(b"".join)


@given(models())
@examples(300)
def test_every_tensor_of_a_model_is_listed_with_its_location(data):
    official = onnx.ModelProto.FromString(data)
    infos = check_list(data, official)
    for path, tensor in stored_tensors.tensors_in(official):
        info = infos[path]
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            assert (info.location, info.offset, info.nbytes) == (
                "w.bin",
                int(entries["offset"]),
                int(entries["length"]),
            )
            continue
        assert not info.location
        if tensor.HasField("raw_data"):
            assert data[info.offset : info.offset + info.nbytes] == tensor.raw_data
        elif tensor.data_type != DATA_TYPES["STRING"]:
            assert info.nbytes == len(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor)).raw_data)


@wire.needs_upb
@given(wire.valid_wire(ModelProto.DESCRIPTOR))
@examples(300)
def test_the_list_accepts_tensors_of_any_valid_model(data):
    try:
        onnxwire.load(data)
    except onnxwire.DecodeError:  # the bytes look like another format
        return
    check_list(data, onnx.ModelProto.FromString(data))


@given(wire.malformed_wire(ModelProto.DESCRIPTOR) | wire.damaged_wire(ModelProto.DESCRIPTOR))
@examples(300)
def test_the_list_of_damaged_bytes_raises_only_errors_of_onnxwire(data):
    try:
        onnxwire.tensors(data)
    except onnxwire.Error as error:
        assert str(error)


def test_the_list_has_the_location_offset_size_and_alignment(path_of_two_tensors):
    model = onnx.load(path_of_two_tensors, load_external_data=False)
    tensor = model.graph.initializer.add(name="c", data_type=DATA_TYPES["INT8"], dims=[3], raw_data=b"abc")
    onnx.save(model, path_of_two_tensors)
    first_info, second_info, inline_info = sorted(onnxwire.tensors(path_of_two_tensors), key=lambda info: info.name)
    assert [(info.location, info.offset, info.nbytes) for info in (first_info, second_info)] == [
        ("w.bin", 4, 4000),
        ("w.bin", 8000, 2000),
    ]
    with open(path_of_two_tensors, "rb") as file:
        data = file.read()
    assert data[inline_info.offset : inline_info.offset + inline_info.nbytes] == tensor.raw_data
    assert not inline_info.location
    assert [info.alignment for info in (first_info, second_info)] == [4, 64]
