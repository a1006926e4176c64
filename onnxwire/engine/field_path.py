"""The path of the field that contains a byte of a document."""

from __future__ import annotations

from onnxwire.engine.descriptor import WIRE_LEN
from onnxwire.engine.record_reader import read_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor
    from onnxwire.engine.document import Document

_MAX_STEPS = 40  # maximum number of steps of a path that are shown


class _Level:
    """A message that contains the byte of the last search, and the message's record that contains the byte.

    end: the end of the message. start: the start of the record; counts: the number of records of known fields before
    it, by field number; step: the record's part of the path. nested: descriptor, start and end of the message that is
    the record's value, or None.
    """

    __slots__ = ("counts", "end", "nested", "start", "step")

    def __init__(self, end: int, start: int, counts: dict[int, int]) -> None:
        self.end = end
        self.start = start
        self.counts = counts
        self.step = ""
        self.nested: tuple[Descriptor, int, int] | None = None

    def nested_contains(self, offset: int) -> bool:
        """Return whether a byte is in the message that is the record's value."""
        return self.nested is not None and self.nested[1] <= offset < self.nested[2]


def field_path(document: Document, offset: int) -> str:
    """Return the path from the root to the byte at `offset`, such as `graph.node[3].attribute[0].ints`.

    Returns "" if no known field of the root contains the byte, and for a document without a root, such as that of a new
    message. The path follows tags, so it is found in damaged messages, too. The middle of a very long path is left out.
    A search for a later byte continues from the levels of the last search. Without these levels, each of the million
    errors that a damaged file may have would require a walk over all records before it.
    """
    if document.root is None:
        return ""
    levels = [*(document.trail or ())]  # a copy, because other threads may search, too
    if levels and levels[0].end != len(document):
        levels = []
    # The level of the last search from whose record this search continues.
    previous_level: _Level | None = None
    while levels and not levels[-1].nested_contains(offset):
        previous_level = levels.pop()
    descriptor: Descriptor | None = document.root.DESCRIPTOR
    start, end = 0, len(document)
    if levels and levels[-1].nested is not None:
        descriptor, start, end = levels[-1].nested
    while descriptor is not None:
        counts: dict[int, int] = {}
        if previous_level is not None and previous_level.start <= offset:
            start, counts = previous_level.start, previous_level.counts.copy()
        previous_level = None
        fields = descriptor.fields_by_number
        descriptor = None
        while start < end:
            number, wire, value_start, next_start, length = read_record(document, start, end)
            if next_start is None and length is not None and offset >= value_start:
                next_start = end  # the offset is in a value that runs past the end
            field = fields.get(number)
            if next_start is not None and next_start <= offset:
                if field is not None and field.accepts(wire):
                    counts[number] = counts.get(number, 0) + 1
                start = next_start
                continue
            level = _Level(end, start, counts)
            levels.append(level)
            if field is not None and offset >= start:
                index = f"[{counts.get(number, 0)}]" if field.is_repeated and field.is_span else ""
                level.step = field.name + index
                if (
                    next_start is not None
                    and wire == WIRE_LEN
                    and offset >= value_start
                    and field.message_type is not None
                ):
                    level.nested = descriptor, start, end = field.message_type, value_start, next_start
            break
    document.trail = levels
    steps = [level.step for level in levels if level.step]
    if len(steps) > _MAX_STEPS:
        n_per_end = _MAX_STEPS // 2
        steps = [*steps[:n_per_end], f"({len(steps) - 2 * n_per_end:,} more)", *steps[-n_per_end:]]
    return ".".join(steps)
