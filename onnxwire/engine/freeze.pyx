# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Freezing: encoding added elements that have no view, so that they take the memory of their bytes only.

A message made by `add` is an Overlay, which takes several times the memory of its bytes. Once no view refers to it or
to a message in it, the program can't observe whether it is an Overlay or a span of a document, so a batch of elements
is encoded into one document. Building 100,000 nodes takes 6 MiB with freezing and 173 MiB without, and less time.
"""
from cpython.object cimport PyObject, PyTypeObject
from cython cimport final, no_gc
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.document cimport Document, part_of_bytes
from onnxwire.engine.edit cimport depth_of
from onnxwire.engine.encode cimport encode_in_one_pass
from onnxwire.engine.encoder cimport Encoder
from onnxwire.engine.instances cimport forbid_instantiation
from onnxwire.engine.overlay cimport Element, Elements, Numbers, Overlay, element_at, owned
from onnxwire.engine.overlay_index cimport OverlayIndex, Pair, use_freezer
from onnxwire.engine.table cimport Table
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
    cdef Elements removed_overlays = Elements.__new__(Elements)
    # The garbage collector could run code that changes the elements.
    cdef int is_collecting = PyGC_Disable()
    try:
        encode_together(elements, message, removed_overlays)
    finally:
        if is_collecting:
            PyGC_Enable()
    return removed_overlays


cdef int encode_together(Elements elements, View message, Elements removed_overlays) except -1:
    """Do the work of `freeze_elements`; the replaced overlays are moved to `removed_overlays`."""
    cdef Py_ssize_t start = elements.n_examined
    cdef Py_ssize_t stop = elements.n - 1
    cdef Batch batch = Batch.__new__(Batch)
    cdef Py_ssize_t i
    cdef PyObject* owner
    batch.start(removed_overlays)
    removed_overlays.reserve(stop - start)
    elements.n_examined = stop
    for i in range(start, stop):
        owner = element_at(elements, i).owner
        if owner != NULL and Py_TYPE(owner) == <PyTypeObject*>Overlay and is_unshared(owner):
            batch.encode(elements, i, <Document>message.document)
    return batch.replace(depth_of(message), <Document>message.document)


cdef int freeze_edits(OverlayIndex index, Document document, const size_t* addresses, Py_ssize_t n) except -1:
    """Encode the new messages in the repeated fields of overlays that are about to be compacted.

    addresses: n keys of overlays in `index`, the overlays of `document`.

    Unlike `freeze_elements`, this includes the message that was added last, which takes about a thousand bytes.
    """
    cdef Elements _removed_overlays = None  # released last: destructors may run other code
    # The garbage collector could run code that changes the elements.
    cdef int is_collecting = PyGC_Disable()
    try:
        _removed_overlays = encode_edits(index, document, addresses, n)
    finally:
        if is_collecting:
            PyGC_Enable()
    return 0


cdef Elements encode_edits(OverlayIndex index, Document document, const size_t* addresses, Py_ssize_t n):
    """Encode the new messages in overlays into one document; return the replaced overlays, or None."""
    cdef Batch batch = None
    cdef PyObject* overlay
    cdef PyObject* owner
    cdef Py_ssize_t i
    cdef Pair pair
    cdef uint32_t k
    for i in range(n):
        if not index.find(<const uint8_t*>addresses[i], &pair) or pair.address != addresses[i]:
            continue
        overlay = pair.edits
        if overlay == NULL or Py_TYPE(overlay) != <PyTypeObject*>Overlay or Py_REFCNT(overlay) != 1:
            continue
        for k in range((<Overlay>overlay).table.n_fields):
            owner = (<Overlay>overlay).owners[k]
            if (
                owner == NULL or Py_TYPE(owner) != <PyTypeObject*>Elements or Py_REFCNT(owner) != 1
                or not has_overlay(<Elements>owner)
            ):
                continue
            if batch is None:
                batch = Batch.__new__(Batch)
                batch.start(Elements.__new__(Elements))
            batch.encode_new(<Elements>owner, document)
    if batch is None:
        return None
    batch.replace(document.depth + 1, document)
    return batch.removed_overlays


@final
@no_gc
cdef class Batch:
    """Elements of one message class that are encoded into one document."""
    cdef Table* table
    cdef Encoder encoder
    cdef list encoded            # the encodings of the elements
    cdef list containers         # per element, the Elements that it is in
    cdef Elements removed_overlays  # per element, its index as `n`, and after `replace` its overlay as `owner`

    cdef int start(self, Elements removed_overlays) except -1:
        """Start an empty batch."""
        self.encoded = []
        self.containers = []
        self.removed_overlays = removed_overlays
        return 0

    cdef int encode(self, Elements elements, Py_ssize_t i, Document document) except -1:
        """Encode the element at index i, an overlay, unless it is long, damaged, or of another class than the batch.

        document: the document of its views.
        """
        cdef Overlay overlay = <Overlay>element_at(elements, i).owner
        cdef bytes data
        if self.table != NULL and self.table != overlay.table:
            return 0
        if self.encoder is None:
            self.encoder = Encoder(False)
        view = overlay_view(overlay.table, document, overlay)
        try:
            data = encode_in_one_pass(self.encoder, view, MAX_SMALL_BYTES)
        except Exception:
            data = None  # saving the message raises the error
        if data is not None:
            self.removed_overlays.reserve(1)
            self.table = overlay.table
            self.encoded.append(data)
            self.containers.append(elements)
            self.removed_overlays.add(NULL, <uint64_t>i, None)
        return 0

    cdef int encode_new(self, Elements elements, Document document) except -1:
        """Encode the elements that are new messages without a view, and whose release runs no other code."""
        cdef PyObject* owner
        cdef Py_ssize_t i
        for i in range(elements.n):
            owner = element_at(elements, i).owner
            if owner != NULL and Py_TYPE(owner) == <PyTypeObject*>Overlay and is_unshared(owner) and is_new(owner):
                self.encode(elements, i, document)
        return 0

    cdef int replace(self, uint32_t depth, Document source) except -1:
        """Replace the elements by spans of a document; source: see `part_of_bytes`.

        depth: the depth of the overlay of the message with the elements. New overlays of frozen elements then have the
        depth of the replaced overlays, so that edits of frozen elements are not refused.
        """
        cdef Document document
        cdef Element* element
        cdef const uint8_t* p
        cdef Py_ssize_t i
        if not self.encoded:
            return 0
        # A separator byte gives each message a unique address, even after an empty message.
        document = part_of_bytes(b"\0".join(self.encoded), None, depth, source)
        p = document.start
        for i in range(self.removed_overlays.n):
            element = element_at(<Elements>self.containers[i], <Py_ssize_t>self.removed_overlays.items[i].n)
            self.removed_overlays.items[i].owner = element.owner
            element.owner = owned(document)
            element.p = p
            element.n = <uint64_t>len(<bytes>self.encoded[i])
            p += element.n + 1
        return 0


use_freezer(freeze_edits)
forbid_instantiation(Batch, b"adding messages")


cdef bint has_overlay(Elements elements) noexcept:
    """Return whether an element is an Overlay."""
    cdef Py_ssize_t i
    for i in range(elements.n):
        if element_at(elements, i).owner != NULL and Py_TYPE(element_at(elements, i).owner) == <PyTypeObject*>Overlay:
            return True
    return False


cdef bint is_new(PyObject* overlay) noexcept:
    """Return whether an overlay has no bytes, and contains only str, bytes, numbers and overlays without bytes."""
    cdef PyObject* owner
    cdef PyTypeObject* kind
    cdef Py_ssize_t i
    cdef uint32_t k
    if (<Overlay>overlay).start != NULL or (<Overlay>overlay).base != NULL:
        return False
    for k in range((<Overlay>overlay).table.n_fields):
        owner = (<Overlay>overlay).owners[k]
        if owner == NULL:
            continue
        kind = Py_TYPE(owner)
        if kind == <PyTypeObject*>Elements:
            for i in range((<Elements>owner).n):
                if not is_text_or_new(element_at(<Elements>owner, i).owner):
                    return False
        elif kind != <PyTypeObject*>Numbers and not is_text_or_new(owner):
            return False
    return True


cdef bint is_text_or_new(PyObject* value) noexcept:
    """Return whether a value is NULL, a str, bytes, or an overlay for which `is_new` is true."""
    cdef PyTypeObject* kind
    if value == NULL:
        return True
    kind = Py_TYPE(value)
    if kind == <PyTypeObject*>Overlay:
        return is_new(value)
    return kind == <PyTypeObject*>str or kind == <PyTypeObject*>bytes


cdef bint is_unshared(PyObject* overlay) noexcept:
    """Return whether an overlay and each object in it except str and bytes has one owner: then there are no views."""
    cdef PyObject* owner
    cdef uint32_t i
    if Py_REFCNT(overlay) != 1:
        return False
    # Views of messages in its bytes may have no overlay: they own a reference to the document.
    if (<Overlay>overlay).start != NULL:
        if (<Overlay>overlay).base == NULL or Py_REFCNT((<Overlay>overlay).base) != 1:
            return False
    for i in range((<Overlay>overlay).table.n_fields):
        owner = (<Overlay>overlay).owners[i]
        if owner != NULL and not is_unshared_value(owner):
            return False
    return True


cdef bint is_unshared_value(PyObject* value) noexcept:
    """Return whether the value of a field has no other owner; str and bytes are immutable and may be shared."""
    cdef PyTypeObject* kind = Py_TYPE(value)
    if kind == <PyTypeObject*>str or kind == <PyTypeObject*>bytes:
        return True
    if kind == <PyTypeObject*>Overlay:
        return is_unshared(value)
    if kind == <PyTypeObject*>Elements:
        return Py_REFCNT(value) == 1 and are_unshared(<Elements>value)
    if kind == <PyTypeObject*>Numbers or kind == <PyTypeObject*>Document:
        return Py_REFCNT(value) == 1
    return False  # a buffer of the program, which may change


cdef bint are_unshared(Elements elements) noexcept:
    """Return whether the elements of a field have no other owner."""
    cdef PyObject* owner
    cdef Py_ssize_t i = 0
    cdef Py_ssize_t run_start
    while i < elements.n:
        owner = element_at(elements, i).owner
        run_start = i
        i += 1
        if owner == NULL:
            continue  # a span of the message's bytes
        if Py_TYPE(owner) != <PyTypeObject*>Document:
            if not is_unshared_value(owner):
                return False
            continue
        # Consecutive elements of one document own one reference each.
        while i < elements.n and element_at(elements, i).owner == owner:
            i += 1
        if Py_REFCNT(owner) != i - run_start:
            return False
    return True
