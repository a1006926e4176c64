# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Export columns through the Arrow C data interface: a schema, and a stream of one record batch.

Each stream and each array, including each child, owns a reference to the columns, because a consumer may move a child
out of its parent and release both separately. Consumers call back from any thread, without the GIL. Functions that fill
a struct return 0 or ENOMEM.
Source: "The Arrow C data interface", "The Arrow C stream interface" and "The Arrow PyCapsule Interface".
"""
from cpython.object cimport PyObject
from cython cimport critical_section
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset, strlen

from onnxwire.arrow._columns cimport INT32, INT64, STRING, Block, Column, Columns, Type, Values
from onnxwire.engine.foreign_thread cimport release_reference
from onnxwire.engine.memory cimport calloc, free, malloc

from onnxwire.errors import FieldValueError, count_text

cdef enum:
    ARROW_FLAG_NULLABLE = 2

# The structs of "The Arrow C data interface" and "The Arrow C stream interface", which define their members.
cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data

cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
    int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
    const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
    void (*release)(ArrowArrayStream*) noexcept nogil
    void* private_data

ctypedef fused Parent:
    ArrowSchema
    ArrowArray

# Declared with pointers instead of objects: the reference count of a capsule that is being deallocated must not rise.
cdef extern from "Python.h":
    void Py_INCREF(PyObject* o)
    object PyCapsule_New(void* pointer, const char* name, void (*destructor)(PyObject*) noexcept)
    void* PyCapsule_GetPointer(PyObject* capsule, const char* name) except? NULL

# Format strings of types.
cdef const char* UTF8 = "u"
cdef const char* UTF8_VIEW = "vu"
cdef const char* INT64_FORMAT = "l"
cdef const char* INT32_FORMAT = "i"
cdef const char* FLOAT_FORMAT = "f"
cdef const char* LIST_FORMAT = "+l"
cdef const char* STRUCT_FORMAT = "+s"

# Names of capsules.
cdef const char* SCHEMA = "arrow_schema"
cdef const char* STREAM = "arrow_array_stream"


cdef struct ExportedBlock:
    # The private data of a stream.
    PyObject* owner              # the Columns of the block
    const Block* block
    bint is_done                 # whether the record batch was exported


# --- children of schemas and arrays

cdef int add_children(Parent* parent, int64_t n) noexcept nogil:
    """Allocate n empty children."""
    cdef int64_t i
    if n == 0:
        return 0
    parent.children = <Parent**>calloc(n, sizeof(Parent*))
    if parent.children == NULL:
        return ENOMEM
    parent.n_children = n
    for i in range(n):
        parent.children[i] = <Parent*>calloc(1, sizeof(Parent))
        if parent.children[i] == NULL:
            return ENOMEM
    return 0


cdef void release_children(Parent* parent) noexcept nogil:
    """Release and free the children that were not moved out of the parent."""
    cdef int64_t i
    if parent.children != NULL:
        for i in range(parent.n_children):
            if parent.children[i] != NULL:
                if parent.children[i].release != NULL:
                    parent.children[i].release(parent.children[i])
                free(parent.children[i])
        free(parent.children)


# --- schemas, which own all their memory except format strings

cdef void release_schema(ArrowSchema* self) noexcept nogil:
    release_children(self)
    free(<void*>self.name)
    free(<void*>self.metadata)
    self.release = NULL


cdef const char* format_of(Type type, bint is_copied) noexcept nogil:
    """Return Arrow's format string of a type. is_copied: as in Block."""
    if type == STRING:
        return UTF8 if is_copied else UTF8_VIEW
    return INT64_FORMAT if type == INT64 else INT32_FORMAT if type == INT32 else FLOAT_FORMAT


cdef char* copy_bytes(const char* text, size_t n) noexcept nogil:
    """Return a copy of n bytes with a NUL after them; NULL if there is no memory."""
    cdef char* copy = <char*>malloc(n + 1)
    if copy != NULL:
        memcpy(copy, text, n)
        copy[n] = 0
    return copy


