# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Strings decoded from bytes, and a cache of short strings that occur repeatedly in a document."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from onnxwire._varint cimport load32, load64

cdef extern from "Python.h":
    object PyUnicode_New(Py_ssize_t size, Py_UCS4 maxchar)
    uint8_t* PyUnicode_1BYTE_DATA(object text)

cdef enum:
    N_CACHED_TEXTS = 64          # number of entries of a document's cache
    MIN_CACHED_TEXT_BYTES = 2    # minimum size of a cached string; Python caches shorter ones
    MAX_CACHED_TEXT_BYTES = 16   # maximum size of a cached string: keys are two 64-bit words
    MIN_TEXTS_BEFORE_CACHE = 32  # number of short strings that a document makes before it allocates the cache
    MAX_ASCII_CHECK_BYTES = 256  # maximum size of a string that `new_text` checks for ASCII


cdef struct Text:
    # An entry of the cache: a string, its number of bytes, and its first and last eight bytes, which may overlap. The
    # bytes of a string of fewer than eight bytes are all in `low`.
    uint64_t low
    uint64_t high
    uint64_t n
    PyObject* text


cdef inline int character_bytes(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Return the length in bytes of the UTF-8 character at p; 0 if it is not valid, or not complete before `end`.

    Valid characters have the shortest form, are no surrogates, and are at most U+10FFFF.
    """
    cdef int n, i
    cdef uint32_t code
    if p[0] < 0x80:
        return 1
    if p[0] >= 0xF5 or p[0] < 0xC2:
        return 0
    n = 2 if p[0] < 0xE0 else 3 if p[0] < 0xF0 else 4
    if end - p < n:
        return 0
    code = p[0] & (0x7F >> n)
    for i in range(1, n):
        if p[i] & 0xC0 != 0x80:
            return 0
        code = code << 6 | (p[i] & 0x3F)
    if n == 3 and (code < 0x800 or 0xD800 <= code < 0xE000) or n == 4 and not 0x10000 <= code <= 0x10FFFF:
        return 0
    return n


cdef inline object new_text(const uint8_t* p, uint64_t n):
    """Decode UTF-8, with surrogates for invalid bytes."""
    cdef uint64_t all_bits = 0   # bitwise or of all bytes, in groups of eight
    cdef uint64_t i = 0
    if n < MIN_CACHED_TEXT_BYTES or n > MAX_ASCII_CHECK_BYTES:
        return PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>n, "surrogateescape")
    if n < 8:
        for i in range(n):
            all_bits |= p[i]
    else:
        while n - i > 8:
            all_bits |= load64(p + i)
            i += 8
        all_bits |= load64(p + n - 8)
    if all_bits & <uint64_t>0x8080808080808080:
        return PyUnicode_DecodeUTF8(<const char*>p, <Py_ssize_t>n, "surrogateescape")
    text = PyUnicode_New(<Py_ssize_t>n, 127)
    memcpy(PyUnicode_1BYTE_DATA(text), p, n)
    return text


cdef inline Text key_of_text(const uint8_t* p, uint64_t n) noexcept:
    """Return the key of a string of MIN_CACHED_TEXT_BYTES to MAX_CACHED_TEXT_BYTES bytes."""
    cdef Text key = Text(0, 0, n, NULL)
    if n >= 8:
        key.low = load64(p)
        key.high = load64(p + n - 8)
    elif n >= 4:
        key.low = load32(p) | <uint64_t>load32(p + n - 4) << 32
    else:
        key.low = p[0] | <uint64_t>p[n >> 1] << 8 | <uint64_t>p[n - 1] << 16
    return key


cdef inline Text* entry_of(Text* texts, const Text* key) noexcept:
    """Return the only entry that can contain a string; its index is the top 6 bits of a hash of the key."""
    return &texts[((key.low ^ key.high * 31 ^ key.n) * <uint64_t>0x9E3779B97F4A7C15) >> 58]


cdef inline PyObject* cached_text(Text* texts, const Text* key) noexcept:
    """Return the cached string of a key, borrowed, or NULL."""
    cdef Text* entry = entry_of(texts, key)
    if entry.low == key.low and entry.high == key.high and entry.n == key.n:
        return entry.text
    return NULL


cdef inline void cache_text(Text* texts, const Text* key, object text) noexcept:
    """Cache a string; it replaces the string in its entry."""
    cdef Text* entry = entry_of(texts, key)
    cdef PyObject* old_text = entry.text
    entry[0] = key[0]
    Py_INCREF(text)
    entry.text = <PyObject*>text
    Py_XDECREF(old_text)
