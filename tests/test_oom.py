"""A failed allocation leaves no partial change: a sample of the trials of `tests/oom.py`. `make oom` runs all."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from oom_operations import OPERATIONS

PROGRAM = Path(__file__).with_name("oom.py")
COMPILER = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]

pytestmark = pytest.mark.skipif(
    shutil.which(COMPILER) is None or sysconfig.get_config_var("Py_GIL_DISABLED") == 1,
    reason="needs a C compiler, and a Python with the GIL, whose allocators of objects can be replaced",
)


@pytest.fixture(scope="module")
def printed_lines() -> list[str]:
    """Run all operations in one process, and return its lines of output and a text with its exit status and stderr."""
    result = subprocess.run(
        [sys.executable, str(PROGRAM), "--stride", "40"], capture_output=True, text=True, env={**os.environ}
    )
    return [*result.stdout.splitlines(), f"exit status {result.returncode}, {result.stderr}"]


@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
def test_a_failed_allocation_leaves_no_partial_change(name: str, printed_lines: list[str]) -> None:
    faults = [line for line in printed_lines if line.startswith(f"fault {name}, ") or line.startswith(f"fault {name}:")]
    assert not faults
    assert f"ok {name}" in printed_lines, f"the program ended after these lines: {printed_lines[-2:]}"


def test_each_allocation_of_a_sort_by_a_key_may_fail() -> None:
    """The sort makes the list of keys in a comprehension.

    setup.py corrects the code that some versions of Cython generate for comprehensions.
    """
    result = subprocess.run([sys.executable, str(PROGRAM), "sort by a key"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-500:] + result.stderr


def test_the_names_of_the_operations_are_unique() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS) > 100
