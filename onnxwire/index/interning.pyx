# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Interned strings: equal strings have equal ids.

A hash table with open addressing maps strings to ids. The traits of a string are recorded when it is added.
"""
from libc.string cimport memcmp, memcpy, memset

from onnxwire._varint cimport load32, load64
from onnxwire.engine.advise cimport prefetch
from onnxwire.engine.memory cimport free, realloc
from onnxwire.engine.texts cimport character_bytes

cdef enum:
    IS_IDENTIFIER = 1    # traits of a string: matches [A-Za-z_][A-Za-z0-9_]*
    IS_ASCII = 2
    IS_UTF8 = 4
    HAS_ANGLE_BRACKET = 8  # contains "<"
    HAS_DOT = 16         # contains "."


cdef inline uint64_t mix(uint64_t a) noexcept nogil:
    """Spread each bit of a number over all bits. The factor is that of Boost's hash_mix."""
    a ^= a >> 32
    a *= <uint64_t>0xE9846AF9B1A615D
    return a ^ a >> 32


cdef inline uint32_t hash_text(const uint8_t* p, uint64_t n, uint64_t seed) noexcept nogil:
    """Hash a string. seed: random, so that no file can contain strings made to collide."""
    cdef uint64_t hash = seed ^ n
    cdef uint64_t tail = 0
    cdef const uint8_t* last
    if n >= 8:
        last = p + (n - 8)
        while p < last:
            hash = mix(hash ^ load64(p))
            p += 8
        tail = load64(last)  # the last word may overlap the previous one
    elif n >= 4:
        tail = load32(p) | <uint64_t>load32(p + n - 4) << 32
    elif n:
        tail = p[0] | <uint64_t>p[n >> 1] << 8 | <uint64_t>p[n - 1] << 16
    return <uint32_t>mix(hash ^ tail ^ seed >> 7)


cdef uint8_t[256] TRAITS_BY_BYTE


cdef int fill_traits() noexcept:
    """Fill TRAITS_BY_BYTE, the traits of each byte.

    A string has IS_IDENTIFIER and IS_ASCII only if all its bytes have them, and HAS_ANGLE_BRACKET and HAS_DOT if any
    byte has them. Further conditions are in `find_traits`.
    """
    cdef int i
    for i in range(256):
        TRAITS_BY_BYTE[i] = 0
        if c"0" <= i <= c"9" or c"A" <= i <= c"Z" or c"a" <= i <= c"z" or i == c"_":
            TRAITS_BY_BYTE[i] |= IS_IDENTIFIER
        if i < 128:
            TRAITS_BY_BYTE[i] |= IS_ASCII
        if i == c"<":
            TRAITS_BY_BYTE[i] |= HAS_ANGLE_BRACKET
        if i == c".":
            TRAITS_BY_BYTE[i] |= HAS_DOT
    return 0


fill_traits()


