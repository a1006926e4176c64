# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Sequences over repeated numbers. `repeated.pxd` and `numbers.pxd` describe their attributes."""
cimport cython
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyTypeObject
from cython cimport critical_section
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy

from onnxwire._varint cimport WIRE_LEN, WIRE_VARINT, PartCounts, count_parts, count_varints
from onnxwire.engine.damage cimport decode_error, packed_error
from onnxwire.engine.document cimport NUMBERS, Document, Span
from onnxwire.engine.edit cimport edit, iterate, read_number
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.number_runs cimport check_run, decode_run, remove_unknown, store_long_run, write_number
from onnxwire.engine.overlay cimport Overlay, put_value, presence_mark
from onnxwire.engine.overlay_index cimport prefers_compact, register_edit
from onnxwire.engine.partial cimport N_PARTIAL, fetch, is_resident
from onnxwire.engine.payload cimport Payload, expose, new_payload
from onnxwire.engine.repeated cimport (
    ENDED, Slice, adjust_slice, changed_error, index_in, point_at, refresh, unpack_slice, update_count,
)
from onnxwire.engine.table cimport (
    BOOL, DOUBLE, FIXED32, FIXED64, FLOAT, INT64, SFIXED64, SINT64, UINT32, UINT64, Slot, has_value,
)
from onnxwire.engine.view cimport copied_value, fill, next_usable

from sys import byteorder

cdef bint LITTLE_ENDIAN = byteorder == "little"
# Whether numpy copies a sequence, as it copies a list.
cdef bint COPIES_TO_ARRAYS = False

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    # Declared with a pointer, because an argument of type `object` would be counted too.
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef extern from "thresholds.h":
    enum:
        MAX_UNCACHED_NUMBERS "OW_MAX_UNCACHED_NUMBERS"
        LONG_BYTES "OW_LONG_BYTES"

cdef enum:
    MIN_LONG_ARRAY = 1 << 16     # numbers; the unused capacity of such an array takes no pages


cdef Py_ssize_t capacity_for(Py_ssize_t n, Py_ssize_t n_more) noexcept:
    """Return the capacity of a new array of n numbers, to which `n_more` numbers will be added.

    A long array gets at once the capacity that it would get when it first grows, because growing moves all numbers.
    """
    return n + max(n_more, n >> 1) if n_more and n >= MIN_LONG_ARRAY else n + n_more


cdef object get_numbers(View self, void* closure):
    """Return the sequence of a repeated field of numbers; closure: the Field."""
    cdef RepeatedScalar sequence = RepeatedScalar.__new__(RepeatedScalar)
    fill(self)
    point_at(sequence, self, <Field*>closure)
    return sequence


