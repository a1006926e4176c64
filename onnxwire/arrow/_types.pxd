# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The types of values as text, in the notation of operator schemas, with their shapes."""
from libc.stdint cimport int64_t, uint8_t, uint64_t

from onnxwire.arrow._columns cimport Column
from onnxwire.arrow._walk cimport Message, Texts, Walk
from onnxwire.engine.table cimport Field

cdef enum:
    CACHED_TYPES = 1024      # number of entries of `Types.cache`, a power of 2

cdef struct CachedType:
    # The bytes of a TypeProto, and a row with that type. In an empty entry, p is NULL.
    const uint8_t* p
    uint64_t n
    int64_t row

cdef struct Types:
    # A cache of types: most values of a model share a few types, and reading a type requires reading each of its dims.
    CachedType[CACHED_TYPES] cache   # indexed by a hash of the bytes
    Texts names                      # texts of tensor types, such as tensor(float), indexed by data type


cdef int add_type(Walk walk, Types* types, Column* column, const Field* field, const Message* message) except -1
