from collections.abc import Iterable
from typing import Any, SupportsIndex, final, overload

from typing_extensions import TypeVar

from onnxwire.engine.message import Message
from onnxwire.engine.payload import Payload
from onnxwire.engine.repeated import Repeated

_T_co = TypeVar("_T_co", covariant=True)
_V_contra = TypeVar("_V_contra", contravariant=True, default=_T_co)

@final
class RepeatedSpan(Repeated[_T_co, _V_contra]):
    @overload
    def __setitem__(self: RepeatedSpan[str | bytes, Any], key: SupportsIndex, value: _V_contra, /) -> None: ...
    @overload
    def __setitem__(self: RepeatedSpan[str | bytes, Any], key: slice, value: Iterable[_V_contra], /) -> None: ...
    # A method of sequences of messages. Its type here is the message class, because it takes the keywords of the class
    # and returns a message.
    @property
    def add(self: RepeatedSpan[Message, Any]) -> type[_T_co]: ...
    def _arrange(self, order: Iterable[int], n: int) -> None: ...
    def _payloads(self) -> list[Payload]: ...
