# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Overlays: the edits of a message, stored beside its bytes, which never change."""
cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc, PyObject_Free, PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF
from cython cimport critical_section, final
from libc.string cimport memcpy, memmove, memset

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)

from onnxwire.engine.advise cimport ow_request_huge_pages
from onnxwire.engine.document cimport EMPTY
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport calloc, free
from onnxwire.engine.section cimport enable_try_incref, try_incref

from onnxwire.errors import FieldValueError


cdef extern from "thresholds.h":
    enum:
        MAX_MOVED_ELEMENTS "OW_MAX_MOVED_ELEMENTS"


# --- one message

@final
@cython.no_gc
cdef class Overlay:
    pass


cdef void dealloc_overlay(PyObject* o) noexcept:
    """Implement tp_dealloc.

    Cython's implementation temporarily resurrects the object, so that another thread could find it in the hash
    table of absent messages.
    """
    cdef uint32_t i
    with critical_section(EMPTY):  # there is one section; the argument is ignored
        unlist_absent(<Overlay>o)
        free((<Overlay>o).clears)
        for i in range((<Overlay>o).table.n_fields):
            Py_XDECREF((<Overlay>o).owners[i])
        Py_XDECREF((<Overlay>o).base)
        Py_XDECREF((<Overlay>o).parts)
        Py_XDECREF((<Overlay>o).unknown)
        Py_XDECREF((<Overlay>o).parent)
    PyObject_Free(o)


(<PyTypeObject*>Overlay).tp_dealloc = dealloc_overlay


cdef Overlay new_overlay(Table* table, uint32_t depth):
    """Make an overlay of a message without bytes and values; raises FieldValueError if it is nested too deep."""
    cdef size_t head = (<size_t>(<PyTypeObject*>Overlay).tp_basicsize + 15) & ~<size_t>15
    cdef size_t size = head + fields_size(table)
    cdef PyObject* o
    if depth > MAX_OVERLAY_DEPTH:
        raise FieldValueError(f"messages nested more than {MAX_OVERLAY_DEPTH:,} deep are not made", "")
    o = <PyObject*>PyObject_Malloc(size)
    if o == NULL:
        raise MemoryError
    memset(o, 0, size)
    PyObject_Init(o, <PyTypeObject*>Overlay)
    (<Overlay>o).table = table
    (<Overlay>o).depth = depth
    (<Overlay>o).slots = <Slot*>(<char*>o + head)
    (<Overlay>o).owners = <PyObject**>((<Overlay>o).slots + table.n_fields)
    (<Overlay>o).touched = <uint8_t*>((<Overlay>o).owners + table.n_fields)
    overlay = <Overlay>o
    Py_DECREF(overlay)
    return overlay


cdef void put_value(Overlay self, const Field* field, const uint8_t* p, uint64_t n, PyObject* owner) noexcept:
    """Set a field's slot and the object that owns the value, or NULL; p NULL makes the field absent.

    The other members of its oneof become absent. Old values are released last: their destructors may run arbitrary
    Python code.
    """
    cdef PyObject* old = self.owners[field.slot]
    cdef PyObject* peer = NULL
    cdef uint32_t slot
    cdef uint32_t i
    for i in range(field.n_peers):
        slot = field.peers[i]
        if self.owners[slot] != NULL:
            peer = self.owners[slot]  # the only one: at most one member of a oneof has a value
        self.owners[slot] = NULL
        self.slots[slot].p = NULL
        self.slots[slot].n = 0
        # Absent members are marked, too: the bytes may contain records of them before those of the present member.
        # These would be written after the new value, and replace it.
        self.touched[slot] = True
    Py_XINCREF(owner)
    self.owners[field.slot] = owner
    self.slots[field.slot].p = p
    self.slots[field.slot].n = n
    self.touched[field.slot] = True
    Py_XDECREF(peer)
    Py_XDECREF(old)


