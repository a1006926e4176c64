# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The names that nodes read and make, and the scopes that define them."""
from cython cimport final
from libc.stdint cimport int32_t, int64_t

from onnxwire.arrow._columns cimport Column, View
from onnxwire.arrow._walk cimport Message, Walk
from onnxwire.engine.table cimport Slot, Table
from onnxwire.index.names cimport TextNames


@final
cdef class Scope:
    cdef Message message
    cdef Table* table
    cdef View path
    cdef int64_t node                # the one of its nodes that is being gone through
    cdef Scope outer                 # the graph whose node has this one in an attribute, or None
    cdef int32_t level               # of its definitions in TextNames; -1 until they are asked for


cdef Scope enter(Walk walk, Scope outer, const View* path, Table* table, const Message* message)
cdef int leave(Walk walk, TextNames names, Scope scope, Column* column, const Slot* slots) except -1
cdef int add_uses(
    Walk walk, TextNames names, Scope scope, Column* column, const Message* message, const Slot* slots
) except -1
