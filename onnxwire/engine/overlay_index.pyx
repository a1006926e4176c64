# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""All overlays of a document: by the first byte of their messages, and in the order of these."""
from cython cimport final

cimport cython
from cpython.dict cimport PyDict_GetItemWithError, PyDict_Next
from cpython.object cimport PyTypeObject
from libc.stdlib cimport qsort
from libc.string cimport memmove

from onnxwire.engine.compact_overlay cimport compact, expand
from onnxwire.engine.document cimport Spans
from onnxwire.engine.instances cimport make_internal
from onnxwire.engine.memory cimport free, malloc, realloc

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)
    PyTypeObject* Py_TYPE(PyObject* o)

cdef extern from "thresholds.h":
    enum:
        LATE "OW_OVERLAY_MERGE_BATCH"
        LATEST "OW_MAX_FULL_OVERLAYS"


# --- in order

cdef int compare_pairs(const void* a, const void* b) noexcept nogil:
    cdef size_t ours = (<const Pair*>a).address
    cdef size_t theirs = (<const Pair*>b).address
    return (ours > theirs) - (ours < theirs)


@final
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
    pair.edits = <PyObject*>registered
    if isinstance(registered, Overlay):
        pair.end = <size_t>(<Overlay>registered).address_end
    elif isinstance(registered, CompactOverlay):
        pair.end = <size_t>(<CompactOverlay>registered).end
    else:
        pair.edits = NULL
        pair.end = registered
    return pair


cdef bint has_edits(Document document, const uint8_t* start, const uint8_t* end) except -1:
    """Whether a message that starts from `start` to `end`, both included, was edited."""
    cdef Pair pair
    return document.overlays is not None and index_of(document).find(start, &pair) and pair.address <= <size_t>end


# --- by the first byte

cdef int register_overlay(Document document, Overlay overlay) except -1:
    """Have a document, which has its dict of overlays, know the overlay of a message of its bytes."""
    cdef OverlayIndex index = document.overlay_index
    cdef Spans parts
    cdef Pair pair
    cdef Py_ssize_t i
    overlay.address = overlay.start
    overlay.address_end = overlay.end
    try:
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
    except MemoryError:
        document.overlay_index = None  # which borrows the overlays, and may have this one
        raise
    note_use(document, <size_t>overlay.address)
    return 0


cdef Overlay overlay_at(Document document, const uint8_t* start):
    """The overlay of the message whose first byte is at `start`, or None."""
    cdef PyObject* registered
    cdef Overlay overlay
    if document.overlays is None:
        return None
    registered = PyDict_GetItemWithError(document.overlays, <size_t>start)
    if registered == NULL or Py_TYPE(registered) == <PyTypeObject*>int:
        return None
    if Py_TYPE(registered) == <PyTypeObject*>Overlay:
        return <Overlay>registered
    overlay = expand(<CompactOverlay>registered, document)
    put_instead(document, <size_t>start, overlay)
    note_use(document, <size_t>start)
    return overlay


cdef Overlay overlay_of(Pair* pair, Document document):
    """The overlay of what was found in order; of condensed edits one for the caller alone. None for a further piece."""
    if pair.edits == NULL:
        return None
    if Py_TYPE(pair.edits) == <PyTypeObject*>Overlay:
        return <Overlay>pair.edits
    return expand(<CompactOverlay>pair.edits, document)


# --- those that nobody holds, condensed

@final
@cython.no_gc
cdef class Latest:

    def __dealloc__(self):
        free(self.addresses)


cdef int note_use(Document document, size_t address) except -1:
    """Remember that an overlay was made, and condense the one that was made so many before, if nobody holds it.

    Without memory for that, the overlays stay as they are.
    """
    try:
        condense_earlier(document, address)
    except MemoryError:
        pass
    return 0


cdef int condense_earlier(Document document, size_t address) except -1:
    cdef Latest latest = document.latest
    cdef size_t* addresses
    cdef size_t oldest
    if latest is None:
        document.latest = latest = Latest.__new__(Latest)
    if latest.n < LATEST:
        if latest.n == latest.capacity:
            addresses = <size_t*>realloc(latest.addresses, (2 * latest.capacity or 4) * sizeof(size_t))
            if addresses == NULL:
                raise MemoryError
            latest.addresses = addresses
            latest.capacity = 2 * latest.capacity or 4
        latest.addresses[latest.n] = address
        latest.n += 1
        return 0
    oldest = latest.addresses[latest.next]
    latest.addresses[latest.next] = address
    latest.next = (latest.next + 1) % LATEST
    return condense_at(document, oldest)


cdef int condense_at(Document document, size_t address) except -1:
    """Keep the edits of the message at an address condensed, unless a view has them, or something that views have."""
    cdef PyObject* registered = PyDict_GetItemWithError(document.overlays, address)
    cdef Overlay overlay
    if registered == NULL or Py_TYPE(registered) != <PyTypeObject*>Overlay or Py_REFCNT(registered) != 1:
        return 0
    overlay = <Overlay>registered
    if overlay.depth != document.depth + 1:
        return 0
    condensed = compact(overlay, document)
    if condensed is not None:
        put_instead(document, address, condensed)
    return 0


cdef int put_instead(Document document, size_t address, registered) except -1:
    """Have other edits registered at an address, with the same values: nothing goes for good that could run code."""
    cdef OverlayIndex index = document.overlay_index
    cdef Pair pair
    if index is not None:
        pair = pair_of(address, registered)
        index.put(&pair)
    try:
        document.overlays[address] = registered
    except MemoryError:
        document.overlay_index = None  # which borrows them
        raise
    return 0


make_internal(OverlayIndex, b"edits of messages")
make_internal(Latest, b"edits of messages")
