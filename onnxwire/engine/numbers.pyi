from collections.abc import Iterable
from typing import Any, SupportsIndex, final, overload

import numpy.typing as npt
from typing_extensions import TypeVar

from onnxwire.engine.repeated import Repeated

_T_co = TypeVar("_T_co", covariant=True)
_V_contra = TypeVar("_V_contra", contravariant=True, default=_T_co)

@final
class RepeatedScalar(Repeated[_T_co, _V_contra]):
    """A sequence of numbers, which numpy.asarray takes without another copy."""

    @overload
    def __setitem__(self, key: SupportsIndex, value: _V_contra, /) -> None: ...
    @overload
    def __setitem__(self, key: slice, value: Iterable[_V_contra], /) -> None: ...
    def __bool__(self) -> bool: ...
    def numpy(self) -> npt.NDArray[Any]: ...
    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def copy_to_arrays(turned_on: bool) -> None: ...
