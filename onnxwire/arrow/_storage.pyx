# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The payloads of tensors: their sizes, and where they are, without a look at them."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp, memset, strlen

from onnxwire._varint cimport WIRE_LEN, Record, read_varint
from onnxwire.arrow._columns cimport add_null, add_number
from onnxwire.arrow._program cimport WIDEST
from onnxwire.arrow._walk cimport next_element, start_at
from onnxwire.engine.damage cimport decode_error, packed_error
from onnxwire.engine.partial cimport need
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor, next_usable

from onnxwire.tensor.dtypes import BY_NUMBER

cdef const char* INLINE = "inline"
cdef const char* EXTERNAL = "external"


cdef struct Storage:
    bint is_external
    Slot location
    int64_t offset, length  # as external_data has them


cdef int add_storage_size(Walk walk, Values* values, const Message* message, const Slot* slots, known) except -1:
    """Add the size of a tensor's payload alone."""
    cdef Storage storage
    return add_number(values, find_storage(walk, message, slots, known, &storage))


cdef int add_storage(Walk walk, Column* column, const Message* message, const Slot* slots, known) except -1:
    """Add the size of a tensor's payload, and where it is; known: the size where it is not in the document, or None."""
    cdef Slot raw = slots[walk.known.raw_data.slot]
    cdef Storage storage
    cdef int64_t size = find_storage(walk, message, slots, known, &storage)
    add_number(&column.rows, size)
    walk.add_word(&(column + 1).rows, EXTERNAL if storage.is_external else INLINE)
    if storage.is_external and storage.location.p != NULL:
        walk.columns.add_text(&(column + 2).rows, storage.location.p, storage.location.n)
        walk.add_unless_negative(&(column + 3).rows, storage.offset)
        return walk.add_unless_negative(&(column + 4).rows, storage.length)
    add_null(&(column + 2).rows)
    if storage.is_external or raw.p == NULL or not walk.is_placed:
        add_null(&(column + 3).rows)
        return walk.add_unless_negative(&(column + 4).rows, storage.length)
    add_number(&(column + 3).rows, raw.p - walk.document.start)
    return add_number(&(column + 4).rows, size)


cdef int64_t find_storage(
    Walk walk, const Message* message, const Slot* slots, known, Storage* storage
) except? -1:
    """Find where a tensor's payload is; returns its size."""
    cdef Slot raw = slots[walk.known.raw_data.slot]
    cdef Slot way = slots[walk.known.data_location.slot]
    memset(storage, 0, sizeof(Storage))
    storage.length = -1
    storage.is_external = way.p != NULL and way.n == 1
    if storage.is_external:
        read_external(walk, message, slots, &storage.location, &storage.offset, &storage.length)
    if known is not None:
        return known
    if raw.p != NULL:
        return <int64_t>raw.n
    if storage.is_external and storage.length >= 0:
        return storage.length
    return payload_size(walk, message, slots)


cdef int read_external(
    Walk walk, const Message* message, const Slot* slots, Slot* location, int64_t* offset, int64_t* length
) except -1:
    """Read external_data; of an offset or length that is not a plain number -1, of an absent length too."""
    cdef Field* field = walk.known.external_data
    cdef Slot[WIDEST] inner
    cdef Cursor cursor
    cdef Message entry
    cdef Slot key
    cdef Slot value
    if slots[field.slot].p == NULL:
        return 0
    start_at(&cursor, message, &slots[field.slot])
    while walk.next_message(&cursor, field, &entry, inner):
        key = inner[walk.known.key.slot]
        value = inner[walk.known.value.slot]
        if value.p == NULL:
            value.p = entry.p
            value.n = 0
        if is_word(&key, "location"):
            location[0] = value
        elif is_word(&key, "offset"):
            offset[0] = plain_number(&value)
        elif is_word(&key, "length"):
            length[0] = plain_number(&value)
    return 0


cdef int64_t payload_size(Walk walk, const Message* message, const Slot* slots) except -1:
    """The bytes that a tensor without raw_data has: of its strings, else what its type and dims call for."""
    cdef Field* field
    cdef Cursor cursor
    cdef Record record
    cdef const uint8_t* p
    cdef uint64_t number = 0
    cdef int64_t total = 0
    cdef int64_t elements = 1
    cdef int found
    number_of_type = <int32_t>slots[walk.known.data_type.slot].n
    data_type = BY_NUMBER.get(number_of_type)
    if data_type is not None and data_type.name == "STRING":
        field = walk.known.string_data
        if slots[field.slot].p != NULL:
            start_at(&cursor, message, &slots[field.slot])
            while next_element(walk, &cursor, field, &record):
                total += <int64_t>record.n
        return total
    field = walk.known.dims
    if slots[field.slot].p != NULL:
        start_at(&cursor, message, &slots[field.slot])
        while True:
            found = next_usable(&cursor, field, &record)
            if found < 0:
                raise decode_error(walk.document, cursor.p, cursor.end)
            if found == 0:
                break
            if record.tag & 7 != WIRE_LEN:
                elements = product(elements, <int64_t>record.n)
                continue
            p = record.value
            need(p, record.n)
            while p < record.value + record.n:
                p = read_varint(p, record.value + record.n, &number)
                if p == NULL:
                    raise packed_error(walk.document, record.value, record.value + record.n, 0)
                elements = product(elements, <int64_t>number)
    if data_type is None:
        return elements
    # A shape that no memory could hold is a damaged one, and is not worth exact numbers.
    return min(data_type.count_bytes(elements), INT64_MAX)


cdef inline int64_t product(int64_t elements, int64_t dim) noexcept nogil:
    if dim <= 0:
        return 0
    return INT64_MAX if elements > INT64_MAX // dim else elements * dim


cdef inline bint is_word(const Slot* text, const char* word) noexcept nogil:
    return text.p != NULL and text.n == strlen(word) and memcmp(text.p, word, text.n) == 0


cdef int64_t plain_number(const Slot* text) noexcept nogil:
    """The number that digits say, up to 2**63 - 1; -1 for what is not plain digits, or more."""
    cdef int64_t number = 0
    cdef uint64_t i
    cdef int digit
    if text.n == 0:
        return -1
    for i in range(text.n):
        digit = text.p[i] - 48
        if digit < 0 or digit > 9 or number > (INT64_MAX - digit) // 10:
            return -1
        number = number * 10 + digit
    return number
