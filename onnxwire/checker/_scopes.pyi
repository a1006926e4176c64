from typing import Any

from onnxwire.checker._facts import Facts

class Scopes:
    def __init__(self, facts: Facts) -> None: ...
    # Columns, which `scopes.Scopes` describes.
    uses: bytearray
    output_meanings: bytearray
    node_output_flags: bytearray
    graph_input_flags: bytearray
    initializer_flags: bytearray
    sparse_initializer_flags: bytearray
    function_output_meanings: bytearray
    value_info_meanings: bytearray
    def definition_column(self) -> Any: ...
    def scope_column(self) -> Any: ...
    def described_column(self) -> Any: ...
    def producer_column(self) -> Any: ...
    def walk(self, main_graph: int, algorithms: list[int], graphs: list[int], functions: list[int]) -> None: ...
