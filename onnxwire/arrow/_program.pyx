# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The program of a walk: made once of a class and a table, from what `TableSpec` says in words."""
from cython cimport critical_section, final
from libc.stdint cimport uint32_t, uint64_t

from onnxwire.engine.memory cimport calloc, free
from onnxwire.engine.table cimport BYTES, ENUM, STRING, TableRef

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8(object) except NULL

from functools import cache, partial

from onnxwire.arrow.tables import plan_of

_SOURCES = {
    "": NOTHING, "field": FIELD, "type name": TYPE_NAME, "list": LIST, "choice": CHOICE, "count": COUNT, "inner": INNER,
    "inner count": INNER_COUNT, "graph": GRAPH, "path": PATH, "owner": OWNER, "index": INDEX, "node": NODE,
    "role": ROLE, "offset": OFFSET, "size": SIZE, "parameters": PARAMETERS, "type": TYPE, "storage": STORAGE,
    "storage size": STORAGE_SIZE, "storage elements": STORAGE_ELEMENTS, "uses": USES,
}

# Which AttributeProto.type a repeated field is the value of.
_CHOICES = {"floats": 6, "ints": 7, "strings": 8}


cdef Field* field_of(Table* table, str name) except NULL:
    return &table.fields[<Py_ssize_t>(<dict><object>table.names)[name]]


cdef const char* field_name(const Field* field) except NULL:
    """The name of a field; the descriptor keeps it."""
    return PyUnicode_AsUTF8((<object>field.descriptor).name)


@final
cdef class Program:
    """The program of a walk from messages of a class that fills a table; made once of each class and table."""

    @critical_section
    def __cinit__(self, root, spec):
        cdef TableRef ref = root._table
        cdef Step* step
        cdef Table* table
        cdef Plan* plan
        cdef uint32_t number
        self.owner = ref.owner
        self.graph_table = self.table("GraphProto")
        self.function_table = self.table("FunctionProto")
        self.node_table = self.table("NodeProto")
        self.wanted = self.table(spec.message)
        self.know()
        self.plans = <Plan*>calloc(ref.owner.n_tables, sizeof(Plan))
        self.steps = <Step*>calloc(len(spec.columns), sizeof(Step))
        if self.plans == NULL or self.steps == NULL:
            raise MemoryError
        for name, fields in plan_of(root.DESCRIPTOR, spec).items():
            table = self.table(name)
            plan = &self.plans[table - ref.owner.tables]
            plan.follows = <Follow*>calloc(len(fields), sizeof(Follow))
            if plan.follows == NULL:
                raise MemoryError
            for field, flags in fields.items():
                plan.follows[plan.n].field = field_of(table, field)
                plan.follows[plan.n].flags = flags
                number = plan.follows[plan.n].field.number
                plan.numbers |= <uint64_t>1 << number if number < 64 else ~<uint64_t>0
                plan.n += 1
        for i, (_, _, source, field) in enumerate(spec.columns):
            if source == "":
                continue
            step = &self.steps[self.n_steps]
            self.n_steps += 1
            step.source = _SOURCES[source]
            step.column = i
            outer, _, inner = field.partition(".")
            if outer:
                step.field = field_of(self.wanted, outer)
                step.slot = step.field.slot
            if inner:
                step.inner = field_of(step.field.sub, inner)
            step.choice = _CHOICES.get(field, -1)
            if step.source == FIELD and (step.field.type == STRING or step.field.type == BYTES):
                step.source = TEXT
            if step.source == FIELD and step.field.type == ENUM:
                self.enum_name = partial(name_in, (<object>step.field.descriptor).enum_type.values_by_number)
            if step.source == USES:
                self.has_uses = True
                self.plans[self.graph_table - ref.owner.tables].makers = <uint64_t>1 << self.known.graph_output.number

    cdef int know(self) except -1:
        """Look up the fields that are asked for by name."""
        cdef Known* known = &self.known
        cdef Table* tensor = self.table("TensorProto")
        known.attribute_type = field_of(self.table("AttributeProto"), "type")
        known.tensor_type = field_of(self.table("TypeProto"), "tensor_type")
        known.sparse_tensor_type = field_of(self.table("TypeProto"), "sparse_tensor_type")
        known.elem_type = field_of(known.tensor_type.sub, "elem_type")
        known.shape = field_of(known.tensor_type.sub, "shape")
        known.dim = field_of(known.shape.sub, "dim")
        known.dim_value = field_of(known.dim.sub, "dim_value")
        known.dim_param = field_of(known.dim.sub, "dim_param")
        known.input = field_of(self.node_table, "input")
        known.output = field_of(self.node_table, "output")
        known.graph_input = field_of(self.graph_table, "input")
        known.graph_output = field_of(self.graph_table, "output")
        known.graph_node = field_of(self.graph_table, "node")
        known.initializer = field_of(self.graph_table, "initializer")
        known.sparse_initializer = field_of(self.graph_table, "sparse_initializer")
        known.function_input = field_of(self.function_table, "input")
        known.function_node = field_of(self.function_table, "node")
        known.values = field_of(known.sparse_initializer.sub, "values")
        known.tensor_name = field_of(tensor, "name")
        known.value_name = field_of(known.graph_output.sub, "name")
        known.raw_data = field_of(tensor, "raw_data")
        known.data_location = field_of(tensor, "data_location")
        known.data_type = field_of(tensor, "data_type")
        known.external_data = field_of(tensor, "external_data")
        known.dims = field_of(tensor, "dims")
        known.string_data = field_of(tensor, "string_data")
        known.segment = field_of(tensor, "segment")
        known.begin = field_of(known.segment.sub, "begin")
        known.end = field_of(known.segment.sub, "end")
        known.key = field_of(known.external_data.sub, "key")
        known.value = field_of(known.external_data.sub, "value")
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.plans != NULL:
            for i in range(self.owner.n_tables):
                free(self.plans[i].follows)
        free(self.plans)
        free(self.steps)

    cdef Table* table(self, str name) except NULL:
        cdef Table* table = &self.owner.tables[<Py_ssize_t>self.owner.indices[f"onnx.{name}"]]
        if table.n_fields > WIDEST:
            raise MemoryError
        return table


@cache
@critical_section
def program_of(root, spec):
    """The program of a class and a table."""
    return Program(root, spec)


@critical_section
def name_in(names, number):
    """The name of an enum's number; of one that has none, its digits."""
    return names[number].name if number in names else str(number)
