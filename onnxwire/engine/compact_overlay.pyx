# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""CompactOverlay: the edits of a message without views. Fields that are read from the message's bytes have no entry.

Views read all fields of a message from its Overlay, which has a slot for each field: about 450 bytes for a node, many
times the size of a small message. One assignment in each of 100,000 nodes takes 58 MiB without compaction, and 10 MiB
with it. The fields that were not edited are read again when a view needs the overlay.
"""
cimport cython
from cpython.mem cimport PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF
from cython cimport critical_section, final
from libc.stdint cimport uint64_t
from libc.string cimport memset

from onnxwire._varint cimport load64
from onnxwire.engine.damage cimport decode_error
from onnxwire.engine.document cimport EPOCH_CLOSED, FarReads, files_of, part_of_bytes
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport calloc
from onnxwire.engine.overlay cimport new_overlay, owned

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)
    int PyGC_Disable()
    int PyGC_Enable()
    # Declared with a pointer, because an argument of type `object` would be counted too.
    Py_ssize_t Py_REFCNT(PyObject* o)

cdef extern from "thresholds.h":
    enum:
        MAX_RESCANNED_BYTES "OW_MAX_RESCANNED_BYTES"


cdef SlotScanner SCAN_SLOTS = NULL


cdef void use_scanner(SlotScanner scan) noexcept:
    """Set the function that fills slots from bytes."""
    global SCAN_SLOTS
    SCAN_SLOTS = scan


@final
@cython.no_gc
cdef class CompactOverlay:

    @critical_section
    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.n):
            Py_XDECREF(entries_of(self)[i].owner)
        Py_XDECREF(self.base)


cdef CompactOverlay compact(Overlay overlay, Document document):
    """Return the compact form of an overlay.

    document: the document of the overlay's views.
    Returns None for a message that is new, is absent or has several parts, and for an overlay with unknown fields that
    were merged in, with bytes at another address of `document`, or with more than 65,535 fields.
    """
    cdef uint32_t n_fields = overlay.table.n_fields
    cdef uint32_t n = 0
    cdef uint32_t clears
    cdef uint32_t i
    cdef PyObject* base = NULL
    cdef CompactOverlay compacted
    cdef bint has_all
    if overlay.address == NULL or overlay.parts != NULL or overlay.unknown != NULL or overlay.parent != NULL:
        return None
    if not is_in_place(overlay) and overlay.start != NULL:
        base = bytes_of(overlay, document)
        if base == NULL:
            base = overlay.base
        if base == NULL:
            return None
    if n_fields > <uint16_t>-1:
        return None
    has_all = overlay.clears != NULL or <uint64_t>(overlay.end - overlay.start) > MAX_RESCANNED_BYTES
    if has_all:
        for i in range(n_fields):
            n += needs_entry(overlay, i, True)
    else:
        n = count_touched(overlay)
    compacted = new_compact(overlay.table, n)
    compacted.base = base
    Py_XINCREF(base)
    compacted.start = overlay.start
    compacted.end = overlay.end
    compacted.generation = overlay.generation
    compacted.flags = overlay.flags
    compacted.has_all = has_all
    for i in range(n_fields):
        if compacted.n == n:
            break
        if needs_entry(overlay, i, has_all):
            clears = 0 if overlay.clears == NULL else overlay.clears[i]
            put_entry(compacted, i, &overlay.slots[i], overlay.owners[i], overlay.touched[i], clears)
    return compacted


cdef inline uint32_t count_touched(Overlay overlay) noexcept:
    """Return the number of edited fields. `touched` has a byte of 0 or 1 for each field, in groups of 8 bytes.

    The highest byte of the product is the sum of the 8 bytes.
    """
    cdef uint32_t n = 0
    cdef uint32_t i
    for i in range(0, overlay.table.n_fields, 8):
        n += load64(&overlay.touched[i]) * <uint64_t>0x0101010101010101 >> 56
    return n


cdef inline bint needs_entry(Overlay overlay, uint32_t i, bint has_all) noexcept:
    """Return whether the state of a field must be stored; has_all: whether unedited fields may need an entry, too."""
    if overlay.touched[i]:
        return True
    return has_all and (overlay.slots[i].p != NULL or overlay.clears != NULL and overlay.clears[i] != 0)


cdef CompactOverlay new_compact(Table* table, uint32_t capacity):
    """Make a CompactOverlay without bytes and entries, with memory for `capacity` entries."""
    cdef PyObject* o = <PyObject*>PyObject_Malloc(
        <size_t>(<PyTypeObject*>CompactOverlay).tp_basicsize + capacity * sizeof(Entry)
    )
    if o == NULL:
        raise MemoryError
    PyObject_Init(o, <PyTypeObject*>CompactOverlay)
    (<CompactOverlay>o).table = table
    (<CompactOverlay>o).base = NULL
    (<CompactOverlay>o).start = (<CompactOverlay>o).end = NULL
    (<CompactOverlay>o).generation = (<CompactOverlay>o).flags = (<CompactOverlay>o).n = 0
    (<CompactOverlay>o).has_all = (<CompactOverlay>o).is_first_edit = False
    compacted = <CompactOverlay>o
    Py_DECREF(compacted)
    return compacted


cdef inline void put_entry(
    CompactOverlay self, uint32_t index, const Slot* slot, PyObject* owner, uint8_t touched, uint32_t clears
) noexcept:
    """Add an entry; there is memory for it."""
    cdef Entry* entry = &entries_of(self)[self.n]
    Py_XINCREF(owner)
    entry.slot = slot[0]
    entry.owner = owner
    entry.clears = clears
    entry.index = <uint16_t>index
    entry.touched = touched
    self.n += 1


cdef CompactOverlay compact_edit(
    Table* table, const uint8_t* start, const uint8_t* end, uint32_t flags, const Field* field, const Slot* slot,
    PyObject* owner
):
    """Return the edits of a message, the bytes from start to end, in which only `field` was edited.

    flags: those of the view; slot, owner: the new state of the field, as for Overlay.
    Returns None if all its slots have to be stored, if the field is in a oneof, or for more than 65,535 fields.
    """
    cdef CompactOverlay compacted
    if <uint64_t>(end - start) > MAX_RESCANNED_BYTES or field.n_peers or table.n_fields > <uint16_t>-1:
        return None
    compacted = new_compact(table, 1)
    compacted.start = start
    compacted.end = end
    compacted.flags = flags
    compacted.is_first_edit = True
    put_entry(compacted, field.slot, slot, owner, True, 0)
    return compacted


cdef PyObject* bytes_of(Overlay overlay, Document document) except? NULL:
    """Return the bytes object with an overlay's whole content, or NULL if the document of the content is needed."""
    cdef PyObject* owner = overlay.base
    cdef Document base
    cdef PyObject* data
    # A document that only the overlay references has no view and no fork.
    if owner == NULL or Py_REFCNT(owner) != 1:
        return NULL
    base = <Document>owner
    data = <PyObject*>base.backing.buffer.obj
    if data == NULL or not isinstance(<object>data, bytes) or files_of(base) is not files_of(document):
        return NULL
    if base.backing.mapping is not None or base.backing.descriptor >= 0 or base.name != "<bytes>":
        return NULL
    if not base.is_part or base.overlays is not None or base.pins or base.epoch == EPOCH_CLOSED:
        return NULL
    if overlay.start != base.start or overlay.end != base.end:
        return NULL
    return data


