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

NATIVE_TYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
# Types of ml_dtypes that torch supports.
TORCH_ML_DTYPES = [
    "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
]  # fmt: skip
# DLPack's type codes and numbers of bits, for types of ml_dtypes that torch does not support.
DLPACK_CODES = {
    "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8), "float6_e2m3fn": (15, 6),
    "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4), "int4": (0, 4), "uint4": (1, 4), "int2": (0, 2),
    "uint2": (1, 2),
}  # fmt: skip
SUB_BYTE_TYPES = [name for name, (_, bits) in DLPACK_CODES.items() if bits < 8]
# Flags of DLManagedTensorVersioned.
READ_ONLY, IS_COPIED, IS_PADDED = 1, 2, 4


class Tensor(ctypes.Structure):
    """The struct DLTensor of DLPack's documentation."""

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


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # ctypes releases the GIL during calls of such a function


class ManagedTensor(ctypes.Structure):
    """The struct DLManagedTensor."""

    _fields_ = (("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", Deleter))


class VersionedTensor(ctypes.Structure):
    """The struct DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", Deleter),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    )


def read_struct(capsule, struct_class=VersionedTensor):
    """Return the struct of a capsule."""
    name = b"dltensor_versioned" if struct_class is VersionedTensor else b"dltensor"
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return struct_class.from_address(get_pointer(capsule, name))


def consume(capsule, struct_class=VersionedTensor):
    """Return the struct of a capsule, and mark the capsule as consumed by a change of its name."""
    struct = read_struct(capsule, struct_class)
    set_name = ctypes.pythonapi.PyCapsule_SetName
    set_name.argtypes = (ctypes.py_object, ctypes.c_char_p)
    set_name(capsule, USED_CAPSULE_NAME)
    return struct


USED_CAPSULE_NAME = b"used_dltensor"  # a global, since a capsule stores only the pointer to its name


class Exporter:
    """An array that exports capsules of onnxwire.

    fixed_arguments: arguments of to_capsule; if there are none, the arguments of the consumer are passed.
    """

    def __init__(self, array, **fixed_arguments):
        self.array = array
        self.fixed_arguments = fixed_arguments

    def __dlpack__(self, **arguments):
        return to_capsule(self.array, **(self.fixed_arguments or arguments))

    def __dlpack_device__(self):
        return (1, 0)


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def make_array(name, shape=(3, 4)):
    """Return an array without NaN, whose bytes count up from 0, modulo 120, or modulo 2 for bool."""
    dtype = dtype_of(name)
    n = int(np.prod(shape)) * dtype.itemsize
    return (np.arange(n, dtype=np.uint8) % (2 if name == "bool" else 120)).view(dtype).reshape(shape)


# Functions that return a view of an array of shape (3, 4, 6).
LAYOUTS = {
    "rank 0": lambda array: array[1, 2, 3, ...].reshape(()),
    "rank 3": lambda array: array,
    "Fortran order": lambda array: array.T,
    "strided": lambda array: array[:, 1::2, ::3],
    "broadcast": lambda array: np.broadcast_to(array[0, 0], (2, 6)),
    "axes of length 1": lambda array: array[1:, 2:3, :1],
    "no elements": lambda array: array[:, 1:1],
    "no elements of rank 1": lambda array: array[0, 0, :0],
}


# --- numpy


@pytest.mark.parametrize("name", NATIVE_TYPES)
def test_numpy_shares_the_memory_of_every_native_type(name):
    array = make_array(name)
    imported_array = np.from_dlpack(Exporter(array))
    assert imported_array.dtype == array.dtype and imported_array.tobytes() == array.tobytes()
    assert np.shares_memory(imported_array, array) and imported_array.flags.writeable


@pytest.mark.parametrize("layout", [*LAYOUTS.values(), lambda array: array[::-1, :, ::-2]], ids=[*LAYOUTS, "backwards"])
def test_numpy_imports_any_shape_and_strides(layout):
    array = layout(np.arange(72, dtype=np.int16).reshape(3, 4, 6))
    imported_array = np.from_dlpack(Exporter(array))
    assert imported_array.shape == array.shape and imported_array.tolist() == array.tolist()
    assert np.shares_memory(imported_array, array) == bool(array.size)


def test_a_read_only_array_stays_read_only():
    array = np.arange(6.0)
    array.flags.writeable = False
    imported_array = np.from_dlpack(Exporter(array))
    assert not imported_array.flags.writeable and np.shares_memory(imported_array, array)


def test_a_read_only_array_is_refused_by_capsules_without_a_read_only_flag():
    array = np.arange(6.0)
    array.flags.writeable = False
    for max_version in (None, (0, 8)):
        with pytest.raises(BufferError, match=r"numpy\(writable=True\)"):
            to_capsule(array, max_version=max_version)
    assert np.from_dlpack(Exporter(array, copy=True)).tolist() == array.tolist()


def test_numpy_imports_the_legacy_capsule():
    array = np.arange(24, dtype=np.uint32).reshape(2, 3, 4)[:, ::2]
    assert "dltensor_versioned" not in repr(to_capsule(array))
    # Without max_version, to_capsule returns a legacy capsule.
    imported_array = np.from_dlpack(Exporter(array, copy=None))
    assert np.shares_memory(imported_array, array) and imported_array.tolist() == array.tolist()


@pytest.mark.parametrize("copy", [None, False, True])
def test_only_copy_equal_to_true_makes_a_copy(copy):
    array = np.arange(6.0)
    imported_array = np.from_dlpack(Exporter(array), copy=copy)
    assert np.shares_memory(imported_array, array) == (copy is not True) and imported_array.tolist() == array.tolist()
    flags = read_struct(to_capsule(array, max_version=(1, 0), copy=copy)).flags
    assert flags == (IS_COPIED if copy else 0)


def test_a_copy_of_a_read_only_array_may_be_written_to():
    array = np.arange(6.0)
    array.flags.writeable = False
    imported_array = np.from_dlpack(Exporter(array), copy=True)
    imported_array[0] = 9
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
        np.zeros((2, 3), "u1,f4")["f1"],  # the strides, 15 and 5 bytes, are not multiples of the element's 4 bytes
    ],
    ids=lambda array: str(array.dtype),
)
def test_an_array_that_dlpack_can_not_represent_raises_buffer_error(array):
    for max_version in (None, (1, 0), (1, 3)):
        with pytest.raises(BufferError):
            to_capsule(array, max_version=max_version)


@pytest.mark.parametrize("arguments", [{"dl_device": (2, 0)}, {"dl_device": (1, 1)}, {"stream": 1}], ids=str)
def test_other_devices_and_streams_are_refused(arguments):
    with pytest.raises(BufferError):
        to_capsule(np.zeros(2), **arguments)
    assert to_capsule(np.zeros(2), stream=None, dl_device=(1, 0))


@pytest.mark.parametrize("max_version", [(), [], (1,), (1, 0, 0), [1, 0], "10", 1, ("1", "0")], ids=repr)
def test_a_version_that_is_not_a_tuple_of_two_ints_is_refused_as_by_numpy(max_version):
    for export in (np.arange(3.0).__dlpack__, onnxwire.from_array(np.arange(3.0)).__dlpack__):
        with pytest.raises(TypeError):
            export(max_version=max_version)


# --- structs


@pytest.mark.parametrize("max_version", [None, (1, 1)])
def test_the_fields_of_the_structs_have_the_values_of_the_array(max_version):
    array = np.zeros((2, 3, 4), np.complex64)[:, ::-1]
    capsule = to_capsule(array, max_version=max_version)
    managed = read_struct(capsule, ManagedTensor if max_version is None else VersionedTensor)
    tensor = managed.tensor
    if max_version:
        assert (managed.major, managed.flags) == (1, 0)
    assert tensor.data == array.__array_interface__["data"][0]
    assert (tensor.device_type, tensor.device_id, tensor.byte_offset) == (1, 0, 0)
    assert (tensor.code, tensor.bits, tensor.lanes) == (5, 64, 1)  # 5 is the code of complex numbers
    assert tuple(tensor.shape[: tensor.ndim]) == (2, 3, 4)
    assert tuple(tensor.strides[: tensor.ndim]) == (12, -4, 1)


@pytest.mark.parametrize("name", DLPACK_CODES)
def test_rare_types_have_the_codes_of_dlpack(name):
    array = make_array(name)
    array.flags.writeable = False
    capsule = to_capsule(array, max_version=(1, 1))
    managed = read_struct(capsule)
    assert (managed.tensor.code, managed.tensor.bits, managed.tensor.lanes) == (*DLPACK_CODES[name], 1)
    assert managed.flags == READ_ONLY | (IS_PADDED if name in SUB_BYTE_TYPES else 0)
    assert ctypes.string_at(managed.tensor.data, array.nbytes) == array.tobytes()


@pytest.mark.parametrize("name", SUB_BYTE_TYPES)
def test_elements_with_padding_are_refused_by_capsules_without_a_padding_flag(name):
    for max_version in (None, (0, 9), (1, 0)):
        with pytest.raises(BufferError, match=r"consumer of DLPack 1\.1"):
            to_capsule(make_array(name), max_version=max_version)


# --- lifetime


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_an_unused_capsule_releases_the_array(max_version):
    array = np.arange(6.0)
    references_before = sys.getrefcount(array)
    capsule = to_capsule(array, max_version=max_version)
    assert sys.getrefcount(array) == references_before + 1
    del capsule
    assert sys.getrefcount(array) == references_before


@pytest.mark.parametrize("struct_class, max_version", [(ManagedTensor, None), (VersionedTensor, (1, 0))])
def test_the_deleter_may_be_called_without_the_gil(struct_class, max_version):
    array = np.arange(6.0)
    references_before = sys.getrefcount(array)
    capsule = to_capsule(array, max_version=max_version)
    managed = consume(capsule, struct_class)
    del capsule
    assert sys.getrefcount(array) == references_before + 1
    managed.deleter(ctypes.addressof(managed))
    assert sys.getrefcount(array) == references_before


def test_a_refused_array_is_released():
    array = np.zeros((2, 3), "u1,f4")["f1"]
    references_before = sys.getrefcount(array)
    for _ in range(3):
        with pytest.raises(BufferError):
            to_capsule(array, max_version=(1, 0))
    assert sys.getrefcount(array) == references_before


def test_the_consumer_keeps_the_array_alive():
    array = np.arange(6.0)
    array_reference = weakref.ref(array)
    imported_array = np.from_dlpack(Exporter(array))
    del array
    assert array_reference() is not None and imported_array.tolist() == [0, 1, 2, 3, 4, 5]
    del imported_array
    assert array_reference() is None


# --- torch


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("name", [*NATIVE_TYPES, *TORCH_ML_DTYPES])
def test_torch_shares_the_memory_of_every_supported_type(torch, name):
    array = make_array(name)
    imported_tensor = torch.from_dlpack(Exporter(array))
    assert imported_tensor.dtype == getattr(torch, name) and tuple(imported_tensor.shape) == array.shape
    assert imported_tensor.data_ptr() == array.__array_interface__["data"][0]
    assert imported_tensor.view(torch.uint8).numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_torch_imports_any_shape_and_forward_strides(torch, layout, name):
    array = layout(np.arange(72).reshape(3, 4, 6).astype(dtype_of(name)))
    imported_tensor = torch.from_dlpack(Exporter(array))
    assert tuple(imported_tensor.shape) == array.shape and imported_tensor.tolist() == array.tolist()


@pytest.mark.parametrize("fixed_arguments", [{}, {"copy": None}], ids=["versioned", "legacy"])
def test_torch_releases_the_array(torch, fixed_arguments):
    array = np.arange(6, dtype=np.float32)
    references_before = sys.getrefcount(array)
    imported_tensor = torch.from_dlpack(Exporter(array, **fixed_arguments))
    imported_slice = imported_tensor[2:]
    del imported_tensor
    assert sys.getrefcount(array) == references_before + 1
    del imported_slice
    gc.collect()
    assert sys.getrefcount(array) == references_before


def test_torch_releases_an_array_that_it_refuses(torch):
    array = make_array("float8_e3m4")
    references_before = sys.getrefcount(array)
    with pytest.raises(BufferError):
        torch.from_dlpack(Exporter(array))
    gc.collect()
    assert sys.getrefcount(array) == references_before
