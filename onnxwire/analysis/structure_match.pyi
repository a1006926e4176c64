from array import array
from typing import Final

from onnxwire.analysis.flat_graph import FlatGraph

# In `new_of` and `old_of`: a vertex without a match.
UNMATCHED: Final = -1

class Edges:
    def __init__(self, graph: FlatGraph) -> None: ...
    # Returns (source vertex, output of the source, port) of each edge to a vertex.
    # port: the index of an input of the vertex, or a number below 0 for an output of a nested graph.
    def __getitem__(self, vertex: int) -> list[tuple[int, int, int]]: ...

class Matching:
    # new_of: for each vertex of `old`, its match in `new`. old_of: the reverse.
    new_of: array[int]
    old_of: array[int]
    # The edges of `old` and of `new`.
    edges: tuple[Edges, Edges]
    def __init__(self, old: FlatGraph, new: FlatGraph, *, by_name: bool) -> None: ...
    # Returns the matched vertices of `old` whose incoming edges differ from those of their matches.
    def rewired_vertices(self) -> list[int]: ...
    # Returns the changed names: {"nodes": {old name: new name}, "values": {old name: new name}}.
    def new_names(self) -> dict[str, dict[str, str]]: ...
    # Returns the vertices of `old` that have no match, or whose messages may differ in more than names and edges.
    # by_labels: whether vertices with equal labels have equal attributes and payloads.
    def unequal_vertices(self, by_labels: bool) -> list[int]: ...
    # Returns whether a vertex of `old` has the label of its match.
    def has_equal_label(self, vertex: int) -> bool: ...
