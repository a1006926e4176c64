"""The memory of arrays: when it is shared with the file, how long it stays valid, and its export by DLPack."""

from __future__ import annotations

import gc
import mmap
import sys

import numpy as np
import pytest
import stored_tensors
import wire

import onnxwire
from onnxwire import TensorProto

RAW_DATA = 9  # the field number of TensorProto.raw_data
FLOAT = stored_tensors.DATA_TYPES["FLOAT"]
BITS = {name: stored_tensors.BITS[value] for name, value in stored_tensors.DATA_TYPES.items()}
BYTE_ALIGNED_TYPES = [name for name, bits in BITS.items() if bits >= 8 and name != "STRING"]
NARROW_TYPES = [name for name, bits in BITS.items() if bits < 8]


def sample_tensor(name, dims=(3, 5)):
    """Return the TensorParts of a data type, with varied bits in the elements (0 or 1 for BOOL)."""
    data_type = stored_tensors.DATA_TYPES[name]
    mask = 1 if name == "BOOL" else (1 << min(stored_tensors.BITS[data_type], 64)) - 1
    n = int(np.prod(dims))
    # The multiples of this number have varied bits.
    return stored_tensors.TensorParts(data_type, list(dims), [i * 0x9E3779B97F4A7C15 & mask for i in range(n)])


@pytest.fixture
def path(tmp_path):
    """Write a model with a float tensor of the numbers 0 to 999 in raw_data; return its path."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[1000], raw_data=np.arange(1000, dtype="<f4").tobytes())
    model = onnxwire.ModelProto(producer_name="odd")  # raw_data begins at byte 22, so the floats are not aligned
    model.graph.initializer.append(tensor)
    onnxwire.save(model, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def address(array):
    """Return the address of an array's first byte."""
    return array.__array_interface__["data"][0]


# --- shared memory


@pytest.mark.parametrize("name", BYTE_ALIGNED_TYPES)
def test_raw_data_is_not_copied(name):
    tensor = sample_tensor(name)
    data = tensor.message(wire.len_record(RAW_DATA, tensor.raw))
    array = TensorProto.FromString(data).numpy()
    file_bytes = np.frombuffer(data, np.uint8)
    assert address(array) == address(file_bytes) + data.index(tensor.raw)
    assert np.shares_memory(array, file_bytes)
    assert not array.flags.writeable
    with pytest.raises(ValueError):
        array.setflags(write=True)


@pytest.mark.parametrize("name", ["FLOAT", "COMPLEX64", "DOUBLE", "COMPLEX128"])
def test_one_packed_run_of_floats_is_not_copied(name):
    tensor = sample_tensor(name)
    data = tensor.message(tensor.typed_records())
    our_tensor = TensorProto.FromString(data)
    assert address(our_tensor.numpy()) == address(np.frombuffer(data, np.uint8)) + data.index(tensor.raw)
    assert not our_tensor.numpy().flags.writeable
    assert np.shares_memory(np.frombuffer(our_tensor.raw_view, np.uint8), our_tensor.numpy())


@pytest.mark.parametrize("name", BYTE_ALIGNED_TYPES + NARROW_TYPES)
def test_the_payload_is_not_copied(name):
    """The packed bytes of narrow types are shared, too, although their elements must be unpacked."""
    tensor = sample_tensor(name)
    data = tensor.message(wire.len_record(RAW_DATA, tensor.raw))
    our_tensor = TensorProto.FromString(data)
    for payload in (our_tensor.raw_view, our_tensor.numpy(packed=True)):
        assert address(np.frombuffer(payload, np.uint8)) == address(np.frombuffer(data, np.uint8)) + data.index(
            tensor.raw
        )
        assert np.asarray(payload).flags.writeable is False
    assert our_tensor.raw_view.readonly


