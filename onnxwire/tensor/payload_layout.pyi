from collections.abc import Iterable

from onnxwire.engine.payload import Payload
from onnxwire.tensor.fields import TensorFields
from onnxwire.tensor.storage import Array

class PayloadLayout:
    shape: tuple[int, ...]
    raw: Payload | None  # raw_data if that is the payload
    location: str | None  # None if inline or absent
    @property
    def data_type(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_external(self) -> bool: ...
    @property
    def is_ambiguous(self) -> bool: ...  # a key of external_data occurs more than once
    @property
    def offset(self) -> int | None: ...
    @property
    def length(self) -> int | None: ...

def layout_of(tensor: TensorFields) -> PayloadLayout: ...
def count_elements(dims: Iterable[int]) -> tuple[int, bool, bool]: ...  # (count, is_negative, is_excessive)
def plain_number(text: str) -> int | None: ...
def element_column(counts: Array, starts: Array, sizes: Array) -> bytearray: ...  # elements of int64
def byte_column(elements: Array, data_types: Array) -> bytearray: ...  # elements of int64
