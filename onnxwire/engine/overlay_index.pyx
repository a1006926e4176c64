# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The overlays of a document, sorted by the address of their messages."""
from cython cimport critical_section, final

cimport cython
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_XDECREF, Py_XINCREF
from libc.stdint cimport uint32_t
from libc.string cimport memcpy, memmove

from onnxwire.engine.compact_overlay cimport Entry, compact, compact_edit, expand, find_entry
from onnxwire.engine.document cimport Spans
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport free, malloc, realloc
from onnxwire.engine.overlay cimport MAX_OVERLAY_DEPTH, owned

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject* o)
    PyTypeObject* Py_TYPE(PyObject* o)

cdef extern from "thresholds.h":
    enum:
        MAX_LEAF_PAIRS "OW_MAX_LEAF_PAIRS"
        MAX_FULL_OVERLAYS "OW_MAX_FULL_OVERLAYS"
        MAX_FULL_PART_OVERLAYS "OW_MAX_FULL_PART_OVERLAYS"

cdef enum:
    SMALL_PART_BYTES = 1 << 16       # smaller documents of copied or frozen messages use MAX_FULL_PART_OVERLAYS


# --- the map

@final
@cython.no_gc
cdef class OverlayIndex:

    @critical_section
    def __dealloc__(self):
        cdef Py_ssize_t i
        cdef Py_ssize_t k
        for k in range(self.n_leaves):
            for i in range(self.leaves[k].n):
                Py_XDECREF(self.leaves[k].pairs[i].edits)
            free(self.leaves[k].pairs)
        free(self.leaves)

    @critical_section
    def __len__(self):
        cdef Py_ssize_t n = 0
        cdef Py_ssize_t k
        for k in range(self.n_leaves):
            n += self.leaves[k].n
        return n

    cdef bint seek(self, size_t address) noexcept:
        """Move `leaf` and `i` to the first pair at or after an address, or to the end; returns False at the end."""
        cdef Leaf* leaf
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t high = self.n_leaves - 1
        cdef Py_ssize_t middle
        if high < 0:
            return False
        leaf = &self.leaves[self.leaf]
        if self.i < leaf.n and leaf.pairs[self.i].address < address:
            self.i += 1
        if self.i and leaf.pairs[self.i - 1].address < address:
            if self.i < leaf.n:
                if address <= leaf.pairs[self.i].address:
                    return True
            elif self.leaf == high:
                return False
        # Find the last leaf that begins at or before the address.
        while low < high:
            middle = (low + high + 1) // 2
            if self.leaves[middle].pairs[0].address <= address:
                low = middle
            else:
                high = middle - 1
        self.leaf = low
        leaf = &self.leaves[low]
        low = 0
        high = leaf.n
        while low < high:
            middle = (low + high) // 2
            if leaf.pairs[middle].address < address:
                low = middle + 1
            else:
                high = middle
        self.i = low
        if low == leaf.n and self.leaf + 1 < self.n_leaves:
            self.leaf += 1
            self.i = 0
        return self.i < self.leaves[self.leaf].n

    cdef void seek_from(self, Py_ssize_t leaf, Py_ssize_t i) noexcept:
        """Set the position from which the next `seek` starts. No-op if it no longer exists."""
        if leaf < self.n_leaves and i <= self.leaves[leaf].n:
            self.leaf = leaf
            self.i = i

    cdef bint find(self, const uint8_t* p, Pair* found) noexcept:
        """Find the first overlay, or further part of a message, at or after p; returns False if there is none."""
        if not self.seek(<size_t>p):
            return False
        found[0] = self.leaves[self.leaf].pairs[self.i]
        return True

    cdef int put(self, size_t address, size_t end, PyObject* edits) except -1:
        """Add a pair, or replace the pair at its address. Releasing the old edits may run other code."""
        cdef Leaf* leaf
        cdef Pair* pair
        cdef PyObject* old
        if self.seek(address) and self.leaves[self.leaf].pairs[self.i].address == address:
            pair = &self.leaves[self.leaf].pairs[self.i]
            old = pair.edits
            Py_XINCREF(edits)
            pair.end = end
            pair.edits = edits
            Py_XDECREF(old)
            return 0
        self.reserve_pair()
        leaf = &self.leaves[self.leaf]
        pair = &leaf.pairs[self.i]
        memmove(pair + 1, pair, <size_t>(leaf.n - self.i) * sizeof(Pair))
        Py_XINCREF(edits)
        pair.address = address
        pair.end = end
        pair.edits = edits
        leaf.n += 1
        return 0

    cdef int reserve_pair(self) except -1:
        """Reserve memory for a pair at `leaf` and `i`, which may move if a leaf is added."""
        cdef Leaf* leaf
        cdef Pair* pairs
        cdef Py_ssize_t capacity
        if self.n_leaves and self.leaves[self.leaf].n < MAX_LEAF_PAIRS:
            leaf = &self.leaves[self.leaf]
            if leaf.n == leaf.capacity:
                capacity = min(2 * leaf.capacity, <Py_ssize_t>MAX_LEAF_PAIRS)
                pairs = <Pair*>realloc(leaf.pairs, <size_t>capacity * sizeof(Pair))
                if pairs == NULL:
                    raise MemoryError
                leaf.pairs = pairs
                leaf.capacity = capacity
            return 0
        self.add_leaf()
        leaf = &self.leaves[self.leaf]
        if self.i == leaf.n and self.n_leaves > 1:
            # If overlays are added in ascending order, leaves stay full.
            self.leaf += 1
            self.i = 0
        elif self.n_leaves > 1:
            leaf[1].n = leaf.n // 2
            leaf.n -= leaf[1].n
            memcpy(leaf[1].pairs, leaf.pairs + leaf.n, <size_t>leaf[1].n * sizeof(Pair))
            if self.i > leaf.n:
                self.i -= leaf.n
                self.leaf += 1
        return 0

    cdef int add_leaf(self) except -1:
        """Add an empty leaf after the current one."""
        cdef Py_ssize_t after = self.leaf + 1 if self.n_leaves else 0
        cdef Py_ssize_t leaf_capacity = MAX_LEAF_PAIRS if self.n_leaves else 1
        cdef Py_ssize_t capacity
        cdef Leaf* leaves
        cdef Pair* pairs
        if self.n_leaves == self.capacity:
            capacity = 2 * self.capacity or 1
            leaves = <Leaf*>realloc(self.leaves, <size_t>capacity * sizeof(Leaf))
            if leaves == NULL:
                raise MemoryError
            self.leaves = leaves
            self.capacity = capacity
        pairs = <Pair*>malloc(<size_t>leaf_capacity * sizeof(Pair))
        if pairs == NULL:
            raise MemoryError
        memmove(
            &self.leaves[after + 1], &self.leaves[after], <size_t>(self.n_leaves - after) * sizeof(Leaf)
        )
        self.leaves[after] = Leaf(pairs, 0, leaf_capacity)
        self.n_leaves += 1
        return 0


