# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The program of a walk: the fields that the walk follows, and the columns that a row fills."""
from cython cimport final
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from onnxwire.engine.table cimport Field, Table, TableOwner

cdef enum:
    MAX_FIELDS = 64          # maximum number of fields of a message type
    LEADS_TO_ROWS = 1        # flag of a field: messages in the field may contain rows or uses
    ROW = 2                  # flag of a field: messages in the field are rows
    USE = 4                  # flag of a field: messages in the field are uses of values: outputs of graphs

cdef enum Source:            # the source of a column's values; tables.py describes the sources
    SHARED                   # a preceding column fills this one, too
    FIELD
    TYPE_NAME
    LIST
    CHOICE
    COUNT
    INNER
    INNER_COUNT
    GRAPH
    PATH
    OWNER
    INDEX
    NODE
    ROLE
    OFFSET
    SIZE
    PARAMETERS
    TYPE
    STORAGE
    STORAGE_SIZE
    STORAGE_ELEMENTS
    USES
    TEXT                     # a FIELD of strings or bytes

cdef struct Step:
    Source source
    int column               # the first column that the source fills
    Field* field
    Field* child_field       # the field of a child message, for INNER and INNER_COUNT
    int64_t choice           # the AttributeProto.type whose values the field stores, for CHOICE

cdef struct Plan:
    # The fields of a message type that a walk follows.
    uint32_t n                   # number of these fields
    uint8_t[MAX_FIELDS] slots    # their slots
    uint8_t[MAX_FIELDS] flags    # by slot: the flags of the field, 0 for a field that the walk does not follow
    uint64_t numbers             # the numbers of these fields, as bits; all bits if a number exceeds 63

cdef struct Fields:
    # The fields that walks read, in the order of the tuple `_FIELDS`.
    Field *attribute_type, *attribute_name
    Field *tensor_type, *sparse_tensor_type, *elem_type, *shape, *sparse_elem_type, *sparse_shape
    Field *dim, *dim_value, *dim_param
    Field *node_input, *node_output
    Field *graph_input, *graph_output, *graph_node, *initializer, *sparse_initializer, *sparse_values, *value_name
    Field *function_input, *function_node, *attribute_proto
    Field *tensor_name, *dims, *data_type, *segment, *segment_begin, *segment_end, *string_data, *raw_data
    Field *external_data, *data_location, *entry_key, *entry_value


@final
cdef class Program:
    cdef TableOwner owner            # the owner of the C tables
    cdef Fields fields
    cdef Plan* plans                 # the plan of each table
    cdef Table* row_table            # the table of the rows
    cdef Table* graph_table
    cdef Table* function_table
    cdef Table* node_table
    cdef Step* steps
    cdef int n_steps
    cdef int uses_column             # the first column that USES fills, -1 if there is none
    cdef object enum_name            # returns the name of an enum value by its number; None if no column needs it

    cdef Table* table(self, str name) except NULL
    cdef int make_plans(self, spec) except -1

    cdef inline const Plan* plan_of(self, const Table* table) noexcept nogil:
        return self.plans + (table - self.owner.tables)


cdef Field* field_of(Table* table, str name) except NULL
cdef const char* field_name(const Field* field) except NULL
