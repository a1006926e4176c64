# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Resolves the names of node inputs, outputs of graphs and functions, and value_info, with `index/names`.

`Scopes.walk` visits each graph once, in the order of its nodes. A name is the id of a string, so that resolving a name
is one array access.
"""
from cython cimport critical_section, final
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from onnxwire.checker._facts cimport Facts
from onnxwire.checker._sheets cimport List, Run, Sheet
from onnxwire.index.interning cimport grow_array
from onnxwire.engine.memory cimport calloc, free
from onnxwire.index.names cimport INITIALIZER, INPUT, NODE, Definition, Kind, Names

cdef enum:
    # Meanings of a name at its use; `checker/scopes.py` has the same numbers.
    UNSEEN = 0           # the walk does not reach the use
    OMITTED = 1          # the empty name
    # INPUT, INITIALIZER and NODE are 2, 3 and 4, as in `index/names`
    OUTER = 5            # a value of an enclosing graph or function, of any kind
    PRODUCED_LATER = 6       # the output of a later node of the same graph or function, or of the node itself
    PRODUCED_AFTER_OWNER = 7  # the output of an outer node that contains the use, or of a node after that node
    NOWHERE = 8          # no visible value has the name

    SEEN = 128           # a flag of definitions that the walk has visited

cdef struct OpenScope:
    # A graph or function that the walk has entered and not yet left.
    int32_t graph        # row of GraphProto, -1 for a function
    int32_t function     # row of FunctionProto, -1 for a graph
    int32_t level        # index of an element of `Names.levels`
    int32_t node         # the next node
    int32_t nodes_end
    int32_t attribute    # the next attribute of the node; -1 until the inputs of the node are resolved
    int32_t attributes_end
    int32_t nested       # the next graph of the attribute in row `attribute - 1`
    int32_t nested_end


cdef struct NamedField:
    # A field of graphs whose elements have names.
    const Run* runs          # the field's run in each graph
    const Sheet* sheet       # the sheet of the elements; elements of other fields may be between them
    int parent_field                 # index of the field in `Facts.parent_field_names`
    const int32_t* names     # the name of each row; for sparse tensors, indexed by `values` of the row
    const int32_t* values    # for sparse tensors, the row of the values in TensorProto; otherwise NULL


@final
cdef class Scopes:
    """The meanings of names; 0 for a name that the walk does not reach.

    uses: the meaning of each element of NodeProto.input. function_output_meanings: the meaning of each element of
    FunctionProto.output. output_meanings, value_info_meanings: the meanings of rows of ValueInfoProto that are outputs
    of graphs, or value_info of graphs or functions.
    node_output_flags: for each element of NodeProto.output, flags of the earlier meanings of its name, returned by
    `Names.define`, and SEEN.
    graph_input_flags, initializer_flags, sparse_initializer_flags: such flags for rows of ValueInfoProto, TensorProto
    and SparseTensorProto.
    producer_of: for each element of NodeProto.input, the node that produces the value, or -1. definition_of: the number
    of that value's definition: elements of NodeProto.output are numbered first, then rows of ValueInfoProto, then rows
    of TensorProto; -1 for any other value. scope_of: the row of the graph that defines the value, or -1; functions are
    numbered after all graphs.
    described_outputs: for each row of ValueInfoProto that is an output of a graph, or value_info of a graph or
    function, the element of NodeProto.output that it describes, or -1.
    """
    cdef Facts facts
    cdef readonly bytearray uses, output_meanings, value_info_meanings, function_output_meanings
    cdef readonly bytearray node_output_flags, graph_input_flags, initializer_flags, sparse_initializer_flags
    cdef Py_ssize_t n_uses            # number of elements of NodeProto.input
    cdef Py_ssize_t n_value_infos     # number of rows of ValueInfoProto
    cdef int32_t* producer_of
    cdef int32_t* definition_of
    cdef int32_t* described_outputs
    # The numbers of the first ValueInfoProto and the first TensorProto among definitions, and of the first function
    # among scopes.
    cdef int32_t first_value, first_tensor, n_graphs
    cdef int32_t* scope_of
    cdef Names names
    cdef OpenScope* frames   # a stack, the innermost scope last
    cdef int32_t n_frames, frames_capacity
    # The fields of graphs are looked up once, since a model may have a million graphs.
    cdef NamedField graph_inputs, graph_initializers, graph_sparse_initializers, graph_outputs, graph_value_infos
    cdef const Run* graph_nodes
    cdef const Run* function_nodes
    cdef const Run* function_inputs
    cdef const int64_t* function_input_names
    cdef const Run* node_outputs
    cdef const List* output_list

    @critical_section
    def __cinit__(self, Facts facts):
        cdef List* input_list = facts.list_of("NodeProto", "input")
        self.facts = facts
        self.uses = bytearray(input_list.n)
        self.node_output_flags = bytearray(facts.list_of("NodeProto", "output").n)
        self.graph_input_flags = bytearray(facts.sheet("ValueInfoProto").n)
        self.output_meanings = bytearray(facts.sheet("ValueInfoProto").n)
        self.value_info_meanings = bytearray(facts.sheet("ValueInfoProto").n)
        self.initializer_flags = bytearray(facts.sheet("TensorProto").n)
        self.sparse_initializer_flags = bytearray(facts.sheet("SparseTensorProto").n)
        self.function_output_meanings = bytearray(facts.list_of("FunctionProto", "output").n)
        self.n_uses = input_list.n
        self.n_value_infos = facts.sheet("ValueInfoProto").n
        if self.defined_count() > 0x7FFFFFFF:
            raise MemoryError("the document has more than 2**31 - 1 values")
        self.first_value = facts.list_of("NodeProto", "output").n
        self.first_tensor = self.first_value + <int32_t>self.n_value_infos
        self.n_graphs = <int32_t>facts.sheet("GraphProto").n
        self.graph_inputs = self.named_field("input", "ValueInfoProto")
        self.graph_initializers = self.named_field("initializer", "TensorProto")
        self.graph_sparse_initializers = self.named_field("sparse_initializer", "SparseTensorProto")
        self.graph_outputs = self.named_field("output", "ValueInfoProto")
        self.graph_value_infos = self.named_field("value_info", "ValueInfoProto")
        self.graph_nodes = <Run*>facts.column("GraphProto", "node")
        self.function_nodes = <Run*>facts.column("FunctionProto", "node")
        self.function_inputs = <Run*>facts.column("FunctionProto", "input")
        self.function_input_names = facts.list_of("FunctionProto", "input").value
        self.node_outputs = <Run*>facts.column("NodeProto", "output")
        self.output_list = facts.list_of("NodeProto", "output")
        self.producer_of = <int32_t*>calloc(input_list.n + 1, 4)
        self.definition_of = <int32_t*>calloc(input_list.n + 1, 4)
        self.described_outputs = <int32_t*>calloc(self.n_value_infos + 1, 4)
        self.scope_of = <int32_t*>calloc(input_list.n + 1, 4)
        if (
            self.producer_of == NULL or self.definition_of == NULL or self.described_outputs == NULL
            or self.scope_of == NULL
        ):
            raise MemoryError
        memset(self.producer_of, 0xFF, input_list.n * 4)
        memset(self.definition_of, 0xFF, input_list.n * 4)
        memset(self.described_outputs, 0xFF, self.n_value_infos * 4)
        memset(self.scope_of, 0xFF, input_list.n * 4)
        self.names = Names()
        self.names.reserve(<int32_t>facts.texts.n)

    def __dealloc__(self):
        free(self.producer_of)
        free(self.definition_of)
        free(self.described_outputs)
        free(self.scope_of)
        free(self.frames)

    @critical_section
    def producer_column(self):
        """Return `producer_of` as the bytes of int32 numbers."""
        return self.facts.buffer_of(<size_t>self.producer_of, self.n_uses * 4, self)

    @critical_section
    def definition_column(self):
        """Return `definition_of` as the bytes of int32 numbers."""
        return self.facts.buffer_of(<size_t>self.definition_of, self.n_uses * 4, self)

    @critical_section
    def scope_column(self):
        """Return `scope_of` as the bytes of int32 numbers."""
        return self.facts.buffer_of(<size_t>self.scope_of, self.n_uses * 4, self)

    @critical_section
    def described_column(self):
        """Return `described_outputs` as the bytes of int32 numbers."""
        return self.facts.buffer_of(<size_t>self.described_outputs, self.n_value_infos * 4, self)

    cdef NamedField named_field(self, str field, str sheet) except *:
        """Return the columns of a field of GraphProto whose elements are rows of a sheet."""
        cdef NamedField columns
        columns.runs = <Run*>self.facts.column("GraphProto", field)
        columns.sheet = self.facts.sheet(sheet)
        columns.parent_field = self.facts.parent_field(f"GraphProto.{field}")
        # A sparse tensor has the name of its values.
        is_sparse = sheet == "SparseTensorProto"
        columns.names = <int32_t*>self.facts.column("TensorProto" if is_sparse else sheet, "name")
        columns.values = <int32_t*>self.facts.column(sheet, "values") if is_sparse else NULL
        return columns

    cdef int64_t defined_count(self):
        """Return the number of values that `definition_of` can refer to."""
        cdef int64_t n = self.facts.list_of("NodeProto", "output").n
        return n + self.facts.sheet("ValueInfoProto").n + self.facts.sheet("TensorProto").n

    @critical_section
    def walk(self, int32_t main_graph, list algorithms, list graphs, list functions):
        """Record the meanings of all names in the scopes of a document.

        main_graph: the row of the main graph, -1 if there is none. algorithms: rows of graphs in which the main graph's
            values are visible. graphs, functions: rows of graphs and functions that see only their own values.
        """
        if main_graph >= 0:
            self.enter(main_graph, -1)
            self.walk_scope(True)
            for graph in algorithms:
                self.enter(graph, -1)
                self.walk_scope(False)
            self.names.leave()
        for graph in graphs if main_graph >= 0 else graphs + algorithms:
            self.enter(graph, -1)
            self.walk_scope(False)
        for function in functions:
            self.enter(-1, function)
            self.walk_scope(False)

    cdef int enter(self, int32_t graph, int32_t function) except -1:
        """Enter a scope: define its inputs, initializers and node outputs, and record the earlier meanings of names.

        graph, function: the row of either; the other is -1.
        """
        cdef OpenScope* frame
        cdef Run nodes
        cdef int32_t i, k, name
        cdef const Run* run
        cdef uint8_t* node_output_flags = self.node_output_flags
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
        frame.nested = frame.nested_end = 0
        if graph >= 0:
            nodes = self.graph_nodes[graph]
            self.define_field(graph, &self.graph_inputs, self.graph_input_flags, INPUT, self.first_value)
            self.define_field(graph, &self.graph_initializers, self.initializer_flags, INITIALIZER, self.first_tensor)
            self.define_field(graph, &self.graph_sparse_initializers, self.sparse_initializer_flags, INITIALIZER, -1)
        else:
            nodes = self.function_nodes[function]
            run = &self.function_inputs[function]
            for i in range(run.first, run.first + run.n):
                name = <int32_t>self.function_input_names[i]
                if name:
                    self.names.define(name, INPUT, -1, -1)
        frame.node = nodes.first
        frame.nodes_end = nodes.first + nodes.n
        self.names.levels[frame.level].position = frame.node
        for i in range(frame.node, frame.nodes_end):
            run = &self.node_outputs[i]
            for k in range(run.first, run.first + run.n):
                if self.output_list.value[k]:
                    node_output_flags[k] = self.names.define(<int32_t>self.output_list.value[k], NODE, i, k) | SEEN
        return 0

    cdef int define_field(
        self, int32_t graph, const NamedField* field, uint8_t* flags, Kind kind, int32_t definition
    ) except -1:
        """Define the names of a field's elements, and record the earlier meanings of these names.

        flags: the column of flags to fill, by row of the sheet.
        definition: the number of the sheet's first row among definitions, or -1 if its rows are not definitions.
        """
        cdef int32_t row = field.runs[graph].first
        cdef int32_t n_remaining = field.runs[graph].n
        cdef int32_t name_row, name
        while n_remaining:
            if field.sheet.parent_field[row] == field.parent_field:
                n_remaining -= 1
                name_row = field.values[row] if field.values != NULL else row
                name = field.names[name_row] if name_row >= 0 else 0
                if name:
                    flags[row] = (
                        self.names.define(name, kind, -1, definition + row if definition >= 0 else -1) | SEEN
                    )
            row += 1
        return 0

    cdef int walk_scope(self, bint keeps_values) except -1:
        """Resolve the inputs of the nodes of the innermost scope and of its nested scopes, and leave it.

        keeps_values: whether the definitions of the scope remain visible.
        """
        cdef Facts facts = self.facts
        cdef Sheet* graphs = facts.sheet("GraphProto")
        cdef List* input_list = facts.list_of("NodeProto", "input")
        cdef Run* input_runs = <Run*>facts.column("NodeProto", "input")
        cdef Run* attribute_runs = <Run*>facts.column("NodeProto", "attribute")
        cdef int32_t* graph_of_attribute = <int32_t*>facts.column("AttributeProto", "g")
        cdef Run* graphs_of_attribute = <Run*>facts.column("AttributeProto", "graphs")
        cdef int graphs_field = facts.parent_field("AttributeProto.graphs")
        cdef uint8_t* uses = self.uses
        cdef int32_t depth = self.n_frames
        cdef OpenScope* frame
        cdef int32_t i
        while self.n_frames >= depth:
            frame = &self.frames[self.n_frames - 1]
            if frame.nested < frame.nested_end:
                i = frame.nested
                frame.nested += 1
                if graphs.parent_field[i] == graphs_field and graphs.parent[i] == frame.attribute - 1:
                    self.enter(i, -1)
                elif graphs.parent[i] == frame.attribute - 1:
                    frame.nested_end += 1  # the graph in `g`, between those in `graphs`, is visited separately
                continue
            if frame.attribute >= 0 and frame.attribute < frame.attributes_end:
                i = frame.attribute
                frame.attribute += 1
                if graphs_of_attribute[i].n:
                    frame.nested = graphs_of_attribute[i].first
                    frame.nested_end = graphs_of_attribute[i].first + graphs_of_attribute[i].n
                if graph_of_attribute[i] >= 0:
                    self.enter(graph_of_attribute[i], -1)
                continue
            if frame.attribute >= 0:
                # All graphs of the node are done: its outputs are visible from here on.
                frame.node += 1
                self.names.levels[frame.level].position = frame.node
                frame.attribute = -1
                continue
            if frame.node < frame.nodes_end:
                i = frame.node
                for k in range(input_runs[i].first, input_runs[i].first + input_runs[i].n):
                    uses[k] = self.resolve(
                        <int32_t>input_list.value[k], &self.producer_of[k], &self.definition_of[k], &self.scope_of[k]
                    )
                frame.attribute = attribute_runs[i].first
                frame.attributes_end = attribute_runs[i].first + attribute_runs[i].n
                continue
            self.resolve_outputs(frame)
            if not keeps_values or self.n_frames > depth:
                self.names.leave()
            self.n_frames -= 1
        return 0

    cdef int resolve(self, int32_t name, int32_t* producer, int32_t* definition, int32_t* scope) noexcept:
        """Return the meaning of a name in the innermost scope.

        producer, definition, scope: receive the elements of `producer_of`, `definition_of` and `scope_of`.
        """
        cdef Definition* value
        cdef bint is_own
        producer[0] = definition[0] = scope[0] = -1
        if name == 0:
            return OMITTED
        value = self.names.find(name)
        if value == NULL:
            return NOWHERE
        producer[0] = value.node
        definition[0] = value.source
        scope[0] = self.names.levels[value.level].owner
        is_own = value.level == self.names.n_levels - 1
        if self.names.is_produced(value):
            return value.kind if is_own else OUTER
        return PRODUCED_LATER if is_own else PRODUCED_AFTER_OWNER

    cdef int resolve_outputs(self, OpenScope* frame) except -1:
        """Record the meanings of the outputs and value_info of a scope whose names are all defined."""
        cdef Facts facts = self.facts
        cdef const int32_t* names = self.graph_value_infos.names
        cdef List* output_names
        cdef uint8_t* value_info_meanings = self.value_info_meanings
        cdef uint8_t* function_output_meanings = self.function_output_meanings
        cdef int32_t producer, definition, scope
        cdef int32_t row
        cdef Run run
        if frame.graph >= 0:
            self.resolve_field(frame, &self.graph_outputs, self.output_meanings)
            self.resolve_field(frame, &self.graph_value_infos, value_info_meanings)
            return 0
        output_names = facts.list_of("FunctionProto", "output")
        run = (<Run*>facts.column("FunctionProto", "output"))[frame.function]
        for row in range(run.first, run.first + run.n):
            function_output_meanings[row] = self.resolve(
                <int32_t>output_names.value[row], &producer, &definition, &scope
            )
        run = (<Run*>facts.column("FunctionProto", "value_info"))[frame.function]
        for row in range(run.first, run.first + run.n):
            value_info_meanings[row] = self.resolve(names[row], &producer, &definition, &scope)
            if value_info_meanings[row] == NODE:
                self.described_outputs[row] = definition
        return 0

    cdef void resolve_field(self, const OpenScope* frame, const NamedField* field, uint8_t* meanings) noexcept:
        """Record the meanings of the names of a field's elements."""
        cdef int32_t row = field.runs[frame.graph].first
        cdef int32_t n_remaining = field.runs[frame.graph].n
        cdef int32_t producer, definition, scope
        while n_remaining:
            if field.sheet.parent_field[row] == field.parent_field:
                n_remaining -= 1
                meanings[row] = self.resolve(field.names[row], &producer, &definition, &scope)
                if meanings[row] == NODE:
                    self.described_outputs[row] = definition
            row += 1
