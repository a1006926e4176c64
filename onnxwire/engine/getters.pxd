# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The getters of singular fields."""
from libc.stdint cimport uint8_t, uint64_t

from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport View

cdef object get_message(View self, void* closure)
cdef object assigned_message(View self, Field* field, const uint8_t* p, uint64_t n, owner)
cdef void* singular_getter(int field_type) noexcept
