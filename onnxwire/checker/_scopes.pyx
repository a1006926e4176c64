# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Resolves the names of node inputs, graph outputs and definitions of a document, with `index/names`.

It walks over the graphs once, in the order of their nodes. A name is the id of a string, so that resolving it is one
array access.
"""
from cython cimport critical_section, final
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from onnxwire.checker._facts cimport Facts, List, Run, Sheet
from onnxwire.index.interning cimport grow_array
from onnxwire.engine.memory cimport calloc, free
from onnxwire.index.names cimport INITIALIZER, INPUT, NODE, Definition, Kind, Names

cdef enum:
    UNSEEN = 0           # meanings of a use; `checker/scopes.py` has the same numbers
    OMITTED = 1          # the empty name
    # INPUT, INITIALIZER and NODE are 2, 3 and 4, as in `index/names`
    OUTER = 5            # a value of any kind of an enclosing graph
    LATER = 6            # the output of a later node of the same graph, or of the node itself
    NOT_YET = 7          # the output of the node that owns this graph, or of a node after the owner
    NOWHERE = 8

    SEEN = 128           # the definition has been visited

cdef struct OpenScope:
    int32_t graph        # row of GraphProto, -1 for a function
    int32_t function
    int32_t level        # an entry of `Names.levels`
    int32_t node         # the next node
    int32_t last         # end of the nodes
    int32_t attribute    # next attribute of the node that may hold a graph; -1 until its inputs are resolved
    int32_t last_attribute
    int32_t nested       # next graph of the attribute
    int32_t last_nested


cdef struct NamedField:
    # A field of graphs whose elements have names.
    const Run* runs          # the field's run in each graph
    const Sheet* sheet       # parent of each element; elements of other fields may be between them
    int edge
    const int32_t* names     # names of the sheet's rows; if `values` is not NULL, of the rows that it maps them to
    const int32_t* values


@final
cdef class Scopes:
    """The meanings of names.

    uses: the meaning of each element of NodeProto.input; outputs: the meaning of each row of ValueInfoProto that is a
    graph output.
    defined: earlier meanings of each element of NodeProto.output; inputs, initializers, sparse: the same for rows of
    ValueInfoProto, TensorProto, SparseTensorProto. For each use: makers: the node that produces the value, or -1;
    definitions: the position of its definition, which is an element of NodeProto.output, or in the same numbering a row
    of ValueInfoProto, or a row of TensorProto, or -1 for anything else; defining scopes: the row of the graph that
    defines the value (functions are numbered after all graphs), or -1. described: for each row of ValueInfoProto that
    is an output or value_info of a graph or function, the element of NodeProto.output that it describes, or -1.
    """
    cdef Facts facts
    cdef readonly bytearray uses, outputs, defined, inputs, initializers, sparse, functions, named
    cdef Py_ssize_t n_made
    cdef Py_ssize_t n_described
    cdef int32_t* makers
    cdef int32_t* sources
    cdef int32_t* targets
    cdef int32_t first_value, first_tensor, n_graphs
    cdef int32_t* owners
    cdef Names names
    cdef OpenScope* frames
    cdef int32_t n_frames, frames_capacity
    cdef NamedField given, initial, sparse_initial, results, infos  # looked up once: a model may have a million graphs
    cdef const Run* graph_nodes
    cdef const Run* function_nodes
    cdef const Run* function_inputs
    cdef const int64_t* function_input_names
    cdef const Run* node_outputs
    cdef const List* made

    @critical_section
    def __cinit__(self, Facts facts):
        cdef List* used = facts.list_of("NodeProto", "input")
        self.facts = facts
        self.uses = bytearray(used.n)
        self.defined = bytearray(facts.list_of("NodeProto", "output").n)
        self.inputs = bytearray(facts.sheet("ValueInfoProto").n)
        self.outputs = bytearray(facts.sheet("ValueInfoProto").n)
        self.named = bytearray(facts.sheet("ValueInfoProto").n)
        self.initializers = bytearray(facts.sheet("TensorProto").n)
        self.sparse = bytearray(facts.sheet("SparseTensorProto").n)
        self.functions = bytearray(facts.list_of("FunctionProto", "output").n)
        self.n_made = used.n
        self.n_described = facts.sheet("ValueInfoProto").n
        if self.defined_count() > 0x7FFFFFFF:
            raise MemoryError("the document has more values than memory")
        self.first_value = facts.list_of("NodeProto", "output").n
        self.first_tensor = self.first_value + <int32_t>self.n_described
        self.n_graphs = <int32_t>facts.sheet("GraphProto").n
        self.given = self.named_field("input", "ValueInfoProto")
        self.initial = self.named_field("initializer", "TensorProto")
        self.sparse_initial = self.named_field("sparse_initializer", "SparseTensorProto")
        self.results = self.named_field("output", "ValueInfoProto")
        self.infos = self.named_field("value_info", "ValueInfoProto")
        self.graph_nodes = <Run*>facts.column("GraphProto", "node")
        self.function_nodes = <Run*>facts.column("FunctionProto", "node")
        self.function_inputs = <Run*>facts.column("FunctionProto", "input")
        self.function_input_names = facts.list_of("FunctionProto", "input").value
        self.node_outputs = <Run*>facts.column("NodeProto", "output")
        self.made = facts.list_of("NodeProto", "output")
        self.makers = <int32_t*>calloc(used.n + 1, 4)
        self.sources = <int32_t*>calloc(used.n + 1, 4)
        self.targets = <int32_t*>calloc(self.n_described + 1, 4)
        self.owners = <int32_t*>calloc(used.n + 1, 4)
        if self.makers == NULL or self.sources == NULL or self.targets == NULL or self.owners == NULL:
            raise MemoryError
        memset(self.makers, 0xFF, used.n * 4)
        memset(self.sources, 0xFF, used.n * 4)
        memset(self.targets, 0xFF, self.n_described * 4)
        memset(self.owners, 0xFF, used.n * 4)
        self.names = Names()
        self.names.reserve(<int32_t>facts.texts.n)

    def __dealloc__(self):
        free(self.makers)
        free(self.sources)
        free(self.targets)
        free(self.owners)
        free(self.frames)

    @critical_section
    def maker_column(self):
        """Return the makers, as a payload of int32."""
        return self.facts.buffer_of(<size_t>self.makers, self.n_made * 4, self)

    @critical_section
    def definition_column(self):
        """Return the definitions, as a payload of int32."""
        return self.facts.buffer_of(<size_t>self.sources, self.n_made * 4, self)

    @critical_section
    def scope_column(self):
        """Return the defining scopes, as a payload of int32."""
        return self.facts.buffer_of(<size_t>self.owners, self.n_made * 4, self)

    @critical_section
    def described_column(self):
        """Return the descriptions, as a payload of int32."""
        return self.facts.buffer_of(<size_t>self.targets, self.n_described * 4, self)

    cdef NamedField named_field(self, str field, str sheet) except *:
        cdef NamedField found
        found.runs = <Run*>self.facts.column("GraphProto", field)
        found.sheet = self.facts.sheet(sheet)
        found.edge = self.facts.edge(f"GraphProto.{field}")
        # A sparse tensor has the name of its values.
        is_sparse = sheet == "SparseTensorProto"
        found.names = <int32_t*>self.facts.column("TensorProto" if is_sparse else sheet, "name")
        found.values = <int32_t*>self.facts.column(sheet, "values") if is_sparse else NULL
        return found

    cdef int64_t defined_count(self):
        cdef int64_t n = self.facts.list_of("NodeProto", "output").n
        return n + self.facts.sheet("ValueInfoProto").n + self.facts.sheet("TensorProto").n

    @critical_section
    def walk(self, int32_t main, list algorithms, list graphs, list functions):
        """Walk over the scopes of a document, given as rows; main: -1 if there is none.

        algorithms: graphs in which the main graph's values are visible; graphs, functions: scopes that see only their
            own values.
        """
        if main >= 0:
            self.enter(main, -1)
            self.run(True)
            for graph in algorithms:
                self.enter(graph, -1)
                self.run(False)
            self.names.leave()
        for graph in graphs if main >= 0 else graphs + algorithms:
            self.enter(graph, -1)
            self.run(False)
        for function in functions:
            self.enter(-1, function)
            self.run(False)

    cdef int enter(self, int32_t graph, int32_t function) except -1:
        """Open a scope: define its inputs, initializers and node outputs, and record names that are already defined."""
        cdef OpenScope* frame
        cdef Run nodes
        cdef int32_t i, k
        cdef const Run* run
        cdef uint8_t* defined = self.defined
        if self.n_frames == self.frames_capacity:
            if grow_array(<void**>&self.frames, self.frames_capacity * 2 or 16, sizeof(OpenScope)):
                raise MemoryError
            self.frames_capacity = self.frames_capacity * 2 or 16
        frame = &self.frames[self.n_frames]
        self.n_frames += 1
        frame.graph = graph
        frame.function = function
        frame.level = self.names.n_levels
        self.names.enter(graph if graph >= 0 else self.n_graphs + function)
        frame.attribute = -1
        frame.nested = frame.last_nested = 0
        if graph >= 0:
            nodes = self.graph_nodes[graph]
            self.define_field(graph, &self.given, self.inputs, INPUT, self.first_value)
            self.define_field(graph, &self.initial, self.initializers, INITIALIZER, self.first_tensor)
            self.define_field(graph, &self.sparse_initial, self.sparse, INITIALIZER, -1)
        else:
            nodes = self.function_nodes[function]
            run = &self.function_inputs[function]
            for i in range(run.first, run.first + run.n):
                k = <int32_t>self.function_input_names[i]
                if k:
                    self.names.define(k, INPUT, -1, -1)
        frame.node = nodes.first
        frame.last = nodes.first + nodes.n
        self.names.levels[frame.level].position = frame.node
        for i in range(frame.node, frame.last):
            run = &self.node_outputs[i]
            for k in range(run.first, run.first + run.n):
                if self.made.value[k]:
                    defined[k] = self.names.define(<int32_t>self.made.value[k], NODE, i, k) | SEEN
        return 0

    cdef int define_field(
        self, int32_t graph, const NamedField* field, uint8_t* faults, Kind kind, int32_t definition
    ) except -1:
        """Define the names of a field's elements, and record names that are already defined.

        definition: the number of the sheet's first row among definitions, or -1 if its rows are not definitions.
        """
        cdef int32_t row = field.runs[graph].first
        cdef int32_t left = field.runs[graph].n
        cdef int32_t at, text
        while left:
            if field.sheet.edge[row] == field.edge:
                left -= 1
                at = field.values[row] if field.values != NULL else row
                text = field.names[at] if at >= 0 else 0
                if text:
                    faults[row] = self.names.define(text, kind, -1, definition + row if definition >= 0 else -1) | SEEN
            row += 1
        return 0

    cdef int run(self, bint stays) except -1:
        """Walk over the nodes of the innermost scope and of its nested scopes, and close it.

        stays: whether its definitions remain visible.
        """
        cdef Facts facts = self.facts
        cdef Sheet* graphs = facts.sheet("GraphProto")
        cdef List* used = facts.list_of("NodeProto", "input")
        cdef Run* inputs = <Run*>facts.column("NodeProto", "input")
        cdef Run* held = <Run*>facts.column("NodeProto", "attribute")
        cdef int32_t* single = <int32_t*>facts.column("AttributeProto", "g")
        cdef Run* several = <Run*>facts.column("AttributeProto", "graphs")
        cdef int several_edge = facts.edge("AttributeProto.graphs")
        cdef uint8_t* uses = self.uses
        cdef int32_t depth = self.n_frames
        cdef OpenScope* frame
        cdef int32_t i
        while self.n_frames >= depth:
            frame = &self.frames[self.n_frames - 1]
            if frame.nested < frame.last_nested:
                i = frame.nested
                frame.nested += 1
                if graphs.edge[i] == several_edge and graphs.parent[i] == frame.attribute - 1:
                    self.enter(i, -1)
                elif graphs.parent[i] == frame.attribute - 1:
                    frame.last_nested += 1  # `g` is visited even in an attribute that also has `graphs`
                continue
            if frame.attribute >= 0 and frame.attribute < frame.last_attribute:
                i = frame.attribute
                frame.attribute += 1
                if several[i].n:
                    frame.nested = several[i].first
                    frame.last_nested = several[i].first + several[i].n
                if single[i] >= 0:
                    self.enter(single[i], -1)
                continue
            if frame.attribute >= 0:
                # All graphs of the node are done: its outputs are visible from here on.
                frame.node += 1
                self.names.levels[frame.level].position = frame.node
                frame.attribute = -1
                continue
            if frame.node < frame.last:
                i = frame.node
                for k in range(inputs[i].first, inputs[i].first + inputs[i].n):
                    uses[k] = self.resolve(
                        <int32_t>used.value[k], &self.makers[k], &self.sources[k], &self.owners[k]
                    )
                frame.attribute = held[i].first
                frame.last_attribute = held[i].first + held[i].n
                continue
            self.leave(frame)
            if not stays or self.n_frames > depth:
                self.names.leave()
            self.n_frames -= 1
        return 0

    cdef int resolve(self, int32_t text, int32_t* maker, int32_t* definition, int32_t* scope) noexcept:
        """Return the meaning of a name in the innermost scope."""
        cdef Definition* found
        cdef bint is_own
        maker[0] = definition[0] = scope[0] = -1
        if text == 0:
            return OMITTED
        found = self.names.find(text)
        if found == NULL:
            return NOWHERE
        maker[0] = found.node
        definition[0] = found.source
        scope[0] = self.names.levels[found.level].owner
        is_own = found.level == self.names.n_levels - 1
        if self.names.is_produced(found):
            return found.kind if is_own else OUTER
        return LATER if is_own else NOT_YET

    cdef int leave(self, OpenScope* frame) except -1:
        """Resolve the outputs and value_info of a scope whose names are all defined."""
        cdef Facts facts = self.facts
        cdef const int32_t* names = self.infos.names
        cdef List* given
        cdef uint8_t* named = self.named
        cdef uint8_t* functions = self.functions
        cdef int32_t maker, definition, scope
        cdef int32_t row
        cdef Run run
        if frame.graph >= 0:
            self.resolve_field(frame, &self.results, self.outputs)
            self.resolve_field(frame, &self.infos, named)
            return 0
        given = facts.list_of("FunctionProto", "output")
        run = (<Run*>facts.column("FunctionProto", "output"))[frame.function]
        for row in range(run.first, run.first + run.n):
            functions[row] = self.resolve(<int32_t>given.value[row], &maker, &definition, &scope)
        run = (<Run*>facts.column("FunctionProto", "value_info"))[frame.function]
        for row in range(run.first, run.first + run.n):
            named[row] = self.resolve(names[row], &maker, &definition, &scope)
            if named[row] == NODE:
                self.targets[row] = definition
        return 0

    cdef void resolve_field(self, const OpenScope* frame, const NamedField* field, uint8_t* meanings) noexcept:
        """Record the meanings of the names of a field's elements."""
        cdef int32_t row = field.runs[frame.graph].first
        cdef int32_t left = field.runs[frame.graph].n
        cdef int32_t maker, definition, scope
        while left:
            if field.sheet.edge[row] == field.edge:
                left -= 1
                meanings[row] = self.resolve(field.names[row], &maker, &definition, &scope)
                if meanings[row] == NODE:
                    self.targets[row] = definition
            row += 1
