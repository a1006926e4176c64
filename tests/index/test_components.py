"""The cyclic strongly connected components of random graphs."""

import random

import numpy as np
import pytest

from onnxwire.index.components import cyclic_components


@pytest.mark.parametrize("seed", range(20))
def test_cyclic_components_are_the_sets_of_vertices_with_paths_in_both_directions(seed: int) -> None:
    rng = random.Random(seed)
    n_vertices = 12
    edges = [(rng.randrange(n_vertices), rng.randrange(n_vertices)) for _ in range(rng.randrange(30))]
    reachable = [{vertex} for vertex in range(n_vertices)]
    for _ in range(n_vertices):
        for start, end in edges:
            reachable[start] |= reachable[end]
    components = {
        tuple(end for end in range(n_vertices) if end in reachable[start] and start in reachable[end])
        for start in range(n_vertices)
    }
    expected = sorted(
        list(component) for component in components if len(component) > 1 or (component[0], component[0]) in edges
    )
    starts, ends = np.array(edges, np.int64).reshape(-1, 2).T
    assert cyclic_components(starts, ends) == expected
