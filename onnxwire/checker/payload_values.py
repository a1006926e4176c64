"""Reads the small payloads of many tensors at once, such as indices, within the limits of `limits.py`."""

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

_WIRE_LEN = 2
_MAX_HEADER_BYTES = 16  # maximum bytes of a tag and a length


class Portion(NamedTuple):
    """The payloads of some tensors.

    rows: the rows of TensorProto. lengths: the size of each payload in bytes, positive. data: the bytes of all
    payloads, uint8.
    """

    rows: Rows
    lengths: Rows
    data: Rows


def payload_sizes(facts: Facts, field: str) -> Rows:
    """Return the number of bytes of the values in a field of TensorProto, for every tensor."""
    tensors = facts.TensorProto
    return tensors.span(field)[1] if field == "raw_data" else tensors.records(field)[3]


def portions(facts: Facts, field: str, rows: Rows) -> Iterator[Portion]:
    """Yield the bytes of raw_data, or of the numbers of another field, of some tensors, a portion at a time.

    Tensors with no bytes or more than MAX_READ_BYTES bytes in the field are omitted, and so are all tensors after
    MAX_TOTAL_READ_BYTES bytes. Of the tensors whose numbers are not one packed record, those that are damaged or must
    be merged are omitted, too, and all after MAX_READ_RECORDS records.
    """
    tensors, sizes = facts.TensorProto, payload_sizes(facts, field)
    rows = rows[(sizes[rows] > 0) & (sizes[rows] <= MAX_READ_BYTES)]
    rows = rows[np.cumsum(sizes[rows]) <= MAX_TOTAL_READ_BYTES]
    if not len(rows):
        return
    if field == "raw_data":
        array, starts = _read_ranges(facts, tensors.span(field)[0][rows], sizes[rows])
        yield from _gather(array, rows, starts, sizes[rows])
        return
    array, tag_offsets = _read_ranges(facts, tensors.records(field)[0][rows], sizes[rows] + _MAX_HEADER_BYTES)
    starts, is_packed = _find_packed(facts, array, tag_offsets, field, rows)
    yield from _gather(array, rows[is_packed], starts[is_packed], sizes[rows[is_packed]])
    records_left = MAX_READ_RECORDS
    for row in rows[~is_packed].tolist():
        records_left -= int(tensors.records(field)[1][row])
        if records_left < 0:
            return
        # The joined values of the records are a packed run.
        data = b"".join(bytes_at(facts.document, start, end) for start, end in _spans(facts, field, row))
        if data:
            yield Portion(np.array([row]), np.array([len(data)]), np.frombuffer(data, np.uint8))


def _read_ranges(facts: Facts, starts: Rows, lengths: Rows) -> tuple[Rows, Rows]:
    """Return an array that contains some ranges of the document, and the offset of each range in the array.

    If the document has no partial memory, the array is the whole document.
    """
    if facts.document.memory is None:
        return np.frombuffer(memoryview(payload_at(facts.document, 0, len(facts.document))), np.uint8), starts
    ends = np.minimum(starts + lengths, len(facts.document))
    ranges = list(zip(starts.tolist(), ends.tolist(), strict=True))
    facts.document.memory.source.fetch(facts.document.memory, ranges)
    data = b"".join(bytes_at(facts.document, start, end) for start, end in ranges)
    return np.frombuffer(data, np.uint8), np.cumsum(ends - starts) - (ends - starts)


def _find_packed(facts: Facts, array: Rows, offsets: Rows, field: str, rows: Rows) -> tuple[Rows, Rows]:
    """Return the offset in `array` of each tensor's numbers if they are one packed record, and whether they are.

    offsets: the offset of the first record's tag in `array`, for each tensor.
    """
    _, records, _, _ = facts.TensorProto.records(field)
    tag = TensorProto.DESCRIPTOR.fields_by_name[field].number << 3 | _WIRE_LEN
    is_packed = (records[rows] == 1) & (array[offsets] == tag)
    # The tag has one byte. The length follows: up to ten bytes, all of which except the last have the high bit.
    offsets = offsets + 1
    has_next_byte = is_packed.copy()
    for _ in range(10):
        byte = array[np.minimum(offsets, len(array) - 1)]
        offsets = offsets + has_next_byte
        has_next_byte &= byte >= 0x80
    return offsets, is_packed


