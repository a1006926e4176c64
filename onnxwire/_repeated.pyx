# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated fields: of spans (strings, bytes, messages) and of numbers.

A sequence is as light as a message: it holds its message and where its first record stands. Asking for an element by
its place in a long sequence makes an index once, which the document keeps.
"""
cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_STRIDES, PyBUF_WRITABLE
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from onnxwire._document cimport Document, Spans, decode_error, packed_error
from onnxwire._message cimport Record, document_of, fill, new_view, next_record, start_cursor
from onnxwire._table cimport (
    BOOL, BYTES, DOUBLE, FIXED32, FIXED64, FLOAT, INT64, MESSAGE, SFIXED64, SINT32, SINT64, STRING, UINT32, UINT64,
    Slot, has_value,
)
from onnxwire._varint cimport (
    PACKED_32, PACKED_64, PACKED_BOOL, PACKED_ZIGZAG32, PACKED_ZIGZAG64, WIRE_LEN, WIRE_VARINT, Packed, count_varints,
    decode_varints, load32, load64, read_length, zigzag32, zigzag64,
)

cdef extern from "_advise.h" nogil:
    void ow_enlarge(void* p, size_t size)

import sys

cdef bint LITTLE_ENDIAN = sys.byteorder == "little"

cdef enum:
    SHORT = 8             # elements of a sequence that is walked rather than indexed
    SHORT_NUMBERS = 64    # numbers that are decoded again rather than kept
    LONG_RUN = 1 << 16    # bytes of numbers whose decoding lets other threads run


cdef Py_ssize_t place_of(place, uint64_t n) except -1:
    """The place that an index means in a sequence of n.

    This runs the index's own code, which may do anything, even close the document.
    """
    cdef Py_ssize_t i
    if not hasattr(place, "__index__"):
        raise TypeError("list indices must be integers")
    try:
        i = place.__index__()
    except OverflowError:
        raise IndexError("list index out of range") from None
    if i < 0:
        i += n
    if i < 0 or <uint64_t>i >= n:
        raise IndexError("list index out of range")
    return i


@cython.no_gc
@cython.freelist(32)
cdef class Repeated:
    """What the two kinds of sequences share: what lists can do without being changed."""

    def __contains__(self, value):
        for element in self:
            if element == value:
                return True
        return False

    def __eq__(self, other):
        if not isinstance(other, (Repeated, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        for ours, theirs in zip(self, other):
            if ours != theirs:
                return False
        return True

    def __hash__(self):
        raise TypeError(f"unhashable type: '{type(self).__name__}'")

    def __repr__(self):
        return repr(list(self))

    def __reversed__(self):
        return iter(self[::-1])

    def __deepcopy__(self, memo):
        from copy import deepcopy
        return deepcopy(list(self), memo)

    def __reduce__(self):
        return list, (list(self),)

    def index(self, value, start=0, stop=sys.maxsize):
        """The first place of a value; raises ValueError where there is none."""
        return list(self).index(value, start, stop)

    def count(self, value):
        """How many elements equal a value."""
        return list(self).count(value)


# --- spans

cdef object make_element(Message message, Field* field, const uint8_t* p, uint64_t n):
    if field.kind == MESSAGE:
        return new_view(field.sub, document_of(message), p, p + n, None)
    if field.kind == STRING:
        return PyUnicode_DecodeUTF8(<const char*>p, n, "surrogateescape")
    return PyBytes_FromStringAndSize(<const char*>p, n)


cdef object get_spans(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    cdef RepeatedSpan sequence = RepeatedSpan.__new__(RepeatedSpan)
    sequence.message = self
    sequence.field = <Field*>closure
    sequence.first = slot.p
    sequence.n_records = slot.n if slot.p != NULL else 0
    return sequence


@cython.final
@cython.no_gc
cdef class RepeatedSpan(Repeated):
    """A read-only sequence of strings, bytes or messages."""

    def __len__(self):
        fill(self.message)
        return self.n_records

    def __iter__(self):
        cdef SpanIterator iterator = SpanIterator.__new__(SpanIterator)
        fill(self.message)
        iterator.message = self.message
        iterator.field = self.field
        iterator.left = self.n_records
        iterator.tag = self.field.number << 3 | WIRE_LEN if self.field.number < 16 else 0
        if self.n_records:
            start_cursor(&iterator.cursor, self.message, self.first)
        return iterator

    cdef Spans make_index(self):
        """The spans of all elements, from the document's store where it has them."""
        cdef Document document = document_of(self.message)
        cdef object key = <size_t>self.first
        cdef Spans index
        cdef Cursor cursor
        cdef Record record
        cdef uint64_t left = self.n_records
        fill(self.message)
        if self.store is None:
            self.store = document.indexes.get(key)
        # Where the bytes were changed, the address may have come to hold another field.
        if self.store is not None and <uint64_t>(<Spans>self.store).n == left:
            return self.store
        index = Spans()
        if left:
            start_cursor(&cursor, self.message, self.first)
        while left:
            if next_record(&cursor, self.field.number, &record) <= 0:
                raise decode_error(document, cursor.p, cursor.end)
            if record.tag & 7 == WIRE_LEN:
                index.append(record.value, record.n)
                left -= 1
        if index.n > SHORT:
            document.indexes[key] = index
        self.store = index
        return index

    def __getitem__(self, place):
        cdef Py_ssize_t i
        cdef Spans index
        if isinstance(place, slice):
            places = range(*place.indices(self.n_records))
            elements = []
            index = self.make_index()
            for i in places:
                elements.append(make_element(self.message, self.field, index.items[i].p, index.items[i].n))
            return elements
        fill(self.message)
        i = place_of(place, self.n_records)
        if self.store is None and i < SHORT:
            for element in self:
                if i == 0:
                    return element
                i -= 1
        index = self.make_index()
        return make_element(self.message, self.field, index.items[i].p, index.items[i].n)


