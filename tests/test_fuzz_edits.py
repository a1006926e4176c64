"""Random programs of edits do with our messages what they do with the official runtime's: a short run of the fuzzer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FUZZER = Path(__file__).with_name("fuzz_edits.py")


@pytest.mark.parametrize("mode", ["lockstep", "identity", "alone", "threads"])
def test_random_programs_of_edits_go_right(mode):
    # In a process of its own: what goes wrong with memory would be the end of this one. What is freed is overwritten.
    environment = {"PYTHONMALLOC": "debug"} | os.environ
    programs = {"lockstep": 120, "identity": 120, "alone": 150, "threads": 40}[mode]
    command = [sys.executable, FUZZER, "--mode", mode, "--seed", "1", "--programs", str(programs), "--seconds", "600"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_program_that_differs_is_found_and_made_short(tmp_path):
    """The fuzzer sees a difference: the repr of a message is one of DIFFERENCES."""
    program = tmp_path / "program.txt"
    program.write_text("v0 = M.NodeProto(name='a')\nv1 = v0.input\nv1.append('b')\nrepr(v0)\n")
    command = [sys.executable, FUZZER, "--mode", "lockstep", "--run", program]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "differs repr" in result.stdout
