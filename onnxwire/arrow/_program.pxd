# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The program of a walk: which fields of which messages it follows, and which columns a row fills."""
from cython cimport final
from libc.stdint cimport int64_t, uint64_t

from onnxwire.engine.table cimport Field, Table, TableOwner

cdef enum:
    WIDEST = 64              # fields of a message type
    DEEPER = 1               # flags of a plan: rows may be in the field
    ROW = 2                  # its elements are rows

cdef enum Source:
    NOTHING                  # another column's source fills it
    TEXT                     # a field of strings or bytes
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

cdef struct Step:
    Source source
    int column               # and those after it that the source fills too
    int slot                 # of the field
    Field* field
    Field* inner
    int64_t choice

cdef struct Follow:
    # A field that a walk follows.
    Field* field
    int flags                # DEEPER | ROW

cdef struct Plan:
    int n
    Follow* follows          # in the order of fields
    uint64_t numbers         # of the fields, as bits; all of them where one is too large for that
    uint64_t makers          # of fields that make rows of the message that they are in: outputs of a graph, for `uses`

cdef struct Known:
    # Fields that rows of values, attributes, tensors and uses ask for; of messages that can't be reached, too.
    Field* attribute_type
    Field* tensor_type
    Field* sparse_tensor_type
    Field* elem_type
    Field* shape
    Field* dim
    Field* dim_value
    Field* dim_param
    Field* input
    Field* output
    Field* graph_input
    Field* graph_output
    Field* graph_node
    Field* initializer
    Field* sparse_initializer
    Field* function_input
    Field* function_node
    Field* values
    Field* tensor_name
    Field* value_name
    Field* raw_data
    Field* data_location
    Field* data_type
    Field* external_data
    Field* dims
    Field* string_data
    Field* segment
    Field* begin
    Field* end
    Field* key
    Field* value


@final
cdef class Program:
    cdef TableOwner owner            # of the C tables
    cdef Known known
    cdef Plan* plans                 # by table
    cdef Table* wanted
    cdef Table* graph_table
    cdef Table* function_table
    cdef Table* node_table
    cdef Step* steps
    cdef int n_steps
    cdef object enum_name            # of a number
    cdef bint has_uses

    cdef int know(self) except -1
    cdef Table* table(self, str name) except NULL


cdef Field* field_of(Table* table, str name) except NULL
cdef const char* field_name(const Field* field) except NULL
