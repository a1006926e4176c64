from collections.abc import Iterator

from typing_extensions import Buffer

from onnxwire.engine.encode import Piece
from onnxwire.engine.file_writer import FileWriter
from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload

def encode_pieces(
    message: Message, deterministic: bool, target: FileWriter | None
) -> tuple[int, list[bytes | Piece]]: ...
def chunks_of(payload: Payload) -> Iterator[Buffer] | None: ...
def write_payload(target: FileWriter, view: memoryview) -> None: ...
def write_pieces(target: FileWriter, pieces: list[bytes | Piece]) -> None: ...
