# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Free lists of views, sequences and iterators."""
from cpython.object cimport PyObject


cdef extern from "thresholds.h":
    enum:
        FREE_LIST_SIZE "OW_FREE_LIST_SIZE"

cdef extern from "free_list.h":
    void revive "ow_revive"(PyObject* o) noexcept
    void release_type "ow_release_type"(PyObject* o) noexcept
    # The cast turns a pointer that owns a reference into an object.
    object as_object "(PyObject *)"(PyObject* o)
