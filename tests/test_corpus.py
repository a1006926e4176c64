"""No input of the fuzzing corpus, and no seed of a fuzz target, causes a fault.

The name of an input begins with the module and function of the first line that no earlier input had reached.
"""

from pathlib import Path

import pytest
from each import each
from fuzz_targets import TARGETS, run, seeds

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*/*"))


@each("path", CORPUS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_an_input_of_the_corpus_causes_no_fault(path):
    run(path.parent.name, path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_the_seeds_of_a_target_cause_no_fault(name):
    inputs = seeds(name)
    assert inputs
    for data in inputs:
        run(name, data)
