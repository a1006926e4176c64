# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns in Arrow's memory layout, whose strings point into a document.

A string column is an array of string views, which have 16 bytes each. A string view of more than 12 bytes of text
refers to a text buffer: a part of the document that contains strings, or an arena with text that the document does not
contain. A new buffer of the first kind starts if the next string is before the last such buffer, is more than GAP_BYTES
after its end, or ends 2 GiB or more after its start. So buffers do not contain large weights, and a document may have
any size. `Columns.finish` can replace the string views by offsets and copied text, so that the document may be closed.
Source: Arrow Columnar Format 1.5, "Variable-size Binary View Layout", "Variable-size Binary Layout" and "Variable-size
List Layout".
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.unicode cimport PyUnicode_DecodeUTF8
from cython cimport critical_section
from libc.stdint cimport INT32_MAX, INT64_MAX
from libc.string cimport memcpy, memset

from onnxwire._varint cimport load64
from onnxwire.engine.advise cimport ow_request_huge_pages
from onnxwire.engine.memory cimport calloc, free, malloc, realloc
from onnxwire.engine.partial cimport ensure_resident

from onnxwire.errors import DecodeError, FieldValueError

cdef enum:
    GAP_BYTES = 1 << 16          # maximum number of bytes between successive strings of a buffer
    MAX_ARENA_BYTES = 1 << 30
    MAX_BUFFERS = 1 << 29        # so that neither their number nor the next capacity exceeds an int32

TYPES = {"string": STRING, "int64": INT64, "int32": INT32, "float": FLOAT}


cdef inline int width_of(Type type) noexcept nogil:
    """Return the number of bytes of a value."""
    return sizeof(StringView) if type == STRING else 8 if type == INT64 else 4


cdef inline bint is_ascii(const uint8_t* p, uint64_t n) noexcept nogil:
    """Return whether no byte has its highest bit set."""
    cdef const uint8_t* last
    cdef uint64_t bits = 0
    cdef uint64_t i
    if n < 8:
        for i in range(n):
            bits |= p[i]
        return bits < 0x80
    last = p + n - 8
    bits = load64(last)  # may overlap the word before it
    while p < last:
        bits |= load64(p)
        p += 8
    return bits & <uint64_t>0x8080808080808080 == 0


cdef void* reserve(size_t size) noexcept:
    """Allocate an array, with huge pages if it is large and the system has them. Return NULL on failure."""
    cdef void* p = malloc(size)
    if p != NULL:
        ow_request_huge_pages(p, size)
    return p


