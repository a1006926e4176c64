# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Search for all messages of some classes in a message, at any depth."""
cimport cython

from cpython.object cimport PyObject
from cython cimport critical_section

from onnxwire._varint cimport MAX_DEPTH
from onnxwire.engine.document cimport Span
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.marked_scan cimport CONTAINS_TARGET, IS_TARGET, find_marked
from onnxwire.engine.overlay_index cimport Pair, find_edits
from onnxwire.engine.partial cimport N_PARTIAL, memory_of
from onnxwire.engine.repeated_span cimport RepeatedSpan, SpanIterator
from onnxwire.engine.table cimport MESSAGE, Field, TableRef
from onnxwire.engine.view cimport field_value, fill, table_of


cdef bint can_contain_marked(const Table* table, const Table* tables, const uint8_t* marks) noexcept:
    """Return whether a message of `table` can contain a message whose table is marked.

    tables, marks: all tables of the schema, and their marks.
    """
    cdef uint32_t i
    for i in range(table.n_fields):
        if table.fields[i].type == MESSAGE and marks[table.fields[i].sub - tables]:
            return True
    return False


cdef bytearray mark_tables(TableOwner owner, list target_addresses):
    """Return the marks of all tables, a byte each with the bits IS_TARGET and CONTAINS_TARGET.

    target_addresses: the addresses of the tables whose messages are searched for.
    """
    cdef bytearray result = bytearray(owner.n_tables)
    cdef uint8_t* marks = result
    cdef Py_ssize_t i
    cdef bint has_changed = True
    for i in range(owner.n_tables):
        if <size_t>&owner.tables[i] in target_addresses:
            marks[i] = IS_TARGET
    while has_changed:  # until a fixed point, because tables refer to one another in cycles
        has_changed = False
        for i in range(owner.n_tables):
            if not marks[i] & CONTAINS_TARGET and can_contain_marked(&owner.tables[i], owner.tables, marks):
                marks[i] |= CONTAINS_TARGET
                has_changed = True
    return result


@cython.final
@cython.freelist(16)
cdef class Level:
    """A message that is being searched: one level of the search's stack."""

    cdef str path(self):
        """Return the path of the current message in the current field."""
        return self.stem if self.elements is None else f"{self.stem}[{self.index}]"


@cython.final
cdef class Paths:
    """The numbered paths of a search. A path takes 16 bytes, at any depth."""

    def __cinit__(self):
        self.parent = -1
        self.prefix = ""
        self.names = []
        self.numbers = {}

    def __dealloc__(self):
        free(self.items)

    cdef Py_ssize_t add(self, Py_ssize_t parent, Level level) except -1:
        """Add the path of a level's current message; parent: the number of the path of the level's message, or -1."""
        cdef Py_ssize_t capacity
        cdef void* new_items
        number = self.numbers.get(level.name)
        if number is None:
            number = self.numbers[level.name] = len(self.names)
            self.names.append(level.name)
        if self.n == self.capacity:
            if self.n >= 0xFFFFFFFF:
                raise MemoryError
            capacity = self.capacity + self.capacity // 2 + 16
            new_items = realloc(self.items, <size_t>capacity * sizeof(Step))
            if new_items == NULL:
                raise MemoryError
            self.items = <Step*>new_items
            self.capacity = capacity
        self.items[self.n] = Step(<uint32_t>(parent + 1), number, -1 if level.elements is None else level.index)
        self.n += 1
        return self.n - 1

    @critical_section
    def __getitem__(self, Py_ssize_t number):
        cdef Py_ssize_t parent, outer
        cdef str prefix = self.prefix
        cdef list steps = []
        if not 0 <= number < self.n:
            raise IndexError(number)
        # Consecutive paths often share their parent, whose path is created once.
        parent = outer = <Py_ssize_t>self.items[number].parent - 1
        if parent != self.parent:
            while outer >= 0:
                steps.append(self.step(outer))
                outer = <Py_ssize_t>self.items[outer].parent - 1
            prefix = "".join([f"{step}." for step in reversed(steps)])
            # `parent` and `prefix` are set without other code in between, so that they always belong to one path.
            self.parent, self.prefix = parent, prefix
        return prefix + self.step(number)

    cdef str step(self, Py_ssize_t number):
        """Return the last step of a path."""
        cdef Py_ssize_t index = self.items[number].index
        cdef str name = self.names[self.items[number].name]
        return name if index < 0 else f"{name}[{index}]"


