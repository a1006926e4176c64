"""Hostile models cost no more memory and time than their size allows, whatever is done to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import CALLS, MEGABYTE, MODELS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_BYTES = 20_000  # `make hostile` takes a hundred times as many
_ONE_IN = 18  # of the pairs of a model and a call that are tried here; `make hostile` tries all


def faults_of(size: int, pairs: dict[str, list[str]]) -> list[str]:
    """The faults of calls on models, by a process that is small, because each call is made in a fork of it."""
    code = "import json, sys; from hostile import run_pairs; print(json.dumps(run_pairs(*json.load(sys.stdin))))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([size, 16 * MEGABYTE, pairs]),
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("part", range(4))
def test_calls_on_hostile_models_end_within_the_limits(part):
    # Each call comes to an eighteenth of the models, and each model to an eighteenth of the calls.
    pairs = {
        kind: [label for i, label in enumerate(CALLS) if (i + index // 4) % _ONE_IN == 0]
        for index, kind in enumerate(MODELS)
        if index % 4 == part
    }
    assert faults_of(_BYTES, pairs) == []


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
    "an input taken by all": ("rename what all take", "arrow of an edited one"),
    "one name of all nodes": ("catalog",),
}
"""Pairs that once took too much."""


def test_what_once_grew_too_fast_does_not():
    assert faults_of(60_000, {kind: list(labels) for kind, labels in KNOWN.items()}) == []


def test_what_took_too_much_of_a_tensor_of_two_bytes_does_not():
    assert faults_of(250_000, {"deep tensors": ["check"]}) == []
