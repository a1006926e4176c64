from typing import final

from onnxwire.engine.payload import Payload

@final
class Piece:
    @property
    def offset(self) -> int: ...
    @property
    def payload(self) -> Payload: ...
