# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Create DLPack capsules of numpy arrays, also of the types of ml_dtypes, which numpy does not export."""
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.string cimport memset

from onnxwire.engine.foreign_thread cimport release_reference

cdef extern from "dlpack.h" nogil:
    enum:
        OW_DL_CPU
        OW_DL_READ_ONLY
        OW_DL_IS_COPIED
        OW_DL_PADDED

    ctypedef struct OwDLTensor:
        void* data
        int32_t device_type
        int32_t device_id
        int32_t ndim
        uint8_t code
        uint8_t bits
        uint16_t lanes
        int64_t* shape
        int64_t* strides
        uint64_t byte_offset

    ctypedef struct OwDLManaged:
        OwDLTensor tensor
        PyObject* manager
        void (*deleter)(OwDLManaged*) noexcept nogil

    ctypedef struct OwDLVersioned:
        uint32_t major
        uint32_t minor
        PyObject* manager
        void (*deleter)(OwDLVersioned*) noexcept nogil
        uint64_t flags
        OwDLTensor tensor

# The capsule parameters are pointers: Cython must not increment the reference count of a dying capsule.
cdef extern from "Python.h":
    object PyCapsule_New(void* pointer, const char* name, void (*destructor)(PyObject*) noexcept)
    bint PyCapsule_IsValid(PyObject* capsule, const char* name)
    void* PyCapsule_GetPointer(PyObject* capsule, const char* name)

cdef const char* LEGACY_NAME = "dltensor"
cdef const char* VERSIONED_NAME = "dltensor_versioned"

# dtype.name -> DLPack's type code, and the bits of an element. DLPack 1.1 added the codes from 7 on.
TYPES = {
    "int8": (0, 8), "int16": (0, 16), "int32": (0, 32), "int64": (0, 64),
    "uint8": (1, 8), "uint16": (1, 16), "uint32": (1, 32), "uint64": (1, 64),
    "float16": (2, 16), "float32": (2, 32), "float64": (2, 64), "bfloat16": (4, 16),
    "complex64": (5, 64), "complex128": (5, 128), "bool": (6, 8),
    "float8_e3m4": (7, 8), "float8_e4m3": (8, 8), "float8_e4m3b11fnuz": (9, 8), "float8_e4m3fn": (10, 8),
    "float8_e4m3fnuz": (11, 8), "float8_e5m2": (12, 8), "float8_e5m2fnuz": (13, 8), "float8_e8m0fnu": (14, 8),
    "float6_e2m3fn": (15, 6), "float6_e3m2fn": (16, 6), "float4_e2m1fn": (17, 4),
    "int2": (0, 2), "int4": (0, 4), "uint2": (1, 2), "uint4": (1, 4),
}
VERSION = (1, 1)  # the first version with all of these types and flags


def to_capsule(array, stream=None, max_version=None, dl_device=None, copy=None):
    """Return a DLPack capsule that shares the memory of a numpy array.

    The array is referenced until the consumer calls the capsule's deleter, or the unused capsule is deleted.

    array: a numpy array of bools, numbers or ml_dtypes' types, of any shape and alignment. Sub-byte types take
    one byte per element, as in numpy, and are flagged as padded. The other parameters are those of `__dlpack__`:
    stream: None. max_version: the consumer's (major, minor); from (1, 0) on the capsule is a "dltensor_versioned",
    which has a read-only flag; else it is a "dltensor". dl_device: None or (1, 0), the CPU. copy: True for a copy.
    Raises BufferError for a stream or another device; for types that are not in TYPES and non-native byte order; for
    strides that are not multiples of the element size; for a read-only array that is not copied if max_version is
    None or below (1, 0), and for sub-byte types if it is None or below (1, 1). Raises TypeError for a max_version that
    is not a tuple of length 2.
    Source: https://dmlc.github.io/dlpack/latest/python_spec.html and the array API standard, `__dlpack__`.
    """
    cdef bint is_versioned = False
    cdef uint64_t flags = 0
    if max_version is not None:
        if not isinstance(max_version, tuple) or len(max_version) != 2:
            raise TypeError(f"max_version is None or a tuple (major, minor), not {max_version!r}")
        is_versioned = max_version >= (1, 0)
    dtype = array.dtype
    if stream is not None:
        raise BufferError("an array in main memory has no stream; stream must be None")
    if dl_device is not None and tuple(dl_device) != (OW_DL_CPU, 0):
        raise BufferError(f"the array is in main memory, device (1, 0), and can't be exported to {dl_device}")
    if dtype.name not in TYPES or not dtype.isnative:
        raise BufferError(f"DLPack has no type for {dtype!r}")
    code, bits = TYPES[dtype.name]
    if bits < 8:
        if max_version is None or max_version < VERSION:
            raise BufferError(f"{dtype.name} takes one byte per element, which requires a consumer of DLPack 1.1")
        flags |= OW_DL_PADDED
    if copy:
        array = array.copy(order="K")
        flags |= OW_DL_IS_COPIED
    if not array.flags.writeable:
        if not is_versioned:
            raise BufferError(
                "the array is read-only, which requires a consumer of DLPack 1.0; use numpy(writable=True)"
            )
        flags |= OW_DL_READ_ONLY
    return make_capsule(array, code, bits, flags, is_versioned)


