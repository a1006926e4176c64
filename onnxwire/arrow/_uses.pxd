# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The names that nodes read and produce, and the scopes that define them."""
from libc.stdint cimport int32_t, int64_t

from onnxwire.arrow._columns cimport Column, StringView
from onnxwire.arrow._walk cimport Message, Walk
from onnxwire.index.names cimport TextNames

cdef struct Scope:
    # An open graph or function of the walk.
    const Message* message
    StringView path
    int64_t node             # the index of the node that contains the inner graph that was entered last; initially 0
    Scope* outer             # the scope whose node has this graph in an attribute, or NULL
    int32_t level            # the level of the scope's definitions in TextNames; -1 until they are read


cdef int enter_scope(Walk walk, Scope* scope, Scope* outer, const StringView* path, const Message* message) except -1
cdef int leave_scope(Walk walk, TextNames names, Scope* scope, Column* column) except -1
cdef int add_uses(Walk walk, TextNames names, Scope* scope, Column* column, const Message* message) except -1
