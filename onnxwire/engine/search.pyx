# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Finds every message of some class, wherever it is in another."""
cimport cython

from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t

from onnxwire.engine.instances cimport make_internal
from onnxwire.engine.scan cimport NameFilter
from onnxwire.engine.table cimport MESSAGE, Field, Table, TableOwner, TableRef
from onnxwire.engine.view cimport View, field_value, fill, table_of


cdef enum:
    WANTED = 1                   # of a table: its messages are searched for
    LEADING = 2                  # its messages can have such messages in them


cdef bint leads_on(const Table* table, const Table* first, const uint8_t* marks) noexcept:
    """Whether a message of the table can have one in it whose table is marked."""
    cdef uint32_t i
    for i in range(table.n_fields):
        if table.fields[i].type == MESSAGE and marks[table.fields[i].sub - first]:
            return True
    return False


cdef bytearray mark_tables(TableOwner owner, list wanted):
    """The marks of all tables."""
    cdef bytearray result = bytearray(owner.n_tables)
    cdef uint8_t* marks = result
    cdef Py_ssize_t i
    cdef bint is_new = True
    for i in range(owner.n_tables):
        if <size_t>&owner.tables[i] in wanted:
            marks[i] = WANTED
    while is_new:  # tables refer to one another in circles
        is_new = False
        for i in range(owner.n_tables):
            if not marks[i] & LEADING and leads_on(&owner.tables[i], owner.tables, marks):
                marks[i] |= LEADING
                is_new = True
    return result


cdef enum:
    MOST_FRAMES = 101            # the root and 100 messages in one another, as for every protobuf reader


@cython.final
@cython.freelist(16)
cdef class Frame:
    """A message that is being looked through."""
    cdef View view
    cdef uint32_t field          # the one that is looked at
    cdef Py_ssize_t index        # of the last element, in a repeated one
    cdef object elements         # iterator over a repeated field, or None
    cdef str name                # of the field that the message being looked at now is in
    cdef str stem                # that field's path; None until it is asked for
    cdef Py_ssize_t number       # of the message's path among those kept, -1 for none

    cdef str place(self):
        """The path of the message that is being looked at now."""
        return self.stem if self.elements is None else f"{self.stem}[{self.index}]"


@cython.final
cdef class Paths:
    """Paths that a search found, by numbers: 12 bytes for each message on the way, however deep that lies."""
    cdef object parents          # array: 1 + the number of the path that a path goes on from, 0 for the root
    cdef object steps            # array: 1 + index, or 0, and below 8 bits the number of the field's name
    cdef list names
    cdef dict numbers
    cdef Py_ssize_t parent       # the last path that another was asked for to go on from, or -1
    cdef str prefix              # that one, with a point after it

    @critical_section
    def __cinit__(self):
        from array import array

        self.parent = -1
        self.prefix = ""

        self.parents = array("I")
        self.steps = array("q")
        self.names = []
        self.numbers = {}

    cdef Py_ssize_t add(self, Py_ssize_t parent, Frame frame) except -1:
        number = self.numbers.get(frame.name)
        if number is None:
            number = self.numbers[frame.name] = len(self.names)
            self.names.append(frame.name)
        self.parents.append(parent + 1)
        self.steps.append((0 if frame.elements is None else frame.index + 1) << 8 | number)
        return len(self.parents) - 1

    @critical_section
    def __getitem__(self, Py_ssize_t number):
        cdef Py_ssize_t parent, outer
        cdef str prefix = self.prefix
        cdef list steps = []
        if not 0 <= number < len(self.parents):
            raise IndexError(number)
        # What many have before them is made once.
        parent = outer = <Py_ssize_t>self.parents[number] - 1
        if parent != self.parent:
            while outer >= 0:
                steps.append(self.step(outer))
                outer = <Py_ssize_t>self.parents[outer] - 1
            prefix = "".join([f"{step}." for step in reversed(steps)])
            # Nothing comes between the two, so that threads have both of one path.
            self.parent, self.prefix = parent, prefix
        return prefix + self.step(number)

    cdef str step(self, Py_ssize_t number):
        """The last step of a path."""
        cdef object step = self.steps[number]
        cdef str name = self.names[step & 0xFF]
        return f"{name}[{(step >> 8) - 1}]" if step >> 8 else name


