from typing_extensions import Buffer

from onnxwire.arrow._columns import Columns

class Ids:
    def __len__(self) -> int: ...
    # Returns (id of each row as int32, first row of each new id).
    def add(
        self, columns: Columns, name: str, salts: Buffer | None = None, max_bytes: int = 0
    ) -> tuple[bytearray, list[int]]: ...

# The integers of a column as int64.
def numbers(columns: Columns, name: str) -> bytearray: ...