@cython.final
@cython.no_gc
@cython.collection_type("sequence")
cdef class RepeatedScalar(Repeated):
    """A mutable sequence of numbers; numpy.asarray shares its memory unless the field was edited.

    If the only record is a packed run of fixed-size numbers, it is read in the document. Otherwise each sequence
    decodes the records once, into an array, unless the document has the numbers in its cache.
    """

    cdef bint fetch_runs(self) except -1:
        """Fetch the packed runs that are not resident; return whether there was one, so that a refresh is needed."""
        cdef Document document = self.document
        cdef object _parts = self.parts  # owns the spans of `cursor` while other threads run
        cdef uint64_t n_left = self.n_records
        cdef bint has_fetched = False
        cdef Cursor cursor
        cdef Record record
        self.start(&cursor)
        document.pins += 1
        try:
            while n_left and next_usable(&cursor, self.field, &record) > 0:
                n_left -= 1
                if record.tag & 7 == WIRE_LEN and not is_resident(record.value, record.n):
                    fetch(record.value, record.n)
                    has_fetched = True
        finally:
            document.pins -= 1
        return has_fetched

    cdef uint64_t count_elements(self, const uint8_t** fixed_run, PartCounts* counts) except? 0xFFFFFFFF:
        """Count the elements of the records, unknown values of a closed enum included.

        For a single packed run of numbers of fixed size, which can be read in place, set `fixed_run` to its start.
        counts: set to the numbers of values in the parts of the last packed run of varints; see `count_parts`.
        """
        cdef Document document = self.document
        cdef Field* field = self.field
        cdef Cursor cursor
        cdef Record record
        cdef const uint8_t* run
        cdef uint64_t total = 0
        cdef uint64_t _i
        self.start(&cursor)
        for _i in range(self.n_records):
            if next_usable(&cursor, field, &record) <= 0:
                raise decode_error(document, cursor.p, cursor.end)
            if record.tag & 7 == WIRE_LEN and record.n >= LONG_BYTES:
                document.check_unchanged()
            if record.tag & 7 != WIRE_LEN:
                total += 1
            elif field.wire == WIRE_VARINT:
                run = copied_value(&cursor, &record)
                if record.n and run[record.n - 1] >= 0x80:
                    raise packed_error(document, record.value, record.value + record.n, 0)
                total += count_parts(run, run + record.n, counts)
            else:
                if record.n % field.size:
                    raise packed_error(document, record.value, record.value + record.n, field.size)
                total += record.n // field.size
                if self.n_records == 1 and LITTLE_ENDIAN:
                    fixed_run[0] = record.value
        return total

    cdef bint refresh_records(self) except -1:
        """Refresh the sequence; return whether its elements are records, as `refresh` does."""
        cdef const uint8_t* first = self.first
        if not refresh(self):
            return False
        if self.first != first:
            # The field was absent before.
            self.items = NULL
            self.n = 0
        return True

    cdef int decode(self) except -1:
        """Set `items` and `n` to the current elements."""
        return self.decode_with_capacity(0)

    cdef int decode_with_capacity(self, Py_ssize_t n_more) except -1:
        """Decode like `decode`, with capacity for `n_more` further numbers if the records are decoded now."""
        while self.refresh_records():
            if self.items != NULL:
                return 0
            if N_PARTIAL and self.first != NULL and self.fetch_runs():
                continue
            # This may run other threads, so that another refresh is needed.
            self.decode_records(n_more)
        if (<Numbers>self.edited_elements).run_end != NULL:
            decode_run(self.field, <Numbers>self.edited_elements, self.document)
        self.load_edited()
        return 0

    cdef void load_edited(self) noexcept:
        """Set `items` and `n` to those of `edited_elements`, if it is not None; runs no other code."""
        if self.edited_elements is not None:
            self.items = (<Numbers>self.edited_elements).items
            self.n = (<Numbers>self.edited_elements).n

    @critical_section
    def _detach(self):
        """Store the numbers in `edited_elements`, so that they no longer depend on the message."""
        while self.items == NULL:
            if N_PARTIAL and self.first != NULL:
                self.fetch_runs()
            self.decode_records(0)
        self.edited_elements = self.writable_numbers(0)
        self.index_or_numbers = None
        self.load_edited()  # Python code may call this method again

    cdef Numbers copy(self):
        """Copy the elements that `decode` found."""
        cdef Numbers numbers = Numbers.allocate(self.n, self.field)
        memcpy(numbers.items, self.items, <size_t>self.n * self.field.size)
        return numbers

    cdef Numbers writable_numbers(self, Py_ssize_t n_more):
        """Return the elements that `decode` found, to be changed, with capacity for `n_more` further numbers.

        Returns `index_or_numbers` if nothing else has a reference to it, else a copy.
        """
        cdef Numbers numbers
        if self.index_or_numbers is None or Py_REFCNT(<PyObject*>self.index_or_numbers) > 1:
            numbers = Numbers.allocate(capacity_for(self.n, n_more), self.field)
            memcpy(numbers.items, self.items, <size_t>self.n * self.field.size)
            numbers.n = self.n
            return numbers
        numbers = self.index_or_numbers
        numbers.reserve(n_more)
        self.items = numbers.items
        return numbers

    cdef int decode_records(self, Py_ssize_t n_more) except -1:
        """Set `items` and `n` to the elements of the records; see `decode_with_capacity`."""
        cdef Document document = self.document
        cdef Field* field = self.field
        cdef const uint8_t* fixed_run = NULL
        cdef object _parts
        cdef Cursor cursor
        cdef Record record
        cdef Numbers numbers
        cdef PartCounts counts
        cdef const uint8_t* run
        cdef uint64_t total
        cdef uint64_t n_stored = 0
        cdef uint64_t count
        cdef uint64_t n_records
        cdef uint64_t _i
        cdef const uint8_t* first = self.first
        if self.first == NULL:
            self.items = <const uint8_t*>""
            self.n = 0
            return 0
        if self.use_cached():
            return 0
        total = self.count_elements(&fixed_run, &counts)
        if fixed_run != NULL:
            self.n = total
            self.items = fixed_run
            return 0
        numbers = Numbers.allocate(capacity_for(<Py_ssize_t>total, n_more), field)
        # Other threads may run below and refresh this sequence: `document` and `_parts` own the bytes and their spans.
        _parts = self.parts
        n_records = self.n_records
        self.start(&cursor)
        document.pins += 1
        try:
            for _i in range(n_records):
                if next_usable(&cursor, field, &record) <= 0:
                    raise decode_error(document, cursor.p, cursor.end)
                if record.tag & 7 != WIRE_LEN:
                    if n_stored < total and not (field.closed and not has_value(field, <int32_t>record.n)):
                        write_number(<uint8_t*>numbers.items + n_stored * field.size, field, record.n)
                        n_stored += 1
                    continue
                run = copied_value(&cursor, &record)
                count = store_long_run(
                    <uint8_t*>numbers.items + n_stored * field.size, field, run, record.n, total - n_stored,
                    &counts if n_records == 1 else NULL,
                )
                if field.wire == WIRE_VARINT and count != (
                    total if n_records == 1 else count_varints(run, run + record.n)
                ):
                    raise packed_error(document, record.value, record.value + record.n, 0)
                if field.closed:
                    count = remove_unknown(<int32_t*>numbers.items + n_stored, count, field)
                n_stored += count
        finally:
            document.pins -= 1
        numbers.n = n_stored
        # Another thread may have decoded the run meanwhile and exported its numbers.
        if self.items == NULL and self.first == first:
            self.use_decoded(numbers)
        return 0

    cdef bint use_cached(self) except -1:
        """Use the document's cached numbers of the records; return whether there are any."""
        cdef Numbers numbers = self.document.cached(NUMBERS, self.first)
        # If the bytes were replaced, the cache entry may belong to another field.
        if numbers is None or numbers.field_type != self.field.type:
            return False
        self.use_decoded(numbers)
        return True

    cdef void use_decoded(self, Numbers numbers):
        """Set `index_or_numbers` to decoded numbers, and `items` and `n` to theirs."""
        self.index_or_numbers = numbers
        self.n = numbers.n
        self.items = <const uint8_t*>numbers.items

    cdef object item(self, Py_ssize_t i):
        """Return the number at an index, which is less than `n`."""
        cdef const uint8_t* p = self.items + i * self.field.size
        cdef int field_type = self.field.type
        cdef int64_t wide
        cdef int32_t narrow
        cdef double real
        cdef float single
        if field_type == FLOAT:
            memcpy(&single, p, 4)
            return single
        if field_type == DOUBLE:
            memcpy(&real, p, 8)
            return real
        if field_type == BOOL:
            return p[0] != 0
        if self.field.size == 8:
            memcpy(&wide, p, 8)
            return <uint64_t>wide if field_type == UINT64 or field_type == FIXED64 else wide
        memcpy(&narrow, p, 4)
        return <uint32_t>narrow if field_type == UINT32 or field_type == FIXED32 else narrow

    @critical_section
    def __bool__(self):
        """Return whether there is an element. An unedited field is decoded only if it is a closed enum, which may drop
        values.
        """
        cdef Cursor cursor
        cdef Record record
        cdef uint64_t _i
        if not self.refresh_records() or self.field.closed:
            self.decode()
            return self.n > 0
        if self.first == NULL:
            return False
        self.start(&cursor)
        for _i in range(self.n_records):
            if next_usable(&cursor, self.field, &record) <= 0 or record.tag & 7 != WIRE_LEN or record.n:
                return True
        return False

    @critical_section
    def __len__(self):
        cdef const uint8_t* fixed_run = NULL
        cdef PartCounts counts
        if self.refresh_records() and self.items == NULL and self.first != NULL and not self.field.closed:
            if N_PARTIAL and self.field.wire == WIRE_VARINT:
                self.decode()
            elif self.n == 0 and not self.use_cached():
                self.n = self.count_elements(&fixed_run, &counts)
            return self.n
        self.decode()
        return self.n

    @critical_section
    def __iter__(self):
        cdef ScalarIterator iterator = ScalarIterator.__new__(ScalarIterator)
        self.decode()
        iterator.sequence = self
        return iterator

    @critical_section
    def __getitem__(self, key):
        cdef Py_ssize_t i
        cdef Slice indices
        if self.items == NULL:
            self.decode()
            # Code that reads by index often reads the attribute again for each index: cache the numbers.
            if self.edited_elements is None and self.index_or_numbers is not None and self.n > MAX_UNCACHED_NUMBERS:
                self.document.add_cached(NUMBERS, self.first, self.index_or_numbers)
        self.decode()
        if isinstance(key, slice):
            unpack_slice(&indices, key)
            elements = []
            # The slice's own code, or the garbage collector, may have changed the field.
            self.decode()
            adjust_slice(&indices, self.n)
            for i in range(indices.n):
                elements.append(self.item(indices.start + i * indices.step))
            return elements
        i = index_in(self.field, key, self.n)
        self.decode()
        if i >= self.n:
            raise changed_error(self.field)
        return self.item(i)

    @critical_section
    def numpy(self):
        """Return the numbers as a read-only numpy array of shape (len,).

        dtype: int64, uint64, int32 (also for enums), uint32, float32, float64 or bool, by the type of the field.
        The array shares this sequence's memory; if the field was edited, it is a copy. A later change of the field does
        not change the array. Raises DecodeError if the packed bytes are damaged.
        """
        import numpy
        return numpy.asarray(memoryview(self.make_payload()))

    @critical_section
    def __array__(self, dtype=None, copy=None):
        """Return an array, or a copy if `copy_to_arrays` is on.

        numpy also calls this method after a failed buffer request and suppresses the error of that request; this call
        raises it again.
        """
        if COPIES_TO_ARRAYS:
            return copy_as_array(self, dtype, copy)
        array = self.numpy()
        if copy:
            return array.astype(array.dtype if dtype is None else dtype)
        if dtype is None:
            return array
        converted = array.astype(dtype, copy=False)
        if copy is False and converted is not array:
            raise ValueError(
                f"an array of {converted.dtype} can't share the memory of {array.dtype} numbers; allow a copy"
            )
        return converted

    @critical_section
    def __bytes__(self):
        """Return one byte per number, as bytes() does for any iterable of ints."""
        return bytes(list(self))

    @critical_section
    def __getbuffer__(self, Py_buffer* view, int flags):
        if COPIES_TO_ARRAYS:
            raise TypeError(f"a bytes-like object is required, not '{type(self).__name__}'")
        expose(self.make_payload(), view, flags)

    cdef Payload make_payload(self):
        """Return the numbers as a buffer that later changes of the field don't affect."""
        cdef const uint8_t* items
        cdef object owner = None
        self.decode()
        items = self.items
        if self.edited_elements is not None:
            # An array may own the buffer for a long time, while the numbers change and move.
            owner = self.copy()
            items = (<Numbers>owner).items
        elif self.index_or_numbers is not None or self.first == NULL:
            owner = self.index_or_numbers or self
        return new_payload(self.document, items, self.n, self.field.size, buffer_format(self.field.type), owner)

    # --- changes

    cdef Numbers start_append(self, Py_ssize_t n_more):
        """Return the numbers, with capacity for `n_more` further numbers; they may follow a run that is not decoded."""
        cdef Numbers numbers
        if self.refresh_records():
            numbers = self.numbers_after_run(n_more)
            if numbers is not None:
                edit(self.message)
                # Code that runs in `edit` may have changed the field.
                if self.refresh_records() and self.first == numbers.origin:
                    store_numbers(self, numbers)
                    return numbers
        elif (<Numbers>self.edited_elements).run_end != NULL:
            # The message has bytes, so it is not absent from its parent.
            (<Numbers>self.edited_elements).reserve(n_more)
            return self.edited_elements
        return self.start_edit(n_more)

    cdef Numbers numbers_after_run(self, Py_ssize_t n_more):
        """Return empty Numbers that follow the packed run, if it is the only record; None if records must be decoded.

        Returns None also if the run was decoded before, or if any open document is in partial memory.
        """
        cdef Numbers numbers
        cdef Cursor cursor
        cdef Record record
        cdef Span run
        if self.n_records != 1 or self.index_or_numbers is not None or N_PARTIAL:
            return None
        if not self.field.packed or self.field.closed:
            return None
        self.start(&cursor)
        if next_usable(&cursor, self.field, &record) <= 0 or record.tag & 7 != WIRE_LEN:
            return None
        if record.n >= LONG_BYTES:
            self.document.check_unchanged()
        run = Span(record.value, record.n)
        check_run(self.field, self.document, &run)
        numbers = Numbers.allocate(0, self.field)
        numbers.reserve(n_more)
        numbers.origin = self.first
        numbers.run_end = record.value + record.n
        return numbers

    cdef Numbers start_edit(self, Py_ssize_t n_more):
        """Return the numbers for a change, with capacity for `n_more` further numbers, like RepeatedSpan.start_edit."""
        cdef Numbers numbers
        cdef const uint8_t* items
        while True:
            self.decode_with_capacity(n_more)
            if self.edited_elements is not None:
                numbers = self.edited_elements
                numbers.reserve(n_more)
                self.load_edited()
                # An overlay with a `parent` is that of an absent message, which `edit` adds to its parent.
                if self.is_detached or (<Overlay>self.message.overlay).parent == NULL:
                    return numbers
                edit(self.message)
                self.decode()
                if self.edited_elements is numbers:
                    return numbers
                continue
            numbers = self.writable_numbers(n_more)
            items = self.items
            edit(self.message)
            self.decode()
            if (
                self.edited_elements is None and self.items == items and self.n == numbers.n
                # Code that runs in `edit` may have exported the decoded numbers.
                and (numbers is not self.index_or_numbers or Py_REFCNT(<PyObject*>numbers) == 2)
            ):
                store_numbers(self, numbers)
                return numbers

    cdef Py_ssize_t find(self, value) except -2:
        cdef Py_ssize_t i
        cdef int overflow = 0
        cdef int64_t wide
        cdef int64_t element
        cdef int field_type = self.field.type
        if field_type != INT64 or not PyLong_CheckExact(value):
            return Repeated.find(self, value)
        wide = PyLong_AsLongLongAndOverflow(value, &overflow)
        self.decode()
        if overflow:
            return -1
        for i in range(self.n):
            memcpy(&element, self.items + i * 8, 8)
            if element == wide:
                return i
        return -1

    cdef object convert(self, values):
        return convert_numbers(self.field, values)

    cdef int splice(self, Py_ssize_t start, Py_ssize_t stop, values) except -1:
        cdef Numbers incoming = values
        cdef Numbers numbers
        cdef Py_ssize_t added = 0 if incoming is None else incoming.n
        cdef size_t size = self.field.size
        if added and start == 0 and self.refresh_records() and self.n == stop:
            # All numbers are replaced, so that they need not be decoded.
            edit(self.message)
            if self.refresh_records() and self.n == stop:
                return store_numbers(self, incoming)
        numbers = self.start_edit(max(added - (stop - start), 0))
        if stop > numbers.n:
            raise changed_error(self.field)
        numbers.resize_slice(start, stop, added)
        if added:
            memcpy(numbers.items + start * size, incoming.items, <size_t>added * size)
        return update_count(self, numbers.n)

    cdef int replace(self, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n, values) except -1:
        cdef Numbers incoming = values
        cdef Numbers numbers = self.start_edit(0)
        cdef size_t size = self.field.size
        cdef Py_ssize_t i
        if n and max(start, start + (n - 1) * step) >= numbers.n:
            raise changed_error(self.field)
        for i in range(n):
            memcpy(numbers.items + (start + i * step) * size, incoming.items + i * size, size)
        return 0

    @critical_section
    def _arrange(self, order, Py_ssize_t n_expected):
        """Keep the elements at the indices in `order`, in that order; raise if there are not `n_expected` elements."""
        # Allocations, and code that may run other code such as the iterator of `order`, precede the change.
        # CPython 3.11 leaks a list if list() has no memory to copy it.
        cdef list indices = (<list>order)[:] if type(order) is list else list(order)
        cdef Numbers old = Numbers.allocate(n_expected, self.field)
        cdef Numbers numbers = self.start_edit(0)
        cdef size_t size = self.field.size
        cdef Py_ssize_t n = len(indices)
        cdef Py_ssize_t i
        cdef Py_ssize_t index
        # The iterator of `order` may have changed the elements.
        if numbers.n != n_expected:
            raise changed_error(self.field)
        memcpy(old.items, numbers.items, <size_t>numbers.n * size)
        for i in range(n):
            index = indices[i]
            memcpy(numbers.items + i * size, old.items + index * size, size)
        numbers.n = n
        update_count(self, n)

    @critical_section
    def reverse(self):
        """Reverse the numbers in place."""
        cdef Numbers numbers = self.start_edit(0)
        # A constant size lets the compiler replace memcpy by single instructions.
        if numbers.size == 8:
            reverse_numbers(numbers, 8)
        elif numbers.size == 4:
            reverse_numbers(numbers, 4)
        else:
            reverse_numbers(numbers, 1)

    @critical_section
    def append(self, value):
        """Add a number at the end; raises TypeError or ValueError for a value that the field can't store."""
        cdef Numbers numbers
        cdef uint64_t raw = 0
        read_number(self.field, value, &raw)
        numbers = self.start_append(1)
        write_number(numbers.items + numbers.n * self.field.size, self.field, raw)
        numbers.n += 1
        update_count(self, numbers.n)

    @critical_section
    def extend(self, values):
        """Add all numbers of an iterable at the end.

        Raises TypeError or ValueError for a value that the field can't store; then nothing is added.
        """
        add_numbers(self, convert_numbers(self.field, values))


