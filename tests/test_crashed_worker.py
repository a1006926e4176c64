"""The end of a parallel test run in which a test ends its worker process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist")
CRASH = "import os\nimport pytest\n@pytest.mark.parametrize('n', range(9))\ndef test(n):\n    n == 4 and os._exit(9)\n"
WITHOUT_CRASH = CRASH.replace("n == 4", "False")


def test_a_run_ends_with_a_failure_where_a_test_ends_its_worker(tmp_path):
    for name in ("conftest.py", "budget.py"):
        shutil.copy(Path(__file__).with_name(name), tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    for index in range(4):
        (tmp_path / f"test_{index}.py").write_text(CRASH if index == 1 else WITHOUT_CRASH)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout
    assert "crashed while running 'test_1.py::test[4]'" in done.stdout
