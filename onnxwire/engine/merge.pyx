# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MergeFrom and DiscardUnknownFields."""
cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR, Py_DECREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from onnxwire.engine.canonical cimport canonical
from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.edit cimport copy_message, depth_of, edit
from onnxwire.engine.encode cimport unknown_fields
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.numbers cimport RepeatedScalar, get_numbers
from onnxwire.engine.overlay cimport MAX_OVERLAY_DEPTH, Element, Elements, Numbers, Overlay, owned, put_value, set_mark
from onnxwire.engine.repeated cimport Repeated
from onnxwire.engine.repeated_span cimport RepeatedSpan
from onnxwire.engine.table cimport MESSAGE, Field, Slot, find_field
from onnxwire.engine.view cimport (
    DROPS_UNKNOWN, HAS_UNKNOWN, Cursor, Record, document_of, field_value, fill, get_message, held_value, is_peer,
    is_unknown, next_record, start_cursor,
)

cdef extern from *:
    """
    /* Append to a bytes object that has one owner, in place if possible; on failure it is unchanged. */
    static inline int ow_lengthen(PyObject **data, PyObject *more)
    {
        Py_ssize_t n = PyBytes_GET_SIZE(*data);
        Py_ssize_t n_more = PyBytes_GET_SIZE(more);
        PyBytesObject *grown = NULL;
        if (n_more <= PY_SSIZE_T_MAX - n - (Py_ssize_t)sizeof(PyBytesObject))
            grown = PyObject_Realloc(*data, sizeof(PyBytesObject) + (size_t)(n + n_more));
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        *data = (PyObject *)grown;
        memcpy(PyBytes_AS_STRING(*data) + n, PyBytes_AS_STRING(more), (size_t)n_more + 1);
        Py_SET_SIZE(grown, n + n_more);
        return 0;
    }

    static inline void ow_shorten(PyObject *data, Py_ssize_t n)
    {
        Py_SET_SIZE(data, n);
        PyBytes_AS_STRING(data)[n] = 0;
    }
    """
    int lengthen "ow_lengthen"(PyObject** data, object more) except -1
    void shorten "ow_shorten"(PyObject* data, Py_ssize_t n) noexcept

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)

from onnxwire.errors import EditError

cdef enum Action:
    PUT              # set a singular field, or a repeated field that is empty
    ADD_ELEMENTS
    ADD_NUMBERS
    ADD_UNKNOWN


@cython.final
@cython.no_gc
cdef class Step:
    """One change of a merge, with all memory that it needs."""
    cdef Action action
    cdef View target         # the message to change
    cdef const Field* field
    cdef const uint8_t* p    # PUT: the slot
    cdef uint64_t n
    cdef object value        # the new elements, numbers or bytes; PUT: the owner of the value, or None
    cdef object grown        # ADD_ELEMENTS, ADD_NUMBERS: the elements of the target, with space for the new ones


forbid_instantiation(Step, b"MergeFrom")


cdef int merge(View self, View other, bint is_read, int depth) except -1:
    """Merge a message into another; `other` must be a copy that the program has no reference to.

    Singular values are replaced, nested messages are merged, elements and unknown fields are appended.
    is_read: `other` was just read from bytes (MergeFromString): its oneofs are merged record by record.
    All memory is allocated before the first change: on MemoryError the message is unchanged.
    """
    cdef list steps
    cdef Step step
    while True:
        steps = []
        prepare(self, other, is_read, depth, steps)
        edit(self)
        # Preparing may have run other code that edited the messages: start again.
        for step in steps:
            if not is_ready(step):
                break
        else:
            break
    add_unknown(steps)
    for step in steps:
        apply(step)
    return 0


cdef int prepare(View self, View other, bint is_read, int depth, list steps) except -1:
    """List the changes of a message and of its nested messages."""
    cdef Overlay overlay = None
    cdef Field* field
    cdef PyObject* held
    cdef Slot* slot
    cdef bytes unknown
    cdef uint32_t i
    if depth == 0:
        raise EditError(f"messages nested more than {MAX_OVERLAY_DEPTH:,} deep are not merged")
    fill(other)
    fill(self)
    # An absent message is edited last, which makes it present.
    if self.overlay == NULL or (<Overlay>self.overlay).parent == NULL:
        overlay = edit(self)
    for i in range(self.table.n_fields):
        field = &self.table.fields[i]
        slot = &other.slots[i]
        if slot.p == NULL:
            continue
        if field.repeated:
            prepare_elements(self, other, field, overlay is None, steps)
        elif field.type == MESSAGE:
            if overlay is None or overlay.slots[i].p == NULL or is_read and field.n_peers and has_peer(other, field):
                put_copy(self, field, get_message(other, field), steps)
            else:
                prepare(get_message(self, field), get_message(other, field), is_read, depth - 1, steps)
        elif field.size:
            steps.append(new_step(PUT, self, field, set_mark(), canonical(field, slot.n), None))
        else:
            held = held_value(other, field)
            owner = <object>held if held != NULL else document_of(other)
            steps.append(new_step(PUT, self, field, slot.p, slot.n, owner))
    unknown = unknown_fields(other)
    if unknown:
        steps.append(new_step(ADD_UNKNOWN, self, NULL, NULL, 0, unknown))
    return 0


