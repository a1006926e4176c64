# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The types of values as text, in the notation of operator schemas, with their shapes."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp

from onnxwire._varint cimport MAX_DEPTH, load64
from onnxwire.arrow._columns cimport Columns, Values, add_list, add_null, add_number, add_value, end_list
from onnxwire.arrow._program cimport Fields, field_of
from onnxwire.arrow._walk cimport has, start_at
from onnxwire.engine.partial cimport ensure_resident
from onnxwire.engine.table cimport Slot
from onnxwire.engine.view cimport HAS_MERGE, Cursor

from onnxwire.tensor.dtypes import name_of


def tensor_type(number):
    """Return the type of tensors of a data type in the notation of operator schemas: `tensor(float)`."""
    return f"tensor({name_of(number).lower()})"


cdef int add_type(Walk walk, Types* types, Column* column, const Field* field, const Message* message) except -1:
    """Add the type, shape and dims of a value to three adjacent columns.

    types: the cache. column: the first column. field: the field of `message` that contains the TypeProto.
    """
    cdef Message type
    cdef CachedType* cached = NULL
    cdef const Slot* slot = &message.slots[field.slot]
    cdef int64_t row = column.rows.n
    cdef int64_t n_repaired_before = walk.columns.n_repaired
    if slot.p == NULL:
        return add_no_shape(column, True)
    if not message.flags & HAS_MERGE:  # no singular message occurs twice: the type is one span
        ensure_resident(slot.p, slot.n)
        cached = &types.cache[hash_of(slot.p, slot.n) & (CACHED_TYPES - 1)]
        if cached.p != NULL and cached.n == slot.n and memcmp(cached.p, slot.p, slot.n) == 0:
            add_value(&column.rows, cached.row)
            add_list(column + 1, cached.row)
            return add_list(column + 2, cached.row)
    walk.child(message, field, &type)
    read_type(walk, &types.names, column, &type)
    # A type with repaired strings is not cached, so that they are counted for each value with this type.
    if cached != NULL and walk.columns.n_repaired == n_repaired_before:
        cached.p = slot.p
        cached.n = slot.n
        cached.row = row
    return 0


cdef inline uint64_t hash_of(const uint8_t* p, uint64_t n) noexcept nogil:
    """Return a multiplicative hash of bytes; the factor is 2**64 divided by the golden ratio."""
    cdef uint64_t hash = n
    cdef uint64_t i
    for i in range(n >> 3):
        hash = (hash ^ load64(p + 8 * i)) * <uint64_t>0x9E3779B97F4A7C15
        hash ^= hash >> 32
    for i in range(n & ~<uint64_t>7, n):
        hash = (hash ^ p[i]) * <uint64_t>0x9E3779B97F4A7C15
    return hash >> 32


cdef int read_type(Walk walk, Texts* names, Column* column, const Message* type) except -1:
    """Add a type that is not cached to the three columns. names: the cached texts of tensor types."""
    cdef Fields* fields = walk.fields
    cdef bint is_dense = has(type, fields.tensor_type)
    cdef Message tensor
    if not is_dense and not has(type, fields.sparse_tensor_type):
        text = type_text(walk, type, walk.depth)
        if text is not None:
            walk.add_c_string(&column.rows, text)
        return add_no_shape(column, text is None)
    walk.child(type, fields.tensor_type if is_dense else fields.sparse_tensor_type, &tensor)
    if is_dense:
        walk.add_named(&column.rows, names, <int32_t>tensor.slots[fields.elem_type.slot].n, tensor_type)
    else:
        text = f"sparse_{tensor_type(<int32_t>tensor.slots[fields.sparse_elem_type.slot].n)}".encode()
        walk.add_c_string(&column.rows, text)
    return add_shape(walk, column, &tensor, fields.shape if is_dense else fields.sparse_shape)


cdef int add_no_shape(Column* column, bint has_no_type) except -1:
    """Add nulls for the shape and the dims, and with `has_no_type` for the type."""
    if has_no_type:
        add_null(&column.rows)
    end_list(column + 1, True)
    return end_list(column + 2, True)


cdef int add_shape(Walk walk, Column* column, const Message* tensor, const Field* field) except -1:
    """Add the shape and the dims of a tensor type. field: the field `shape` of `tensor`."""
    cdef Fields* fields = walk.fields
    cdef Columns columns = walk.columns
    cdef Values* sizes = &(column + 1).items
    cdef Values* dims = &(column + 2).items
    cdef Slot* value
    cdef Slot* param
    cdef char[24] digits
    cdef Cursor cursor
    cdef Message shape
    cdef Message dim
    if not has(tensor, field):
        return add_no_shape(column, False)
    walk.child(tensor, field, &shape)
    start_at(&cursor, &shape, fields.dim)
    while walk.next_message(&cursor, fields.dim, &dim):
        value = &dim.slots[fields.dim_value.slot]
        param = &dim.slots[fields.dim_param.slot]
        if value.p != NULL:
            add_number(sizes, <int64_t>value.n)
            snprintf(digits, sizeof(digits), "%lld", <long long>value.n)
            walk.add_c_string(dims, digits)
        else:
            add_null(sizes)
            if param.p != NULL:
                columns.add_text(dims, param.p, param.n)
            else:
                add_null(dims)
    end_list(column + 1, False)
    return end_list(column + 2, False)


cdef object type_text(Walk walk, const Message* type, int depth):
    """Return the text of a type as bytes, such as `seq(tensor(float))`; None for a TypeProto without a value.

    depth: the nesting depth of the TypeProto. Raises DecodeError if the depth exceeds MAX_DEPTH, or for damaged bytes.
    """
    cdef Message type_message
    cdef Message element_type
    cdef Field* field = NULL
    cdef Field* element_field
    cdef uint32_t i
    if depth > MAX_DEPTH:
        walk.raise_too_deep(type.p)
    for i in range(type.table.n_fields):
        if type.table.fields[i].sub != NULL and has(type, &type.table.fields[i]):
            field = &type.table.fields[i]
    if field == NULL:
        return None
    name = (<object>field.descriptor).name
    walk.child(type, field, &type_message)
    if name == "opaque_type":
        return b"opaque"
    element_field = field_of(type_message.table, "value_type" if name == "map_type" else "elem_type")
    if element_field.sub == NULL:
        text = tensor_type(<int32_t>type_message.slots[element_field.slot].n)
        return (text if name == "tensor_type" else f"sparse_{text}").encode()
    content = b"?"
    if has(&type_message, element_field):
        walk.child(&type_message, element_field, &element_type)
        content = type_text(walk, &element_type, depth + 2) or b"?"  # the element's TypeProto is two messages deeper
    if name == "map_type":
        key = name_of(<int32_t>type_message.slots[field_of(type_message.table, "key_type").slot].n).lower().encode()
        return b"map(" + key + b"," + content + b")"
    return (b"seq(" if name == "sequence_type" else b"optional(") + content + b")"
