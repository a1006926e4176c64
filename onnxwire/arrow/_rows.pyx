# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The walk that fills a table: from message to message as a `TableSpec` says, without a Python object a row.

A message is a span, or several, and the slots that the engine's own pass over its tags fills; so presence, oneofs,
merges and unknown fields are here what they are in views.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset, strlen

from onnxwire._varint cimport FAULT_DEPTH, MAX_DEPTH, WIRE_FIXED32, WIRE_LEN, Damage, load32, read_varint
from onnxwire.arrow._columns cimport Column, Columns, Values, View, add_null, add_number, add_view, end_list
from onnxwire.engine.damage cimport damage_error, decode_error, packed_error
from onnxwire.engine.document cimport Document, Span, Spans
from onnxwire.engine.table cimport BYTES, ENUM, INT32, STRING, Field, Slot, Table, TableOwner, TableRef
from onnxwire.engine.view cimport (
    HAS_MERGE, Cursor, Record, collect_parts, next_record, next_usable, scan_slots, start_records, table_of,
)

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8(object) except NULL

from functools import cache, partial

from onnxwire.arrow.tables import plan_of
from onnxwire.tensor.dtypes import BY_NUMBER, name_of

cdef enum:
    DIGITS = 24              # room for those of an int64, and a sign
    WIDEST = 64              # fields of a message type
    NAMED = 64               # numbers whose texts are kept
    DEEPER = 1               # flags of a plan: rows may be in the field
    ROW = 2                  # its elements are rows

cdef enum Source:
    NOTHING                  # another column's source fills it
    FIELD
    TYPE_NAME
    LIST
    CHOICE
    COUNT
    INNER
    INNER_COUNT
    GRAPH
    PATH
    OWNER
    INDEX
    NODE
    ROLE
    OFFSET
    SIZE
    PARAMETERS
    TYPE
    STORAGE
    USES

_SOURCES = {
    "": NOTHING, "field": FIELD, "type name": TYPE_NAME, "list": LIST, "choice": CHOICE, "count": COUNT, "inner": INNER,
    "inner count": INNER_COUNT, "graph": GRAPH, "path": PATH, "owner": OWNER, "index": INDEX, "node": NODE,
    "role": ROLE, "offset": OFFSET, "size": SIZE, "parameters": PARAMETERS, "type": TYPE, "storage": STORAGE,
    "uses": USES,
}

cdef const char* DOT = "."
cdef const char* NO_DOT = ""
cdef const char* INLINE = "inline"
cdef const char* EXTERNAL = "external"
cdef const char* INPUT = "input"
cdef const char* OUTPUT = "output"

# Which AttributeProto.type a repeated field is the value of.
_CHOICES = {"floats": 6, "ints": 7, "strings": 8}

cdef struct Message:
    const uint8_t* p
    const uint8_t* end
    PyObject* parts          # Spans of a message that stands in several pieces, else NULL; `Rows.kept` holds them

cdef struct Frame:
    # A message on the way from the root, and the field of the one before it that it is in.
    Table* table
    Field* field             # NULL of the root
    int64_t index

cdef struct Step:
    Source source
    int column               # and those after it that the source fills too
    Field* field
    Field* inner
    int64_t choice

cdef struct Texts:
    # The texts of numbers: of an enum, of data types, of types.
    View[NAMED] views
    bint[NAMED] is_made

cdef struct Follow:
    # A field that a walk follows.
    Field* field
    int flags                # DEEPER | ROW

cdef struct Plan:
    int n
    Follow* follows          # in the order of fields

cdef struct Known:
    # Fields that rows of values, attributes, tensors and uses ask for; of messages that can't be reached, too.
    Field* attribute_type
    Field* tensor_type
    Field* sparse_tensor_type
    Field* elem_type
    Field* shape
    Field* dim
    Field* dim_value
    Field* dim_param
    Field* input
    Field* output
    Field* raw_data
    Field* data_location
    Field* data_type
    Field* external_data
    Field* dims
    Field* string_data
    Field* key
    Field* value


