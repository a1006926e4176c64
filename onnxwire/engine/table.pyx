# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Compiles descriptors into C tables."""
from cython cimport critical_section, final
from cpython.mem cimport PyObject_Free

from onnxwire._varint cimport WIRE_FIXED32, WIRE_FIXED64, WIRE_LEN, WIRE_VARINT
from onnxwire.engine.instances cimport forbid_subclasses
from onnxwire.engine.memory cimport calloc, free

# Wire types, and sizes in memory, by field type. Types that are not in WIRE_TYPES have WIRE_VARINT; types that are not
# in ELEMENT_BYTES have no fixed size.
cdef dict WIRE_TYPES = {
    DOUBLE: WIRE_FIXED64, FIXED64: WIRE_FIXED64, SFIXED64: WIRE_FIXED64,
    FLOAT: WIRE_FIXED32, FIXED32: WIRE_FIXED32, SFIXED32: WIRE_FIXED32,
    STRING: WIRE_LEN, BYTES: WIRE_LEN, MESSAGE: WIRE_LEN,
}
cdef dict ELEMENT_BYTES = {
    DOUBLE: 8, FIXED64: 8, SFIXED64: 8, INT64: 8, UINT64: 8, SINT64: 8,
    FLOAT: 4, FIXED32: 4, SFIXED32: 4, INT32: 4, UINT32: 4, SINT32: 4, ENUM: 4, BOOL: 1,
}


cdef int build_table(TableOwner self, Table* table, descriptor) except -1:
    """Fill the table of one descriptor."""
    cdef list fields = descriptor.fields
    cdef Field* field
    cdef Py_ssize_t i, k
    cdef dict names = {row.name: i for i, row in enumerate(fields)}
    for oneof in descriptor.oneofs:
        names[oneof.name] = -1
    self.borrowed_objects.append(names)
    table.names = <PyObject*>names
    table.descriptor = <PyObject*>descriptor
    table.fields = <Field*>calloc(len(fields) or 1, sizeof(Field))
    if table.fields == NULL:
        raise MemoryError
    table.n_fields = len(fields)
    table.field_names = <PyObject**>calloc(len(fields) or 1, sizeof(PyObject*))
    if table.field_names == NULL:
        raise MemoryError
    for i, row in enumerate(fields):
        table.field_names[i] = <PyObject*>row.name
        self.borrowed_objects.append(row.name)
    for i, row in enumerate(fields):
        field = &table.fields[i]
        field.number = row.number
        field.type = row.type
        field.wire = WIRE_TYPES.get(row.type, WIRE_VARINT)
        field.size = ELEMENT_BYTES.get(row.type, 0)
        field.repeated = row.is_repeated
        field.packed = row.is_packed
        field.slot = i
        field.table = table
        field.descriptor = <PyObject*>row
        default = row.default_value
        self.borrowed_objects += (row, default)
        if not field.repeated:
            field.default = <PyObject*>default
        if field.number < MAX_DENSE_NUMBERS:
            table.dense[field.number] = i + 1
        if row.message_type is not None:
            field.sub = &self.tables[self.indices[row.message_type.full_name]]
        if row.enum_type is not None and row.enum_type.is_closed:
            set_values(field, sorted({value.number for value in row.enum_type.values}))
            table.has_closed_runs |= field.repeated
        if field.number < 16 and i < 255 and not field.closed and field.wire in (WIRE_LEN, WIRE_VARINT):
            table.quick[field.number << 3 | field.wire] = i + 1
        if row.containing_oneof is not None:
            set_peers(field, [
                k for k, peer in enumerate(fields)
                if peer.containing_oneof is row.containing_oneof and peer is not row
            ])
    return 0


cdef int set_values(Field* field, list numbers) except -1:
    """Mark a field as one of a closed enum with these values. numbers: the values in ascending order."""
    cdef Py_ssize_t i
    field.closed = True
    field.values = <int32_t*>calloc(len(numbers) or 1, sizeof(int32_t))
    if field.values == NULL:
        raise MemoryError
    field.n_values = len(numbers)
    for i in range(len(numbers)):
        field.values[i] = numbers[i]
    return 0


cdef int set_peers(Field* field, list slots) except -1:
    """Set `peers` of a field to `slots`, the slots of the other members of its oneof."""
    cdef Py_ssize_t i
    field.peers = <uint32_t*>calloc(len(slots) or 1, sizeof(uint32_t))
    if field.peers == NULL:
        raise MemoryError
    field.n_peers = len(slots)
    for i in range(len(slots)):
        field.peers[i] = slots[i]
    return 0


@final
cdef class TableOwner:

    @critical_section
    def __cinit__(self, list descriptors):
        """descriptors: those of all messages of a schema, each with fields sorted by number."""
        self.borrowed_objects = [*descriptors]
        self.indices = {descriptor.full_name: i for i, descriptor in enumerate(descriptors)}
        self.tables = <Table*>calloc(len(descriptors) or 1, sizeof(Table))
        if self.tables == NULL:
            raise MemoryError
        self.n_tables = len(descriptors)
        for i, descriptor in enumerate(descriptors):
            build_table(self, &self.tables[i], descriptor)

    def __dealloc__(self):
        cdef Table* table
        cdef Py_ssize_t i
        cdef uint32_t k
        if self.tables == NULL:
            return
        for i in range(self.n_tables):
            table = &self.tables[i]
            while table.n_free:
                table.n_free -= 1
                PyObject_Free(table.free_views[table.n_free])
            if table.fields != NULL:
                for k in range(table.n_fields):
                    free(table.fields[k].values)
                    free(table.fields[k].peers)
                free(table.fields)
            free(table.field_names)
        free(self.tables)


cdef class TableRef:

    def __cinit__(self):
        if type(self) is TableRef:
            raise TypeError("the tables of message classes are made by load_schema()")


forbid_subclasses(TableRef)
