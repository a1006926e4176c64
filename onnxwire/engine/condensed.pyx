# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The edits of a message that nobody holds, without room for the fields that it does not have.

An overlay has room for all fields of its message, because views read them there; so it takes some 450 bytes, and a
program that changes each of many small messages would take hundreds of times their size.
"""
cimport cython
from cpython.mem cimport PyObject_Malloc
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF

from cython cimport critical_section
from onnxwire.engine.overlay cimport new_overlay

cdef extern from "Python.h":
    PyObject* PyObject_Init(PyObject* o, PyTypeObject* cls)


@cython.no_gc
cdef class Condensed:

    @critical_section
    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.n):
            Py_XDECREF(self.entries[i].held)


cdef Condensed condense(Overlay overlay):
    """The condensed form of an overlay, of the same values; None where it has more than bytes and values of fields."""
    cdef size_t head = (<size_t>(<PyTypeObject*>Condensed).tp_basicsize + 7) & ~<size_t>7
    cdef uint32_t n = 0
    cdef uint32_t i
    cdef PyObject* o
    cdef Entry* entry
    if not is_in_place(overlay) or overlay.parts != NULL or overlay.unknown != NULL or overlay.parent != NULL:
        return None
    # What was taken from the message may ask how often it was exchanged or cleared.
    if overlay.generation or overlay.clears != NULL:
        return None
    for i in range(overlay.table.n_fields):
        n += has_something(overlay, i)
    o = <PyObject*>PyObject_Malloc(head + n * sizeof(Entry))
    if o == NULL:
        raise MemoryError
    PyObject_Init(o, <PyTypeObject*>Condensed)
    (<Condensed>o).table = overlay.table
    (<Condensed>o).start = overlay.start
    (<Condensed>o).end = overlay.end
    (<Condensed>o).flags = overlay.flags
    (<Condensed>o).n = n
    (<Condensed>o).entries = entry = <Entry*>(<char*>o + head)
    for i in range(overlay.table.n_fields):
        if has_something(overlay, i):
            entry.slot = overlay.slots[i]
            entry.held = overlay.held[i]
            entry.index = i
            entry.touched = overlay.touched[i]
            Py_XINCREF(entry.held)
            entry += 1
    condensed = <Condensed>o
    Py_DECREF(condensed)
    return condensed


cdef inline bint has_something(Overlay overlay, uint32_t i) noexcept:
    return overlay.slots[i].p != NULL or overlay.held[i] != NULL or overlay.touched[i]


cdef Overlay expand(Condensed self, uint32_t depth):
    """The overlay that it was made of."""
    cdef Overlay overlay = new_overlay(self.table, depth)
    cdef Entry* entry
    cdef uint32_t i
    overlay.address = overlay.start = self.start
    overlay.address_end = overlay.end = self.end
    overlay.flags = self.flags
    for i in range(self.n):
        entry = &self.entries[i]
        overlay.slots[entry.index] = entry.slot
        overlay.held[entry.index] = entry.held
        overlay.touched[entry.index] = entry.touched
        Py_XINCREF(entry.held)
    return overlay


cdef bint is_in_place(Overlay self) noexcept:
    """Whether its bytes are those that it is registered for, in the document that knows it."""
    return self.address != NULL and self.base == NULL and self.start == self.address and self.end == self.address_end
