"""PyTorch tensors share a model's memory."""

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

T = stored_tensors.DATA_TYPES
UNSUPPORTED_TYPES = ["STRING", "UINT4", "INT4", "FLOAT4E2M1", "UINT2", "INT2", "FLOAT6E2M3", "FLOAT6E3M2"]
KINDS = [name for name in T if name not in UNSUPPORTED_TYPES]


def bits_of(tensor):
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


@pytest.fixture(params=[None, "w.bin"], ids=["inline", "external"])
def saved(request, tmp_path):
    """Save a model of one aligned tensor of 5,000 floats."""
    values = np.arange(5000, dtype=np.float32)
    onnxwire.save(model_of(w=values), tmp_path / "m.onnx", external=request.param, inline_align=64)
    return tmp_path / "m.onnx"


def first_of(path, **options):
    return onnxwire.load(path, **options).graph.initializer[0]


@pytest.mark.parametrize("writable", [False, True], ids=["shared", "writable"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_type_keeps_its_bits_from_every_storage(kind, writable):
    codes = [0, 1] if kind == "BOOL" else [0, 1, 0x7F, 0x80, 0xFF, (1 << stored_tensors.BITS[T[kind]]) - 2]
    for dims in ([], [2], [2, 0, 3], [1, 3, 2]):
        count = int(np.prod(dims))
        stored = stored_tensors.Stored(T[kind], dims, (codes * 3)[:count])
        for message in stored.inline():
            tensor = TensorProto.FromString(message)
            result = onnxwire.to_torch(tensor, writable=writable)
            name = str(tensor.dtype)
            assert str(result.dtype) == f"torch.{name}"
            assert list(result.shape) == dims
            assert bits_of(result) == stored.raw


@pytest.mark.parametrize("kind", UNSUPPORTED_TYPES)
def test_types_that_pytorch_does_not_support_are_rejected(kind):
    tensor = stored_tensors.Stored(T[kind], [2], [b"", b""] if kind == "STRING" else [0, 1]).inline("w0")[0]
    with pytest.raises(onnxwire.TensorError, match=rf"'w0'.*{kind}.*numpy\(\)"):
        onnxwire.to_torch(TensorProto.FromString(tensor))


def test_no_byte_is_copied(saved):
    tensor = first_of(saved)
    result = onnxwire.to_torch(tensor)
    assert result.data_ptr() == tensor.numpy().__array_interface__["data"][0]
    assert float(result.sum()) == 5000 * 4999 / 2


def test_a_writable_tensor_has_its_own_memory(saved):
    tensor = first_of(saved)
    result = onnxwire.to_torch(tensor, writable=True)
    result += 1
    assert result[0] == 1
    assert tensor.numpy()[0] == 0


def test_a_model_can_not_be_closed_while_its_memory_is_used(saved):
    model = onnxwire.load(saved)
    result = onnxwire.to_torch(model.graph.initializer[0])
    part = result[10:20]
    del result
    with pytest.raises(onnxwire.InUseError):
        model.close()
    assert part.tolist() == list(range(10, 20))
    del part
    model.close()


def test_a_result_outlives_the_model(saved):
    result = onnxwire.to_torch(first_of(saved)).reshape(50, 100)[1:]
    gc.collect()
    if os.name == "posix":
        for path in saved.parent.iterdir():
            path.unlink()
    assert float((result @ result.T)[0, 0]) == sum(i * i for i in range(100, 200))


def test_a_copy_does_not_keep_the_model_open(saved):
    with onnxwire.load(saved) as model:
        result = onnxwire.to_torch(model.graph.initializer[0], writable=True)
    assert result[4999] == 4999


def test_models_in_memory_are_converted_too(saved):
    assert onnxwire.to_torch(first_of(saved, mmap=False))[4999] == 4999


@pytest.mark.parametrize("kind", ["FLOAT", "BFLOAT16", "INT64", "COMPLEX64", "COMPLEX128"])
def test_elements_at_any_address_can_be_used(kind):
    stored = stored_tensors.Stored(T[kind], [33, 65], list(range(33 * 65)))
    wanted = onnxwire.to_torch(TensorProto.FromString(stored.inline()[-1]), writable=True)
    for shift in range(16):
        tensor = TensorProto(dims=stored.dims, data_type=stored.data_type)
        padded = np.frombuffer(bytes(shift) + stored.raw, np.uint8)
        tensor._share("raw_data", padded[shift:])
        result = onnxwire.to_torch(tensor)
        is_shared = result.data_ptr() == tensor.numpy().__array_interface__["data"][0]
        assert is_shared or kind == "COMPLEX128"
        # On a COMPLEX128 that is not at a multiple of 16, clone ends the process.
        assert torch.equal((result.clone() + result).T.contiguous(), (wanted + wanted).T.contiguous())
