# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Finds every message of some class, wherever it is in another."""
cimport cython

from libc.stdint cimport uint32_t

from onnxwire._table cimport MESSAGE, Field, Table
from onnxwire._view cimport View, field_value, fill, table_of


cdef int add_leading(Table* table, set leading, set seen) except -1:
    """Add the tables, from this one down, whose messages can have a message of a table of `leading` in them."""
    cdef uint32_t i
    cdef size_t address = <size_t>table
    if address in seen:
        return 0
    seen.add(address)
    for i in range(table.n_fields):
        if table.fields[i].kind == MESSAGE:
            add_leading(table.fields[i].sub, leading, seen)
            if <size_t>table.fields[i].sub in leading:
                leading.add(address)
    return 0


@cython.final
@cython.freelist(16)
cdef class Frame:
    """A message that is being looked through."""
    cdef View view
    cdef uint32_t field          # the one that is looked at
    cdef Py_ssize_t place        # of the last element, in a repeated one
    cdef object elements         # iterator over a repeated field, or None


@cython.final
cdef class Search:
    """An iterator of (path, message), depth first, in the order of fields and elements.

    root: the message that is searched, itself not among the results; classes: what is searched for. Only messages that
    can lead there are looked at. Paths are such as `graph.node[3].attribute[0].t`. Messages may be edited on the way;
    where elements come or go in a field that is being gone through, ChangedError is raised.
    """
    cdef set wanted              # addresses of tables
    cdef set leading             # those whose messages are worth a look
    cdef list frames

    def __init__(self, View root, classes):
        cdef size_t before = 0
        self.wanted = {<size_t>table_of(cls) for cls in classes}
        self.leading = set(self.wanted)
        # Tables refer to one another in circles, so once is not always enough.
        while before != <size_t>len(self.leading):
            before = <size_t>len(self.leading)
            add_leading(root.table, self.leading, set())
        self.frames = []
        self.push(root)

    cdef int push(self, View view) except -1:
        cdef Frame frame = Frame.__new__(Frame)
        fill(view)
        frame.view = view
        self.frames.append(frame)
        return 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef Frame frame
        cdef View view
        while self.frames:
            frame = self.frames[len(self.frames) - 1]
            view = self.next_in(frame)
            if view is None:
                self.frames.pop()
                continue
            found = (self.path(), view) if <size_t>view.table in self.wanted else None
            self.push(view)
            if found is not None:
                return found
        raise StopIteration

    cdef View next_in(self, Frame frame):
        """The next message in another that is worth a look, or None."""
        cdef Table* table = frame.view.table
        cdef Field* field
        while True:
            if frame.elements is not None:
                for view in frame.elements:
                    frame.place += 1
                    return view
                frame.elements = None
                frame.field += 1
            fill(frame.view)
            while frame.field < table.n_fields:
                field = &table.fields[frame.field]
                if (
                    field.kind == MESSAGE and frame.view.slots[field.slot].p != NULL
                    and <size_t>field.sub in self.leading
                ):
                    break
                frame.field += 1
            else:
                return None
            if not field.repeated:
                frame.place = -1
                frame.field += 1
                return field_value(frame.view, field)
            frame.elements = iter(field_value(frame.view, field))
            frame.place = -1

    cdef str path(self):
        cdef Frame frame
        cdef list steps = []
        for frame in self.frames:
            if frame.elements is None:
                steps.append((<object>frame.view.table.fields[frame.field - 1].descriptor).name)
            else:
                steps.append(f"{(<object>frame.view.table.fields[frame.field].descriptor).name}[{frame.place}]")
        return ".".join(steps)
