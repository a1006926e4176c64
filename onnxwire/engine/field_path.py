"""From a byte of a document to the path of the field that it lies in."""

from __future__ import annotations

from onnxwire.engine.descriptor import WIRE_LEN
from onnxwire.engine.records import read_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor
    from onnxwire.engine.document import Document

_LONGEST = 40


class _Level:
    """A message on the way to a byte, from `first` to `end`.

    start: of the record that leads on; counts: of the records before it, by number. step: what the path says of it;
    inside: the message that it is, its first byte and its end, or None.
    """

    __slots__ = ("counts", "end", "first", "inside", "start", "step")

    def __init__(self, first: int, end: int, start: int, counts: dict[int, int]) -> None:
        self.first = first
        self.end = end
        self.start = start
        self.counts = counts
        self.step = ""
        self.inside: tuple[Descriptor | None, int, int] | None = None


def field_path(document: Document, offset: int) -> str:
    """The path from the root, such as `graph.node[3].attribute[0].ints`; "" for the root itself.

    Also "" for a document that is not the bytes of one message, as a new message's is not: its bytes have no path.

    Follows the tags down to the byte at `offset`, so the path names what encloses it, damaged or not. The middle of a
    very long path is left out. A later byte than the last that was asked for is looked for from there on: a damaged
    file may give a million errors, and each would be a walk over all that is before it.
    """
    descriptor: Descriptor | None = document.root.DESCRIPTOR if document.root is not None else None
    start, end = 0, len(document)
    steps: list[str] = []
    trail: list[_Level] = []
    last: list[_Level] = document.trail or []
    while descriptor is not None:
        level = last[len(trail)] if len(trail) < len(last) else None
        counts: dict[int, int] = {}
        first = start
        if level is None or (level.first, level.end) != (first, end) or level.start > offset:
            last = []
        elif level.inside is not None and level.inside[1] <= offset < level.inside[2]:
            trail.append(level)
            steps.append(level.step)
            descriptor, start, end = level.inside
            continue
        else:
            start, counts = level.start, level.counts.copy()
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
            level = _Level(first, end, start, counts)
            trail.append(level)
            if field is not None and offset >= start:
                index = f"[{counts.get(number, 0)}]" if field.is_repeated and field.is_span else ""
                level.step = field.name + index
                steps.append(level.step)
                if after is not None and wire == WIRE_LEN and offset >= value:
                    level.inside = field.message_type, value, after
                    descriptor, start, end = level.inside
            break
    document.trail = trail
    if len(steps) > _LONGEST:
        half = _LONGEST // 2
        steps = [*steps[:half], f"({len(steps) - 2 * half:,} more)", *steps[-half:]]
    return ".".join(steps)
