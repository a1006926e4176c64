# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The common base of the sequences over repeated fields: indices, slices, and the methods of lists.

A sequence refers to its message and reads its elements there. `repeated_span.pyx` has the sequences of strings, bytes
and messages, `numbers.pyx` those of numbers.
"""
cimport cython
from cython cimport critical_section

from onnxwire.engine.edit cimport field_error
from onnxwire.engine.instances cimport forbid_subclasses
from onnxwire.engine.overlay cimport Elements, Numbers, Overlay, presence_mark
from onnxwire.engine.table cimport MESSAGE, Slot
from onnxwire.engine.view cimport document_of, fill, find_value_owner, start_records, state_of, use_copies

from sys import maxsize
from types import GenericAlias

from onnxwire.errors import ChangedError, FieldIndexError, FieldOverflowError, FieldTypeError, FieldValueError

cdef extern from "Python.h":
    Py_ssize_t PyNumber_AsSsize_t(object index, PyObject* overflow) except? -1
    int PySlice_Unpack(object key, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t* step) except -1
    Py_ssize_t PySlice_AdjustIndices(Py_ssize_t n, Py_ssize_t* start, Py_ssize_t* stop, Py_ssize_t step)

cdef enum:
    MAX_REPR_ELEMENTS = 1000
    MAX_REPR_CHARS = 10_000


cdef Py_ssize_t index_in(const Field* field, index, uint64_t n) except -1:
    """Convert a Python index of a sequence of n elements to an index from the start.

    Raises IndexError if there is no such element, and TypeError for an object that is not an index. This calls the
    index's `__index__`, which may run any code, even close the document.
    """
    cdef Py_ssize_t i
    try:
        i = PyNumber_AsSsize_t(index, NULL)  # clips an int that is out of range
    except TypeError:
        raise field_error(field, FieldTypeError, f"list indices must be integers, not {type(index).__name__}") from None
    if i < 0:
        i += n
    if i < 0 or <uint64_t>i >= n:
        raise field_error(field, FieldIndexError, f"list index out of range: index {index}, length {n:,}")
    return i


cdef int unpack_slice(Slice* indices, key) except -1:
    """Convert the members of a slice to C integers; their `__index__` may run any code."""
    return PySlice_Unpack(key, &indices.start, &indices.stop, &indices.step)


cdef void adjust_slice(Slice* indices, Py_ssize_t n) noexcept:
    """Clip a slice to a sequence of n elements, as slice.indices does, and set the number of its elements."""
    indices.n = PySlice_AdjustIndices(n, &indices.start, &indices.stop, indices.step)


cdef object changed_error(const Field* field):
    return field_error(
        field, ChangedError,
        "the number of elements changed while the field was read or changed, in a callback or in another thread"
    )


# --- the elements of a sequence

cdef void point_at(Repeated self, View message, Field* field):
    """Make a sequence refer to the current elements of a field. The caller has filled the slots of the message."""
    cdef Slot* slot = &message.slots[field.slot]
    cdef PyObject* owner = find_value_owner(message, field)
    self.message = message
    self.field = field
    self.index_or_numbers = None
    self.state = state_of(message, field)
    if owner != NULL:
        self.edited_elements = <object>owner
        self.document = document_of(message)
        return
    self.first = slot.p
    self.n_records = 0
    if slot.p != NULL:
        self.document = document_of(message)
        self.n_records = slot.n
        self.end = message.end
        self.parts = None if message.parts == NULL else <object>message.parts


cdef bint refresh(Repeated self) except -1:
    """Update a sequence after changes of its message; return whether its elements are records, not `edited_elements`.

    If the field was cleared or the message was replaced, the sequence becomes detached and keeps its elements,
    like protobuf's sequences.
    """
    cdef PyObject* owner
    fill(self.message)
    if self.is_detached:
        return False
    owner = find_value_owner(self.message, self.field)
    if self.edited_elements is not None:
        self.is_detached = owner != <PyObject*>self.edited_elements
        return False
    # The state changes when the message is replaced or the field is cleared, the document when the bytes are replaced.
    if self.state == state_of(self.message, self.field) and (
        self.first == NULL or self.document is document_of(self.message)
    ):
        if owner == NULL and self.message.slots[self.field.slot].p == self.first:
            return True
        if self.first == NULL or owner != NULL and origin_of(self.field, owner) == self.first:
            point_at(self, self.message, self.field)
            return self.edited_elements is None
    self._detach()
    self.is_detached = True
    return False


cdef const uint8_t* origin_of(const Field* field, PyObject* owner) noexcept:
    """Return the `origin` of the Elements or Numbers of a field."""
    return (<Numbers>owner).origin if field.size else (<Elements>owner).origin


@cython.no_gc
@cython.freelist(32)
cdef class Repeated:
    """The common base of both types of sequences."""

    def __cinit__(self):
        if type(self) is Repeated:
            raise TypeError("sequences are made by reading a repeated field of a message")

    __class_getitem__ = classmethod(GenericAlias)

    @critical_section
    def __contains__(self, value):
        return self.find(value) >= 0

    @critical_section
    def __eq__(self, other):
        if not isinstance(other, (Repeated, list)):
            return NotImplemented
        if len(self) != len(other):
            return False
        for ours, theirs in zip(self, other):
            if ours != theirs:
                return False
        return True

    @critical_section
    def __hash__(self):
        raise TypeError(f"unhashable type: '{type(self).__name__}'")

    @critical_section
    def __repr__(self):
        """Return the repr of a list; of many or long elements, only the first ones and the number of the others.

        A str or bytes of more than MAX_REPR_CHARS is truncated.
        """
        cdef Py_ssize_t n_chars = 0
        parts = []
        for element in self:
            if len(parts) == MAX_REPR_ELEMENTS or n_chars > MAX_REPR_CHARS:
                parts.append(f"... {len(self) - len(parts):,} more")
                break
            if isinstance(element, (str, bytes)) and len(element) > MAX_REPR_CHARS:
                part = f"{element[:MAX_REPR_CHARS]!r}..."
            else:
                part = repr(element)
            n_chars += len(part)
            parts.append(part)
        return f"[{', '.join(parts)}]"

    @critical_section
    def __deepcopy__(self, memo):
        from copy import deepcopy
        return deepcopy(list(self), memo)

    @critical_section
    def __reduce__(self):
        return list, (list(self),)

    @critical_section
    def index(self, value, start=0, stop=maxsize):
        """Return the first index of a value; raises ValueError if there is none."""
        return list(self).index(value, start, stop)

    @critical_section
    def count(self, value):
        """Return the number of elements equal to a value."""
        return list(self).count(value)

    @critical_section
    def MergeFrom(self, other):
        """Add all elements of another sequence."""
        self.extend(other)

    @critical_section
    def clear(self):
        """Remove all elements."""
        if len(self):
            del self[:]

    @critical_section
    def remove(self, value):
        """Remove the first element equal to a value; raises ValueError if there is none."""
        cdef Py_ssize_t i = self.find(value)
        if i < 0:
            raise field_error(self.field, FieldValueError, "the value to remove is not in the field")
        self.splice(i, i + 1, None)

    @critical_section
    def pop(self, index=-1):
        """Remove and return the element at an index, by default the last; raises IndexError if there is none."""
        cdef Py_ssize_t i
        i = index_in(self.field, index, len(self))
        element = self[i]
        self.splice(i, i + 1, None)
        return element

    @critical_section
    def sort(self, *, key=None, reverse=False):
        """Sort in place, stably; key: a function of an element, required for messages, which have no order."""
        elements = list(self)
        if not elements:
            return
        if key is not None:
            keys = [key(element) for element in elements]
        else:
            keys = elements
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
        self._arrange(order, len(order))

    @critical_section
    def insert(self, index, value):
        """Insert a value before the element at an index, as list.insert does."""
        cdef Py_ssize_t i
        try:
            i = index
        except TypeError:
            raise field_error(self.field, FieldTypeError, f"an index is an int, not {type(index).__name__}") from None
        except OverflowError as error:
            raise field_error(self.field, FieldOverflowError, str(error)) from None
        incoming = self.convert((value,))
        n = len(self)
        i = max(i + n, 0) if i < 0 else min(i, n)
        self.splice(i, i, incoming)

    @critical_section
    def __setitem__(self, key, value):
        cdef Py_ssize_t i
        cdef Py_ssize_t n
        cdef Slice indices
        if self.field.type == MESSAGE:
            raise field_error(
                self.field, FieldTypeError, "messages can't be assigned; use CopyFrom of the element"
            )
        if not isinstance(key, slice):
            incoming = self.convert((value,))
            i = index_in(self.field, key, len(self))
            self.replace(i, 1, 1, incoming)
            return
        incoming = self.convert(value)
        unpack_slice(&indices, key)
        adjust_slice(&indices, len(self))
        if indices.step == 1:
            self.splice(indices.start, max(indices.start, indices.stop), incoming)
            return
        n = (<Numbers>incoming).n if self.field.size else (<Elements>incoming).n
        if indices.n != n:
            raise field_error(
                self.field, FieldValueError,
                f"a sequence of size {n} can't be assigned to an extended slice of size {indices.n}",
            )
        self.replace(indices.start, indices.step, n, incoming)

    @critical_section
    def __delitem__(self, key):
        cdef Py_ssize_t n
        cdef Py_ssize_t i
        cdef Slice indices
        if not isinstance(key, slice):
            i = index_in(self.field, key, len(self))
            self.splice(i, i + 1, None)
            return
        unpack_slice(&indices, key)
        n = len(self)
        adjust_slice(&indices, n)
        if indices.n == 0:
            self.splice(0, 0, None)
        elif indices.step == 1 or indices.step == -1:
            i = min(indices.start, indices.start + (indices.n - 1) * indices.step)
            self.splice(i, i + indices.n, None)
        else:
            removed = range(indices.start, indices.start + indices.n * indices.step, indices.step)
            self._arrange([i for i in range(n) if i not in removed], n)

    cdef void start(self, Cursor* cursor) noexcept:
        """Set a cursor to the first record of the sequence, which may be detached from the message."""
        if self.parts is None:
            start_records(cursor, self.first, self.end, NULL, NULL)
        else:
            start_records(cursor, NULL, NULL, <PyObject*>self.parts, self.first)
        if self.document is not None:
            use_copies(cursor, self.document)

    cdef Py_ssize_t find(self, value) except -2:
        """Return the index of the first element equal to a value, or -1."""
        cdef Py_ssize_t i = 0
        for element in self:
            if element == value:
                return i
            i += 1
        return -1

    # --- implemented by each type; `incoming`: the result of `convert`, Elements or Numbers

    cdef object convert(self, values):
        """Convert the values of an iterable to Elements or Numbers, with checks."""
        raise NotImplementedError

    cdef int splice(self, Py_ssize_t start, Py_ssize_t stop, incoming) except -1:
        """Replace the elements from start to stop by those of `incoming`; None removes them."""
        raise NotImplementedError

    cdef int replace(self, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n, incoming) except -1:
        """Replace n elements, from `start` in steps of `step`, by the n elements of `incoming`."""
        raise NotImplementedError


cdef int update_count(Repeated self, Py_ssize_t n) except -1:
    """Set the number of elements in the message's slot. No-op for a detached sequence."""
    cdef Slot* slot
    if not self.is_detached:
        slot = &(<Overlay>self.message.overlay).slots[self.field.slot]
        slot.p = presence_mark() if n else NULL
        slot.n = n
    return 0


forbid_subclasses(Repeated)
