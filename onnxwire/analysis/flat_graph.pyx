# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A model as one flat graph: vertices with structural labels, and the edges from producers to consumers.

The nodes, inputs, initializers and outputs of all graphs and functions are vertices. An output of a nested graph is a
source of the node that contains the graph, so the content of a nested graph belongs to that node. Names resolve by the
rules of `index/names`.

Names, labels and operators are numbers of an interner. Unedited nodes are read from their bytes, without an object for
each name; an attribute is read through its view only if its label is not cached.
"""
import os

from cython cimport critical_section, final
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport qsort

from onnxwire._varint cimport MAX_DEPTH, WIRE_LEN, Record, read_record
from onnxwire.engine.document cimport Document
from onnxwire.engine.memory cimport free, malloc, realloc
from onnxwire.engine.partial cimport LONG_BYTES
from onnxwire.engine.scan cimport is_unedited
from onnxwire.engine.texts cimport new_text
from onnxwire.engine.view cimport View
from onnxwire.index.names cimport INITIALIZER as DEFINED_BY_INITIALIZER
from onnxwire.index.names cimport INPUT as DEFINED_BY_INPUT
from onnxwire.index.names cimport NODE as DEFINED_BY_NODE
from onnxwire.index.names cimport Definition, Names
from onnxwire.index.interning cimport free_texts, grow_array, hash_and_prefetch, intern

from onnxwire.analysis.label_keys import attribute_key, tensor_key
from onnxwire.engine.nesting_limit import depth_error
from onnxwire.messages import GraphProto, NodeProto, SparseTensorProto, ValueInfoProto

cdef enum:
    MAIN = -1                # parents of scopes without an enclosing scope
    INITIALIZATION = -2
    ALGORITHM = -3
    FUNCTION = -4

    # The first number of a key of several numbers. The key of an operator starts with a VertexKind instead, and that of
    # an output of a nested graph with the number of the graph's key.
    OF_LABEL = -1
    OF_FUNCTION = -2
    OF_TRAINING = -3
    OF_GRAPH = -4

    EMPTY = 0                # the number of the empty text
    AI_ONNX = 1              # the number of "ai.onnx", the other name of the domain ""

    MAX_NESTED_GRAPHS = MAX_DEPTH // 3  # each nested graph is a message in an attribute in a node
    MAX_SHORT_BYTES = 256    # maximum size of an attribute whose label is cached
    MAX_SHORT_ATTRIBUTES = 10_000  # size of that cache, which is emptied when it is full
    MAX_STACK_ATTRIBUTES = 30  # maximum number of attributes of a node whose label is computed on the stack


cdef uint64_t tag_of(cls, str field):
    """Return the tag of a field of strings, bytes or messages."""
    return <uint64_t>cls.DESCRIPTOR.fields_by_name[field].number << 3 | WIRE_LEN

cdef uint64_t NODE_INPUT = tag_of(NodeProto, "input")
cdef uint64_t NODE_OUTPUT = tag_of(NodeProto, "output")
cdef uint64_t NODE_NAME = tag_of(NodeProto, "name")
cdef uint64_t NODE_OP_TYPE = tag_of(NodeProto, "op_type")
cdef uint64_t NODE_DOMAIN = tag_of(NodeProto, "domain")
cdef uint64_t NODE_OVERLOAD = tag_of(NodeProto, "overload")
cdef uint64_t NODE_ATTRIBUTE = tag_of(NodeProto, "attribute")
cdef uint64_t NODE_DOC_STRING = tag_of(NodeProto, "doc_string")
cdef uint64_t NODE_METADATA = tag_of(NodeProto, "metadata_props")
cdef uint64_t NODE_DEVICES = tag_of(NodeProto, "device_configurations")
cdef uint64_t VALUE_NAME = tag_of(ValueInfoProto, "name")
cdef uint64_t VALUE_TYPE = tag_of(ValueInfoProto, "type")

# The texts of the kinds, indexed by VertexKind.
cdef tuple KINDS = ("node", "input", "tensor", "output")


@final
cdef class Interner:
    """Numbers for texts and keys. Compared models share one instance, so that equal keys have equal numbers."""

    def __cinit__(self):
        self.texts.seed = int.from_bytes(os.urandom(8), "little")
        if self.number(b"", 0) != EMPTY or self.number(b"ai.onnx", 7) != AI_ONNX:
            raise MemoryError

    def __dealloc__(self):
        free_texts(&self.texts)

    cdef int32_t number(self, const uint8_t* p, uint64_t n) except -1:
        """Return the number of a byte string."""
        cdef int32_t number = intern(&self.texts, p, n, hash_and_prefetch(&self.texts, p, n))
        if number < 0:
            raise MemoryError
        return number

    cdef int32_t number_of_ints(self, const int32_t* ints, Py_ssize_t n) except -1:
        """Return the number of a key of several numbers."""
        return self.number(<const uint8_t*>ints, n * sizeof(int32_t))

    cdef int32_t number_of(self, text) except -1:
        """Return the number of a str or bytes."""
        cdef bytes data = text if isinstance(text, bytes) else (<str?>text).encode("utf-8", "surrogateescape")
        return self.number(<const uint8_t*>PyBytes_AS_STRING(data), len(data))

    cdef str text(self, int32_t number):
        """Return the text of a number."""
        return new_text(self.texts.arena + self.texts.start[number],
                        self.texts.start[number + 1] - self.texts.start[number])


@final
cdef class FlatGraph:
    """The vertices and edges of a model. Methods raise IndexError for an index of a vertex that does not exist."""

    def __cinit__(self, model, Interner interner not None, payload_key):
        """Read a model. payload_key: returns a key of a tensor's payload, equal for equal payloads."""
        cdef Names outer_names
        cdef int32_t[4] key
        self.model, self.interner, self.payload_key = model, interner, payload_key
        self.attribute_labels = {}
        self.names = Names()
        self.message_scope = NONE
        if grow_array(<void**>&self.vertices, 16, sizeof(Vertex)):
            raise MemoryError
        self.vertices_capacity = 16
        self.vertices[0].first_output = 0
        if model.HasField("graph"):
            self.add_root(model.graph, MAIN, 0, EMPTY, True)
        for index, training in enumerate(model.training_info):
            key[0], key[1] = OF_TRAINING, index
            if training.HasField("initialization"):
                # Unlike the algorithm, the initialization does not see the names of the main graph.
                outer_names, self.names = self.names, Names()
                key[2] = INITIALIZATION
                self.add_root(training.initialization, INITIALIZATION, index, interner.number_of_ints(key, 3))
                self.names = outer_names
            if training.HasField("algorithm"):
                key[2] = ALGORITHM
                self.add_root(training.algorithm, ALGORITHM, index, interner.number_of_ints(key, 3))
        self.names = Names()
        for index, function in enumerate(model.functions):
            key[0], key[1] = OF_FUNCTION, interner.number_of(function.domain)
            key[2], key[3] = interner.number_of(function.name), interner.number_of(function.overload)
            self.add_root(function, FUNCTION, index, interner.number_of_ints(key, 4))
        self.names = None
        self.attribute_labels = None
        shrink(<void**>&self.vertices, self.n + 1, sizeof(Vertex))
        shrink(<void**>&self.edges, self.n_edges, sizeof(Edge))
        shrink(<void**>&self.outputs, self.n_outputs, sizeof(int32_t))

    def __dealloc__(self):
        free(self.vertices)
        free(self.edges)
        free(self.outputs)
        free(self.scopes)
        free(self.descriptions)
        free(self.attributes)

    # --- Methods that read a finished graph.

    @critical_section
    def __len__(self):
        return self.n

    @critical_section
    def kind(self, Py_ssize_t vertex):
        """Return "node", "input", "tensor" or "output"."""
        self.check_vertex(vertex)
        return KINDS[self.vertices[vertex].kind]

    @critical_section
    def name(self, Py_ssize_t vertex):
        """Return the name of a node or value."""
        self.check_vertex(vertex)
        return self.interner.text(self.vertices[vertex].name)

    @critical_section
    def outputs_of(self, Py_ssize_t vertex):
        """Return the names of the values that a vertex produces."""
        self.check_vertex(vertex)
        return [
            self.interner.text(self.outputs[i])
            for i in range(self.vertices[vertex].first_output, self.vertices[vertex + 1].first_output)
        ]

    @critical_section
    def label(self, Py_ssize_t vertex):
        """Return a number, equal for equal operators, attributes, types and payloads."""
        self.check_vertex(vertex)
        return self.vertices[vertex].label

    @critical_section
    def path(self, Py_ssize_t vertex):
        """Return the path of a vertex's message."""
        field, row = self.field_of(vertex)
        return f"{self.scope_path(self.vertices[vertex].scope)}.{field}[{row}]"

    @critical_section
    def message(self, Py_ssize_t vertex):
        """Return the message of a vertex; for an input or output of a function, its name."""
        field, row = self.field_of(vertex)
        return getattr(self.scope_message(self.vertices[vertex].scope), field)[row]

    @critical_section
    def field_of(self, Py_ssize_t vertex):
        """Return the field of a graph or function that contains a vertex's message, and the index in that field."""
        self.check_vertex(vertex)
        cdef int32_t row = self.vertices[vertex].row
        cdef int kind = self.vertices[vertex].kind
        if kind != INITIALIZER:
            return "node" if kind == NODE else "input" if kind == INPUT else "output", row
        n_dense = len(self.scope_message(self.vertices[vertex].scope).initializer)
        return ("initializer", row) if row < n_dense else ("sparse_initializer", row - n_dense)

    @critical_section
    def scope_of(self, Py_ssize_t vertex):
        """Return the path and the message of the graph or function of a vertex."""
        self.check_vertex(vertex)
        return self.scope_path(self.vertices[vertex].scope), self.scope_message(self.vertices[vertex].scope)

    @critical_section
    def is_of_root_graph(self, Py_ssize_t vertex):
        """Return whether a vertex belongs to the main graph or a training graph, not to a nested graph or function."""
        self.check_vertex(vertex)
        return FUNCTION < self.scopes[self.vertices[vertex].scope].parent <= MAIN

    @critical_section
    def value_name(self, Py_ssize_t vertex, Py_ssize_t output):
        """Return the name of an output of a vertex; "" for the vertex NONE."""
        if vertex == NONE:
            return ""
        self.check_vertex(vertex)
        if not 0 <= output < self.vertices[vertex + 1].first_output - self.vertices[vertex].first_output:
            raise IndexError("the vertex has no output with this index")
        return self.interner.text(self.outputs[self.vertices[vertex].first_output + output])

    @critical_section
    def scope_index(self, Py_ssize_t vertex):
        """Return the index in `all_scopes()` of the graph or function of a vertex."""
        self.check_vertex(vertex)
        return self.vertices[vertex].scope

    @critical_section
    def all_scopes(self):
        """Return all graphs and functions: tuples of path and message."""
        return [(self.scope_path(i), self.scope_message(i)) for i in range(self.n_scopes)]

    @critical_section
    def scope_count(self):
        """Return the number of graphs and functions."""
        return self.n_scopes

    @critical_section
    def root(self, Py_ssize_t scope):
        """Return the path and message of the main graph, a training graph or a function; None for a nested graph.

        scope: an index in `all_scopes()`.
        """
        if not 0 <= scope < self.n_scopes:
            raise IndexError("the model has no graph or function with this index")
        return (self.scope_path(scope), self.scope_message(scope)) if self.scopes[scope].parent <= MAIN else None

    cdef int check_vertex(self, Py_ssize_t vertex) except -1:
        if not 0 <= vertex < self.n:
            raise IndexError("the graph has no vertex with this index")
        return 0

    cdef str scope_path(self, int32_t scope):
        """Return the path of a graph or function."""
        cdef Scope* entry = &self.scopes[scope]
        if entry.parent == MAIN:
            return "graph"
        if entry.parent == FUNCTION:
            return f"functions[{entry.row}]"
        if entry.parent < 0:
            return f"training_info[{entry.row}].{'initialization' if entry.parent == INITIALIZATION else 'algorithm'}"
        field = "g" if entry.graph == NONE else f"graphs[{entry.graph}]"
        return f"{self.scope_path(entry.parent)}.node[{entry.row}].attribute[{entry.attribute}].{field}"

    cdef object scope_message(self, int32_t scope):
        """Return the message of a graph or function."""
        if self.message_scope == scope:
            return self.last_message
        cdef Scope entry = self.scopes[scope]
        if entry.parent == MAIN:
            message = self.model.graph
        elif entry.parent == FUNCTION:
            message = self.model.functions[entry.row]
        elif entry.parent < 0:
            training = self.model.training_info[entry.row]
            message = training.initialization if entry.parent == INITIALIZATION else training.algorithm
        else:
            attribute = self.scope_message(entry.parent).node[entry.row].attribute[entry.attribute]
            message = attribute.g if entry.graph == NONE else attribute.graphs[entry.graph]
        self.message_scope, self.last_message = scope, message
        return message

    # --- Methods that add elements.

    cdef int32_t add_vertex(self, VertexKind kind, int32_t operator, int32_t row, int32_t name) except -1:
        """Add a vertex to the last scope, with its operator as label; return its index."""
        cdef Vertex* vertex
        if self.n + 2 > self.vertices_capacity:
            self.vertices_capacity = grow(<void**>&self.vertices, self.vertices_capacity, sizeof(Vertex))
        vertex = &self.vertices[self.n]
        vertex.label = vertex.operator = operator
        vertex.scope = self.n_scopes - 1
        vertex.row = row
        vertex.name = name
        vertex.kind = kind
        vertex.has_notes = False
        self.n += 1
        self.vertices[self.n].first_output = self.n_outputs
        return self.n - 1

    cdef int add_output(self, int32_t name) except -1:
        """Add an output to the last vertex."""
        if self.n_outputs == self.outputs_capacity:
            self.outputs_capacity = grow(<void**>&self.outputs, self.outputs_capacity, sizeof(int32_t))
        self.outputs[self.n_outputs] = name
        self.n_outputs += 1
        self.vertices[self.n].first_output = self.n_outputs
        return 0

    cdef int add_edge(self, int32_t consumer, int32_t source, int32_t output, int32_t port) except -1:
        if self.n_edges == self.edges_capacity:
            self.edges_capacity = grow(<void**>&self.edges, self.edges_capacity, sizeof(Edge))
        self.edges[self.n_edges] = Edge(consumer, source, output, port)
        self.n_edges += 1
        return 0

    cdef int add_root(self, message, int32_t parent, int32_t row, int32_t key, bint stays_open=False) except -1:
        """Add a graph or function that is not nested.

        key: as for `add_scope`. stays_open: whether graphs that are added later can use its names.
        """
        self.names.enter(0)
        self.add_scope(message, Scope(parent, row, NONE, NONE), key)
        if not stays_open:
            self.names.leave()
        return 0

    cdef int32_t add_scope(self, message, Scope scope, int32_t key) except -1:
        """Add the vertices of a graph or function, whose scope of names is open; return the vertex of its first
        output.

        key: the number of a key that identifies a nested graph in its node, a training graph or a function; EMPTY for
        the main graph.
        """
        cdef int32_t first_vertex = self.n, first_edge = self.n_edges, first_node, first_output, i
        cdef int32_t[3] operator
        if self.names.n_levels > MAX_NESTED_GRAPHS + 1:
            raise depth_error(message)
        if self.n_scopes == self.scopes_capacity:
            self.scopes_capacity = grow(<void**>&self.scopes, self.scopes_capacity, sizeof(Scope))
        self.scopes[self.n_scopes] = scope
        self.n_scopes += 1
        scope.parent = self.n_scopes - 1  # from here on, `scope` describes the graphs in this one
        self.add_inputs(message, key)
        if isinstance(message, GraphProto):
            self.add_tensors(message)
        first_node = self.n
        nodes = message.node
        rows_with_graphs = self.add_nodes(nodes)
        self.define(first_vertex)
        for i in range(first_edge, self.n_edges):
            self.resolve(&self.edges[i])
        self.add_descriptions(message.value_info)
        for row in rows_with_graphs:
            scope.row = row
            counts = {}  # by name, the number of earlier attributes of this node
            for index, attribute in enumerate(nodes[row].attribute):
                scope.attribute = index
                count = counts.get(attribute.name, 0)
                counts[attribute.name] = count + 1
                self.add_graphs(attribute, scope, first_node + scope.row, count)
        first_output = self.n
        operator[0], operator[1] = OUTPUT, key
        for row, value in enumerate(message.output):
            operator[2] = row
            name = self.interner.number_of(value if isinstance(value, str) else value.name)
            i = self.add_vertex(OUTPUT, self.interner.number_of_ints(operator, 3), row, name)
            self.vertices[i].scope = scope.parent
            self.add_edge(i, name, 0, 0)
            self.resolve(&self.edges[self.n_edges - 1])
        return first_output

    cdef int add_inputs(self, scope, int32_t key) except -1:
        """Add the inputs of a graph or function.

        In the main graph, their operators identify the type; in other graphs and functions, `key` and the index of the
        input.
        """
        cdef int32_t[3] operator
        cdef int32_t number
        operator[0], operator[1] = INPUT, key
        for row, value in enumerate(scope.input):
            operator[2] = row
            if key == EMPTY:
                operator[1] = self.interner.number_of(value.type.SerializeToString(deterministic=True))
            number = self.interner.number_of(value if isinstance(value, str) else value.name)
            self.add_vertex(INPUT, self.interner.number_of_ints(operator, 3 if key != EMPTY else 2), row, number)
            self.add_output(number)
        return 0

    cdef int add_tensors(self, graph) except -1:
        """Add the initializers of a graph: dense, then sparse. Their operators identify the type and the shape."""
        cdef int32_t[2] operator
        cdef int32_t vertex, name, row = 0
        operator[0] = INITIALIZER
        for tensors in (graph.initializer, graph.sparse_initializer):
            for tensor in tensors:
                is_sparse = isinstance(tensor, SparseTensorProto)
                values = tensor.values if is_sparse else tensor
                type_text = repr((is_sparse, values.data_type, tuple(tensor.dims)))
                operator[1] = self.interner.number_of(type_text)
                name = self.interner.number_of(values.name)
                vertex = self.add_vertex(INITIALIZER, self.interner.number_of_ints(operator, 2), row, name)
                operator[1] = self.interner.number_of(tensor_key(tensor, self.payload_key))
                self.vertices[vertex].label = self.interner.number_of_ints(operator, 2)
                self.vertices[vertex].has_notes = bool(values.doc_string or values.metadata_props)
                self.add_output(name)
                row += 1
        return 0

    cdef list add_nodes(self, nodes):
        """Add nodes, with edges whose sources are names. Returns the indexes of the nodes with graphs."""
        cdef int32_t row = 0
        cdef View node
        cdef list rows_with_graphs = []
        for node in nodes:
            if self.add_node(node, row):
                rows_with_graphs.append(row)
            row += 1
        return rows_with_graphs

    cdef bint add_node(self, View node, int32_t row) except -1:
        """Add a node; return whether it has graphs."""
        cdef int32_t[4] operator  # NODE, domain, op_type, overload
        cdef int32_t vertex = self.add_vertex(NODE, EMPTY, row, EMPTY)
        cdef int32_t n_edges = self.n_edges, n_outputs = self.n_outputs
        self.n_attributes = 0
        operator[0], operator[1], operator[2], operator[3] = NODE, EMPTY, EMPTY, EMPTY
        cdef int has_graphs = scan_node(node, self, vertex, operator)
        if has_graphs == IS_NOT_SCANNED:
            self.n_edges = n_edges
            self.n_outputs = self.vertices[vertex + 1].first_output = n_outputs
            self.n_attributes = 0
            has_graphs = self.read_node(node, vertex, operator)
        if operator[1] == AI_ONNX:
            operator[1] = EMPTY
        self.vertices[vertex].operator = self.interner.number_of_ints(operator, 4)
        self.vertices[vertex].label = self.label_of(self.vertices[vertex].operator)
        return has_graphs

    cdef bint read_node(self, node, int32_t vertex, int32_t* operator) except -1:
        """Read a node through its view, edits included; return whether it has graphs.

        operator: receives the numbers of domain, op_type and overload as elements 1 to 3.
        """
        cdef bint has_graphs = False
        cdef int32_t i
        self.vertices[vertex].name = self.interner.number_of(node.name)
        self.vertices[vertex].has_notes = bool(node.doc_string or node.metadata_props or node.device_configurations)
        operator[1] = self.interner.number_of(node.domain)
        operator[2] = self.interner.number_of(node.op_type)
        operator[3] = self.interner.number_of(node.overload)
        for name in node.output:
            self.add_output(self.interner.number_of(name))
        for i, name in enumerate(node.input):
            self.add_edge(vertex, self.interner.number_of(name), 0, i)
        for i in range(len(node.attribute)):
            has_graphs |= self.add_attribute(node, i, NULL, 0)
        return has_graphs

    cdef bint add_attribute(self, node, int32_t index, const uint8_t* p, uint64_t n) except -1:
        """Add an attribute to those of the current node; return whether it has graphs. p, n: its n bytes, or NULL."""
        cdef bytes data = PyBytes_FromStringAndSize(<const char*>p, n) if p != NULL and n <= MAX_SHORT_BYTES else None
        cdef AttributeLabel* label
        parts = self.attribute_labels.get(data) if data is not None else None
        if parts is None:
            attribute = node.attribute[index]
            parts = (
                self.interner.number_of(attribute.name),
                self.interner.number_of(attribute_key(attribute, self.payload_key)),
                attribute.HasField("g") or bool(attribute.graphs),
            )
            if data is not None:
                if len(self.attribute_labels) >= MAX_SHORT_ATTRIBUTES:
                    self.attribute_labels.clear()
                self.attribute_labels[data] = parts
        if self.n_attributes == self.attributes_capacity:
            self.attributes_capacity = grow(
                <void**>&self.attributes, self.attributes_capacity, sizeof(AttributeLabel)
            )
        label = &self.attributes[self.n_attributes]
        label.name, label.key = (<tuple>parts)[0], (<tuple>parts)[1]
        label.index = index
        self.n_attributes += 1
        return (<tuple>parts)[2]

    cdef int32_t label_of(self, int32_t operator) except -1:
        """Return the label of a node: a number for its operator and its attributes, which can be in any order."""
        cdef int32_t[2 * MAX_STACK_ATTRIBUTES + 2] stack_ints
        cdef int32_t* ints = stack_ints
        cdef Py_ssize_t i, n = self.n_attributes
        if n == 0:
            return operator
        if n > 1:
            qsort(self.attributes, n, sizeof(AttributeLabel), compare_attributes)
        if n > MAX_STACK_ATTRIBUTES:
            ints = <int32_t*>malloc((2 * n + 2) * sizeof(int32_t))
            if ints == NULL:
                raise MemoryError
        try:
            ints[0], ints[1] = OF_LABEL, operator
            for i in range(n):
                ints[2 * i + 2], ints[2 * i + 3] = self.attributes[i].name, self.attributes[i].key
            return self.interner.number_of_ints(ints, 2 * n + 2)
        finally:
            if ints != stack_ints:
                free(ints)

    cdef int define(self, int32_t first_vertex) except -1:
        """Define the names of the outputs of a scope's vertices, which are the vertices from `first_vertex` on."""
        cdef int32_t v, i
        self.names.reserve(self.interner.texts.n)
        for v in range(first_vertex, self.n):
            for i in range(self.vertices[v].first_output, self.vertices[v + 1].first_output):
                if self.outputs[i] == EMPTY:
                    continue
                if self.vertices[v].kind == NODE:
                    self.names.define(self.outputs[i], DEFINED_BY_NODE, v, i - self.vertices[v].first_output)
                elif self.vertices[v].kind == INPUT:
                    self.names.define(self.outputs[i], DEFINED_BY_INPUT, NONE, v)
                else:
                    self.names.define(self.outputs[i], DEFINED_BY_INITIALIZER, NONE, v)
        return 0

    cdef int resolve(self, Edge* edge) except -1:
        """Replace the name in an edge by the vertex and output that it refers to, or by NONE if it is undefined."""
        cdef Definition* definition = NULL
        if edge.source != EMPTY and edge.source < self.names.n_names:
            definition = self.names.find(edge.source)
        if definition == NULL:
            edge.source = NONE
        elif definition.kind == DEFINED_BY_NODE:
            edge.source, edge.output = definition.node, definition.source
        else:
            edge.source = definition.source
        return 0

    cdef int add_descriptions(self, values) except -1:
        """Add the entries of value_info that describe values of the innermost scope."""
        cdef int32_t row = -1, name, type, output
        cdef Definition* definition
        cdef View value
        for value in values:
            row += 1
            scan_value(value, self.interner, &name, &type)
            definition = self.names.find(name) if name < self.names.n_names else NULL
            if definition == NULL or definition.level != self.names.n_levels - 1:
                continue
            if self.n_descriptions == self.descriptions_capacity:
                self.descriptions_capacity = grow(
                    <void**>&self.descriptions, self.descriptions_capacity, sizeof(Description)
                )
            if definition.kind == DEFINED_BY_NODE:
                output = self.vertices[definition.node].first_output + definition.source
            else:
                output = self.vertices[definition.source].first_output
            self.descriptions[self.n_descriptions] = Description(output, row, type)
            self.n_descriptions += 1
        return 0

    cdef int add_graphs(self, attribute, Scope scope, int32_t vertex, int32_t n_before) except -1:
        """Add the graphs of an attribute, and the edges from their outputs to the node.

        n_before: the number of earlier attributes of the node that have the same name.
        """
        cdef int32_t name = self.interner.number_of(attribute.name)
        if attribute.HasField("g"):
            scope.graph = NONE
            self.add_graph(attribute.g, scope, vertex, name, n_before)
        for index, graph in enumerate(attribute.graphs):
            scope.graph = index
            self.add_graph(graph, scope, vertex, name, n_before)
        return 0

    cdef int add_graph(self, graph, Scope scope, int32_t vertex, int32_t name, int32_t n_before) except -1:
        """Add a nested graph, and the edges from its outputs to the node.

        name, n_before: the name of its attribute, and the number of earlier attributes of this name.
        """
        cdef int32_t[4] key
        cdef int32_t graph_key, output, first_output
        key[0], key[1], key[2], key[3] = OF_GRAPH, name, scope.graph, n_before
        graph_key = self.interner.number_of_ints(key, 4)
        self.names.enter(0)
        first_output = self.add_scope(graph, scope, graph_key)
        self.names.leave()
        key[0] = graph_key
        for output in range(first_output, self.n):
            key[1] = output - first_output
            self.add_edge(vertex, output, 0, -1 - self.interner.number_of_ints(key, 2))
        return 0


