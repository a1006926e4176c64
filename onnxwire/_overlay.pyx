# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The edits of a message, kept beside the bytes that they replace; copies of them share bytes and values."""
cimport cython
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.mem cimport PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove, memset

from onnxwire._document cimport Spans

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)

cdef extern from "_advise.h" nogil:
    void ow_enlarge(void* p, size_t size)

from onnxwire.errors import FieldValueError


# --- one message

@cython.no_gc
cdef class Overlay:

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.table.n_fields):
            Py_XDECREF(self.held[i])
        Py_XDECREF(self.base)
        Py_XDECREF(self.parts)
        Py_XDECREF(self.unknown)
        Py_XDECREF(self.parent)


cdef Overlay new_overlay(Table* table, uint32_t depth):
    """An overlay of a message that has neither bytes nor values."""
    cdef size_t head = (<size_t>(<PyTypeObject*>Overlay).tp_basicsize + 15) & ~<size_t>15
    cdef size_t size = head + table.n_fields * (sizeof(Slot) + sizeof(PyObject*) + 1)
    cdef PyObject* o
    if depth > DEEPEST:
        raise FieldValueError(f"messages nested more than {DEEPEST:,} deep are not made", "")
    o = <PyObject*>PyObject_Malloc(size)
    if o == NULL:
        raise MemoryError
    memset(o, 0, size)
    PyObject_Init(o, <PyTypeObject*>Overlay)
    (<Overlay>o).table = table
    (<Overlay>o).depth = depth
    (<Overlay>o).slots = <Slot*>(<char*>o + head)
    (<Overlay>o).held = <PyObject**>((<Overlay>o).slots + table.n_fields)
    (<Overlay>o).touched = <uint8_t*>((<Overlay>o).held + table.n_fields)
    overlay = <Overlay>o
    Py_DECREF(overlay)
    return overlay


cdef void drop_value(Overlay self, uint32_t slot) noexcept:
    """Forget the value that was put into a field."""
    cdef PyObject* held = self.held[slot]
    self.slots[slot].p = NULL
    self.slots[slot].n = 0
    self.held[slot] = NULL
    Py_XDECREF(held)


cdef void exchange(Overlay self, Overlay other) noexcept:
    """Exchange what two overlays of one table hold; each stays in its place."""
    cdef Slot slot
    cdef uint32_t i
    for i in range(self.table.n_fields):
        slot = self.slots[i]
        self.slots[i] = other.slots[i]
        other.slots[i] = slot
        self.held[i], other.held[i] = other.held[i], self.held[i]
        self.touched[i], other.touched[i] = other.touched[i], self.touched[i]
    self.base, other.base = other.base, self.base
    self.parts, other.parts = other.parts, self.parts
    self.unknown, other.unknown = other.unknown, self.unknown
    self.start, other.start = other.start, self.start
    self.end, other.end = other.end, self.end
    self.flags, other.flags = other.flags, self.flags


# --- repeated fields

@cython.no_gc
cdef class Elements:

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n):
            Py_XDECREF(self.items[i].held)
        free(self.items)

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Make room for n more."""
        cdef Py_ssize_t capacity = self.n + n
        cdef Element* items
        if capacity > self.capacity:
            capacity = max(capacity, self.capacity + (self.capacity >> 1), 4)
            items = <Element*>realloc(self.items, <size_t>capacity * sizeof(Element))
            if items == NULL:
                raise MemoryError
            self.items = items
            self.capacity = capacity
        return 0

    cdef int insert(self, Py_ssize_t i, const uint8_t* p, uint64_t n, object held) except -1:
        """Put an element at place i; held: its owner, or None for a span of the message's bytes."""
        if self.n == self.capacity:
            self.reserve(1)
        if i < self.n:
            memmove(&self.items[i + 1], &self.items[i], <size_t>(self.n - i) * sizeof(Element))
        self.items[i].p = p
        self.items[i].n = n
        self.items[i].held = NULL if held is None else owned(held)
        self.n += 1
        return 0

    cdef void remove(self, Py_ssize_t start, Py_ssize_t stop) noexcept:
        """Take the elements from start to stop out."""
        cdef Elements gone = Elements.__new__(Elements)
        cdef size_t size = <size_t>(stop - start) * sizeof(Element)
        if stop <= start:
            return
        # The last owner of a value may run other code when it goes: the list is whole again before that.
        gone.items = <Element*>malloc(size)
        if gone.items != NULL:
            memcpy(gone.items, &self.items[start], size)
            gone.n = stop - start
        memmove(&self.items[start], &self.items[stop], <size_t>(self.n - stop) * sizeof(Element))
        self.n -= stop - start


