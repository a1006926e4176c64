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


cdef inline PyObject* take_free(PyObject** objects, int* n) noexcept:
    """Remove an object from a free list of n objects, and give it one reference. Return NULL if the list is empty."""
    cdef PyObject* o
    if not (FREE_LIST_SIZE and n[0]):
        return NULL
    n[0] -= 1
    o = objects[n[0]]
    revive(o)
    return o


cdef inline bint put_free(PyObject** objects, int* n, PyObject* o) noexcept:
    """Add an object without references to a free list of n objects, and release its reference to its type.

    Return False, and do nothing, if the list is full.
    """
    if not (FREE_LIST_SIZE and n[0] < FREE_LIST_SIZE):
        return False
    objects[n[0]] = o
    n[0] += 1
    release_type(o)
    return True
