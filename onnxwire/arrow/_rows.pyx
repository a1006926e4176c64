# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The rows of a table: a walk from message to message as a `TableSpec` says, and what each row adds to the columns."""
from cython cimport critical_section, final
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_FIXED32, WIRE_LEN, Record, load32, read_length, read_tag, read_varint, skip_value,
)
from onnxwire.arrow._columns cimport Column, Columns, Values, View, add_null, add_number, add_view, end_list
from onnxwire.arrow._program cimport (
    CHOICE, COUNT, FIELD, GRAPH, INDEX, INNER, INNER_COUNT, LIST, NODE, OFFSET, OWNER, PARAMETERS, PATH, ROLE, ROW,
    SIZE, STORAGE, STORAGE_ELEMENTS, STORAGE_SIZE, TEXT, TYPE, TYPE_NAME, USES, WIDEST, Plan, Program, Step,
    field_name, field_of,
)
from onnxwire.arrow._storage cimport add_elements, add_size, add_storage
from onnxwire.arrow._types cimport Types, add_type
from onnxwire.arrow._uses cimport Scope, add_uses, enter, leave
from onnxwire.arrow._walk cimport Frame, Message, Texts, Walk, next_element, start_at
from onnxwire.engine.damage cimport decode_error, packed_error
from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.partial cimport LONG, need
from onnxwire.engine.fetch_structure cimport WHOLE, fetch_structure
from onnxwire.engine.table cimport BYTES, ENUM, INT32, STRING, Field, Slot, Table
from onnxwire.engine.view cimport Cursor, next_usable, table_of
from onnxwire.index.names cimport TextNames

from onnxwire.arrow._program import program_of
from onnxwire.tensor.dtypes import name_of

cdef enum:
    MANY = 256               # rows whose number is told before


