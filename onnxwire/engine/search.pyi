from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar, overload

from onnxwire.engine.message import Message
from onnxwire.engine.scan import NameFilter

_MessageT = TypeVar("_MessageT", bound=Message)
_PathT = TypeVar("_PathT", str, int)

class Paths:
    def __init__(self) -> None: ...
    def __getitem__(self, number: int) -> str: ...

class Search(Generic[_MessageT, _PathT]):
    @overload
    def __init__(
        self: Search[_MessageT, str],
        root: Message,
        classes: Iterable[type[_MessageT]],
        paths: None = None,
        names: NameFilter | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Search[_MessageT, int],
        root: Message,
        classes: Iterable[type[_MessageT]],
        paths: Paths,
        names: NameFilter | None = None,
    ) -> None: ...
    def __iter__(self) -> Iterator[tuple[_PathT, _MessageT]]: ...
    def __next__(self) -> tuple[_PathT, _MessageT]: ...
