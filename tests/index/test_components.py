"""The strongly connected components of random graphs."""

import random

import numpy as np
import pytest

from onnxwire.index.components import cyclic_components


@pytest.mark.parametrize("seed", range(20))
def test_components_are_those_of_paths_in_both_directions(seed: int) -> None:
    rng = random.Random(seed)
    count = 12
    edges = [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randrange(30))]
    reach = [{vertex} for vertex in range(count)]
    for _ in range(count):
        for start, end in edges:
            reach[start] |= reach[end]
    components = {tuple(b for b in range(count) if b in reach[a] and a in reach[b]) for a in range(count)}
    expected = sorted(list(c) for c in components if len(c) > 1 or (c[0], c[0]) in edges)
    starts, ends = np.array(edges, np.int64).reshape(-1, 2).T
    assert cyclic_components(starts, ends) == expected
