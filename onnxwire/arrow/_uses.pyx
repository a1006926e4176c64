# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The names that nodes read and make, and the scopes that define them."""
from cython cimport final
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport Record
from onnxwire.arrow._columns cimport add_null, add_number, add_view
from onnxwire.arrow._program cimport WIDEST
from onnxwire.arrow._walk cimport next_element, start_at
from onnxwire.engine.instances cimport make_internal
from onnxwire.engine.table cimport Field
from onnxwire.engine.view cimport Cursor
from onnxwire.index.names cimport INITIALIZER, INPUT, NODE, Definition, Kind, TextNames

cdef const char* READ = "input"
cdef const char* MADE = "output"


@final
cdef class Scope:
    """A graph or function whose nodes are gone through, for `uses`."""


cdef Scope enter(Walk walk, Scope outer, const View* path, Table* table, const Message* message):
    """Enter a scope inside another; outer values are visible in the graphs of attributes alone. path: its text."""
    cdef Scope scope = Scope.__new__(Scope)
    scope.message = message[0]
    scope.table = table
    scope.path = path[0]
    scope.level = -1
    if walk.depth > 2 and walk.frames[walk.depth - 3].table == walk.node_table:
        scope.outer = outer
        if scope.outer is not None:
            scope.outer.node = walk.frames[walk.depth - 3].index
    return scope


cdef int leave(Walk walk, TextNames names, Scope scope, Column* column, const Slot* slots) except -1:
    """Leave a scope; add the uses of the values that a graph in an attribute takes from outside as its outputs."""
    cdef Field* field = walk.known.graph_output
    cdef Field* name = walk.known.value_name
    cdef Slot[WIDEST] inner
    cdef Cursor cursor
    cdef Message below
    cdef Scope home
    if scope.outer is not None and slots[field.slot].p != NULL:
        start_at(&cursor, &scope.message, &slots[field.slot])
        while walk.next_message(&cursor, field, &below, inner):
            if inner[name.slot].n:
                home = home_of(walk, names, scope, inner[name.slot].p, inner[name.slot].n)
                if home is not scope:
                    add_use(walk, column, home, inner[name.slot].p, inner[name.slot].n, home.node, -1, False)
    if scope.level >= 0:
        names.close()
    return 0


cdef int add_uses(
    Walk walk, TextNames names, Scope scope, Column* column, const Message* message, const Slot* slots
) except -1:
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
                    home = home_of(walk, names, scope, record.value, record.n)
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
    return walk.add_word(&(column + 4).rows, MADE if is_output else READ)


cdef Scope home_of(Walk walk, TextNames names, Scope user, const uint8_t* p, uint64_t n):
    """The scope that defines a name; `user`, which uses it, where none does."""
    cdef Scope scope = user
    cdef Definition* definition
    open_scope(walk, names, user)
    definition = names.look_up((<const char*>p)[:n])
    if definition == NULL:
        return user
    while scope.level != definition.level:
        scope = scope.outer
    return scope


cdef int open_scope(Walk walk, TextNames names, Scope scope) except -1:
    """Add the definitions of a scope and of those around it, unless they were; most scopes are never asked for."""
    cdef Slot[WIDEST] slots
    cdef uint32_t flags
    cdef Table* table = scope.table
    if scope.level >= 0:
        return 0
    if scope.outer is not None:
        open_scope(walk, names, scope.outer)
    walk.scan(table, &scope.message, slots, &flags)
    names.open()
    scope.level = names.n_levels - 1
    if table == walk.function_table:
        define_strings(walk, names, INPUT, &scope.message, slots, walk.known.function_input)
        return define(walk, names, NODE, &scope.message, slots, walk.known.function_node, walk.known.output)
    define(walk, names, INPUT, &scope.message, slots, walk.known.graph_input, walk.known.value_name)
    define(walk, names, INITIALIZER, &scope.message, slots, walk.known.initializer, walk.known.tensor_name)
    define(walk, names, INITIALIZER, &scope.message, slots, walk.known.sparse_initializer, walk.known.values)
    return define(walk, names, NODE, &scope.message, slots, walk.known.graph_node, walk.known.output)


cdef int define(
    Walk walk, TextNames names, Kind kind, const Message* message, const Slot* slots, Field* field, Field* name
) except -1:
    """Define the names of the messages in a field; name: their field of strings, or of the tensor that has the name."""
    cdef Slot[WIDEST] inner
    cdef Slot[WIDEST] tensor
    cdef uint32_t flags
    cdef Slot* text
    cdef Cursor cursor
    cdef Message below
    cdef Message values
    if slots[field.slot].p == NULL:
        return 0
    start_at(&cursor, message, &slots[field.slot])
    while walk.next_message(&cursor, field, &below, NULL):
        walk.scan(field.sub, &below, inner, &flags)
        text = &inner[name.slot]
        if name.repeated:
            define_strings(walk, names, kind, &below, inner, name)
            continue
        if name.sub != NULL and text.p != NULL:
            walk.child(field.sub, &below, inner, flags, name, &values)
            walk.scan(name.sub, &values, tensor, &flags)
            text = &tensor[walk.known.tensor_name.slot]
        if text.n:
            names.add((<const char*>text.p)[:text.n], kind, -1, 0)
    return 0


cdef int define_strings(
    Walk walk, TextNames names, Kind kind, const Message* message, const Slot* slots, Field* field
) except -1:
    """Define the strings of a field."""
    cdef Cursor cursor
    cdef Record record
    if slots[field.slot].p == NULL:
        return 0
    start_at(&cursor, message, &slots[field.slot])
    while next_element(walk, &cursor, field, &record):
        if record.n:
            names.add((<const char*>record.value)[:record.n], kind, -1, 0)
    return 0


make_internal(Scope, b"the walk that makes the table of uses")
