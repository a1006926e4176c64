from onnxwire.engine.document import Document
from onnxwire.errors import DecodeError

def fault_at(document: Document, offset: int, end: int) -> DecodeError: ...
