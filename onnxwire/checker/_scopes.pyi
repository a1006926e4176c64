from typing import Any

from onnxwire.checker._facts import Facts

class Scopes:
    def __init__(self, facts: Facts) -> None: ...
    uses: bytearray
    outputs: bytearray
    defined: bytearray
    inputs: bytearray
    initializers: bytearray
    sparse: bytearray
    functions: bytearray
    named: bytearray
    def definition_column(self) -> Any: ...
    def described_column(self) -> Any: ...
    def maker_column(self) -> Any: ...
    def walk(self, main: int, algorithms: list[int], graphs: list[int], functions: list[int]) -> None: ...
