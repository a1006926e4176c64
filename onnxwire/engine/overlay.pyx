# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The edits of a message, kept beside the bytes that they replace; copies of them share bytes and values."""
cimport cython
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.mem cimport PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcpy, memmove, memset

from onnxwire.engine.document cimport Spans

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)

cdef extern from "advise.h" nogil:
    void ow_enlarge(void* p, size_t size)

cdef extern from "thresholds.h":
    enum:
        LATE "OW_LATE"

from onnxwire.errors import FieldValueError


# --- one message

@cython.no_gc
cdef class Overlay:

    def __dealloc__(self):
        cdef uint32_t i
        unlist_absent(self)
        free(self.clears)
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


cdef void put_value(Overlay self, const Field* field, const uint8_t* p, uint64_t n, PyObject* held) noexcept:
    """Give a field a value, with the object that owns it or NULL; p is NULL for none. No other of its oneof has one.

    What goes is let go of at the end, because that can run other code.
    """
    cdef PyObject* old = self.held[field.slot]
    cdef PyObject* peer = NULL
    cdef uint32_t slot
    cdef uint32_t i
    for i in range(field.n_peers):
        slot = field.peers[i]
        if self.held[slot] != NULL:
            Py_XDECREF(peer)  # never there: one of a oneof at most has a value
            peer = self.held[slot]
        self.held[slot] = NULL
        self.slots[slot].p = NULL
        self.slots[slot].n = 0
        # Also of a member that is not there: its records would come after the new value's.
        self.touched[slot] = True
    Py_XINCREF(held)
    self.held[field.slot] = held
    self.slots[field.slot].p = p
    self.slots[field.slot].n = n
    self.touched[field.slot] = True
    Py_XDECREF(peer)
    Py_XDECREF(old)


cdef int count_clear(Overlay self, uint32_t slot) except -1:
    """Remember that a field was cleared, so that what was taken from it before is no longer the message's."""
    if self.clears == NULL:
        self.clears = <uint32_t*>calloc(self.table.n_fields, sizeof(uint32_t))
        if self.clears == NULL:
            raise MemoryError
    self.clears[slot] += 1
    return 0


cdef void exchange(Overlay self, Overlay other) noexcept:
    """Exchange what two overlays of one table hold; each stays registered where it is."""
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


# --- messages that are not there

# By their keys, so that all views of one of them are of one Overlay: chains of the overlays themselves.
cdef PyObject** ABSENT = NULL
cdef size_t N_BUCKETS = 0        # a power of two
cdef size_t N_ABSENT = 0


cdef inline PyObject** bucket_of(const AbsentKey* key) noexcept:
    cdef uint64_t mixed = <uint64_t><size_t>key.owner * <uint64_t>0x9E3779B97F4A7C15
    mixed = (mixed ^ <uint64_t><size_t>key.address) * <uint64_t>0xC2B2AE3D27D4EB4F
    mixed = (mixed ^ <uint64_t><size_t>key.field) * <uint64_t>0x9E3779B97F4A7C15
    return &ABSENT[(mixed >> 32) & (N_BUCKETS - 1)]


cdef Overlay find_absent(const AbsentKey* key):
    """The overlay that is listed by a key, or None."""
    cdef PyObject* overlay = bucket_of(key)[0] if N_BUCKETS else NULL
    cdef AbsentKey* theirs
    while overlay != NULL:
        theirs = &(<Overlay>overlay).key
        if theirs.owner == key.owner and theirs.address == key.address and theirs.field == key.field:
            return <Overlay>overlay
        overlay = (<Overlay>overlay).next
    return None


cdef void list_absent(Overlay self, const AbsentKey* key):
    """List an overlay; without memory for the list it is not found, which is no more than a lack of comfort."""
    global N_ABSENT
    cdef PyObject** bucket
    if N_ABSENT >= N_BUCKETS and not widen_absent():
        return
    self.key = key[0]
    bucket = bucket_of(key)
    self.next = bucket[0]
    bucket[0] = <PyObject*>self
    N_ABSENT += 1


cdef bint widen_absent() noexcept:
    global ABSENT, N_BUCKETS
    cdef PyObject** old = ABSENT
    cdef size_t n = N_BUCKETS
    cdef size_t i
    cdef PyObject* overlay
    cdef PyObject* following
    cdef PyObject** bucket
    cdef PyObject** wider = <PyObject**>calloc(2 * n or 64, sizeof(PyObject*))
    if wider == NULL:
        return False
    ABSENT = wider
    N_BUCKETS = 2 * n or 64
    for i in range(n):
        overlay = old[i]
        while overlay != NULL:
            following = (<Overlay>overlay).next
            bucket = bucket_of(&(<Overlay>overlay).key)
            (<Overlay>overlay).next = bucket[0]
            bucket[0] = overlay
            overlay = following
    free(old)
    return True


