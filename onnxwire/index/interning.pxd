# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A hash table of strings, each stored once."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from onnxwire.engine.advise cimport ow_request_huge_pages
from onnxwire.engine.memory cimport realloc

cdef struct Bucket:
    uint32_t hash
    int32_t id           # -1 in an empty bucket

cdef struct Texts:
    # An empty hash table is all zeros except the seed, which is random: no file can contain strings made to collide.
    uint64_t seed
    int32_t n            # the number of ids; id 0 is the empty string, which the caller inserts first
    int32_t capacity     # of `start`, `traits` and `hashes`, in elements
    uint64_t* start      # n + 1 offsets in the arena
    uint8_t* traits      # of each id: IS_IDENTIFIER, ... of interning.pyx
    uint32_t* hashes
    uint8_t* arena       # the bytes of all strings
    uint64_t arena_size
    uint64_t arena_capacity
    Bucket* buckets
    uint32_t n_buckets

# Return the hash of a string, for `intern`; prefetch its bucket into the processor's cache.
cdef uint32_t hash_and_prefetch(const Texts* texts, const uint8_t* p, uint64_t n) noexcept nogil
# Return the id of a string, added if it is new; -1 if memory, or the number of ids, is exhausted.
cdef int32_t intern(Texts* texts, const uint8_t* p, uint64_t n, uint32_t hash) noexcept nogil
# Return the id of a string, or -1 if the hash table does not contain the string.
cdef int32_t find_text(const Texts* texts, const uint8_t* p, uint64_t n) noexcept nogil
cdef void free_texts(Texts* texts) noexcept nogil
cdef bint is_utf8(const uint8_t* p, const uint8_t* end) noexcept nogil


cdef inline int grow_array(void** data, int32_t capacity, size_t size) noexcept nogil:
    """Grow an array to `capacity` elements of `size` bytes; return -1, array unchanged, if memory is exhausted."""
    cdef void* p = realloc(data[0], <size_t>capacity * size)
    if p == NULL:
        return -1
    data[0] = p
    ow_request_huge_pages(p, <size_t>capacity * size)
    return 0
