# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns in Arrow's memory layout, whose strings point into a document."""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from onnxwire.engine.document cimport Document

cdef enum:
    INLINE_BYTES = 12        # bytes of a string that fits in its view

cdef enum Type:              # the type of a column, or of the items of a list
    STRING                   # View; after `copy_strings` offsets and text
    INT64
    INT32
    FLOAT

cdef struct View:
    # A string of up to 12 bytes is in the view itself, after `size`. For a longer string, the view contains the first
    # 4 bytes, and the position: the index of a stretch and an offset in it.
    int32_t size
    uint8_t[4] prefix
    int32_t stretch
    int32_t offset

cdef struct Values:
    int64_t n
    int64_t capacity         # number of values that `data` has space for; 0 as long as all values are null
    int64_t nulls            # number of null values
    int64_t expected         # expected number of values, 0 if unknown
    uint8_t* valid           # a bit per value, NULL while no value is null
    uint8_t* data            # `width` bytes per value
    uint8_t* text            # copied strings, whose `data` is n + 1 offsets of int32; else NULL
    int width

cdef struct Column:
    Type type
    bint is_list
    Values rows              # lists only: the offsets of the items, n + 1 int32 from 0 on
    Values items             # lists only: the values of the items

cdef struct Stretch:
    # Bytes that views point into, see _columns.pyx: a part of the document, or an arena.
    const uint8_t* p
    int64_t n
    uint8_t* owned           # the arena; NULL for a part of the document
    int64_t capacity

cdef struct Block:
    int64_t rows
    int32_t n_columns
    bint is_copied           # strings are offsets and text, not views
    Column* columns
    char** names
    Stretch* stretches
    int32_t n_stretches
    int32_t stretches_capacity
    int64_t* sizes           # the sizes of the stretches
    char* metadata           # the metadata of the schema, in Arrow's form
    size_t metadata_size


cdef class Columns:
    cdef Block block
    cdef Document document           # pinned while views point into it; else None
    cdef int32_t arena               # the stretch that new text is copied to, or -1
    cdef int32_t last_stretch        # the stretch of the document that was used last, or -1
    cdef readonly int64_t repaired   # strings that were not valid UTF-8
    cdef readonly list names
    cdef bint is_pinned

    cdef void expect(self, int64_t rows) noexcept
    cdef int add_text(self, Values* values, const uint8_t* p, uint64_t n) except -1
    cdef int add_copied_text(self, Values* values, const uint8_t* p, uint64_t n) except -1
    cdef int make_view(self, const uint8_t* p, uint64_t n, View* view) except -1
    cdef int make_copied_view(self, const uint8_t* p, uint64_t n, View* view) except -1
    cdef int32_t add_stretch(self) except -1
    cdef void free_stretches(self) noexcept
    cdef void unpin(self) noexcept
    cdef int finish(self, bint copies) except -1
    cdef object value(self, Type type, Values* values, int64_t i)


cdef int grow_values(Values* values, int64_t extra) except -1
cdef int allocate_validity(Values* values) except -1
cdef int raise_too_many_items() except -1
cdef int add_list(Column* column, int64_t row) except -1


cdef inline bint is_valid(const Values* values, int64_t i) noexcept nogil:
    return values.valid == NULL or values.valid[i >> 3] >> (i & 7) & 1


cdef inline const uint8_t* view_text(const Block* block, const View* view) noexcept nogil:
    """Return the text of a view."""
    if view.size <= INLINE_BYTES:
        return <const uint8_t*>view + 4
    return block.stretches[view.stretch].p + view.offset


cdef inline int mark_null(Values* values) except -1:
    """Set the next value to null; its memory is allocated already."""
    if values.valid == NULL:
        allocate_validity(values)
    values.valid[values.n >> 3] &= <uint8_t>~(1 << (values.n & 7))
    values.nulls += 1
    return 0


cdef inline int add_null(Values* values) except -1:
    cdef uint8_t* p
    if values.nulls == values.n and values.capacity == 0:
        # While all values are null, no memory is allocated; many columns have no other values.
        values.n += 1
        values.nulls += 1
        return 0
    if values.n >= values.capacity:
        grow_values(values, 1)
    mark_null(values)
    p = values.data + values.n * values.width
    if values.width == sizeof(View):
        memset(p, 0, sizeof(View))
    elif values.width == 8:
        memset(p, 0, 8)
    else:
        memset(p, 0, 4)
    values.n += 1
    return 0


cdef inline int end_list(Column* column, bint is_null) except -1:
    """End a list of the items that were added since the previous list."""
    if column.items.n > INT32_MAX:
        raise_too_many_items()
    if column.rows.n + 2 > column.rows.capacity:
        grow_values(&column.rows, 2)
    if is_null:
        mark_null(&column.rows)
    column.rows.n += 1
    (<int32_t*>column.rows.data)[column.rows.n] = <int32_t>column.items.n
    return 0


cdef inline int add_number(Values* values, int64_t number) except -1:
    """Add an integer, or the bits of a float."""
    if values.n >= values.capacity:
        grow_values(values, 1)
    if values.width == 8:
        (<int64_t*>values.data)[values.n] = number
    else:
        (<int32_t*>values.data)[values.n] = <int32_t>number
    values.n += 1
    return 0


cdef inline int add_view(Values* values, const View* view) except -1:
    if values.n >= values.capacity:
        grow_values(values, 1)
    (<View*>values.data)[values.n] = view[0]
    values.n += 1
    return 0


cdef inline int add_value(Values* values, int64_t i) except -1:
    """Add a copy of the value at an index."""
    cdef View view
    if values.capacity == 0 or (values.valid != NULL and not values.valid[i >> 3] >> (i & 7) & 1):
        return add_null(values)
    if values.width == sizeof(View):
        view = (<View*>values.data)[i]  # a copy, since `data` may move
        return add_view(values, &view)
    return add_number(values, (<int64_t*>values.data)[i] if values.width == 8 else (<int32_t*>values.data)[i])