cdef int count_clear(Overlay self, uint32_t slot) except -1:
    """Count that a field was cleared, which detaches sequences and messages that were read from it before."""
    if self.clears == NULL:
        self.clears = <uint32_t*>calloc(self.table.n_fields, sizeof(uint32_t))
        if self.clears == NULL:
            raise MemoryError
    self.clears[slot] += 1
    return 0


cdef void exchange(Overlay self, Overlay other) noexcept:
    """Exchange the fields, unknown fields, bytes and flags of two overlays of one table; the other members stay."""
    cdef uint8_t[256] chunk
    cdef size_t n_left = fields_size(self.table)
    cdef uint8_t* ours = <uint8_t*>self.slots
    cdef uint8_t* theirs = <uint8_t*>other.slots
    cdef size_t n
    while n_left:
        n = min(n_left, sizeof(chunk))
        memcpy(chunk, ours, n)
        memcpy(ours, theirs, n)
        memcpy(theirs, chunk, n)
        ours += n
        theirs += n
        n_left -= n
    self.base, other.base = other.base, self.base
    self.parts, other.parts = other.parts, self.parts
    self.unknown, other.unknown = other.unknown, self.unknown
    self.start, other.start = other.start, self.start
    self.end, other.end = other.end, self.end
    self.flags, other.flags = other.flags, self.flags


# --- absent messages

# A hash table by AbsentKey, chained through the overlays, so that all views of one absent message share one Overlay.
cdef PyObject** ABSENT = NULL
cdef size_t N_BUCKETS = 0        # a power of two
cdef size_t N_ABSENT = 0


cdef inline PyObject** bucket_of(const AbsentKey* key) noexcept:
    """Return the bucket of a key, the first link of its chain, by a multiplicative hash."""
    cdef uint64_t mixed = <uint64_t><size_t>key.owner * <uint64_t>0x9E3779B97F4A7C15
    mixed = (mixed ^ <uint64_t><size_t>key.address) * <uint64_t>0xC2B2AE3D27D4EB4F
    mixed = (mixed ^ <uint64_t><size_t>key.field) * <uint64_t>0x9E3779B97F4A7C15
    return &ABSENT[(mixed >> 32) & (N_BUCKETS - 1)]


cdef Overlay find_absent(const AbsentKey* key):
    """Return the overlay of an absent message, or None."""
    cdef PyObject* overlay = bucket_of(key)[0] if N_BUCKETS else NULL
    cdef Overlay existing
    cdef AbsentKey* listed_key
    while overlay != NULL:
        listed_key = &(<Overlay>overlay).key
        if listed_key.owner == key.owner and listed_key.address == key.address and listed_key.field == key.field:
            existing = try_incref(overlay)
            if existing is not None:
                return existing
        overlay = (<Overlay>overlay).next
    return None


cdef void list_absent(Overlay self, const AbsentKey* key):
    """Add the overlay of an absent message. If memory is exhausted, it is not listed, and later views get separate
    overlays."""
    global N_ABSENT
    cdef PyObject** bucket
    if N_ABSENT >= N_BUCKETS and not widen_absent():
        return
    enable_try_incref(<PyObject*>self)
    self.key = key[0]
    bucket = bucket_of(key)
    self.next = bucket[0]
    bucket[0] = <PyObject*>self
    N_ABSENT += 1


cdef bint widen_absent() noexcept:
    """Double the number of buckets; return False if there is no memory."""
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
    """Remove an overlay from the hash table of absent messages. No-op if it is not listed."""
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

cdef bint reserve_at_end(
    uint8_t** items, Allocation* allocation, Py_ssize_t n, Py_ssize_t capacity, size_t size
) noexcept:
    """Grow an array of n elements, of `size` bytes each, to a capacity; return False if there is no memory."""
    cdef uint8_t* memory = items[0]
    if allocation.free_before:
        memory -= allocation.free_before * size
        if allocation.free_before >= n >> 2:
            # Use the free memory before the elements, as in a queue. A move of n elements frees memory for at least
            # n / 4 more, so each addition takes constant time on average.
            memmove(memory, items[0], <size_t>n * size)
            items[0] = memory
            allocation.capacity += allocation.free_before
            allocation.free_before = 0
            if allocation.capacity >= capacity:
                return True
    memory = <uint8_t*>PyMem_Realloc(memory, <size_t>(allocation.free_before + capacity) * size)
    if memory == NULL:
        return False
    items[0] = memory + allocation.free_before * size
    allocation.capacity = capacity
    return True


