# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sheets: the growing columns of all messages of one type."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from onnxwire.engine.table cimport Slot, Table

cdef enum:
    MAX_CAPACITY = 1 << 29  # an array with this capacity or more is not enlarged: row numbers have 32 bits

cdef enum:               # flags of a row
    CLASH = 1            # the wire data has two members of a oneof
    MERGED = 2           # the message is encoded in several pieces
    UNKNOWN = 4          # a record of the message is an unknown field, by its number, wire type or enum value

cdef enum Column:        # what one row of a field's column contains
    NUMBER               # int64: the value, or the raw bits of a float; 0 if absent
    TEXT                 # int32: the id of the string; 0 if absent or empty
    SPAN                 # Slot: offset and length of the bytes
    CHILD                # int32: the row of the message in its sheet; -1 if absent
    CHILDREN             # Run: n rows in their sheet from `first` on, not counting rows of other fields between them
    LIST                 # Run: rows in the field's own list, without gaps
    PAYLOAD              # Records: numbers or bytes that are not read

cdef struct Run:
    # The elements of a repeated field in one message.
    int32_t first        # row of the first element; arbitrary if n is 0
    int32_t n

cdef struct Records:
    # The records of a payload field in one message.
    int64_t first        # offset of the first record's tag
    int64_t records      # number of records
    int64_t items        # number of elements; -1 if it is unknown, since packed varints were not counted
    int64_t size         # number of bytes of the values

cdef struct List:
    # The elements of one repeated string or number field, of all messages.
    int32_t n
    int32_t capacity
    int32_t* parent      # row of the message
    int32_t* index       # index in the field
    int64_t* start       # offset of the value
    int64_t* value       # id of the string, or the number

cdef struct Sheet:
    const Table* table
    int32_t n            # number of rows
    int32_t capacity
    int32_t n_scanned    # the number of scanned rows
    const uint8_t** p    # first byte of the message
    uint64_t* length     # number of bytes
    int32_t* parent      # row in the sheet of the parent's type; -1 for the root
    int32_t* index       # index in the repeated field; 0 for a singular field
    int16_t* parent_field  # index in `Facts.parent_field_names` of the field that contains the message; -1 for the root
    uint8_t* depth       # number of messages around the message
    uint8_t* flags       # CLASH, MERGED and UNKNOWN
    uint32_t* present    # bit i is set if the field of slot i is present
    int32_t* part        # index in `Facts.parts` of the first further piece, -1 for none; NULL while no row has any
    int32_t n_initialized  # the number of rows whose columns are initialized
    Column* kinds        # indexed by slot
    void** columns       # indexed by slot; NULL until a row has a value
    List* lists          # indexed by slot
    Sheet** child_sheets  # the sheets of message fields, by slot
    int16_t* parent_fields       # for message fields, the index in `Facts.parent_field_names`, by slot

# Return a larger capacity for a full sheet or list, or -1 if row numbers are exhausted.
#
# parents, row, at: the message that gets a new child or element, and the position of the scan in it. The capacity is
# an estimate of the final number and 1/8 more, but at least 1.5 times the old capacity. If half of the parents have
# been scanned, the estimate is twice the present number; it is at most MAX_GROWTH times that number. So arrays are
# rarely copied; memory that is not written is not resident.
cdef int32_t next_capacity(int32_t capacity, const Sheet* parents, int32_t row, const uint8_t* at) noexcept nogil
# Increase the capacity of a sheet. Return -1 if capacity is -1, or if memory is exhausted.
cdef int widen_sheet(Sheet* sheet, int32_t capacity) noexcept nogil
# Initialize the columns of the next rows; few at a time, so that unused memory is not touched.
cdef void initialize_rows(Sheet* sheet) noexcept nogil
# Allocate the column of a field at its first value. Return -1 if memory is exhausted.
cdef int allocate_column(Sheet* sheet, uint32_t slot) noexcept nogil
# Grow the full list of a field. Return -1 if memory or row numbers are exhausted.
#
# row: the message that gets a new element. at: the address of the element's value.
cdef int grow_list(Sheet* sheet, uint32_t slot, int32_t row, const uint8_t* at) noexcept nogil
cdef void free_sheet(Sheet* sheet) noexcept nogil


cdef inline size_t element_bytes(Column kind) noexcept nogil:
    """Return the size in bytes of an element of a column."""
    if kind == NUMBER or kind == CHILDREN or kind == LIST:
        return 8
    if kind == SPAN:
        return sizeof(Slot)
    if kind == PAYLOAD:
        return sizeof(Records)
    return 4


cdef inline void clear_rows(Sheet* sheet, uint32_t slot, int32_t first, int32_t last) noexcept nogil:
    """Mark the field as absent in the rows from first to last - 1: all values are 0, or -1 in a CHILD column."""
    cdef size_t size = element_bytes(sheet.kinds[slot])
    memset(
        <uint8_t*>sheet.columns[slot] + <size_t>first * size, 0xFF if sheet.kinds[slot] == CHILD else 0,
        <size_t>(last - first) * size,
    )


cdef inline int32_t add_row(
    Sheet* sheet, const uint8_t* p, uint64_t n, int32_t parent, int16_t parent_field, int32_t index, uint8_t depth
) noexcept nogil:
    """Add an empty row to a sheet that is not full. Return its number."""
    cdef int32_t row = sheet.n
    if row == sheet.n_initialized:
        initialize_rows(sheet)
    sheet.p[row] = p
    sheet.length[row] = n
    sheet.parent[row] = parent
    sheet.index[row] = index
    sheet.parent_field[row] = parent_field
    sheet.depth[row] = depth
    sheet.n = row + 1
    return row


cdef inline int add_element(
    Sheet* sheet, uint32_t slot, int32_t row, const uint8_t* at, int64_t start, int64_t value
) noexcept nogil:
    """Append an element to the list of a field. Return -1 if memory or row numbers are exhausted.

    row: the message that contains the element. at, start: the address and the offset of the element's value.
    """
    cdef List* elements = &sheet.lists[slot]
    cdef Run* run = &(<Run*>sheet.columns[slot])[row]
    if elements.n == elements.capacity and grow_list(sheet, slot, row, at):
        return -1
    if run.n == 0:
        run.first = elements.n
    elements.parent[elements.n] = row
    elements.index[elements.n] = run.n
    elements.start[elements.n] = start
    elements.value[elements.n] = value
    elements.n += 1
    run.n += 1
    return 0
