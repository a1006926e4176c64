"""Memory and instructions of calls on hostile models stay below limits that depend on the model's size."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import instructions
import pytest
from budget import IS_LONG
from hostile import CALLS, JSON_CALLS, MIB, ROUNDS_PER_BYTE, TEXT_CALLS, make_tasks
from hostile_models import JSONS, MODELS, TEXTS

from onnxwire.analysis.statistics import MAX_PATH_CHARS, MAX_TENSORS
from onnxwire.checker.limits import MAX_CHANGES, MAX_PROBLEMS_PER_RULE, MAX_READ_BYTES, MAX_TOTAL_READ_BYTES

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc"),
    pytest.mark.normal_build,
]

_FILE_BYTES = 20_000  # `make hostile` tries files of a hundred times the size
# With --long, every 18th pair of a model and a call is tested, otherwise every 72nd; `make hostile` tests all pairs.
_PAIR_STEP = 18 if IS_LONG else 72


def faults_of(size: int, pairs: dict[str, list[str]], base_bytes: int = 16 * MIB, kind: str = "model") -> list[str]:
    """Run `hostile.run_pairs` in a child process with few modules, which forks for each call; return the faults.

    Arguments: those of `run_pairs`.
    """
    code = "import json, sys; from hostile import run_pairs; print(json.dumps(run_pairs(*json.load(sys.stdin))))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([size, base_bytes, pairs, kind]),
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


def test_calls_on_hostile_models_stay_below_the_memory_limit():
    # Each call is tested on a part of the models, and each model with a part of the calls.
    pairs = {
        name: [label for i, label in enumerate(CALLS) if (i + index) % _PAIR_STEP == 0]
        for index, name in enumerate(MODELS)
    }
    assert faults_of(_FILE_BYTES, pairs) == []


DEMANDING_PAIRS = {
    "subgraphs": ("rename values", "rename nodes", "rename nothing", "page: around"),
    "many names": ("page: around", "extract", "set"),
    "outer inputs": ("page: around", "extract"),
    "untyped inputs": ("extract all inputs",),
    "untyped initializers": ("extract initializers",),
    "one value produced by all": ("extract", "rename values"),
    "fan-out": ("page: around",),
    "empty graph.input": ("diff with an edited copy",),
    "a chain": ("extract", "diff with an edited copy"),
    "graphs nested": ("rename values", "tensors", "extract"),
    "an input read by all": ("rename an input of all nodes", "arrow of an edited model"),
    "graphs of one attribute": ("rename values", "page: around"),
    "deep tensors": ("statistics", "stats", "check"),
    "one key": ("check --fix quietly",),
    "empty names of dimensions": ("check --fix quietly",),
    "empty functions": ("page: map",),
    "functions that call one another": ("check untrusted",),
    "a function that calls itself": ("check untrusted",),
    "empty subgraphs": ("check untrusted",),
    "metadata": ("check untrusted",),
}
"""Calls, by model, for which a simple algorithm exceeds the limits."""

DEMANDING_WRITER_PAIRS = {
    "wide strings": ("npz",),
    "one name of all nodes": ("catalog",),
    "empty graph.initializer": ("catalog",),
}
"""Calls as in DEMANDING_PAIRS whose output may be hundreds of times the size of the model."""


LARGE_DEMANDING_PAIRS = {
    250_000: {"deep tensors": ["check"]},
    500_000: {
        "graphs of one attribute": ["rename values", "page: around"],
        "deep tensors": ["statistics", "stats"],
        "empty subgraphs": ["check untrusted"],
        "empty graph.initializer": ["catalog"],
    },
    2_000_000: {
        "one key": ["check --fix quietly"],
        "empty names of dimensions": ["check --fix quietly"],
        "empty functions": ["page: map"],
    },
}
"""Pairs for which a simple algorithm uses very much memory per byte, by the size of the model in bytes. The sizes are
large enough that this memory exceeds the constant memory of any call."""


def test_demanding_calls_stay_below_the_memory_limit():
    models_of_large_pairs = {name for pairs in LARGE_DEMANDING_PAIRS.values() for name in pairs}
    pairs = {
        name: list(labels)
        for name, labels in {**DEMANDING_PAIRS, **DEMANDING_WRITER_PAIRS}.items()
        if name not in models_of_large_pairs
    }
    assert faults_of(60_000, pairs) == []


@pytest.mark.parametrize("size", LARGE_DEMANDING_PAIRS)
def test_demanding_calls_on_large_models_stay_below_the_memory_limit(size):
    assert faults_of(size, LARGE_DEMANDING_PAIRS[size], 64 * MIB) == []


_UNKNOWN_FIELD_CALLS = {"text": ("from_text, unknown fields ignored",), "json": ("from_json, unknown fields ignored",)}

# Sizes in bytes of the three files of a pair.
MODEL_SIZES = (500, 2_000, 16_000) if IS_LONG else (60, 240, 960)
TEXT_SIZES = (200, 800, 6_000) if IS_LONG else (100, 300, 1_000)
JSON_SIZES = (200, 800, 6_000) if IS_LONG else (200, 600, 2_400)
# Commands execute millions of instructions before they read the model, so they are counted with --long only.
_UNCOUNTED_COMMANDS = () if IS_LONG else ("set", "stats", "check --fix quietly")
COUNTED_PAIRS = {
    name: [label for label in labels if label not in _UNCOUNTED_COMMANDS] for name, labels in DEMANDING_PAIRS.items()
}
# The readers of text treat most of these texts alike, so every fourth text is sufficient without --long.
_TEXT_STEP = 1 if IS_LONG else 4
_TEXTS = sorted(TEXTS.keys() - {"nothing"})[::_TEXT_STEP]
_JSONS = sorted(JSONS.keys() - {"nothing"})[::_TEXT_STEP]
# Arguments of `make_tasks`: the kind of the files, the pairs and the sizes.
BATCHES = [
    ("model", COUNTED_PAIRS, MODEL_SIZES),
    *([("model", DEMANDING_WRITER_PAIRS, (100, 300, 1_500))] if IS_LONG else []),
    ("text", dict.fromkeys(_TEXTS, _UNKNOWN_FIELD_CALLS["text"]), TEXT_SIZES),
    ("json", dict.fromkeys(_JSONS, _UNKNOWN_FIELD_CALLS["json"]), JSON_SIZES),
]
_MAX_RATIO = 3  # between the instructions per byte of larger and smaller files; buffers and tables grow in steps
_NOISE_FLOOR = 200  # instructions per byte; below this, other work of the process dominates


@instructions.needs_valgrind
def test_instructions_grow_in_proportion_to_the_bytes():
    """The instructions per byte do not grow with the size of the file, and stay below the limit of `hostile.py`.

    The limit, in rounds of a loop, is doubled: the instructions of a round differ between builds of Python.
    """
    tasks = [task for batch in BATCHES for task in make_tasks(*batch)]
    round_cost, counts = instructions.run("hostile", "count_pairs", tasks)
    faults = []
    for label, sizes_and_counts in counts.items():
        cost_of_small, cost_of_large = (
            (count - previous_count) / max(n - previous_n, 1)
            for (previous_n, previous_count), (n, count) in itertools.pairwise(sizes_and_counts)
        )
        if (
            cost_of_large > _MAX_RATIO * max(cost_of_small, _NOISE_FLOOR)
            or cost_of_large > 2 * ROUNDS_PER_BYTE * round_cost
        ):
            faults.append(
                f"{label}: {cost_of_small:,.0f} instructions per byte, then {cost_of_large:,.0f}: {sizes_and_counts}"
            )
    assert len(counts) == len(tasks)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("kind", "texts", "calls"), [("text", TEXTS, TEXT_CALLS), ("json", JSONS, JSON_CALLS)])
def test_reading_hostile_texts_stays_below_the_memory_limit(kind, texts, calls):
    step = 1 if IS_LONG else 2
    pairs = {text: list(calls)[index % step :: step] for index, text in enumerate(texts)}
    assert faults_of(_FILE_BYTES, pairs, kind=kind) == []


def test_the_limits_page_has_the_current_numbers():
    page = (Path(__file__).parent.parent / "docs" / "limits.md").read_text()
    for number in (MAX_CHANGES, MAX_PROBLEMS_PER_RULE, MAX_TENSORS, MAX_PATH_CHARS):
        assert f" {number:,} " in page
    assert f"{MAX_READ_BYTES >> 10} KiB of a tensor, {MAX_TOTAL_READ_BYTES >> 20} MiB of a file" in page