cdef inline void reverse_numbers(Numbers self, size_t size) noexcept:
    """Reverse numbers of `size` bytes."""
    cdef uint8_t* first = self.items
    cdef uint8_t* last = first + self.n * size
    cdef uint64_t number = 0
    while last - first >= <Py_ssize_t>(2 * size):
        last -= size
        memcpy(&number, first, size)
        memcpy(first, last, size)
        memcpy(last, &number, size)
        first += size


cdef inline int append_value(Numbers self, Field* field, value) except -1:
    """Add a Python number at the end."""
    cdef uint64_t raw = 0
    cdef int64_t wide
    cdef float single
    cdef int overflow = 0
    if self.n == self.allocation.capacity:
        self.reserve(1)
    if field.type == INT64 and PyLong_CheckExact(value):
        wide = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0:
            memcpy(self.items + self.n * 8, &wide, 8)
            self.n += 1
            return 0
    elif field.type == FLOAT and PyFloat_CheckExact(value):
        single = <float>PyFloat_AS_DOUBLE(value)
        memcpy(self.items + self.n * 4, &single, 4)
        self.n += 1
        return 0
    read_number(field, value, &raw)
    # Converting a number may run other code, but none that has a reference to this object.
    write_number(self.items + self.n * field.size, field, raw)
    self.n += 1
    return 0


