from collections.abc import Iterable
from typing import Any

from onnxwire.engine.document import Document

# The numbers of the column types, by name of the type.
TYPES: dict[str, int]

class Columns:
    names: list[str]
    n_repaired: int  # number of strings that were not valid UTF-8
    # columns: (name, type) pairs; a type is a key of TYPES, in brackets for a list.
    def __init__(self, columns: Iterable[tuple[str, str]], document: Document | None = None) -> None: ...
    def __len__(self) -> int: ...
    def to_pylist(self, name: str, start: int = 0, stop: int = ...) -> list[Any]: ...
