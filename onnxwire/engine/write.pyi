from collections.abc import Iterator
from typing import Any

from typing_extensions import Buffer

from onnxwire.engine.encoder import Piece
from onnxwire.engine.file_writer import FileWriter
from onnxwire.engine.message import Message

# Returns (size in bytes, pieces that remain to be written).
def encode_pieces(
    message: Message, deterministic: bool, target: FileWriter | None
) -> tuple[int, list[bytes | Piece]]: ...

# Returns (source, start, end) of each range that is fetched from a server while the pieces are written.
def missing_ranges(pieces: list[bytes | Piece]) -> list[tuple[Any, int, int]]: ...
def chunks_of(pieces: list[bytes | Piece], step: int) -> Iterator[memoryview]: ...
def write_payload(target: FileWriter, content: Buffer) -> None: ...
def write_pieces(target: FileWriter, pieces: list[bytes | Piece]) -> None: ...
