# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns in Arrow's memory layout, whose strings point into a document."""
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from onnxwire.engine.document cimport Document

cdef enum:
    INLINE_BYTES = 12        # maximum size of a string that is stored in its string view

cdef enum Type:              # the type of a column, or of the items of a list
    STRING                   # `data` contains StringViews; after `copy_strings` it contains offsets of `text`
    INT64
    INT32
    FLOAT

cdef struct StringView:
    # An element of a string column, in Arrow's layout. A string of up to 12 bytes is stored after `size`. For a longer
    # string, the first 4 bytes, the index of a buffer in Block.buffers and the offset in the buffer are stored.
    int32_t size
    uint8_t[4] prefix
    int32_t buffer_index
    int32_t offset

cdef struct Values:
    int64_t n                # number of values
    int64_t capacity         # number of values that `data` has space for; 0 while all are null, except `rows` of lists
    int64_t n_nulls          # number of null values
    int64_t expected         # expected number of values, 0 if unknown
    uint8_t* valid           # one bit per value, 1 for a valid value; NULL while no value is null, or capacity is 0
    uint8_t* data            # `width` bytes per value
    uint8_t* text            # the text of copied strings, for which `data` contains n + 1 int32 offsets; else NULL
    int width                # number of bytes per value

cdef struct Column:
    Type type
    bint is_list
    Values rows              # the values of the rows; for lists, n + 1 int32 offsets of items, the first of which is 0
    Values items             # for lists, the values of the items

cdef struct TextBuffer:
    # Bytes that string views refer to, see _columns.pyx: a part of the document, or an arena.
    const uint8_t* p
    int64_t n                # number of bytes
    uint8_t* owned           # the allocated memory of an arena; NULL for a part of the document
    int64_t capacity         # the size of the allocated memory

cdef struct Block:
    # The table. `Columns.finish` sets n_rows, is_copied, buffer_sizes and the metadata.
    int64_t n_rows
    int32_t n_columns
    bint is_copied           # whether string columns contain offsets and text instead of string views
    Column* columns
    char** names             # the name of each column, in UTF-8
    TextBuffer* buffers      # the buffers that string views refer to
    int32_t n_buffers
    int32_t buffers_capacity  # number of buffers that `buffers` has space for
    int64_t* buffer_sizes    # the size of each buffer in bytes; exported as the last buffer of a column
    char* metadata           # the metadata of the schema, in Arrow's format
    size_t metadata_size


cdef class Columns:
    cdef Block block
    cdef Document document             # pinned while string views refer to its memory; else None
    cdef int32_t arena_index           # the index of the buffer that text is copied to, or -1
    cdef int32_t last_buffer_index     # the index of the last buffer that is a part of the document, or -1
    cdef readonly int64_t n_repaired   # number of strings that were not valid UTF-8
    cdef readonly list names           # the name of each column
    cdef bint is_pinned                # whether the columns have pinned the document, and must unpin it

    cdef void expect(self, int64_t rows) noexcept
    cdef int add_text(self, Values* values, const uint8_t* p, uint64_t n) except -1
    cdef int add_copied_text(self, Values* values, const uint8_t* p, uint64_t n) except -1
    cdef int make_string_view(self, const uint8_t* p, uint64_t n, StringView* view) except -1
    cdef int make_copied_string_view(self, const uint8_t* p, uint64_t n, StringView* view) except -1
    cdef int32_t add_buffer(self) except -1
    cdef void free_buffers(self) noexcept
    cdef void unpin(self) noexcept
    cdef int finish(self, bint copies) except -1
    cdef object value(self, Type type, Values* values, int64_t i)


cdef int grow_values(Values* values, int64_t extra) except -1
cdef int allocate_validity(Values* values) except -1
cdef int raise_too_many_items() except -1
cdef int add_list(Column* column, int64_t row) except -1


cdef inline bint is_valid(const Values* values, int64_t i) noexcept nogil:
    """Return whether the value at an index is not null, if `capacity` is not 0."""
    return values.valid == NULL or values.valid[i >> 3] >> (i & 7) & 1


cdef inline const uint8_t* text_of_string_view(const Block* block, const StringView* view) noexcept nogil:
    """Return the text of a string view."""
    if view.size <= INLINE_BYTES:
        return <const uint8_t*>view + 4
    return block.buffers[view.buffer_index].p + view.offset


cdef inline int mark_null(Values* values) except -1:
    """Mark the next value as null. Its memory must be allocated."""
    if values.valid == NULL:
        allocate_validity(values)
    values.valid[values.n >> 3] &= <uint8_t>~(1 << (values.n & 7))
    values.n_nulls += 1
    return 0


cdef inline int add_null(Values* values) except -1:
    """Add a null, whose bytes are zero."""
    cdef uint8_t* p
    if values.n_nulls == values.n and values.capacity == 0:
        # While all values are null, no memory is allocated; many columns have no other values.
        values.n += 1
        values.n_nulls += 1
        return 0
    if values.n >= values.capacity:
        grow_values(values, 1)
    mark_null(values)
    p = values.data + values.n * values.width
    if values.width == sizeof(StringView):
        memset(p, 0, sizeof(StringView))
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


cdef inline int add_string_view(Values* values, const StringView* view) except -1:
    if values.n >= values.capacity:
        grow_values(values, 1)
    (<StringView*>values.data)[values.n] = view[0]
    values.n += 1
    return 0


cdef inline int add_value(Values* values, int64_t i) except -1:
    """Add a copy of the value at an index."""
    cdef StringView view
    if values.capacity == 0 or (values.valid != NULL and not values.valid[i >> 3] >> (i & 7) & 1):
        return add_null(values)
    if values.width == sizeof(StringView):
        view = (<StringView*>values.data)[i]  # a copy, since `data` may move
        return add_string_view(values, &view)
    return add_number(values, (<int64_t*>values.data)[i] if values.width == 8 else (<int32_t*>values.data)[i])
