# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Turns a document into columns of numbers, without a Python object for each message and without reading payloads.

Every message becomes a row of its type's sheet. The scan needs no recursion: when a message is scanned, its children
get rows, which are scanned later. The rows of a repeated field's elements are in the order of the document. Every
string becomes an id; equal strings have equal ids.

The rules of presence are those of `scan_slots`: the last value is used, the last member of a oneof is used, and all
pieces of a split singular message share one row.
"""
from cython cimport critical_section, final
from libc.string cimport memset

from onnxwire._varint cimport (
    MAX_DEPTH, WIRE_LEN, WIRE_VARINT, Record, read_record, read_varint,
)
from onnxwire.checker._sheets cimport (
    CHILD, CHILDREN, CLASH, LIST, MAX_CAPACITY, MERGED, NUMBER, PAYLOAD, SPAN, TEXT, UNKNOWN, Column, Records, Run,
    add_element, add_row, allocate_column, clear_rows, element_bytes, free_sheet, next_capacity, widen_sheet,
)
from onnxwire.index.interning cimport find_text, free_texts, grow_array, hash_and_prefetch, intern
from onnxwire.engine.advise cimport prefetch
from onnxwire.engine.damage cimport decode_error
from onnxwire.engine.document cimport FAR_SKIP_BYTES, advise_far
from onnxwire.engine.memory cimport calloc, free
from onnxwire.engine.partial cimport LONG_BYTES
from onnxwire.engine.fetch_structure cimport NO_LIMIT, fetch_structure
from onnxwire.engine.payload cimport new_payload
from onnxwire.engine.table cimport (
    BYTES, ENUM, INT32, MESSAGE, STRING, Slot, Table, TableOwner, TableRef, find_field, has_value,
)
from onnxwire.engine.view cimport table_of

import os

from onnxwire.engine.verify import verify_document

cdef enum Outcome:
    DECODED
    DAMAGED
    OVER_LIMIT             # memory, row numbers or ids are exhausted

cdef enum:
    PREFETCH_ROWS = 8      # how many rows ahead the first bytes of a message are prefetched into the processor's cache

# Repeated numbers and bytes are payload and are not read, except these fields, whose values the rules compare.
_LISTED_FIELDS = frozenset({
    "TensorProto.dims", "SparseTensorProto.dims", "ShardingSpecProto.device", "IntIntListEntryProto.value",
    "MapProto.keys", "MapProto.string_keys",
})


# --- the scan

cdef int add_part(Facts self, Sheet* sheet, int32_t row, const uint8_t* p, uint64_t n) noexcept nogil:
    """Add a further piece to a message. Return -1 if memory or MAX_CAPACITY is exhausted."""
    cdef int32_t i = self.n_parts
    cdef int32_t capacity
    if i == self.parts_capacity:
        if i >= MAX_CAPACITY:
            return -1
        capacity = i * 2 if i else 16
        if grow_array(<void**>&self.parts, capacity, sizeof(Part)):
            return -1
        self.parts_capacity = capacity
    if sheet.part == NULL:
        if grow_array(<void**>&sheet.part, sheet.capacity, 4):
            return -1
        memset(sheet.part, 0xFF, <size_t>sheet.capacity * 4)
    self.parts[i].p = p
    self.parts[i].n = n
    self.parts[i].next = -1
    self.parts[i].last = i
    if sheet.part[row] < 0:
        sheet.part[row] = i
    else:
        self.parts[self.parts[sheet.part[row]].last].next = i
        self.parts[sheet.part[row]].last = i
    sheet.flags[row] |= MERGED
    self.n_parts = i + 1
    return 0


cdef int add_unknown(Facts self, Sheet* sheet, int32_t row, const Record* record) noexcept nogil:
    """Add a record that is an unknown field. Return -1 if memory or MAX_CAPACITY is exhausted."""
    cdef int32_t i = self.n_unknown
    cdef int32_t capacity
    if i == self.unknown_capacity:
        if i >= MAX_CAPACITY:
            return -1
        capacity = i * 2 if i else 16
        if grow_array(<void**>&self.unknown, capacity, sizeof(Unknown)):
            return -1
        self.unknown_capacity = capacity
    self.unknown[i].start = record.start - self.document.start
    self.unknown[i].value = <int64_t>record.n if record.tag & 7 == WIRE_VARINT else 0
    self.unknown[i].row = row
    self.unknown[i].number = <int32_t>(record.tag >> 3)
    self.unknown[i].sheet = <int16_t>(sheet - self.sheets)
    self.unknown[i].wire = record.tag & 7
    sheet.flags[row] |= UNKNOWN
    self.n_unknown = i + 1
    return 0


cdef Outcome add_numbers(
    Facts self, Sheet* sheet, int32_t row, const Field* field, const uint8_t* p, const uint8_t* end
) noexcept nogil:
    """Append a varint, or the varints of a packed run, to the field's list."""
    cdef const uint8_t* start
    cdef uint64_t value = 0
    while p < end:
        start = p
        p = read_varint(p, end, &value)
        if p == NULL:
            return DAMAGED
        if add_element(sheet, field.slot, row, start, start - self.document.start, <int64_t>value):
            return OVER_LIMIT
    return DECODED


