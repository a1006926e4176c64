"""Operations in which one allocation fails: some of what `tests/oom.py` tries; `make oom` tries all, under ASan."""

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
    reason="needs a C compiler, and a Python whose objects come from the allocators that can be replaced",
)


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """What the program writes, which tries all operations in one process."""
    ran = subprocess.run(
        [sys.executable, str(PROGRAM), "--stride", "40"], capture_output=True, text=True, env={**os.environ}
    )
    return [*ran.stdout.splitlines(), f"exit status {ran.returncode}, {ran.stderr}"]


@pytest.mark.parametrize("name", [operation.name for operation in OPERATIONS])
def test_an_allocation_that_fails_leaves_all_as_it_was(name: str, lines: list[str]) -> None:
    faults = [line for line in lines if line.startswith(f"fault {name}, ") or line.startswith(f"fault {name}:")]
    assert not faults
    assert f"ok {name}" in lines, f"the last that was tried, and how it ended: {lines[-2:]}"


def test_a_sort_by_a_key_is_tried_with_every_allocation() -> None:
    """A list that cannot grow in a comprehension was released twice."""
    ran = subprocess.run([sys.executable, str(PROGRAM), "sort by a key"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-500:] + ran.stderr


def test_the_operations_are_those_that_the_program_knows() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS) > 100
