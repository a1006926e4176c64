from mmap import mmap
from typing import Any

from typing_extensions import Buffer

class Document:
    """The bytes that views look into."""

    root: Any
    @property
    def name(self) -> str: ...
    def __init__(self, data: Buffer, name: str = "<bytes>", mapping: mmap | None = None) -> None: ...
    def __len__(self) -> int: ...
    def close(self) -> None: ...