cdef Numbers convert_numbers(Field* field, values):
    """Convert the values of an iterable to Numbers, with checks; copy those of a sequence of the same type.

    The copy keeps all bits: a conversion to a Python float would make a signalling NaN quiet.
    """
    cdef Numbers incoming
    cdef RepeatedScalar source
    if isinstance(values, RepeatedScalar):
        source = values
        if source.field == field or source.field.type == field.type and not field.closed:
            source.decode()
            return source.copy()
    if type(values) is list:
        incoming = Numbers.allocate(len(values), field)
        incoming.n = 0
        for value in <list>values:
            append_value(incoming, field, value)
        return incoming
    incoming = Numbers.allocate(0, field)
    for value in iterate(field, values):
        append_value(incoming, field, value)
    return incoming


cdef int add_numbers(RepeatedScalar self, Numbers incoming) except -1:
    """Add numbers at the end; the field may take over the Numbers object."""
    cdef Numbers numbers
    if incoming.n == 0:
        if not self.is_detached:
            edit(self.message)
        return 0
    if self.refresh_records():
        if self.message.overlay == NULL and add_first(self, incoming):
            return 0
        if self.first == NULL:
            edit(self.message)
            if self.refresh_records() and self.first == NULL:
                return store_numbers(self, incoming)
    numbers = self.start_append(incoming.n)
    append_numbers(numbers, incoming)
    return update_count(self, numbers.n)


