"""The rate of attack files that `check(untrusted=True)` names, and of sound files that it does not."""

from collections import Counter

import pytest
from budget import IS_LONG
from onnx_attacks import generate as generator

import onnxwire

LEAST_RATE = 0.96
pytestmark = pytest.mark.skipif(not IS_LONG, reason="takes ten seconds")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return, for each entry of the manifest, whether a problem names it, and its security problems."""
    folder = tmp_path_factory.mktemp("attacks")
    return [(one, *_check(folder / one["file"])) for one in generator.generate(folder)["files"]]


def _check(path):
    try:
        problems = list(onnxwire.check(path, untrusted=True, limit=20))
    except onnxwire.Error:
        return True, []
    security = [problem for problem in problems if problem.rule.startswith("security-")]
    return any(problem.severity != "note" for problem in problems) or bool(security), security


def test_most_attack_files_are_named(found):
    named = Counter(is_named for one, is_named, _ in found if one["kind"] == "attack")
    missed = [one["file"] for one, is_named, _ in found if one["kind"] == "attack" and not is_named]
    assert named[True] >= LEAST_RATE * named.total(), missed


def test_sound_files_have_no_security_error(found):
    wrong = [
        (one["file"], problem.rule)
        for one, _, security in found
        for problem in security
        if one["kind"] == "sound" and problem.severity != "note"
    ]
    assert wrong == []
