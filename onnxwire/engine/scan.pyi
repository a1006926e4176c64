from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from onnxwire.engine.message import Message

_MessageT = TypeVar("_MessageT", bound=Message)

class NameFilter:
    """Up to 32 names; selects the messages in which a string field, at any depth, may equal one of them."""

    @staticmethod
    def of(names: Collection[str]) -> NameFilter | None: ...

def mentioning(elements: Iterable[_MessageT], names: NameFilter | None = None) -> Iterator[_MessageT]: ...
def strings_of(elements: Iterable[Message], name: str) -> Iterator[list[str]]: ...