cdef Overlay expand(CompactOverlay self, Document document, const uint8_t* address, const uint8_t* address_end):
    """Return a new overlay with the edits of `self`; address, address_end: the message's bytes in `document`."""
    cdef Overlay overlay = new_overlay(self.table, document.depth + 1)
    cdef Document base
    cdef Entry* entry
    cdef uint32_t i
    cdef int is_collecting
    overlay.address = address
    overlay.address_end = address_end
    overlay.start = self.start
    overlay.end = self.end
    overlay.generation = self.generation
    overlay.flags = self.flags
    if self.base != NULL and Py_TYPE(self.base) == <PyTypeObject*>Document:
        overlay.base = owned(<object>self.base)
    elif self.base != NULL:
        # The garbage collector could run code that registers another overlay of the message.
        is_collecting = PyGC_Disable()
        try:
            base = part_of_bytes(<object>self.base, None, overlay.depth, document)
        finally:
            if is_collecting:
                PyGC_Enable()
        overlay.base = owned(base)
    fill_slots(self, overlay.base if overlay.base != NULL else <PyObject*>document, overlay.slots)
    for i in range(self.n):
        entry = &entries_of(self)[i]
        overlay.owners[entry.index] = entry.owner
        overlay.touched[entry.index] = entry.touched
        Py_XINCREF(entry.owner)
        if entry.clears:
            if overlay.clears == NULL:
                overlay.clears = <uint32_t*>calloc(self.table.n_fields, sizeof(uint32_t))
                if overlay.clears == NULL:
                    raise MemoryError
            overlay.clears[entry.index] = entry.clears
    return overlay


cdef int fill_slots(CompactOverlay self, PyObject* document, Slot* slots) except -1:
    """Fill zeroed slots from the entries, and, unless `has_all`, the other slots from the bytes of the content.

    document: the document of the content.
    """
    cdef const uint8_t* fault
    cdef const Entry* entry
    cdef uint64_t records = 0
    cdef uint32_t flags = 0
    cdef uint32_t i
    cdef FarReads far
    if not self.has_all:
        memset(&far, 0, sizeof(far))
        fault = SCAN_SLOTS(self.table, self.start, self.end, slots, &flags, &records, &far)
        if fault != NULL:
            raise decode_error(<Document>document, fault, self.end)
    for i in range(self.n):
        entry = &entries_of(self)[i]
        slots[entry.index] = entry.slot
    return 0


cdef bint is_in_place(Overlay self) noexcept:
    """Return whether no other content has replaced the bytes of the message, from `address` to `address_end`."""
    return self.address != NULL and self.base == NULL and self.start == self.address and self.end == self.address_end


forbid_instantiation(CompactOverlay, b"edits of a message")
