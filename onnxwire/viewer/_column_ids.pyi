from typing_extensions import Buffer

from onnxwire.arrow._columns import Columns

class Ids:
    def __len__(self) -> int: ...
    def add(
        self, columns: Columns, name: str, salts: Buffer | None = None, max_bytes: int = 0
    ) -> tuple[bytearray, list[int]]: ...

def numbers(columns: Columns, name: str) -> bytearray: ...
