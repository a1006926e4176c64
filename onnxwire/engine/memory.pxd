"""The functions that all C memory of the package comes from: Python's, so that its tools count it, and tests can have
any allocation fail. They need no thread state."""
from cpython.mem cimport (
    PyMem_RawCalloc as calloc, PyMem_RawFree as free, PyMem_RawMalloc as malloc, PyMem_RawRealloc as realloc,
)