@cython.final
cdef class Search:
    """An iterator of (path, message), depth first, in the order of fields and elements.

    root: the message to search, itself not a result; classes: the classes of the results. Only messages that can
    contain results are read. Paths look like `graph.node[3].attribute[0].t`; with `paths` they are stored there, and
    their numbers are yielded instead. Messages may be edited during the search. If elements are added or
    removed, the search continues at the next index, as a loop over a list does. Raises DecodeError for damaged bytes
    that are read, and for messages nested more than 100 deep.
    names: if not None, messages that this filter does not select are skipped, with all messages in them.
    """

    @critical_section
    def __cinit__(self, View root, classes, Paths paths=None, NameFilter names=None):
        self.paths = paths
        self.names = names
        self.owner = (<TableRef?>type(root)._table).owner
        self.marks_buffer = mark_tables(self.owner, [<size_t>table_of(cls) for cls in classes])
        self.marks = self.marks_buffer
        self.levels = []
        self.enter(root)

    cdef uint8_t marks_of(self, const Table* table) noexcept:
        """Return the marks of a table."""
        return self.marks[table - self.owner.tables]

    cdef int enter(self, View view) except -1:
        """Push a message on the stack, if it can contain results."""
        cdef Level level
        if len(self.levels) > MAX_DEPTH:
            from onnxwire.engine.nesting_limit import depth_error

            raise depth_error(view)
        fill(view)
        if not self.marks_of(view.table) & CONTAINS_TARGET:
            return 0
        level = Level.__new__(Level)
        level.view = view
        level.number = -1
        self.levels.append(level)
        return 0

    @critical_section
    def __iter__(self):
        return self

    @critical_section
    def __next__(self):
        cdef View view = self.next_result()
        if view is None:
            raise StopIteration
        return (self.number if self.paths is not None else self.path_text), view

    cdef View next_result(self):
        """Return the next result, or None at the end. Sets `number` with `paths`, else `path_text`."""
        cdef Level level
        cdef View view
        cdef bint is_result
        while self.levels:
            level = self.levels[len(self.levels) - 1]
            view = self.next_message(level)
            if view is None:
                self.levels.pop()
                continue
            if self.names is not None and not self.names.selects(view):
                continue
            is_result = self.marks_of(view.table) & IS_TARGET
            if is_result and self.paths is not None:
                self.number = self.store_path()
            elif is_result:
                self.path_text = self.path()
            self.enter(view)
            if is_result:
                return view
        return None

    cdef Py_ssize_t store_path(self) except -1:
        """Store the path of the current message; return its number."""
        cdef Py_ssize_t number = -1
        cdef Level level, outer = None
        for level in self.levels:
            if outer is not None:
                if level.number < 0:
                    level.number = self.paths.add(number, outer)
                number = level.number
            outer = level
        return self.paths.add(number, outer)

    cdef View next_message(self, Level level):
        """Return the next message with a marked table in a level, or None."""
        cdef Table* table = level.view.table
        cdef Field* field
        while True:
            if level.elements is not None:
                self.skip_clear(level)
                for view in level.elements:
                    level.index += 1
                    return view
                level.elements = None
                level.field += 1
            fill(level.view)
            while level.field < table.n_fields:
                field = &table.fields[level.field]
                if (
                    field.type == MESSAGE and level.view.slots[field.slot].p != NULL
                    and self.marks_of(field.sub)
                ):
                    break
                level.field += 1
            else:
                return None
            level.name = (<object>field.descriptor).name
            level.stem = None
            if not field.repeated:
                level.index = -1
                level.field += 1
                return field_value(level.view, field)
            level.elements = iter(field_value(level.view, field))
            level.index = -1

    cdef int skip_clear(self, Level level) except -1:
        """Skip the next elements whose bytes contain no result, without making views of them.

        The bytes in which a scan found no result (the clear bytes), and the record that ended the scan, are stored, so
        that elements of a scanned message are not scanned again.
        """
        cdef SpanIterator iterator = level.elements
        cdef RepeatedSpan sequence = iterator.sequence
        cdef Table* table
        cdef Span element
        cdef Pair edited
        cdef const uint8_t* end
        cdef const uint8_t* unedited_to
        cdef Document _old_document = self.scanned_document  # released last: its destructor may close other documents
        if sequence is None or len(self.levels) > MAX_DEPTH:  # at this depth, entering the next element raises
            return 0
        table = sequence.field.sub
        if self.marks_of(table) & IS_TARGET or N_PARTIAL and memory_of(level.view.start) is not None:
            return 0
        while iterator.peek(&element):
            end = element.p + element.n
            if sequence.document is not self.scanned_document:
                self.scanned_document = sequence.document
                self.clear_from = self.clear_to = self.target_record = NULL
            if element.p < self.clear_from or end > self.clear_to:
                if self.target_record != NULL and element.p <= self.target_record < end:
                    return 0
                self.scan(level, sequence, element.p, end)
                if self.target_record != NULL and self.target_record < end:
                    return 0
            # No other code runs until the next call, so one search for edits covers all elements in the clear bytes.
            unedited_to = self.clear_to
            if find_edits(<PyObject*>sequence.document, element.p, unedited_to, &edited):
                unedited_to = <const uint8_t*>edited.address
                if unedited_to <= end:
                    return 0
            level.index += iterator.skip_until(&element, unedited_to)
        return 0

    cdef int scan(
        self, Level level, RepeatedSpan sequence, const uint8_t* p, const uint8_t* end
    ) except -1:
        """Scan an element at p for results, and if it contains none, the records after it."""
        cdef int depth = MAX_DEPTH - <int>len(self.levels)
        cdef View view = level.view
        self.clear_from = p
        self.clear_to = find_marked(sequence.field.sub, p, end, self.owner.tables, self.marks, depth)
        self.target_record = self.clear_to if self.clear_to < end else NULL
        # Elements of an edited field can be in any order, in which the following records would be scanned repeatedly.
        if (
            self.target_record == NULL and sequence.edited_elements is None and view.parts == NULL
            and view.start <= p and end < view.end
        ):
            self.clear_to = find_marked(view.table, end, view.end, self.owner.tables, self.marks, depth + 1)
            self.target_record = self.clear_to if self.clear_to < view.end else NULL
        return 0

    cdef str path(self):
        """Return the path of the current message."""
        cdef Level level, outer = None
        # The path of a repeated field is created once for all its elements.
        for level in self.levels:
            if level.stem is None:
                level.stem = level.name if outer is None else f"{outer.path()}.{level.name}"
            outer = level
        return outer.path()


forbid_instantiation(Level, b"Search")
