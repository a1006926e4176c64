# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Resolve names: find the definition that a name refers to, in nested graphs.

All packages resolve names by this module and `producers.pyx`: `check` and `diff` pass the ids of strings (`Names`), the
Arrow table `uses` passes strings (`TextNames`), and readers of message objects call `definitions_of`. ONNX requires
single assignment: each name has one definition, before its uses. Names of models that violate this are resolved too, in
the same way by every reader:

- The empty name is not a value: it marks an omitted input or output.
- A scope is a graph or a function. It defines its inputs, its initializers, sparse ones included, and the outputs of
  its nodes.
- A name refers to the innermost scope that defines it, before or after the use. A graph in an attribute of a node is
  inside the scope of the node; TrainingInfoProto.algorithm is inside the main graph; functions and
  TrainingInfoProto.initialization are inside no scope.
- Of several definitions of a name in one scope, an initializer precedes an input, and an input precedes the outputs of
  nodes, of which the first counts. An initializer with the name of an input is the input's default value. Nodes come
  last, since inputs and initializers exist before any node runs. So the result does not depend on the position of the
  use. onnxruntime rejects a model in which a node defines the name of an input or initializer; in the reference
  evaluator each use reads the last definition before it.
- A name that is used in an inner graph and defined in an enclosing scope is captured: the node of the defining scope
  that contains the inner graph reads the value.

