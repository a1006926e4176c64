# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The payloads of tensors: their sizes, and where they are."""
from onnxwire.arrow._columns cimport Column, Values
from onnxwire.arrow._walk cimport Message, Walk
from onnxwire.engine.table cimport Slot

cdef int add_storage(Walk walk, Column* column, const Message* message, const Slot* slots, known) except -1
cdef int add_storage_size(Walk walk, Values* values, const Message* message, const Slot* slots, known) except -1
