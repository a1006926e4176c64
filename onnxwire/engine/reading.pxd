# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reading together with other threads, in Python without the GIL; with it, nobody does."""
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.section cimport FREE_THREADED
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport View


cdef Py_ssize_t* start_reading_filled(View self) noexcept
cdef bint is_ready(int field_type, const uint8_t* p, uint64_t n) noexcept
cdef object get_shared(View self, void* closure)
cdef int set_alone(View self, PyObject* value, void* closure) except -1


cdef inline Py_ssize_t* start_reading_of(View self) noexcept:
    """Begin to read a message, whose slots are filled then; NULL where that is done in the section.

    There is what was edited, closed, stands in several pieces, may not be in memory, or is long and read for the first
    time. Who gets a place gives it back (`stop_reading`), and until then does nothing that waits, runs other code or
    raises an error; nor does it let go of anything.
    """
    return start_reading_filled(self) if FREE_THREADED else NULL
