# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The overlays of a document, sorted by the address of their messages."""
from cython cimport final
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t

from onnxwire.engine.compact_overlay cimport CompactOverlay
from onnxwire.engine.document cimport Document
from onnxwire.engine.overlay cimport Overlay
from onnxwire.engine.table cimport Field, Slot, Table


cdef enum:
    N_EPOCHS = 4     # the number of last epochs for which an index stores the edited message


cdef struct Pair:
    size_t address               # first byte of a message, or of a further part of a message
    size_t end                   # end of this message or part when the pair was added
    PyObject* edits              # Overlay or CompactOverlay, owned; NULL for a part of a message after its first part


cdef struct Leaf:
    Pair* pairs                  # sorted by address; at least one
    Py_ssize_t n
    Py_ssize_t capacity


@final
cdef class OverlayIndex:
    """A sorted map of two levels, so that an insertion moves the pairs of one leaf only."""
    cdef Leaf* leaves            # sorted by address
    cdef Py_ssize_t n_leaves
    cdef Py_ssize_t capacity
    # The position found last: programs, encoders and comparisons mostly go through messages in order.
    cdef Py_ssize_t leaf
    cdef Py_ssize_t i
    # The position of the overlay that was compacted last.
    cdef Py_ssize_t compacted_leaf
    cdef Py_ssize_t compacted_i
    # edited[e % N_EPOCHS]: the address of the message whose edit advanced the document's epoch to e, for the last
    # `n_epochs` values of e, up to `epoch`.
    cdef size_t[N_EPOCHS] edited
    cdef uint32_t n_epochs           # number of valid elements of `edited`
    cdef uint32_t epoch

    cdef bint seek(self, size_t address) noexcept
    cdef void seek_from(self, Py_ssize_t leaf, Py_ssize_t i) noexcept
    cdef bint find(self, const uint8_t* p, Pair* found) noexcept
    cdef int put(self, size_t address, size_t end, PyObject* edits) except -1
    cdef int reserve_pair(self) except -1
    cdef int add_leaf(self) except -1


@final
cdef class RecentOverlays:
    """A queue of the addresses of the messages whose overlays were made last."""
    cdef size_t* addresses
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity


# The type of `freeze_edits` of engine/freeze.pyx. That module cimports this one, and passes the function to
# `use_freezer`.
ctypedef int (*EditFreezer)(OverlayIndex, Document, const size_t*, Py_ssize_t) except -1

cdef void use_freezer(EditFreezer freeze) noexcept
cdef OverlayIndex index_of(Document document)
cdef OverlayIndex make_index(Document document)
cdef int register_overlay(Document document, Overlay overlay) except -1
cdef bint has_edits(Document document, const uint8_t* start, const uint8_t* end) noexcept
cdef Overlay overlay_at(Document document, const uint8_t* start)
cdef bint is_compact(const Pair* pair) noexcept
cdef Overlay overlay_of(Pair* pair, Document document)
cdef bint register_edit(
    Document document, Table* table, const uint8_t* start, const uint8_t* end, uint32_t flags, const Field* field,
    const Slot* slot, PyObject* owner
) except -1
cdef bint prefers_compact() noexcept
cdef bint edit_again(
    Document document, const Table* table, const uint8_t* start, const Field* field, const Slot* slot, PyObject* owner
) noexcept
cdef void advance_epoch(Document document, const uint8_t* address) noexcept


cdef inline bint is_unaffected(Document document, uint32_t epoch, const uint8_t* start) noexcept:
    """Return whether only edits of messages at other addresses advanced the epoch of a document since `epoch`.

    Returns False also if this is unknown.
    """
    cdef PyObject* index = <PyObject*>document.overlays
    cdef uint32_t n = document.epoch - epoch
    cdef uint32_t i
    if index == <PyObject*>None or epoch == 0 or (<OverlayIndex>index).epoch != document.epoch:
        return False
    if n > (<OverlayIndex>index).n_epochs:
        return False
    for i in range(n):
        if (<OverlayIndex>index).edited[(document.epoch - i) % N_EPOCHS] == <size_t>start:
            return False
    return True


cdef inline bint find_edits(PyObject* document, const uint8_t* p, const uint8_t* end, Pair* pair) noexcept:
    """Find the first edited message, or further part of one, that begins in [p, end]; return whether there is one."""
    cdef PyObject* index = <PyObject*>(<Document>document).overlays
    cdef const Leaf* leaf
    cdef Py_ssize_t i
    if index == <PyObject*>None or (<OverlayIndex>index).n_leaves == 0:
        return False
    i = (<OverlayIndex>index).i
    leaf = &(<OverlayIndex>index).leaves[(<OverlayIndex>index).leaf]
    # Often [p, end] is between the edited message found last and the next edited message.
    if i + 1 < leaf.n and leaf.pairs[i].address < <size_t>p and leaf.pairs[i + 1].address > <size_t>end:
        return False
    return (<OverlayIndex>index).find(p, pair) and pair.address <= <size_t>end