@cython.final
cdef class Search:
    """An iterator of (path, message), depth first, in the order of fields and elements.

    root: the message that is searched, itself not among the results; classes: what is searched for. Only messages that
    can lead there are looked at. Paths are such as `graph.node[3].attribute[0].t`; with `paths` they are kept there,
    and their numbers come instead: one search has all its paths in one buffer. Messages may be edited on the way;
    where elements come or go in a field that is being gone through, ChangedError is raised, and DecodeError for
    messages nested more than 100 deep. names: skip messages that contain none of these names, at any depth.
    """
    cdef TableOwner owner
    cdef bytearray marked        # what each of its tables is marked with
    cdef uint8_t* marks
    cdef list frames
    cdef Paths paths             # or None
    cdef NameFilter names        # or None

    @critical_section
    def __cinit__(self, View root, classes, Paths paths=None, NameFilter names=None):
        self.paths = paths
        self.names = names
        self.owner = (<TableRef?>type(root)._table).owner
        self.marked = mark_tables(self.owner, [<size_t>table_of(cls) for cls in classes])
        self.marks = self.marked
        self.frames = []
        self.enter(root)

    cdef uint8_t marks_of(self, const Table* table) noexcept:
        return self.marks[table - self.owner.tables]

    cdef int enter(self, View view) except -1:
        """Go through a message next, if anything in it can be worth a look."""
        cdef Frame frame
        if len(self.frames) == MOST_FRAMES:
            from onnxwire.engine.depth import too_deep

            raise too_deep(view)
        fill(view)
        if not self.marks_of(view.table) & LEADING:
            return 0
        frame = Frame.__new__(Frame)
        frame.view = view
        frame.number = -1
        self.frames.append(frame)
        return 0

    @critical_section
    def __iter__(self):
        return self

    @critical_section
    def __next__(self):
        cdef Frame frame
        cdef View view
        while self.frames:
            frame = self.frames[len(self.frames) - 1]
            view = self.next_in(frame)
            if view is None:
                self.frames.pop()
                continue
            if self.names is not None and not self.names.selects(view):
                continue
            found = None
            if self.marks_of(view.table) & WANTED:
                found = (self.path() if self.paths is None else self.keep(), view)
            self.enter(view)
            if found is not None:
                return found
        raise StopIteration

    cdef Py_ssize_t keep(self) except -1:
        """Keep the path of the message that the last frame has come to; returns its number."""
        cdef Py_ssize_t number = -1
        cdef Frame frame, outer = None
        for frame in self.frames:
            if outer is not None:
                if frame.number < 0:
                    frame.number = self.paths.add(number, outer)
                number = frame.number
            outer = frame
        return self.paths.add(number, outer)

    cdef View next_in(self, Frame frame):
        """The next message in another that is worth a look, or None."""
        cdef Table* table = frame.view.table
        cdef Field* field
        while True:
            if frame.elements is not None:
                for view in frame.elements:
                    frame.index += 1
                    return view
                frame.elements = None
                frame.field += 1
            fill(frame.view)
            while frame.field < table.n_fields:
                field = &table.fields[frame.field]
                if (
                    field.type == MESSAGE and frame.view.slots[field.slot].p != NULL
                    and self.marks_of(field.sub)
                ):
                    break
                frame.field += 1
            else:
                return None
            frame.name = (<object>field.descriptor).name
            frame.stem = None
            if not field.repeated:
                frame.index = -1
                frame.field += 1
                return field_value(frame.view, field)
            frame.elements = iter(field_value(frame.view, field))
            frame.index = -1

    cdef str path(self):
        """The path of the message that the last frame has come to."""
        cdef Frame frame, outer = None
        # What many elements have before them is made once.
        for frame in self.frames:
            if frame.stem is None:
                frame.stem = frame.name if outer is None else f"{outer.place()}.{frame.name}"
            outer = frame
        return outer.place()


make_internal(Frame, b"Search")
