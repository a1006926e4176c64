"""The allocator of all C memory of the package: Python's, so that tracemalloc counts it and tests can make each
allocation fail. It may be called without the GIL."""
from cpython.mem cimport (
    PyMem_RawCalloc as calloc, PyMem_RawFree as free, PyMem_RawMalloc as malloc, PyMem_RawRealloc as realloc,
)
