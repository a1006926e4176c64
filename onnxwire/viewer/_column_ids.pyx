# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Columns of a table as integer arrays: equal strings, or equal lists of strings, get the same id."""
import os

from cython cimport critical_section, final
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from onnxwire.arrow._columns cimport (
    INT64, STRING, Block, Column, Columns, StringView, Values, is_valid, text_of_string_view,
)
from onnxwire.index.interning cimport Texts, free_texts, intern


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    """Hash an integer. Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014)."""
    x = (x ^ x >> 30) * <uint64_t>0xBF58476D1CE4E5B9
    x = (x ^ x >> 27) * <uint64_t>0x94D049BB133111EB
    return x ^ x >> 31


cdef uint64_t hash_text(const uint8_t* p, uint64_t n, uint64_t seed) noexcept nogil:
    """Return the hash of `n` bytes. The last 0 to 7 bytes are padded with zeros; the length is hashed, too."""
    cdef uint64_t h = mix(seed ^ n)
    cdef uint64_t word
    while n >= 8:
        memcpy(&word, p, 8)
        h = mix(h ^ word) + seed
        p += 8
        n -= 8
    word = 0
    memcpy(&word, p, n)
    return mix(h ^ word)


cdef uint64_t prefix_length(const uint8_t* p, uint64_t n) noexcept nogil:
    """Return the length of a name before the last /; without a slash, before the last ::, else the last dot; or 0."""
    cdef uint64_t colons = 0
    cdef uint64_t dot = 0
    cdef uint64_t i
    for i in range(n, 0, -1):
        if p[i - 1] == b"/":
            return i - 1
        if colons == 0 and i > 1 and p[i - 1] == b":" and p[i - 2] == b":":
            colons = i - 2
        if dot == 0 and p[i - 1] == b".":
            dot = i - 1
    return colons if colons else dot


cdef uint64_t hash_value(
    const Block* block, const Values* values, int64_t i, uint64_t seed, uint64_t max_bytes
) noexcept nogil:
    """Return the hash of the string in row `i`; null has a hash of its own.

    max_bytes: if not 0, hash only the first `max_bytes` bytes, without the last part of the name (`prefix_length`).
    """
    cdef const StringView* view = &(<const StringView*>values.data)[i]
    cdef const uint8_t* p
    cdef uint64_t n
    if not is_valid(values, i):
        return mix(seed + 1)
    p = text_of_string_view(block, view)
    n = <uint64_t>view.size
    if max_bytes:
        n = prefix_length(p, n if n < max_bytes else max_bytes)
    return hash_text(p, n, seed)


@final
cdef class Ids:
    """Intern strings: each new string gets the next id, from 0 on.

    Strings are compared by a 64-bit hash with a random seed, so that no file can be crafted to collide; the
    probability of a collision among a million strings is below 1 in 30 million.
    """
    cdef Texts hashes  # the hashes of the strings, each interned as a text of 8 bytes

    @critical_section
    def __cinit__(self):
        self.hashes.seed = int.from_bytes(os.urandom(8), "little")

    def __dealloc__(self):
        free_texts(&self.hashes)

    @critical_section
    def __len__(self):
        return self.hashes.n

    @critical_section
    def add(self, Columns columns not None, str name, const int32_t[::1] salts=None, uint64_t max_bytes=0):
        """Return the ids of the rows of a column of strings, or of lists of strings.

        salts: an integer for each row; rows get the same id only if their salts are equal too. max_bytes: if not 0,
        compare only the first `max_bytes` bytes of each string, without the last part of the name: the text after the
        last /; without a slash, after the last ::; without both, after the last dot. Ignored for lists of strings.
        Returns the id of each row as bytes of int32, -1 for a null, and a list with the first row of each new id.
        """
        cdef const Column* column = &columns.block.columns[<Py_ssize_t>columns.names.index(name)]
        cdef const int32_t* ends = <const int32_t*>column.rows.data
        cdef int64_t n = len(columns)
        cdef bytearray ids = bytearray(n * 4)
        cdef int32_t* out_ids = <int32_t*><char*>ids
        cdef int64_t row
        cdef int64_t i
        cdef int32_t n_before
        cdef uint64_t h
        if column.type != STRING or columns.block.is_copied:
            raise TypeError("only columns of string views have ids")
        if salts is not None and len(salts) != n:
            raise ValueError("salts must have one element per row")
        new_rows = []
        for row in range(n):
            if not is_valid(&column.rows, row):
                out_ids[row] = -1
                continue
            h = self.hashes.seed if salts is None else mix(self.hashes.seed + <uint64_t>salts[row])
            if column.is_list:
                for i in range(ends[row], ends[row + 1]):
                    h = hash_value(&columns.block, &column.items, i, h, 0)
            else:
                h = hash_value(&columns.block, &column.rows, row, h, max_bytes)
            n_before = self.hashes.n
            out_ids[row] = intern(&self.hashes, <const uint8_t*>&h, 8, <uint32_t>h)
            if out_ids[row] < 0:
                raise MemoryError
            if out_ids[row] == n_before:
                new_rows.append(row)
        return ids, new_rows


@critical_section
def integers_of(Columns columns not None, str name):
    """Return the integers of a column as bytes of int64; -1 for a null."""
    cdef const Column* column = &columns.block.columns[<Py_ssize_t>columns.names.index(name)]
    cdef int64_t n = len(columns)
    cdef bytearray result = bytearray(n * 8)
    cdef int64_t* out_numbers = <int64_t*><char*>result
    cdef int64_t i
    if column.is_list or column.type == STRING:
        raise TypeError("this is not a column of integers")
    for i in range(n):
        if not is_valid(&column.rows, i):
            out_numbers[i] = -1
        elif column.type == INT64:
            out_numbers[i] = (<const int64_t*>column.rows.data)[i]
        else:
            out_numbers[i] = (<const int32_t*>column.rows.data)[i]
    return result