cdef Outcome queue_string(Facts self, Sheet* sheet, uint32_t slot, int32_t row, const Record* record) noexcept nogil:
    """Queue a string. Its id is stored a few strings later, when its bucket of the hash table has been prefetched."""
    cdef QueuedString* queued = &self.queued[self.n_queued % QUEUE_LENGTH]
    if self.n_queued - self.n_interned == QUEUE_LENGTH and intern_oldest(self):
        return OVER_LIMIT
    queued.p = record.value
    queued.n = record.n
    queued.sheet = sheet
    queued.slot = slot
    queued.row = row
    queued.hash = hash_and_prefetch(&self.texts, record.value, record.n)
    self.n_queued += 1
    return DECODED


cdef int intern_oldest(Facts self) noexcept nogil:
    """Store the id of the oldest queued string in its column. Return -1 if memory or ids are exhausted."""
    cdef QueuedString* queued = &self.queued[self.n_interned % QUEUE_LENGTH]
    cdef int32_t id = intern(&self.texts, queued.p, queued.n, queued.hash)
    if queued.sheet.kinds[queued.slot] == TEXT:
        (<int32_t*>queued.sheet.columns[queued.slot])[queued.row] = id
    else:
        queued.sheet.lists[queued.slot].value[queued.row] = id
    self.n_interned += 1
    return -1 if id < 0 else 0


cdef int intern_all_queued(Facts self) noexcept nogil:
    """Store the ids of all queued strings. Return -1 if memory or ids are exhausted."""
    while self.n_interned != self.n_queued:
        if intern_oldest(self):
            return -1
    return 0


cdef Outcome add_text(Facts self, Sheet* sheet, int32_t row, uint32_t slot, const Record* record) noexcept nogil:
    """Add a string to the field's list."""
    if add_element(sheet, slot, row, record.value, record.value - self.document.start, 0):
        return OVER_LIMIT
    return queue_string(self, sheet, slot, sheet.lists[slot].n - 1, record)


cdef Outcome add_child(Facts self, Sheet* sheet, int32_t row, uint32_t slot, const Record* record) noexcept nogil:
    """Add a row for a message in a field, or a further piece to the row if a singular field already has one."""
    cdef Sheet* child_sheet = sheet.child_sheets[slot]
    cdef bint is_repeated = sheet.kinds[slot] == CHILDREN
    cdef int32_t index = 0
    cdef int32_t child
    cdef Run* run
    if sheet.depth[row] >= MAX_DEPTH:
        return DAMAGED
    if is_repeated:
        index = (<Run*>sheet.columns[slot])[row].n
    elif sheet.present[row] >> slot & 1:
        child = (<int32_t*>sheet.columns[slot])[row]
        return OVER_LIMIT if add_part(self, child_sheet, child, record.value, record.n) else DECODED
    if child_sheet.n == child_sheet.capacity and widen_sheet(
        child_sheet, next_capacity(child_sheet.capacity, sheet, row, record.value)
    ):
        return OVER_LIMIT
    # The columns of this sheet may have been moved, so their addresses are read again.
    child = add_row(child_sheet, record.value, record.n, row, sheet.parent_fields[slot], index, sheet.depth[row] + 1)
    if is_repeated:
        run = &(<Run*>sheet.columns[slot])[row]
        if run.n == 0:
            run.first = child
        run.n += 1
    else:
        (<int32_t*>sheet.columns[slot])[row] = child
    return DECODED


