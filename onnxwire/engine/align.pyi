from collections.abc import Iterable

from onnxwire.engine.document import Document
from onnxwire.engine.encoder import Piece
from onnxwire.engine.message import Message

def align_payloads(
    document: Document,
    cls: type[Message],
    targets: Iterable[tuple[type[Message], str, int]],
    threshold: int,
    alignment: int,
) -> tuple[int, list[bytes | tuple[int, int]]]: ...
def aligned_pieces(
    document: Document,
    cls: type[Message],
    targets: Iterable[tuple[type[Message], str, int]],
    threshold: int,
    alignment: int,
) -> tuple[int, list[bytes | Piece]]: ...
