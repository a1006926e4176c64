# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""CompactOverlay: the edits of a message that has no view, with entries for the edited and present fields only.

Views read all fields of a message from its Overlay, so it has a slot for each: about 450 bytes for a node. For a
program that edits many small messages, this is many times their size: one assignment in each of 100,000 nodes takes 58
MiB, but 27 MiB with compaction.
"""
cimport cython
from cpython.mem cimport PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF
from cython cimport critical_section, final

from onnxwire.engine.document cimport EPOCH_CLOSED, files_of, part_of_bytes
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.memory cimport calloc
from onnxwire.engine.overlay cimport new_overlay, owned

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)
    int PyGC_Disable()
    int PyGC_Enable()
    # Declared with a pointer, because an argument of type `object` would be counted too.
    Py_ssize_t Py_REFCNT(PyObject* o)


@final
@cython.no_gc
cdef class CompactOverlay:

    @critical_section
    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.n):
            Py_XDECREF(self.entries[i].held)
        Py_XDECREF(self.data)


cdef CompactOverlay compact(Overlay overlay, Document document):
    """Return the compact form of an overlay, or None if it has parts, unknown fields, a parent or other bytes.

    document: the document of its views.
    """
    cdef size_t head = (<size_t>(<PyTypeObject*>CompactOverlay).tp_basicsize + 7) & ~<size_t>7
    cdef uint32_t n = 0
    cdef uint32_t i
    cdef PyObject* o
    cdef Entry* entry
    cdef PyObject* data = NULL
    if overlay.address == NULL or overlay.parts != NULL or overlay.unknown != NULL or overlay.parent != NULL:
        return None
    if not is_in_place(overlay):
        data = bytes_of(overlay, document)
        if data == NULL:
            return None
    if overlay.table.n_fields > <uint16_t>-1:
        return None
    for i in range(overlay.table.n_fields):
        n += has_something(overlay, i)
    o = <PyObject*>PyObject_Malloc(head + n * sizeof(Entry))
    if o == NULL:
        raise MemoryError
    PyObject_Init(o, <PyTypeObject*>CompactOverlay)
    (<CompactOverlay>o).table = overlay.table
    (<CompactOverlay>o).start = overlay.address
    (<CompactOverlay>o).end = overlay.address_end
    (<CompactOverlay>o).data = data
    Py_XINCREF(data)
    (<CompactOverlay>o).generation = overlay.generation
    (<CompactOverlay>o).flags = overlay.flags
    (<CompactOverlay>o).n = n
    (<CompactOverlay>o).entries = entry = <Entry*>(<char*>o + head)
    for i in range(overlay.table.n_fields):
        if has_something(overlay, i):
            entry.slot = overlay.slots[i]
            entry.held = overlay.held[i]
            entry.clears = overlay.clears[i] if overlay.clears != NULL else 0
            entry.index = <uint16_t>i
            entry.touched = overlay.touched[i]
            Py_XINCREF(entry.held)
            entry += 1
    compacted = <CompactOverlay>o
    Py_DECREF(compacted)
    return compacted


cdef inline bint has_something(Overlay overlay, uint32_t i) noexcept:
    if overlay.clears != NULL and overlay.clears[i]:
        return True
    return overlay.slots[i].p != NULL or overlay.held[i] != NULL or overlay.touched[i]


cdef PyObject* bytes_of(Overlay overlay, Document document) except? NULL:
    """Return the bytes object with an overlay's whole content, or NULL if the overlay's document has another use."""
    cdef PyObject* held = overlay.base
    cdef Document base
    cdef PyObject* data
    # The overlay is the only owner: there is no view and no fork of this document.
    if held == NULL or Py_REFCNT(held) != 1:
        return NULL
    base = <Document>held
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


cdef Overlay expand(CompactOverlay self, Document document):
    """Return a new overlay with the same content."""
    cdef Overlay overlay = new_overlay(self.table, document.depth + 1)
    cdef Document base
    cdef Entry* entry
    cdef uint32_t i
    cdef int is_collecting
    overlay.address = overlay.start = self.start
    overlay.address_end = overlay.end = self.end
    overlay.generation = self.generation
    overlay.flags = self.flags
    if self.data != NULL:
        # The garbage collector could run code that registers another overlay of the message.
        is_collecting = PyGC_Disable()
        try:
            base = part_of_bytes(<object>self.data, <object>self.table.cls, overlay.depth, document)
        finally:
            if is_collecting:
                PyGC_Enable()
        overlay.base = owned(base)
        overlay.start = base.start
        overlay.end = base.end
    for i in range(self.n):
        entry = &self.entries[i]
        overlay.slots[entry.index] = entry.slot
        overlay.held[entry.index] = entry.held
        overlay.touched[entry.index] = entry.touched
        Py_XINCREF(entry.held)
        if entry.clears:
            if overlay.clears == NULL:
                overlay.clears = <uint32_t*>calloc(self.table.n_fields, sizeof(uint32_t))
                if overlay.clears == NULL:
                    raise MemoryError
            overlay.clears[entry.index] = entry.clears
    return overlay


cdef bint is_in_place(Overlay self) noexcept:
    """Return whether an overlay still has the bytes that it is registered for."""
    return self.address != NULL and self.base == NULL and self.start == self.address and self.end == self.address_end


forbid_instantiation(CompactOverlay, b"edits of a message")
