# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MergeFrom and DiscardUnknownFields."""
cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_CLEAR, Py_DECREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from onnxwire.engine.canonical cimport canonical_bits
from onnxwire.engine.document cimport Document, Spans
from onnxwire.engine.edit cimport copy_message, depth_of, edit
from onnxwire.engine.encode cimport unknown_fields
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.numbers cimport RepeatedScalar, get_numbers
from onnxwire.engine.overlay cimport (
    MAX_OVERLAY_DEPTH, Element, Elements, Numbers, Overlay, element_at, owned, put_value, free_at_end, presence_mark,
)
from onnxwire.engine.repeated cimport Repeated
from onnxwire.engine.repeated_span cimport RepeatedSpan
from onnxwire.engine.table cimport MESSAGE, Field, Slot, find_field
from onnxwire.engine.getters cimport get_message
from onnxwire.engine.view cimport (
    DROPS_UNKNOWN, HAS_UNKNOWN, Cursor, Record, document_of, field_value, fill, find_value_owner, is_peer,
    is_unknown, next_record, start_cursor,
)

cdef extern from *:
    """
    /* Append to a bytes object with one reference, in place if possible; on failure it is unchanged. */
    static inline int ow_lengthen(PyObject **data, PyObject *suffix)
    {
        Py_ssize_t n = PyBytes_GET_SIZE(*data);
        Py_ssize_t n_suffix = PyBytes_GET_SIZE(suffix);
        PyBytesObject *resized = NULL;
        if (n_suffix <= PY_SSIZE_T_MAX - n - (Py_ssize_t)sizeof(PyBytesObject))
            resized = PyObject_Realloc(*data, sizeof(PyBytesObject) + (size_t)(n + n_suffix));
        if (resized == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        *data = (PyObject *)resized;
        memcpy(PyBytes_AS_STRING(*data) + n, PyBytes_AS_STRING(suffix), (size_t)n_suffix + 1);
        Py_SET_SIZE(resized, n + n_suffix);
        return 0;
    }

    static inline void ow_shorten(PyObject *data, Py_ssize_t n)
    {
        Py_SET_SIZE(data, n);
        PyBytes_AS_STRING(data)[n] = 0;
    }
    """
    int lengthen "ow_lengthen"(PyObject** data, object suffix) except -1
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
    """One change of a merge, prepared so that `apply` allocates no memory."""
    cdef Action action
    cdef View target         # the message to change
    cdef const Field* field
    cdef const uint8_t* p    # PUT: `p` of the new slot
    cdef uint64_t n          # PUT: `n` of the new slot; otherwise the number of new elements, numbers or bytes
    cdef object value        # the new elements, numbers or bytes; PUT: the owner of the value, or None
    # ADD_ELEMENTS, ADD_NUMBERS: the elements of the target, with space for the new ones. ADD_UNKNOWN: bytes that
    # `apply` stores as the target's unknown fields; None if `add_unknown` has appended the new fields to the old ones.
    # PUT: after `apply`, the owner of the old value. Its destructor may run other code that edits the targets of later
    # steps, so it is released with the steps, after the last one.
    cdef object destination


forbid_instantiation(Step, b"MergeFrom")


cdef int merge(View self, View source, bint is_parsed, int depth) except -1:
    """Merge a message into another; `source` must be a copy that the program has no reference to.

    Singular values are replaced, nested messages are merged, elements and unknown fields are appended.
    is_parsed: `source` was just read from bytes (MergeFromString): its oneofs are merged record by record.
    All memory is allocated before the first change: on MemoryError the content of the message is unchanged.
    """
    cdef list steps
    cdef Step step
    while True:
        steps = []
        prepare(self, source, is_parsed, depth, steps)
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


