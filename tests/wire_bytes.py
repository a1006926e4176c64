"""Encode records of the wire format. The module imports no package, so that child processes of tests start fast."""

from __future__ import annotations

VARINT, FIXED64, LEN, START, END, FIXED32 = range(6)  # wire types; START and END delimit a group
MAX_NUMBER = (1 << 29) - 1  # the largest field number


def varint(value, pad=0):
    """Encode the low 64 bits of an int as a varint, `pad` bytes longer than necessary."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    if pad:
        out[-1] |= 0x80
        out += b"\x80" * (pad - 1) + b"\x00"
    return bytes(out)


def tag(field_number, wire_type, pad=0):
    """Return a tag, `pad` bytes longer than necessary."""
    return varint(field_number << 3 | wire_type, pad)


def len_record(field_number, data, pad=0):
    """Return a record of wire type LEN; its length varint is `pad` bytes longer than necessary."""
    return tag(field_number, LEN) + varint(len(data), pad) + data


def varint_record(field_number, value, pad=0):
    """Return a record of wire type VARINT; its value is `pad` bytes longer than necessary."""
    return tag(field_number, VARINT) + varint(value, pad)


def group(field_number, data=b""):
    """Return a group that contains the records `data`."""
    return tag(field_number, START) + data + tag(field_number, END)
