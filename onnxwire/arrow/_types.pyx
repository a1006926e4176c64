# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The types of values, as operators write them, with their shapes."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from onnxwire._varint cimport MAX_DEPTH, load64
from onnxwire.arrow._columns cimport Columns, Values, add_list, add_null, add_number, add_value, end_list
from onnxwire.arrow._program cimport WIDEST, field_of
from onnxwire.arrow._walk cimport start_at
from onnxwire.engine.partial cimport need
from onnxwire.engine.table cimport Table
from onnxwire.engine.view cimport Cursor

from onnxwire.tensor.dtypes import name_of

cdef enum:
    DIGITS = 24              # room for those of an int64, and a sign


def tensor_type(number):
    """The type of tensors of a data type, as operators write it: `tensor(float)`."""
    return f"tensor({name_of(number).lower()})"


cdef int add_type(
    Walk walk, Types* types, Column* column, Field* type_field, const Message* message, const Slot* slots,
    uint32_t flags
) except -1:
    """Add the type, the shape and the dims of a value; types: those that were added."""
    cdef Message type
    cdef SeenType* seen
    cdef uint64_t n
    cdef int64_t row = column.rows.n
    cdef int64_t repaired = walk.columns.repaired
    if slots[type_field.slot].p == NULL:
        return end_type(column, True)
    walk.child(walk.wanted, message, slots, flags, type_field, &type)
    if type.parts != NULL:
        return read_type(walk, &types.names, column, type_field.sub, &type)
    n = <uint64_t>(type.end - type.p)
    need(type.p, n)
    seen = &types.seen[hash_of(type.p, n) & (SEEN - 1)]
    if seen.p != NULL and seen.n == n and memcmp(seen.p, type.p, n) == 0:
        add_value(&column.rows, seen.row)
        add_list(column + 1, seen.row)
        return add_list(column + 2, seen.row)
    read_type(walk, &types.names, column, type_field.sub, &type)
    if walk.columns.repaired == repaired:  # each string that is repaired is counted
        seen.p = type.p
        seen.n = n
        seen.row = row
    return 0


cdef inline uint64_t hash_of(const uint8_t* p, uint64_t n) noexcept nogil:
    cdef uint64_t mixed = n
    cdef uint64_t i
    for i in range(n >> 3):
        mixed = (mixed ^ load64(p + 8 * i)) * <uint64_t>0x9E3779B97F4A7C15
        mixed ^= mixed >> 32
    for i in range(n & ~<uint64_t>7, n):
        mixed = (mixed ^ p[i]) * <uint64_t>0x9E3779B97F4A7C15
    return mixed >> 32


cdef int read_type(Walk walk, Texts* names, Column* column, Table* table, const Message* type) except -1:
    """Add what a TypeProto says; names: the texts of tensor types that were made."""
    cdef Slot[WIDEST] slots
    cdef uint32_t flags
    cdef Message tensor
    cdef Field* field
    walk.scan(table, type, slots, &flags)
    field = walk.known.tensor_type
    if slots[field.slot].p != NULL:
        walk.child(table, type, slots, flags, field, &tensor)
        return add_tensor_type(walk, names, column, field.sub, &tensor, True)
    field = walk.known.sparse_tensor_type
    if slots[field.slot].p != NULL:
        walk.child(table, type, slots, flags, field, &tensor)
        return add_tensor_type(walk, names, column, field.sub, &tensor, False)
    text = type_text(walk, table, type, walk.depth)
    if text is None:
        return end_type(column, True)
    walk.add_word(&column.rows, text)
    return end_type(column, False)


cdef int end_type(Column* column, bint is_null) except -1:
    """Leave out the shape and the dims, and the type too where it is null."""
    if is_null:
        add_null(&column.rows)
    end_list(column + 1, True)
    return end_list(column + 2, True)


cdef int add_tensor_type(
    Walk walk, Texts* names, Column* column, Table* table, const Message* tensor, bint is_dense
) except -1:
    """Add the type, the shape and the dims of a tensor or sparse tensor."""
    cdef Slot[WIDEST] slots
    cdef uint32_t flags
    cdef Field* field = walk.known.elem_type if is_dense else field_of(table, "elem_type")
    cdef Message shape
    walk.scan(table, tensor, slots, &flags)
    if is_dense:
        walk.add_named(&column.rows, names, <int32_t>slots[field.slot].n, tensor_type)
    else:
        text = f"sparse_{tensor_type(<int32_t>slots[field.slot].n)}".encode()
        walk.add_word(&column.rows, text)
    field = walk.known.shape if is_dense else field_of(table, "shape")
    if slots[field.slot].p == NULL:
        return end_type(column, False)
    walk.child(table, tensor, slots, flags, field, &shape)
    return add_shape(walk, column + 1, field.sub, &shape)


