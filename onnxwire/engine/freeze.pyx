# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Freezing: encoding added elements that have no view, so that they take the memory of their bytes only.

A message made by `add` is an Overlay, which takes several times the memory of its bytes. Once no view refers to it or
to a message in it, the program can't observe whether it is an Overlay or a span of a document, so a batch of elements
is encoded into one document. Building 100,000 nodes takes 6 MiB with freezing and 173 MiB without, and less time.
"""
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.document cimport Document, part_of_bytes
from onnxwire.engine.edit cimport depth_of
from onnxwire.engine.encode cimport write_at_once
from onnxwire.engine.encoder cimport Encoder
from onnxwire.engine.overlay cimport Element, Elements, Numbers, Overlay, owned
from onnxwire.engine.view cimport View, overlay_view

cdef extern from "thresholds.h":
    enum:
        MAX_SMALL_BYTES "OW_MAX_SMALL_BYTES"

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    # Declared with pointers, because an argument of type `object` would be counted too.
    Py_ssize_t Py_REFCNT(PyObject* o)
    PyTypeObject* Py_TYPE(PyObject* o)


cdef Elements freeze_elements(Elements elements, View message):
    """Encode the elements of a repeated field of `message` that were added since the last call and have no view.

    The last element is left for the next call: a program that adds elements in a loop still has a view of it. Returns
    the replaced elements; releasing them may run finalizers, which may change the field.
    """
    cdef Elements gone = Elements.__new__(Elements)
    # The garbage collector could run code that changes the elements.
    cdef int is_collecting = PyGC_Disable()
    try:
        encode_together(elements, message, gone)
    finally:
        if is_collecting:
            PyGC_Enable()
    return gone


cdef int encode_together(Elements elements, View message, Elements gone) except -1:
    """Encode the elements into one document, and move the replaced overlays to `gone`."""
    cdef Py_ssize_t start = elements.frozen
    cdef Py_ssize_t stop = elements.n - 1
    cdef Py_ssize_t i
    cdef PyObject* held
    cdef Element* element
    cdef Document document
    cdef Encoder encoder = Encoder(False)
    cdef list encoded = []
    cdef bytes data
    cdef const uint8_t* p
    gone.reserve(stop - start)
    elements.frozen = stop
    for i in range(start, stop):
        held = elements.items[i].held
        if held == NULL or Py_TYPE(held) != <PyTypeObject*>Overlay or not is_unshared(held):
            continue
        view = overlay_view((<Overlay>held).table, <Document>message.document, <Overlay>held)
        try:
            data = write_at_once(encoder, view, MAX_SMALL_BYTES)
        except Exception:
            data = None  # saving the message raises the error
        if data is not None:
            encoded.append(data)
            gone.add(NULL, <uint64_t>i, None)  # its index; `held` is set below
    if not encoded:
        return 0
    cls = <object>(<Overlay>elements.items[gone.items[0].n].held).table.cls
    # A separator byte gives each message a unique address, even after an empty message.
    document = part_of_bytes(b"\0".join(encoded), cls, depth_of(message) + 1, <Document>message.document)
    p = document.start
    for i in range(gone.n):
        element = &elements.items[gone.items[i].n]
        gone.items[i].held = element.held
        element.held = owned(document)
        element.p = p
        element.n = <uint64_t>len(<bytes>encoded[i])
        p += element.n + 1
    return 0


cdef bint is_unshared(PyObject* o) noexcept:
    """Return whether an overlay and every object in it has one owner: then there is no view of any of them."""
    cdef PyObject* held
    cdef uint32_t i
    if Py_REFCNT(o) != 1:
        return False
    # Views of messages in its bytes may have no overlay: they own a reference to the document.
    if (<Overlay>o).start != NULL and ((<Overlay>o).base == NULL or Py_REFCNT((<Overlay>o).base) != 1):
        return False
    for i in range((<Overlay>o).table.n_fields):
        held = (<Overlay>o).held[i]
        if held != NULL and not is_unshared_value(held):
            return False
    return True


cdef bint is_unshared_value(PyObject* held) noexcept:
    """Return whether the value of a field has no other owner; str and bytes are immutable and may be shared."""
    cdef PyTypeObject* kind = Py_TYPE(held)
    if kind == <PyTypeObject*>str or kind == <PyTypeObject*>bytes:
        return True
    if kind == <PyTypeObject*>Overlay:
        return is_unshared(held)
    if kind == <PyTypeObject*>Elements:
        return Py_REFCNT(held) == 1 and are_unshared(<Elements>held)
    if kind == <PyTypeObject*>Numbers or kind == <PyTypeObject*>Document:
        return Py_REFCNT(held) == 1
    return False  # a buffer of the program, which may change


cdef bint are_unshared(Elements elements) noexcept:
    """Return whether the elements of a field have no other owner."""
    cdef PyObject* held
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t first
    while i < elements.n:
        held = elements.items[i].held
        first = i
        i += 1
        if held == NULL:
            continue  # a span of the message's bytes
        if Py_TYPE(held) != <PyTypeObject*>Document:
            if not is_unshared_value(held):
                return False
            continue
        # Consecutive elements of one document own one reference each.
        while i < elements.n and elements.items[i].held == held:
            i += 1
        if Py_REFCNT(held) != i - first:
            return False
    return True
