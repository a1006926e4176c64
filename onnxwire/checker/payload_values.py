"""Reads payloads of many tensors at once, and only small ones.

Only small payloads such as indices are read, within `limits.py`; weights are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from onnxwire._varint import decode_packed
from onnxwire.checker.facts import MERGED
from onnxwire.checker.limits import MAX_READ_BYTES, MAX_READ_RECORDS, MAX_TOTAL_READ_BYTES
from onnxwire.engine.record_reader import bytes_at, payload_at, read_record
from onnxwire.messages import TensorProto
from onnxwire.tensor.payload_layout import element_column

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnxwire.checker.facts import Facts, Rows

_LEN = 2
_HEAD = 16  # maximum bytes of a tag and a length


class Portion(NamedTuple):
    """The payloads of some tensors. rows: rows of TensorProto; lengths: the positive sizes; data: all bytes, as
    uint8."""

    rows: Rows
    lengths: Rows
    data: Rows


def payload_sizes(facts: Facts, field: str) -> Rows:
    """Return the bytes of the values in a field of TensorProto, for every tensor."""
    tensors = facts.TensorProto
    return tensors.span(field)[1] if field == "raw_data" else tensors.records(field)[3]


def portions(facts: Facts, field: str, rows: Rows) -> Iterator[Portion]:
    """Yield the bytes of raw_data, or of the numbers of another field, of some tensors, a portion at a time.

    Tensors with too many bytes in the field, or none, are left out.
    """
    tensors, sizes = facts.TensorProto, payload_sizes(facts, field)
    rows = rows[(sizes[rows] > 0) & (sizes[rows] <= MAX_READ_BYTES)]
    rows = rows[np.cumsum(sizes[rows]) <= MAX_TOTAL_READ_BYTES]
    if not len(rows):
        return
    if field == "raw_data":
        document, starts = _read_ranges(facts, tensors.span(field)[0][rows], sizes[rows])
        yield from _gather(document, rows, starts, sizes[rows])
        return
    document, at = _read_ranges(facts, tensors.records(field)[0][rows], sizes[rows] + _HEAD)
    starts, is_packed = _find_packed(facts, document, at, field, rows)
    yield from _gather(document, rows[is_packed], starts[is_packed], sizes[rows[is_packed]])
    left = MAX_READ_RECORDS
    for row in rows[~is_packed].tolist():
        left -= int(tensors.records(field)[1][row])
        if left < 0:
            return
        # The joined values of the records are a packed run.
        data = b"".join(bytes_at(facts.document, start, end) for start, end in _spans(facts, field, row))
        if data:
            yield Portion(np.array([row]), np.array([len(data)]), np.frombuffer(data, np.uint8))


def _read_ranges(facts: Facts, starts: Rows, lengths: Rows) -> tuple[Rows, Rows]:
    """Return an array with some ranges of the document, and their offsets in it; the document if resident."""
    if facts.document.memory is None:
        return np.frombuffer(memoryview(payload_at(facts.document, 0, len(facts.document))), np.uint8), starts
    ends = np.minimum(starts + lengths, len(facts.document))
    ranges = list(zip(starts.tolist(), ends.tolist(), strict=True))
    facts.document.memory.source.fetch(facts.document.memory, ranges)
    data = b"".join(bytes_at(facts.document, start, end) for start, end in ranges)
    return np.frombuffer(data, np.uint8), np.cumsum(ends - starts) - (ends - starts)


def _find_packed(facts: Facts, document: Rows, at: Rows, field: str, rows: Rows) -> tuple[Rows, Rows]:
    """Return the offsets of numbers, and whether they are one packed record, as is usual; at: offsets of tags."""
    _, records, _, _ = facts.TensorProto.records(field)
    tag = TensorProto.DESCRIPTOR.fields_by_name[field].number << 3 | _LEN
    is_packed = (records[rows] == 1) & (document[at] == tag)
    at = at + 1
    # The length follows: up to ten bytes, all of which except the last have the high bit.
    goes_on = is_packed.copy()
    for _ in range(10):
        byte = document[np.minimum(at, len(document) - 1)]
        at = at + goes_on
        goes_on &= byte >= 0x80
    return at, is_packed


def _gather(document: Rows, rows: Rows, starts: Rows, lengths: Rows) -> Iterator[Portion]:
    """Yield the bytes from `starts` on, in portions of about MAX_READ_BYTES bytes."""
    ends = np.cumsum(lengths)
    done = 0
    while done < len(rows):
        before = int(ends[done - 1]) if done else 0
        end = max(int(np.searchsorted(ends, before + MAX_READ_BYTES, "right")), done + 1)
        some = lengths[done:end]
        gaps = np.repeat(starts[done:end] - (ends[done:end] - some - before), some)
        yield Portion(rows[done:end], some, document[gaps + np.arange(len(gaps))])
        done = end


def _spans(facts: Facts, field: str, row: int) -> list[tuple[int, int]]:
    """Return the ranges of the values of a field's records; none if the tensor is in several pieces."""
    tensors = facts.TensorProto
    if tensors.flags[row] & MERGED:
        return []
    at = int(tensors.start[row])
    end = at + int(tensors.length[row])
    wanted = TensorProto.DESCRIPTOR.fields_by_name[field].number
    spans = []
    while at < end:
        number, _, value, after, _ = read_record(facts.document, at, end)
        if after is None:
            return []
        if number == wanted:
            spans.append((value, after))
        at = after
    return spans


def string_lengths(facts: Facts, rows: Rows) -> Iterator[tuple[int, list[int]]]:
    """Yield the lengths in bytes of the elements of string_data, for tensors with few elements; rows: ascending."""
    left = MAX_READ_RECORDS
    for row in rows.tolist():
        left -= int(facts.TensorProto.records("string_data")[1][row])
        if left < 0:
            return
        yield row, [end - start for start, end in _spans(facts, "string_data", row)]


def varints(portion: Portion, kind: str = "int64") -> tuple[Rows, Rows]:
    """Return the numbers of packed varints: the count of each row, and all numbers; none of damaged runs.

    kind: see `decode_packed`.
    """
    dtype = np.dtype("i8" if kind in ("int64", "uint64") else "i4")
    starts = np.cumsum(portion.lengths) - portion.lengths
    counts = np.add.reduceat(portion.data < 0x80, starts, dtype=np.int64)
    numbers = np.frombuffer(decode_packed(portion.data.data, kind), dtype)
    last = portion.data[starts + portion.lengths - 1]
    if len(numbers) == counts.sum() and (last < 0x80).all():
        return counts, numbers
    found = []
    for i, (start, length) in enumerate(zip(starts.tolist(), portion.lengths.tolist(), strict=True)):
        some = np.frombuffer(decode_packed(portion.data[start : start + length].data, kind), dtype)
        is_sound = len(some) == counts[i] and last[i] < 0x80
        counts[i] = len(some) if is_sound else 0
        found.append(some[: counts[i]])
    return counts, np.concatenate(found)


def products(counts: Rows, first: Rows, sizes: Rows) -> Any:
    """Return the product of each row's sizes, int64; -1 if it is 2**63 or more, or a size is negative.

    counts, first: for each row, the number of its elements in `sizes`, and the index of its first element.
    """
    return np.frombuffer(element_column(counts, first, sizes), np.int64)
