from onnxwire.engine.document import Document
from onnxwire.engine.message import Message

def verify_document(document: Document, cls: type[Message]) -> None: ...