cdef enum:
    IS_NOT_SCANNED = 2       # result of `scan_node` for a node that is edited or damaged, or has long names


@critical_section
cdef int scan_node(View node, FlatGraph graph, int32_t vertex, int32_t* operator) except -1:
    """Read a node from its bytes; return whether it has graphs, or IS_NOT_SCANNED if `read_node` has to read it.

    operator: as for `read_node`.
    """
    cdef Interner interner = graph.interner
    cdef Document document
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef Record record
    cdef int32_t port = 0, index = 0
    cdef bint has_graphs = False, has_doc_string = False, has_other_notes = False
    if not is_unedited(node):
        return IS_NOT_SCANNED
    document = <Document>node.document
    p, end = node.start, node.end
    # Computing the key of an attribute may run other code, which must not close the document.
    document.pins += 1
    try:
        while p < end:
            p = read_record(p, end, MAX_DEPTH, &record)
            if p == NULL:
                return IS_NOT_SCANNED
            if record.tag & 7 != WIRE_LEN:
                continue
            if record.tag == NODE_ATTRIBUTE:
                has_graphs |= graph.add_attribute(node, index, record.value, record.n)
                index += 1
            elif record.tag == NODE_DOC_STRING:
                has_doc_string = record.n != 0
            elif record.tag == NODE_METADATA or record.tag == NODE_DEVICES:
                has_other_notes = True
            elif record.n >= LONG_BYTES:
                return IS_NOT_SCANNED
            elif record.tag == NODE_INPUT:
                graph.add_edge(vertex, interner.number(record.value, record.n), 0, port)
                port += 1
            elif record.tag == NODE_OUTPUT:
                graph.add_output(interner.number(record.value, record.n))
            elif record.tag == NODE_NAME:
                graph.vertices[vertex].name = interner.number(record.value, record.n)
            elif record.tag == NODE_DOMAIN:
                operator[1] = interner.number(record.value, record.n)
            elif record.tag == NODE_OP_TYPE:
                operator[2] = interner.number(record.value, record.n)
            elif record.tag == NODE_OVERLOAD:
                operator[3] = interner.number(record.value, record.n)
    finally:
        document.pins -= 1
    graph.vertices[vertex].has_notes = has_doc_string or has_other_notes
    return has_graphs