cdef void count_record(
    Facts self, Sheet* sheet, int32_t row, const Field* field, const Record* record, const uint8_t* end
) noexcept nogil:
    """Count a record of a payload field; end: the end of the record."""
    cdef Records* records = &(<Records*>sheet.columns[field.slot])[row]
    if records.records == 0:
        records.first = record.start - self.document.start
    records.records += 1
    records.size += end - record.value
    if field.type == BYTES or record.tag & 7 != WIRE_LEN:
        records.items += records.items >= 0
    elif field.wire == WIRE_VARINT:
        records.items = -1
    else:
        records.items += record.n // field.size


cdef Outcome store_value(
    Facts self, Sheet* sheet, int32_t row, const Field* field, const Record* record, const uint8_t* end
) noexcept nogil:
    """Store the value of a record in the field's column; end: the end of the record."""
    cdef uint32_t slot = field.slot
    cdef Column kind = sheet.kinds[slot]
    if kind == NUMBER:
        if field.type == INT32 or field.type == ENUM:
            (<int64_t*>sheet.columns[slot])[row] = <int32_t>record.n
        else:
            (<int64_t*>sheet.columns[slot])[row] = <int64_t>record.n
    elif kind == TEXT:
        return queue_string(self, sheet, slot, row, record)
    elif kind == SPAN:
        (<Slot*>sheet.columns[slot])[row].p = <const uint8_t*>(record.value - self.document.start)
        (<Slot*>sheet.columns[slot])[row].n = record.n
    elif kind == CHILD or kind == CHILDREN:
        return add_child(self, sheet, row, slot, record)
    elif kind == LIST:
        if field.type == STRING or field.type == BYTES:
            return add_text(self, sheet, row, slot, record)
        return add_numbers(self, sheet, row, field, record.value, end)
    else:
        count_record(self, sheet, row, field, record, end)
    return DECODED