cdef OverlayIndex index_of(Document document):
    """Return the overlays of a document, or None."""
    return <OverlayIndex>document.overlays


cdef OverlayIndex make_index(Document document):
    """Return the overlays of a document; create an empty index if there is none."""
    if document.overlays is None:
        document.overlays = OverlayIndex.__new__(OverlayIndex)
    return <OverlayIndex>document.overlays


cdef bint has_edits(Document document, const uint8_t* start, const uint8_t* end) noexcept:
    """Return whether an edited message, or a further part of one, begins in [start, end]."""
    cdef Pair pair
    return document.overlays is not None and (<OverlayIndex>document.overlays).find(start, &pair) and (
        pair.address <= <size_t>end
    )


# --- registration

cdef int register_overlay(Document document, Overlay overlay) except -1:
    """Add the overlay of a message of the document's bytes."""
    cdef OverlayIndex index = make_index(document)
    cdef Spans parts
    cdef Py_ssize_t i
    overlay.address = overlay.start
    overlay.address_end = overlay.end
    if overlay.parts != NULL:
        parts = <Spans>overlay.parts
        for i in range(1, parts.n):
            index.put(<size_t>parts.items[i].p, <size_t>(parts.items[i].p + parts.items[i].n), NULL)
    # The parts are added first, because releasing a replaced overlay can run other code.
    index.put(<size_t>overlay.start, <size_t>overlay.end, <PyObject*>overlay)
    note_overlay(document, <size_t>overlay.address)
    return 0


# Numbers of recent first edits that were stored without an Overlay, and of those for which a view needed one later.
cdef uint32_t N_COMPACT = 0
cdef uint32_t N_EXPANDED = 0
cdef uint32_t N_REFUSED = 0          # number of first edits while Overlays were preferred


cdef void count_first_edit(uint32_t* count) noexcept:
    """Increment N_COMPACT or N_EXPANDED; at 32, both are halved, so that earlier edits count less."""
    global N_COMPACT, N_EXPANDED
    count[0] += 1
    if count[0] == 32:
        N_COMPACT >>= 1
        N_EXPANDED >>= 1


