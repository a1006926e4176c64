from typing_extensions import Buffer

from onnxwire.arrow._columns import Columns

# Assigns an id to each distinct string, or list of strings, from 0 on.
class Ids:
    def __len__(self) -> int: ...
    # Returns (id of each row as int32, first row of each new id). salts: an integer for each row; rows with
    # different salts get different ids; the id of a null is -1. max_bytes: if not 0, compare only the first `max_bytes`
    # bytes of each string, up to the last /; without a slash, up to the last ::; without both, up to the last dot.
    # Strings without any of them are equal. Ignored for lists of strings.
    def add(
        self, columns: Columns, name: str, salts: Buffer | None = None, max_bytes: int = 0
    ) -> tuple[bytearray, list[int]]: ...

# Returns the integers of a column as bytes of int64; -1 for a null.
def integers_of(columns: Columns, name: str) -> bytearray: ...
