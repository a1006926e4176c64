from array import array
from typing import Final

from onnxwire.analysis.flat_graph import Edge, FlatGraph

UNMATCHED: Final = -1

class Edges:
    def __init__(
        self, n: int, consumers: array[int], sources: array[int], outputs: array[int], slots: array[int]
    ) -> None: ...
    def __getitem__(self, vertex: int) -> list[Edge]: ...

class Matching:
    new_of: array[int]
    old_of: array[int]
    edges: tuple[Edges, Edges]
    def __init__(self, old: FlatGraph, new: FlatGraph, *, by_name: bool) -> None: ...
    def rewired(self) -> list[int]: ...
