# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Tables of schemas as C structs: field number -> slot, type, table of a message field's value."""
from cython cimport final
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef enum FieldType:
    # protobuf's codes (FieldDescriptor.TYPE_*).
    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18

cdef enum:
    MAX_DENSE_NUMBERS = 64   # field numbers below this are looked up in one step, in `dense`
    FREE_LIST_CAPACITY = 32  # maximum number of objects in a free list

cdef struct Slot:
    # The result of one pass over a message for one field. p == NULL: absent. Singular number: p is the address of its
    # value, n its raw bits. Singular string, bytes or message: p and n are the span of its last value. Repeated: p is
    # the tag of the first record, n the number of records; a packed run is one record. Edited values are
    # described in overlay.pxd; n of a changed sequence is the number of its elements.
    const uint8_t* p
    uint64_t n

cdef struct Field:
    uint32_t number
    uint8_t type
    uint8_t wire             # wire type of one element
    uint8_t size             # bytes of an element in memory: 1, 4, 8; 0 for spans
    bint repeated
    bint closed              # a closed enum: records with unknown values are unknown fields
    uint32_t slot
    uint32_t n_peers
    uint32_t* peers          # slots of the other members of the field's oneof
    uint32_t n_values
    int32_t* values          # the values of a closed enum, ascending
    Table* table             # the table of the message that has the field
    Table* sub               # the table of a message field's value
    void* get                # object (*)(object view, void* field)
    void* set                # int (*)(object view, PyObject* value, void* field)
    bint packed              # encoded as packed runs
    PyObject* descriptor     # FieldDescriptor; borrowed from the owner
    PyObject* default        # borrowed from the owner; NULL for a repeated field

cdef struct Table:
    uint32_t n_fields
    Field* fields            # the fields in ascending order of their numbers
    uint16_t[MAX_DENSE_NUMBERS] dense  # number -> index in `fields` + 1; 0 for an unknown field
    # Tag of one byte -> index in `fields` + 1. 0 for an unknown field, another wire type than that of one element, a
    # number of fixed size, a closed enum, whose values must be checked, and for indices of 255 and more.
    uint8_t[128] quick
    PyObject** field_names   # the names of `fields`, for lookups by identity; borrowed from the owner
    PyTypeObject* cls
    PyObject* descriptor     # borrowed from the owner
    PyObject* names          # dict: name of a field -> its index in `fields`, of a oneof -> -1; borrowed from the owner
    bint has_closed_runs     # has a repeated closed enum, whose packed runs may contain unknown fields
    PyObject* free_views[FREE_LIST_CAPACITY]  # memory of destroyed views, for new ones
    int n_free


cdef inline Field* find_field(const Table* table, uint32_t number) noexcept nogil:
    """Return the field with a number, or NULL."""
    if number < MAX_DENSE_NUMBERS:
        return &table.fields[table.dense[number] - 1] if table.dense[number] else NULL
    return find_sparse_field(table, number)


cdef inline Field* find_sparse_field(const Table* table, uint32_t number) noexcept nogil:
    cdef uint32_t low = 0
    cdef uint32_t high = table.n_fields
    cdef uint32_t middle
    while low < high:
        middle = (low + high) // 2
        if table.fields[middle].number < number:
            low = middle + 1
        else:
            high = middle
    if low < table.n_fields and table.fields[low].number == number:
        return &table.fields[low]
    return NULL


cdef inline uint64_t bit_of(const Table* table) noexcept nogil:
    """Return a 64-bit mask with one bit for the table. In schemas of more than 64 tables, several share a bit."""
    return <uint64_t>1 << (<size_t>table // sizeof(Table) & 63)


cdef inline bint has_value(const Field* field, int32_t value) noexcept nogil:
    """Return whether a closed enum has the value."""
    cdef uint32_t low = 0
    cdef uint32_t high = field.n_values
    cdef uint32_t middle
    if value >= 0 and <uint32_t>value < high and field.values[value] == value:  # numbered from 0 without a gap
        return True
    while low < high:
        middle = (low + high) // 2
        if field.values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < field.n_values and field.values[low] == value


@final
cdef class TableOwner:
    """The owner of the C tables of one schema, referenced by the classes made from them."""
    cdef Table* tables
    cdef Py_ssize_t n_tables
    cdef list borrowed_objects      # owned references to the Python objects that the tables borrow
    cdef dict indices               # full name -> index in `tables`


cdef class TableRef:
    """The attribute of a message class that refers to its table."""
    cdef TableOwner owner
    cdef Table* table
