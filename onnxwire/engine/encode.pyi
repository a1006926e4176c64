from typing import final

from onnxwire.engine.payload import Payload

@final
class Piece:
    """Bytes that stand somewhere already, and where in the encoding they belong."""

    @property
    def offset(self) -> int: ...
    @property
    def payload(self) -> Payload: ...