def _gather(array: Rows, rows: Rows, starts: Rows, lengths: Rows) -> Iterator[Portion]:
    """Yield the range of each tensor in `array`, in portions of at most MAX_READ_BYTES bytes or one range."""
    ends = np.cumsum(lengths)
    start_row = 0
    while start_row < len(rows):
        bytes_before = int(ends[start_row - 1]) if start_row else 0
        stop_row = max(int(np.searchsorted(ends, bytes_before + MAX_READ_BYTES, "right")), start_row + 1)
        portion_lengths = lengths[start_row:stop_row]
        byte_shifts = np.repeat(
            starts[start_row:stop_row] - (ends[start_row:stop_row] - portion_lengths - bytes_before), portion_lengths
        )
        yield Portion(rows[start_row:stop_row], portion_lengths, array[byte_shifts + np.arange(len(byte_shifts))])
        start_row = stop_row


def _spans(facts: Facts, field: str, row: int) -> list[tuple[int, int]]:
    """Return the start and end of each value of a field of a tensor; [] if it is damaged or must be merged."""
    tensors = facts.TensorProto
    if tensors.flags[row] & MERGED:
        return []
    offset = int(tensors.start[row])
    end = offset + int(tensors.length[row])
    field_number = TensorProto.DESCRIPTOR.fields_by_name[field].number
    spans = []
    while offset < end:
        number, _, value, record_end, _ = read_record(facts.document, offset, end)
        if record_end is None:
            return []
        if number == field_number:
            spans.append((value, record_end))
        offset = record_end
    return spans


def string_lengths(facts: Facts, rows: Rows) -> Iterator[tuple[int, list[int]]]:
    """Yield each row, and the lengths in bytes of its string_data, up to MAX_READ_RECORDS elements of all rows.

    rows: rows of TensorProto.
    """
    records_left = MAX_READ_RECORDS
    for row in rows.tolist():
        records_left -= int(facts.TensorProto.records("string_data")[1][row])
        if records_left < 0:
            return
        yield row, [end - start for start, end in _spans(facts, "string_data", row)]


def decode_varints(portion: Portion, kind: str = "int64") -> tuple[Rows, Rows]:
    """Return the numbers of packed varints: the count of each row, and the numbers of all rows.

    A damaged row has no numbers. kind: see `decode_packed`.
    """
    dtype = np.dtype("i8" if kind in ("int64", "uint64") else "i4")
    starts = np.cumsum(portion.lengths) - portion.lengths
    counts = np.add.reduceat(portion.data < 0x80, starts, dtype=np.int64)
    numbers = np.frombuffer(decode_packed(portion.data.data, kind), dtype)
    last_bytes = portion.data[starts + portion.lengths - 1]
    if len(numbers) == counts.sum() and (last_bytes < 0x80).all():
        return counts, numbers
    number_arrays = []
    for i, (start, length) in enumerate(zip(starts.tolist(), portion.lengths.tolist(), strict=True)):
        run_numbers = np.frombuffer(decode_packed(portion.data[start : start + length].data, kind), dtype)
        is_complete = len(run_numbers) == counts[i] and last_bytes[i] < 0x80
        counts[i] = len(run_numbers) if is_complete else 0
        number_arrays.append(run_numbers[: counts[i]])
    return counts, np.concatenate(number_arrays)


def products(counts: Rows, first_indices: Rows, sizes: Rows) -> Any:
    """Return the product of each row's sizes, int64; -1 if it is 2**63 or more, or a size is negative.

    counts, first_indices: for each row, the number of its elements in `sizes`, and the index of its first element.
    """
    return np.frombuffer(element_column(counts, first_indices, sizes), np.int64)