cdef int begin_schema(ArrowSchema* out, const char* format, const char* name, int64_t n_children) noexcept nogil:
    """Fill in a schema but not its children. The caller releases the schema, also after an error."""
    memset(out, 0, sizeof(ArrowSchema))
    out.format = format
    out.flags = ARROW_FLAG_NULLABLE
    out.release = release_schema
    out.name = copy_bytes(name, strlen(name))
    return ENOMEM if out.name == NULL else add_children(out, n_children)


cdef int fill_schema(const Block* block, ArrowSchema* out) noexcept nogil:
    """Fill in the schema of a table. The caller releases the schema, also after an error."""
    cdef const Column* column
    cdef const char* format
    cdef ArrowSchema* child
    cdef int32_t i
    cdef int fault = begin_schema(out, STRUCT_FORMAT, "", block.n_columns)
    if fault:
        return fault
    out.flags = 0
    if block.metadata != NULL:  # it is NULL before `Columns.finish`
        out.metadata = copy_bytes(block.metadata, block.metadata_size)
        if out.metadata == NULL:
            return ENOMEM
    for i in range(block.n_columns):
        column = &block.columns[i]
        child = out.children[i]
        format = format_of(column.type, block.is_copied)
        fault = begin_schema(child, LIST_FORMAT if column.is_list else format, block.names[i], column.is_list)
        if fault == 0 and column.is_list:
            fault = begin_schema(child.children[0], format, "item", 0)
        if fault:
            return fault
    return 0


cdef int make_schema(const Block* block, ArrowSchema* out) noexcept nogil:
    """Fill in the schema of a table; after an error, release the schema."""
    cdef int fault = fill_schema(block, out)
    if fault:
        release_schema(out)
    return fault


# --- arrays, whose buffers belong to the columns

cdef void release_array(ArrowArray* self) noexcept nogil:
    release_children(self)
    free(self.buffers)
    self.release = NULL
    release_reference(<PyObject*>self.private_data)


cdef int begin_array(
    ArrowArray* out, PyObject* owner, const Values* values, int64_t length, int64_t n_buffers, int64_t n_children
) noexcept nogil:
    """Fill in an array but not its children. The caller releases the array, also after an error.

    owner: the Columns that own the buffers. values: the values whose validity bits are the first buffer; NULL for none.
    """
    memset(out, 0, sizeof(ArrowArray))
    out.length = length
    out.release = release_array
    out.private_data = owner
    with gil:
        Py_INCREF(owner)
    out.buffers = <const void**>calloc(n_buffers, sizeof(void*))
    if out.buffers == NULL:
        return ENOMEM
    out.n_buffers = n_buffers
    if values != NULL:
        out.null_count = values.n_nulls
        out.buffers[0] = values.valid
    return add_children(out, n_children)


cdef int fill_values(
    ArrowArray* out, PyObject* owner, const Block* block, Type type, const Values* values
) noexcept nogil:
    """Fill in an array of values without children."""
    cdef int32_t i
    cdef int64_t n_buffers = 2
    cdef int fault
    if type == STRING:
        n_buffers = 3 if block.is_copied else 3 + block.n_buffers
    fault = begin_array(out, owner, values, values.n, n_buffers, 0)
    if fault:
        return fault
    out.buffers[1] = values.data
    if type == STRING and block.is_copied:
        out.buffers[2] = values.text
    elif type == STRING:
        # The text buffers; the last buffer of the array contains their sizes.
        for i in range(block.n_buffers):
            out.buffers[2 + i] = block.buffers[i].p
        out.buffers[2 + block.n_buffers] = block.buffer_sizes
    return 0