@cython.final
@cython.no_gc
@cython.freelist(32)
cdef class SpanIterator:

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.left

    def __next__(self):
        cdef Cursor* cursor = &self.cursor
        cdef const uint8_t* p
        cdef Record record
        cdef uint64_t n
        cdef int found
        fill(self.message)
        # The common case: the next record is of the same field, with a tag of one byte.
        if self.left and cursor.p < cursor.end and cursor.p[0] == self.tag:
            p = read_length(cursor.p + 1, cursor.end, &n)
            if p != NULL:
                self.left -= 1
                cursor.p = p + n
                return make_element(self.message, self.field, p, n)
        while self.left:
            found = next_record(cursor, self.field.number, &record)
            if found <= 0:
                raise decode_error(document_of(self.message), cursor.p, cursor.end)
            if record.tag & 7 == WIRE_LEN:
                self.left -= 1
                return make_element(self.message, self.field, record.value, record.n)
        raise StopIteration


# --- numbers

cdef object get_numbers(Message self, void* closure):
    fill(self)
    cdef Slot* slot = &self.slots[(<Field*>closure).slot]
    cdef RepeatedScalar sequence = RepeatedScalar.__new__(RepeatedScalar)
    sequence.message = self
    sequence.field = <Field*>closure
    sequence.first = slot.p
    sequence.n_records = slot.n if slot.p != NULL else 0
    return sequence


cdef class Numbers:

    @staticmethod
    cdef Numbers allocate(Py_ssize_t n, const Field* field):
        cdef Numbers numbers = Numbers()
        numbers.items = malloc(<size_t>n * field.size or 1)
        if numbers.items == NULL:
            raise MemoryError
        numbers.n = n
        numbers.kind = field.kind
        ow_enlarge(numbers.items, <size_t>n * field.size)
        return numbers

    def __dealloc__(self):
        free(self.items)


cdef Packed packed_kind(int kind) noexcept nogil:
    if kind == SINT64:
        return PACKED_ZIGZAG64
    if kind == SINT32:
        return PACKED_ZIGZAG32
    if kind == BOOL:
        return PACKED_BOOL
    if kind == INT64 or kind == UINT64:
        return PACKED_64
    return PACKED_32


cdef void store(void* out, const Field* field, uint64_t raw) noexcept nogil:
    """Write one number, given the raw bits of its record."""
    cdef uint32_t low = <uint32_t>raw
    cdef int64_t wide
    cdef int32_t narrow
    if field.kind == BOOL:
        (<uint8_t*>out)[0] = raw != 0
    elif field.kind == SINT64:
        wide = zigzag64(raw)
        memcpy(out, &wide, 8)
    elif field.kind == SINT32:
        narrow = zigzag32(raw)
        memcpy(out, &narrow, 4)
    elif field.size == 8:
        memcpy(out, &raw, 8)
    else:
        memcpy(out, &low, 4)


