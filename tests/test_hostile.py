"""Hostile models cost no more memory and time than their size allows, whatever is done to them."""

from __future__ import annotations

import sys

import pytest
from hostile import CALLS, MEGABYTE, MODELS, run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_BYTES = 20_000  # `make hostile` takes a hundred times as many
_ONE_IN = 12  # of the pairs of a model and a call that are tried here; `make hostile` tries all


@pytest.mark.parametrize("part", range(4))
def test_calls_on_hostile_models_end_within_the_limits(part):
    faults = []
    for place, (kind, make) in enumerate(MODELS.items()):
        if place % 4 == part:
            # Each call comes to a twelfth of the models, and each model to a twelfth of the calls.
            chosen = {label: call for i, (label, call) in enumerate(CALLS.items()) if (i + place // 4) % _ONE_IN == 0}
            faults += run(_BYTES, 16 * MEGABYTE, {kind: make}, chosen)
    assert faults == []


KNOWN = {
    "subgraphs": ("rename values", "rename nodes", "rename nothing", "page: around"),
    "many names": ("page: around", "extract", "set"),
    "outer inputs": ("page: around", "extract"),
    "untyped inputs": ("extract all inputs",),
    "untyped initializers": ("extract initializers",),
    "one value made by all": ("extract", "rename values"),
    "wide strings": ("npz",),
    "fan-out": ("page: around",),
    "empty graph.input": ("diff with an edited one",),
    "a chain": ("extract", "diff with an edited one"),
    "graphs nested": ("rename values", "tensors", "extract"),
}
"""Pairs that once took too much."""


@pytest.mark.parametrize("kind", KNOWN)
def test_what_once_grew_too_fast_does_not(kind):
    assert run(60_000, 16 * MEGABYTE, {kind: MODELS[kind]}, {label: CALLS[label] for label in KNOWN[kind]}) == []
