"""Functions that allocate and free C memory, and may be called without the GIL. They are Python's raw allocator, so
that tracemalloc counts the memory, and tests can make each allocation fail."""
from cpython.mem cimport (
    PyMem_RawCalloc as calloc, PyMem_RawFree as free, PyMem_RawMalloc as malloc, PyMem_RawRealloc as realloc,
)
