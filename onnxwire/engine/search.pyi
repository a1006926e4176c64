from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from onnxwire.engine.message import Message

_MessageT = TypeVar("_MessageT", bound=Message)

class Paths:
    """Paths that a search found, by numbers."""

    def __init__(self) -> None: ...
    def __getitem__(self, number: int) -> str: ...

class Search(Generic[_MessageT]):
    """An iterator of (path, message), depth first, in the order of fields and elements."""

    def __init__(self, root: Message, classes: Iterable[type[_MessageT]]) -> None: ...
    def __iter__(self) -> Iterator[tuple[str, _MessageT]]: ...
    def __next__(self) -> tuple[str, _MessageT]: ...
    def keep(self, paths: Paths) -> int: ...