cdef bint prefers_compact() noexcept:
    """Return whether to store a first edit without an Overlay.

    Returns False if views later needed an Overlay for most of the edits that were recently stored without one. One
    first edit in eight is stored without an Overlay even then, to detect that the program edits in another way.
    """
    global N_REFUSED
    if N_EXPANDED <= (N_COMPACT >> 1) + 2:
        return True
    N_REFUSED += 1
    return N_REFUSED % 8 == 0


cdef bint register_edit(
    Document document, Table* table, const uint8_t* start, const uint8_t* end, uint32_t flags, const Field* field,
    const Slot* slot, PyObject* owner
) except -1:
    """Add the first edit of a message of the document's bytes, which sets one field, without an Overlay.

    This takes half of the time of making an Overlay and compacting it. Returns False if the message needs an Overlay.
    """
    cdef OverlayIndex index
    if document.depth >= MAX_OVERLAY_DEPTH:
        return False  # the caller then makes an Overlay, which raises the error
    edits = compact_edit(table, start, end, flags, field, slot, owner)
    if edits is None:
        return False
    index = make_index(document)
    count_first_edit(&N_COMPACT)
    # Releasing a replaced overlay can run other code.
    index.put(<size_t>start, <size_t>end, <PyObject*>edits)
    advance_epoch(document, start)
    return True


cdef bint edit_again(
    Document document, const Table* table, const uint8_t* start, const Field* field, const Slot* slot, PyObject* owner
) noexcept:
    """Set a field that was edited before; return whether it was set.

    Sets only a singular field outside oneofs, and only if the message's edits are compact.
    """
    cdef OverlayIndex index = index_of(document)
    cdef Entry* entry
    cdef PyObject* old
    cdef Pair pair
    if index is None or field.n_peers or not index.find(start, &pair) or pair.address != <size_t>start:
        return False
    if pair.edits == NULL or not is_compact(&pair) or (<CompactOverlay>pair.edits).table != table:
        return False
    entry = find_entry(<CompactOverlay>pair.edits, field.slot)
    if entry == NULL or not entry.touched:
        return False
    old = entry.owner
    Py_XINCREF(owner)
    entry.owner = owner
    entry.slot = slot[0]
    advance_epoch(document, start)
    Py_XDECREF(old)  # last: its destructor may run other code
    return True


cdef void advance_epoch(Document document, const uint8_t* address) noexcept:
    """Advance the epoch after an edit of the message at an address, so that its views refresh their slots.

    A view without an overlay needs no refresh after edits of other messages (`is_unaffected`).
    address: NULL for a new message.
    """
    cdef OverlayIndex index = index_of(document)
    cdef bint is_up_to_date = index is not None and index.epoch == document.epoch
    document.next_epoch()
    if index is None or address == NULL:
        return
    if is_up_to_date and document.epoch > 1:
        index.n_epochs = min(index.n_epochs + 1, <uint32_t>N_EPOCHS)
    else:
        index.n_epochs = 1
    index.edited[document.epoch % N_EPOCHS] = <size_t>address
    index.epoch = document.epoch


cdef Overlay overlay_at(Document document, const uint8_t* start):
    """Return the overlay of the message whose first byte is at `start`, or None."""
    cdef OverlayIndex index = index_of(document)
    cdef Overlay overlay
    cdef Pair pair
    if index is None or not index.find(start, &pair) or pair.address != <size_t>start or pair.edits == NULL:
        return None
    if Py_TYPE(pair.edits) == <PyTypeObject*>Overlay:
        return <Overlay>pair.edits
    if (<CompactOverlay>pair.edits).is_first_edit:
        count_first_edit(&N_EXPANDED)
    overlay = expand_pair(&pair, document)
    # Both forms share their values: releasing the old one runs no other code.
    index.put(pair.address, pair.end, <PyObject*>overlay)
    note_overlay(document, pair.address)
    return overlay


cdef bint is_compact(const Pair* pair) noexcept:
    """Return whether edits are a CompactOverlay."""
    return Py_TYPE(pair.edits) == <PyTypeObject*>CompactOverlay


cdef Overlay expand_pair(const Pair* pair, Document document):
    return expand(
        <CompactOverlay>pair.edits, document, <const uint8_t*>pair.address, <const uint8_t*>pair.end
    )