cdef bint reserve_at_start(
    uint8_t** items, Allocation* allocation, Py_ssize_t n, Py_ssize_t more, size_t size
) noexcept:
    """Move the elements towards the end, so that `more` fit before them. Return False if there is no memory.

    Half of the remaining free memory is then before the elements, too, so that a later call moves them only after
    n / 16 insertions.
    """
    cdef Py_ssize_t shift
    if allocation.free_before >= more:
        return True
    if allocation.capacity - n < more + (n >> 3):
        if not reserve_at_end(items, allocation, n, n + more + (n >> 1), size):
            return False
    if allocation.free_before >= more:
        return True
    shift = more + ((allocation.capacity - n - more) >> 1)
    memmove(items[0] + shift * size, items[0], <size_t>n * size)
    items[0] += shift * size
    allocation.free_before += shift
    allocation.capacity -= shift
    return True


cdef void move_shorter_side(
    uint8_t** items, Allocation* allocation, Py_ssize_t n, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t more,
    size_t size
) noexcept:
    """Make the slice [start, stop) of an array of n elements longer by `more`, or shorter if `more` is negative.

    There is capacity for `more` elements at the end. The content of the slice is undefined afterwards.
    """
    if more == 0 or stop == n:
        return
    if start < n - stop and (more < 0 or reserve_at_start(items, allocation, n, more, size)):
        memmove(items[0] - more * <Py_ssize_t>size, items[0], <size_t>start * size)
        items[0] -= more * <Py_ssize_t>size
        allocation.free_before -= more
        allocation.capacity += more
    else:
        memmove(items[0] + (stop + more) * size, items[0] + stop * size, <size_t>(n - stop) * size)