@pytest.mark.parametrize("name", BYTE_ALIGNED_TYPES)
def test_an_array_shares_the_memory_of_a_mapping(name, tmp_path):
    tensor = sample_tensor(name)
    (tmp_path / "t.pb").write_bytes(tensor.message(wire.len_record(RAW_DATA, tensor.raw)))
    with open(tmp_path / "t.pb", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with onnxwire.load(mapped, TensorProto) as our_tensor:
        array, file_bytes = our_tensor.numpy(), np.frombuffer(mapped, np.uint8)
        assert np.shares_memory(array, file_bytes)
        assert not array.flags.writeable
        del array, file_bytes


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_an_array_shares_the_memory_of_a_loaded_file(path):
    array = onnxwire.load(path).graph.initializer[0].numpy()
    with open("/proc/self/maps") as maps:
        ranges = [line.split()[0].split("-") for line in maps if line.rstrip().endswith(str(path))]
    assert any(int(start, 16) <= address(array) < int(end, 16) for start, end in ranges)


def test_arrays_share_the_memory_of_a_bytearray():
    data = bytearray(TensorProto(data_type=FLOAT, dims=[2], raw_data=np.ones(2, "<f4").tobytes()).SerializeToString())
    array = onnxwire.load(data, TensorProto).numpy()
    assert not array.flags.writeable
    offset = data.index(np.ones(2, "<f4").tobytes())
    data[offset : offset + 4] = np.array(7, "<f4").tobytes()
    assert array.tolist() == [7, 1]


def test_without_mapping_the_model_is_in_memory(path):
    with onnxwire.load(path, mmap=False) as model:
        array_before = model.graph.initializer[0].numpy(copy=True)
        path.write_bytes(bytes(path.stat().st_size))
        assert model.graph.initializer[0].numpy().tobytes() == array_before.tobytes()


# --- lifetime


def test_an_array_outlives_its_model(path):
    array = onnxwire.load(path).graph.initializer[0].numpy()
    gc.collect()
    assert array.tolist() == list(range(1000))


def test_a_model_can_be_closed_when_no_array_shares_its_memory(path):
    model = onnxwire.load(path)
    tensor = model.graph.initializer[0]
    for make_array in (
        tensor.numpy,
        lambda: np.asarray(tensor),
        lambda: tensor.raw_view,
        lambda: np.from_dlpack(tensor),
    ):
        array_slice = make_array()[3:]
        with pytest.raises(onnxwire.InUseError):
            model.close()
        del array_slice
    copies = [tensor.numpy(copy=True), tensor.numpy(writable=True), tensor.read(slice(2)), np.array(tensor)]
    model.close()
    assert [array[1] for array in copies] == [1] * 4
    for read in (tensor.numpy, lambda: tensor.read(0), lambda: tensor.raw_view, lambda: np.asarray(tensor)):
        with pytest.raises(onnxwire.ClosedError):
            read()


def test_a_writable_array_does_not_change_the_file(path):
    bytes_before = path.read_bytes()
    with onnxwire.load(path) as model:
        tensor = model.graph.initializer[0]
        for array in (tensor.numpy(writable=True), tensor.numpy(copy=True), tensor.numpy(copy=True, writable=True)):
            array[:] = -1
        assert tensor.numpy().tolist() == list(range(1000))
        array = None
    assert path.read_bytes() == bytes_before


def test_repeated_access_to_stored_elements_makes_no_copies(path):
    tensor = onnxwire.load(path).graph.initializer[0]
    assert address(tensor.numpy()) == address(tensor.numpy()) == address(np.asarray(tensor))


def test_editing_a_tensor_does_not_change_its_arrays(path):
    tensor = onnxwire.load(path).graph.initializer[0]
    array_before = tensor.numpy()
    tensor.raw_data = bytes(4000)
    assert array_before.tolist() == list(range(1000))
    assert not tensor.numpy().any()
    tensor.raw_data = bytes(3999)
    with pytest.raises(onnxwire.TensorError):
        tensor.numpy()


# --- DLPack

# The types with elements of whole bytes that numpy can import by DLPack.
DLPACK_TYPES = [name for name in BYTE_ALIGNED_TYPES if not name.startswith(("BFLOAT", "FLOAT8"))]


@pytest.mark.parametrize("name", DLPACK_TYPES)
def test_dlpack_shares_the_memory_read_only(name):
    tensor = sample_tensor(name)
    our_tensor = TensorProto.FromString(tensor.message(wire.len_record(RAW_DATA, tensor.raw)))
    array = np.from_dlpack(our_tensor)
    stored_tensors.assert_same_array(array, tensor.array())
    assert address(array) == address(our_tensor.numpy())
    assert not array.flags.writeable
    assert our_tensor.__dlpack_device__() == (1, 0)  # device 0 of type kDLCPU


def test_dlpack_refuses_a_tensor_that_must_be_decoded_if_copies_are_forbidden():
    tensor = TensorProto(data_type=TensorProto.INT32, dims=[3], int32_data=[1, 2, 3])
    assert np.from_dlpack(tensor).tolist() == [1, 2, 3]
    with pytest.raises(BufferError, match="allow a copy"):
        tensor.__dlpack__(max_version=(1, 0), copy=False)


@pytest.mark.parametrize("dims", [(), (0,), (3, 0, 2), (1,)])
def test_dlpack_exports_the_shape(dims):
    tensor = sample_tensor("INT64", dims)
    assert np.from_dlpack(TensorProto.FromString(tensor.message(wire.len_record(RAW_DATA, tensor.raw)))).shape == dims


def test_dlpack_copies_on_request():
    tensor = sample_tensor("INT16")
    our_tensor = TensorProto.FromString(tensor.message(wire.len_record(RAW_DATA, tensor.raw)))
    array = np.from_dlpack(our_tensor, copy=True)
    stored_tensors.assert_same_array(array, tensor.array())
    assert not np.shares_memory(array, our_tensor.numpy())


def test_dlpack_refuses_strings():
    with pytest.raises(BufferError):
        np.from_dlpack(TensorProto(data_type=stored_tensors.DATA_TYPES["STRING"], dims=[1], string_data=[b"a"]))
