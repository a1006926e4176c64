"""`check(untrusted=True)` reports most attack files, and no security error or warning in a benign model."""

from collections import Counter

import pytest
from budget import IS_LONG
from onnx_attacks import generate as generator

import onnxwire

MIN_DETECTION_RATE = 0.96
pytestmark = pytest.mark.skipif(not IS_LONG, reason="takes ten seconds")


@pytest.fixture(scope="module")
def checked_files(tmp_path_factory):
    """Return a list with the manifest's entry of each file, whether the file is reported, and its security problems."""
    folder = tmp_path_factory.mktemp("attacks")
    return [(entry, *_check_file(folder / entry["file"])) for entry in generator.generate(folder)["files"]]


def _check_file(path):
    """Return whether a file is reported, and its security problems (at most 20 per rule).

    A file is reported by an exception, by an error or warning, or by a security problem of any severity. The problems
    are None after an exception.
    """
    try:
        problems = list(onnxwire.check(path, untrusted=True, limit=20))
    except onnxwire.Error:
        return True, None
    security_problems = [problem for problem in problems if problem.rule.startswith("security-")]
    return any(problem.severity != "note" for problem in problems) or bool(security_problems), security_problems


def test_most_attack_files_are_reported(checked_files):
    counts = Counter(is_reported for entry, is_reported, _ in checked_files if entry["kind"] == "attack")
    missed_files = [
        entry["file"] for entry, is_reported, _ in checked_files if entry["kind"] == "attack" and not is_reported
    ]
    assert counts[True] >= MIN_DETECTION_RATE * counts.total(), missed_files


def test_benign_models_have_no_security_errors_or_warnings(checked_files):
    problems_by_file = {entry["file"]: problems for entry, _, problems in checked_files if entry["kind"] == "sound"}
    assert None not in problems_by_file.values(), "check raises an exception for a benign model"
    false_alarms = [
        (file, problem.rule)
        for file, problems in problems_by_file.items()
        for problem in problems
        if problem.severity != "note"
    ]
    assert false_alarms == []