cdef object make_capsule(array, uint8_t code, uint8_t bits, uint64_t flags, bint is_versioned):
    """Return a capsule. Its content is a single allocation: the struct, the shape, the strides."""
    cdef Py_ssize_t size = sizeof(OwDLVersioned) if is_versioned else sizeof(OwDLManaged)
    cdef Py_ssize_t ndim = array.ndim
    cdef OwDLVersioned* versioned
    cdef OwDLManaged* managed
    cdef OwDLTensor* tensor
    cdef char* memory = <char*>PyMem_RawMalloc(size + 2 * ndim * sizeof(int64_t))
    if memory == NULL:
        raise MemoryError
    memset(memory, 0, size)
    if is_versioned:
        versioned = <OwDLVersioned*>memory
        versioned.major, versioned.minor = VERSION
        versioned.manager = <PyObject*>array
        versioned.deleter = delete_versioned
        versioned.flags = flags
        tensor = &versioned.tensor
    else:
        managed = <OwDLManaged*>memory
        managed.manager = <PyObject*>array
        managed.deleter = delete_managed
        tensor = &managed.tensor
    tensor.device_type = OW_DL_CPU
    tensor.ndim = <int32_t>ndim
    tensor.code = code
    tensor.bits = bits
    tensor.lanes = 1
    tensor.shape = <int64_t*>(memory + size)
    tensor.strides = tensor.shape + ndim
    try:
        set_layout(tensor, array)
        capsule = PyCapsule_New(memory, VERSIONED_NAME if is_versioned else LEGACY_NAME, free_unused)
    except BaseException:
        PyMem_RawFree(memory)
        raise
    Py_INCREF(array)
    return capsule


cdef int set_layout(OwDLTensor* tensor, array) except -1:
    """Set the data pointer, shape and strides."""
    cdef Py_ssize_t itemsize = array.itemsize
    cdef Py_ssize_t length, stride
    cdef int i = 0
    if array.size:
        tensor.data = <void*><uintptr_t>array.__array_interface__["data"][0]
    shape, strides = array.shape, array.strides
    if len(shape) != tensor.ndim or len(strides) != tensor.ndim:  # properties of a subclass
        raise BufferError(f"an array of {tensor.ndim} dimensions has the shape {shape} and the strides {strides}")
    for length, stride in zip(shape, strides):
        if stride % itemsize and length > 1 and tensor.data != NULL:
            raise BufferError(f"strides of {array.strides} bytes are not multiples of an element's {itemsize} bytes")
        tensor.shape[i] = length
        tensor.strides[i] = stride // itemsize
        i += 1
    return 0


# Consumers call deleters from any thread, without the GIL.

cdef void delete_versioned(OwDLVersioned* self) noexcept nogil:
    release(self.manager, self)


cdef void delete_managed(OwDLManaged* self) noexcept nogil:
    release(self.manager, self)


cdef void release(PyObject* array, void* memory) noexcept nogil:
    release_reference(array)
    PyMem_RawFree(memory)


cdef void free_unused(PyObject* capsule) noexcept:
    """Free the content of a capsule that no consumer has used; a consumer renames the capsule."""
    if PyCapsule_IsValid(capsule, VERSIONED_NAME):
        delete_versioned(<OwDLVersioned*>PyCapsule_GetPointer(capsule, VERSIONED_NAME))
    elif PyCapsule_IsValid(capsule, LEGACY_NAME):
        delete_managed(<OwDLManaged*>PyCapsule_GetPointer(capsule, LEGACY_NAME))
