"""Count the instructions that a part of a program executes, with valgrind's tool callgrind.

A count depends on the program and its input, not on the load of the machine: tests of growth compare counts, not times.
`run` calls a function of a test module in a child process. Its first argument is a context manager, which counts the
instructions of its block:

    def measure(count, size):         # in the module "growth"
        model = load(size)
        with count:
            walk(model)
        return count.instructions

    instructions.run("growth", "measure", 500)  # 6_031_159

Callgrind is switched on at the first block: code before that takes a fifth of the time.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

HEADER = Path("/usr/include/valgrind/callgrind.h")
HAS_VALGRIND = sys.platform == "linux" and shutil.which("valgrind") is not None and HEADER.exists()
IS_SANITIZED = "ONNXWIRE_SANITIZE" in os.environ  # valgrind can't run what ASan and TSan build
# In CI a missing valgrind is an error: skipped tests would go unnoticed.
needs_valgrind = pytest.mark.skipif(
    IS_SANITIZED or (not HAS_VALGRIND and (sys.platform != "linux" or "CI" not in os.environ)),
    reason="needs valgrind and its headers, and a build without sanitizers",
)
# Valgrind's client requests are sequences of instructions without effect outside valgrind; Python has no API for them.
REQUESTS = """
#include <valgrind/callgrind.h>
void instrument(void) { CALLGRIND_START_INSTRUMENTATION; }
void zero(void) { CALLGRIND_ZERO_STATS; }
void dump(void) { CALLGRIND_DUMP_STATS; }
"""
SUMMARY = re.compile(rb"^summary: (\d+)$", re.M)  # the instructions between `zero` and `dump`
MAX_SECONDS = 1800  # processor time after which a child that hangs is killed


def run(module: str, function: str, *arguments: Any) -> Any:
    """Call a function of a test module with a Counter and the arguments, and return its result. All must fit JSON."""
    assert HAS_VALGRIND, "install valgrind (Debian: apt install valgrind)"
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "requests.c"), Path(folder, "requests.so")
        source.write_text(REQUESTS)
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
        subprocess.run([*compiler, "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        done = subprocess.run(
            [
                "valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", "--dump-line=no",
                f"--callgrind-out-file={folder}/dump", sys.executable, __file__, folder, module, function,
            ],
            input=json.dumps(arguments),
            env=os.environ | {"PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"{module}.{function} ended with status {done.returncode}:\n{done.stdout}"
        return json.loads(Path(folder, "result").read_text())


class Counter:
    """A context manager that counts the instructions of its block. instructions: the count of the last block."""

    def __init__(self, folder: Path) -> None:
        self.instructions = 0
        self._folder = folder
        self._requests = ctypes.CDLL(str(folder / "requests.so"))
        self._count = 0

    def __enter__(self) -> None:
        # Garbage collections in the block do not traverse older objects, such as imported modules.
        gc.collect()
        gc.freeze()
        if not self._count:
            self._requests.instrument()  # once: it discards all translated code
        self._requests.zero()

    def __exit__(self, *exc_info: object) -> None:
        self._requests.dump()
        self._count += 1
        dump = self._folder / f"dump.{self._count}"
        found = SUMMARY.search(dump.read_bytes())
        assert found, f"{dump} has no summary"
        self.instructions = int(found[1])
        dump.unlink()


def main() -> None:
    folder, module, function = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    result = getattr(import_module(module), function)(Counter(Path(folder)), *json.load(sys.stdin))
    Path(folder, "result").write_text(json.dumps(result))


if __name__ == "__main__":
    if sys.flags.safe_path:  # the tests of a wheel run like this
        sys.path.insert(0, str(Path(__file__).parent))
    main()