cdef int grow_values(Values* values, int64_t extra) except -1:
    """Allocate memory for `extra` more values."""
    cdef int64_t capacity = values.n + extra
    cdef void* new_memory
    if capacity <= values.capacity:
        return 0
    capacity = max(capacity + capacity // 2 + 16, values.expected)
    if values.capacity == 0 and values.n:
        return make_nulls(values, capacity)
    if values.data == NULL and values.expected:
        new_memory = reserve(<size_t>capacity * values.width)
    else:
        new_memory = realloc(values.data, <size_t>capacity * values.width)
    if new_memory == NULL:
        raise MemoryError
    values.data = <uint8_t*>new_memory
    if values.valid != NULL:
        new_memory = realloc(values.valid, <size_t>(capacity + 7) // 8)
        if new_memory == NULL:
            raise MemoryError
        values.valid = <uint8_t*>new_memory
        # Bits beyond the last value are set: later values are valid by default.
        memset(values.valid + (values.capacity + 7) // 8, 0xFF, (capacity + 7) // 8 - (values.capacity + 7) // 8)
    values.capacity = capacity
    return 0


cdef int make_nulls(Values* values, int64_t capacity) except -1:
    """Allocate memory for values that are all null. Use zeroed pages if at least half of the capacity is null."""
    if values.n < capacity // 2:
        values.data = <uint8_t*>reserve(<size_t>capacity * values.width)
        if values.data != NULL:
            memset(values.data, 0, <size_t>values.n * values.width)
    else:
        values.data = <uint8_t*>calloc(<size_t>capacity, values.width)
    values.valid = <uint8_t*>malloc(<size_t>(capacity + 7) // 8)
    if values.data == NULL or values.valid == NULL:
        raise MemoryError
    memset(values.valid, 0xFF, (capacity + 7) // 8)
    memset(values.valid, 0, values.n // 8)
    if values.n & 7:
        values.valid[values.n >> 3] = <uint8_t>(0xFF << (values.n & 7))
    values.capacity = capacity
    return 0


cdef int allocate_validity(Values* values) except -1:
    """Allocate the validity bits, and mark all values as valid."""
    cdef size_t size = <size_t>(values.capacity + 7) // 8
    values.valid = <uint8_t*>malloc(size)
    if values.valid == NULL:
        raise MemoryError
    memset(values.valid, 0xFF, size)
    return 0


cdef int raise_too_many_items() except -1:
    raise FieldValueError(f"a column of lists has at most {INT32_MAX:,} items, and the model has more")


cdef int add_list(Column* column, int64_t row) except -1:
    """Add a copy of the list of an earlier row."""
    cdef int32_t* offsets
    cdef int64_t i
    cdef int64_t stop
    if not is_valid(&column.rows, row):
        return end_list(column, True)
    offsets = <int32_t*>column.rows.data
    stop = offsets[row + 1]
    for i in range(offsets[row], stop):
        add_value(&column.items, i)
    return end_list(column, False)


cdef inline void make_inline_string_view(const uint8_t* p, uint64_t n, StringView* view) noexcept nogil:
    """Make a string view that contains a string of at most INLINE_BYTES bytes."""
    cdef uint8_t* text = <uint8_t*>view + 4
    memset(view, 0, sizeof(StringView))
    view.size = <int32_t>n
    # The copies have constant sizes and may overlap. So the compiler inlines them; a call of memcpy takes longer.
    if n >= 8:
        memcpy(text, p, 8)
        memcpy(text + n - 4, p + n - 4, 4)
    elif n >= 4:
        memcpy(text, p, 4)
        memcpy(text + n - 4, p + n - 4, 4)
    elif n:
        text[0] = p[0]
        text[n >> 1] = p[n >> 1]
        text[n - 1] = p[n - 1]


cdef void shrink(Values* values, int64_t n) noexcept:
    """Release the memory beyond n values."""
    cdef void* new_memory
    if values.data != NULL and n and n < values.capacity:
        new_memory = realloc(values.data, <size_t>n * values.width)
        if new_memory != NULL:
            values.data = <uint8_t*>new_memory
            values.capacity = n


@cython.final
@cython.no_gc
cdef class Columns:
    """The columns of a table.

    columns: (name, type) pairs; a type is a key of TYPES, in brackets for a list. document: the document that
    contains strings, or None. It can't be closed while string views may refer to its bytes.
    """

    @critical_section
    def __cinit__(self, columns, Document document=None):
        cdef Column* column
        cdef int32_t i = 0
        self.arena_index = self.last_buffer_index = -1
        self.names = [name for name, _ in columns]
        self.block.columns = <Column*>calloc(len(columns) + 1, sizeof(Column))
        self.block.names = <char**>calloc(len(columns) + 1, sizeof(char*))
        if self.block.columns == NULL or self.block.names == NULL:
            raise MemoryError
        for name, type in columns:
            column = &self.block.columns[i]
            column.is_list = type.startswith("[")
            column.type = TYPES[type.strip("[]")]
            column.items.width = column.rows.width = width_of(column.type)
            if column.is_list:
                column.rows.width = 4
                grow_values(&column.rows, 1)
                (<int32_t*>column.rows.data)[0] = 0
            self.block.names[i] = copy_string(name.encode())
            i += 1
            self.block.n_columns = i
        if document is not None:
            document.check_open()
            self.document = document
            document.pins += 1
            self.is_pinned = True

    @critical_section
    def __dealloc__(self):
        cdef int32_t i
        self.unpin()
        if self.block.columns != NULL:
            for i in range(self.block.n_columns):
                free_values(&self.block.columns[i].rows)
                free_values(&self.block.columns[i].items)
        if self.block.names != NULL:
            for i in range(self.block.n_columns):
                free(self.block.names[i])
        free(self.block.columns)
        free(self.block.names)
        self.free_buffers()
        free(self.block.metadata)

    cdef void free_buffers(self) noexcept:
        """Free the text buffers."""
        cdef int32_t i
        for i in range(self.block.n_buffers):
            free(self.block.buffers[i].owned)
        free(self.block.buffers)
        free(self.block.buffer_sizes)
        self.block.buffers = NULL
        self.block.buffer_sizes = NULL
        self.block.n_buffers = self.block.buffers_capacity = 0

    cdef void unpin(self) noexcept:
        """Release the document."""
        if self.is_pinned:
            self.document.pins -= 1
            self.is_pinned = False
        self.document = None

    @critical_section
    def __len__(self):
        return self.block.n_rows

    # --- called by walks that add rows

    cdef void expect(self, int64_t rows) noexcept:
        """Announce the number of rows that follow.

        The next allocation of a column has space for these rows, and for one item per list.
        """
        cdef Column* column
        cdef int32_t i
        for i in range(self.block.n_columns):
            column = &self.block.columns[i]
            column.rows.expected = column.rows.n + rows + 1
            column.items.expected = column.items.n + rows

    cdef int add_text(self, Values* values, const uint8_t* p, uint64_t n) except -1:
        """Add a string of the document.

        A string that is not UTF-8 is copied with U+FFFD for invalid bytes, and counted in `n_repaired`.
        """
        ensure_resident(p, n)
        if values.n >= values.capacity:
            grow_values(values, 1)
        if is_ascii(p, n) or is_utf8(p, n):
            if not try_make_string_view(self, p, n, &(<StringView*>values.data)[values.n]):
                self.make_string_view(p, n, &(<StringView*>values.data)[values.n])
        else:
            self.n_repaired += 1
            text = (<const char*>p)[:n].decode("utf-8", "replace").encode()
            self.make_copied_string_view(
                <const uint8_t*>PyBytes_AS_STRING(text), len(text), &(<StringView*>values.data)[values.n]
            )
        values.n += 1
        return 0

    cdef int add_copied_text(self, Values* values, const uint8_t* p, uint64_t n) except -1:
        """Add a copy of UTF-8 text that the document does not contain."""
        cdef StringView view
        self.make_copied_string_view(p, n, &view)
        return add_string_view(values, &view)

    # --- string views

    cdef int make_string_view(self, const uint8_t* p, uint64_t n, StringView* view) except -1:
        """Make a string view of bytes of the document. Raises DecodeError for 2 GiB or more."""
        if try_make_string_view(self, p, n, view):
            return 0
        if n > INT32_MAX:
            raise DecodeError(
                f"a string of {n:,} bytes; an Arrow string has at most {INT32_MAX:,}", p - self.document.start, "",
                self.document.name,
            )
        self.last_buffer_index = self.add_buffer()
        self.block.buffers[self.last_buffer_index].p = p
        try_make_string_view(self, p, n, view)
        return 0

    cdef int make_copied_string_view(self, const uint8_t* p, uint64_t n, StringView* view) except -1:
        """Make a string view of a copy of text: in the view itself if it fits, else in the arena.

        Raises FieldValueError for more than MAX_ARENA_BYTES.
        """
        cdef TextBuffer* arena
        cdef int64_t capacity
        cdef void* new_memory
        if n <= INLINE_BYTES:
            make_inline_string_view(p, n, view)
            return 0
        if n > MAX_ARENA_BYTES:
            raise FieldValueError(f"a text of {n:,} bytes has to be copied; the limit is {<int64_t>MAX_ARENA_BYTES:,}")
        if self.arena_index < 0 or self.block.buffers[self.arena_index].n + <int64_t>n > MAX_ARENA_BYTES:
            self.arena_index = self.add_buffer()
        arena = &self.block.buffers[self.arena_index]
        if arena.n + <int64_t>n > arena.capacity:
            capacity = (arena.n + <int64_t>n) * 2 + 256
            new_memory = realloc(arena.owned, <size_t>capacity)
            if new_memory == NULL:
                raise MemoryError
            arena.owned = <uint8_t*>new_memory
            arena.p = arena.owned
            arena.capacity = capacity
        memcpy(arena.owned + arena.n, p, n)
        view.size = <int32_t>n
        memcpy(view.prefix, p, 4)
        view.buffer_index = self.arena_index
        view.offset = <int32_t>arena.n
        arena.n += <int64_t>n
        return 0

    cdef int32_t add_buffer(self) except -1:
        """Add an empty text buffer. Return its index."""
        cdef int32_t capacity
        cdef void* new_memory
        if self.block.n_buffers == self.block.buffers_capacity:
            if self.block.n_buffers >= MAX_BUFFERS:
                raise MemoryError
            capacity = self.block.n_buffers * 2 + 4
            new_memory = realloc(self.block.buffers, <size_t>capacity * sizeof(TextBuffer))
            if new_memory == NULL:
                raise MemoryError
            self.block.buffers = <TextBuffer*>new_memory
            self.block.buffers_capacity = capacity
        memset(&self.block.buffers[self.block.n_buffers], 0, sizeof(TextBuffer))
        self.block.n_buffers += 1
        return self.block.n_buffers - 1

    # --- the finished table

    cdef int finish(self, bint copies) except -1:
        """Finish the table. copies: whether to replace string views by offsets and copied text.

        The document is released if strings are copied, or if no string view refers to its bytes.
        """
        cdef Column* column
        cdef Values* values
        cdef int32_t i
        self.block.n_rows = self.block.columns[0].rows.n
        for i in range(self.block.n_columns):
            column = &self.block.columns[i]
            values = &column.items if column.is_list else &column.rows
            if column.is_list:
                shrink(&column.rows, column.rows.n + 1)
            if values.capacity == 0 and values.n:
                make_nulls(values, values.n)
            if copies and column.type == STRING:
                copy_strings(&self.block, values, self.names[i])
            else:
                shrink(values, values.n)
        if copies:
            self.free_buffers()
            self.block.is_copied = True
        self.block.buffer_sizes = <int64_t*>calloc(self.block.n_buffers + 1, sizeof(int64_t))
        if self.block.buffer_sizes == NULL:
            raise MemoryError
        for i in range(self.block.n_buffers):
            self.block.buffer_sizes[i] = self.block.buffers[i].n
        if self.last_buffer_index < 0 or copies:
            self.unpin()
        metadata = encode_metadata({"onnxwire.repaired_strings": str(self.n_repaired)})
        self.block.metadata = copy_string(metadata)
        self.block.metadata_size = <size_t>len(metadata)
        return 0

    @critical_section
    def to_pylist(self, str name, int64_t start=0, int64_t stop=INT64_MAX):
        """Return the values of a column, or of its rows from `start` to before `stop`: str, int, float, lists or None.

        Raises ValueError for an unknown column.
        """
        cdef Column* column = &self.block.columns[<Py_ssize_t>self.names.index(name)]
        cdef int32_t* offsets = <int32_t*>column.rows.data
        cdef int64_t i
        cdef int64_t first
        start = min(max(start, 0), column.rows.n)
        stop = min(max(stop, start), column.rows.n)
        if not column.is_list:
            return [self.value(column.type, &column.rows, i) for i in range(start, stop)]
        if start == stop:
            return []
        first = offsets[start]
        items = [self.value(column.type, &column.items, i) for i in range(first, offsets[stop])]
        return [
            items[offsets[i] - first:offsets[i + 1] - first] if is_valid(&column.rows, i) else None
            for i in range(start, stop)
        ]

    cdef object value(self, Type type, Values* values, int64_t i):
        """Return the value at an index as str, int, float or None."""
        cdef uint64_t n
        cdef const uint8_t* p
        if not is_valid(values, i):
            return None
        if type == INT64:
            return (<int64_t*>values.data)[i]
        if type == INT32:
            return (<int32_t*>values.data)[i]
        if type == FLOAT:
            return (<float*>values.data)[i]
        if self.block.is_copied:
            p = values.text + (<int32_t*>values.data)[i]
            n = <uint64_t>((<int32_t*>values.data)[i + 1] - (<int32_t*>values.data)[i])
        else:
            n = <uint64_t>(<StringView*>values.data)[i].size
            p = text_of_string_view(&self.block, &(<StringView*>values.data)[i])
        return PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>n, NULL)


cdef inline bint try_make_string_view(Columns self, const uint8_t* p, uint64_t n, StringView* view) noexcept nogil:
    """Make a string view of bytes of the document, if the view can contain them or the last buffer can include them.

    Returns whether the view was made.
    """
    cdef TextBuffer* buffer
    cdef uint64_t offset
    if n <= INLINE_BYTES:
        make_inline_string_view(p, n, view)
        return True
    if self.last_buffer_index < 0:
        return False
    buffer = &self.block.buffers[self.last_buffer_index]
    offset = <uint64_t>(p - buffer.p)  # wraps around to a large number for bytes before the buffer
    if offset > <uint64_t>buffer.n + GAP_BYTES or n > INT32_MAX or offset + n > INT32_MAX:
        return False
    if offset + n > <uint64_t>buffer.n:
        buffer.n = <int64_t>(offset + n)
    view.size = <int32_t>n
    memcpy(view.prefix, p, 4)
    view.buffer_index = self.last_buffer_index
    view.offset = <int32_t>offset
    return True


cdef int copy_strings(const Block* block, Values* values, str name) except -1:
    """Replace the string views of a column by offsets and text. Raises FieldValueError for 2 GiB of text or more."""
    cdef StringView* views = <StringView*>values.data
    cdef int64_t total = 0
    cdef int64_t i
    cdef int32_t* offsets
    cdef uint8_t* text
    for i in range(values.n):
        total += views[i].size
    if total > INT32_MAX:
        raise FieldValueError(
            f"the column {name} has {total:,} bytes of strings, too many for utf8; use strings='utf8_view'"
        )
    offsets = <int32_t*>malloc(<size_t>(values.n + 1) * 4)
    text = <uint8_t*>malloc(<size_t>total + 1)
    if offsets == NULL or text == NULL:
        free(offsets)
        free(text)
        raise MemoryError
    offsets[0] = 0
    for i in range(values.n):
        memcpy(text + offsets[i], text_of_string_view(block, &views[i]), <size_t>views[i].size)
        offsets[i + 1] = offsets[i] + views[i].size
    free(values.data)
    values.data = <uint8_t*>offsets
    values.text = text
    values.width = 4
    values.capacity = values.n
    return 0


cdef void free_values(Values* values) noexcept:
    free(values.valid)
    free(values.data)
    free(values.text)


cdef bint is_utf8(const uint8_t* p, uint64_t n) except -1:
    """Return whether bytes are valid UTF-8. This is slow, so callers test for ASCII first, which most strings are."""
    try:
        PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>n, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef char* copy_string(bytes text) except NULL:
    """Return a copy of a string, which the caller frees."""
    cdef char* copy = <char*>malloc(len(text) + 1)
    if copy == NULL:
        raise MemoryError
    memcpy(copy, PyBytes_AS_STRING(text), len(text) + 1)
    return copy


cdef bytes encode_metadata(dict entries):
    """Encode ArrowSchema.metadata, in which counts and lengths are int32 in native byte order."""
    import sys
    parts = [len(entries).to_bytes(4, sys.byteorder)]
    for word in [word.encode() for entry in entries.items() for word in entry]:
        parts += [len(word).to_bytes(4, sys.byteorder), word]
    return b"".join(parts)