cdef uint64_t store_run(
    uint8_t* out, const Field* field, const uint8_t* p, uint64_t n, uint64_t capacity
) noexcept nogil:
    """Write the numbers of a packed run; returns how many."""
    cdef uint64_t count = 0
    if field.wire == WIRE_VARINT:
        return decode_varints(p, p + n, packed_kind(field.kind), out, capacity)
    if LITTLE_ENDIAN:
        count = min(n // field.size, capacity)
        memcpy(out, p, count * field.size)
        return count
    while count < capacity and n - count * field.size >= field.size:
        store(out + count * field.size, field,
              load64(p + count * 8) if field.size == 8 else load32(p + count * 4))
        count += 1
    return count


@cython.final
@cython.no_gc
cdef class RepeatedScalar(Repeated):
    """A read-only sequence of numbers, which numpy.asarray takes without another copy.

    A packed run of fixed-size numbers is a window on the document; varints are decoded once, into an array.
    """

    cdef uint64_t count_elements(self, const uint8_t** window) except? 0xFFFFFFFF:
        """How many elements the records hold, before a closed enum drops any.

        Where they are one packed run that can be used as it stands, `window` is set to its start.
        """
        cdef Document document = document_of(self.message)
        cdef Field* field = self.field
        cdef Cursor cursor
        cdef Record record
        cdef uint64_t total = 0
        cdef uint64_t _i
        start_cursor(&cursor, self.message, self.first)
        for _i in range(self.n_records):
            if next_usable(&cursor, field, &record) <= 0:
                raise decode_error(document, cursor.p, cursor.end)
            if record.tag & 7 != WIRE_LEN:
                total += 1
            elif field.wire == WIRE_VARINT:
                if record.n and record.value[record.n - 1] >= 0x80:
                    raise packed_error(document, record.value, record.value + record.n, 0)
                total += count_varints(record.value, record.value + record.n)
            else:
                if record.n % field.size:
                    raise packed_error(document, record.value, record.value + record.n, field.size)
                total += record.n // field.size
                if self.n_records == 1 and LITTLE_ENDIAN:
                    window[0] = record.value
        return total

    cdef int decode(self) except -1:
        """Make `items` and `n`."""
        cdef Document document = document_of(self.message)
        cdef Field* field = self.field
        cdef const uint8_t* window = NULL
        cdef Cursor cursor
        cdef Record record
        cdef Numbers numbers
        cdef uint64_t total
        cdef uint64_t done = 0
        cdef uint64_t count
        cdef uint64_t _i
        fill(self.message)
        if self.items != NULL:
            return 0
        if self.first == NULL:
            self.items = <const uint8_t*>""
            return 0
        numbers = document.numbers.get(<size_t>self.first) if document.numbers else None
        # Where the bytes were changed, the address may have come to hold another field.
        if numbers is not None and numbers.kind == field.kind:
            self.adopt(numbers)
            return 0
        total = self.count_elements(&window)
        if window != NULL:
            self.n = total
            self.items = window
            return 0
        numbers = Numbers.allocate(total, field)
        start_cursor(&cursor, self.message, self.first)
        document.pins += 1
        try:
            for _i in range(self.n_records):
                if next_usable(&cursor, field, &record) <= 0:
                    raise decode_error(document, cursor.p, cursor.end)
                if record.tag & 7 != WIRE_LEN:
                    if done < total and not (field.closed and not has_value(field, <int32_t>record.n)):
                        store(<uint8_t*>numbers.items + done * field.size, field, record.n)
                        done += 1
                    continue
                count = store_long_run(
                    <uint8_t*>numbers.items + done * field.size, field, record.value, record.n, total - done
                )
                if field.wire == WIRE_VARINT and count != count_varints(record.value, record.value + record.n):
                    raise packed_error(document, record.value, record.value + record.n, 0)
                if field.closed:
                    count = keep_known(<int32_t*>numbers.items + done, count, field)
                done += count
        finally:
            document.pins -= 1
        numbers.n = done
        # While a long run was decoded, another thread may have been first, and handed its numbers out.
        if self.items == NULL:
            self.adopt(numbers)
        return 0

    cdef void adopt(self, Numbers numbers):
        self.store = numbers
        self.n = numbers.n
        self.items = <const uint8_t*>numbers.items

    cdef object item(self, Py_ssize_t i):
        cdef const uint8_t* p = self.items + i * self.field.size
        cdef int kind = self.field.kind
        cdef int64_t wide
        cdef int32_t narrow
        cdef double real
        cdef float single
        if kind == FLOAT:
            memcpy(&single, p, 4)
            return single
        if kind == DOUBLE:
            memcpy(&real, p, 8)
            return real
        if kind == BOOL:
            return p[0] != 0
        if self.field.size == 8:
            memcpy(&wide, p, 8)
            return <uint64_t>wide if kind == UINT64 or kind == FIXED64 else wide
        memcpy(&narrow, p, 4)
        return <uint32_t>narrow if kind == UINT32 or kind == FIXED32 else narrow

    def __bool__(self):
        """Whether there is an element; nothing is decoded but a closed enum, which may drop values."""
        cdef Cursor cursor
        cdef Record record
        cdef uint64_t _i
        fill(self.message)
        if self.first == NULL:
            return False
        if self.field.closed:
            self.decode()
            return self.n > 0
        start_cursor(&cursor, self.message, self.first)
        for _i in range(self.n_records):
            if next_usable(&cursor, self.field, &record) <= 0 or record.tag & 7 != WIRE_LEN or record.n:
                return True
        return False

    def __len__(self):
        cdef const uint8_t* window = NULL
        fill(self.message)
        if self.items == NULL and self.first != NULL and not self.field.closed:
            return self.count_elements(&window)
        self.decode()
        return self.n

    def __iter__(self):
        cdef ScalarIterator iterator = ScalarIterator.__new__(ScalarIterator)
        self.decode()
        iterator.sequence = self
        iterator.i = 0
        return iterator

    def __getitem__(self, place):
        cdef Py_ssize_t i
        if self.items == NULL:
            self.decode()
            # Asked for by place: likely to be asked again, through another sequence of the same field.
            if self.n > SHORT_NUMBERS and self.store is not None:
                document_of(self.message).numbers[<size_t>self.first] = self.store
        fill(self.message)
        if isinstance(place, slice):
            places = range(*place.indices(self.n))
            elements = []
            fill(self.message)
            for i in places:
                elements.append(self.item(i))
            return elements
        i = place_of(place, self.n)
        fill(self.message)
        return self.item(i)

    def numpy(self):
        """The numbers as a read-only numpy array of shape (len,), which shares this sequence's memory.

        dtype: the numpy type of the field's: int64, uint64, int32 (also of enums), uint32, float32, float64 or bool.
        Raises DecodeError where the packed bytes are damaged.
        """
        import numpy
        return numpy.asarray(memoryview(self))

    def __array__(self, dtype=None, copy=None):
        """What numpy falls back to where the buffer can't be had: raises what the buffer raised, which numpy drops."""
        array = self.numpy()
        if copy:
            return array.astype(array.dtype if dtype is None else dtype)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __getbuffer__(self, Py_buffer* view, int flags):
        self.decode()
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("the numbers of a document are read-only; copy them first")
        self.shape[0] = self.n
        view.obj = self
        view.buf = <void*>self.items
        view.len = self.n * self.field.size
        view.readonly = 1
        view.itemsize = self.field.size
        view.format = buffer_format(self.field.kind) if flags & PyBUF_FORMAT else NULL
        view.ndim = 1
        view.shape = self.shape if flags & PyBUF_ND == PyBUF_ND else NULL
        view.strides = &view.itemsize if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
        view.suboffsets = NULL
        view.internal = NULL
        cdef Document document = document_of(self.message)
        if self.store is None and self.first != NULL:
            document.pins += 1

    def __releasebuffer__(self, Py_buffer* view):
        cdef Document document = document_of(self.message)
        if self.store is None and self.first != NULL:
            document.pins -= 1


cdef char* buffer_format(int kind) noexcept:
    if kind == FLOAT:
        return b"f"
    if kind == DOUBLE:
        return b"d"
    if kind == BOOL:
        return b"?"
    if kind == INT64 or kind == SINT64 or kind == SFIXED64:
        return b"q"
    if kind == UINT64 or kind == FIXED64:
        return b"Q"
    if kind == UINT32 or kind == FIXED32:
        return b"I"
    return b"i"


cdef int next_usable(Cursor* cursor, const Field* field, Record* record) noexcept nogil:
    """The next record that holds elements of the field, packed or not; as next_record."""
    cdef int found
    while True:
        found = next_record(cursor, field.number, record)
        if found <= 0 or record.tag & 7 == field.wire or record.tag & 7 == WIRE_LEN:
            return found


cdef uint64_t store_long_run(
    uint8_t* out, const Field* field, const uint8_t* p, uint64_t n, uint64_t capacity
) noexcept:
    cdef uint64_t count
    if n < LONG_RUN:
        return store_run(out, field, p, n, capacity)
    with nogil:
        count = store_run(out, field, p, n, capacity)
    return count


cdef uint64_t keep_known(int32_t* values, uint64_t n, const Field* field) noexcept nogil:
    """Drop the values that a closed enum does not have; returns how many are left."""
    cdef uint64_t kept = 0
    cdef uint64_t i
    for i in range(n):
        if has_value(field, values[i]):
            values[kept] = values[i]
            kept += 1
    return kept


@cython.final
@cython.no_gc
@cython.freelist(32)
cdef class ScalarIterator:

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.sequence.n - self.i

    def __next__(self):
        fill(self.sequence.message)
        if self.i >= self.sequence.n:
            raise StopIteration
        self.i += 1
        return self.sequence.item(self.i - 1)


cdef void* repeated_getter(int kind) noexcept:
    """The getter for a repeated field of a kind."""
    if kind == STRING or kind == BYTES or kind == MESSAGE:
        return <void*>get_spans
    return <void*>get_numbers
