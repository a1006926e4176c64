from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from onnxwire.engine.message import Message

_MessageT = TypeVar("_MessageT", bound=Message)

class NameFilter:
    @staticmethod
    def of(names: Collection[str]) -> NameFilter | None: ...

def select_messages(elements: Iterable[_MessageT], names: NameFilter | None = None) -> Iterator[_MessageT]: ...
def strings_of(elements: Iterable[Message], name: str) -> Iterator[list[str]]: ...
