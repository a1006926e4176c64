# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Elements that were made one by one become bytes again.

A message that is built is an Overlay, which takes several times the memory of its bytes. When the program has let go of
it, and of all that is in it, nobody can tell whether it is one or bytes of a document, so some are encoded together.
"""
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.document cimport Document, part_of_bytes
from onnxwire.engine.edit cimport depth_of
from onnxwire.engine.encode cimport Encoder
from onnxwire.engine.overlay cimport Element, Elements, Numbers, Overlay, owned
from onnxwire.engine.view cimport View, overlay_view

cdef extern from "thresholds.h":
    enum:
        SMALL "OW_SMALL"

cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    # Of pointers, not objects: what is counted must not be counted up by that.
    Py_ssize_t Py_REFCNT(PyObject* o)
    PyTypeObject* Py_TYPE(PyObject* o)


cdef Elements fold_elements(Elements elements, View message):
    """Encode those messages of a repeated field of `message` that came since the last time and that nobody holds.

    The last one is left for the next time: a program that makes one after another has that one still. Returns what
    they were, which may have the last of the program's own objects, whose finalizer may change the field.
    """
    cdef Elements gone = Elements.__new__(Elements)
    # Code that the collector ran could change what is looked at here.
    cdef int is_collecting = PyGC_Disable()
    try:
        encode_together(elements, message, gone)
    finally:
        if is_collecting:
            PyGC_Enable()
    return gone


cdef int encode_together(Elements elements, View message, Elements gone) except -1:
    """Do so; what was encoded is put into `gone`."""
    cdef Py_ssize_t start = elements.folded
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
    elements.folded = stop
    for i in range(start, stop):
        held = elements.items[i].held
        if held == NULL or Py_TYPE(held) != <PyTypeObject*>Overlay or not is_alone(held):
            continue
        view = overlay_view((<Overlay>held).table, <Document>message.document, <Overlay>held)
        try:
            data = encoder.write_at_once(view, SMALL)
        except Exception:
            data = None  # a message that can't be encoded says so when it is saved
        if data is not None:
            encoded.append(data)
            gone.insert(gone.n, NULL, <uint64_t>i, None)  # its index, and later itself
    if not encoded:
        return 0
    cls = <object>(<Overlay>elements.items[gone.items[0].n].held).table.cls
    # With a byte in between: an empty message at the end of one would have the address of the next.
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


cdef bint is_alone(PyObject* o) noexcept:
    """Whether an overlay, and each thing that it owns, has no other owner: then there is no view of any of it."""
    cdef PyObject* held
    cdef uint32_t i
    if Py_REFCNT(o) != 1:
        return False
    # Of what is in its bytes there may be views without overlays: they own the document.
    if (<Overlay>o).start != NULL and ((<Overlay>o).base == NULL or Py_REFCNT((<Overlay>o).base) != 1):
        return False
    for i in range((<Overlay>o).table.n_fields):
        held = (<Overlay>o).held[i]
        if held != NULL and not is_owned(held):
            return False
    return True


cdef bint is_owned(PyObject* held) noexcept:
    """Whether the value of a field is of its message alone, which is no matter of text."""
    cdef PyTypeObject* kind = Py_TYPE(held)
    if kind == <PyTypeObject*>str or kind == <PyTypeObject*>bytes:
        return True
    if kind == <PyTypeObject*>Overlay:
        return is_alone(held)
    if kind == <PyTypeObject*>Elements:
        return Py_REFCNT(held) == 1 and are_owned(<Elements>held)
    if kind == <PyTypeObject*>Numbers or kind == <PyTypeObject*>Document:
        return Py_REFCNT(held) == 1
    return False  # memory of the program's, which it may change


cdef bint are_owned(Elements elements) noexcept:
    """Whether the elements of a field are of its message alone."""
    cdef PyObject* held
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t first
    while i < elements.n:
        held = elements.items[i].held
        first = i
        i += 1
        if held == NULL:
            continue  # in the bytes of the message
        if Py_TYPE(held) != <PyTypeObject*>Document:
            if not is_owned(held):
                return False
            continue
        # The elements that follow one another in one document own it together.
        while i < elements.n and elements.items[i].held == held:
            i += 1
        if Py_REFCNT(held) != i - first:
            return False
    return True