cdef class Scope:
    """A graph or function whose nodes are gone through, for `uses`."""
    cdef Message message
    cdef Table* table
    cdef View path
    cdef int64_t node                # the one of its nodes that is being gone through
    cdef Scope outer                 # the graph whose node has this one in an attribute, or None
    cdef set names                   # what it defines; None until it is asked for


cdef Field* field_of(Table* table, str name) except NULL:
    return &table.fields[<Py_ssize_t>(<dict><object>table.names)[name]]


cdef class Program:
    """The program of a walk from messages of a class that fills a table; made once of each class and table."""
    cdef TableOwner owner            # of the C tables
    cdef Known known
    cdef Plan* plans                 # by table
    cdef Table* wanted
    cdef Table* graph_table
    cdef Table* function_table
    cdef Table* node_table
    cdef Step* steps
    cdef int n_steps
    cdef object enum_name            # of a number
    cdef bint has_uses

    def __cinit__(self, root, spec):
        cdef TableRef ref = root._table
        cdef Step* step
        cdef Table* table
        cdef Plan* plan
        self.owner = ref.owner
        self.graph_table = self.table("GraphProto")
        self.function_table = self.table("FunctionProto")
        self.node_table = self.table("NodeProto")
        self.wanted = self.table(spec.message)
        self.know()
        self.plans = <Plan*>calloc(ref.owner.n_tables, sizeof(Plan))
        self.steps = <Step*>calloc(len(spec.columns), sizeof(Step))
        if self.plans == NULL or self.steps == NULL:
            raise MemoryError
        for name, fields in plan_of(root.DESCRIPTOR, spec).items():
            table = self.table(name)
            plan = &self.plans[table - ref.owner.tables]
            plan.follows = <Follow*>calloc(len(fields), sizeof(Follow))
            if plan.follows == NULL:
                raise MemoryError
            for field, flags in fields.items():
                plan.follows[plan.n].field = field_of(table, field)
                plan.follows[plan.n].flags = flags
                plan.n += 1
        for i, (_, _, source, field) in enumerate(spec.columns):
            if source == "":
                continue
            step = &self.steps[self.n_steps]
            self.n_steps += 1
            step.source = _SOURCES[source]
            step.column = i
            outer, _, inner = field.partition(".")
            if outer:
                step.field = field_of(self.wanted, outer)
            if inner:
                step.inner = field_of(step.field.sub, inner)
            step.choice = _CHOICES.get(field, -1)
            if step.source == FIELD and step.field.type == ENUM:
                self.enum_name = partial(name_in, (<object>step.field.descriptor).enum_type.values_by_number)
            self.has_uses |= step.source == USES

    cdef int know(self) except -1:
        """Look up the fields that are asked for by name."""
        cdef Known* known = &self.known
        cdef Table* tensor = self.table("TensorProto")
        known.attribute_type = field_of(self.table("AttributeProto"), "type")
        known.tensor_type = field_of(self.table("TypeProto"), "tensor_type")
        known.sparse_tensor_type = field_of(self.table("TypeProto"), "sparse_tensor_type")
        known.elem_type = field_of(known.tensor_type.sub, "elem_type")
        known.shape = field_of(known.tensor_type.sub, "shape")
        known.dim = field_of(known.shape.sub, "dim")
        known.dim_value = field_of(known.dim.sub, "dim_value")
        known.dim_param = field_of(known.dim.sub, "dim_param")
        known.input = field_of(self.node_table, "input")
        known.output = field_of(self.node_table, "output")
        known.raw_data = field_of(tensor, "raw_data")
        known.data_location = field_of(tensor, "data_location")
        known.data_type = field_of(tensor, "data_type")
        known.external_data = field_of(tensor, "external_data")
        known.dims = field_of(tensor, "dims")
        known.string_data = field_of(tensor, "string_data")
        known.key = field_of(known.external_data.sub, "key")
        known.value = field_of(known.external_data.sub, "value")
        return 0

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.plans != NULL:
            for i in range(self.owner.n_tables):
                free(self.plans[i].follows)
        free(self.plans)
        free(self.steps)

    cdef Table* table(self, str name) except NULL:
        cdef Table* table = &self.owner.tables[<Py_ssize_t>self.owner.indices[f"onnx.{name}"]]
        if table.n_fields > WIDEST:
            raise MemoryError
        return table


