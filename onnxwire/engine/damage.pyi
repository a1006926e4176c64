from onnxwire.engine.document import Document
from onnxwire.errors import DecodeError

def decode_error_at(document: Document, offset: int, end: int) -> DecodeError: ...
