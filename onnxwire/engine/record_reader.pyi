from onnxwire.engine.document import Document
from onnxwire.engine.payload import Payload

# Returns the field number, wire type, start of the value, start of the next record (None for a damaged record), and raw
# value. The raw value is None for WIRE_LEN, groups and damaged records; but for a WIRE_LEN record that runs past the
# end, it is the length of the value.
def read_record(
    document: Document, offset: int, end: int, is_in_group: bool = False
) -> tuple[int, int, int, int | None, int | None]: ...

# Returns the value, and the start of the next varint (None if this varint is damaged).
def read_varint_at(document: Document, offset: int, end: int) -> tuple[int, int | None]: ...
def payload_at(document: Document, start: int, end: int) -> Payload: ...
def bytes_at(document: Document, start: int, end: int) -> bytes: ...
