"""From a byte of a document to the path of the field that it lies in."""

from __future__ import annotations

from onnxwire.engine.descriptor import WIRE_LEN
from onnxwire.engine.records import read_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from onnxwire.engine.descriptor import Descriptor
    from onnxwire.engine.document import Document

_LONGEST = 40


def field_path(document: Document, offset: int) -> str:
    """The path from the root, such as `graph.node[3].attribute[0].ints`; "" for the root itself.

    Also "" for a document that is not the bytes of one message, as a new message's is not: its bytes have no path.

    Follows the tags down to the byte at `offset`, so the path names what encloses it, damaged or not. The middle of a
    very long path is left out.
    """
    descriptor: Descriptor | None = document.root.DESCRIPTOR if document.root is not None else None
    start, end = 0, len(document)
    steps: list[str] = []
    while descriptor is not None:
        fields = descriptor.fields_by_number
        counts: dict[int, int] = {}
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
            if field is not None and offset >= start:
                index = f"[{counts.get(number, 0)}]" if field.is_repeated and field.is_span else ""
                steps.append(field.name + index)
                if after is not None and wire == WIRE_LEN and offset >= value:
                    descriptor, start, end = field.message_type, value, after
            break
    if len(steps) > _LONGEST:
        half = _LONGEST // 2
        steps = [*steps[:half], f"({len(steps) - 2 * half:,} more)", *steps[-half:]]
    return ".".join(steps)
