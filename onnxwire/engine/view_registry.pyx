# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The views that there are, by the messages that they are of: a hash table that keeps none of them alive.

Open addressing with linear probing. What is taken out leaves no mark: those after it move up.
"""
from libc.stdint cimport uint64_t

from onnxwire.engine.memory cimport calloc, free
from onnxwire.engine.section cimport enable_try_incref, try_incref

cdef enum:
    LEAST = 256          # entries that there is room for

cdef struct Entry:
    ViewKey key
    PyObject* view       # borrowed; NULL for none

cdef Entry* ENTRIES = NULL
cdef size_t ROOM = 0     # a power of two
cdef size_t N = 0


cdef inline size_t first_index(const ViewKey* key) noexcept:
    cdef uint64_t mixed = <uint64_t><size_t>key.owner * <uint64_t>0x9E3779B97F4A7C15
    mixed = (mixed ^ <uint64_t><size_t>key.address) * <uint64_t>0xC2B2AE3D27D4EB4F
    mixed = (mixed ^ <uint64_t><size_t>key.table) * <uint64_t>0x9E3779B97F4A7C15
    return <size_t>(mixed >> 32 ^ mixed) & (ROOM - 1)


cdef inline bint is_same(const ViewKey* a, const ViewKey* b) noexcept:
    return a.address == b.address and a.owner == b.owner and a.table == b.table


cdef object lookup_view(const ViewKey* key):
    """The view of a message, or None."""
    cdef size_t i
    if N == 0:
        return None
    i = first_index(key)
    while ENTRIES[i].view != NULL:
        if is_same(&ENTRIES[i].key, key):
            view = try_incref(ENTRIES[i].view)
            if view is not None:
                return view
        i = (i + 1) & (ROOM - 1)
    return None


cdef void register_view(const ViewKey* key, PyObject* view) noexcept:
    """Have a view found by a key by which none is found; without memory it is not, and there may be another later."""
    global N
    if 2 * (N + 1) > ROOM and not resize(2 * ROOM if ROOM else LEAST):
        return
    enable_try_incref(view)
    put(key, view)
    N += 1


cdef void put(const ViewKey* key, PyObject* view) noexcept:
    cdef size_t i = first_index(key)
    while ENTRIES[i].view != NULL:
        i = (i + 1) & (ROOM - 1)
    ENTRIES[i].key = key[0]
    ENTRIES[i].view = view


cdef void unregister_view(const ViewKey* key, PyObject* view) noexcept:
    """Have a view be found no longer, if it was."""
    global N
    cdef size_t i
    cdef size_t next
    if N == 0:
        return
    i = first_index(key)
    while ENTRIES[i].view != view:
        if ENTRIES[i].view == NULL:
            return
        i = (i + 1) & (ROOM - 1)
    # Each of those that follow moves into the gap, unless its own first index comes after that.
    next = (i + 1) & (ROOM - 1)
    while ENTRIES[next].view != NULL:
        if ((next - first_index(&ENTRIES[next].key)) & (ROOM - 1)) >= ((next - i) & (ROOM - 1)):
            ENTRIES[i] = ENTRIES[next]
            i = next
        next = (next + 1) & (ROOM - 1)
    ENTRIES[i].view = NULL
    N -= 1
    if ROOM > LEAST and 16 * N < ROOM:
        resize(ROOM // 4)


cdef bint resize(size_t room) noexcept:
    """Give the table another size; tells whether there was memory for it."""
    global ENTRIES, ROOM
    cdef Entry* old = ENTRIES
    cdef size_t n = ROOM
    cdef size_t i
    cdef Entry* entries = <Entry*>calloc(room, sizeof(Entry))
    if entries == NULL:
        return False
    ENTRIES = entries
    ROOM = room
    for i in range(n):
        if old[i].view != NULL:
            put(&old[i].key, old[i].view)
    free(old)
    return True


cdef void clear_view_registry() noexcept:
    """Have no view be found any more."""
    global ENTRIES, ROOM, N
    free(ENTRIES)
    ENTRIES = NULL
    ROOM = N = 0


cdef size_t count_registered_views() noexcept:
    """How many views are found."""
    return N
