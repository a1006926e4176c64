"""Make each allocation of each operation fail once, as SQLite's tests do: `oom.py [--stride S] [--burst B] [NAME…]`.

Each trial makes a new state, and makes the n-th allocation of the operation fail; n is 1, 2, … up to the number of its
allocations. A trial checks that the operation succeeded or raised MemoryError (or one of its `other_errors`); that the
state is that before or after the operation; that Python reported no unraisable exception; that the garbage collector
is enabled; and that no temporary file remains. From n = 2 on, further trials check that no memory leaks, except for
operations with `keeps_memory`. With `--burst B`, the allocations n to n + B - 1 fail.

The program prints the name of an operation and n before each trial, so that after a crash the last line names the
trial, and `ok NAME` or `fault …` after an operation. With `--stride S` it tries n = 1, and then every S-th n from one
that depends on the name.
"""

from __future__ import annotations

import argparse
import functools
import gc
import importlib.machinery
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import oom_operations

SOURCE = Path(__file__).with_name("failing_memory.c")
UNRAISABLE_ERRORS: list[str] = []
"""The unraisable exceptions (sys.unraisablehook) of the current trial."""


class Outcome(NamedTuple):
    """The result of a trial. faults: descriptions. is_hit: whether the operation reached the allocation that fails."""

    faults: list[str]
    is_hit: bool


def build_failing_memory(folder: str) -> Any:
    """Compile and import failing_memory.c in a folder; return the module.

    Raises CalledProcessError or OSError if there is no C compiler.
    """
    target = os.path.join(folder, "failing_memory" + importlib.machinery.EXTENSION_SUFFIXES[0])
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    include = sysconfig.get_path("include")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run(
        [*compiler, "-shared", "-fPIC", "-O1", "-g", f"-I{include}", str(SOURCE), "-o", target],
        check=True,
        env=environment,
    )
    loader = importlib.machinery.ExtensionFileLoader("failing_memory", target)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("failing_memory", loader))
    loader.exec_module(module)
    return module


class Trials:
    """The trials of one operation."""

    def __init__(self, failing_memory: Any, operation: oom_operations.Operation, folder: str, burst: int) -> None:
        self.failing_memory = failing_memory
        self.operation = operation
        self.folder = folder
        self.burst = burst
        for _ in range(3):  # fills caches and free lists, and runs imports
            state = operation.make_state(folder)
            operation.run(state)
            content_after = operation.read_content(state)
        gc.collect()
        gc.freeze()  # later collections traverse only objects that are created from now on
        self.files = sorted(os.listdir(folder))
        self.content_before = operation.read_content(operation.make_state(folder))
        self.content_after = content_after

    def run_trial(self, n: int) -> Outcome:
        """Run the operation on a new state, make its n-th allocation fail, and check the effects."""
        faults = []
        state = self.operation.make_state(self.folder)
        run_operation = functools.partial(self.operation.run, state)
        error = None
        try:
            self.failing_memory.call(run_operation, n, self.burst)
        except MemoryError:
            pass
        except BaseException as raised:
            error = raised
        n_failed, _ = self.failing_memory.last_counts()
        if error is not None and not (n_failed and isinstance(error, self.operation.other_errors)):
            faults.append("raised " + "".join(traceback.format_exception(error)[-3:]))
        del error
        if not gc.isenabled():
            faults.append("the garbage collector is disabled")
            gc.enable()
        faults += [f"reported the unraisable exception {text}" for text in UNRAISABLE_ERRORS]
        UNRAISABLE_ERRORS.clear()
        try:
            content = self.operation.read_content(state)
        except BaseException as raised:
            faults.append("cannot be read afterwards: " + "".join(traceback.format_exception(raised)[-3:]))
        else:
            if content != self.content_before and content != self.content_after:
                faults.append(f"has neither the content before the call nor that after it: {content!r:.300}")
        del state, run_operation
        files = sorted(os.listdir(self.folder))
        if files != self.files:
            faults.append(f"added or removed the files {sorted({*files} ^ {*self.files})}")
            self.files = files
        return Outcome(faults, n_failed > 0)

    def leaked_blocks_of(self, n: int) -> int:
        """Return the number of memory blocks that a trial leaks: the minimum of several trials."""
        min_blocks: int | None = None
        for _ in range(8):
            gc.collect()
            blocks_before = self.failing_memory.block_count()
            self.run_trial(n)
            gc.collect()
            n_leaked = self.failing_memory.block_count() - blocks_before
            min_blocks = n_leaked if min_blocks is None else min(n_leaked, min_blocks)
            if min_blocks <= 0:
                return 0
        return min_blocks


def failing_allocations(name: str, stride: int) -> Iterator[int]:
    """Yield the numbers of the allocations that fail: 1, then every `stride`-th from one that depends on the name."""
    n = 1
    shift = zlib.crc32(name.encode()) % stride
    while True:
        yield n
        n += 1 if stride == 1 else max(stride - shift, 1)
        shift = 0


def run_trials(failing_memory: Any, operation: oom_operations.Operation, stride: int, burst: int) -> list[str]:
    """Run the trials of an operation, until there are more than five faults; return the faults."""
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(failing_memory, operation, folder, burst)
        for n in failing_allocations(operation.name, stride):
            os.write(1, f"{operation.name} {n}\n".encode())
            outcome = trials.run_trial(n)
            faults += [f"{operation.name}, allocation {n}: {fault}" for fault in outcome.faults]
            if not outcome.is_hit or len(faults) > 5:
                break
            if n > 1 and not operation.keeps_memory and (n_blocks := trials.leaked_blocks_of(n)) > 0:
                faults.append(f"{operation.name}, allocation {n}: number of leaked memory blocks: {n_blocks}")
    return faults


def main() -> int:
    """Try the operations that the arguments name, or all; return 1 if there was a fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--burst", type=int, default=1)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda unraisable: UNRAISABLE_ERRORS.append(
        f"{unraisable.exc_value!r} in {unraisable.object!r}"
    )
    has_failed = False
    with tempfile.TemporaryDirectory() as folder:
        failing_memory = build_failing_memory(folder)
        for operation in oom_operations.OPERATIONS:
            if options.names and operation.name not in options.names:
                continue
            try:
                faults = run_trials(failing_memory, operation, options.stride, options.burst)
            except BaseException:
                faults = [f"{operation.name}: {traceback.format_exc()}"]
            has_failed = has_failed or bool(faults)
            lines = ["fault " + fault.replace("\n", "\\n") for fault in faults] or [f"ok {operation.name}"]
            os.write(1, "".join(f"{line}\n" for line in lines).encode())
    os.write(1, b"all tried\n")
    return has_failed


if __name__ == "__main__":
    sys.exit(main())
