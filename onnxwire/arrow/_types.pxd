# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The types of values, as operators write them."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from onnxwire.arrow._columns cimport Column
from onnxwire.arrow._walk cimport Message, Texts, Walk
from onnxwire.engine.table cimport Field, Slot

cdef enum:
    SEEN = 1024              # types that are looked for among those before

cdef struct SeenType:
    # The bytes of a TypeProto, and the row that has what they say; p is NULL for none.
    const uint8_t* p
    uint64_t n
    int64_t row

cdef struct Types:
    # Of the values of a model few have a type of their own, and to read one takes a look at each of its dims.
    SeenType[SEEN] seen          # by a hash of the bytes
    Texts names                  # of tensor types, by data type


cdef int add_type(
    Walk walk, Types* types, Column* column, Field* type_field, const Message* message, const Slot* slots,
    uint32_t flags
) except -1
