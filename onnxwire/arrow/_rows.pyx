# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The rows of a table: the walk that a `TableSpec` describes, and the values that each row adds to the columns."""
from cython cimport critical_section, final
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport MAX_DEPTH, WIRE_LEN, Record, read_length, read_tag, skip_value
from onnxwire.arrow._columns cimport (
    Column, Columns, StringView, Values, add_null, add_number, add_string_view, end_list,
)
from onnxwire.arrow._program cimport (
    CHOICE, COUNT, FIELD, GRAPH, INDEX, INNER, INNER_COUNT, LIST, NODE, OFFSET, OWNER, PARAMETERS, PATH, ROLE,
    ROW, SIZE, STORAGE, STORAGE_ELEMENTS, STORAGE_SIZE, TEXT, TYPE, TYPE_NAME, USE, USES, Plan, Program, Step,
    field_name,
)
from onnxwire.arrow._storage cimport add_location, read_layout
from onnxwire.arrow._types cimport Types, add_type
from onnxwire.arrow._uses cimport Scope, add_uses, enter_scope, leave_scope
from onnxwire.arrow._walk cimport (
    Message, Numbers, PathStep, Texts, Walk, has, next_element, set_span, start_at, start_numbers,
)
from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.fetch_structure cimport NO_LIMIT, fetch_structure
from onnxwire.engine.partial cimport LONG_BYTES
from onnxwire.engine.table cimport BYTES, ENUM, INT32, STRING, Field, Slot, Table, find_field
from onnxwire.engine.view cimport Cursor, table_of
from onnxwire.index.names cimport TextNames
from onnxwire.tensor.payload_layout cimport Layout, payload_size, stored_elements

from onnxwire.arrow._program import program_of
from onnxwire.tensor.dtypes import name_of

cdef enum:
    MIN_EXPECTED_ROWS = 256  # `Columns.expect` is not called for a field with fewer rows


