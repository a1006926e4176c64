"""A short run of `fuzz_edits.py` in each of its modes finds no fault; a program whose results differ is reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz_edits.py")


@pytest.mark.parametrize("mode", ["lockstep", "identity", "alone", "threads"])
def test_random_programs_of_edits_have_no_fault(mode):
    # In a child process, as a memory error would end this process. PYTHONMALLOC=debug overwrites freed memory.
    environment = {"PYTHONMALLOC": "debug"} | os.environ
    programs = {"lockstep": 120, "identity": 120, "alone": 150, "threads": 40}[mode]
    command = [sys.executable, FUZZER, "--mode", mode, "--seed", "1", "--programs", str(programs), "--seconds", "600"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_fuzzer_reports_a_program_whose_results_differ(tmp_path):
    # The repr of a message differs on purpose (see worlds.DIFFERENCES).
    program = tmp_path / "program.txt"
    program.write_text("v0 = M.NodeProto(name='a')\nv1 = v0.input\nv1.append('b')\nrepr(v0)\n")
    command = [sys.executable, FUZZER, "--mode", "lockstep", "--run", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "differs repr" in result.stdout