@final
cdef class Rows(Walk):
    """A walk over a message that fills the columns of a table.

    document, program, columns, is_placed: as of Walk. sizes: of tensors whose payloads are not in the document, in
    bytes by the order of tensors.
    """
    cdef Program program
    cdef bint has_uses
    cdef TextNames names             # of the scopes that the walk is in
    cdef int uses                    # the first column of uses
    cdef View graph
    cdef bint has_graph
    cdef dict sizes
    cdef int64_t tensors
    cdef Texts enum_names
    cdef Texts type_names
    cdef Types types
    cdef Scope scope

    @critical_section
    def __cinit__(self, Document document, Program program, Columns columns, bint is_placed, dict sizes or None):
        self.program = program
        cdef int i
        self.has_uses = program.has_uses
        self.names = TextNames()
        for i in range(program.n_steps):
            if program.steps[i].source == USES:
                self.uses = program.steps[i].column
        self.sizes = sizes

    @critical_section
    def run(self, root, Py_ssize_t start, Py_ssize_t end):
        """Add the rows."""
        cdef Message message
        cdef Table* table = table_of(root)
        if not 0 <= start <= end <= self.document.end - self.document.start:
            raise IndexError("no such offset in the document")
        message.p = self.document.start + start
        message.end = self.document.start + end
        message.parts = NULL
        fetch_structure(self.document, table, WHOLE, LONG, NULL, NULL)
        self.document.check_open()
        self.visit(table, &message, NULL, 0, table == self.wanted)

    cdef int visit(self, Table* table, Message* message, Field* through, int64_t index, bint is_row) except -1:
        """Add the rows of a message and of those in it, depth first, in the order of fields and elements."""
        cdef Slot[WIDEST] slots
        cdef uint32_t flags
        cdef Field* field
        cdef Cursor cursor
        cdef Message below
        cdef int64_t element
        cdef int i
        cdef View outer_graph = self.graph
        cdef bint had_graph = self.has_graph
        cdef Scope outer_scope = None
        cdef Frame* frame = &self.frames[self.depth]
        cdef Plan* plan = &self.plans[table - self.tables]
        cdef bint is_graph = table == self.graph_table or table == self.function_table
        cdef Py_ssize_t kept = len(self.kept)
        if self.depth > MAX_DEPTH:
            self.too_deep(message.p)
        frame.table = table
        frame.field = through
        frame.index = index
        self.depth += 1
        self.scan(table, message, slots, &flags)
        if is_graph:
            self.make_path(self.depth, &self.graph)
            self.has_graph = True
            if self.has_uses:
                outer_scope = self.scope
                self.scope = enter(self, outer_scope, &self.graph, table, message)
        if is_row:
            self.add_row(message, slots, flags)
        for i in range(plan.n):
            field = plan.follows[i].field
            if slots[field.slot].p == NULL:
                continue
            if not field.repeated:
                self.child(table, message, slots, flags, field, &below)
                self.visit(field.sub, &below, field, 0, plan.follows[i].flags & ROW != 0)
                continue
            # The slot tells how many there are, so that what comes after the last is not gone through.
            element = 0
            if plan.follows[i].flags & ROW and slots[field.slot].n >= MANY:
                self.columns.expect(<int64_t>slots[field.slot].n)
            start_at(&cursor, message, &slots[field.slot])
            while element < <int64_t>slots[field.slot].n and self.next_message(&cursor, field, &below, NULL):
                is_row = plan.follows[i].flags & ROW != 0
                if is_row or may_have_rows(self.plans, self.tables, field.sub, below.p, below.end, True):
                    self.visit(field.sub, &below, field, element, is_row)
                element += 1
        if is_graph:
            if self.has_uses:
                leave(self, self.names, self.scope, self.columns.block.columns + self.uses, slots)
                self.scope = outer_scope
            self.graph = outer_graph
            self.has_graph = had_graph
        if len(self.kept) > kept:
            del self.kept[kept:]
        self.depth -= 1
        return 0

    # --- rows

    cdef int add_row(self, Message* message, Slot* slots, uint32_t flags) except -1:
        cdef Step* step = self.program.steps
        cdef Step* stop = step + self.program.n_steps
        cdef Column* columns = self.columns.block.columns
        cdef Column* column
        cdef Values* values
        cdef Slot* slot
        cdef Frame* frame = &self.frames[self.depth - 1]
        cdef Slot[WIDEST] inner
        cdef Message below
        cdef uint32_t below_flags
        cdef View view
        while step < stop:
            column = columns + step.column
            values = &column.rows
            slot = slots + step.slot
            if step.source == TEXT:
                if slot.p == NULL:
                    add_null(values)
                else:
                    self.columns.add_text(values, slot.p, slot.n)
            elif step.source == FIELD:
                self.add_field(values, step.field, slot)
            elif step.source == GRAPH:
                if self.has_graph:
                    add_view(values, &self.graph)
                else:
                    add_null(values)
            elif step.source == LIST or step.source == CHOICE:
                self.add_list(column, message, step.field, slot)
                end_list(
                    column,
                    step.source == CHOICE and slot.p == NULL and not self.is_choice(slots, step.choice),
                )
            elif step.source == COUNT:
                add_number(values, <int64_t>slot.n)
            elif step.source == INDEX:
                add_number(values, frame.index)
            elif step.source == NODE:
                self.add_node(values)
            elif step.source == OFFSET:
                if self.is_placed:
                    add_number(values, message.p - self.document.start)
                else:
                    add_null(values)
            elif step.source == SIZE:
                if self.is_placed:
                    add_number(values, total_size(message))
                else:
                    add_null(values)
            elif step.source == ROLE:
                if frame.field == NULL:
                    add_null(values)
                else:
                    self.add_word(values, field_name(frame.field))
            elif step.source == PATH or step.source == OWNER:
                self.make_path(self.depth if step.source == PATH else self.depth - 1, &view)
                add_view(values, &view)
            elif step.source == TYPE_NAME:
                if slot.p == NULL:
                    add_null(values)
                else:
                    self.add_named(values, &self.type_names, <int32_t>slot.n, name_of)
            elif step.source == TYPE:
                add_type(self, &self.types, column, step.field, message, slots, flags)
            elif step.source == STORAGE or step.source == STORAGE_SIZE:
                known = self.sizes.get(self.tensors) if self.sizes else None
                self.tensors += 1
                if step.source == STORAGE:
                    add_storage(self, column, message, slots, flags, known)
                else:
                    add_size(self, values, message, slots, flags, known)
            elif step.source == STORAGE_ELEMENTS:
                add_elements(self, values, message, slots, flags)
            elif step.source == PARAMETERS:
                self.add_list(column, message, step.field, slot)
                self.add_defaults(column, message, slots)
                end_list(column, False)
            elif step.source == USES:
                add_uses(self, self.names, self.scope, column, message, slots)
            elif step.source == INNER or step.source == INNER_COUNT:
                memset(inner, 0, sizeof(inner))
                if slot.p != NULL:
                    self.child(self.wanted, message, slots, flags, step.field, &below)
                    self.scan(step.field.sub, &below, inner, &below_flags)
                if step.source == INNER:
                    self.add_field(values, step.inner, &inner[step.inner.slot])
                else:
                    add_number(values, <int64_t>inner[step.inner.slot].n)
            step += 1
        return 0

    cdef int add_node(self, Values* values) except -1:
        """Add the index of the node that the message is in, in the same graph."""
        cdef Table* table
        cdef int k = self.depth - 2
        while k >= 0:
            table = self.frames[k].table
            if table == self.node_table:
                return add_number(values, self.frames[k].index)
            if table == self.graph_table or table == self.function_table:
                break
            k -= 1
        return add_null(values)

    cdef int add_field(self, Values* values, const Field* field, const Slot* slot) except -1:
        if slot.p == NULL:
            return add_null(values)
        if field.type == STRING or field.type == BYTES:
            return self.columns.add_text(values, slot.p, slot.n)
        if field.type == ENUM:
            return self.add_named(values, &self.enum_names, <int32_t>slot.n, self.program.enum_name)
        if field.type == INT32:
            return add_number(values, <int32_t>slot.n)
        return add_number(values, <int64_t>slot.n)

    cdef bint is_choice(self, const Slot* slots, int64_t choice) noexcept:
        """Whether an attribute is of the type that a list is the value of."""
        cdef const Slot* slot = &slots[self.known.attribute_type.slot]
        return slot.p != NULL and <int64_t>slot.n == choice

    cdef int add_list(self, Column* column, const Message* message, const Field* field, const Slot* slot) except -1:
        """Add the elements of a repeated field of strings, int64 or floats to a list."""
        cdef Cursor cursor
        cdef Record record
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef uint64_t number = 0
        cdef uint64_t _i
        cdef int found
        if slot.p == NULL:
            return 0
        start_at(&cursor, message, slot)
        if field.size == 0:
            for _i in range(slot.n):
                if not next_element(self, &cursor, field, &record):
                    break
                self.columns.add_text(&column.items, record.value, record.n)
            return 0
        for _i in range(slot.n):
            found = next_usable(&cursor, field, &record)
            if found < 0:
                raise decode_error(self.document, cursor.p, cursor.end)
            if found == 0:
                break
            if record.tag & 7 != WIRE_LEN:
                add_number(&column.items, <int64_t>record.n)
                continue
            p = record.value
            end = p + record.n
            need(p, record.n)
            if field.wire == WIRE_FIXED32:
                if record.n % 4:
                    raise packed_error(self.document, p, end, 4)
                while p < end:
                    add_number(&column.items, load32(p))
                    p += 4
            else:
                while p < end:
                    p = read_varint(p, end, &number)
                    if p == NULL:
                        raise packed_error(self.document, record.value, end, 0)
                    add_number(&column.items, <int64_t>number)

    cdef int add_defaults(self, Column* column, const Message* message, const Slot* slots) except -1:
        """Add the names of a function's attributes that have defaults."""
        cdef Field* field = field_of(self.wanted, "attribute_proto")
        cdef Field* name = field_of(field.sub, "name")
        cdef Slot[WIDEST] inner
        cdef Cursor cursor
        cdef Message below
        if slots[field.slot].p == NULL:
            return 0
        start_at(&cursor, message, &slots[field.slot])
        while self.next_message(&cursor, field, &below, inner):
            if inner[name.slot].p != NULL:
                self.columns.add_text(&column.items, inner[name.slot].p, inner[name.slot].n)
        return 0