@final
cdef class Rows(Walk):
    """A walk over a message that fills the columns of a table.

    document, program, columns, has_file_offsets: see Walk. sizes: the sizes of raw_data that `to_arrow` omitted when it
    encoded the message, by the index of the tensor in document order.
    """
    cdef TextNames names             # the definitions of the current scopes
    cdef Scope* scope                # the innermost scope, for `uses`
    cdef StringView graph            # the path of the current graph or function
    cdef bint has_graph              # whether there is a current graph or function
    cdef dict sizes
    cdef int64_t n_tensors           # number of tensors that were visited
    cdef Texts enum_names            # cached names of enum values
    cdef Texts type_names            # cached names of data types
    cdef Types types                 # cached types of values

    @critical_section
    def __cinit__(self, Document document, Program program, Columns columns, bint has_file_offsets, dict sizes or None):
        self.names = TextNames()
        self.sizes = sizes

    @critical_section
    def run(self, root, Py_ssize_t start, Py_ssize_t end):
        """Add the rows of a message. root: its class. start, end: its offsets in the document."""
        cdef Message message
        cdef Record record
        if not 0 <= start <= end <= self.document.end - self.document.start:
            raise IndexError("no such offset in the document")
        record.value = self.document.start + start
        record.n = <uint64_t>(end - start)
        set_span(&message, table_of(root), &record)
        # In a remote document, fetch all strings, and other values below 64 KiB (LONG_BYTES).
        fetch_structure(self.document, message.table, NO_LIMIT, LONG_BYTES, NULL, NULL)
        self.document.check_open()
        self.fill(&message)
        self.visit(&message, NULL, 0, message.table == self.program.row_table)

    cdef int visit(self, const Message* message, Field* parent_field, int64_t index, bint is_row) except -1:
        """Add the rows of a message and of its descendants, depth first, in the order of fields and elements.

        parent_field: the field that contains the message, NULL for the root. index: the index of the message in that
        field. is_row: whether the message is a row.
        """
        cdef PathStep* path_step = &self.path[self.depth]
        cdef const Plan* plan = self.program.plan_of(message.table)
        cdef bint is_child_row
        cdef bint is_graph = message.table == self.program.graph_table or message.table == self.program.function_table
        cdef Py_ssize_t n_parts = len(self.parts)
        cdef StringView outer_graph = self.graph
        cdef bint had_graph = self.has_graph
        cdef Scope* outer_scope = self.scope
        cdef Scope scope
        cdef Message child
        cdef Field* field
        cdef Cursor cursor
        cdef Record record
        cdef int64_t i, count
        cdef uint32_t plan_index
        if self.depth > MAX_DEPTH:
            self.raise_too_deep(message.p)
        path_step.table = message.table
        path_step.field = parent_field
        path_step.index = index
        self.depth += 1
        if is_graph:
            self.make_path(self.depth, &self.graph)
            self.has_graph = True
            if self.program.uses_column >= 0:
                enter_scope(self, &scope, outer_scope, &self.graph, message)
                self.scope = &scope
        if is_row:
            self.add_row(message)
        for plan_index in range(plan.n):
            field = &message.table.fields[plan.slots[plan_index]]
            is_child_row = plan.flags[field.slot] & ROW != 0
            # `leave_scope` reads the outputs of graphs; their only flag is USE.
            if not has(message, field) or plan.flags[field.slot] == USE:
                continue
            if not field.repeated:
                self.child(message, field, &child)
                self.visit(&child, field, 0, is_child_row)
                continue
            # The slot has the number of elements, so the records after the last element are not read.
            count = <int64_t>message.slots[field.slot].n
            if is_child_row and count >= MIN_EXPECTED_ROWS:
                self.columns.expect(count)
            start_at(&cursor, message, field)
            for i in range(count):
                if not next_element(self, &cursor, field, &record):
                    break
                if is_child_row or may_have_rows(self.program, field.sub, record.value, record.value + record.n, True):
                    set_span(&child, field.sub, &record)
                    self.fill(&child)
                    self.visit(&child, field, i, is_child_row)
        if self.scope != outer_scope:
            leave_scope(self, self.names, &scope, self.columns.block.columns + self.program.uses_column)
            self.scope = outer_scope
        self.graph = outer_graph
        self.has_graph = had_graph
        if len(self.parts) > n_parts:
            del self.parts[n_parts:]
        self.depth -= 1
        return 0

    # --- rows

    cdef int add_row(self, const Message* message) except -1:
        """Add the values of a message to all columns."""
        cdef Step* step = self.program.steps
        cdef Step* stop = step + self.program.n_steps
        cdef PathStep* path_step = &self.path[self.depth - 1]
        cdef Column* column
        cdef Values* values
        cdef const Slot* slot = NULL
        cdef Message child
        cdef Layout layout
        cdef StringView view
        cdef int64_t items_before
        cdef bint is_null
        while step < stop:
            column = self.columns.block.columns + step.column
            values = &column.rows
            if step.field != NULL:
                slot = &message.slots[step.field.slot]
            if step.source == TEXT:
                if slot.p == NULL:
                    add_null(values)
                else:
                    self.columns.add_text(values, slot.p, slot.n)
            elif step.source == FIELD:
                self.add_field(values, step.field, slot)
            elif step.source == GRAPH:
                if self.has_graph:
                    add_string_view(values, &self.graph)
                else:
                    add_null(values)
            elif step.source == LIST or step.source == CHOICE:
                items_before = column.items.n
                if slot.p != NULL:
                    self.add_list(column, message, step.field)
                # Items are counted, because a field that is present may consist of an empty packed record.
                is_null = step.source == CHOICE and column.items.n == items_before
                end_list(column, is_null and not self.is_choice(message, step.choice))
            elif step.source == COUNT:
                add_number(values, <int64_t>slot.n)
            elif step.source == INDEX:
                add_number(values, path_step.index)
            elif step.source == NODE:
                self.add_node(values)
            elif step.source == OFFSET:
                self.add_unless_negative(values, message.p - self.document.start if self.has_file_offsets else -1)
            elif step.source == SIZE:
                self.add_unless_negative(values, total_size(message) if self.has_file_offsets else -1)
            elif step.source == ROLE:
                if path_step.field == NULL:
                    add_null(values)
                else:
                    self.add_c_string(values, field_name(path_step.field))
            elif step.source == PATH or step.source == OWNER:
                self.make_path(self.depth if step.source == PATH else self.depth - 1, &view)
                add_string_view(values, &view)
            elif step.source == TYPE_NAME:
                if slot.p == NULL:
                    add_null(values)
                else:
                    self.add_named(values, &self.type_names, <int32_t>slot.n, name_of)
            elif step.source == TYPE:
                add_type(self, &self.types, column, step.field, message)
            elif step.source == STORAGE or step.source == STORAGE_SIZE:
                read_layout(self, message, self.sizes.get(self.n_tensors) if self.sizes else None, &layout)
                self.n_tensors += 1
                add_number(values, payload_size(&layout))
                if step.source == STORAGE:
                    add_location(self, column + 1, message, &layout)
            elif step.source == STORAGE_ELEMENTS:
                read_layout(self, message, None, &layout)
                add_number(values, stored_elements(&layout))
            elif step.source == PARAMETERS:
                self.add_list(column, message, step.field)
                self.add_default_names(column, message)
                end_list(column, False)
            elif step.source == USES:
                add_uses(self, self.names, self.scope, column, message)
            elif step.source == INNER or step.source == INNER_COUNT:
                if slot.p != NULL:
                    self.child(message, step.field, &child)
                    slot = &child.slots[step.child_field.slot]
                if step.source == INNER:
                    self.add_field(values, step.child_field, slot)
                else:
                    add_number(values, <int64_t>slot.n)
            step += 1
        return 0

    cdef int add_node(self, Values* values) except -1:
        """Add the index of the node that contains the message; null if no node of the innermost graph or
        function contains it."""
        cdef Table* table
        cdef int level
        for level in range(self.depth - 2, -1, -1):
            table = self.path[level].table
            if table == self.program.node_table:
                return add_number(values, self.path[level].index)
            if table == self.program.graph_table or table == self.program.function_table:
                break
        return add_null(values)

    cdef int add_field(self, Values* values, const Field* field, const Slot* slot) except -1:
        """Add the value of a singular field, or the name of an enum's value; null if the field is absent."""
        if slot.p == NULL:
            return add_null(values)
        if field.type == STRING or field.type == BYTES:
            return self.columns.add_text(values, slot.p, slot.n)
        if field.type == ENUM:
            return self.add_named(values, &self.enum_names, <int32_t>slot.n, self.program.enum_name)
        if field.type == INT32:
            return add_number(values, <int32_t>slot.n)
        return add_number(values, <int64_t>slot.n)

    cdef bint is_choice(self, const Message* message, int64_t choice) noexcept:
        """Return whether the type of an attribute is `choice`."""
        cdef const Field* field = self.fields.attribute_type
        return has(message, field) and <int64_t>message.slots[field.slot].n == choice

    cdef int add_list(self, Column* column, const Message* message, const Field* field) except -1:
        """Add the elements of a repeated field of strings, bytes, int64 or floats to a list."""
        cdef uint64_t count = message.slots[field.slot].n
        cdef Cursor cursor
        cdef Record record
        cdef Numbers numbers
        cdef int64_t number = 0
        if field.size:
            start_numbers(&numbers, message, field)
            while self.next_number(&numbers, &number):
                add_number(&column.items, number)
            return 0
        start_at(&cursor, message, field)
        while count and next_element(self, &cursor, field, &record):
            self.columns.add_text(&column.items, record.value, record.n)
            count -= 1
        return 0

    cdef int add_default_names(self, Column* column, const Message* function) except -1:
        """Add the names of a function's attributes that have defaults."""
        cdef const Field* name = self.fields.attribute_name
        cdef Cursor cursor
        cdef Message attribute
        start_at(&cursor, function, self.fields.attribute_proto)
        while self.next_message(&cursor, self.fields.attribute_proto, &attribute):
            if has(&attribute, name):
                self.columns.add_text(&column.items, attribute.slots[name.slot].p, attribute.slots[name.slot].n)
        return 0


