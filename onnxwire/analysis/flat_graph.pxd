# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A model as one flat graph: vertices with structural labels, and the edges from producers to consumers."""
from cython cimport final
from libc.stdint cimport int32_t, uint8_t, uint64_t

from onnxwire.engine.view cimport View
from onnxwire.index.names cimport Names
from onnxwire.index.interning cimport Texts

cdef enum VertexKind:
    NODE = 0
    INPUT = 1
    INITIALIZER = 2
    OUTPUT = 3

cdef enum:
    NONE = -1                # no vertex, index or number; the source of an omitted input, or of an undefined name

cdef struct Vertex:
    int32_t label            # equal for equal operators, attributes, types and payloads
    int32_t operator         # equal for equal operators and types, whatever the attributes and payloads
    int32_t scope            # index of a Scope
    int32_t row              # index in the field of its kind; sparse initializers follow dense ones
    int32_t name             # of the node or value: a number of the interner, like all names
    int32_t first_output     # index in `outputs`; the outputs end at the first output of the next vertex
    uint8_t kind             # VertexKind
    uint8_t has_notes        # whether a node or tensor has fields that do not affect matching, such as doc_string

cdef struct Edge:
    int32_t consumer         # a vertex
    int32_t source           # a vertex or NONE; while a scope is read, the name of the source
    int32_t output           # index of the output of the source
    # The index of an input. For an output of a nested graph: -1 minus the interner's number of a key that identifies
    # the attribute, the graph and the output.
    int32_t port

cdef struct Scope:
    # A graph or function. Its path and message are found through the enclosing scope.
    int32_t parent           # index of the enclosing scope; if there is none, MAIN, FUNCTION, ... of flat_graph.pyx
    int32_t row              # index of the node in the enclosing scope, or of a function or training_info in the model
    int32_t attribute        # index of the attribute in the node
    int32_t graph            # index in the attribute's graphs; NONE: its field g

cdef struct Description:
    # An entry of value_info that describes an output of a vertex.
    int32_t output           # index in `outputs`
    int32_t row              # index in value_info
    int32_t type             # a number of the interner, equal for types of equal bytes; NONE: unknown

cdef struct AttributeLabel:
    int32_t name             # a number of the interner
    int32_t index            # of the attribute in the node
    int32_t key              # the number of `attribute_key`, equal for equal values


@final
cdef class Interner:
    cdef Texts texts

    cdef int32_t number(self, const uint8_t* p, uint64_t n) except -1
    cdef int32_t number_of_ints(self, const int32_t* ints, Py_ssize_t n) except -1
    cdef int32_t number_of(self, text) except -1
    cdef str text(self, int32_t number)


@final
cdef class FlatGraph:
    cdef Interner interner
    cdef readonly object model
    cdef object payload_key      # a function that returns a key of a tensor's payload
    cdef Vertex* vertices        # n vertices, and after them one whose first_output is the end of the outputs
    cdef int32_t n, vertices_capacity
    cdef Edge* edges             # for each consumer first its inputs in order, then the outputs of nested graphs
    cdef int32_t n_edges, edges_capacity
    cdef int32_t* outputs        # names of the values that vertices produce
    cdef int32_t n_outputs, outputs_capacity
    cdef Scope* scopes
    cdef int32_t n_scopes, scopes_capacity
    cdef Description* descriptions
    cdef int32_t n_descriptions, descriptions_capacity
    cdef AttributeLabel* attributes  # of the current node
    cdef int32_t n_attributes, attributes_capacity
    cdef Names names             # the definitions in the open scopes
    cdef dict attribute_labels   # by the bytes of short attributes: the name, the key, whether there are graphs
    cdef int32_t message_scope   # the last scope whose message was requested, or NONE
    cdef object last_message     # the message of message_scope

    cdef int check_vertex(self, Py_ssize_t vertex) except -1
    cdef int32_t add_vertex(self, VertexKind kind, int32_t operator, int32_t row, int32_t name) except -1
    cdef int add_output(self, int32_t name) except -1
    cdef int add_edge(self, int32_t consumer, int32_t source, int32_t output, int32_t port) except -1
    cdef int add_root(self, message, int32_t parent, int32_t row, int32_t key, bint stays_open=*) except -1
    cdef int32_t add_scope(self, message, Scope scope, int32_t key) except -1
    cdef int add_inputs(self, scope, int32_t key) except -1
    cdef int add_tensors(self, graph) except -1
    cdef list add_nodes(self, nodes)
    cdef bint add_node(self, View node, int32_t row) except -1
    cdef bint read_node(self, node, int32_t vertex, int32_t* operator) except -1
    cdef bint add_attribute(self, node, int32_t index, const uint8_t* p, uint64_t n) except -1
    cdef int32_t label_of(self, int32_t operator) except -1
    cdef int define(self, int32_t first_vertex) except -1
    cdef int resolve(self, Edge* edge) except -1
    cdef int add_descriptions(self, values) except -1
    cdef int add_graphs(self, attribute, Scope scope, int32_t vertex, int32_t n_before) except -1
    cdef int add_graph(self, graph, Scope scope, int32_t vertex, int32_t name, int32_t n_before) except -1
    cdef str scope_path(self, int32_t scope)
    cdef object scope_message(self, int32_t scope)


cdef int32_t grow(void** data, int32_t capacity, size_t size) except -1