@critical_section
cdef int scan_value(View value, Interner interner, int32_t* name, int32_t* type) except -1:
    """Find the name and the type of a ValueInfoProto as numbers of the interner.

    type: receives NONE if the value is edited or damaged, has no type or several, or has a type or name of at
    least LONG_BYTES bytes.
    """
    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef Record record
    cdef int n_types = 0
    name[0], type[0] = EMPTY, NONE
    if is_unedited(value):
        p, end = value.start, value.end
        while p != NULL and p < end:
            p = read_record(p, end, MAX_DEPTH, &record)
            if p == NULL or (record.tag == VALUE_NAME and record.n >= LONG_BYTES):
                break
            if record.tag == VALUE_NAME:
                name[0] = interner.number(record.value, record.n)
            elif record.tag == VALUE_TYPE:
                n_types += 1
                type[0] = interner.number(record.value, record.n) if n_types == 1 and record.n < LONG_BYTES else NONE
        else:
            return 0
    name[0], type[0] = interner.number_of((<object>value).name), NONE
    return 0


def changed_types(FlatGraph old not None, FlatGraph new not None, const int32_t[::1] new_of not None):
    """Return the values with matching vertices whose entries of value_info may have different types.

    new_of: the match of each vertex of `old`, or NONE. Returns tuples: the vertex of `old`, the index of its output,
    and the indexes of the entries in the value_info of `old` and of `new`. Raises IndexError if the length of `new_of`
    is not the number of vertices of `old`.
    """
    cdef int32_t[::1] old_descriptions, new_descriptions
    cdef int32_t v, i, new_output
    cdef Description* old_entry
    cdef Description* new_entry
    cdef list changes = []
    if new_of.shape[0] != old.n:
        raise IndexError("new_of must have one element per vertex")
    if old.n_descriptions == 0 or new.n_descriptions == 0:
        return changes
    old_descriptions, new_descriptions = descriptions_by_output(old), descriptions_by_output(new)
    for v in range(old.n):
        if not 0 <= new_of[v] < new.n:
            continue
        new_output = new.vertices[new_of[v]].first_output
        for i in range(old.vertices[v].first_output, old.vertices[v + 1].first_output):
            if new_output == new.vertices[new_of[v] + 1].first_output:
                break
            if old_descriptions[i] != NONE and new_descriptions[new_output] != NONE:
                old_entry = &old.descriptions[old_descriptions[i]]
                new_entry = &new.descriptions[new_descriptions[new_output]]
                if old_entry.type != new_entry.type or old_entry.type == NONE:
                    changes.append((v, i - old.vertices[v].first_output, old_entry.row, new_entry.row))
            new_output += 1
    return changes