cdef int add_shape(Walk walk, Column* column, Table* table, const Message* shape) except -1:
    """Add a shape and its dims."""
    cdef Slot[WIDEST] slots
    cdef Slot[WIDEST] inner
    cdef uint32_t flags
    cdef Field* field = walk.known.dim
    cdef Field* value = walk.known.dim_value
    cdef Field* param = walk.known.dim_param
    cdef Values* sizes = &column.items
    cdef Values* dims = &(column + 1).items
    cdef Columns columns = walk.columns
    cdef uint8_t[DIGITS] digits
    cdef const uint8_t* p
    cdef Cursor cursor
    cdef Message dim
    walk.scan(table, shape, slots, &flags)
    if slots[field.slot].p != NULL:
        start_at(&cursor, shape, &slots[field.slot])
        while walk.next_message(&cursor, field, &dim, inner):
            if inner[value.slot].p != NULL:
                add_number(sizes, <int64_t>inner[value.slot].n)
                p = write_digits(<int64_t>inner[value.slot].n, digits)
                columns.add_own(dims, p, <uint64_t>(digits + DIGITS - p))
            else:
                add_null(sizes)
                if inner[param.slot].p != NULL:
                    columns.add_text(dims, inner[param.slot].p, inner[param.slot].n)
                else:
                    add_null(dims)
    end_list(column, False)
    return end_list(column + 1, False)


cdef object type_text(Walk walk, Table* table, const Message* type, int depth):
    """A type that is not a tensor as text, such as `seq(tensor(float))`, in bytes; None where it says nothing."""
    cdef Slot[WIDEST] slots
    cdef Slot[WIDEST] inner
    cdef uint32_t flags
    cdef uint32_t inner_flags
    cdef Message below
    cdef Field* field = NULL
    cdef Field* part
    cdef uint32_t i
    cdef Table* sub
    if depth > MAX_DEPTH:
        walk.too_deep(type.p)
    walk.scan(table, type, slots, &flags)
    for i in range(table.n_fields):
        if table.fields[i].sub != NULL and slots[table.fields[i].slot].p != NULL:
            field = &table.fields[i]
    if field == NULL:
        return None
    name = (<object>field.descriptor).name
    sub = field.sub
    walk.child(table, type, slots, flags, field, &below)
    walk.scan(sub, &below, inner, &inner_flags)
    if name in ("tensor_type", "sparse_tensor_type"):
        text = tensor_type(<int32_t>inner[field_of(sub, "elem_type").slot].n)
        return (text if name == "tensor_type" else f"sparse_{text}").encode()
    if name == "opaque_type":
        return b"opaque"
    part = field_of(sub, "value_type" if name == "map_type" else "elem_type")
    content = b"?"
    if inner[part.slot].p != NULL:
        content = inner_text(walk, sub, &below, inner, inner_flags, part, depth)
    if name == "map_type":
        key = name_of(<int32_t>inner[field_of(sub, "key_type").slot].n).lower().encode()
        return b"map(" + key + b"," + content + b")"
    return (b"seq(" if name == "sequence_type" else b"optional(") + content + b")"


cdef object inner_text(
    Walk walk, Table* table, const Message* message, const Slot* slots, uint32_t flags, const Field* field, int depth
):
    cdef Message below
    walk.child(table, message, slots, flags, field, &below)
    return type_text(walk, field.sub, &below, depth + 2) or b"?"


cdef const uint8_t* write_digits(int64_t number, uint8_t* room) noexcept nogil:
    """Write a number so that it ends where the room does; returns its first character."""
    cdef uint8_t* p = room + DIGITS
    cdef uint64_t rest = <uint64_t>number if number >= 0 else 0 - <uint64_t>number
    while True:
        p -= 1
        p[0] = <uint8_t>(48 + rest % 10)
        rest //= 10
        if rest == 0:
            break
    if number < 0:
        p -= 1
        p[0] = 45
    return p
