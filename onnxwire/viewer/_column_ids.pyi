from typing_extensions import Buffer

from onnxwire.arrow._columns import Columns

# Gives each new string, or list of strings, the next id, from 0 on; equal ones have the same id.
class Ids:
    def __len__(self) -> int: ...
    # Returns (id of each row as int32, first row of each new id). salts: an integer for each row; rows with
    # different salts get different ids. max_bytes: if not 0, compare only the first `max_bytes` bytes of each string,
    # without the last part of the name.
    def add(
        self, columns: Columns, name: str, salts: Buffer | None = None, max_bytes: int = 0
    ) -> tuple[bytearray, list[int]]: ...

# The integers of a column as int64.
def numbers(columns: Columns, name: str) -> bytearray: ...