@final
@cython.no_gc
cdef class Elements:

    @critical_section
    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.n):
            Py_XDECREF(element_at(self, i).owner)
        if self.items != NULL:
            PyMem_Free(self.items - self.allocation.free_before)

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Grow the capacity so that at least n more elements fit."""
        cdef Py_ssize_t capacity = self.n + n
        if free_at_end(self) < n:
            self.close_gap()
        if capacity > self.allocation.capacity:
            # The first capacity is exact: many sequences never grow.
            capacity = max(capacity, self.allocation.capacity + (self.allocation.capacity >> 1), 4 if self.n else 1)
            if not reserve_at_end(<uint8_t**>&self.items, &self.allocation, self.n, capacity, sizeof(Element)):
                raise MemoryError
        return 0

    cdef void resize_slice(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n) noexcept:
        """Make the slice n elements long, with undefined content. The caller has reserved memory for the difference.

        Edits near the ends use the free memory there. Other edits move the gap to the slice, so that successive edits
        at nearby positions take constant time each.
        """
        cdef Py_ssize_t more = n - (stop - start)
        cdef Py_ssize_t n_added
        if self.gap == 0:
            # `gap_at` and `gap` have 32 bits, so a larger array has no gap.
            if start <= MAX_MOVED_ELEMENTS or self.n - stop <= MAX_MOVED_ELEMENTS or self.allocation.capacity >> 32:
                move_shorter_side(<uint8_t**>&self.items, &self.allocation, self.n, start, stop, more, sizeof(Element))
                self.n += more
                return
            self.gap_at = <uint32_t>stop
        elif start > self.gap_at and stop == self.n:
            self.n += more
            return
        elif (
            start <= MAX_MOVED_ELEMENTS and stop <= self.gap_at and start < self.n - stop
            and self.allocation.free_before >= more
        ):
            move_shorter_side(<uint8_t**>&self.items, &self.allocation, self.n, start, stop, more, sizeof(Element))
            self.gap_at += <uint32_t>more
            self.n += more
            return
        self.move_gap(max(start, min(<Py_ssize_t>self.gap_at, stop)))
        if more > self.gap:
            # Enlarge the gap by at least half of the free memory at the end, so that it is enlarged only a few times.
            n_added = max(more - self.gap, free_at_end(self) >> 1)
            memmove(
                element_at(self, stop) + n_added, element_at(self, stop),
                <size_t>(self.n - stop) * sizeof(Element)
            )
            self.gap += <uint32_t>n_added
        self.gap_at = <uint32_t>(start + n)
        self.gap -= <uint32_t>more
        self.n += more
        if self.gap_at == self.n:
            self.gap = 0  # the free memory is at the end

    cdef void move_gap(self, Py_ssize_t position) noexcept:
        """Move the gap before the element at a position."""
        if position < self.gap_at:
            memmove(
                &self.items[position + self.gap], &self.items[position],
                <size_t>(self.gap_at - position) * sizeof(Element)
            )
        else:
            memmove(
                &self.items[self.gap_at], &self.items[self.gap_at + self.gap],
                <size_t>(position - self.gap_at) * sizeof(Element)
            )
        self.gap_at = <uint32_t>position

    cdef void close_gap(self) noexcept:
        """Move the free memory of the gap before or after all elements."""
        if self.gap == 0:
            return
        if self.gap_at <= self.n >> 1:
            self.move_gap(0)
            self.items += self.gap
            self.allocation.free_before += self.gap
            self.allocation.capacity -= self.gap
        else:
            self.move_gap(self.n)
        self.gap = 0

    cdef void exchange_items(self, Elements other) noexcept:
        """Exchange all elements with those of another object."""
        self.items, other.items = other.items, self.items
        self.n, other.n = other.n, self.n
        self.allocation, other.allocation = other.allocation, self.allocation
        self.gap_at, other.gap_at = other.gap_at, self.gap_at
        self.gap, other.gap = other.gap, self.gap

    cdef int add(self, const uint8_t* p, uint64_t n, object owner) except -1:
        """Add an element at the end; owner: the owner of its value, or None for a span of the message's bytes."""
        cdef Element* element
        if free_at_end(self) == 0:
            self.reserve(1)
        element = element_at(self, self.n)
        element.p = p
        element.n = n
        element.owner = NULL if owner is None else owned(owner)
        self.n += 1
        return 0


@final
@cython.no_gc
cdef class Numbers:

    @staticmethod
    cdef Numbers allocate(Py_ssize_t n, const Field* field):
        """Return n numbers of the type of a field, with undefined values."""
        cdef Numbers numbers = Numbers.__new__(Numbers)
        numbers.field_type = field.type
        numbers.size = field.size
        numbers.reserve(n)
        numbers.n = n
        ow_request_huge_pages(numbers.items, <size_t>n * field.size)
        return numbers

    cdef int reserve(self, Py_ssize_t n) except -1:
        """Grow the capacity so that at least n more numbers fit."""
        cdef Py_ssize_t capacity = self.n + n
        if capacity > self.allocation.capacity or self.items == NULL:
            capacity = max(capacity, self.allocation.capacity + (self.allocation.capacity >> 1), 4)
            if not reserve_at_end(&self.items, &self.allocation, self.n, capacity, self.size):
                raise MemoryError
        return 0

    cdef void resize_slice(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n) noexcept:
        """Make the slice n numbers long, with undefined content. The caller has reserved memory for the difference."""
        cdef Py_ssize_t more = n - (stop - start)
        move_shorter_side(&self.items, &self.allocation, self.n, start, stop, more, self.size)
        self.n += more

    def __dealloc__(self):
        if self.items != NULL:
            PyMem_Free(self.items - self.allocation.free_before * self.size)


forbid_instantiation(Overlay, b"the first edit of a message")
forbid_instantiation(Numbers, b"edits of a field of numbers")