cdef void append_numbers(Numbers self, Numbers incoming) noexcept:
    """Add numbers at the end, where there is capacity for them."""
    memcpy(self.items + self.n * self.size, incoming.items, <size_t>incoming.n * self.size)
    self.n += incoming.n


cdef bint add_first(RepeatedScalar self, Numbers incoming) except -1:
    """Add numbers as the first edit of the message; return False if the edit needs an Overlay, not a compact one."""
    cdef View message = self.message
    cdef Numbers numbers = incoming
    cdef Slot slot
    cdef bint is_stored = False
    if message.parts != NULL or not prefers_compact():
        return False
    if self.first != NULL:
        numbers = self.numbers_after_run(incoming.n)
        if numbers is None:
            self.decode()
            if self.edited_elements is not None or message.overlay != NULL:
                return False
            numbers = self.writable_numbers(incoming.n)
        append_numbers(numbers, incoming)
    slot = Slot(presence_mark(), <uint64_t>numbers.n)
    numbers.origin = self.first
    try:
        is_stored = register_edit(
            <Document>message.document, message.table, message.start, message.end, message.flags, self.field, &slot,
            <PyObject*>numbers
        )
    finally:
        if not is_stored and numbers is not incoming:
            numbers.n -= incoming.n
    if is_stored:
        self.edited_elements = numbers
        self.document = <Document>message.document
        self.index_or_numbers = None
        self.items = NULL
    return is_stored


