from typing import Any

import numpy.typing as npt
from typing_extensions import Buffer

from onnxwire.checker._facts import Facts

_Column = Buffer | npt.NDArray[Any]

# Returns two buffers: int64 columns, one after the other (count, minimum, maximum, last value), and a bool column
# (whether the field has values and all were scanned).
def measure_numbers(facts: Facts, name: str, field: str, is_selected: _Column) -> tuple[bytearray, bytearray]: ...

# Returns uint8 columns, one after the other: greatest byte, last used byte.
def measure_bytes(facts: Facts, name: str, field: str, is_selected: _Column, ends: _Column) -> bytearray: ...

# Returns int64 columns, one after the other: index of the first string that is not UTF-8, and of the first with a
# leading byte-order mark or a trailing NUL; -1 for none.
def measure_strings(facts: Facts, name: str, field: str, is_selected: _Column) -> bytearray: ...
