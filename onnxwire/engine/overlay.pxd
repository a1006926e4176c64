# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The edits of a message, kept beside the bytes that they replace.

Overlays point down: to the bytes that they edit, and to the values that were put in. Views point up at them.
"""
from cython cimport final
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire.engine.document cimport Document
from onnxwire.engine.table cimport Field, Slot, Table

cdef enum:
    DEEPEST = 500        # overlays in one another, so that no chain of them can use up the stack


cdef extern from *:
    """
    static const unsigned char ow_set = 0;
    """
    const uint8_t ow_set


cdef inline const uint8_t* set_mark() noexcept nogil:
    """The target of a slot whose field has a value that is in no bytes."""
    return &ow_set


cdef inline PyObject* owned(object o) noexcept:
    """A new reference, for a C pointer to keep."""
    Py_INCREF(o)
    return <PyObject*>o


cdef struct AbsentKey:
    # A message that is not there: the field that it would be, of the message that has its first byte at `address` in a
    # document, or whose Overlay is the owner where it has no bytes. The owner is borrowed; NULL for what is not listed.
    const void* owner
    const uint8_t* address
    const Field* field


@final
cdef class Overlay:
    # Made by `new_overlay`, in one piece of memory with its fields; it has no methods, hence no table of them.
    # Its slots are what the views of the message read. Of each field: `held` owns the value that was put in, if that
    # is an object: str, bytes, Overlay or Document (a fork, with the slot as the span) of a singular field,
    # Elements or Numbers of a repeated one; `touched` tells that the field is no longer what the bytes say.
    # What is registered in a document stays so when its content is exchanged for another message's.
    # The members are C pointers because overlays are not tracked by the garbage collector; objects are owned.
    cdef Table* table
    cdef PyObject* base          # Document of the bytes, where that is not the one of the views
    cdef PyObject* parts         # as of a view
    cdef PyObject* unknown       # bytes: unknown fields that were merged in
    cdef PyObject* parent        # the view of the message that it would stand in, of one that is not there; else NULL
    cdef Field* field            # the field of `parent`
    cdef uint64_t expected       # the state_of `parent` in which it may be put there
    cdef AbsentKey key           # by which it is listed as long as it is not there; `next` is of the list's bucket
    cdef PyObject* next
    cdef uint32_t generation     # how often the message was exchanged for another
    cdef uint32_t* clears        # of each field, how often it was cleared; NULL as long as none was
    cdef const uint8_t* address    # where the document has it registered, NULL for a new message
    cdef const uint8_t* address_end    # the end of the bytes that it was registered for, of its first piece
    cdef const uint8_t* start    # the bytes, NULL where there are none
    cdef const uint8_t* end
    cdef uint32_t flags          # as of a view
    cdef uint32_t depth
    cdef Slot* slots
    cdef PyObject** held
    cdef uint8_t* touched


cdef struct Element:
    # Of a string, bytes or message field. held NULL: a span of the bytes that the message was read from; str or bytes:
    # their owner; Document: p and n are a span of that fork; Overlay: neither p nor n.
    const uint8_t* p
    uint64_t n
    PyObject* held


@final
cdef class Elements:
    """The elements of a repeated string, bytes or message field that was changed."""
    cdef Element* items
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef const uint8_t* origin   # the first record of what they were at first, or NULL
    cdef Py_ssize_t folded       # for how many of the first it was tried to make bytes of them; see engine/freeze.pyx

    cdef int insert(self, Py_ssize_t i, const uint8_t* p, uint64_t n, object held) except -1
    cdef int reserve(self, Py_ssize_t n) except -1


@final
cdef class Numbers:
    """A decoded array in C memory."""
    cdef uint8_t* items
    cdef Py_ssize_t n
    cdef Py_ssize_t capacity
    cdef int field_type
    cdef uint8_t size            # bytes of a number
    cdef const uint8_t* origin   # as of Elements

    cdef int reserve(self, Py_ssize_t n) except -1

    @staticmethod
    cdef Numbers allocate(Py_ssize_t n, const Field* field)


cdef Overlay new_overlay(Table* table, uint32_t depth)
cdef void put_value(Overlay self, const Field* field, const uint8_t* p, uint64_t n, PyObject* held) noexcept
cdef int count_clear(Overlay self, uint32_t slot) except -1
cdef Overlay find_absent(const AbsentKey* key)
cdef void list_absent(Overlay self, const AbsentKey* key)
cdef void unlist_absent(Overlay self) noexcept
cdef void exchange(Overlay self, Overlay other) noexcept
