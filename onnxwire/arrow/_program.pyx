# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The program of a walk: a `TableSpec` compiled for the C tables of a message class."""
from cython cimport critical_section, final
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.memory cimport calloc, free
from onnxwire.engine.table cimport BYTES, ENUM, STRING, TableRef

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8(object) except NULL

from functools import cache, partial

# The names of the sources in tables.py, in the order of the enum `Source`.
_SOURCES = (
    "", "field", "type name", "list", "choice", "count", "inner", "inner count", "graph", "path", "owner", "index",
    "node", "role", "offset", "size", "parameters", "type", "storage", "storage size", "storage elements", "uses",
)
# The names of the fields that walks read, in the order of the struct `Fields`.
_FIELDS = (
    "AttributeProto.type", "AttributeProto.name",
    "TypeProto.tensor_type", "TypeProto.sparse_tensor_type", "TypeProto.Tensor.elem_type", "TypeProto.Tensor.shape",
    "TypeProto.SparseTensor.elem_type", "TypeProto.SparseTensor.shape",
    "TensorShapeProto.dim", "TensorShapeProto.Dimension.dim_value", "TensorShapeProto.Dimension.dim_param",
    "NodeProto.input", "NodeProto.output",
    "GraphProto.input", "GraphProto.output", "GraphProto.node", "GraphProto.initializer",
    "GraphProto.sparse_initializer", "SparseTensorProto.values", "ValueInfoProto.name",
    "FunctionProto.input", "FunctionProto.node", "FunctionProto.attribute_proto",
    "TensorProto.name", "TensorProto.dims", "TensorProto.data_type", "TensorProto.segment",
    "TensorProto.Segment.begin", "TensorProto.Segment.end", "TensorProto.string_data", "TensorProto.raw_data",
    "TensorProto.external_data", "TensorProto.data_location", "StringStringEntryProto.key",
    "StringStringEntryProto.value",
)
# For the fields with the source `choice`, the AttributeProto.type whose values the field stores: FLOATS, INTS, STRINGS.
_CHOICES = {"floats": 6, "ints": 7, "strings": 8}


cdef Field* field_of(Table* table, str name) except NULL:
    """Return the field with this name in a table."""
    return &table.fields[<Py_ssize_t>(<dict><object>table.names)[name]]


cdef const char* field_name(const Field* field) except NULL:
    """Return the name of a field. The text is memory of the field's descriptor."""
    return PyUnicode_AsUTF8((<object>field.descriptor).name)


@final
cdef class Program:
    """A TableSpec compiled for the tables of a message class."""

    @critical_section
    def __cinit__(self, root, spec):
        cdef Step* step
        cdef Field** fields = <Field**>&self.fields
        cdef Py_ssize_t i
        self.owner = (<TableRef>root._table).owner
        self.graph_table = self.table("GraphProto")
        self.function_table = self.table("FunctionProto")
        self.node_table = self.table("NodeProto")
        self.row_table = self.table(spec.message)
        for i, name in enumerate(_FIELDS):
            message, _, field = name.rpartition(".")
            fields[i] = field_of(self.table(message), field)
        self.steps = <Step*>calloc(len(spec.columns), sizeof(Step))
        self.plans = <Plan*>calloc(self.owner.n_tables, sizeof(Plan))
        if self.steps == NULL or self.plans == NULL:
            raise MemoryError
        self.uses_column = -1
        for i, (_, _, source, field) in enumerate(spec.columns):
            if source == "":
                continue
            step = &self.steps[self.n_steps]
            self.n_steps += 1
            step.source = <Source><int>_SOURCES.index(source)
            step.column = <int>i
            own_name, _, child_name = field.partition(".")
            if own_name:
                step.field = field_of(self.row_table, own_name)
            if child_name:
                step.child_field = field_of(step.field.sub, child_name)
            step.choice = _CHOICES.get(field, -1)
            if step.source == FIELD and (step.field.type == STRING or step.field.type == BYTES):
                step.source = TEXT
            if step.source == FIELD and step.field.type == ENUM:
                self.enum_name = partial(enum_value_name, (<object>step.field.descriptor).enum_type.values_by_number)
            if step.source == USES:
                self.uses_column = step.column
        self.make_plans(spec)

    cdef int make_plans(self, spec) except -1:
        """Make the plan of each table: the fields that the walk follows, with their flags."""
        cdef Table* tables = self.owner.tables
        cdef Field* field
        cdef Plan* plan
        cdef Py_ssize_t i
        cdef uint32_t slot
        cdef int flags
        cdef bint is_done = False
        while not is_done:  # repeated until no flag changes, since tables refer to each other in cycles
            is_done = True
            for i in range(self.owner.n_tables):
                if tables[i].n_fields > MAX_FIELDS:
                    raise MemoryError  # no message type of ONNX has more than 64 fields
                plan = &self.plans[i]
                for slot in range(tables[i].n_fields):
                    field = &tables[i].fields[slot]
                    if field.sub == NULL:
                        continue
                    flags = LEADS_TO_ROWS if self.plans[field.sub - tables].numbers else 0
                    if field.sub == self.row_table and (not spec.fields or full_name(field) in spec.fields):
                        flags |= ROW
                    if field == self.fields.graph_output and self.uses_column >= 0:
                        flags |= USE
                    if flags != plan.flags[slot]:
                        is_done = False
                        plan.flags[slot] = <uint8_t>flags
                        plan.numbers |= <uint64_t>1 << field.number if field.number < 64 else ~<uint64_t>0
        for i in range(self.owner.n_tables):
            plan = &self.plans[i]
            for slot in range(tables[i].n_fields):
                if plan.flags[slot]:
                    plan.slots[plan.n] = <uint8_t>slot
                    plan.n += 1
        return 0

    def __dealloc__(self):
        free(self.plans)
        free(self.steps)

    cdef Table* table(self, str name) except NULL:
        """Return the table of a message type of ONNX."""
        return &self.owner.tables[<Py_ssize_t>self.owner.indices[f"onnx.{name}"]]


cdef str full_name(const Field* field):
    """Return the name of a field and of its message, such as GraphProto.node."""
    return f"{(<object>field.table.descriptor).name}.{(<object>field.descriptor).name}"


@cache
@critical_section
def program_of(root, spec):
    """Return the program of a message class and a TableSpec."""
    return Program(root, spec)


@critical_section
def enum_value_name(values_by_number, number):
    """Return the name of an enum's number, or the digits of a number without a name."""
    return values_by_number[number].name if number in values_by_number else str(number)
