from collections.abc import Callable

from onnxwire.engine.message import Message
from onnxwire.engine.search import Paths, Search
from onnxwire.messages import TensorProto

class TensorRows:
    def __init__(
        self,
        # describe: returns the fields of TensorInfo except `path`.
        describe: Callable[[TensorProto], tuple[str, int, tuple[int, ...], int, str | None, int | None, str | None]],
        paths: Paths | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    # Returns the fields of TensorInfo.
    def __getitem__(self, i: int) -> tuple[str, str, int, tuple[int, ...], int, str | None, int | None, str | None]: ...
    def read_batch(self, search: Search[TensorProto, int]) -> bool: ...
    def add(self, tensor: Message) -> None: ...