Source: onnx.proto, GraphProto and NodeProto; IR.md, "Names Within a Graph"; TrainingInfoProto.algorithm.
"""
from cython cimport final
from libc.stdint cimport INT32_MAX
from libc.string cimport memset

from onnxwire.engine.instances cimport forbid_subclasses
from onnxwire.engine.memory cimport free, realloc


cdef class Names:
    """The definitions in a stack of scopes; names are numbers."""

    def __dealloc__(self):
        free(self.definitions)
        free(self.indexes)
        free(self.levels)

    cdef int reserve(self, int32_t n_names) except -1:
        """Allocate memory for the names 0 to n_names - 1."""
        cdef int32_t capacity
        cdef void* data
        if n_names <= self.n_names:
            return 0
        capacity = n_names if self.n_names == 0 or n_names > INT32_MAX // 2 else max(n_names, self.n_names * 2)
        data = realloc(self.indexes, <size_t>capacity * sizeof(int32_t))
        if data == NULL:
            raise MemoryError
        self.indexes = <int32_t*>data
        # All bits are set in the number -1.
        memset(self.indexes + self.n_names, 0xFF, <size_t>(capacity - self.n_names) * sizeof(int32_t))
        self.n_names = capacity
        return 0

    cdef int enter(self, int32_t owner) except -1:
        """Open a scope inside the innermost one."""
        cdef void* data
        if self.n_levels == self.levels_capacity:
            data = realloc(self.levels, (<size_t>self.levels_capacity * 2 + 16) * sizeof(Level))
            if data == NULL:
                raise MemoryError
            self.levels = <Level*>data
            self.levels_capacity = self.levels_capacity * 2 + 16
        self.levels[self.n_levels].first_definition = self.n_definitions
        self.levels[self.n_levels].position = 0
        self.levels[self.n_levels].owner = owner
        self.n_levels += 1
        return 0

    cdef int define(self, int32_t name, Kind kind, int32_t node, int32_t source) except -1:
        """Define a name in the innermost scope; return the flags (see names.pxd) that it had in the scope before.

        For the first definition in the scope, return SHADOWS if an enclosing scope defines the name, too, and that
        value exists (see `is_produced`), else 0.
        All definitions of a scope are added before a name is resolved in it, and in this order: inputs, initializers,
        outputs of nodes.
        """
        cdef int32_t i = self.indexes[name]
        cdef int32_t hidden_index = i
        cdef Definition* definition
        cdef void* data
        cdef int flags = 0
        if i >= 0 and self.definitions[i].level == self.n_levels - 1:
            definition = &self.definitions[i]
            flags = definition.flags
            definition.flags |= 1 << (<int>kind - 1)
            if kind == INITIALIZER and definition.kind == INPUT:
                definition.kind = kind
                definition.source = source
            return flags
        while i >= 0 and not flags:
            if self.is_produced(&self.definitions[i]):
                flags = SHADOWS
            i = self.definitions[i].hidden_index
        if self.n_definitions == self.definitions_capacity:
            if self.definitions_capacity > INT32_MAX // 2 - 1024:
                raise MemoryError
            data = realloc(self.definitions, (<size_t>self.definitions_capacity * 2 + 1024) * sizeof(Definition))
            if data == NULL:
                raise MemoryError
            self.definitions = <Definition*>data
            self.definitions_capacity = self.definitions_capacity * 2 + 1024
        definition = &self.definitions[self.n_definitions]
        definition.name = name
        definition.level = self.n_levels - 1
        definition.kind = kind
        definition.node = node
        definition.source = source
        definition.flags = flags | 1 << (<int>kind - 1)
        definition.hidden_index = hidden_index
        self.indexes[name] = self.n_definitions
        self.n_definitions += 1
        return flags

    cdef int leave(self) except -1:
        """Close the innermost scope."""
        cdef int32_t first_definition = self.levels[self.n_levels - 1].first_definition
        while self.n_definitions > first_definition:
            self.n_definitions -= 1
            self.indexes[self.definitions[self.n_definitions].name] = self.definitions[self.n_definitions].hidden_index
        self.n_levels -= 1
        return 0


@final
cdef class TextNames(Names):
    """The definitions in a stack of scopes; names are str or bytes. Names of closed scopes are released."""

    def __cinit__(self):
        self.ids = {}
        self.texts = []

    cdef int open(self) except -1:
        """Open a scope inside the innermost one."""
        return self.enter(<int32_t>len(self.texts))

    cdef int add(self, name, Kind kind, int32_t node, int32_t source) except -1:
        """Define a name in the innermost scope, in the order that `Names.define` requires.

        Returns the flags that `Names.define` returns; 0 for the empty name, which is ignored.
        """
        cdef int32_t n = <int32_t>len(self.texts)
        cdef int32_t id
        if not name:
            return 0
        id = self.ids.setdefault(name, n)
        if id == n:
            self.texts.append(name)
            self.reserve(n + 1)
        return self.define(id, kind, node, source)

    cdef Definition* look_up(self, name) except? NULL:
        """Return the definition that a name refers to in the innermost scope, or NULL."""
        id = self.ids.get(name)
        return NULL if id is None else self.find(id)

    cdef int close(self) except -1:
        """Close the innermost scope, and release the names that it added."""
        cdef Py_ssize_t start = self.levels[self.n_levels - 1].owner
        cdef Py_ssize_t i
        self.leave()
        for i in range(start, len(self.texts)):
            del self.ids[self.texts[i]]
        del self.texts[start:]
        return 0


def definitions_of(inputs, initializers, outputs):
    """Resolve the names of one scope to its inputs, initializers and nodes.

    inputs, initializers: names. outputs: the names that each node produces, an iterable per node.
    Returns three dicts from name to index: of inputs, of initializers and of nodes. No name is in two of them.
    """
    cdef int32_t index
    cdef dict input_indexes = {}, initializer_indexes = {}, node_indexes = {}
    for index, name in enumerate(initializers):
        if name:
            initializer_indexes.setdefault(name, index)
    for index, name in enumerate(inputs):
        if name and name not in initializer_indexes:
            input_indexes.setdefault(name, index)
    for index, names in enumerate(outputs):
        for name in names:
            if name and name not in initializer_indexes and name not in input_indexes:
                node_indexes.setdefault(name, index)
    return input_indexes, initializer_indexes, node_indexes


forbid_subclasses(Names)
