"""Hostile models cost no more memory and instructions than their size allows, whatever is done to them."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import instructions
import pytest
from budget import IS_LONG
from hostile import CALLS, JSON_CALLS, MEGABYTE, ROUNDS, TEXT_CALLS
from hostile_models import JSONS, MODELS, TEXTS

from onnxwire.analysis.statistics import MOST_OF_PATHS, MOST_TENSORS
from onnxwire.checker.limits import CHANGES, KEPT_OF_A_RULE, READ, READ_IN_ALL

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

_BYTES = 20_000  # `make hostile` takes a hundred times as many
_ONE_IN = 18 if IS_LONG else 36  # of the pairs of a model and a call that are tried here; `make hostile` tries all


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
    # Each call is tried on a part of the models, and each model with a part of the calls.
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
    "fan-out": ("page: around",),
    "empty graph.input": ("diff with an edited one",),
    "a chain": ("extract", "diff with an edited one"),
    "graphs nested": ("rename values", "tensors", "extract"),
    "an input taken by all": ("rename what all take", "arrow of an edited one"),
    "graphs of one attribute": ("rename values", "page: around"),
    "deep tensors": ("statistics", "stats", "check"),
    "one key": ("check --fix quietly",),
    "empty names of sizes": ("check --fix quietly",),
}
WRITERS = {
    "wide strings": ("npz",),
    "one name of all nodes": ("catalog",),
    "empty graph.initializer": ("catalog",),
}
"""Pairs that once took too much; of `WRITERS`, the output is hundreds of times the input."""


LARGE = {
    250_000: {"deep tensors": ["check"]},
    500_000: {
        "graphs of one attribute": ["rename values", "page: around"],
        "deep tensors": ["statistics", "stats"],
        "empty graph.initializer": ["catalog"],
    },
    2_000_000: {"one key": ["check --fix quietly"], "empty names of sizes": ["check --fix quietly"]},
}
"""Pairs that once took a great many bytes for each byte, which shows beside what any call takes."""


def test_what_once_took_too_much_memory_does_not():
    of_large = {kind for pairs in LARGE.values() for kind in pairs}
    pairs = {kind: list(labels) for kind, labels in {**KNOWN, **WRITERS}.items() if kind not in of_large}
    assert faults_of(60_000, pairs) == []


@pytest.mark.parametrize("size", LARGE)
def test_what_once_took_too_much_memory_for_each_byte_does_not(size):
    assert faults_of(size, LARGE[size], 64 * MEGABYTE) == []


NESTED = {
    "unknown arrays nested",
    "unknown objects nested",
}  # the slower of two parsers reads them from 10,000 bytes on
_SKIPPING = {"text": ("from_text, unknown fields ignored",), "json": ("from_json, unknown fields ignored",)}
TEXT_SIZES = (200, 1_000, 10_000) if IS_LONG else (200, 800, 3_000)
BATCHES = [
    ("model", KNOWN, (500, 2_000, 16_000)),
    ("model", WRITERS, (100, 300, 1_500)),
    ("text", dict.fromkeys(sorted(TEXTS.keys() - {"nothing"}), _SKIPPING["text"]), (200, 800, 6_000)),
    ("json", dict.fromkeys(sorted(JSONS.keys() - NESTED - {"nothing"}), _SKIPPING["json"]), (200, 800, 6_000)),
    ("json", dict.fromkeys(sorted(NESTED), _SKIPPING["json"]), (12_000, 14_000, 30_000)),
]
_MORE = 3  # times as many instructions for each byte of larger files: buffers and tables grow in steps
_LEAST = 200  # instructions for each byte, below which other work of the process shows


@instructions.needs_valgrind
def test_instructions_grow_in_proportion_to_the_bytes():
    """Each byte of a larger file takes no more of them than one of a smaller file, nor more than the limit.

    The limit is that of `hostile.py`, in rounds of a loop. It is doubled: how many instructions a round takes beside
    other work differs between builds of Python.
    """
    round_cost, counts = instructions.run("hostile", "count_pairs", BATCHES)
    faults = []
    for label, points in counts.items():
        few, many = (
            (work - less_work) / max(n - less, 1) for (less, less_work), (n, work) in itertools.pairwise(points)
        )
        if many > _MORE * max(few, _LEAST) or many > 2 * ROUNDS * round_cost:
            faults.append(f"{label}: {few:,.0f} instructions for each byte, then {many:,.0f}: {points}")
    assert len(counts) == sum(len(labels) for _, pairs, _ in BATCHES for labels in pairs.values())
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("kind", "texts", "calls"), [("text", TEXTS, TEXT_CALLS), ("json", JSONS, JSON_CALLS)])
def test_reading_hostile_texts_ends_within_the_limits(kind, texts, calls):
    assert faults_of(_BYTES, {text: list(calls) for text in texts}, kind=kind) == []


def test_the_page_of_limits_has_the_numbers_that_there_are():
    page = (Path(__file__).parent.parent / "docs" / "limits.md").read_text()
    for number in (CHANGES, KEPT_OF_A_RULE, MOST_TENSORS, MOST_OF_PATHS):
        assert f" {number:,} " in page
    assert f"{READ >> 10} KiB of a tensor, {READ_IN_ALL >> 20} MiB of a file" in page
