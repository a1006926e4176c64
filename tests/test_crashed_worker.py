"""A parallel test run fails if a test ends its worker process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist")
# A test of nine cases, of which the fifth ends the process.
CRASHING_TEST = (
    "import os\nimport pytest\n@pytest.mark.parametrize('n', range(9))\ndef test(n):\n    n == 4 and os._exit(9)\n"
)
PASSING_TEST = CRASHING_TEST.replace("n == 4", "False")


def test_a_run_in_which_a_test_ends_its_worker_fails(tmp_path):
    for name in ("conftest.py", "budget.py"):
        shutil.copy(Path(__file__).with_name(name), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    for index in range(4):
        (tmp_path / f"test_{index}.py").write_text(CRASHING_TEST if index == 1 else PASSING_TEST)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 1, result.stdout
    assert "crashed while running 'test_1.py::test[4]'" in result.stdout