cdef bint is_utf8(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return whether bytes are valid UTF-8."""
    cdef int n
    while p < end:
        n = character_bytes(p, end)
        if n == 0:
            return False
        p += n
    return True


cdef uint8_t find_traits(const uint8_t* p, uint64_t n) noexcept nogil:
    """Return the traits of a string: IS_IDENTIFIER, ..."""
    cdef uint8_t all_traits = IS_IDENTIFIER | IS_ASCII
    cdef uint8_t any_traits = 0
    cdef uint64_t i
    for i in range(n):
        all_traits &= TRAITS_BY_BYTE[p[i]]
        any_traits |= TRAITS_BY_BYTE[p[i]]
    if n == 0 or c"0" <= p[0] <= c"9":
        all_traits &= <uint8_t>~IS_IDENTIFIER
    any_traits &= HAS_ANGLE_BRACKET | HAS_DOT
    if all_traits & IS_ASCII or is_utf8(p, p + n):
        any_traits |= IS_UTF8
    return (all_traits & (IS_IDENTIFIER | IS_ASCII)) | any_traits


cdef int32_t find_id_or_bucket(const Texts* texts, const uint8_t* p, uint64_t n, uint32_t hash) noexcept nogil:
    """Return the id of a string; for a string without id, -1 - i, where i is the index of the bucket to fill."""
    cdef uint32_t i = hash & (texts.n_buckets - 1)
    cdef int32_t id = texts.buckets[i].id
    while id >= 0:
        if (
            texts.buckets[i].hash == hash and texts.start[id + 1] - texts.start[id] == n
            and memcmp(texts.arena + texts.start[id], p, n) == 0
        ):
            return id
        i = (i + 1) & (texts.n_buckets - 1)
        id = texts.buckets[i].id
    return -1 - <int32_t>i


cdef int32_t find_text(const Texts* texts, const uint8_t* p, uint64_t n) noexcept nogil:
    cdef int32_t id = find_id_or_bucket(texts, p, n, hash_text(p, n, texts.seed)) if n else 0
    return id if id >= 0 else -1


cdef int grow_buckets(Texts* texts) noexcept nogil:
    """Double the number of buckets and insert all strings again.

    Returns 0; -1 if memory is exhausted or there are 2**30 buckets.
    """
    cdef uint32_t i, k
    cdef int32_t capacity
    if texts.n_buckets >= 1u << 30:
        return -1
    capacity = <int32_t>texts.n_buckets * 2 if texts.n_buckets else 1024
    if grow_array(<void**>&texts.buckets, capacity, sizeof(Bucket)):
        return -1
    texts.n_buckets = <uint32_t>capacity
    memset(texts.buckets, 0xFF, <size_t>capacity * sizeof(Bucket))  # sets each id to -1
    for k in range(<uint32_t>texts.n):
        i = texts.hashes[k] & (texts.n_buckets - 1)
        while texts.buckets[i].id >= 0:
            i = (i + 1) & (texts.n_buckets - 1)
        texts.buckets[i].id = <int32_t>k
        texts.buckets[i].hash = texts.hashes[k]
    return 0


cdef uint32_t hash_and_prefetch(const Texts* texts, const uint8_t* p, uint64_t n) noexcept nogil:
    cdef uint32_t hash = hash_text(p, n, texts.seed)
    if texts.n_buckets:
        prefetch(&texts.buckets[hash & (texts.n_buckets - 1)])
    return hash


cdef int32_t intern(Texts* texts, const uint8_t* p, uint64_t n, uint32_t hash) noexcept nogil:
    cdef uint32_t i
    cdef int32_t id, capacity
    cdef uint64_t size
    cdef void* arena
    if n == 0 and texts.n:
        return 0
    if <uint32_t>texts.n * 2 >= texts.n_buckets and grow_buckets(texts):
        return -1
    id = find_id_or_bucket(texts, p, n, hash)
    if id >= 0:
        return id
    i = <uint32_t>(-1 - id)
    id = texts.n
    if id + 1 >= texts.capacity:
        capacity = texts.capacity * 2 if texts.capacity else 1024
        if (
            grow_array(<void**>&texts.start, capacity, 8) or grow_array(<void**>&texts.hashes, capacity, 4)
            or grow_array(<void**>&texts.traits, capacity, 1)
        ):
            return -1
        texts.capacity = capacity
    if texts.arena_size + n > texts.arena_capacity or texts.arena == NULL:
        size = (texts.arena_size + n) * 2 + 4096
        arena = realloc(texts.arena, size)
        if arena == NULL:
            return -1
        texts.arena = <uint8_t*>arena
        texts.arena_capacity = size
    if n:
        memcpy(texts.arena + texts.arena_size, p, n)
    texts.start[id] = texts.arena_size
    texts.arena_size += n
    texts.start[id + 1] = texts.arena_size
    texts.hashes[id] = hash
    texts.traits[id] = find_traits(p, n)
    texts.buckets[i].id = id
    texts.buckets[i].hash = hash
    texts.n = id + 1
    return id


cdef void free_texts(Texts* texts) noexcept nogil:
    free(texts.arena)
    free(texts.start)
    free(texts.traits)
    free(texts.hashes)
    free(texts.buckets)