cdef Overlay overlay_of(Pair* pair, Document document):
    """Return the overlay of a pair: a temporary one for a CompactOverlay, None for a further part of a message."""
    if pair.edits == NULL:
        return None
    if Py_TYPE(pair.edits) == <PyTypeObject*>Overlay:
        return <Overlay>pair.edits
    return expand_pair(pair, document)


# --- compaction of overlays that have no view

@final
@cython.no_gc
cdef class RecentOverlays:

    def __dealloc__(self):
        free(self.addresses)


cdef int note_overlay(Document document, size_t address) except -1:
    """Record that an overlay was made; if the queue is full, compact the older half of its overlays.

    Overlays that a view owns are not compacted. A MemoryError ends the compaction; it is not raised.
    """
    cdef PyObject* queue = <PyObject*>document.recent_overlays
    cdef bint is_small = document.is_part and document.end - document.start < SMALL_PART_BYTES
    cdef Py_ssize_t limit = MAX_FULL_PART_OVERLAYS if is_small else MAX_FULL_OVERLAYS
    if queue != <PyObject*>None and (<RecentOverlays>queue).n < min(limit, (<RecentOverlays>queue).capacity):
        (<RecentOverlays>queue).addresses[(<RecentOverlays>queue).n] = address
        (<RecentOverlays>queue).n += 1
        return 0
    return note_and_compact(document, address, limit)


cdef int note_and_compact(Document document, size_t address, Py_ssize_t limit) except -1:
    """Implement `note_overlay` if the queue is full or must grow."""
    cdef RecentOverlays recent = document.recent_overlays
    cdef Py_ssize_t half = limit >> 1
    cdef size_t* addresses
    cdef Py_ssize_t capacity
    try:
        if recent is None:
            document.recent_overlays = recent = RecentOverlays.__new__(RecentOverlays)
        if recent.n == limit:
            try:
                compact_all(document, recent.addresses, half)
            finally:
                recent.n -= half
                memmove(recent.addresses, recent.addresses + half, <size_t>recent.n * sizeof(size_t))
        if recent.n == recent.capacity:
            capacity = min(2 * recent.capacity or 4, limit)
            addresses = <size_t*>realloc(recent.addresses, <size_t>capacity * sizeof(size_t))
            if addresses == NULL:
                return 0
            recent.addresses = addresses
            recent.capacity = capacity
        recent.addresses[recent.n] = address
        recent.n += 1
    except MemoryError:
        pass
    return 0


cdef EditFreezer FREEZE_EDITS = NULL


cdef void use_freezer(EditFreezer freeze) noexcept:
    """Set the function that encodes new messages in overlays before these are compacted."""
    global FREEZE_EDITS
    FREEZE_EDITS = freeze


cdef int compact_all(Document document, const size_t* addresses, Py_ssize_t n) except -1:
    """Compact the overlays at n addresses, after encoding the new messages in them (see `use_freezer`)."""
    cdef Py_ssize_t i
    if FREEZE_EDITS != NULL:
        FREEZE_EDITS(index_of(document), document, addresses, n)
    for i in range(n):
        compact_at(document, addresses[i])
    return 0


cdef int compact_at(Document document, size_t address) except -1:
    """Replace the overlay at an address by a CompactOverlay, unless a view owns it or it has no compact form."""
    cdef OverlayIndex index = index_of(document)
    cdef Py_ssize_t leaf = index.leaf
    cdef Py_ssize_t i = index.i
    # Overlays are mostly compacted in the order of their addresses, so start at the last compacted overlay.
    index.seek_from(index.compacted_leaf, index.compacted_i)
    if index.seek(address):
        index.compacted_leaf = index.leaf
        index.compacted_i = index.i
        compact_pair(document, &index.leaves[index.leaf].pairs[index.i], address)
    index.seek_from(leaf, i)
    return 0


cdef int compact_pair(Document document, Pair* pair, size_t address) except -1:
    """Implement `compact_at` for the first pair at or after the address."""
    cdef PyObject* old = pair.edits
    cdef Overlay overlay
    if pair.address != address or old == NULL or Py_TYPE(old) != <PyTypeObject*>Overlay or Py_REFCNT(old) != 1:
        return 0
    overlay = <Overlay>old
    if overlay.depth != document.depth + 1:
        return 0
    compacted = compact(overlay, document)
    if compacted is not None:
        pair.edits = owned(compacted)
        # Both forms share their values: releasing the old one runs no other code.
        Py_XDECREF(old)
    return 0


forbid_instantiation(OverlayIndex, b"edits of messages")
forbid_instantiation(RecentOverlays, b"edits of messages")
