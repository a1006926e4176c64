from onnxwire._encode import Piece
from onnxwire._message import Message
from onnxwire._transfer import Target

def encode_pieces(
    message: Message, deterministic: bool, target: Target | None
) -> tuple[int, list[bytes | Piece]]: ...
def write_pieces(target: Target, pieces: list[bytes | Piece]) -> None: ...
