# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The views that there are, by the messages that they are of; for when one message is to have one view at a time."""
from cpython.object cimport PyObject


cdef struct ViewKey:
    # Which message it is: its first byte in a document, or its Overlay where it has none; and its table.
    const void* owner
    const void* address
    const void* table


cdef object lookup_view(const ViewKey* key)
cdef void register_view(const ViewKey* key, PyObject* view) noexcept
cdef void unregister_view(const ViewKey* key, PyObject* view) noexcept
cdef void clear_view_registry() noexcept
cdef size_t count_registered_views() noexcept