cdef class Rows:
    """A walk over a message that fills the columns of a table.

    document: the bytes; program: what to do. is_placed: whether offsets mean bytes that the caller knows. sizes: of
    tensors whose payloads are not in the document, in bytes by the order of tensors.
    """
    cdef Document document
    cdef Columns columns
    cdef Program program
    cdef Known known                 # these and what follows, as the program has them
    cdef Table* tables
    cdef Plan* plans
    cdef Table* wanted
    cdef Table* graph_table
    cdef Table* function_table
    cdef Table* node_table
    cdef bint has_uses
    cdef Frame[MAX_DEPTH + 2] frames
    cdef int depth
    cdef list kept                   # the Spans of messages on the way
    cdef View graph
    cdef bint has_graph
    cdef bint is_placed
    cdef dict sizes
    cdef int64_t tensors
    cdef Texts enum_names
    cdef Texts type_names
    cdef Texts tensor_types
    cdef Scope scope
    cdef char[8192] path_text

    def __cinit__(self, Document document, Program program, Columns columns, bint is_placed, dict sizes):
        self.document = document
        self.columns = columns
        self.program = program
        self.known = program.known
        self.tables = program.owner.tables
        self.plans = program.plans
        self.wanted = program.wanted
        self.graph_table = program.graph_table
        self.function_table = program.function_table
        self.node_table = program.node_table
        self.has_uses = program.has_uses
        self.is_placed = is_placed
        self.sizes = sizes
        self.kept = []

    def run(self, root, Py_ssize_t start, Py_ssize_t end):
        """Add the rows."""
        cdef Message message
        cdef Table* table = table_of(root)
        if not 0 <= start <= end <= self.document.end - self.document.start:
            raise IndexError("no such place in the document")
        message.p = self.document.start + start
        message.end = self.document.start + end
        message.parts = NULL
        self.visit(table, &message, NULL, 0, table == self.wanted)

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

    cdef inline void start(self, Cursor* cursor, const Message* message, const Slot* slot) noexcept:
        start_records(cursor, message.p, message.end, message.parts, slot.p)

    cdef bint next_element(self, Cursor* cursor, const Field* field, Record* record) except -1:
        """The next record of a repeated field of messages or strings, or none."""
        cdef int found
        while True:
            found = next_record(cursor, field.number, record)
            if found < 0:
                raise decode_error(self.document, cursor.p, cursor.end)
            if found == 0 or record.tag & 7 == WIRE_LEN:
                return found

    cdef int too_deep(self, const uint8_t* p) except -1:
        cdef Damage damage
        memset(&damage, 0, sizeof(damage))
        damage.fault = FAULT_DEPTH
        damage.at = p
        raise damage_error(self.document, damage, self.document.end)

    cdef int visit(self, Table* table, Message* message, Field* through, int64_t index, bint is_row) except -1:
        """Add the rows of a message and of those in it, depth first, in the order of fields and elements."""
        cdef Slot[WIDEST] slots
        cdef uint32_t flags
        cdef Field* field
        cdef Cursor cursor
        cdef Record record
        cdef Message below
        cdef int64_t place
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
                self.enter(table, message)
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
            place = 0
            below.parts = NULL
            self.start(&cursor, message, &slots[field.slot])
            while place < <int64_t>slots[field.slot].n and self.next_element(&cursor, field, &record):
                below.p = record.value
                below.end = record.value + record.n
                self.visit(field.sub, &below, field, place, plan.follows[i].flags & ROW != 0)
                place += 1
        if is_graph:
            if self.has_uses:
                self.scope = outer_scope
            self.graph = outer_graph
            self.has_graph = had_graph
        if len(self.kept) > kept:
            del self.kept[kept:]
        self.depth -= 1
        return 0

    # --- rows

    cdef int add_row(self, Message* message, Slot* slots, uint32_t flags) except -1:
        cdef Step* step
        cdef Column* column
        cdef Values* values
        cdef Slot* slot
        cdef Frame* frame = &self.frames[self.depth - 1]
        cdef Slot[WIDEST] inner
        cdef Message below
        cdef uint32_t below_flags
        cdef View view
        cdef int i
        for i in range(self.program.n_steps):
            step = &self.program.steps[i]
            column = &self.columns.block.columns[step.column]
            values = &column.rows
            slot = &slots[step.field.slot] if step.field != NULL else NULL
            if step.source == FIELD:
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
                if self.depth > 1 and self.frames[self.depth - 2].table == self.node_table:
                    add_number(values, self.frames[self.depth - 2].index)
                else:
                    add_null(values)
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
                self.add_type(column, step.field, message, slots, flags)
            elif step.source == STORAGE:
                self.add_storage(column, message, slots)
            elif step.source == PARAMETERS:
                self.add_list(column, message, step.field, slot)
                self.add_defaults(column, message, slots)
                end_list(column, False)
            elif step.source == USES:
                self.add_uses(column, message, slots)
            elif step.source == INNER or step.source == INNER_COUNT:
                memset(inner, 0, sizeof(inner))
                if slot.p != NULL:
                    self.child(self.wanted, message, slots, flags, step.field, &below)
                    self.scan(step.field.sub, &below, inner, &below_flags)
                if step.source == INNER:
                    self.add_field(values, step.inner, &inner[step.inner.slot])
                else:
                    add_number(values, <int64_t>inner[step.inner.slot].n)
        return 0

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
        self.start(&cursor, message, slot)
        if field.size == 0:
            for _i in range(slot.n):
                if not self.next_element(&cursor, field, &record):
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
        cdef uint32_t flags
        cdef Cursor cursor
        cdef Record record
        cdef Message below
        if slots[field.slot].p == NULL:
            return 0
        self.start(&cursor, message, &slots[field.slot])
        below.parts = NULL
        while self.next_element(&cursor, field, &record):
            below.p = record.value
            below.end = record.value + record.n
            self.scan(field.sub, &below, inner, &flags)
            if inner[name.slot].p != NULL:
                self.columns.add_text(&column.items, inner[name.slot].p, inner[name.slot].n)
        return 0

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
        """Write the path of the message that is so many steps from the root, itself one; returns its length."""
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

    # --- values

    cdef int add_type(
        self, Column* column, Field* type_field, const Message* message, const Slot* slots, uint32_t flags
    ) except -1:
        """Add the type, the shape and the dims of a value."""
        cdef Slot[WIDEST] inner
        cdef uint32_t inner_flags
        cdef Message type
        cdef Message tensor
        cdef Field* field
        if slots[type_field.slot].p == NULL:
            return self.end_type(column, True)
        self.child(self.wanted, message, slots, flags, type_field, &type)
        self.scan(type_field.sub, &type, inner, &inner_flags)
        field = self.known.tensor_type
        if inner[field.slot].p != NULL:
            self.child(type_field.sub, &type, inner, inner_flags, field, &tensor)
            return self.add_tensor_type(column, field.sub, &tensor, True)
        field = self.known.sparse_tensor_type
        if inner[field.slot].p != NULL:
            self.child(type_field.sub, &type, inner, inner_flags, field, &tensor)
            return self.add_tensor_type(column, field.sub, &tensor, False)
        text = self.type_text(type_field.sub, &type, self.depth)
        if text is None:
            return self.end_type(column, True)
        self.add_word(&column.rows, text)
        return self.end_type(column, False)

    cdef int end_type(self, Column* column, bint is_null) except -1:
        """Leave out the shape and the dims, and the type too where it is null."""
        if is_null:
            add_null(&column.rows)
        end_list(column + 1, True)
        return end_list(column + 2, True)

    cdef int add_tensor_type(self, Column* column, Table* table, const Message* tensor, bint is_dense) except -1:
        """Add the type, the shape and the dims of a tensor or sparse tensor."""
        cdef Slot[WIDEST] slots
        cdef uint32_t flags
        cdef Field* field = self.known.elem_type if is_dense else field_of(table, "elem_type")
        cdef Message shape
        self.scan(table, tensor, slots, &flags)
        if is_dense:
            self.add_named(&column.rows, &self.tensor_types, <int32_t>slots[field.slot].n, tensor_type)
        else:
            text = f"sparse_{tensor_type(<int32_t>slots[field.slot].n)}".encode()
            self.add_word(&column.rows, text)
        field = self.known.shape if is_dense else field_of(table, "shape")
        if slots[field.slot].p == NULL:
            return self.end_type(column, False)
        self.child(table, tensor, slots, flags, field, &shape)
        return self.add_shape(column + 1, field.sub, &shape)

    cdef int add_shape(self, Column* column, Table* table, const Message* shape) except -1:
        """Add a shape and its dims."""
        cdef Slot[WIDEST] slots
        cdef Slot[WIDEST] inner
        cdef uint32_t flags
        cdef Field* field = self.known.dim
        cdef Field* value = self.known.dim_value
        cdef Field* param = self.known.dim_param
        cdef Values* sizes = &column.items
        cdef Values* dims = &(column + 1).items
        cdef Columns columns = self.columns
        cdef uint8_t[DIGITS] digits
        cdef const uint8_t* p
        cdef Cursor cursor
        cdef Record record
        cdef Message dim
        self.scan(table, shape, slots, &flags)
        if slots[field.slot].p != NULL:
            dim.parts = NULL
            self.start(&cursor, shape, &slots[field.slot])
            while self.next_element(&cursor, field, &record):
                dim.p = record.value
                dim.end = record.value + record.n
                self.scan(field.sub, &dim, inner, &flags)
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

    cdef object type_text(self, Table* table, const Message* type, int depth):
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
            self.too_deep(type.p)
        self.scan(table, type, slots, &flags)
        for i in range(table.n_fields):
            if table.fields[i].sub != NULL and slots[table.fields[i].slot].p != NULL:
                field = &table.fields[i]
        if field == NULL:
            return None
        name = (<object>field.descriptor).name
        sub = field.sub
        self.child(table, type, slots, flags, field, &below)
        self.scan(sub, &below, inner, &inner_flags)
        if name in ("tensor_type", "sparse_tensor_type"):
            text = tensor_type(<int32_t>inner[field_of(sub, "elem_type").slot].n)
            return (text if name == "tensor_type" else f"sparse_{text}").encode()
        if name == "opaque_type":
            return b"opaque"
        part = field_of(sub, "value_type" if name == "map_type" else "elem_type")
        content = b"?"
        if inner[part.slot].p != NULL:
            content = self.inner_text(sub, &below, inner, inner_flags, part, depth)
        if name == "map_type":
            key = name_of(<int32_t>inner[field_of(sub, "key_type").slot].n).lower().encode()
            return b"map(" + key + b"," + content + b")"
        return (b"seq(" if name == "sequence_type" else b"optional(") + content + b")"

    cdef object inner_text(
        self, Table* table, const Message* message, const Slot* slots, uint32_t flags, const Field* field, int depth
    ):
        cdef Message below
        self.child(table, message, slots, flags, field, &below)
        return self.type_text(field.sub, &below, depth + 2) or b"?"

    # --- tensors

    cdef int add_storage(self, Column* column, const Message* message, const Slot* slots) except -1:
        """Add the size of a tensor's payload, and where it is."""
        cdef Slot raw = slots[self.known.raw_data.slot]
        cdef Slot way = slots[self.known.data_location.slot]
        cdef Slot location
        cdef int64_t offset = 0
        cdef int64_t length = -1
        cdef int64_t size = -1
        cdef bint is_external = way.p != NULL and way.n == 1
        memset(&location, 0, sizeof(location))
        if is_external:
            self.read_external(message, slots, &location, &offset, &length)
        known = self.sizes.get(self.tensors) if self.sizes else None
        self.tensors += 1
        if known is not None:
            size = known
        elif raw.p != NULL:
            size = <int64_t>raw.n
        elif is_external and length >= 0:
            size = length
        else:
            size = self.payload_size(message, slots)
        add_number(&column.rows, size)
        self.add_word(&(column + 1).rows, EXTERNAL if is_external else INLINE)
        if is_external and location.p != NULL:
            self.columns.add_text(&(column + 2).rows, location.p, location.n)
            self.add_unless_negative(&(column + 3).rows, offset)
            return self.add_unless_negative(&(column + 4).rows, length)
        add_null(&(column + 2).rows)
        if is_external or raw.p == NULL or not self.is_placed:
            add_null(&(column + 3).rows)
            return self.add_unless_negative(&(column + 4).rows, length)
        add_number(&(column + 3).rows, raw.p - self.document.start)
        return add_number(&(column + 4).rows, size)

    cdef int add_unless_negative(self, Values* values, int64_t number) except -1:
        return add_null(values) if number < 0 else add_number(values, number)

    cdef int read_external(
        self, const Message* message, const Slot* slots, Slot* location, int64_t* offset, int64_t* length
    ) except -1:
        """Read external_data; of an offset or length that is not a plain number -1, of an absent length too."""
        cdef Field* field = self.known.external_data
        cdef Slot[WIDEST] inner
        cdef uint32_t flags
        cdef Cursor cursor
        cdef Record record
        cdef Message entry
        cdef Slot key
        cdef Slot value
        if slots[field.slot].p == NULL:
            return 0
        entry.parts = NULL
        self.start(&cursor, message, &slots[field.slot])
        while self.next_element(&cursor, field, &record):
            entry.p = record.value
            entry.end = record.value + record.n
            self.scan(field.sub, &entry, inner, &flags)
            key = inner[self.known.key.slot]
            value = inner[self.known.value.slot]
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

    cdef int64_t payload_size(self, const Message* message, const Slot* slots) except -1:
        """The bytes that a tensor without raw_data has: of its strings, else what its type and dims call for."""
        cdef Field* field
        cdef Cursor cursor
        cdef Record record
        cdef const uint8_t* p
        cdef uint64_t number = 0
        cdef int64_t total = 0
        cdef int64_t elements = 1
        cdef int found
        number_of_type = <int32_t>slots[self.known.data_type.slot].n
        kind = BY_NUMBER.get(number_of_type)
        if kind is not None and kind.name == "STRING":
            field = self.known.string_data
            if slots[field.slot].p != NULL:
                self.start(&cursor, message, &slots[field.slot])
                while self.next_element(&cursor, field, &record):
                    total += <int64_t>record.n
            return total
        field = self.known.dims
        if slots[field.slot].p != NULL:
            self.start(&cursor, message, &slots[field.slot])
            while True:
                found = next_usable(&cursor, field, &record)
                if found < 0:
                    raise decode_error(self.document, cursor.p, cursor.end)
                if found == 0:
                    break
                if record.tag & 7 != WIRE_LEN:
                    elements = product(elements, <int64_t>record.n)
                    continue
                p = record.value
                while p < record.value + record.n:
                    p = read_varint(p, record.value + record.n, &number)
                    if p == NULL:
                        raise packed_error(self.document, record.value, record.value + record.n, 0)
                    elements = product(elements, <int64_t>number)
        if kind is None:
            return elements
        # A shape that no memory could hold is a damaged one, and is not worth exact numbers.
        return min(kind.count_bytes(elements), INT64_MAX)

    # --- uses

    cdef int enter(self, Table* table, const Message* message) except -1:
        """Open a scope; outer values are visible in the graphs of attributes alone."""
        cdef Scope scope = Scope.__new__(Scope)
        scope.message = message[0]
        scope.table = table
        scope.path = self.graph
        if self.depth > 2 and self.frames[self.depth - 3].table == self.node_table:
            scope.outer = self.scope
            if scope.outer is not None:
                scope.outer.node = self.frames[self.depth - 3].index
        self.scope = scope
        return 0

    cdef int add_uses(self, Column* column, const Message* message, const Slot* slots) except -1:
        """Add the names that a node reads and makes, one row each; an empty name is none.

        A name that a graph takes from outside is a use of the graph that defines it, by the node there that has the
        inner graph in an attribute; it stands in none of that node's slots.
        """
        cdef int64_t node = self.frames[self.depth - 1].index
        cdef Scope home
        cdef Field* field
        cdef Cursor cursor
        cdef Record record
        cdef int64_t place
        cdef int k
        for k in range(2):
            field = self.known.output if k else self.known.input
            if slots[field.slot].p == NULL:
                continue
            place = 0
            self.start(&cursor, message, &slots[field.slot])
            while self.next_element(&cursor, field, &record):
                if record.n:
                    home = self.scope
                    if k == 0 and home is not None and home.outer is not None:
                        home = self.home_of(record.value, record.n)
                    if home is self.scope:
                        self.add_use(column, home, record.value, record.n, node, place, k)
                    else:
                        self.add_use(column, home, record.value, record.n, home.node, -1, k)
                place += 1
        return 0

    cdef int add_use(
        self, Column* column, Scope scope, const uint8_t* p, uint64_t n, int64_t node, int64_t slot, bint is_output
    ) except -1:
        if scope is None:
            add_null(&column.rows)
        else:
            add_view(&column.rows, &scope.path)
        self.columns.add_text(&(column + 1).rows, p, n)
        add_number(&(column + 2).rows, node)
        self.add_unless_negative(&(column + 3).rows, slot)
        return self.add_word(&(column + 4).rows, OUTPUT if is_output else INPUT)

    cdef Scope home_of(self, const uint8_t* p, uint64_t n):
        """The scope that defines a name; the one that uses it, where none does."""
        cdef Scope scope = self.scope
        name = (<const char*>p)[:n]
        while scope is not None:
            if scope.names is None:
                scope.names = self.names_in(scope)
            if name in scope.names:
                return scope
            scope = scope.outer
        return self.scope

    cdef set names_in(self, Scope scope):
        """The names that a graph or function defines: inputs, initializers, what its nodes make."""
        cdef Slot[WIDEST] slots
        cdef uint32_t flags
        cdef set names = set()
        self.scan(scope.table, &scope.message, slots, &flags)
        if scope.table == self.function_table:
            self.add_names(names, scope.table, &scope.message, slots, "input", ())
        else:
            self.add_names(names, scope.table, &scope.message, slots, "input", ("name",))
            self.add_names(names, scope.table, &scope.message, slots, "initializer", ("name",))
            self.add_names(names, scope.table, &scope.message, slots, "sparse_initializer", ("values", "name"))
        self.add_names(names, scope.table, &scope.message, slots, "node", ("output",))
        return names

    cdef int add_names(
        self, set names, Table* table, const Message* message, const Slot* slots, str name, tuple way
    ) except -1:
        """Add the strings of a field, or those that a way of fields leads to from the messages in it."""
        cdef Field* field = field_of(table, name)
        cdef Slot[WIDEST] inner
        cdef uint32_t flags
        cdef Cursor cursor
        cdef Record record
        cdef Message below
        if slots[field.slot].p == NULL:
            return 0
        below.parts = NULL
        if not field.repeated:
            if not way:
                names.add((<const char*>slots[field.slot].p)[:slots[field.slot].n])
                return 0
            below.p = slots[field.slot].p
            below.end = below.p + slots[field.slot].n
            self.scan(field.sub, &below, inner, &flags)
            return self.add_names(names, field.sub, &below, inner, way[0], way[1:])
        self.start(&cursor, message, &slots[field.slot])
        while self.next_element(&cursor, field, &record):
            if not way:
                names.add((<const char*>record.value)[:record.n])
                continue
            below.p = record.value
            below.end = record.value + record.n
            self.scan(field.sub, &below, inner, &flags)
            self.add_names(names, field.sub, &below, inner, way[0], way[1:])
        return 0


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


@cache
def program_of(root, spec):
    """The program of a class and a table."""
    return Program(root, spec)


def name_in(names, number):
    """The name of an enum's number; of one that has none, its digits."""
    return names[number].name if number in names else str(number)


def tensor_type(number):
    """The type of tensors of a data type, as operators write it: `tensor(float)`."""
    return f"tensor({name_of(number).lower()})"


cdef inline int64_t product(int64_t elements, int64_t dim) noexcept nogil:
    if dim <= 0:
        return 0
    return INT64_MAX if elements > INT64_MAX // dim else elements * dim


cdef inline int64_t total_size(const Message* message) noexcept:
    cdef int64_t size = message.end - message.p
    cdef Py_ssize_t i
    if message.parts != NULL:
        for i in range(1, (<Spans>message.parts).n):
            size += <int64_t>(<Spans>message.parts).items[i].n
    return size


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


cdef const char* field_name(const Field* field) except NULL:
    """The name of a field; the descriptor keeps it."""
    return PyUnicode_AsUTF8((<object>field.descriptor).name)
