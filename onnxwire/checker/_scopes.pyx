# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Resolves names: which value each node input, graph output and definition of a document stands for.

One walk over the graphs in the order of their nodes. A name is the id of a string, so what it means at the moment is
one lookup in an array; entering a graph puts bindings on a stack, and leaving it takes them off again.
"""
from cython cimport critical_section
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from onnxwire.checker._facts cimport Facts, List, Run, Sheet

cdef enum:
    UNSEEN = 0           # what a use stands for; `check/scopes.py` has the same numbers
    OMITTED = 1          # the empty name
    INPUT = 2
    INITIALIZER = 3
    NODE = 4
    OUTER = 5            # a value of a graph around this one, of whatever kind
    LATER = 6            # only a later node of the same graph, or the node itself, makes it
    NOT_YET = 7          # only the owner of this graph, or a node after it, makes it
    NOWHERE = 8

    IS_INPUT = 2         # what a name is already where it is defined: an input of the graph
    IS_INITIALIZER = 4   # an initializer of the graph
    SHADOWS = 16         # visible from outside
    IS_NODE = 8          # made by a node of the graph before
    SEEN = 128           # the definition was come by

cdef struct Binding:
    int32_t text
    int32_t graph        # number of the scope
    int32_t kind         # INPUT, INITIALIZER, NODE
    int32_t node
    int32_t definition   # as of `Scopes.definitions`
    int32_t known        # all that the name is: flags as of a definition's faults
    int32_t before       # what the name stood for, -1 for nothing


cdef struct Frame:
    int32_t graph        # row of GraphProto, -1 of a function
    int32_t function
    int32_t scope
    int32_t node         # the next one
    int32_t last         # after the last one
    int32_t attribute    # of the node: the next one that may hold a graph, -1 before the node's inputs were looked at
    int32_t last_attribute
    int32_t nested       # of the attribute: the next graph
    int32_t last_nested
    int32_t bindings     # height of the stacks at the start
    int32_t promises


cdef struct NamedField:
    # A field of graphs whose elements have names.
    const Run* runs          # of each graph
    const Sheet* sheet       # of the elements, with those of other fields between them
    int edge
    const int32_t* names     # of the sheet's rows, or of those that `values` leads to from them, if it is not NULL
    const int32_t* values


cdef class Scopes:
    """The meanings of names.

    uses: of each element of NodeProto.input; outputs: of each row of ValueInfoProto that is a graph output; defined:
    the faults of each element of NodeProto.output; inputs, initializers: those of rows of ValueInfoProto, TensorProto,
    and `sparse` of SparseTensorProto. makers: of each use, the node that makes the value, or -1. definitions: of each
    use, where the value is defined: an element of NodeProto.output; beyond these a row of ValueInfoProto; beyond these
    a row of TensorProto; -1 where it is something else. described: of each row of ValueInfoProto that is an output or
    value_info of a graph or function, the element of NodeProto.output there that it speaks of, or -1.
    """
    cdef Facts facts
    cdef readonly bytearray uses, outputs, defined, inputs, initializers, sparse, functions, named
    cdef Py_ssize_t n_made
    cdef Py_ssize_t n_described
    cdef int32_t* makers
    cdef int32_t* sources
    cdef int32_t* targets
    cdef int32_t first_value, first_tensor
    cdef Binding* bindings
    cdef int32_t n_bindings, bindings_capacity
    cdef int32_t* bound              # of a text: its binding, -1 for none
    cdef Binding* promises           # node outputs that are still to come; `bound` of them is `promised`
    cdef int32_t n_promises, promises_capacity
    cdef int32_t* promised
    cdef Frame* frames
    cdef int32_t n_frames, frames_capacity
    cdef int32_t n_scopes
    cdef NamedField given, initial, sparse_initial, results, infos  # looked up once: there may be a million graphs
    cdef const Run* graph_nodes
    cdef const Run* function_nodes
    cdef const Run* function_inputs
    cdef const int64_t* function_input_names
    cdef const Run* node_outputs
    cdef const List* made

    @critical_section
    def __cinit__(self, Facts facts):
        cdef Py_ssize_t texts = facts.texts.n
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
        self.bound = <int32_t*>calloc(texts + 1, 4)
        self.promised = <int32_t*>calloc(texts + 1, 4)
        if (
            self.makers == NULL or self.sources == NULL or self.targets == NULL or self.bound == NULL
            or self.promised == NULL
        ):
            raise MemoryError
        memset(self.makers, 0xFF, used.n * 4)
        memset(self.sources, 0xFF, used.n * 4)
        memset(self.targets, 0xFF, self.n_described * 4)
        memset(self.bound, 0xFF, texts * 4)
        memset(self.promised, 0xFF, texts * 4)

    def __dealloc__(self):
        free(self.makers)
        free(self.sources)
        free(self.targets)
        free(self.bound)
        free(self.promised)
        free(self.bindings)
        free(self.promises)
        free(self.frames)

    @critical_section
    def maker_column(self):
        """The makers, as a payload of int32."""
        return self.facts.buffer_of(<size_t>self.makers, self.n_made * 4, self)

    @critical_section
    def definition_column(self):
        """The definitions, as a payload of int32."""
        return self.facts.buffer_of(<size_t>self.sources, self.n_made * 4, self)

    @critical_section
    def described_column(self):
        """The descriptions, as a payload of int32."""
        return self.facts.buffer_of(<size_t>self.targets, self.n_described * 4, self)

    cdef NamedField named_field(self, str field, str sheet) except *:
        cdef NamedField found
        found.runs = <Run*>self.facts.column("GraphProto", field)
        found.sheet = self.facts.sheet(sheet)
        found.edge = self.facts.edge(f"GraphProto.{field}")
        # The name of a sparse tensor is that of its values.
        is_sparse = sheet == "SparseTensorProto"
        found.names = <int32_t*>self.facts.column("TensorProto" if is_sparse else sheet, "name")
        found.values = <int32_t*>self.facts.column(sheet, "values") if is_sparse else NULL
        return found

    cdef int64_t defined_count(self):
        cdef int64_t n = self.facts.list_of("NodeProto", "output").n
        return n + self.facts.sheet("ValueInfoProto").n + self.facts.sheet("TensorProto").n

    @critical_section
    def walk(self, int32_t main, list algorithms, list graphs, list functions):
        """Go through the scopes of a document, all given as rows, main as -1 where there is none.

        algorithms: graphs that see what the main graph defines; graphs, functions: what sees nothing but itself.
        """
        if main >= 0:
            self.enter(main, -1)
            self.run(True)
            for graph in algorithms:
                self.enter(graph, -1)
                self.run(False)
            self.take_off(0, 0)
        for graph in graphs if main >= 0 else graphs + algorithms:
            self.enter(graph, -1)
            self.run(False)
        for function in functions:
            self.enter(-1, function)
            self.run(False)

    cdef int bind(self, int32_t text, int32_t kind, int32_t node, int32_t definition) except -1:
        cdef Binding* binding
        if self.n_bindings == self.bindings_capacity:
            self.bindings_capacity = self.bindings_capacity * 2 or 1024
            self.bindings = <Binding*>realloc(self.bindings, <size_t>self.bindings_capacity * sizeof(Binding))
            if self.bindings == NULL:
                raise MemoryError
        binding = &self.bindings[self.n_bindings]
        binding.text = text
        binding.graph = self.frames[self.n_frames - 1].scope
        binding.kind = kind
        binding.node = node
        binding.definition = definition
        binding.before = self.bound[text]
        binding.known = self.faults_of(text) | 1 << (kind - 1)
        self.bound[text] = self.n_bindings
        self.n_bindings += 1
        return 0

    cdef int promise(self, int32_t text, int32_t node, int32_t definition) except -1:
        cdef Binding* binding
        if self.n_promises == self.promises_capacity:
            self.promises_capacity = self.promises_capacity * 2 or 1024
            self.promises = <Binding*>realloc(self.promises, <size_t>self.promises_capacity * sizeof(Binding))
            if self.promises == NULL:
                raise MemoryError
        binding = &self.promises[self.n_promises]
        binding.text = text
        binding.graph = self.frames[self.n_frames - 1].scope
        binding.node = node
        binding.definition = definition
        binding.before = self.promised[text]
        self.promised[text] = self.n_promises
        self.n_promises += 1
        return 0

    cdef void take_off(self, int32_t bindings, int32_t promises) noexcept:
        while self.n_bindings > bindings:
            self.n_bindings -= 1
            self.bound[self.bindings[self.n_bindings].text] = self.bindings[self.n_bindings].before
        while self.n_promises > promises:
            self.n_promises -= 1
            self.promised[self.promises[self.n_promises].text] = self.promises[self.n_promises].before

    cdef int enter(self, int32_t graph, int32_t function) except -1:
        """Open a scope: bind its inputs and initializers, and note what its nodes will make."""
        cdef Frame* frame
        cdef Run nodes
        cdef int32_t i, k
        cdef const Run* run
        if self.n_frames == self.frames_capacity:
            self.frames_capacity = self.frames_capacity * 2 or 16
            self.frames = <Frame*>realloc(self.frames, <size_t>self.frames_capacity * sizeof(Frame))
            if self.frames == NULL:
                raise MemoryError
        frame = &self.frames[self.n_frames]
        self.n_frames += 1
        frame.graph = graph
        frame.function = function
        frame.scope = self.n_scopes
        self.n_scopes += 1
        frame.bindings = self.n_bindings
        frame.promises = self.n_promises
        frame.attribute = -1
        frame.nested = frame.last_nested = 0
        if graph >= 0:
            nodes = self.graph_nodes[graph]
            self.bind_field(graph, &self.given, self.inputs, INPUT, self.first_value)
            self.bind_field(graph, &self.initial, self.initializers, INITIALIZER, self.first_tensor)
            self.bind_field(graph, &self.sparse_initial, self.sparse, INITIALIZER, -1)
        else:
            nodes = self.function_nodes[function]
            run = &self.function_inputs[function]
            for i in range(run.first, run.first + run.n):
                k = <int32_t>self.function_input_names[i]
                if k:
                    self.bind(k, INPUT, -1, -1)
        frame.node = nodes.first
        frame.last = nodes.first + nodes.n
        for i in range(frame.node, frame.last):
            run = &self.node_outputs[i]
            for k in range(run.first, run.first + run.n):
                if self.made.value[k]:
                    self.promise(<int32_t>self.made.value[k], i, k)
        return 0

    cdef int bind_field(
        self, int32_t graph, const NamedField* field, uint8_t* faults, int32_t kind, int32_t definition
    ) except -1:
        """Bind the names of a field's elements, and note what is wrong with them.

        definition: the number of the sheet's first row among definitions, or -1 where its rows are none.
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
                    faults[row] = self.faults_of(text) | SEEN
                    self.bind(text, kind, -1, definition + row if definition >= 0 else -1)
            row += 1
        return 0

    cdef int faults_of(self, int32_t text) noexcept:
        """The meaning of a name where it is to be defined: flags of everything that it is already."""
        cdef int32_t i = self.bound[text]
        if i < 0:
            return 0
        return self.bindings[i].known if self.bindings[i].graph == self.frames[self.n_frames - 1].scope else SHADOWS

    cdef int run(self, bint stays) except -1:
        """Go through the nodes of the innermost scope and of those that open in it, until it is closed.

        stays: what the scope defines remains visible.
        """
        cdef Facts facts = self.facts
        cdef Sheet* graphs = facts.sheet("GraphProto")
        cdef List* used = facts.list_of("NodeProto", "input")
        cdef List* made = facts.list_of("NodeProto", "output")
        cdef Run* inputs = <Run*>facts.column("NodeProto", "input")
        cdef Run* outputs = <Run*>facts.column("NodeProto", "output")
        cdef Run* held = <Run*>facts.column("NodeProto", "attribute")
        cdef int32_t* single = <int32_t*>facts.column("AttributeProto", "g")
        cdef Run* several = <Run*>facts.column("AttributeProto", "graphs")
        cdef int several_edge = facts.edge("AttributeProto.graphs")
        cdef uint8_t* uses = self.uses
        cdef uint8_t* defined = self.defined
        cdef int32_t depth = self.n_frames
        cdef Frame* frame
        cdef int32_t i, text
        while self.n_frames >= depth:
            frame = &self.frames[self.n_frames - 1]
            if frame.nested < frame.last_nested:
                i = frame.nested
                frame.nested += 1
                if graphs.edge[i] == several_edge and graphs.parent[i] == frame.attribute - 1:
                    self.enter(i, -1)
                elif graphs.parent[i] == frame.attribute - 1:
                    frame.last_nested += 1  # the single graph of an attribute that has several, too
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
                # All graphs of the node are done: from here on it is what it makes.
                i = frame.node
                for k in range(outputs[i].first, outputs[i].first + outputs[i].n):
                    text = <int32_t>made.value[k]
                    if text:
                        defined[k] = self.faults_of(text) | SEEN
                        self.bind(text, NODE, i, k)
                frame.node += 1
                frame.attribute = -1
                continue
            if frame.node < frame.last:
                i = frame.node
                for k in range(inputs[i].first, inputs[i].first + inputs[i].n):
                    uses[k] = self.resolve(<int32_t>used.value[k], frame.scope, &self.makers[k], &self.sources[k])
                frame.attribute = held[i].first
                frame.last_attribute = held[i].first + held[i].n
                continue
            self.leave(frame)
            if not stays or self.n_frames > depth:
                self.take_off(frame.bindings, frame.promises)
            self.n_frames -= 1
        return 0

    cdef int resolve(self, int32_t text, int32_t scope, int32_t* maker, int32_t* definition) noexcept:
        cdef int32_t i
        maker[0] = -1
        definition[0] = -1
        if text == 0:
            return OMITTED
        i = self.bound[text]
        if i >= 0:
            maker[0] = self.bindings[i].node
            definition[0] = self.bindings[i].definition
            return self.bindings[i].kind if self.bindings[i].graph == scope else OUTER
        i = self.promised[text]
        if i < 0:
            return NOWHERE
        maker[0] = self.promises[i].node
        definition[0] = self.promises[i].definition
        return LATER if self.promises[i].graph == scope else NOT_YET

    cdef int leave(self, Frame* frame) except -1:
        """Look at what a scope gives away, and at what it describes, once all is defined."""
        cdef Facts facts = self.facts
        cdef const int32_t* names = self.infos.names
        cdef List* given
        cdef uint8_t* named = self.named
        cdef uint8_t* functions = self.functions
        cdef int32_t maker, definition
        cdef int32_t row
        cdef Run run
        if frame.graph >= 0:
            self.resolve_field(frame, &self.results, self.outputs)
            self.resolve_field(frame, &self.infos, named)
            return 0
        given = facts.list_of("FunctionProto", "output")
        run = (<Run*>facts.column("FunctionProto", "output"))[frame.function]
        for row in range(run.first, run.first + run.n):
            functions[row] = self.resolve(<int32_t>given.value[row], frame.scope, &maker, &definition)
        run = (<Run*>facts.column("FunctionProto", "value_info"))[frame.function]
        for row in range(run.first, run.first + run.n):
            named[row] = self.resolve(names[row], frame.scope, &maker, &definition)
            if named[row] == NODE:
                self.targets[row] = definition
        return 0

    cdef void resolve_field(self, const Frame* frame, const NamedField* field, uint8_t* meanings) noexcept:
        """Note what the names of a field's elements stand for."""
        cdef int32_t row = field.runs[frame.graph].first
        cdef int32_t left = field.runs[frame.graph].n
        cdef int32_t maker, definition
        while left:
            if field.sheet.edge[row] == field.edge:
                left -= 1
                meanings[row] = self.resolve(field.names[row], frame.scope, &maker, &definition)
                if meanings[row] == NODE:
                    self.targets[row] = definition
            row += 1
