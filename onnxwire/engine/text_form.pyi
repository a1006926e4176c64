from collections.abc import Callable, Container, Iterable

from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload

# max_bytes: strings and bytes longer than this number of bytes, and repeated numbers of more elements than this number,
# are replaced by a note. summary: a function of a message; it returns the names of the fields to omit and a comment, or
# None. unknown_fields: a function of a message and its indentation; it yields lines, and pairs (label, payload), for
# which the label and then the payload as a quoted value are written.
def write_text(
    message: Message,
    write: Callable[[str], object],
    as_protoc: bool,
    max_bytes: int | None,
    summary: Callable[[Message], tuple[Container[str], str] | None] | None,
    unknown_fields: Callable[[Message, str], Iterable[str | tuple[str, Payload]]] | None,
) -> None: ...