cdef int prepare(View self, View source, bint is_parsed, int depth, list steps) except -1:
    """Add to `steps` the changes of a message and of its nested messages; depth: maximum number of levels."""
    cdef Overlay overlay = None
    cdef Field* field
    cdef PyObject* value_owner
    cdef Slot* slot
    cdef bytes unknown
    cdef uint32_t i
    if depth == 0:
        raise EditError(f"messages nested more than {MAX_OVERLAY_DEPTH:,} deep are not merged")
    fill(source)
    fill(self)
    # An absent message is edited last, which makes it present.
    if self.overlay == NULL or (<Overlay>self.overlay).parent == NULL:
        overlay = edit(self)
    for i in range(self.table.n_fields):
        field = &self.table.fields[i]
        slot = &source.slots[i]
        if slot.p == NULL:
            continue
        if field.repeated:
            prepare_elements(self, source, field, overlay is None, steps)
        elif field.type == MESSAGE:
            if overlay is None or overlay.slots[i].p == NULL or is_parsed and field.n_peers and has_peer(source, field):
                put_copy(self, field, get_message(source, field), steps)
            else:
                prepare(get_message(self, field), get_message(source, field), is_parsed, depth - 1, steps)
        elif field.size:
            steps.append(new_step(PUT, self, field, presence_mark(), canonical_bits(field, slot.n), None))
        else:
            value_owner = find_value_owner(source, field)
            owner = <object>value_owner if value_owner != NULL else document_of(source)
            steps.append(new_step(PUT, self, field, slot.p, slot.n, owner))
    unknown = unknown_fields(source)
    if unknown:
        steps.append(new_step(ADD_UNKNOWN, self, NULL, NULL, 0, unknown))
    return 0


cdef Step new_step(Action action, View target, const Field* field, const uint8_t* p, uint64_t n, value):
    """Create a step; the arguments are its attributes."""
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
    value_owner = copy_message(source, depth_of(self), &p, &n)
    steps.append(new_step(PUT, self, field, p, n, value_owner))
    return 0


cdef int prepare_elements(View self, View source, Field* field, bint is_absent, list steps) except -1:
    """Add the step that appends the elements of a repeated field; is_absent: whether `self` is an absent message."""
    cdef Repeated target_elements = field_value(self, field)
    cdef Repeated source_elements = field_value(source, field)
    cdef Step step
    cdef uint64_t n
    if field.size or field.type == MESSAGE:
        new_elements = target_elements.convert(source_elements)
    else:
        new_elements = undecoded_elements(source_elements)
    n = (<Numbers>new_elements).n if field.size else (<Elements>new_elements).n
    if n == 0:
        return 0
    if is_absent:
        steps.append(new_step(PUT, self, field, presence_mark(), n, new_elements))
        return 0
    step = new_step(ADD_NUMBERS if field.size else ADD_ELEMENTS, self, field, NULL, n, new_elements)
    if field.size:
        step.destination = (<RepeatedScalar>target_elements).start_edit(<Py_ssize_t>n)
    else:
        step.destination = (<RepeatedSpan>target_elements).start_edit(<Py_ssize_t>n)
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
        return overlay.owners[step.field.slot] == <PyObject*>step.destination and (
            free_at_end(<Elements>step.destination) >= (<Elements>step.value).n
        )
    if step.action == ADD_NUMBERS:
        return overlay.owners[step.field.slot] == <PyObject*>step.destination and (
            (<Numbers>step.destination).allocation.capacity - (<Numbers>step.destination).n >= (<Numbers>step.value).n
        )
    if step.action == PUT and step.field.repeated:
        return overlay.slots[step.field.slot].p == NULL and overlay.owners[step.field.slot] == NULL
    return True


cdef int add_unknown(list steps) except -1:
    """Append the unknown fields; append none if memory runs out."""
    cdef Step step
    cdef Overlay overlay
    cdef Py_ssize_t n_done = 0
    try:
        for step in steps:
            if step.action == ADD_UNKNOWN:
                add_to_unknown(<Overlay>step.target.overlay, step)
            n_done += 1
    except MemoryError:
        for step in steps[:n_done]:
            # A message without unknown fields in its overlay is not changed before `apply`.
            if step.action == ADD_UNKNOWN and step.destination is None:
                overlay = <Overlay>step.target.overlay
                shorten(overlay.unknown, PyBytes_GET_SIZE(<object>overlay.unknown) - <Py_ssize_t>step.n)
        raise
    return 0


cdef int add_to_unknown(Overlay overlay, Step step) except -1:
    """Append the unknown fields of a step to those of an overlay, or prepare `apply` for storing them."""
    cdef PyObject* old_fields = overlay.unknown
    step.n = <uint64_t>PyBytes_GET_SIZE(step.value)
    if old_fields == NULL:
        step.destination = step.value  # `apply` stores it in the overlay
    elif Py_REFCNT(old_fields) == 1:
        # Append in place, so that a loop of merges takes linear time.
        lengthen(&overlay.unknown, step.value)
    else:
        overlay.unknown = owned(<bytes><object>old_fields + <bytes>step.value)
        Py_DECREF(<object>old_fields)
    return 0