cdef bint may_have_rows(
    const Plan* plans, const Table* tables, const Table* table, const uint8_t* p, const uint8_t* end, bint looks_below
) noexcept nogil:
    """Whether there may be rows in a message that is none itself; most nodes and attributes have no graph in them.

    looks_below: also in the messages in it. Steps over a long value are left to the engine, and so is damage.
    """
    cdef const Plan* plan = &plans[table - tables]
    cdef const uint8_t* after
    cdef uint32_t tag = 0
    cdef uint64_t length = 0
    cdef int i
    while p < end:
        p = read_tag(p, end, &tag)
        if p == NULL:
            return True
        after = skip_value(p, end, tag, 0)
        if after == NULL or after - p > LONG:
            return True
        if tag >> 3 < 64 and plan.makers >> (tag >> 3) & 1:
            return True
        if tag >> 3 >= 64 or plan.numbers >> (tag >> 3) & 1:
            if not looks_below or tag & 7 != WIRE_LEN:
                return True
            for i in range(plan.n):
                if plan.follows[i].field.number == tag >> 3:
                    if plan.follows[i].flags & ROW:
                        return True
                    p = read_length(p, end, &length)
                    if may_have_rows(plans, tables, plan.follows[i].field.sub, p, after, False):
                        return True
                    break
        p = after
    return False


@critical_section
def fill_table(Document document, root, Py_ssize_t start, Py_ssize_t end, spec, copies, is_placed=True, sizes=None):
    """Make the columns of a table of a message that was not edited.

    document, root, start, end: the message's bytes and its class. spec: the TableSpec. copies: whether strings are
    copied; else the document is not closed as long as there are the columns. is_placed, sizes: as of Rows.
    Raises DecodeError for damaged bytes on the way.
    """
    cdef Columns columns = Columns([(name, type) for name, type, _, _ in spec.columns], document)
    Rows(document, program_of(root, spec), columns, is_placed, sizes).run(root, start, end)
    columns.finish(copies)
    return columns


cdef inline int64_t total_size(const Message* message) noexcept:
    cdef int64_t size = message.end - message.p
    cdef Py_ssize_t i
    if message.parts != NULL:
        for i in range(1, (<Spans>message.parts).n):
            size += <int64_t>(<Spans>message.parts).items[i].n
    return size
