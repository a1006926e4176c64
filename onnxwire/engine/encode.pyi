from typing import final

from onnxwire.engine.payload import Payload

@final
class Piece:
    """A range of bytes of a document or buffer, and its offset in the encoding."""

    @property
    def offset(self) -> int: ...
    @property
    def payload(self) -> Payload: ...