cdef void unlist_absent(Overlay self) noexcept:
    """Take an overlay off the list, where it is on it."""
    global N_ABSENT
    cdef PyObject** link
    if self.key.owner == NULL:
        return
    link = bucket_of(&self.key)
    while link[0] != <PyObject*>self:
        link = &(<Overlay>link[0]).next
    link[0] = self.next
    self.key.owner = NULL
    N_ABSENT -= 1


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
        """Put an element at index i; held: its owner, or None for a span of the message's bytes."""
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
        numbers.field_type = field.type
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
        free(self.late)

    cdef bint find(self, const uint8_t* p, Pair* found) noexcept:
        """Find the first overlay, or further piece, at p or after it; tells whether there is one."""
        cdef Py_ssize_t i = first_at(self.pairs, self.n, p)
        cdef Py_ssize_t k = first_at(self.late, self.n_late, p)
        if k < self.n_late and (i == self.n or self.late[k].address < self.pairs[i].address):
            found[0] = self.late[k]
        elif i < self.n:
            found[0] = self.pairs[i]
        else:
            return False
        return True

    cdef int put(self, const Pair* pair) except -1:
        """Take in what was registered; what is at its address goes."""
        cdef const uint8_t* p = <const uint8_t*>pair.address
        cdef Py_ssize_t i = first_at(self.pairs, self.n, p)
        if i < self.n and self.pairs[i].address == pair.address:
            self.pairs[i] = pair[0]
            return 0
        i = first_at(self.late, self.n_late, p)
        if i < self.n_late and self.late[i].address == pair.address:
            self.late[i] = pair[0]
            return 0
        if self.n_late == LATE:
            self.settle()
            i = 0
        if self.late == NULL:
            self.late = <Pair*>malloc(LATE * sizeof(Pair))
            if self.late == NULL:
                raise MemoryError
        memmove(&self.late[i + 1], &self.late[i], <size_t>(self.n_late - i) * sizeof(Pair))
        self.late[i] = pair[0]
        self.n_late += 1
        return 0

    cdef int settle(self) except -1:
        """Put those that came late among the others, from the back."""
        cdef Py_ssize_t i = self.n - 1
        cdef Py_ssize_t k = self.n_late - 1
        cdef Py_ssize_t to = self.n + self.n_late - 1
        cdef Pair* pairs
        if self.n + self.n_late > self.capacity:
            pairs = <Pair*>realloc(self.pairs, 2 * <size_t>(self.n + self.n_late) * sizeof(Pair))
            if pairs == NULL:
                raise MemoryError
            self.pairs = pairs
            self.capacity = 2 * (self.n + self.n_late)
        self.n += self.n_late
        self.n_late = 0
        while k >= 0:
            if i >= 0 and self.pairs[i].address > self.late[k].address:
                self.pairs[to] = self.pairs[i]
                i -= 1
            else:
                self.pairs[to] = self.late[k]
                k -= 1
            to -= 1
        return 0


cdef Py_ssize_t first_at(const Pair* pairs, Py_ssize_t n, const uint8_t* p) noexcept:
    """The index of the first of n sorted pairs at p or after it."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = n
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) // 2
        if pairs[middle].address < <size_t>p:
            low = middle + 1
        else:
            high = middle
    return low


cdef OverlayIndex index_of(Document document):
    """The document's overlays in order, or None where it has none."""
    cdef OverlayIndex index
    cdef PyObject* address
    cdef PyObject* overlay
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t i = 0
    cdef bint ascending = True
    if document.overlay_index is not None or document.overlays is None:
        return document.overlay_index
    index = OverlayIndex.__new__(OverlayIndex)
    index.pairs = <Pair*>malloc(<size_t>len(document.overlays) * sizeof(Pair))
    if index.pairs == NULL:
        raise MemoryError
    # Nothing is allocated here that could make the garbage collector run other code.
    while PyDict_Next(document.overlays, &position, &address, &overlay):
        index.pairs[i] = pair_of(<object>address, <object>overlay)
        ascending = ascending and (i == 0 or index.pairs[i - 1].address < index.pairs[i].address)
        i += 1
    index.n = index.capacity = i
    if not ascending:
        qsort(index.pairs, <size_t>i, sizeof(Pair), compare_pairs)
    document.overlay_index = index
    return index


