# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The registry of views by message, used after `keep_identity(True)`, so that a message has one view."""
from cpython.object cimport PyObject


cdef struct ViewKey:
    # Identifies a message.
    const void* owner        # its document; or its Overlay, if it has no bytes
    const void* address      # the address of its first byte; or NULL
    const void* table


cdef object lookup_view(const ViewKey* key)
cdef void register_view(const ViewKey* key, PyObject* view) noexcept
cdef void unregister_view(const ViewKey* key, PyObject* view) noexcept
cdef void clear_view_registry() noexcept
cdef size_t count_registered_views() noexcept
