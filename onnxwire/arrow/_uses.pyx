# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The names that nodes read and make, and the scopes that define them."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport Record
from onnxwire.arrow._columns cimport add_null, add_number, add_view
from onnxwire.arrow._program cimport WIDEST, field_of
from onnxwire.arrow._walk cimport next_element, start_at
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor

cdef const char* INPUT = "input"
cdef const char* OUTPUT = "output"


cdef class Scope:
    """A graph or function whose nodes are gone through, for `uses`."""


cdef Scope enter(Walk walk, Scope outer, const View* path, Table* table, const Message* message):
    """Open a scope inside another; outer values are visible in the graphs of attributes alone. path: its text."""
    cdef Scope scope = Scope.__new__(Scope)
    scope.message = message[0]
    scope.table = table
    scope.path = path[0]
    if walk.depth > 2 and walk.frames[walk.depth - 3].table == walk.node_table:
        scope.outer = outer
        if scope.outer is not None:
            scope.outer.node = walk.frames[walk.depth - 3].index
    return scope


cdef int add_uses(Walk walk, Scope scope, Column* column, const Message* message, const Slot* slots) except -1:
    """Add the names that a node reads and makes, one row each; an empty name is none.

    A name that a graph takes from outside is a use of the graph that defines it, by the node there that has the
    inner graph in an attribute; it is in none of that node's slots.
    """
    cdef int64_t node = walk.frames[walk.depth - 1].index
    cdef Scope home
    cdef Field* field
    cdef Cursor cursor
    cdef Record record
    cdef int64_t index
    cdef int k
    for k in range(2):
        field = walk.known.output if k else walk.known.input
        if slots[field.slot].p == NULL:
            continue
        index = 0
        start_at(&cursor, message, &slots[field.slot])
        while next_element(walk, &cursor, field, &record):
            if record.n:
                home = scope
                if k == 0 and home is not None and home.outer is not None:
                    home = home_of(walk, scope, record.value, record.n)
                if home is scope:
                    add_use(walk, column, home, record.value, record.n, node, index, k)
                else:
                    add_use(walk, column, home, record.value, record.n, home.node, -1, k)
            index += 1
    return 0


cdef int add_use(
    Walk walk, Column* column, Scope scope, const uint8_t* p, uint64_t n, int64_t node, int64_t slot, bint is_output
) except -1:
    if scope is None:
        add_null(&column.rows)
    else:
        add_view(&column.rows, &scope.path)
    walk.columns.add_text(&(column + 1).rows, p, n)
    add_number(&(column + 2).rows, node)
    walk.add_unless_negative(&(column + 3).rows, slot)
    return walk.add_word(&(column + 4).rows, OUTPUT if is_output else INPUT)


cdef Scope home_of(Walk walk, Scope user, const uint8_t* p, uint64_t n):
    """The scope that defines a name; `user`, which uses it, where none does."""
    cdef Scope scope = user
    name = (<const char*>p)[:n]
    while scope is not None:
        if scope.names is None:
            scope.names = names_in(walk, scope)
        if name in scope.names:
            return scope
        scope = scope.outer
    return user


cdef set names_in(Walk walk, Scope scope):
    """The names that a graph or function defines: inputs, initializers, what its nodes make."""
    cdef Slot[WIDEST] slots
    cdef uint32_t flags
    cdef set names = set()
    walk.scan(scope.table, &scope.message, slots, &flags)
    if scope.table == walk.function_table:
        add_names(walk, names, scope.table, &scope.message, slots, flags, "input", ())
    else:
        add_names(walk, names, scope.table, &scope.message, slots, flags, "input", ("name",))
        add_names(walk, names, scope.table, &scope.message, slots, flags, "initializer", ("name",))
        add_names(walk, names, scope.table, &scope.message, slots, flags, "sparse_initializer", ("values", "name"))
    add_names(walk, names, scope.table, &scope.message, slots, flags, "node", ("output",))
    return names


cdef int add_names(
    Walk walk, set names, Table* table, const Message* message, const Slot* slots, uint32_t flags, str name, tuple way
) except -1:
    """Add the strings of a field, or those that a way of fields leads to from the messages in it."""
    cdef Field* field = field_of(table, name)
    cdef Slot[WIDEST] inner
    cdef uint32_t inner_flags
    cdef Cursor cursor
    cdef Record record
    cdef Message below
    if slots[field.slot].p == NULL:
        return 0
    if not field.repeated:
        if not way:
            names.add((<const char*>slots[field.slot].p)[:slots[field.slot].n])
            return 0
        walk.child(table, message, slots, flags, field, &below)
        walk.scan(field.sub, &below, inner, &inner_flags)
        return add_names(walk, names, field.sub, &below, inner, inner_flags, way[0], way[1:])
    start_at(&cursor, message, &slots[field.slot])
    if not way:
        while next_element(walk, &cursor, field, &record):
            names.add((<const char*>record.value)[:record.n])
        return 0
    while walk.next_message(&cursor, field, &below, NULL):
        walk.scan(field.sub, &below, inner, &inner_flags)
        add_names(walk, names, field.sub, &below, inner, inner_flags, way[0], way[1:])
    return 0
