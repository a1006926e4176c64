"""Conversion to PyTorch tensors that share a model's memory, or are writable copies."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest
import stored_tensors
from test_bridges_safetensors import model_of

import onnxwire
from onnxwire import TensorProto

torch = pytest.importorskip("torch")

DATA_TYPES = stored_tensors.DATA_TYPES
UNSUPPORTED_TYPES = ["STRING", "UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2"]
SUPPORTED_TYPES = [name for name in DATA_TYPES if name not in UNSUPPORTED_TYPES]


def bits_of(tensor):
    """Return the bytes of a PyTorch tensor's elements."""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


@pytest.fixture(params=[None, "w.bin"], ids=["inline", "external"])
def model_path(request, tmp_path):
    """Return the path of a model with one aligned tensor of 5,000 floats."""
    values = np.arange(5000, dtype=np.float32)
    onnxwire.save(model_of(w=values), tmp_path / "m.onnx", external=request.param, inline_align=64)
    return tmp_path / "m.onnx"


def load_first_tensor(path, **options):
    """Return the first initializer of a model."""
    return onnxwire.load(path, **options).graph.initializer[0]


@pytest.mark.parametrize("writable", [False, True], ids=["shared", "writable"])
@pytest.mark.parametrize("type_name", SUPPORTED_TYPES)
def test_supported_types_keep_their_bits_from_every_inline_field(type_name, writable):
    # The bits of elements; except for BOOL, the last value has all bits set but the lowest.
    codes = (
        [0, 1]
        if type_name == "BOOL"
        else [0, 1, 0x7F, 0x80, 0xFF, (1 << stored_tensors.BITS[DATA_TYPES[type_name]]) - 2]
    )
    for dims in ([], [2], [2, 0, 3], [1, 3, 2]):
        count = int(np.prod(dims))
        stored_tensor = stored_tensors.TensorParts(DATA_TYPES[type_name], dims, (codes * 3)[:count])
        for encoded_tensor in stored_tensor.inline():
            tensor = TensorProto.FromString(encoded_tensor)
            result = onnxwire.to_torch(tensor, writable=writable)
            name = str(tensor.dtype)
            assert str(result.dtype) == f"torch.{name}"
            assert list(result.shape) == dims
            assert bits_of(result) == stored_tensor.raw


@pytest.mark.parametrize("type_name", UNSUPPORTED_TYPES)
def test_types_that_pytorch_does_not_support_are_rejected(type_name):
    tensor = stored_tensors.TensorParts(
        DATA_TYPES[type_name], [2], [b"", b""] if type_name == "STRING" else [0, 1]
    ).inline("w0")[0]
    with pytest.raises(onnxwire.TensorError, match=rf"'w0'.*{type_name}.*numpy\(\)"):
        onnxwire.to_torch(TensorProto.FromString(tensor))


def test_no_byte_is_copied(model_path):
    tensor = load_first_tensor(model_path)
    result = onnxwire.to_torch(tensor)
    assert result.data_ptr() == tensor.numpy().__array_interface__["data"][0]
    assert float(result.sum()) == 5000 * 4999 / 2


def test_a_writable_tensor_has_its_own_memory(model_path):
    tensor = load_first_tensor(model_path)
    result = onnxwire.to_torch(tensor, writable=True)
    result += 1
    assert result[0] == 1
    assert tensor.numpy()[0] == 0


def test_a_model_cannot_be_closed_while_its_memory_is_used(model_path):
    model = onnxwire.load(model_path)
    result = onnxwire.to_torch(model.graph.initializer[0])
    slice_of_result = result[10:20]
    del result
    with pytest.raises(onnxwire.InUseError):
        model.close()
    assert slice_of_result.tolist() == list(range(10, 20))
    del slice_of_result
    model.close()


def test_a_result_outlives_the_model(model_path):
    result = onnxwire.to_torch(load_first_tensor(model_path)).reshape(50, 100)[1:]
    gc.collect()
    if os.name == "posix":
        for path in model_path.parent.iterdir():
            path.unlink()
    assert float((result @ result.T)[0, 0]) == sum(i * i for i in range(100, 200))


def test_a_copy_does_not_keep_the_model_open(model_path):
    with onnxwire.load(model_path) as model:
        result = onnxwire.to_torch(model.graph.initializer[0], writable=True)
    assert result[4999] == 4999


def test_models_that_are_read_instead_of_mapped_are_converted_too(model_path):
    assert onnxwire.to_torch(load_first_tensor(model_path, mmap=False))[4999] == 4999


@pytest.mark.parametrize("type_name", ["FLOAT", "BFLOAT16", "INT64", "COMPLEX64", "COMPLEX128"])
def test_elements_at_any_address_can_be_used(type_name):
    stored_tensor = stored_tensors.TensorParts(DATA_TYPES[type_name], [33, 65], list(range(33 * 65)))
    expected = onnxwire.to_torch(TensorProto.FromString(stored_tensor.inline()[-1]), writable=True)
    for shift in range(16):
        tensor = TensorProto(dims=stored_tensor.dims, data_type=stored_tensor.data_type)
        padded = np.frombuffer(bytes(shift) + stored_tensor.raw, np.uint8)
        tensor._share("raw_data", padded[shift:])
        result = onnxwire.to_torch(tensor)
        is_shared = result.data_ptr() == tensor.numpy().__array_interface__["data"][0]
        assert is_shared or type_name == "COMPLEX128"
        # `clone` would crash the process for a COMPLEX128 whose address is no multiple of 16.
        assert torch.equal((result.clone() + result).T.contiguous(), (expected + expected).T.contiguous())
