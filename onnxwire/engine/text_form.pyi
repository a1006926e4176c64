from collections.abc import Callable, Container, Iterable

from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload

# max_bytes: strings and bytes of more bytes, and repeated numbers of more elements, are replaced by a note. summary:
# returns the names of the fields to omit and a comment, or None. unknown_fields: receives a message and its
# indentation, and yields lines, or (label, payload), which prints the label and then the payload as a quoted value.
def write_text(
    message: Message,
    write: Callable[[str], object],
    as_protoc: bool,
    max_bytes: int | None,
    summary: Callable[[Message], tuple[Container[str], str] | None] | None,
    unknown_fields: Callable[[Message, str], Iterable[str | tuple[str, Payload]]] | None,
) -> None: ...
