# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Iteration over the numbers of a field in the bytes of a message: packed runs, single records, and a mix of both."""
from libc.stdint cimport int32_t

from onnxwire._varint cimport WIRE_VARINT, load32, load64, read_varint
from onnxwire.engine.canonical cimport canonical_bits
from onnxwire.engine.damage cimport decode_error, packed_error
from onnxwire.engine.table cimport has_value
from onnxwire.engine.view cimport Record, next_usable


cdef int next_number(NumberReader* reader, const Field* field, uint64_t* raw) noexcept nogil:
    """Set `raw` to the canonical bits of the next value; return 1, 0 at the end, or -1 if the bytes are damaged.

    Values that a closed enum does not have are skipped.
    """
    cdef Record record
    while True:
        if reader.p < reader.end:
            if field.wire == WIRE_VARINT:
                reader.p = read_varint(reader.p, reader.end, raw)
                if reader.p == NULL:
                    return -1
            elif reader.end - reader.p < field.size:
                return -1
            else:
                raw[0] = load64(reader.p) if field.size == 8 else load32(reader.p)
                reader.p += field.size
        else:
            if reader.n_records_left == 0:
                return 0
            if next_usable(&reader.cursor, field, &record) <= 0:
                return -1
            reader.n_records_left -= 1
            if record.tag & 7 != field.wire:
                reader.run = reader.p = record.value
                reader.end = record.value + record.n
                continue
            raw[0] = record.n
        if field.closed and not has_value(field, <int32_t>raw[0]):
            continue
        raw[0] = canonical_bits(field, raw[0])
        return 1


cdef object number_error(Document document, const NumberReader* reader, const Field* field):
    """Make the DecodeError for numbers that next_number can't read."""
    if reader.run == NULL:
        return decode_error(document, reader.cursor.p, reader.cursor.end)
    return packed_error(document, reader.run, reader.end, 0 if field.wire == WIRE_VARINT else field.size)