cdef int store_numbers(RepeatedScalar self, Numbers numbers) except -1:
    """Store numbers in the message's overlay. They replace the field's records, or follow the run up to `run_end`."""
    cdef Overlay overlay = <Overlay>self.message.overlay
    numbers.origin = self.first
    self.edited_elements = numbers
    self.index_or_numbers = None
    self.items = NULL
    put_value(
        overlay, self.field, presence_mark() if numbers.n or numbers.run_end != NULL else NULL, <uint64_t>numbers.n,
        <PyObject*>numbers
    )
    return 0


@critical_section
def copy_to_arrays(turned_on):
    """Turn copies on or off. While they are on, sequences of numbers are not buffers (nor are those of protobuf), and
    numpy copies them.
    """
    global COPIES_TO_ARRAYS
    COPIES_TO_ARRAYS = turned_on


cdef object copy_as_array(RepeatedScalar self, dtype, copy):
    """Return a copy as a writable array, as numpy makes it from protobuf's sequences."""
    if copy is False:
        raise ValueError("an array of the numbers of a message is a copy; allow a copy")
    array = self.numpy()
    return array.astype(array.dtype if dtype is None else dtype)


cdef char* buffer_format(int field_type) noexcept:
    """Return the `struct` format of an element. A 64-bit integer is a `long`, as in numpy, if a `long` has 64 bits."""
    if field_type == FLOAT:
        return b"f"
    if field_type == DOUBLE:
        return b"d"
    if field_type == BOOL:
        return b"?"
    if field_type == INT64 or field_type == SINT64 or field_type == SFIXED64:
        return b"l" if sizeof(long) == 8 else b"q"
    if field_type == UINT64 or field_type == FIXED64:
        return b"L" if sizeof(long) == 8 else b"Q"
    if field_type == UINT32 or field_type == FIXED32:
        return b"I"
    return b"i"