@cython.no_gc
cdef class Numbers:

    @staticmethod
    cdef Numbers allocate(Py_ssize_t n, const Field* field):
        cdef Numbers numbers = Numbers.__new__(Numbers)
        numbers.kind = field.kind
        numbers.size = field.size
        numbers.reserve(n)
        numbers.n = n
        ow_enlarge(numbers.items, <size_t>n * field.size)
        return numbers

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Make room for n more."""
        cdef Py_ssize_t capacity = self.n + n
        cdef uint8_t* items
        if capacity > self.capacity or self.items == NULL:
            capacity = max(capacity, self.capacity + (self.capacity >> 1), 4)
            items = <uint8_t*>realloc(self.items, <size_t>capacity * self.size)
            if items == NULL:
                raise MemoryError
            self.items = items
            self.capacity = capacity
        return 0

    def __dealloc__(self):
        free(self.items)


# --- all overlays of a document

cdef int compare_pairs(const void* a, const void* b) noexcept nogil:
    cdef size_t ours = (<const Pair*>a).address
    cdef size_t theirs = (<const Pair*>b).address
    return (ours > theirs) - (ours < theirs)


@cython.no_gc
cdef class OverlayIndex:

    def __dealloc__(self):
        free(self.pairs)

    cdef Py_ssize_t first(self, const uint8_t* p) noexcept:
        """The place of the first overlay at p or behind it."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.n
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) // 2
            if self.pairs[middle].address < <size_t>p:
                low = middle + 1
            else:
                high = middle
        return low


cdef OverlayIndex index_of(Document document):
    """The document's overlays in order, or None where it has none."""
    cdef OverlayIndex index
    cdef PyObject* address
    cdef PyObject* overlay
    cdef Py_ssize_t place = 0
    cdef Py_ssize_t i = 0
    cdef bint ascending = True
    if document.edited is not None or document.overlays is None:
        return document.edited
    index = OverlayIndex.__new__(OverlayIndex)
    index.pairs = <Pair*>malloc(<size_t>len(document.overlays) * sizeof(Pair))
    if index.pairs == NULL:
        raise MemoryError
    # Nothing is allocated here that could make the garbage collector run other code.
    while PyDict_Next(document.overlays, &place, &address, &overlay):
        index.pairs[i].address = <object>address
        index.pairs[i].overlay = overlay
        ascending = ascending and (i == 0 or index.pairs[i - 1].address < index.pairs[i].address)
        i += 1
    index.n = index.capacity = i
    if not ascending:
        qsort(index.pairs, <size_t>i, sizeof(Pair), compare_pairs)
    document.edited = index
    return index


cdef int index_overlay(Document document, const uint8_t* start, PyObject* overlay) except -1:
    """Keep the index, where there is one, in step with an overlay, or None, that the document got."""
    cdef OverlayIndex index = document.edited
    cdef Py_ssize_t i
    cdef Pair* pairs
    if index is None:
        return 0
    i = index.first(start)
    if i == index.n or index.pairs[i].address != <size_t>start:
        if index.n == index.capacity:
            pairs = <Pair*>realloc(index.pairs, 2 * <size_t>index.n * sizeof(Pair))
            if pairs == NULL:
                raise MemoryError
            index.pairs = pairs
            index.capacity = 2 * index.n
        memmove(&index.pairs[i + 1], &index.pairs[i], <size_t>(index.n - i) * sizeof(Pair))
        index.n += 1
    index.pairs[i].address = <size_t>start
    index.pairs[i].overlay = overlay
    return 0


cdef bint has_edits(Document document, const uint8_t* start, const uint8_t* end) except -1:
    """Whether a message that starts from `start` to `end`, both included, was edited."""
    cdef OverlayIndex index
    cdef Py_ssize_t i
    if document.overlays is None:
        return False
    index = index_of(document)
    i = index.first(start)
    return i < index.n and index.pairs[i].address <= <size_t>end


cdef Overlay overlay_at(Document document, const uint8_t* start):
    """The overlay of the message whose first byte is at `start`, or None."""
    cdef PyObject* overlay
    if document.overlays is None:
        return None
    overlay = PyDict_GetItemWithError(document.overlays, <size_t>start)
    return None if overlay == NULL else <object>overlay


# --- copies