cdef int apply(Step step) except -1:
    """Apply a step that is ready."""
    cdef Overlay overlay = <Overlay>step.target.overlay
    cdef Elements elements, new_elements
    cdef Numbers numbers, new_numbers
    if step.action == ADD_UNKNOWN:
        if step.destination is not None:
            overlay.unknown = owned(step.destination)
        overlay.flags |= HAS_UNKNOWN
        (<Document>step.target.document).next_epoch()
        return 0
    if step.action == PUT:
        if step.field.type == MESSAGE:
            (<Document>step.target.document).next_epoch()
        keep_old_value(overlay, step)
        put_value(overlay, step.field, step.p, step.n, NULL if step.value is None else <PyObject*>step.value)
    elif step.action == ADD_ELEMENTS:
        elements = step.destination
        new_elements = step.value
        memcpy(element_at(elements, elements.n), new_elements.items, <size_t>new_elements.n * sizeof(Element))
        elements.n += new_elements.n
        new_elements.n = 0  # the elements were moved
        overlay.slots[step.field.slot].p = presence_mark()
        overlay.slots[step.field.slot].n = <uint64_t>elements.n
    else:
        numbers = step.destination
        new_numbers = step.value
        memcpy(numbers.items + numbers.n * numbers.size, new_numbers.items, <size_t>new_numbers.n * new_numbers.size)
        numbers.n += new_numbers.n
        overlay.slots[step.field.slot].p = presence_mark()
        overlay.slots[step.field.slot].n = <uint64_t>numbers.n
    return 0


cdef void keep_old_value(Overlay overlay, Step step) noexcept:
    """Reference the owner of the value that `put_value` releases: of the field, or of another member of its oneof."""
    cdef PyObject* old = overlay.owners[step.field.slot]
    cdef uint32_t i
    for i in range(step.field.n_peers):
        if overlay.owners[step.field.peers[i]] != NULL:
            old = overlay.owners[step.field.peers[i]]  # at most one member of a oneof has a value
    if old != NULL:
        step.destination = <object>old


cdef bint has_peer(View self, const Field* field):
    """Return whether the bytes of a message have another member of a field's oneof, which clears the old value."""
    cdef Cursor cursor
    cdef Record record
    cdef Field* member
    start_cursor(&cursor, self, NULL)
    while next_record(&cursor, 0, &record) > 0:
        member = find_field(self.table, record.tag >> 3)
        if not is_unknown(member, &record) and is_peer(field, member):
            return True
    return False


cdef Elements undecoded_elements(RepeatedSpan source):
    """Return the elements of a repeated string or bytes field without decoding them: they may be invalid UTF-8."""
    cdef Elements new_elements = Elements.__new__(Elements)
    cdef Elements elements = source.elements()
    cdef Element* element
    cdef Spans index
    cdef Py_ssize_t i
    if elements is None:
        index = source.make_index()
        for i in range(index.n):
            new_elements.add(index.items[i].p, index.items[i].n, source.document)
    else:
        for i in range(elements.n):
            element = element_at(elements, i)
            new_elements.add(
                element.p, element.n, source.document if element.owner == NULL else <object>element.owner
            )
    return new_elements


cdef int discard_unknown(View self, int depth) except -1:
    """Discard the unknown fields of a message and of all nested messages.

    depth: maximum number of levels of messages. If memory runs out, nothing is discarded.
    """
    cdef list edited_views = []
    cdef View view
    cdef Overlay overlay
    find_unknown(self, depth, edited_views)
    for view in edited_views:
        fill(view)
        overlay = <Overlay>view.overlay
        overlay.flags = overlay.flags & ~<uint32_t>HAS_UNKNOWN | DROPS_UNKNOWN
        Py_CLEAR(overlay.unknown)
        (<Document>view.document).next_epoch()
    return 0


cdef int find_unknown(View self, int depth, list edited_views) except -1:
    """Add the messages that have unknown fields to `edited_views`, and make their overlays.

    The message `self` becomes present if it is absent.
    """
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
        edited_views.append(self)
    for i in range(self.table.n_fields):
        field = &self.table.fields[i]
        fill(self)
        if field.type != MESSAGE or self.slots[i].p == NULL:
            continue
        if field.repeated:
            for element in field_value(self, field):
                find_unknown(element, depth - 1, edited_views)
        else:
            find_unknown(get_message(self, field), depth - 1, edited_views)
    return 0