cdef Step new_step(Action action, View target, const Field* field, const uint8_t* p, uint64_t n, value):
    cdef Step step = Step.__new__(Step)
    step.action = action
    step.target = target
    step.field = field
    step.p = p
    step.n = n
    step.value = value
    return step


cdef int put_copy(View self, const Field* field, View source, list steps) except -1:
    """Add the step that sets a singular field to a copy of a message."""
    cdef const uint8_t* p = NULL
    cdef uint64_t n = 0
    held = copy_message(source, depth_of(self), &p, &n)
    steps.append(new_step(PUT, self, field, p, n, held))
    return 0


cdef int prepare_elements(View self, View other, Field* field, bint is_absent, list steps) except -1:
    """Add the step that appends the elements of a repeated field."""
    cdef Repeated target = field_value(self, field)
    cdef Repeated source = field_value(other, field)
    cdef Step step
    cdef uint64_t n
    if field.size or field.type == MESSAGE:
        incoming = target.take(source)
    else:
        incoming = texts_of(source)
    n = (<Numbers>incoming).n if field.size else (<Elements>incoming).n
    if n == 0:
        return 0
    if is_absent:
        steps.append(new_step(PUT, self, field, set_mark(), n, incoming))
        return 0
    step = new_step(ADD_NUMBERS if field.size else ADD_ELEMENTS, self, field, NULL, n, incoming)
    if field.size:
        step.grown = (<RepeatedScalar>target).start_edit(<Py_ssize_t>n)
    else:
        step.grown = (<RepeatedSpan>target).start_edit(<Py_ssize_t>n)
    steps.append(step)
    return 0


cdef bint is_ready(Step step) except -1:
    """Return whether a step can be applied without allocating memory or running other code."""
    cdef Overlay overlay
    fill(step.target)
    if step.target.overlay == NULL:
        return False
    overlay = <Overlay>step.target.overlay
    if overlay.parent != NULL:
        return False
    if step.action == ADD_ELEMENTS:
        return overlay.held[step.field.slot] == <PyObject*>step.grown and (
            (<Elements>step.grown).room.capacity - (<Elements>step.grown).n >= (<Elements>step.value).n
        )
    if step.action == ADD_NUMBERS:
        return overlay.held[step.field.slot] == <PyObject*>step.grown and (
            (<Numbers>step.grown).room.capacity - (<Numbers>step.grown).n >= (<Numbers>step.value).n
        )
    if step.action == PUT and step.field.repeated:
        return overlay.slots[step.field.slot].p == NULL and overlay.held[step.field.slot] == NULL
    return True


cdef int add_unknown(list steps) except -1:
    """Append the unknown fields; append none if memory runs out."""
    cdef Step step
    cdef Overlay overlay
    cdef Py_ssize_t done = 0
    try:
        for step in steps:
            if step.action == ADD_UNKNOWN:
                add_to_unknown(<Overlay>step.target.overlay, step)
            done += 1
    except MemoryError:
        for step in steps[:done]:
            if step.action == ADD_UNKNOWN:
                overlay = <Overlay>step.target.overlay
                shorten(overlay.unknown, PyBytes_GET_SIZE(<object>overlay.unknown) - <Py_ssize_t>step.n)
        raise
    return 0


cdef int add_to_unknown(Overlay overlay, Step step) except -1:
    cdef PyObject* old = overlay.unknown
    step.n = <uint64_t>PyBytes_GET_SIZE(step.value)
    if old == NULL:
        step.grown = step.value  # set by `apply`
    elif Py_REFCNT(old) == 1:
        # Append in place, so that a loop of merges takes linear time.
        lengthen(&overlay.unknown, step.value)
    else:
        overlay.unknown = owned(<bytes><object>old + <bytes>step.value)
        Py_DECREF(<object>old)
    return 0


