from array import array
from typing import Final

from onnxwire.analysis.flat_graph import FlatGraph

# In `new_of` and `old_of`: a vertex without a match.
UNMATCHED: Final = -1

class Edges:
    def __init__(self, graph: FlatGraph) -> None: ...
    # Returns (source vertex, output of the source, port) of each edge to a vertex.
    def __getitem__(self, vertex: int) -> list[tuple[int, int, int]]: ...

class Matching:
    # new_of: for each vertex of `old`, its match in `new`. old_of: the reverse.
    new_of: array[int]
    old_of: array[int]
    # The edges of `old` and of `new`.
    edges: tuple[Edges, Edges]
    def __init__(self, old: FlatGraph, new: FlatGraph, *, by_name: bool) -> None: ...
    def rewired_vertices(self) -> list[int]: ...  # vertices of `old`
    # The keys are "nodes" and "values"; each value maps old names to new ones.
    def new_names(self) -> dict[str, dict[str, str]]: ...
    def unequal_vertices(self, by_labels: bool) -> list[int]: ...  # vertices of `old`
    def has_equal_label(self, vertex: int) -> bool: ...  # vertex: of `old`
