# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""DecodeErrors for damaged bytes: the fault, its byte offset and its path in the document."""
from cython cimport critical_section
from libc.stdint cimport uint8_t, uint64_t

from onnxwire._varint cimport (
    FAULT_DEPTH, FAULT_FIXED_CUT, FAULT_GROUP_OPEN, FAULT_GROUP_OTHER, FAULT_GROUP_STRAY, FAULT_LENGTH_CUT,
    FAULT_LENGTH_LONG, FAULT_LENGTH_PAST_END, FAULT_NUMBER_ZERO, FAULT_PACKED_CUT, FAULT_PACKED_LONG, FAULT_PACKED_SIZE,
    FAULT_TAG_CUT, FAULT_TAG_LONG, FAULT_VARINT_CUT, FAULT_VARINT_LONG, FAULT_WIRE_TYPE, MAX_DEPTH,
    Damage, explain, explain_packed,
)
from onnxwire.engine.document cimport Document
from onnxwire.engine.fetch_structure cimport check_range, fetch_record

from onnxwire.errors import DecodeError, count_text


cdef str describe(Damage damage, Document document, const uint8_t* end):
    """Describe a fault, and the remedy if one is known; end: the end of the damaged message."""
    cdef object detail = damage.detail
    cdef object length = damage.length
    cdef str field = f"field {damage.number}"
    cdef str bytes_end_inside = "the bytes end inside "
    # If the damaged message ends where the document ends, missing bytes mean that the end of the file is missing.
    cdef str truncated_hint = "; the file looks truncated: fetch or copy it again" if end == document.end else ""
    cdef str damaged_hint = "; the bytes are damaged, or are not a protobuf message"
    if damage.fault == FAULT_LENGTH_PAST_END:
        if end != document.end:
            return (
                f"length {length:,} of {field} runs past the end of the message by {count_text(detail, 'byte')}"
                f"{damaged_hint}"
            )
        return (
            f"length {length:,} of {field} runs past the end of the message by {count_text(detail, 'byte')}; the file "
            f"looks truncated (expected at least {end - document.start + detail:,} bytes): fetch or copy it again"
        )
    if damage.fault == FAULT_TAG_CUT:
        return f"{bytes_end_inside}a tag{truncated_hint or damaged_hint}"
    if damage.fault == FAULT_VARINT_CUT:
        return f"{bytes_end_inside}the varint of {field}{truncated_hint or damaged_hint}"
    if damage.fault == FAULT_LENGTH_CUT:
        return f"{bytes_end_inside}the length of {field}{truncated_hint or damaged_hint}"
    if damage.fault == FAULT_FIXED_CUT:
        return (
            f"the bytes end {count_text(detail, 'byte')} before the end of the {length}-byte number of {field}"
            f"{truncated_hint or damaged_hint}"
        )
    if damage.fault == FAULT_GROUP_OPEN:
        return f"{bytes_end_inside}the group of {field}{truncated_hint or damaged_hint}"
    if damage.fault == FAULT_TAG_LONG:
        return f"a tag of more than 5 bytes or 32 bits{damaged_hint}"
    if damage.fault == FAULT_NUMBER_ZERO:
        return f"a tag with field number 0{damaged_hint}"
    if damage.fault == FAULT_WIRE_TYPE:
        return f"{field} has wire type {detail}, which does not exist{damaged_hint}"
    if damage.fault == FAULT_VARINT_LONG:
        return f"the varint of {field} has more than 10 bytes{damaged_hint}"
    if damage.fault == FAULT_LENGTH_LONG:
        return f"the length of {field} has more bytes than protobuf readers accept{damaged_hint}"
    if damage.fault == FAULT_GROUP_STRAY:
        return f"an end of group for {field}, which was not opened{damaged_hint}"
    if damage.fault == FAULT_GROUP_OTHER:
        return f"the group of {field} is closed by an end of group for field {detail}{damaged_hint}"
    if damage.fault == FAULT_DEPTH:
        return f"messages and groups nested more than {MAX_DEPTH} deep, which protobuf readers refuse"
    if damage.fault == FAULT_PACKED_SIZE:
        return (
            f"the length {length:,} of a packed run is not a multiple of the {detail} bytes of a number{damaged_hint}"
        )
    if damage.fault == FAULT_PACKED_CUT:
        return f"a packed run that ends inside a varint{damaged_hint}"
    if damage.fault == FAULT_PACKED_LONG:
        return f"a packed run with a varint of more than 10 bytes{damaged_hint}"
    return f"bytes that changed while they were read{damaged_hint}"


cdef object damage_error(Document document, Damage damage, const uint8_t* end):
    """Make the DecodeError for damage in a message that ends at `end`."""
    from onnxwire.engine.field_path import field_path
    cdef object offset = damage.at - document.start
    return DecodeError(describe(damage, document, end), offset, field_path(document, offset), document.name)


cdef object decode_error(Document document, const uint8_t* record, const uint8_t* end, int depth=MAX_DEPTH):
    """Make the DecodeError for a faulty record of a message that ends at `end`; a group may open `depth` levels."""
    return damage_error(document, explain(record, end, depth), end)


cdef object packed_error(Document document, const uint8_t* start, const uint8_t* end, int size):
    """Make the DecodeError for a faulty packed run; size: bytes of a fixed-size number, or 0 for varints."""
    return damage_error(document, explain_packed(start, end, size), end)


@critical_section
def decode_error_at(Document document, uint64_t offset, uint64_t end):
    """Make the DecodeError for the damaged record at an offset of a document, in a message that ends at offset `end`.

    Raises IndexError unless offset < end <= len(document), OverflowError for negative offsets, ClosedError, and the
    errors of a remote source.
    """
    check_range(document, offset, end)
    document.pins += 1  # a fetch may run other code, which must not close the document
    try:
        fetch_record(document, offset, end)
        return decode_error(document, document.start + offset, document.start + end, MAX_DEPTH)
    finally:
        document.pins -= 1
