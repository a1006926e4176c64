# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reading single records and ranges of bytes of a document, by offset."""
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from onnxwire._varint cimport (
    FAULT_LENGTH_PAST_END, MAX_DEPTH, WIRE_LEN, WIRE_START_GROUP, explain, read_any_tag, read_tag, read_value,
    read_varint,
)
from onnxwire.engine.document cimport Document
from onnxwire.engine.fetch_structure cimport MAX_HEAD_BYTES, check_range, fetch_record
from onnxwire.engine.partial cimport N_PARTIAL, fetch
from onnxwire.engine.payload cimport new_payload


@critical_section
def read_record(Document document, uint64_t offset, uint64_t end, bint is_in_group=False):
    """Read the record at an offset of a document, in a message that ends at `end`, or in a group of the message.

    is_in_group: accept field number 0, as in groups.
    Returns (number, wire type, start of the value, start of the next record, raw value). The value of a WIRE_LEN record
    starts after its length. The raw value is an int, the bits of a varint or fixed number, or None for WIRE_LEN and
    groups. For a damaged record, the start of the next record is None, and the value starts after the tag. If its tag
    can't be read, the number and the wire type are 0, and the start of the value is `offset`. If its length runs past
    the end, the value starts after the length, and the raw value is the length. An end of group is reported as a
    damaged record, with its number and wire type.
    Raises IndexError for an end outside the document, and for an offset that is not before the end.
    """
    check_range(document, offset, end)
    document.pins += 1
    try:
        fetch_record(document, offset, end)
        return read_resident(document, offset, end, is_in_group)
    finally:
        document.pins -= 1


cdef tuple read_resident(Document document, uint64_t offset, uint64_t end, bint is_in_group):
    """Implement `read_record` for a record that `fetch_record` has fetched."""
    cdef const uint8_t* p = document.start + offset
    cdef const uint8_t* end_address = document.start + end
    cdef const uint8_t* after_tag
    cdef const uint8_t* value
    cdef uint32_t tag = p[0]
    cdef uint64_t n = 0
    cdef object raw = None
    p = read_any_tag(p, end_address, &tag) if is_in_group else read_tag(p, end_address, &tag)
    if p == NULL:
        return 0, 0, offset, None, None
    after_tag = p
    p = read_value(p, end_address, tag, MAX_DEPTH, &value, &n)
    if p == NULL:
        value = after_tag
        if (
            tag & 7 == WIRE_LEN
            and explain(document.start + offset, end_address, MAX_DEPTH).fault == FAULT_LENGTH_PAST_END
        ):
            value = read_varint(value, end_address, &n)
            return tag >> 3, WIRE_LEN, value - document.start, None, n
        return tag >> 3, tag & 7, value - document.start, None, None
    if tag & 7 != WIRE_LEN and tag & 7 != WIRE_START_GROUP:
        raw = n
    return tag >> 3, tag & 7, value - document.start, p - document.start, raw


@critical_section
def read_varint_at(Document document, uint64_t offset, uint64_t end):
    """Read the varint at an offset of a packed run that ends at `end`.

    Returns the value as 64 bits, and the start of the next varint, which is None if this varint is damaged.
    """
    cdef const uint8_t* p
    cdef uint64_t n = 0
    check_range(document, offset, end)
    document.pins += 1
    try:
        if N_PARTIAL:
            fetch(document.start + offset, min(end - offset, <uint64_t>MAX_HEAD_BYTES))
        p = read_varint(document.start + offset, document.start + end, &n)
        return n, None if p == NULL else p - document.start
    finally:
        document.pins -= 1


@critical_section
def payload_at(Document document, uint64_t start, uint64_t end):
    """Return a range of a document as a read-only buffer (Payload), without a copy."""
    document.check_open()
    if start > end or end > <uint64_t>(document.end - document.start):
        raise IndexError("no such offset in the document")
    return new_payload(document, document.start + start, <Py_ssize_t>(end - start), 1, b"B", None)


@critical_section
def bytes_at(Document document, uint64_t start, uint64_t end):
    """Copy a range of a document."""
    return bytes(payload_at(document, start, end))