@cython.final
@cython.no_gc
@cython.freelist(32)
cdef class ScalarIterator:
    """The iterator of a RepeatedScalar."""

    @critical_section
    def __iter__(self):
        return self

    @critical_section
    def __length_hint__(self):
        return 0 if self.sequence is None or self.i == ENDED else max(len(self.sequence) - self.i, 0)

    def __next__(self):
        number = self.next_number()
        if number is self:
            raise StopIteration
        return number

    @critical_section
    cdef object next_number(self):
        """Return the next number; at the end the iterator itself, which is faster than raising StopIteration here."""
        cdef RepeatedScalar sequence = self.sequence
        cdef View message
        if sequence is None or self.i == ENDED:
            return self
        message = sequence.message
        fill(message)
        # Like a list's iterator: the next element is the sequence's current element at the next index.
        if (
            message.overlay != NULL or sequence.edited_elements is not None
            or message.epoch != self.epoch or message.document != self.document
        ):
            sequence.decode()
            self.epoch = message.epoch
            self.document = message.document
        if self.i >= sequence.n:
            self.i = ENDED
            self.sequence = None
            return self
        self.i += 1
        return sequence.item(self.i - 1)


# The public module, for pickles and reprs.
(<PyTypeObject*>RepeatedScalar).tp_name = b"onnxwire.RepeatedScalar"
forbid_instantiation(RepeatedScalar, b"reading a repeated field of a message")
forbid_instantiation(ScalarIterator, b"iter() of a repeated field")