cdef int32_t[::1] descriptions_by_output(FlatGraph graph):
    """Return, for each output, the index of its description, or NONE."""
    from array import array

    cdef int32_t[::1] result = array("i", [NONE]) * graph.n_outputs
    cdef int32_t i
    for i in range(graph.n_descriptions):
        result[graph.descriptions[i].output] = i
    return result


cdef int32_t grow(void** data, int32_t capacity, size_t size) except -1:
    """Enlarge an array of elements of `size` bytes; return its new capacity in elements."""
    if capacity > 0x7FFFFFFF // 2:
        raise MemoryError
    capacity += capacity // 2 + 16
    if grow_array(data, capacity, size):
        raise MemoryError
    return capacity


cdef int shrink(void** data, size_t n, size_t size) noexcept:
    """Release the memory after the first n elements of an array."""
    cdef void* memory = realloc(data[0], n * size) if n else NULL
    if memory != NULL:
        data[0] = memory
    return 0


cdef int compare_attributes(const void* left, const void* right) noexcept nogil:
    cdef const AttributeLabel* a = <const AttributeLabel*>left
    cdef const AttributeLabel* b = <const AttributeLabel*>right
    if a.name != b.name:
        return -1 if a.name < b.name else 1
    return -1 if a.index < b.index else a.index > b.index
