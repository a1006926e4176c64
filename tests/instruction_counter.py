"""The program that `instructions.py` runs in a child process: `instruction_counter.py FOLDER MODULE FUNCTION`.

It calls a function with a Counter. FOLDER contains `requests.so`, and receives the dumps of valgrind and the result.
The program imports few modules, because valgrind is slow.
"""

from __future__ import annotations

import ctypes
import gc
import json
import re
import resource
import sys
from importlib import import_module
from pathlib import Path

SUMMARY = re.compile(rb"^summary: (\d+)$", re.M)  # the instructions between `zero` and `dump`
MAX_SECONDS = 1800  # processor time after which a child that hangs is killed


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
        summary = SUMMARY.search(dump.read_bytes())
        assert summary, f"{dump} has no summary"
        self.instructions = int(summary[1])
        dump.unlink()


def main() -> None:
    """Call the function with a Counter and the arguments that stdin contains as JSON; write the result to FOLDER."""
    folder, module, function = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
    result = getattr(import_module(module), function)(Counter(Path(folder)), *json.load(sys.stdin))
    Path(folder, "result").write_text(json.dumps(result))


if __name__ == "__main__":
    if sys.flags.safe_path:  # the tests of a wheel run like this
        sys.path.insert(0, str(Path(__file__).parent))
    main()
