# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A document record by record, for those who look at raw bytes."""
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport (
    FAULT_LENGTH_PAST_END, MAX_DEPTH, WIRE_LEN, WIRE_START_GROUP, explain, read_any_tag, read_tag, read_value,
    read_varint,
)
from onnxwire.engine.document cimport Document
from onnxwire.engine.partial cimport OPEN, fetch
from onnxwire.engine.payload cimport new_payload

cdef enum:
    HEAD = 32                # bytes that no tag with a length or number after it has more of


@critical_section
def read_record(Document document, uint64_t offset, uint64_t end, bint in_group=False):
    """Read the record at a byte of a document, of a message that ends at `end`, or of a group in it.

    Returns (number, wire type, start of the value, start of the next record, raw value): the value of WIRE_LEN starts
    after its length; the raw value is an int, the bits of a fixed number, or None for a length or a group. Where the
    record is damaged, the next record is None; where not even the tag could be read, the value starts at `offset`; of a
    length that runs past the end the value still starts after it, and the raw value is the length. An end of group
    reads as damaged, with its number and wire type.
    """
    cdef const uint8_t* p
    cdef const uint8_t* stop
    cdef const uint8_t* after_tag
    cdef const uint8_t* value
    cdef uint32_t tag = 0
    cdef uint64_t n = 0
    cdef object raw = None
    document.check_open()
    if end > <uint64_t>(document.end - document.start) or offset >= end:
        raise IndexError("no such offset in the document")
    stop = document.start + end
    p = document.start + offset
    if OPEN:
        fetch(p, min(end - offset, <uint64_t>HEAD))
    tag = p[0]
    if OPEN and tag & 7 == WIRE_START_GROUP:
        fetch(p, end - offset)
    p = read_any_tag(p, stop, &tag) if in_group else read_tag(p, stop, &tag)
    if p == NULL:
        return 0, 0, offset, None, None
    after_tag = p
    p = read_value(p, stop, tag, MAX_DEPTH, &value, &n)
    if p == NULL:
        value = after_tag
        if tag & 7 == WIRE_LEN and explain(document.start + offset, stop, MAX_DEPTH).fault == FAULT_LENGTH_PAST_END:
            value = read_varint(value, stop, &n)
            return tag >> 3, WIRE_LEN, value - document.start, None, n
        return tag >> 3, tag & 7, value - document.start, None, None
    if tag & 7 != WIRE_LEN and tag & 7 != WIRE_START_GROUP:
        raw = n
    return tag >> 3, tag & 7, value - document.start, p - document.start, raw


@critical_section
def read_varint_at(Document document, uint64_t offset, uint64_t end):
    """Read the varint at a byte of a packed run that ends at `end`.

    Returns (value, start of the next one): the value as 64 bits; where the varint is damaged, the next one is None.
    """
    cdef const uint8_t* p
    cdef uint64_t n = 0
    document.check_open()
    if end > <uint64_t>(document.end - document.start) or offset >= end:
        raise IndexError("no such offset in the document")
    p = document.start + offset
    if OPEN:
        fetch(p, min(end - offset, <uint64_t>HEAD))
    p = read_varint(p, document.start + end, &n)
    return n, None if p == NULL else p - document.start


@critical_section
def payload_at(Document document, uint64_t start, uint64_t end):
    """The payload of some bytes of a document."""
    document.check_open()
    if start > end or end > <uint64_t>(document.end - document.start):
        raise IndexError("no such offset in the document")
    return new_payload(document, document.start + start, <Py_ssize_t>(end - start), 1, b"B", None)


@critical_section
def bytes_at(Document document, uint64_t start, uint64_t end):
    """Copy some bytes of a document."""
    return bytes(payload_at(document, start, end))