cdef int fill_array(PyObject* owner, const Block* block, ArrowArray* out) noexcept nogil:
    """Fill in the array of a table. The caller releases the array, also after an error."""
    cdef const Column* column
    cdef ArrowArray* child
    cdef int32_t i
    cdef int fault = begin_array(out, owner, NULL, block.n_rows, 1, block.n_columns)
    if fault:
        return fault
    for i in range(block.n_columns):
        column = &block.columns[i]
        child = out.children[i]
        if not column.is_list:
            fault = fill_values(child, owner, block, column.type, &column.rows)
        else:
            fault = begin_array(child, owner, &column.rows, column.rows.n, 2, 1)
            if fault == 0:
                child.buffers[1] = column.rows.data
                fault = fill_values(child.children[0], owner, block, column.type, &column.items)
        if fault:
            return fault
    return 0


# --- streams

cdef int get_schema(ArrowArrayStream* self, ArrowSchema* out) noexcept nogil:
    return make_schema((<ExportedBlock*>self.private_data).block, out)


cdef int get_next(ArrowArrayStream* self, ArrowArray* out) noexcept nogil:
    """Export the record batch; after a successful call, export a released array, which marks the end of the stream."""
    cdef ExportedBlock* exported = <ExportedBlock*>self.private_data
    cdef int fault
    if exported.is_done:
        out.release = NULL
        return 0
    fault = fill_array(exported.owner, exported.block, out)
    if fault:
        release_array(out)
    else:
        exported.is_done = True
    return fault


cdef const char* get_last_error(ArrowArrayStream* self) noexcept nogil:
    """Return the text of the only error that a call can have."""
    return "out of memory"


cdef void release_stream(ArrowArrayStream* self) noexcept nogil:
    cdef ExportedBlock* exported = <ExportedBlock*>self.private_data
    release_reference(exported.owner)
    free(exported)
    self.release = NULL


# --- capsules

cdef void discard_schema(PyObject* capsule) noexcept:
    """Free a capsule's schema, and release the schema if no consumer moved it."""
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, SCHEMA)
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef void discard_stream(PyObject* capsule) noexcept:
    """Free a capsule's stream, and release the stream if no consumer moved it."""
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, STREAM)
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


@critical_section
def export_schema(Columns columns not None):
    """Return a capsule "arrow_schema" with the names and types of finished columns."""
    cdef ArrowSchema* schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
    if schema == NULL:
        raise MemoryError
    capsule = make_capsule(schema, SCHEMA, discard_schema)
    if make_schema(&columns.block, schema):
        raise MemoryError
    return capsule


@critical_section
def export_stream(Columns columns not None, requested_schema=None):
    """Return a capsule "arrow_array_stream" with finished columns as one record batch.

    requested_schema: a capsule "arrow_schema" with the same number of columns, or None. Its names and types are
    ignored, as the interface allows. Raises FieldValueError for another number of columns, and ValueError for an object
    that is not such a capsule.
    """
    cdef ArrowArrayStream* stream
    cdef ArrowSchema* requested
    cdef ExportedBlock* exported
    if requested_schema is not None:
        requested = <ArrowSchema*>PyCapsule_GetPointer(<PyObject*>requested_schema, SCHEMA)
        if requested == NULL or requested.n_children != columns.block.n_columns:
            raise FieldValueError(
                f"the table has {count_text(columns.block.n_columns, 'column')}, but the requested schema has "
                f"{requested.n_children:,}"
            )
    stream = <ArrowArrayStream*>calloc(1, sizeof(ArrowArrayStream))
    if stream == NULL:
        raise MemoryError
    capsule = make_capsule(stream, STREAM, discard_stream)
    exported = <ExportedBlock*>malloc(sizeof(ExportedBlock))
    if exported == NULL:
        raise MemoryError
    exported.owner = <PyObject*>columns
    exported.block = &columns.block
    exported.is_done = False
    Py_INCREF(exported.owner)
    stream.private_data = exported
    stream.get_schema = get_schema
    stream.get_next = get_next
    stream.get_last_error = get_last_error
    stream.release = release_stream
    return capsule


cdef object make_capsule(void* memory, const char* name, void (*destructor)(PyObject*) noexcept):
    """Return a capsule that owns a struct. Free the struct on failure."""
    try:
        return PyCapsule_New(memory, name, destructor)
    except BaseException:
        free(memory)
        raise
