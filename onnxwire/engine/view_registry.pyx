# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The registry of views by message: a hash table with borrowed references.

Open addressing with linear probing. Removal leaves no tombstone: the entries after it move up.
"""
from libc.stdint cimport uint64_t

from onnxwire.engine.memory cimport calloc, free
from onnxwire.engine.section cimport enable_try_incref, try_incref

cdef enum:
    MIN_CAPACITY = 256

cdef struct Entry:
    ViewKey key
    PyObject* view       # borrowed; NULL if the entry is free

cdef Entry* ENTRIES = NULL
cdef size_t CAPACITY = 0     # a power of two
cdef size_t N = 0


cdef inline size_t first_index(const ViewKey* key) noexcept:
    cdef uint64_t mixed = <uint64_t><size_t>key.owner * <uint64_t>0x9E3779B97F4A7C15
    mixed = (mixed ^ <uint64_t><size_t>key.address) * <uint64_t>0xC2B2AE3D27D4EB4F
    mixed = (mixed ^ <uint64_t><size_t>key.table) * <uint64_t>0x9E3779B97F4A7C15
    return <size_t>(mixed >> 32 ^ mixed) & (CAPACITY - 1)


cdef inline bint is_same(const ViewKey* a, const ViewKey* b) noexcept:
    return a.address == b.address and a.owner == b.owner and a.table == b.table


cdef object lookup_view(const ViewKey* key):
    """Return the registered view of a message, or None."""
    cdef size_t i
    if N == 0:
        return None
    i = first_index(key)
    while ENTRIES[i].view != NULL:
        if is_same(&ENTRIES[i].key, key):
            view = try_incref(ENTRIES[i].view)
            if view is not None:
                return view
        i = (i + 1) & (CAPACITY - 1)
    return None


cdef void register_view(const ViewKey* key, PyObject* view) noexcept:
    """Register a view under a key without an entry.

    If memory can't be allocated, the view is not registered; the message may then get a second view.
    """
    global N
    if 2 * (N + 1) > CAPACITY and not resize(2 * CAPACITY if CAPACITY else MIN_CAPACITY):
        return
    enable_try_incref(view)
    put(key, view)
    N += 1


cdef void put(const ViewKey* key, PyObject* view) noexcept:
    cdef size_t i = first_index(key)
    while ENTRIES[i].view != NULL:
        i = (i + 1) & (CAPACITY - 1)
    ENTRIES[i].key = key[0]
    ENTRIES[i].view = view


cdef void unregister_view(const ViewKey* key, PyObject* view) noexcept:
    """Remove a view from the registry. No-op if it is not registered."""
    global N
    cdef size_t i
    cdef size_t next
    if N == 0:
        return
    i = first_index(key)
    while ENTRIES[i].view != view:
        if ENTRIES[i].view == NULL:
            return
        i = (i + 1) & (CAPACITY - 1)
    # Each following entry moves into the gap, unless its first index is after the gap.
    next = (i + 1) & (CAPACITY - 1)
    while ENTRIES[next].view != NULL:
        if ((next - first_index(&ENTRIES[next].key)) & (CAPACITY - 1)) >= ((next - i) & (CAPACITY - 1)):
            ENTRIES[i] = ENTRIES[next]
            i = next
        next = (next + 1) & (CAPACITY - 1)
    ENTRIES[i].view = NULL
    N -= 1
    if CAPACITY > MIN_CAPACITY and 16 * N < CAPACITY:
        resize(CAPACITY // 4)


cdef bint resize(size_t room) noexcept:
    """Change the capacity; return False if there is no memory for it."""
    global ENTRIES, CAPACITY
    cdef Entry* old = ENTRIES
    cdef size_t n = CAPACITY
    cdef size_t i
    cdef Entry* entries = <Entry*>calloc(room, sizeof(Entry))
    if entries == NULL:
        return False
    ENTRIES = entries
    CAPACITY = room
    for i in range(n):
        if old[i].view != NULL:
            put(&old[i].key, old[i].view)
    free(old)
    return True


cdef void clear_view_registry() noexcept:
    """Remove all views from the registry."""
    global ENTRIES, CAPACITY, N
    free(ENTRIES)
    ENTRIES = NULL
    CAPACITY = N = 0


cdef size_t count_registered_views() noexcept:
    """Return the number of registered views."""
    return N
