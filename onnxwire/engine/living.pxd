# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The views that there are, by the messages that they are of; for when one message is to have one view at a time."""
from cpython.object cimport PyObject


cdef struct LivingKey:
    # Which message it is: its first byte in a document, or its Overlay where it has none; and its table.
    const void* owner
    const void* address
    const void* table


cdef object find_living(const LivingKey* key)
cdef void list_living(const LivingKey* key, PyObject* view) noexcept
cdef void unlist_living(const LivingKey* key, PyObject* view) noexcept
cdef void forget_living() noexcept
cdef size_t count_living() noexcept
