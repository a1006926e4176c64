# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Declarations of `section.h`, the engine's lock in Python without the GIL.

In a module that cimports this one, `@critical_section` means this lock.
"""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF


cdef extern from "section.h":
    enum:
        FREE_THREADED "OW_FREE_THREADED"    # whether this build is for Python without the GIL
    PyObject* new_reference "ow_try_incref"(PyObject* o) noexcept
    # Must be called before the object is stored as a borrowed reference for `try_incref`.
    void enable_try_incref "ow_enable_try_incref"(PyObject* o) noexcept


cdef inline object try_incref(PyObject* o):
    """Return a new reference to a borrowed object, or None if another thread is releasing its last reference."""
    if new_reference(o) == NULL:
        return None
    result = <object>o
    Py_DECREF(result)
    return result
