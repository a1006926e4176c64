# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The types of values, as operators write them."""
from libc.stdint cimport uint32_t

from onnxwire.arrow._columns cimport Column
from onnxwire.arrow._walk cimport Message, Texts, Walk
from onnxwire.engine.table cimport Field, Slot

cdef int add_type(
    Walk walk, Texts* names, Column* column, Field* type_field, const Message* message, const Slot* slots,
    uint32_t flags
) except -1
