# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The registry of views by message: a hash table with borrowed references.

Open addressing with linear probing. Removal leaves no tombstone: entries that follow the removed one move into the gap.
"""
from libc.stdint cimport uint64_t

from onnxwire.engine.memory cimport calloc, free
from onnxwire.engine.section cimport enable_try_incref, try_incref

cdef enum:
    MIN_CAPACITY = 256   # the first capacity; a larger hash table may shrink to half of it

cdef struct Entry:
    ViewKey key
    PyObject* view       # borrowed; NULL if the entry is free

cdef Entry* ENTRIES = NULL
cdef size_t CAPACITY = 0     # a power of two
cdef size_t N_VIEWS = 0      # number of registered views


cdef inline size_t first_index(const ViewKey* key) noexcept:
    """Return the index at which the search for a key starts: a multiplicative hash of the key."""
    cdef uint64_t hash_value = <uint64_t><size_t>key.owner * <uint64_t>0x9E3779B97F4A7C15
    hash_value = (hash_value ^ <uint64_t><size_t>key.address) * <uint64_t>0xC2B2AE3D27D4EB4F
    hash_value = (hash_value ^ <uint64_t><size_t>key.table) * <uint64_t>0x9E3779B97F4A7C15
    return <size_t>(hash_value >> 32 ^ hash_value) & (CAPACITY - 1)


cdef inline bint is_same(const ViewKey* a, const ViewKey* b) noexcept:
    return a.address == b.address and a.owner == b.owner and a.table == b.table


cdef object lookup_view(const ViewKey* key):
    """Return the registered view of a message, or None."""
    cdef size_t i
    if N_VIEWS == 0:
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
    """Register a view under a key for which `lookup_view` returned None.

    If memory can't be allocated, the view is not registered; the message may then get a second view.
    """
    global N_VIEWS
    if 2 * (N_VIEWS + 1) > CAPACITY and not resize(2 * CAPACITY if CAPACITY else MIN_CAPACITY):
        return
    enable_try_incref(view)
    put(key, view)
    N_VIEWS += 1


cdef void put(const ViewKey* key, PyObject* view) noexcept:
    """Store an entry. The hash table must have a free one."""
    cdef size_t i = first_index(key)
    while ENTRIES[i].view != NULL:
        i = (i + 1) & (CAPACITY - 1)
    ENTRIES[i].key = key[0]
    ENTRIES[i].view = view


cdef void unregister_view(const ViewKey* key, PyObject* view) noexcept:
    """Remove a view from the registry. No-op if it is not registered."""
    global N_VIEWS
    cdef size_t i
    cdef size_t next_index
    cdef size_t distance     # of the next entry from its first index
    if N_VIEWS == 0:
        return
    i = first_index(key)
    while ENTRIES[i].view != view:
        if ENTRIES[i].view == NULL:
            return
        i = (i + 1) & (CAPACITY - 1)
    # Each following entry moves into the gap, unless its first index is after the gap.
    next_index = (i + 1) & (CAPACITY - 1)
    while ENTRIES[next_index].view != NULL:
        distance = (next_index - first_index(&ENTRIES[next_index].key)) & (CAPACITY - 1)
        if distance >= ((next_index - i) & (CAPACITY - 1)):
            ENTRIES[i] = ENTRIES[next_index]
            i = next_index
        next_index = (next_index + 1) & (CAPACITY - 1)
    ENTRIES[i].view = NULL
    N_VIEWS -= 1
    if CAPACITY > MIN_CAPACITY and 16 * N_VIEWS < CAPACITY:
        resize(CAPACITY // 4)


cdef bint resize(size_t new_capacity) noexcept:
    """Change the capacity; return False if there is no memory for it."""
    global ENTRIES, CAPACITY
    cdef Entry* old_entries = ENTRIES
    cdef size_t old_capacity = CAPACITY
    cdef size_t i
    cdef Entry* entries = <Entry*>calloc(new_capacity, sizeof(Entry))
    if entries == NULL:
        return False
    ENTRIES = entries
    CAPACITY = new_capacity
    for i in range(old_capacity):
        if old_entries[i].view != NULL:
            put(&old_entries[i].key, old_entries[i].view)
    free(old_entries)
    return True


cdef void clear_view_registry() noexcept:
    """Remove all views from the registry."""
    global ENTRIES, CAPACITY, N_VIEWS
    free(ENTRIES)
    ENTRIES = NULL
    CAPACITY = N_VIEWS = 0


cdef size_t count_registered_views() noexcept:
    """Return the number of registered views."""
    return N_VIEWS