cdef bint may_have_rows(
    Program program, const Table* table, const uint8_t* p, const uint8_t* end, bint examines_children
) noexcept nogil:
    """Return False only if no descendant of a message can be a row or use a value (USE in _program.pxd).

    p, end: the bytes of the message. examines_children: whether to examine the bytes of its children, too; without
    this, each child in a field that the walk follows counts as a row. Returns True for damage and long values, which
    the walk handles.
    """
    cdef const Plan* plan = program.plan_of(table)
    cdef const uint8_t* value_end
    cdef const Field* field
    cdef uint32_t tag = 0
    cdef uint64_t length = 0
    while p < end:
        p = read_tag(p, end, &tag)
        if p == NULL:
            return True
        value_end = skip_value(p, end, tag, 0)
        if value_end == NULL or value_end - p > LONG_BYTES:
            return True
        # tag >> 3 is the field number. A field is looked up if its bit in `numbers` is set (the walk may follow the
        # field), or if its number is 64 or more.
        if tag >> 3 >= 64 or plan.numbers >> (tag >> 3) & 1:
            field = find_field(table, tag >> 3)
            if field == NULL or not examines_children or tag & 7 != WIRE_LEN or plan.flags[field.slot] & (ROW | USE):
                return True
            p = read_length(p, end, &length)
            if may_have_rows(program, field.sub, p, value_end, False):
                return True
        p = value_end
    return False


@critical_section
def fill_table(
    Document document, root, Py_ssize_t start, Py_ssize_t end, spec, copies, has_file_offsets=True, sizes=None
):
    """Return the columns of a table of a message without edits.

    root: the message's class. start, end: the offsets of its bytes in the document. spec: the TableSpec. copies:
    whether strings are copied; if not, the document stays open while string views of the columns refer to it.
    has_file_offsets: see Walk. sizes: see Rows.
    Raises IndexError for offsets outside the document, ClosedError for a closed document, DecodeError for damaged
    bytes, FieldValueError for more text or items than a column can contain, and the errors of fetching bytes.
    """
    cdef Columns columns = Columns([(name, type) for name, type, _, _ in spec.columns], document)
    Rows(document, program_of(root, spec), columns, has_file_offsets, sizes).run(root, start, end)
    columns.finish(copies)
    return columns


cdef inline int64_t total_size(const Message* message) noexcept:
    """Return the number of bytes of all spans of a message."""
    cdef int64_t size = message.end - message.p
    cdef Py_ssize_t i
    if message.parts != NULL:
        for i in range(1, (<Spans>message.parts).n):
            size += <int64_t>(<Spans>message.parts).items[i].n
    return size
