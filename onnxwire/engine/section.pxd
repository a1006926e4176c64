# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Who runs the engine in Python without the GIL (`section.h`)."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport uint32_t


cdef extern from "section.h":
    enum:
        FREE_THREADED "OW_FREE_THREADED"    # whether this is for Python without the GIL
    ctypedef struct Own "ow_Own":
        pass
    Py_ssize_t* start_reading "ow_start_reading"() noexcept
    void stop_reading "ow_stop_reading"(Py_ssize_t* place) noexcept
    void own "ow_own"(Own* own, PyObject* o) noexcept
    void disown "ow_disown"(Own* own) noexcept
    bint claim "ow_claim"(uint32_t* epoch) noexcept
    void publish "ow_publish"(uint32_t* epoch, uint32_t value) noexcept
    uint32_t look_at "ow_look_at"(const uint32_t* epoch) noexcept
    PyObject* new_reference "ow_take_if_alive"(PyObject* o) noexcept
    void enable_try_incref "ow_enable_try_incref"(PyObject* o) noexcept


cdef inline object try_incref(PyObject* o):
    """What is in a list that does not own it, or None where its last owner is letting go of it."""
    if new_reference(o) == NULL:
        return None
    taken = <object>o
    Py_DECREF(taken)
    return taken
