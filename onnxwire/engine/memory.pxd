"""The allocator of C memory that may be called without the GIL: Python's, so that tracemalloc counts the memory, and
tests can make each allocation fail."""
from cpython.mem cimport (
    PyMem_RawCalloc as calloc, PyMem_RawFree as free, PyMem_RawMalloc as malloc, PyMem_RawRealloc as realloc,
)
