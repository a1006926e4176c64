# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Allocates, initializes, grows and frees the columns and lists of sheets."""
from libc.string cimport memset

from onnxwire.engine.memory cimport free, malloc
from onnxwire.index.interning cimport grow_array

cdef enum:
    BATCH_ROWS = 256       # rows that are initialized at a time
    MAX_GROWTH = 8         # maximum estimated capacity, as a multiple of the present capacity


cdef int32_t next_capacity(int32_t capacity, const Sheet* parents, int32_t row, const uint8_t* at) noexcept nogil:
    cdef int64_t minimum = <int64_t>capacity + capacity // 2 + 16
    cdef double n_scanned = row
    cdef double estimate = 0
    if capacity >= MAX_CAPACITY:
        return -1
    if parents.p[row] <= at < parents.p[row] + parents.length[row]:
        n_scanned += <double>(at - parents.p[row]) / <double>parents.length[row]
    if n_scanned > 0:
        estimate = 1.125 * capacity * parents.n / n_scanned
    return <int32_t>max(minimum, <int64_t>min(estimate, <double>capacity * MAX_GROWTH, <double>MAX_CAPACITY))


cdef int widen_sheet(Sheet* sheet, int32_t capacity) noexcept nogil:
    cdef uint32_t i
    cdef int32_t old_capacity = sheet.capacity
    if capacity < 0:
        return -1
    if (
        grow_array(<void**>&sheet.p, capacity, 8) or grow_array(<void**>&sheet.length, capacity, 8)
        or grow_array(<void**>&sheet.parent, capacity, 4) or grow_array(<void**>&sheet.index, capacity, 4)
        or grow_array(<void**>&sheet.parent_field, capacity, 2) or grow_array(<void**>&sheet.depth, capacity, 1)
        or grow_array(<void**>&sheet.flags, capacity, 1) or grow_array(<void**>&sheet.present, capacity, 4)
    ):
        return -1
    for i in range(sheet.table.n_fields):
        if sheet.columns[i] != NULL and grow_array(&sheet.columns[i], capacity, element_bytes(sheet.kinds[i])):
            return -1
    if sheet.part != NULL:
        if grow_array(<void**>&sheet.part, capacity, 4):
            return -1
        memset(sheet.part + old_capacity, 0xFF, <size_t>(capacity - old_capacity) * 4)
    sheet.capacity = capacity
    return 0


cdef int allocate_column(Sheet* sheet, uint32_t slot) noexcept nogil:
    sheet.columns[slot] = malloc(<size_t>sheet.capacity * element_bytes(sheet.kinds[slot]))
    if sheet.columns[slot] == NULL:
        return -1
    clear_rows(sheet, slot, 0, sheet.n_initialized)
    return 0


cdef void initialize_rows(Sheet* sheet) noexcept nogil:
    cdef int32_t first = sheet.n_initialized
    cdef int32_t last = first + BATCH_ROWS if sheet.capacity - first > BATCH_ROWS else sheet.capacity
    cdef uint32_t i
    for i in range(sheet.table.n_fields):
        if sheet.columns[i] != NULL:
            clear_rows(sheet, i, first, last)
    memset(sheet.present + first, 0, <size_t>(last - first) * 4)
    memset(sheet.flags + first, 0, <size_t>(last - first))
    sheet.n_initialized = last


cdef int grow_list(Sheet* sheet, uint32_t slot, int32_t row, const uint8_t* at) noexcept nogil:
    cdef List* elements = &sheet.lists[slot]
    cdef int32_t capacity = next_capacity(elements.capacity, sheet, row, at)
    if (
        capacity < 0
        or grow_array(<void**>&elements.parent, capacity, 4) or grow_array(<void**>&elements.index, capacity, 4)
        or grow_array(<void**>&elements.start, capacity, 8) or grow_array(<void**>&elements.value, capacity, 8)
    ):
        return -1
    elements.capacity = capacity
    return 0


cdef void free_sheet(Sheet* sheet) noexcept nogil:
    cdef uint32_t i
    if sheet.table != NULL:
        for i in range(sheet.table.n_fields):
            if sheet.columns != NULL:
                free(sheet.columns[i])
            if sheet.lists != NULL:
                free(sheet.lists[i].parent)
                free(sheet.lists[i].index)
                free(sheet.lists[i].start)
                free(sheet.lists[i].value)
    free(sheet.kinds)
    free(sheet.columns)
    free(sheet.lists)
    free(sheet.child_sheets)
    free(sheet.parent_fields)
    free(sheet.p)
    free(sheet.length)
    free(sheet.parent)
    free(sheet.index)
    free(sheet.parent_field)
    free(sheet.depth)
    free(sheet.flags)
    free(sheet.present)
    free(sheet.part)
