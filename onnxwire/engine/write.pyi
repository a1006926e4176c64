from collections.abc import Iterator

from typing_extensions import Buffer

from onnxwire.engine.encode import Piece
from onnxwire.engine.file_writer import FileWriter
from onnxwire.engine.message import Message

def encode_pieces(
    message: Message, deterministic: bool, target: FileWriter | None
) -> tuple[int, list[bytes | Piece]]: ...
def chunks_of(pieces: list[bytes | Piece], step: int) -> Iterator[memoryview]: ...
def write_payload(target: FileWriter, content: Buffer) -> None: ...
def write_pieces(target: FileWriter, pieces: list[bytes | Piece]) -> None: ...
