from typing import final

from onnxwire.engine.document import Document

@final
class Payload:
    """A value's bytes, or a field's numbers, as a read-only buffer of what stands in memory."""

    @property
    def document(self) -> Document | None: ...
    @property
    def span(self) -> tuple[int, int] | None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