cdef int apply(Step step) except -1:
    """Apply a step that is ready."""
    cdef Overlay overlay = <Overlay>step.target.overlay
    cdef Elements elements, added
    cdef Numbers numbers, more
    cdef object _old = None  # released last: its destructor may run other code
    if step.action == ADD_UNKNOWN:
        if step.grown is not None:
            overlay.unknown = owned(step.grown)
        overlay.flags |= HAS_UNKNOWN
        (<Document>step.target.document).next_epoch()
        return 0
    if step.action == PUT:
        if step.field.type == MESSAGE:
            (<Document>step.target.document).next_epoch()
        if overlay.held[step.field.slot] != NULL:
            _old = <object>overlay.held[step.field.slot]
        put_value(overlay, step.field, step.p, step.n, NULL if step.value is None else <PyObject*>step.value)
    elif step.action == ADD_ELEMENTS:
        elements = step.grown
        added = step.value
        memcpy(&elements.items[elements.n], added.items, <size_t>added.n * sizeof(Element))
        elements.n += added.n
        added.n = 0  # the elements were moved
        overlay.slots[step.field.slot].p = set_mark()
        overlay.slots[step.field.slot].n = <uint64_t>elements.n
    else:
        numbers = step.grown
        more = step.value
        memcpy(numbers.items + numbers.n * numbers.size, more.items, <size_t>more.n * more.size)
        numbers.n += more.n
        overlay.slots[step.field.slot].p = set_mark()
        overlay.slots[step.field.slot].n = <uint64_t>numbers.n
    return 0


cdef bint has_peer(View self, const Field* field):
    """Return whether the bytes of a message have another member of a field's oneof, which clears the old value."""
    cdef Cursor cursor
    cdef Record record
    cdef Field* other
    start_cursor(&cursor, self, NULL)
    while next_record(&cursor, 0, &record) > 0:
        other = find_field(self.table, record.tag >> 3)
        if not is_unknown(other, &record) and is_peer(field, other):
            return True
    return False


cdef Elements texts_of(RepeatedSpan source):
    """Return the elements of a repeated string or bytes field without decoding them: they may be invalid UTF-8."""
    cdef Elements incoming = Elements.__new__(Elements)
    cdef Elements elements = source.elements()
    cdef Element* element
    cdef Spans index
    cdef Py_ssize_t i
    if elements is None:
        index = source.make_index()
        for i in range(index.n):
            incoming.add(index.items[i].p, index.items[i].n, source.document)
    else:
        for i in range(elements.n):
            element = &elements.items[i]
            incoming.add(
                element.p, element.n, source.document if element.held == NULL else <object>element.held
            )
    return incoming


cdef int discard_unknown(View self, int depth) except -1:
    """Discard the unknown fields of a message and of all nested messages; if memory runs out, nothing is discarded."""
    cdef list found = []
    cdef View view
    cdef Overlay overlay
    find_unknown(self, depth, found)
    for view in found:
        fill(view)
        overlay = <Overlay>view.overlay
        overlay.flags = overlay.flags & ~<uint32_t>HAS_UNKNOWN | DROPS_UNKNOWN
        Py_CLEAR(overlay.unknown)
        (<Document>view.document).next_epoch()
    return 0


cdef int find_unknown(View self, int depth, list found) except -1:
    """List the messages that have unknown fields, and make their overlays."""
    cdef Overlay overlay
    cdef Field* field
    cdef uint32_t i
    if depth == 0:
        raise EditError(f"messages nested more than {MAX_OVERLAY_DEPTH:,} deep can't be edited")
    fill(self)
    if self.overlay != NULL:
        edit(self)  # an absent message becomes present, as with protobuf
    if unknown_fields(self):
        overlay = edit(self)
        for i in range(self.table.n_fields):
            field = &self.table.fields[i]
            # A packed run of a closed enum may have unknown values: decode it, which drops them.
            if field.closed and field.repeated and overlay.slots[i].p != NULL:
                (<RepeatedScalar>get_numbers(self, field)).start_edit(0)
        found.append(self)
    for i in range(self.table.n_fields):
        field = &self.table.fields[i]
        fill(self)
        if field.type != MESSAGE or self.slots[i].p == NULL:
            continue
        if field.repeated:
            for element in field_value(self, field):
                find_unknown(element, depth - 1, found)
        else:
            find_unknown(get_message(self, field), depth - 1, found)
    return 0
