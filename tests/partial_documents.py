"""Documents of partial memory, as for remote files, but with a bytes object as the source."""

from __future__ import annotations

from collections.abc import Iterator

from onnxwire.engine.document import Document
from onnxwire.engine.partial import PartialMemory


class Source:
    """A source of partial memory, with the methods that the engine calls.

    fetched_ranges: the (start, end) of each fetched range. on_fetch: a function that is called before each fetch.
    """

    origin = None
    schedule = None

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fetched_ranges: list[tuple[int, int]] = []
        self.on_fetch = lambda: None

    def fetch(self, memory: PartialMemory, ranges: list[tuple[int, int]]) -> None:
        self.on_fetch()
        for start, end in memory.missing(ranges):
            self.fetched_ranges.append((start, end))
            memory.put(start, self.data[start:end])

    def fetch_ahead(self, memory: PartialMemory, start: int, end: int, limit: int) -> None:
        self.fetch(memory, [(start, end)])

    def note_skipped_value(self, start: int, end: int, record: int) -> None:
        pass

    def chunks(self, start: int, end: int) -> Iterator[bytes]:
        yield self.data[start:end]

    def read_into(self, start: int, out: memoryview) -> None:
        out[:] = self.data[start : start + len(out)]

    def close(self) -> None:
        pass


def partial_document(data: bytes, name: str = "<bytes>") -> Document:
    """Return a document of the bytes, none of which is resident."""
    memory = PartialMemory(len(data), Source(data))
    return Document(memory, name, memory)
