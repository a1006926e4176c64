"""The path of the field that contains a byte of a document."""

from __future__ import annotations

from onnxwire.engine.descriptor import WIRE_LEN
from onnxwire.engine.record_reader import read_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor
    from onnxwire.engine.document import Document

_MAX_STEPS = 40


class _Level:
    """A message that contains the byte, and the record in it that contains the byte.

    end: the end of the message. start: the start of the record; counts: numbers of the records before it, by field
    number; step: its step in the path. inside: type, start and end of the message that is the record's value, or None.
    """

    __slots__ = ("counts", "end", "inside", "start", "step")

    def __init__(self, end: int, start: int, counts: dict[int, int]) -> None:
        self.end = end
        self.start = start
        self.counts = counts
        self.step = ""
        self.inside: tuple[Descriptor, int, int] | None = None

    def leads_to(self, offset: int) -> bool:
        """Return whether a byte is in the message that is the record's value."""
        return self.inside is not None and self.inside[1] <= offset < self.inside[2]


def field_path(document: Document, offset: int) -> str:
    """Return the path from the root to the byte at `offset`, such as `graph.node[3].attribute[0].ints`.

    Returns "" for a byte of the root itself, and for a document without a root, such as that of a new message. The path
    follows tags, so it is found in damaged messages, too. The middle of a very long path is left out. A search for a
    later byte continues from the levels of the last search. Otherwise each error of a damaged file, of which there may
    be a million, would require a walk over all records before it.
    """
    if document.root is None:
        return ""
    trail = [*(document.trail or ())]  # a copy, because other threads may search, too
    if trail and trail[0].end != len(document):
        trail = []
    last: _Level | None = None
    while trail and not trail[-1].leads_to(offset):
        last = trail.pop()
    descriptor: Descriptor | None = document.root.DESCRIPTOR
    start, end = 0, len(document)
    if trail and trail[-1].inside is not None:
        descriptor, start, end = trail[-1].inside
    while descriptor is not None:
        counts: dict[int, int] = {}
        if last is not None and last.start <= offset:
            start, counts = last.start, last.counts.copy()
        last = None
        fields = descriptor.fields_by_number
        descriptor = None
        while start < end:
            number, wire, value, after, length = read_record(document, start, end)
            if after is None and length is not None and offset >= value:
                after = end  # the offset lies inside a message that runs past the end
            field = fields.get(number)
            if after is not None and after <= offset:
                if field is not None and field.accepts(wire):
                    counts[number] = counts.get(number, 0) + 1
                start = after
                continue
            level = _Level(end, start, counts)
            trail.append(level)
            if field is not None and offset >= start:
                index = f"[{counts.get(number, 0)}]" if field.is_repeated and field.is_span else ""
                level.step = field.name + index
                if after is not None and wire == WIRE_LEN and offset >= value and field.message_type is not None:
                    level.inside = descriptor, start, end = field.message_type, value, after
            break
    document.trail = trail
    steps = [level.step for level in trail if level.step]
    if len(steps) > _MAX_STEPS:
        half = _MAX_STEPS // 2
        steps = [*steps[:half], f"({len(steps) - 2 * half:,} more)", *steps[-half:]]
    return ".".join(steps)
