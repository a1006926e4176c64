from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeVar, final, overload

import numpy.typing as npt

T_co = TypeVar("T_co", covariant=True)

@final
class RepeatedSpan(Sequence[T_co]):
    """A read-only sequence of strings, bytes or messages."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, place: SupportsIndex, /) -> T_co: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[T_co]: ...

@final
class RepeatedScalar(Sequence[T_co]):
    """A read-only sequence of numbers, which numpy.asarray takes without another copy."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, place: SupportsIndex, /) -> T_co: ...
    @overload
    def __getitem__(self, place: slice, /) -> list[T_co]: ...
    def numpy(self) -> npt.NDArray[Any]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
