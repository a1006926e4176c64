from onnxwire.engine.document import Document
from onnxwire.engine.message import Message

def verify_document(document: Document, cls: type[Message]) -> None: ...

# Returns the offsets (start, end) of the first `max_values` long values.
def find_long_values(
    document: Document, cls: type[Message], min_bytes: int, max_values: int
) -> list[tuple[int, int]]: ...
