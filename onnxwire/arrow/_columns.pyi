from collections.abc import Iterable
from typing import Any

from onnxwire.engine.document import Document

TYPES: dict[str, int]

class Columns:
    names: list[str]
    n_repaired: int
    def __init__(self, columns: Iterable[tuple[str, str]], document: Document | None = None) -> None: ...
    def __len__(self) -> int: ...
    def to_pylist(self, name: str, start: int = 0, stop: int = ...) -> list[Any]: ...
