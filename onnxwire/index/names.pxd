# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Resolve names: find the definition that a name refers to, in nested graphs."""
from cython cimport final
from libc.stdint cimport int32_t

cdef enum Kind:
    INPUT = 2                # the same numbers as in `checker/scopes.py`
    INITIALIZER = 3
    NODE = 4

cdef enum:
    IS_INPUT = 2             # flags of a name in a scope, 1 << (Kind - 1): defined as an input of the scope
    IS_INITIALIZER = 4       # defined by an initializer
    IS_NODE = 8              # defined by an output of a node
    SHADOWS = 16             # hides a definition of an enclosing scope, whose value exists (see `is_produced`)

cdef struct Definition:
    int32_t name             # the number of the name
    int32_t level            # index of its scope in `Names.levels`
    int32_t kind
    int32_t node             # the index of the node that produces the value; -1 for other kinds
    int32_t source           # a number that the caller assigns
    int32_t flags            # flags of the name in its scope: IS_INPUT, ...
    int32_t hidden_index     # the index in `Names.definitions` of the definition that this one hides; -1 for none

cdef struct Level:
    # An open scope.
    int32_t first_definition  # index in `Names.definitions`
    int32_t position         # the index of the caller's current node; outputs of earlier nodes exist
    int32_t owner            # a number that the caller assigns


cdef class Names:
    cdef Definition* definitions
    cdef int32_t n_definitions, definitions_capacity
    cdef int32_t* indexes    # the index in `definitions` of the definition that each name refers to; -1 for none
    cdef int32_t n_names
    cdef Level* levels
    cdef int32_t n_levels, levels_capacity

    cdef int reserve(self, int32_t n_names) except -1
    cdef int enter(self, int32_t owner) except -1
    cdef int define(self, int32_t name, Kind kind, int32_t node, int32_t source) except -1
    cdef int leave(self) except -1

    cdef inline Definition* find(self, int32_t name) noexcept nogil:
        """Return the definition that a name refers to in the innermost scope, or NULL. name: below `n_names`."""
        cdef int32_t i = self.indexes[name]
        return &self.definitions[i] if i >= 0 else NULL

    cdef inline bint is_produced(self, const Definition* definition) noexcept nogil:
        """Return whether the value exists before the caller's current node runs."""
        return definition.kind != NODE or definition.node < self.levels[definition.level].position


@final
cdef class TextNames(Names):
    cdef dict ids            # the id of each name that is defined in open scopes
    cdef list texts          # the name of each id; a level's owner is len(texts) when the level is opened

    cdef int open(self) except -1
    cdef int add(self, name, Kind kind, int32_t node, int32_t source) except -1
    cdef Definition* look_up(self, name) except? NULL
    cdef int close(self) except -1
