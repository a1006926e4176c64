# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The names that nodes read and make, and the scopes that define them."""
from libc.stdint cimport int64_t

from onnxwire.arrow._columns cimport Column, View
from onnxwire.arrow._walk cimport Message, Walk
from onnxwire.engine.table cimport Slot, Table


cdef class Scope:
    cdef Message message
    cdef Table* table
    cdef View path
    cdef int64_t node                # the one of its nodes that is being gone through
    cdef Scope outer                 # the graph whose node has this one in an attribute, or None
    cdef set names                   # what it defines; None until it is asked for


cdef Scope enter(Walk walk, Scope outer, const View* path, Table* table, const Message* message)
cdef int add_uses(Walk walk, Scope scope, Column* column, const Message* message, const Slot* slots) except -1
