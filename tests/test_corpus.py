"""Every input that fuzzing kept, each named for the function that it was the first to reach."""

from pathlib import Path

import pytest
from each import each
from fuzz_targets import TARGETS, run, seeds

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*/*"))


@each("path", CORPUS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_was_found_once_is_right(path):
    run(path.parent.name, path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_what_a_target_begins_with_is_right(name):
    inputs = seeds(name)
    assert inputs
    for data in inputs:
        run(name, data)
