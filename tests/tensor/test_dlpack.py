"""DLPack capsules of numpy arrays, consumed by numpy and torch, and compared with the structs of DLPack."""

import ctypes
import gc
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import onnxwire
from onnxwire.tensor.dlpack import to_capsule

NATIVE = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
# The types of ml_dtypes that torch supports, and the codes and bits of the others.
ML_DTYPES = [
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
DLPACK_CODES = {
    "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8), "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4), "int4": (0, 4), "uint4": (1, 4), "int2": (0, 2),
    "uint2": (1, 2),
}  # fmt: skip
SUB_BYTE = [name for name, (_, bits) in DLPACK_CODES.items() if bits < 8]
READ_ONLY, IS_COPIED, IS_PADDED = 1, 2, 4


class Tensor(ctypes.Structure):
    """DLTensor of DLPack's documentation."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # calls the function without the GIL


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", Deleter))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


def content(capsule, layout=Versioned):
    """Return the struct of a capsule."""
    name = b"dltensor_versioned" if layout is Versioned else b"dltensor"
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return layout.from_address(get(capsule, name))


def take(capsule, layout=Versioned):
    """Return the struct of a capsule, which is consumed as by a library."""
    taken = content(capsule, layout)
    rename = ctypes.pythonapi.PyCapsule_SetName
    rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
    rename(capsule, USED_CAPSULE_NAME)
    return taken


USED_CAPSULE_NAME = b"used_dltensor"  # a capsule keeps the pointer to its name


class Exporter:
    """An array that exports capsules of onnxwire."""

    def __init__(self, array, **fixed):
        self.array = array
        self.fixed = fixed

    def __dlpack__(self, **asked):
        return to_capsule(self.array, **(self.fixed or asked))

    def __dlpack_device__(self):
        return (1, 0)


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def filled(name, shape=(3, 4)):
    """Return an array of all bit patterns of a type except NaNs."""
    dtype = dtype_of(name)
    n = int(np.prod(shape)) * dtype.itemsize
    return (np.arange(n, dtype=np.uint8) % (2 if name == "bool" else 120)).view(dtype).reshape(shape)


LAYOUTS = {
    "rank 0": lambda a: a[1, 2, 3, ...].reshape(()),
    "rank 3": lambda a: a,
    "Fortran order": lambda a: a.T,
    "strided": lambda a: a[:, 1::2, ::3],
    "broadcast": lambda a: np.broadcast_to(a[0, 0], (2, 6)),
    "one element": lambda a: a[1:, 2:3, :1],
    "no elements": lambda a: a[:, 1:1],
    "no elements of rank 1": lambda a: a[0, 0, :0],
}


# --- numpy


@pytest.mark.parametrize("name", NATIVE)
def test_numpy_shares_the_memory_of_every_native_type(name):
    array = filled(name)
    taken = np.from_dlpack(Exporter(array))
    assert taken.dtype == array.dtype and taken.tobytes() == array.tobytes()
    assert np.shares_memory(taken, array) and taken.flags.writeable


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), lambda a: a[::-1, :, ::-2]], ids=[*LAYOUTS, "backwards"])
def test_numpy_imports_any_shape_and_strides(layout):
    array = layout(np.arange(72, dtype=np.int16).reshape(3, 4, 6))
    taken = np.from_dlpack(Exporter(array))
    assert taken.shape == array.shape and taken.tolist() == array.tolist()
    assert np.shares_memory(taken, array) == bool(array.size)


def test_a_read_only_array_stays_read_only():
    array = np.arange(6.0)
    array.flags.writeable = False
    taken = np.from_dlpack(Exporter(array))
    assert not taken.flags.writeable and np.shares_memory(taken, array)


def test_a_read_only_array_is_refused_by_capsules_without_the_flag():
    array = np.arange(6.0)
    array.flags.writeable = False
    for max_version in (None, (0, 8)):
        with pytest.raises(BufferError, match=r"numpy\(writable=True\)"):
            to_capsule(array, max_version=max_version)
    assert np.from_dlpack(Exporter(array, copy=True)).tolist() == array.tolist()


def test_numpy_imports_the_legacy_capsule():
    array = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)[:, ::2]
    assert "dltensor_versioned" not in repr(to_capsule(array))
    taken = np.from_dlpack(Exporter(array, copy=None))
    assert np.shares_memory(taken, array) and taken.tolist() == array.tolist()


@pytest.mark.parametrize("copy", [None, False, True])
def test_only_copy_true_copies(copy):
    array = np.arange(6.0)
    taken = np.from_dlpack(Exporter(array), copy=copy)
    assert np.shares_memory(taken, array) == (copy is not True) and taken.tolist() == array.tolist()
    flags = content(to_capsule(array, max_version=(1, 0), copy=copy)).flags
    assert flags == (IS_COPIED if copy else 0)


def test_a_copy_of_a_read_only_array_may_be_written_to():
    array = np.arange(6.0)
    array.flags.writeable = False
    taken = np.from_dlpack(Exporter(array), copy=True)
    taken[0] = 9
    assert array[0] == 0


# --- refusals


@pytest.mark.parametrize(
    "array",
    [
        np.array(["text"]),
        np.array([b"bytes"]),
        np.array([None]),
        np.zeros(2, "i4,f4"),
        np.zeros(2, "V4"),
        np.zeros(2, "M8[s]"),
        np.zeros(2, ">f4" if sys.byteorder == "little" else "<f4"),
        np.zeros(2, np.longdouble) if np.dtype(np.longdouble).itemsize > 8 else np.array([None]),
        np.zeros((2, 3), "u1,f4")["f1"],
    ],
    ids=lambda array: str(array.dtype),
)
def test_an_array_that_dlpack_can_not_represent_is_a_buffer_error(array):
    for max_version in (None, (1, 0), (1, 3)):
        with pytest.raises(BufferError):
            to_capsule(array, max_version=max_version)


@pytest.mark.parametrize("asked", [{"dl_device": (2, 0)}, {"dl_device": (1, 1)}, {"stream": 1}], ids=str)
def test_other_devices_and_streams_are_refused(asked):
    with pytest.raises(BufferError):
        to_capsule(np.zeros(2), **asked)
    assert to_capsule(np.zeros(2), stream=None, dl_device=(1, 0))


@pytest.mark.parametrize("max_version", [(), [], (1,), (1, 0, 0), [1, 0], "10", 1, ("1", "0")], ids=repr)
def test_a_version_that_is_not_a_pair_is_refused_as_by_numpy(max_version):
    for export in (np.arange(3.0).__dlpack__, onnxwire.from_array(np.arange(3.0)).__dlpack__):
        with pytest.raises(TypeError):
            export(max_version=max_version)


# --- structs


@pytest.mark.parametrize("max_version", [None, (1, 1)])
def test_the_structs_are_those_of_dlpack(max_version):
    array = np.zeros((2, 3, 4), np.complex64)[:, ::-1]
    capsule = to_capsule(array, max_version=max_version)
    managed = content(capsule, Managed if max_version is None else Versioned)
    tensor = managed.tensor
    if max_version:
        assert (managed.major, managed.flags) == (1, 0)
    assert tensor.data == array.__array_interface__["data"][0]
    assert (tensor.device_type, tensor.device_id, tensor.byte_offset) == (1, 0, 0)
    assert (tensor.code, tensor.bits, tensor.lanes) == (5, 64, 1)
    assert tuple(tensor.shape[: tensor.ndim]) == (2, 3, 4)
    assert tuple(tensor.strides[: tensor.ndim]) == (12, -4, 1)


@pytest.mark.parametrize("name", DLPACK_CODES)
def test_rare_types_have_the_codes_of_dlpack(name):
    array = filled(name)
    array.flags.writeable = False
    capsule = to_capsule(array, max_version=(1, 1))
    managed = content(capsule)
    assert (managed.tensor.code, managed.tensor.bits, managed.tensor.lanes) == (*DLPACK_CODES[name], 1)
    assert managed.flags == READ_ONLY | (IS_PADDED if name in SUB_BYTE else 0)
    assert ctypes.string_at(managed.tensor.data, array.nbytes) == array.tobytes()


@pytest.mark.parametrize("name", SUB_BYTE)
def test_elements_with_padding_are_refused_by_capsules_without_the_flag(name):
    for max_version in (None, (0, 9), (1, 0)):
        with pytest.raises(BufferError, match=r"consumer of DLPack 1\.1"):
            to_capsule(filled(name), max_version=max_version)


# --- lifetime


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_an_unused_capsule_releases_the_array(max_version):
    array = np.arange(6.0)
    before = sys.getrefcount(array)
    capsule = to_capsule(array, max_version=max_version)
    assert sys.getrefcount(array) == before + 1
    del capsule
    assert sys.getrefcount(array) == before


@pytest.mark.parametrize("layout, max_version", [(Managed, None), (Versioned, (1, 0))])
def test_the_deleter_may_be_called_without_the_gil(layout, max_version):
    array = np.arange(6.0)
    before = sys.getrefcount(array)
    capsule = to_capsule(array, max_version=max_version)
    managed = take(capsule, layout)
    del capsule
    assert sys.getrefcount(array) == before + 1
    managed.deleter(ctypes.addressof(managed))
    assert sys.getrefcount(array) == before


def test_a_refused_array_is_released():
    array = np.zeros((2, 3), "u1,f4")["f1"]
    before = sys.getrefcount(array)
    for _ in range(3):
        with pytest.raises(BufferError):
            to_capsule(array, max_version=(1, 0))
    assert sys.getrefcount(array) == before


def test_the_consumer_keeps_the_array_alive():
    array = np.arange(6.0)
    watch = weakref.ref(array)
    taken = np.from_dlpack(Exporter(array))
    del array
    assert watch() is not None and taken.tolist() == [0, 1, 2, 3, 4, 5]
    del taken
    assert watch() is None


# --- torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", [*NATIVE, *ML_DTYPES])
def test_torch_shares_the_memory_of_every_type_it_has(torch, name):
    array = filled(name)
    taken = torch.from_dlpack(Exporter(array))
    assert taken.dtype == getattr(torch, name) and tuple(taken.shape) == array.shape
    assert taken.data_ptr() == array.__array_interface__["data"][0]
    assert taken.view(torch.uint8).numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch_imports_any_shape_and_forward_strides(torch, layout, name):
    array = layout(np.arange(72).reshape(3, 4, 6).astype(dtype_of(name)))
    taken = torch.from_dlpack(Exporter(array))
    assert tuple(taken.shape) == array.shape and taken.tolist() == array.tolist()


@pytest.mark.parametrize("fixed", [{}, {"copy": None}], ids=["versioned", "legacy"])
def test_torch_releases_the_array(torch, fixed):
    array = np.arange(6, dtype=np.float32)
    before = sys.getrefcount(array)
    taken = torch.from_dlpack(Exporter(array, **fixed))
    part = taken[2:]
    del taken
    assert sys.getrefcount(array) == before + 1
    del part
    gc.collect()
    assert sys.getrefcount(array) == before


def test_torch_releases_an_array_that_it_refuses(torch):
    array = filled("float8_e3m4")
    before = sys.getrefcount(array)
    with pytest.raises(BufferError):
        torch.from_dlpack(Exporter(array))
    gc.collect()
    assert sys.getrefcount(array) == before
