from typing import Any

import numpy.typing as npt
from typing_extensions import Buffer

from onnxwire.checker._facts import Facts

_Column = Buffer | npt.NDArray[Any]

def measure_numbers(facts: Facts, name: str, field: str, is_selected: _Column) -> tuple[bytearray, bytearray]: ...
def measure_bytes(facts: Facts, name: str, field: str, is_selected: _Column, ends: _Column) -> bytearray: ...
def measure_strings(facts: Facts, name: str, field: str, is_selected: _Column) -> bytearray: ...
