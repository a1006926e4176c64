# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Overlays: the edits of a message, stored beside its bytes, which never change.

References point one way: a view owns its overlay, and an overlay owns the values that were assigned.
Until an absent message is added to its parent, its overlay also owns a view of the parent.
"""
from cython cimport final
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._nesting_limits cimport MAX_OVERLAY_DEPTH
from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field, Slot, Table


cdef extern from *:
    """
    static const unsigned char ow_set = 0;
    """
    const uint8_t ow_set


cdef inline const uint8_t* presence_mark() noexcept nogil:
    """Return a mark for the `p` of a slot: the field is present, but its value has no address (numbers, new messages,
    changed sequences).
    """
    return &ow_set


cdef inline PyObject* owned(object o) noexcept:
    """Return a new reference, to be stored in a C pointer."""
    Py_INCREF(o)
    return <PyObject*>o


cdef struct AbsentKey:
    # Identifies an absent message: `field` of the parent message. The parent is the message at `address` of the
    # Document `owner`; if the parent has no bytes, `owner` is its Overlay. The owner is borrowed, and NULL if the
    # overlay is not in the hash table of absent messages.
    const void* owner
    const uint8_t* address
    const Field* field


@final
cdef class Overlay:
    # Created by `new_overlay` in one allocation with its per-field arrays; it has no methods, hence no vtable.
    # Views of the message read `slots`. Per field: `owners` has the object that is or contains the assigned value, else
    # NULL: str, bytes, memoryview, Overlay or Document of a singular field, Elements or Numbers of a repeated field.
    # The Document is a fork, and the slot is a span of it. `touched` is 1 if the field, or another member of its oneof,
    # was edited.
    # CopyFrom, ParseFromString and Clear exchange the content of an overlay; its address in the document's index stays.
    # Overlays are not tracked by the garbage collector, so the members are C pointers; objects are owned, except
    # `next`.
    cdef Table* table
    cdef PyObject* base          # Document of the bytes, if that is not the document of the views
    cdef PyObject* parts         # see View
    cdef PyObject* unknown       # bytes: unknown fields that were merged in
    cdef PyObject* parent        # absent messages only: the View of the parent; else NULL
    cdef Field* field            # absent messages only: the field of `parent`
    # state_of(parent, field) of view.pyx; if it changes, this message is no longer part of `parent`.
    cdef uint64_t expected_state
    cdef AbsentKey key           # absent messages only: the key in the hash table of overlay.pyx
    cdef PyObject* next          # the next overlay in the same bucket of that table
    cdef uint32_t generation     # how often exchanging the content detached views (see edit.pyx)
    cdef uint32_t* clears        # per field, the number of times that it was cleared; NULL if none was
    cdef const uint8_t* address    # the key in document.overlays; NULL for a new message
    cdef const uint8_t* address_end    # end of the message's bytes at `address`, or of the first of several parts
    cdef const uint8_t* start    # the bytes, NULL if there are none
    cdef const uint8_t* end
    cdef uint32_t flags          # see View
    cdef uint32_t depth          # nesting of forks and overlays
    cdef Slot* slots
    cdef PyObject** owners
    cdef uint8_t* touched


cdef struct Allocation:
    # The memory of an array that grows and shrinks at both ends, in elements.
    Py_ssize_t capacity          # from the first element on
    Py_ssize_t free_before       # before the first element


cdef struct Element:
    # A string, bytes or message. `owner` is NULL for a span of the message's own bytes; str or bytes that own the span;
    # a Document (a fork) that the span is in; or an Overlay, with p and n unused.
    const uint8_t* p
    uint64_t n
    PyObject* owner


@final
cdef class Elements:
    """The elements of a repeated string, bytes or message field that was changed."""
    cdef Element* items          # read by `element_at`
    cdef Py_ssize_t n
    cdef Allocation allocation
    cdef const uint8_t* origin   # the first record of the field before its first change, or NULL
    cdef Py_ssize_t n_examined   # number of leading elements that engine/freeze.pyx has examined
    # A gap buffer: free memory of `gap` elements before the element at `gap_at`, where the last edit was.
    cdef uint32_t gap_at
    cdef uint32_t gap

    cdef int add(self, const uint8_t* p, uint64_t n, object owner) except -1
    cdef int reserve(self, Py_ssize_t n) except -1
    cdef void resize_slice(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n) noexcept
    cdef void move_gap(self, Py_ssize_t position) noexcept
    cdef void close_gap(self) noexcept
    cdef void exchange_items(self, Elements other) noexcept


cdef inline Element* element_at(Elements self, Py_ssize_t i) noexcept:
    """Return the element at an index; at index n, the memory for the next element."""
    return &self.items[i + self.gap if i >= self.gap_at else i]


cdef inline Py_ssize_t free_at_end(Elements self) noexcept:
    """Return the number of elements that can be added at the end without an allocation."""
    return self.allocation.capacity - self.n - self.gap


@final
cdef class Numbers:
    """The numbers of a repeated field in C memory, decoded or assigned."""
    cdef uint8_t* items
    cdef Py_ssize_t n
    cdef Allocation allocation
    cdef int field_type
    cdef uint8_t size            # bytes per number
    cdef const uint8_t* origin   # see Elements
    # The end of the record at `origin`, a packed run of numbers that precede `items` and are not decoded yet; or NULL.
    cdef const uint8_t* run_end

    cdef int reserve(self, Py_ssize_t n) except -1
    cdef void resize_slice(self, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t n) noexcept

    @staticmethod
    cdef Numbers allocate(Py_ssize_t n, const Field* field)


cdef inline size_t fields_size(const Table* table) noexcept nogil:
    """Return the size of an overlay's arrays, from `slots` on; `touched` ends at a multiple of 8 bytes."""
    return table.n_fields * (sizeof(Slot) + sizeof(PyObject*)) + ((<size_t>table.n_fields + 7) & ~<size_t>7)


cdef Overlay new_overlay(Table* table, uint32_t depth)
cdef void put_value(Overlay self, const Field* field, const uint8_t* p, uint64_t n, PyObject* owner) noexcept
cdef int count_clear(Overlay self, uint32_t slot) except -1
cdef Overlay find_absent(const AbsentKey* key)
cdef void list_absent(Overlay self, const AbsentKey* key)
cdef void unlist_absent(Overlay self) noexcept
cdef void exchange(Overlay self, Overlay other) noexcept
