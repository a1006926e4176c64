"""Hostile models cost no more memory and time than their size allows, whatever is done to them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hostile import CALLS, JSON_CALLS, MEGABYTE, TEXT_CALLS
from hostile_models import JSONS, MODELS, TEXTS

from onnxwire.analysis.statistics import MOST_OF_PATHS, MOST_TENSORS
from onnxwire.checker.limits import CHANGES, KEPT_OF_A_RULE, READ, READ_IN_ALL

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_BYTES = 20_000  # `make hostile` takes a hundred times as many
_ONE_IN = 18  # of the pairs of a model and a call that are tried here; `make hostile` tries all


def faults_of(size: int, pairs: dict[str, list[str]], slack: int = 16 * MEGABYTE, kind: str = "model") -> list[str]:
    """The faults of calls on files of a kind, by a process that is small, because each call is made in a fork of it."""
    code = "import json, sys; from hostile import run_pairs; print(json.dumps(run_pairs(*json.load(sys.stdin))))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([size, slack, pairs, kind]),
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


LARGE = {
    500_000: {
        "graphs of one attribute": ["rename values", "page: around"],
        "deep tensors": ["statistics", "stats"],
        "empty graph.initializer": ["catalog"],
    },
    2_000_000: {"one key": ["check --fix quietly"], "empty names of sizes": ["check --fix quietly"]},
}
"""Pairs that once took a great many rounds or bytes for each byte, which shows beside what any call takes."""


@pytest.mark.parametrize("size", LARGE)
def test_what_once_took_too_much_for_each_byte_does_not(size):
    assert faults_of(size, LARGE[size], 64 * MEGABYTE) == []


@pytest.mark.parametrize(("kind", "texts", "calls"), [("text", TEXTS, TEXT_CALLS), ("json", JSONS, JSON_CALLS)])
def test_reading_hostile_texts_ends_within_the_limits(kind, texts, calls):
    assert faults_of(_BYTES, {text: list(calls) for text in texts}, kind=kind) == []


def test_other_notations_of_text_cost_as_little_as_that_of_printers():
    # Small files may take what any call takes; in these it is what each byte takes that counts.
    names = list(TEXTS)
    chosen = names[names.index("a list of nodes") : names.index("graphs nested")]
    assert len(chosen) >= 15
    assert faults_of(300_000, {text: ["from_text"] for text in chosen}, kind="text") == []


def test_skipping_what_is_nested_takes_no_look_at_all_that_is_before_it():
    pairs = {"unknown objects nested": ["from_json, unknown fields ignored"]}
    assert faults_of(400_000, pairs, kind="json") == []


def test_what_took_too_much_of_a_tensor_of_two_bytes_does_not():
    assert faults_of(250_000, {"deep tensors": ["check"]}) == []


def test_the_page_of_limits_has_the_numbers_that_there_are():
    page = (Path(__file__).parent.parent / "docs" / "limits.md").read_text()
    for number in (CHANGES, KEPT_OF_A_RULE, MOST_TENSORS, MOST_OF_PATHS):
        assert f" {number:,} " in page
    assert f"{READ >> 10} KiB of a tensor, {READ_IN_ALL >> 20} MiB of a file" in page
