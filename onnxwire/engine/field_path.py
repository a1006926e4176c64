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

    start: of the record that leads on; counts: of the records before it, by number.
    """

    __slots__ = ("counts", "end", "first", "start")

    def __init__(self, first: int, end: int, start: int, counts: dict[int, int]) -> None:
        self.first = first
        self.end = end
        self.start = start
        self.counts = counts


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
        fields = descriptor.fields_by_number
        counts: dict[int, int] = {}
        first = start
        if last and (last[0].first, last[0].end) == (first, end) and last[0].start <= offset:
            start, counts = last[0].start, last[0].counts.copy()
            last = last[1:]
        else:
            last = []
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
            trail.append(_Level(first, end, start, counts))
            if field is not None and offset >= start:
                index = f"[{counts.get(number, 0)}]" if field.is_repeated and field.is_span else ""
                steps.append(field.name + index)
                if after is not None and wire == WIRE_LEN and offset >= value:
                    descriptor, start, end = field.message_type, value, after
            break
    document.trail = trail
    if len(steps) > _LONGEST:
        half = _LONGEST // 2
        steps = [*steps[:half], f"({len(steps) - 2 * half:,} more)", *steps[-half:]]
    return ".".join(steps)