cdef Pair pair_of(size_t address, object registered):
    cdef Pair pair
    pair.address = address
    if isinstance(registered, Overlay):
        pair.overlay = <PyObject*>registered
        pair.end = <size_t>(<Overlay>registered).address_end
    else:
        pair.overlay = NULL
        pair.end = registered
    return pair


cdef int register_overlay(Document document, Overlay overlay) except -1:
    """Have a document, which has its dict of overlays, know the overlay of a message of its bytes."""
    cdef OverlayIndex index = document.overlay_index
    cdef Spans parts
    cdef Pair pair
    cdef Py_ssize_t i
    overlay.address = overlay.start
    overlay.address_end = overlay.end
    if overlay.parts != NULL:
        # So many may come that it is best made anew.
        document.overlay_index = None
        parts = <Spans>overlay.parts
        for i in range(1, parts.n):
            document.overlays[<size_t>parts.items[i].p] = <size_t>(parts.items[i].p + parts.items[i].n)
    elif index is not None:
        pair = pair_of(<size_t>overlay.start, overlay)
        index.put(&pair)
    # At last, because an overlay that goes can run other code.
    document.overlays[<size_t>overlay.start] = overlay
    return 0


cdef bint has_edits(Document document, const uint8_t* start, const uint8_t* end) except -1:
    """Whether a message that starts from `start` to `end`, both included, was edited."""
    cdef Pair pair
    return document.overlays is not None and index_of(document).find(start, &pair) and pair.address <= <size_t>end


cdef Overlay overlay_at(Document document, const uint8_t* start):
    """The overlay of the message whose first byte is at `start`, or None."""
    cdef PyObject* overlay
    if document.overlays is None:
        return None
    overlay = PyDict_GetItemWithError(document.overlays, <size_t>start)
    return <Overlay>overlay if overlay != NULL and isinstance(<object>overlay, Overlay) else None


# --- copies

cdef int copy_edits(Document document, const uint8_t* start, const uint8_t* end, Document fork) except -1:
    """Copy into a fork the overlays of messages that start from `start` to `end`, both included.

    Those inside the bytes of another are that one's business: it copies them, or has other bytes by now.
    """
    cdef OverlayIndex index = index_of(document)
    cdef Overlay copy
    cdef Pair pair
    while index is not None and index.find(start, &pair) and pair.address <= <size_t>end:
        if fork.overlays is None:
            fork.overlays = {}
        if pair.overlay == NULL:
            fork.overlays[pair.address] = pair.end
        else:
            copy = copy_overlay(<Overlay>pair.overlay, document, fork.depth + 1)
            copy.address = <const uint8_t*>pair.address
            copy.address_end = <const uint8_t*>pair.end
            fork.overlays[pair.address] = copy
        fork.overlay_index = None
        start = <const uint8_t*>pair.end + 1
    return 0


cdef Document copy_span(Document document, const uint8_t* start, const uint8_t* end, uint32_t depth):
    """A fork in which the message of that span reads as it does in the document."""
    cdef Document fork
    if depth > DEEPEST:
        raise FieldValueError(f"messages nested more than {DEEPEST:,} deep are not made", "")
    fork = document.fork(depth)
    copy_edits(document, start, end, fork)
    return fork


cdef Overlay copy_overlay(Overlay self, Document document, uint32_t depth):
    """A copy that shares bytes and values; document: the one that the overlay's views are of."""
    cdef Overlay copy = new_overlay(self.table, depth)
    cdef Document base = <Document>self.base if self.base != NULL else document
    cdef Document fork
    cdef Spans parts
    cdef Py_ssize_t k
    cdef uint32_t i
    if self.start != NULL:
        if depth >= DEEPEST:
            raise FieldValueError(f"messages nested more than {DEEPEST:,} deep are not made", "")
        fork = base.fork(depth + 1)
        # Its own first byte, where it is registered, is copied with it.
        copy_edits(base, self.start + 1, self.end, fork)
        if self.parts != NULL:
            parts = <Spans>self.parts
            copy.parts = owned(parts)
            for k in range(1, parts.n):
                copy_edits(base, parts.items[k].p + 1, parts.items[k].p + parts.items[k].n, fork)
        copy.base = owned(fork)
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
    # One fork serves all elements that follow one another in one document.
    cdef PyObject* source = NULL
    cdef const uint8_t* last = NULL
    cdef Document fork = None
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
                fork = (<Document>element.held).fork(depth + 1)
                source = element.held
            copy_edits(<Document>element.held, element.p, element.p + element.n, fork)
            copy.insert(i, element.p, element.n, fork)
            last = element.p + element.n
    return copy
