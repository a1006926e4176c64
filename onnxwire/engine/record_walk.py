"""Iteration over the records of a message."""

from __future__ import annotations

from onnxwire.engine.damage import decode_error_at
from onnxwire.engine.record_reader import read_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnxwire.engine.document import Document


def walk_records(document: Document, start: int, end: int) -> Iterator[tuple[int, int, int, int, int, int | None]]:
    """Iterate over the records between two offsets of a document.

    Yields (offset of the tag, field number, wire type, start of the value, start of the next record, raw value), the
    last five as `read_record` returns them. Raises DecodeError at a damaged record.
    """
    while start < end:
        number, wire, value, next_start, raw = read_record(document, start, end)
        if next_start is None:
            raise decode_error_at(document, start, end)
        yield start, number, wire, value, next_start, raw
        start = next_start
