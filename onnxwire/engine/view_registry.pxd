# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The registry of views by message, used while `keep_identity` is on: a message then has at most one view."""
from cpython.object cimport PyObject


cdef struct ViewKey:
    # Identifies a message: by document and first byte, or by its Overlay and NULL if it has no bytes; and by its table.
    const void* owner
    const void* address
    const void* table


cdef object lookup_view(const ViewKey* key)
cdef void register_view(const ViewKey* key, PyObject* view) noexcept
cdef void unregister_view(const ViewKey* key, PyObject* view) noexcept
cdef void clear_view_registry() noexcept
cdef size_t count_registered_views() noexcept
