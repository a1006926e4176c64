from collections.abc import Iterable

from onnxwire.engine.document import Document
from onnxwire.engine.encoder import Piece
from onnxwire.engine.message import Message

# cls: the class of the root. targets: (class, name of a bytes field to align, number of an unknown field for padding).
# Payloads of `threshold` bytes or more begin at multiples of `alignment` bytes. Returns the size of the encoding in
# bytes, and the parts of the encoding: bytes, and (offset, length) of ranges of the document.
def align_payloads(
    document: Document,
    cls: type[Message],
    targets: Iterable[tuple[type[Message], str, int]],
    threshold: int,
    alignment: int,
) -> tuple[int, list[bytes | tuple[int, int]]]: ...

# Like align_payloads; ranges of the document are Pieces.
def aligned_pieces(
    document: Document,
    cls: type[Message],
    targets: Iterable[tuple[type[Message], str, int]],
    threshold: int,
    alignment: int,
) -> tuple[int, list[bytes | Piece]]: ...