cdef int copy_edits(Document document, const uint8_t* start, const uint8_t* end, Document excerpt) except -1:
    """Copy into an excerpt the overlays of messages that start from `start` to `end`, both included."""
    cdef OverlayIndex index = index_of(document)
    cdef Py_ssize_t i
    if index is None:
        return 0
    i = index.first(start)
    while i < index.n and index.pairs[i].address <= <size_t>end:
        if excerpt.overlays is None:
            excerpt.overlays = {}
        overlay = <object>index.pairs[i].overlay
        if overlay is not None:
            overlay = copy_overlay(<Overlay>overlay, document, excerpt.depth + 1)
        excerpt.overlays[index.pairs[i].address] = overlay
        excerpt.edited = None
        i += 1
    return 0


cdef Document copy_span(Document document, const uint8_t* start, const uint8_t* end, uint32_t depth):
    """An excerpt in which the message of that span reads as it does in the document."""
    cdef Document excerpt
    if depth > DEEPEST:
        raise FieldValueError(f"messages nested more than {DEEPEST:,} deep are not made", "")
    excerpt = document.excerpt(depth)
    copy_edits(document, start, end, excerpt)
    return excerpt


cdef Overlay copy_overlay(Overlay self, Document document, uint32_t depth):
    """A copy that shares bytes and values; document: the one that the overlay's views are of."""
    cdef Overlay copy = new_overlay(self.table, depth)
    cdef Document base = <Document>self.base if self.base != NULL else document
    cdef Document excerpt
    cdef Spans parts
    cdef Py_ssize_t k
    cdef uint32_t i
    if self.start != NULL:
        if depth >= DEEPEST:
            raise FieldValueError(f"messages nested more than {DEEPEST:,} deep are not made", "")
        excerpt = base.excerpt(depth + 1)
        # Its own first byte, where it is registered, is its own place.
        copy_edits(base, self.start + 1, self.end, excerpt)
        if self.parts != NULL:
            parts = <Spans>self.parts
            copy.parts = owned(parts)
            for k in range(1, parts.n):
                copy_edits(base, parts.items[k].p + 1, parts.items[k].p + parts.items[k].n, excerpt)
        copy.base = owned(excerpt)
        copy.start = self.start
        copy.end = self.end
    copy.flags = self.flags
    if self.unknown != NULL:
        copy.unknown = owned(<object>self.unknown)
    memcpy(copy.slots, self.slots, self.table.n_fields * sizeof(Slot))
    memcpy(copy.touched, self.touched, self.table.n_fields)
    for i in range(self.table.n_fields):
        if self.held[i] != NULL:
            held = copy_held(&self.table.fields[i], <object>self.held[i], &self.slots[i], document, depth)
            copy.held[i] = owned(held)
    return copy


cdef object copy_held(const Field* field, object held, const Slot* slot, Document document, uint32_t depth):
    """A copy of the value of a field."""
    cdef Numbers numbers
    if field.repeated:
        if field.size == 0:
            return copy_elements(<Elements>held, document, depth)
        numbers = Numbers.allocate((<Numbers>held).n, field)
        memcpy(numbers.items, (<Numbers>held).items, <size_t>numbers.n * numbers.size)
        return numbers
    return copy_value(held, slot.p, slot.n, document, depth)


cdef object copy_value(object held, const uint8_t* p, uint64_t n, Document document, uint32_t depth):
    """A copy of one string, bytes or message."""
    if isinstance(held, Overlay):
        return copy_overlay(<Overlay>held, document, depth + 1)
    if isinstance(held, Document):
        return copy_span(<Document>held, p, p + n, depth + 1)
    return held


cdef Elements copy_elements(Elements self, Document document, uint32_t depth):
    cdef Elements copy = Elements.__new__(Elements)
    cdef Element* element
    cdef Py_ssize_t i
    # One excerpt serves all elements that follow one another in one document.
    cdef PyObject* source = NULL
    cdef const uint8_t* last = NULL
    cdef Document excerpt = None
    copy.reserve(self.n)
    for i in range(self.n):
        element = &self.items[i]
        if element.held == NULL:
            copy.insert(i, element.p, element.n, None)
        elif not isinstance(<object>element.held, Document):
            held = copy_value(<object>element.held, element.p, element.n, document, depth)
            copy.insert(i, element.p, element.n, held)
        else:
            if element.held != source or element.p <= last:
                excerpt = (<Document>element.held).excerpt(depth + 1)
                source = element.held
            copy_edits(<Document>element.held, element.p, element.p + element.n, excerpt)
            copy.insert(i, element.p, element.n, excerpt)
            last = element.p + element.n
    return copy
