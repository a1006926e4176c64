# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A walk over the messages of a document, without a Python object a message.

A message is a span, or several, and the slots that the engine's own pass over its tags fills; so presence, oneofs,
merges and unknown fields are here what they are in views.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from cython cimport critical_section
from libc.stdio cimport snprintf
from libc.string cimport memset, strlen

from onnxwire.engine.instances cimport close_base
from onnxwire._varint cimport FAULT_DEPTH, WIRE_LEN, Damage
from onnxwire.arrow._columns cimport add_null, add_number, add_view
from onnxwire.arrow._program cimport field_name
from onnxwire.engine.damage cimport damage_error, decode_error
from onnxwire.engine.document cimport Span, Spans
from onnxwire.engine.view cimport HAS_MERGE, collect_parts, next_record, scan_slots, start_records

cdef const char* DOT = "."
cdef const char* NO_DOT = ""


cdef class Walk:
    """The way from the root to the message that a walk is at; what it reads there, and adds to columns.

    document: the bytes; program: what to do. is_placed: whether offsets mean bytes that the caller knows.
    """

    @critical_section
    def __cinit__(self, Document document, Program program, Columns columns, bint is_placed, *_):
        self.document = document
        self.columns = columns
        self.known = program.known
        self.tables = program.owner.tables
        self.plans = program.plans
        self.wanted = program.wanted
        self.graph_table = program.graph_table
        self.function_table = program.function_table
        self.node_table = program.node_table
        self.is_placed = is_placed
        self.kept = []

    # --- messages

    cdef int scan(self, Table* table, const Message* message, Slot* slots, uint32_t* flags) except -1:
        """Fill the slots of a message."""
        cdef const uint8_t* fault
        cdef const uint8_t* end = message.end
        cdef uint64_t records = 0
        cdef Span* part
        cdef Py_ssize_t i
        memset(slots, 0, table.n_fields * sizeof(Slot))
        flags[0] = 0
        if message.parts == NULL:
            fault = scan_slots(table, message.p, end, slots, flags, &records, &self.document.far)
        else:
            fault = NULL
            for i in range((<Spans>message.parts).n):
                part = &(<Spans>message.parts).items[i]
                end = part.p + part.n
                fault = scan_slots(table, part.p, end, slots, flags, &records, &self.document.far)
                if fault != NULL:
                    break
        if fault != NULL:
            raise decode_error(self.document, fault, end)
        return 0

    cdef int child(
        self, Table* table, const Message* message, const Slot* slots, uint32_t flags, const Field* field, Message* out
    ) except -1:
        """The message in a singular field that is there."""
        cdef Cursor cursor
        cdef Spans parts
        out.p = slots[field.slot].p
        out.end = out.p + slots[field.slot].n
        out.parts = NULL
        if flags & HAS_MERGE:
            start_records(&cursor, message.p, message.end, message.parts, NULL)
            parts = collect_parts(&cursor, table, field)
            if parts.n > 1:
                self.kept.append(parts)
                out.parts = <PyObject*>parts
                out.p = parts.items[0].p
                out.end = out.p + parts.items[0].n
        return 0

    cdef bint find_element(self, Cursor* cursor, const Field* field, Record* record) except -1:
        """The next record of a repeated field of messages or strings, wherever it stands, or none."""
        cdef int found
        while True:
            found = next_record(cursor, field.number, record)
            if found < 0:
                raise decode_error(self.document, cursor.p, cursor.end)
            if found == 0 or record.tag & 7 == WIRE_LEN:
                return found

    cdef bint next_message(self, Cursor* cursor, const Field* field, Message* out, Slot* slots) except -1:
        """The next message of a repeated field, or none. slots: filled if there are some to fill."""
        cdef Record record
        cdef uint32_t flags
        if not next_element(self, cursor, field, &record):
            return False
        out.p = record.value
        out.end = record.value + record.n
        out.parts = NULL
        if slots != NULL:
            self.scan(field.sub, out, slots, &flags)
        return True

    cdef int too_deep(self, const uint8_t* p) except -1:
        cdef Damage damage
        memset(&damage, 0, sizeof(damage))
        damage.fault = FAULT_DEPTH
        damage.at = p
        raise damage_error(self.document, damage, self.document.end)

    # --- texts that stand nowhere in the document

    cdef int add_word(self, Values* values, const char* word) except -1:
        return self.columns.add_own(values, <const uint8_t*>word, strlen(word))

    cdef int add_named(self, Values* values, Texts* texts, int32_t number, name) except -1:
        """Add the text of a number, which `name` tells."""
        cdef bytes text
        if 0 <= number < NAMED:
            if not texts.is_made[number]:
                text = name(number).encode()
                self.columns.make_own_view(<const uint8_t*>PyBytes_AS_STRING(text), len(text), &texts.views[number])
                texts.is_made[number] = True
            return add_view(values, &texts.views[number])
        text = name(number).encode()
        return self.columns.add_own(values, <const uint8_t*>PyBytes_AS_STRING(text), len(text))

    cdef int write_path(self, int depth) except -1:
        """Write the path of the message `depth` steps from the root, itself one; returns its length."""
        cdef Frame* frame
        cdef const char* dot
        cdef int room = sizeof(self.path_text)
        cdef int n = 0
        cdef int k
        self.path_text[0] = 0
        for k in range(1, depth):
            frame = &self.frames[k]
            dot = DOT if n else NO_DOT
            if frame.field.repeated:
                n += snprintf(
                    self.path_text + n, room - n, "%s%s[%lld]", dot, field_name(frame.field), <long long>frame.index
                )
            else:
                n += snprintf(self.path_text + n, room - n, "%s%s", dot, field_name(frame.field))
            if n >= room:
                raise MemoryError
        return n

    cdef int make_path(self, int depth, View* view) except -1:
        cdef int n = self.write_path(depth)
        return self.columns.make_own_view(<const uint8_t*>self.path_text, <uint64_t>n, view)

    cdef int add_unless_negative(self, Values* values, int64_t number) except -1:
        return add_null(values) if number < 0 else add_number(values, number)


close_base(Walk)
