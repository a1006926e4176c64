# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A walk over the messages of a document, without a Python object for each message.

A `Message` has one or several spans, and the slots that `scan_slots` fills. So the rules of presence, oneofs,
merged messages and unknown fields are the same as in views.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from cython cimport critical_section
from libc.stdio cimport snprintf
from libc.string cimport memset, strlen

from onnxwire._varint cimport FAULT_DEPTH, WIRE_FIXED32, WIRE_LEN, Damage, load32, read_varint
from onnxwire.arrow._columns cimport add_null, add_number, add_string_view
from onnxwire.arrow._program cimport field_name
from onnxwire.engine.damage cimport damage_error, decode_error, packed_error
from onnxwire.engine.document cimport Span, Spans
from onnxwire.engine.instances cimport forbid_subclasses
from onnxwire.engine.partial cimport ensure_resident
from onnxwire.engine.view cimport HAS_MERGE, collect_parts, next_record, next_usable, scan_slots

cdef const char* DOT = "."
cdef const char* EMPTY_TEXT = ""


cdef class Walk:
    """A walk over the messages of a document that adds values to columns.

    program: the fields that the walk follows, and the source of each column. columns: the columns that the walk fills.
    has_file_offsets: whether offsets in the document are those of the caller's file.
    """

    @critical_section
    def __cinit__(self, Document document, Program program, Columns columns, bint has_file_offsets, *_):
        self.document = document
        self.columns = columns
        self.program = program
        self.fields = &program.fields
        self.has_file_offsets = has_file_offsets
        self.parts = []

    # --- messages

    cdef int fill(self, Message* message) except -1:
        """Fill the slots of a message from its bytes."""
        cdef const uint8_t* fault
        cdef const uint8_t* end = message.end
        cdef uint64_t records = 0
        cdef Span* part
        cdef Py_ssize_t i
        memset(message.slots, 0, message.table.n_fields * sizeof(Slot))
        message.flags = 0
        if message.parts == NULL:
            fault = scan_slots(
                message.table, message.p, end, message.slots, &message.flags, &records, &self.document.far
            )
        else:
            fault = NULL
            for i in range((<Spans>message.parts).n):
                part = &(<Spans>message.parts).items[i]
                end = part.p + part.n
                fault = scan_slots(
                    message.table, part.p, end, message.slots, &message.flags, &records, &self.document.far
                )
                if fault != NULL:
                    break
        if fault != NULL:
            raise decode_error(self.document, fault, end)
        return 0

    cdef int child(self, const Message* message, const Field* field, Message* out) except -1:
        """Read the message in a singular field that is present, and fill its slots."""
        cdef const Slot* slot = &message.slots[field.slot]
        cdef Cursor cursor
        cdef Spans parts
        out.table = field.sub
        out.p = slot.p
        out.end = slot.p + slot.n
        out.parts = NULL
        if message.flags & HAS_MERGE:  # a singular message occurs twice, perhaps this one
            start_records(&cursor, message.p, message.end, message.parts, NULL)
            parts = collect_parts(&cursor, message.table, field)
            if parts.n > 1:
                self.parts.append(parts)
                out.parts = <PyObject*>parts
                out.p = parts.items[0].p
                out.end = out.p + parts.items[0].n
        return self.fill(out)

    cdef bint find_element(self, Cursor* cursor, const Field* field, Record* record) except -1:
        """Read the next record of a field of messages or strings, skipping other records. Return False at the end."""
        cdef int status
        while True:
            status = next_record(cursor, field.number, record)
            if status < 0:
                raise decode_error(self.document, cursor.p, cursor.end)
            if status == 0 or record.tag & 7 == WIRE_LEN:
                return status

    cdef bint next_message(self, Cursor* cursor, const Field* field, Message* out) except -1:
        """Read the next message of a repeated field. Return False after the last message."""
        cdef Record record
        if not next_element(self, cursor, field, &record):
            return False
        set_span(out, field.sub, &record)
        self.fill(out)
        return True

    cdef bint next_number(self, Numbers* numbers, int64_t* number) except -1:
        """Read the next number of a repeated field: an integer, or the bits of a float. Return False at the end."""
        cdef Record record
        cdef uint64_t value = 0
        cdef int status
        while numbers.p == numbers.end:
            if numbers.records == 0:
                return False
            numbers.records -= 1
            status = next_usable(&numbers.cursor, numbers.field, &record)
            if status < 0:
                raise decode_error(self.document, numbers.cursor.p, numbers.cursor.end)
            if status == 0:
                return False
            if record.tag & 7 != WIRE_LEN:
                number[0] = <int64_t>record.n
                return True
            ensure_resident(record.value, record.n)
            numbers.run = numbers.p = record.value
            numbers.end = record.value + record.n
            if numbers.field.wire == WIRE_FIXED32 and record.n % 4:
                raise packed_error(self.document, numbers.p, numbers.end, 4)
        if numbers.field.wire == WIRE_FIXED32:
            number[0] = load32(numbers.p)
            numbers.p += 4
            return True
        numbers.p = read_varint(numbers.p, numbers.end, &value)
        if numbers.p == NULL:
            raise packed_error(self.document, numbers.run, numbers.end, 0)
        number[0] = <int64_t>value
        return True

    cdef int raise_too_deep(self, const uint8_t* p) except -1:
        """Raise DecodeError for a message that is nested too deeply."""
        cdef Damage damage
        memset(&damage, 0, sizeof(damage))
        damage.fault = FAULT_DEPTH
        damage.at = p
        raise damage_error(self.document, damage, self.document.end)

    # --- values that the document does not contain

    cdef int add_c_string(self, Values* values, const char* text) except -1:
        """Add a copy of a NUL-terminated string of UTF-8."""
        return self.columns.add_copied_text(values, <const uint8_t*>text, strlen(text))

    cdef int add_named(self, Values* values, Texts* texts, int32_t number, name) except -1:
        """Add the text that the function `name` returns for a number. texts: a cache of the results of `name`."""
        cdef StringView view
        cdef bytes text
        if 0 <= number < CACHED_NUMBERS and texts.is_cached[number]:
            return add_string_view(values, &texts.views[number])
        text = name(number).encode()
        self.columns.make_copied_string_view(<const uint8_t*>PyBytes_AS_STRING(text), len(text), &view)
        if 0 <= number < CACHED_NUMBERS:
            texts.views[number] = view
            texts.is_cached[number] = True
        return add_string_view(values, &view)

    cdef int make_path(self, int depth, StringView* view) except -1:
        """Make a string view of the path of the message at `self.path[depth - 1]`."""
        cdef PathStep* step
        cdef const char* separator = EMPTY_TEXT
        cdef int capacity = sizeof(self.path_text)
        cdef int n = 0
        cdef int level
        self.path_text[0] = 0
        for level in range(1, depth):
            step = &self.path[level]
            n += snprintf(self.path_text + n, capacity - n, "%s%s", separator, field_name(step.field))
            if step.field.repeated and n < capacity:
                n += snprintf(self.path_text + n, capacity - n, "[%lld]", <long long>step.index)
            if n >= capacity:
                raise MemoryError
            separator = DOT
        return self.columns.make_copied_string_view(<const uint8_t*>self.path_text, <uint64_t>n, view)

    cdef int add_unless_negative(self, Values* values, int64_t number) except -1:
        """Add an integer, or a null for a negative one."""
        return add_null(values) if number < 0 else add_number(values, number)


forbid_subclasses(Walk)
