from collections.abc import Callable, Container, Iterable

from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload

def write_text(
    message: Message,
    write: Callable[[str], object],
    as_protoc: bool,
    max_bytes: int | None,
    summary: Callable[[Message], tuple[Container[str], str] | None] | None,
    unknown_fields: Callable[[Message, str], Iterable[str | tuple[str, Payload]]] | None,
) -> None: ...
