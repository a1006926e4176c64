# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The overlays of a document: a dict by the first byte of each message, and a sorted array for range queries."""
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
        MERGE_BATCH "OW_OVERLAY_MERGE_BATCH"
        MAX_FULL_OVERLAYS "OW_MAX_FULL_OVERLAYS"


# --- the sorted array

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
        """Find the first overlay, or further piece, at or after p; returns False if there is none."""
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
        """Add a pair, or replace the pair at its address."""
        cdef const uint8_t* p = <const uint8_t*>pair.address
        cdef Py_ssize_t i = first_at(self.pairs, self.n, p)
        if i < self.n and self.pairs[i].address == pair.address:
            self.pairs[i] = pair[0]
            return 0
        i = first_at(self.late, self.n_late, p)
        if i < self.n_late and self.late[i].address == pair.address:
            self.late[i] = pair[0]
            return 0
        if self.n_late == MERGE_BATCH:
            self.merge_late()
            i = 0
        if self.late == NULL:
            self.late = <Pair*>malloc(MERGE_BATCH * sizeof(Pair))
            if self.late == NULL:
                raise MemoryError
        memmove(&self.late[i + 1], &self.late[i], <size_t>(self.n_late - i) * sizeof(Pair))
        self.late[i] = pair[0]
        self.n_late += 1
        return 0

    cdef int merge_late(self) except -1:
        """Merge the recent additions into the sorted array, from the back."""
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
    """Return the index of the first of n sorted pairs at or after p."""
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
    """Return the document's sorted overlays, or None if it has none."""
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
    # The loop allocates no tracked object, so the garbage collector can't run other code in it.
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
    """Return whether any message whose first byte is in [start, end] was edited."""
    cdef Pair pair
    return document.overlays is not None and index_of(document).find(start, &pair) and pair.address <= <size_t>end


# --- the dict

cdef int register_overlay(Document document, Overlay overlay) except -1:
    """Add the overlay of a message of the document's bytes to `document.overlays`, which exists."""
    cdef OverlayIndex index = document.overlay_index
    cdef Spans parts
    cdef Pair pair
    cdef Py_ssize_t i
    overlay.address = overlay.start
    overlay.address_end = overlay.end
    try:
        if overlay.parts != NULL:
            # There may be many pieces: rebuild the sorted array when it is needed.
            document.overlay_index = None
            parts = <Spans>overlay.parts
            for i in range(1, parts.n):
                document.overlays[<size_t>parts.items[i].p] = <size_t>(parts.items[i].p + parts.items[i].n)
        elif index is not None:
            pair = pair_of(<size_t>overlay.start, overlay)
            index.put(&pair)
        # Last, because releasing a replaced overlay can run other code.
        document.overlays[<size_t>overlay.start] = overlay
    except MemoryError:
        document.overlay_index = None  # it borrows the overlays, and may contain this one
        raise
    note_use(document, <size_t>overlay.address)
    return 0


cdef Overlay overlay_at(Document document, const uint8_t* start):
    """Return the overlay of the message whose first byte is at `start`, or None."""
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
    replace_overlay(document, <size_t>start, overlay)
    note_use(document, <size_t>start)
    return overlay


cdef Overlay overlay_of(Pair* pair, Document document):
    """Return the overlay of a pair; of a CompactOverlay a temporary one, and None for a further piece of a message."""
    if pair.edits == NULL:
        return None
    if Py_TYPE(pair.edits) == <PyTypeObject*>Overlay:
        return <Overlay>pair.edits
    return expand(<CompactOverlay>pair.edits, document)


# --- compaction of overlays that have no view

@final
@cython.no_gc
cdef class RecentOverlays:

    def __dealloc__(self):
        free(self.addresses)


cdef int note_use(Document document, size_t address) except -1:
    """Record that an overlay was made, and compact the one made MAX_FULL_OVERLAYS earlier unless it is in use.

    If memory runs out, the overlays stay as they are.
    """
    try:
        compact_oldest(document, address)
    except MemoryError:
        pass
    return 0


cdef int compact_oldest(Document document, size_t address) except -1:
    cdef RecentOverlays latest = document.latest
    cdef size_t* addresses
    cdef size_t oldest
    if latest is None:
        document.latest = latest = RecentOverlays.__new__(RecentOverlays)
    if latest.n < MAX_FULL_OVERLAYS:
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
    latest.next = (latest.next + 1) % MAX_FULL_OVERLAYS
    return compact_at(document, oldest)


cdef int compact_at(Document document, size_t address) except -1:
    """Replace the overlay at an address by a CompactOverlay, unless a view owns it or it has more than plain values."""
    cdef PyObject* registered = PyDict_GetItemWithError(document.overlays, address)
    cdef Overlay overlay
    if registered == NULL or Py_TYPE(registered) != <PyTypeObject*>Overlay or Py_REFCNT(registered) != 1:
        return 0
    overlay = <Overlay>registered
    if overlay.depth != document.depth + 1:
        return 0
    compacted = compact(overlay, document)
    if compacted is not None:
        replace_overlay(document, address, compacted)
    return 0


cdef int replace_overlay(Document document, size_t address, registered) except -1:
    """Register another form of the same edits at an address.

    Both forms share their values, so that releasing the old form runs no other code.
    """
    cdef OverlayIndex index = document.overlay_index
    cdef Pair pair
    if index is not None:
        pair = pair_of(address, registered)
        index.put(&pair)
    try:
        document.overlays[address] = registered
    except MemoryError:
        document.overlay_index = None  # it borrows the overlays
        raise
    return 0


make_internal(OverlayIndex, b"edits of messages")
make_internal(RecentOverlays, b"edits of messages")
