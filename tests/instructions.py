"""Count the instructions that a part of a program executes, with valgrind's tool callgrind.

A count depends on the program and its input, but not on the load of the machine, so tests of growth compare counts.
`run` calls a function of a test module in a child process. The function's first argument is a context manager, which
counts the instructions of its block:

    def count_walk(count, size):                     # in the module `walks`
        model = model_of(size)
        with count:
            walk(model)
        return count.instructions

    instructions.run("walks", "count_walk", 500)     # returns a number such as 6_031_159

Callgrind is switched on at the first block. From then on, code takes ten times as long.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).with_name("instruction_counter.py")
HEADER = Path("/usr/include/valgrind/callgrind.h")
HAS_VALGRIND = sys.platform == "linux" and shutil.which("valgrind") is not None and HEADER.exists()
IS_SANITIZED = "ONNXWIRE_SANITIZE" in os.environ  # valgrind can't run programs built with ASan or TSan
# In CI a missing valgrind is an error: skipped tests would go unnoticed.
needs_valgrind = pytest.mark.skipif(
    IS_SANITIZED or (not HAS_VALGRIND and (sys.platform != "linux" or "CI" not in os.environ)),
    reason="needs valgrind and its headers, and a build without sanitizers",
)
# Valgrind's client requests are instructions without effect outside valgrind. They need C code.
REQUESTS = """
#include <valgrind/callgrind.h>
void instrument(void) { CALLGRIND_START_INSTRUMENTATION; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void dump(void) { CALLGRIND_DUMP_STATS; }
"""


def run(module: str, function: str, *arguments: Any) -> Any:
    """Call a function of a test module with a context manager that counts, and the arguments; return its result.

    The arguments and the result are passed between the processes as JSON.
    """
    assert HAS_VALGRIND, "install valgrind (Debian: apt install valgrind)"
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "requests.c"), Path(folder, "requests.so")
        source.write_text(REQUESTS)
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
        subprocess.run([*compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        result = subprocess.run(
            [
                "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--dump-line=no",
                f"--callgrind-out-file={folder}/dump", sys.executable, CHILD, folder, module, function,
            ],
            input=json.dumps(arguments),
            env=os.environ | {"PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        assert result.returncode == 0, f"{module}.{function} ended with status {result.returncode}:\n{result.stdout}"
        return json.loads(Path(folder, "result").read_text())