cdef Outcome scan_span(Facts self, Sheet* sheet, int32_t row, const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Fill a row from one piece of its message."""
    cdef Record record
    cdef Field* field
    cdef uint32_t i
    cdef int wire
    cdef Outcome outcome
    while p < end:
        p = read_record(p, end, MAX_DEPTH - sheet.depth[row], &record)
        if p == NULL:
            return DAMAGED
        wire = record.tag & 7
        if wire == WIRE_LEN and record.n >= FAR_SKIP_BYTES and p < end:
            advise_far(&self.document.far, p)
        field = find_field(sheet.table, record.tag >> 3)
        if (
            field == NULL
            or (wire != field.wire and not (field.repeated and wire == WIRE_LEN and field.size))
            or (field.closed and has_value(field, <int32_t>record.n) == 0)
        ):
            if add_unknown(self, sheet, row, &record):
                return OVER_LIMIT
            continue
        if sheet.columns[field.slot] == NULL and allocate_column(sheet, field.slot):
            return OVER_LIMIT
        for i in range(field.n_peers):
            if sheet.present[row] >> field.peers[i] & 1:
                sheet.present[row] &= ~(<uint32_t>1 << field.peers[i])
                sheet.flags[row] |= CLASH
                if intern_all_queued(self):
                    return OVER_LIMIT
                clear_field(sheet, row, field.peers[i])
        outcome = store_value(self, sheet, row, field, &record, p)
        if outcome != DECODED:
            return outcome
        sheet.present[row] |= <uint32_t>1 << field.slot
    return DECODED


cdef void clear_field(Sheet* sheet, int32_t row, uint32_t slot) noexcept nogil:
    """Clear a field that another member of its oneof replaces."""
    cdef Sheet* child_sheet
    cdef Column kind = sheet.kinds[slot]
    if kind == NUMBER:
        (<int64_t*>sheet.columns[slot])[row] = 0
    elif kind == TEXT:
        (<int32_t*>sheet.columns[slot])[row] = 0
    elif kind == CHILD:
        # In ONNX each member of a oneof has its own sheet, so the row is the last one of that sheet and can be removed.
        child_sheet = sheet.child_sheets[slot]
        if (<int32_t*>sheet.columns[slot])[row] == child_sheet.n - 1:
            child_sheet.n -= 1
            if child_sheet.part != NULL:
                child_sheet.part[child_sheet.n] = -1
            child_sheet.flags[child_sheet.n] = 0
        (<int32_t*>sheet.columns[slot])[row] = -1


cdef Outcome scan_all(Facts self) noexcept nogil:
    """Scan all rows, including those that the scan adds."""
    cdef Sheet* sheet
    cdef Py_ssize_t i
    cdef int32_t row, part
    cdef Outcome outcome
    cdef bint is_idle = False
    while not is_idle:
        is_idle = True
        for i in range(self.n_sheets):
            sheet = &self.sheets[i]
            while sheet.n_scanned < sheet.n:
                is_idle = False
                row = sheet.n_scanned
                sheet.n_scanned += 1
                if row + PREFETCH_ROWS < sheet.n:
                    prefetch(sheet.p[row + PREFETCH_ROWS])
                outcome = scan_span(self, sheet, row, sheet.p[row], sheet.p[row] + sheet.length[row])
                if outcome != DECODED:
                    return outcome
                part = sheet.part[row] if sheet.part != NULL else -1
                while part >= 0:
                    outcome = scan_span(self, sheet, row, self.parts[part].p, self.parts[part].p + self.parts[part].n)
                    if outcome != DECODED:
                        return outcome
                    part = self.parts[part].next
    if intern_all_queued(self):
        return OVER_LIMIT
    return DECODED


cdef bint is_listed(const Field* field, void* facts) noexcept:
    """Return whether the elements of a field are read into a list."""
    return (<Facts>facts).sheets[field.table - (<Facts>facts).sheets[0].table].kinds[field.slot] == LIST


# The schema of the last document and its names, computed once: TableOwner, names, sheet_numbers, parent_field_names,
# parent_field_owners, parent_field_numbers, field_names and short_names of Facts.
cdef tuple LAST_NAMES = ()


cdef tuple names_of(TableOwner owner):
    """Return the owner and the names of its tables and fields, as lists and dicts that callers must not change."""
    global LAST_NAMES
    cdef Table* table
    cdef tuple cached = LAST_NAMES
    if cached and cached[0] is owner:
        return cached
    names, parent_field_names, parent_field_owners, field_names, short_names = [], [], [], [], []
    for i in range(<Py_ssize_t>owner.n_tables):
        table = &owner.tables[i]
        name = (<object>table.descriptor).full_name.partition(".")[2]
        names.append(name)
        short_names.append([(<object>table.fields[k].descriptor).name for k in range(table.n_fields)])
        field_names.append([f"{name}.{field}" for field in short_names[i]])
        for k in range(table.n_fields):
            if table.fields[k].sub != NULL:
                parent_field_names.append(field_names[i][k])
                parent_field_owners.append((i, k))
    numbers = {name: i for i, name in enumerate(names)}
    parent_fields = {name: i for i, name in enumerate(parent_field_names)}
    LAST_NAMES = (
        owner, names, numbers, parent_field_names, parent_field_owners, parent_fields, field_names, short_names
    )
    return LAST_NAMES


@final
cdef class Facts:
    """The columns of a document.

    document, root: the bytes, and the class of the message that they encode. The columns can be read after the document
    is closed; `_payload_scan`, `_wire_audit` and rules that read its bytes again require an open document. is_placed:
    whether offsets refer to the bytes that the caller passed. Raises DecodeError for damaged bytes, and MemoryError if
    memory or row numbers are exhausted.
    """

    @critical_section
    def __cinit__(self, Document document, root, bint is_placed=True):
        cdef Table* table = table_of(root)
        cdef TableRef ref = root._table
        cdef Sheet* sheet
        cdef Field* field
        cdef Outcome outcome
        cdef int16_t n_parent_fields = 0
        cdef Py_ssize_t i
        cdef uint32_t k
        document.check_open()
        document.set_root(root)
        self.document = document
        self.root = root
        self.is_placed = is_placed
        self.tables = ref.owner
        (
            _, self.names, self.sheet_numbers, self.parent_field_names, self.parent_field_owners,
            self.parent_field_numbers, self.field_names, self.short_names,
        ) = names_of(ref.owner)
        self.texts.seed = int.from_bytes(os.urandom(8), "little")
        self.n_sheets = ref.owner.n_tables
        self.sheets = <Sheet*>calloc(self.n_sheets, sizeof(Sheet))
        if self.sheets == NULL or intern(&self.texts, b"", 0, 0) < 0:
            raise MemoryError
        for i in range(self.n_sheets):
            sheet = &self.sheets[i]
            sheet.table = &ref.owner.tables[i]
            sheet.kinds = <Column*>calloc(sheet.table.n_fields + 1, sizeof(Column))
            sheet.columns = <void**>calloc(sheet.table.n_fields + 1, sizeof(void*))
            sheet.lists = <List*>calloc(sheet.table.n_fields + 1, sizeof(List))
            sheet.child_sheets = <Sheet**>calloc(sheet.table.n_fields + 1, sizeof(void*))
            sheet.parent_fields = <int16_t*>calloc(sheet.table.n_fields + 1, sizeof(int16_t))
            if (
                sheet.kinds == NULL or sheet.columns == NULL or sheet.lists == NULL or sheet.child_sheets == NULL
                or sheet.parent_fields == NULL or sheet.table.n_fields > 32
            ):
                raise MemoryError
            full_names = self.field_names[i]
            for k in range(sheet.table.n_fields):
                field = &sheet.table.fields[k]
                sheet.kinds[k] = kind_of(field, full_names[k])
                if field.sub != NULL:
                    sheet.child_sheets[k] = &self.sheets[field.sub - ref.owner.tables]
                    sheet.parent_fields[k] = n_parent_fields
                    n_parent_fields += 1
        sheet = &self.sheets[table - ref.owner.tables]
        if widen_sheet(sheet, 1):
            raise MemoryError
        add_row(sheet, document.start, document.end - document.start, -1, -1, 0, 0)
        # Fetch all strings, the values of _LISTED_FIELDS, and other values below 64 KiB (LONG_BYTES).
        fetch_structure(document, table, NO_LIMIT, LONG_BYTES, is_listed, <void*>self)
        document.check_open()
        document.pins += 1
        with nogil:
            outcome = scan_all(self)
        document.pins -= 1
        if outcome == OVER_LIMIT:
            raise MemoryError("the document has too many messages for the memory, or for 32-bit row numbers")
        if outcome == DAMAGED:
            verify_document(document, root)
            raise decode_error(document, document.start, document.end)

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.sheets != NULL:
            for i in range(self.n_sheets):
                free_sheet(&self.sheets[i])
        free(self.sheets)
        free(self.parts)
        free(self.unknown)
        free_texts(&self.texts)

    # Access for Cython passes over the columns, by name.

    cdef Sheet* sheet(self, str name) except NULL:
        """Return the sheet of a message type, such as "TypeProto.Tensor"."""
        return &self.sheets[<Py_ssize_t>self.sheet_numbers[name]]

    cdef int slot(self, Sheet* sheet, str name) except -1:
        """Return the slot of a field."""
        return (<dict><object>sheet.table.names)[name]

    cdef void* column(self, str sheet_name, str field) except NULL:
        """Return the column of a field, an array of the elements that `Column` describes."""
        cdef Sheet* sheet = self.sheet(sheet_name)
        return self.column_of(sheet, self.slot(sheet, field))

    cdef void* column_of(self, Sheet* sheet, uint32_t slot) except NULL:
        """Return the column of a slot; allocate it if no message has the field."""
        if sheet.columns[slot] == NULL:
            # `calloc` does not touch the memory.
            sheet.columns[slot] = calloc(sheet.n or 1, element_bytes(sheet.kinds[slot]))
            if sheet.columns[slot] == NULL:
                raise MemoryError
            if sheet.kinds[slot] == CHILD:
                clear_rows(sheet, slot, 0, sheet.n)
        return sheet.columns[slot]

    cdef List* list_of(self, str sheet_name, str field) except NULL:
        """Return the list of a field whose kind is LIST."""
        cdef Sheet* sheet = self.sheet(sheet_name)
        return &sheet.lists[self.slot(sheet, field)]

    cdef int parent_field(self, str name) except -1:
        """Return the number of a message field such as "GraphProto.node" in `parent_field` columns."""
        cdef Sheet* sheet
        sheet_name, _, field = name.rpartition(".")
        sheet = self.sheet(sheet_name)
        return sheet.parent_fields[self.slot(sheet, field)]

    # Access for Python. A column is (Payload, dtype) or (Payload, kind); `onnxwire.checker.facts` makes an array of the
    # Payload, a buffer.

    @property
    @critical_section
    def sheet_names(self):
        """Message types, such as "NodeProto" and "TypeProto.Tensor"."""
        return self.names

    @property
    @critical_section
    def parent_fields(self):
        """Full names of the message fields, such as "GraphProto.node", in the order of the numbers in `parent_field`
        columns."""
        return self.parent_field_names

    @critical_section
    def fields_of(self, str name):
        """Return the names of a type's fields by slot, in a list that callers must not change."""
        return self.short_names[<Py_ssize_t>self.sheet_numbers[name]]

    @critical_section
    def field_names_by_number(self, str name):
        """Return the names of a type's fields by number."""
        cdef const Table* table = self.sheet(name).table
        return {table.fields[i].number: (<object>table.fields[i].descriptor).name for i in range(table.n_fields)}

    @critical_section
    def rows_of(self, str name):
        """Return the number of messages of a type."""
        return self.sheet(name).n

    @critical_section
    def count(self, str name):
        """Return the number of rows of a sheet ("NodeProto"), a list ("NodeProto.input") or "UnknownFields"."""
        sheet_number = self.sheet_numbers.get(name)
        if sheet_number is not None:
            return self.sheets[<Py_ssize_t>sheet_number].n
        if name == "UnknownFields":
            return self.n_unknown
        sheet_name, _, field = name.rpartition(".")
        return self.list_of(sheet_name, field).n

    @critical_section
    def present_tables(self):
        """Return the names of sheets, lists and "UnknownFields" that have rows, and of fields that some message has."""
        cdef Sheet* sheet
        cdef uint32_t present
        cdef int32_t row
        names = ["UnknownFields"] if self.n_unknown else []
        for i in range(self.n_sheets):
            sheet = &self.sheets[i]
            if sheet.n:
                names.append(self.names[i])
                present = 0
                for row in range(sheet.n):
                    present |= sheet.present[row]
                full_names = self.field_names[i]
                for k in range(sheet.table.n_fields):
                    if sheet.lists[k].n if sheet.kinds[k] == LIST else present >> k & 1:
                        names.append(full_names[k])
        return frozenset(names)

    @critical_section
    def own_column(self, str name, str column_name):
        """Return a column that every sheet has: (Payload, dtype); the dtype of `start` is "pointer".

        column_name: start, length, parent, index, parent_field, depth, flags or present.
        """
        cdef Sheet* sheet = self.sheet(name)
        if column_name == "start":
            return self.buffer(sheet.p, sheet.n, 8), "pointer"
        if column_name == "length":
            return self.buffer(sheet.length, sheet.n, 8), "i8"
        if column_name == "parent":
            return self.buffer(sheet.parent, sheet.n, 4), "i4"
        if column_name == "index":
            return self.buffer(sheet.index, sheet.n, 4), "i4"
        if column_name == "parent_field":
            return self.buffer(sheet.parent_field, sheet.n, 2), "i2"
        if column_name == "depth":
            return self.buffer(sheet.depth, sheet.n, 1), "u1"
        if column_name == "flags":
            return self.buffer(sheet.flags, sheet.n, 1), "u1"
        if column_name == "present":
            return self.buffer(sheet.present, sheet.n, 4), "u4"
        raise KeyError(column_name)

    @critical_section
    def field_column(self, str name, str field):
        """Return the column of a field: (Payload, kind); kind is the name of a `Column`."""
        cdef Sheet* sheet = self.sheet(name)
        cdef int slot = self.slot(sheet, field)
        cdef Column kind = sheet.kinds[slot]
        cdef str kind_name = ("NUMBER", "TEXT", "SPAN", "CHILD", "CHILDREN", "LIST", "PAYLOAD")[<int>kind]
        return self.buffer(self.column_of(sheet, slot), sheet.n, element_bytes(kind)), kind_name

    @critical_section
    def is_text_list(self, str name, str field):
        """Return whether a field is a list of strings."""
        cdef Sheet* sheet = self.sheet(name)
        cdef int slot = self.slot(sheet, field)
        return sheet.kinds[slot] == LIST and sheet.table.fields[slot].type == STRING

    @critical_section
    def list_column(self, str name, str field, str column_name):
        """Return a column of a field's list: (Payload, dtype). column_name: parent, index, start or value."""
        cdef Sheet* sheet = self.sheet(name)
        cdef List* elements = self.list_of(name, field)
        if sheet.kinds[self.slot(sheet, field)] != LIST:
            raise KeyError(f"{name}.{field} has no list")
        if column_name == "parent":
            return self.buffer(elements.parent, elements.n, 4), "i4"
        if column_name == "index":
            return self.buffer(elements.index, elements.n, 4), "i4"
        if column_name == "start":
            return self.buffer(elements.start, elements.n, 8), "i8"
        return self.buffer(elements.value, elements.n, 8), "i8"

    @critical_section
    def unknown_fields(self):
        """Return the records that are unknown fields, as a Payload of structs `Unknown`."""
        return self.buffer(self.unknown, self.n_unknown, sizeof(Unknown))

    @critical_section
    def trait_column(self):
        """Return the traits of each string (IS_IDENTIFIER, ... of index/interning.pyx), as a Payload of bytes."""
        return self.buffer(self.texts.traits, self.texts.n, 1)

    @critical_section
    def text_arena(self):
        """Return the bytes of all strings, and the offset of each string in them and of the end, as 64-bit integers."""
        return (
            self.buffer(self.texts.arena, self.texts.arena_size, 1), self.buffer(self.texts.start, self.texts.n + 1, 8)
        )

    @property
    @critical_section
    def base(self):
        """The address of the document's first byte. Subtract it from a sheet's `start` column to get offsets."""
        return <size_t>self.sheets[self.sheet_numbers[self.root.DESCRIPTOR.full_name.partition(".")[2]]].p[0]

    cdef object buffer(self, const void* p, Py_ssize_t n, int size):
        """Return a Payload of n elements of `size` bytes each, over memory of this object."""
        return new_payload(None, <const uint8_t*>p, n * size, 1, b"B", self)

    @critical_section
    def buffer_of(self, size_t address, Py_ssize_t size, owner):
        """Return a Payload over memory that `owner` keeps alive."""
        return new_payload(None, <const uint8_t*>address, size, 1, b"B", owner)

    @critical_section
    def text(self, int32_t id):
        """Return the string of an id."""
        return self.raw_text(id).decode("utf-8", "surrogateescape")

    @critical_section
    def raw_text(self, int32_t id):
        """Return the bytes of an id's string."""
        if not 0 <= id < self.texts.n:
            raise IndexError(id)
        return (<char*>self.texts.arena)[self.texts.start[id]:self.texts.start[id + 1]]

    @critical_section
    def text_count(self):
        """Return the number of different strings; ids are less than this number."""
        return self.texts.n

    @critical_section
    def find(self, bytes text):
        """Return the id of a string, or -1 if the document does not contain it."""
        return find_text(&self.texts, text, len(text))

    @critical_section
    def parent_field_owner(self, int parent_field):
        """Return the type name and the slot of the field with a number in `parent_field` columns."""
        sheet, slot = self.parent_field_owners[parent_field]
        return self.names[sheet], slot

    @critical_section
    def locate(self, str name, int32_t row):
        """Return (type of the parent, row of the parent, number in the `parent_field` column, index in the field); None
        for the root."""
        cdef Sheet* sheet = self.sheet(name)
        if not 0 <= row < sheet.n:
            raise IndexError(row)
        if sheet.parent_field[row] < 0:
            return None
        parent_sheet = self.parent_field_owners[sheet.parent_field[row]][0]
        return self.names[parent_sheet], sheet.parent[row], sheet.parent_field[row], sheet.index[row]


cdef Column kind_of(Field* field, str full_name):
    """Return the kind of a field's column."""
    if field.type == MESSAGE:
        return CHILDREN if field.repeated else CHILD
    if not field.repeated:
        return TEXT if field.type == STRING else SPAN if field.type == BYTES else NUMBER
    return LIST if field.type == STRING or full_name in _LISTED_FIELDS else PAYLOAD
