# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The payloads of tensors: fills in a `Layout` from the slots of a TensorProto, and adds it to columns."""
from libc.stdint cimport uint32_t

from onnxwire.arrow._columns cimport Column, Values
from onnxwire.arrow._walk cimport Message, Walk
from onnxwire.engine.table cimport Slot

cdef int add_storage(
    Walk walk, Column* column, const Message* message, const Slot* slots, uint32_t flags, known
) except -1
cdef int add_size(Walk walk, Values* values, const Message* message, const Slot* slots, uint32_t flags, known) except -1
cdef int add_elements(Walk walk, Values* values, const Message* message, const Slot* slots, uint32_t flags) except -1
