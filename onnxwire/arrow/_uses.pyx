# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The names that nodes read and produce, and the scopes that define them."""
from libc.stdint cimport uint8_t, uint64_t

from onnxwire._varint cimport Record
from onnxwire.arrow._columns cimport add_null, add_number, add_string_view
from onnxwire.arrow._program cimport Fields
from onnxwire.arrow._walk cimport has, next_element, start_at
from onnxwire.engine.table cimport Field, Slot
from onnxwire.engine.view cimport Cursor
from onnxwire.index.names cimport INITIALIZER, INPUT, NODE, Definition, Kind

cdef enum:
    USE_COLUMNS = 5  # number of columns from `graph` to `kind`; the columns of the inner use may follow

cdef const char* INPUT_KIND = "input"
cdef const char* OUTPUT_KIND = "output"


cdef int enter_scope(Walk walk, Scope* scope, Scope* outer, const StringView* path, const Message* message) except -1:
    """Enter a graph or function. outer: the enclosing scope; only graphs in attributes of nodes can read its values."""
    scope.message = message
    scope.path = path[0]
    scope.level = -1
    scope.node = 0
    scope.outer = NULL
    # The path to a graph in an attribute ends with the node, the attribute and the graph.
    if outer != NULL and walk.depth > 2 and walk.path[walk.depth - 3].table == walk.program.node_table:
        scope.outer = outer
        outer.node = walk.path[walk.depth - 3].index
    return 0


cdef int leave_scope(Walk walk, TextNames names, Scope* scope, Column* column) except -1:
    """Leave a scope. If a node has it in an attribute, add a use for each output that an enclosing scope defines."""
    cdef Cursor cursor
    cdef Message output
    cdef Slot* name
    cdef Scope* definer
    cdef int64_t index = -1
    if scope.outer != NULL:
        start_at(&cursor, scope.message, walk.fields.graph_output)
        while walk.next_message(&cursor, walk.fields.graph_output, &output):
            index += 1
            name = &output.slots[walk.fields.value_name.slot]
            if name.n:
                definer = defining_scope(walk, names, scope, name.p, name.n)
                if definer != scope:
                    add_use(walk, column, definer, name.p, name.n, definer.node, -1, False)
                    add_inner_use(walk, column, scope, -1, index)
    if scope.level >= 0:
        names.close()
    return 0


cdef int add_uses(Walk walk, TextNames names, Scope* scope, Column* column, const Message* message) except -1:
    """Add a row for each name that a node reads or produces, except empty names.

    The column `slot` has the index in the node's input or output. If a nested graph reads a name of an enclosing graph,
    the row has the enclosing graph, its node whose attribute contains the nested graph, and no slot. The columns of the
    inner use have the graph, the node and the slot that read the name.
    """
    cdef int64_t node = walk.path[walk.depth - 1].index
    cdef Scope* definer
    cdef Field* field
    cdef Cursor cursor
    cdef Record record
    cdef int64_t index
    cdef bint is_output
    for is_output in range(2):
        field = walk.fields.node_output if is_output else walk.fields.node_input
        index = 0
        start_at(&cursor, message, field)
        while next_element(walk, &cursor, field, &record):
            if record.n:
                definer = scope
                if not is_output and scope != NULL and scope.outer != NULL:
                    definer = defining_scope(walk, names, scope, record.value, record.n)
                if definer == scope:
                    add_use(walk, column, scope, record.value, record.n, node, index, is_output)
                    add_inner_use(walk, column, NULL, -1, -1)
                else:
                    add_use(walk, column, definer, record.value, record.n, definer.node, -1, is_output)
                    add_inner_use(walk, column, scope, node, index)
            index += 1
    return 0


cdef int add_use(
    Walk walk, Column* column, Scope* scope, const uint8_t* p, uint64_t n, int64_t node, int64_t slot, bint is_output
) except -1:
    """Add a row without the columns of the inner use. scope: NULL for a null; p, n: the name; slot: -1 for a null."""
    if scope == NULL:
        add_null(&column.rows)
    else:
        add_string_view(&column.rows, &scope.path)
    walk.columns.add_text(&(column + 1).rows, p, n)
    add_number(&(column + 2).rows, node)
    walk.add_unless_negative(&(column + 3).rows, slot)
    return walk.add_c_string(&(column + 4).rows, OUTPUT_KIND if is_output else INPUT_KIND)


cdef int add_inner_use(Walk walk, Column* column, Scope* scope, int64_t node, int64_t slot) except -1:
    """Fill the columns of the inner use, if the table has them.

    scope: the graph that captures the name, or NULL. node, slot: -1 for a null.
    """
    if column + USE_COLUMNS == walk.columns.block.columns + walk.columns.block.n_columns:
        return 0
    if scope == NULL:
        add_null(&(column + USE_COLUMNS).rows)
    else:
        add_string_view(&(column + USE_COLUMNS).rows, &scope.path)
    walk.add_unless_negative(&(column + USE_COLUMNS + 1).rows, node)
    return walk.add_unless_negative(&(column + USE_COLUMNS + 2).rows, slot)


cdef Scope* defining_scope(Walk walk, TextNames names, Scope* user, const uint8_t* p, uint64_t n) except NULL:
    """Return the scope that defines a name; if none does, `user`, the scope that uses it."""
    cdef Scope* scope = user
    cdef Definition* definition
    open_scope(walk, names, user)
    definition = names.look_up((<const char*>p)[:n])
    if definition == NULL:
        return user
    while scope.level != definition.level:
        scope = scope.outer
    return scope


cdef int open_scope(Walk walk, TextNames names, Scope* scope) except -1:
    """Read the definitions of a scope and of its enclosing scopes, once. Most scopes need no definitions."""
    cdef Fields* fields = walk.fields
    cdef const Message* message = scope.message
    if scope.level >= 0:
        return 0
    if scope.outer != NULL:
        open_scope(walk, names, scope.outer)
    names.open()
    scope.level = names.n_levels - 1
    if message.table == walk.program.function_table:
        define_names(walk, names, INPUT, message, fields.function_input, NULL)
        return define_names(walk, names, NODE, message, fields.function_node, fields.node_output)
    define_names(walk, names, INPUT, message, fields.graph_input, fields.value_name)
    define_names(walk, names, INITIALIZER, message, fields.initializer, fields.tensor_name)
    define_names(walk, names, INITIALIZER, message, fields.sparse_initializer, fields.sparse_values)
    return define_names(walk, names, NODE, message, fields.graph_node, fields.node_output)


cdef int define_names(
    Walk walk, TextNames names, Kind kind, const Message* message, const Field* field, const Field* name
) except -1:
    """Define the names in a repeated field of strings or messages.

    name: the field of these messages with the names: a string, strings, or a named tensor; NULL for a field of strings.
    The node and source of a definition are not needed here, so they are -1 and 0.
    """
    cdef Cursor cursor
    cdef Record record
    cdef Message element
    cdef Message tensor
    cdef Slot* text
    start_at(&cursor, message, field)
    if name == NULL:
        while next_element(walk, &cursor, field, &record):
            names.add((<const char*>record.value)[:record.n], kind, -1, 0)
        return 0
    while walk.next_message(&cursor, field, &element):
        if not has(&element, name):
            continue
        text = &element.slots[name.slot]
        if name.repeated:
            define_names(walk, names, kind, &element, name, NULL)
            continue
        if name.sub != NULL:
            walk.child(&element, name, &tensor)
            text = &tensor.slots[walk.fields.tensor_name.slot]
        names.add((<const char*>text.p)[:text.n], kind, -1, 0)
    return 0
