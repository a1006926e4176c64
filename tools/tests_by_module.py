"""Writes the table of CONTRIBUTING.md that says which test files cover a module: `make tests-by-module`.

The tests run under coverage.py, with their file's name as the context, also of the processes that they start, in the
folder of a build that reports the lines of Cython's modules too (`tests/instrumented.sh trace`). Lines that importing
reaches do not count. What was measured is left in `build/.coverage` of that folder, for coverage.py's own reports.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import signal
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

PAGE = Path(__file__).parent.parent / "CONTRIBUTING.md"
BEGIN, END = "<!-- made by `make tests-by-module` -->\n", "<!-- until here -->\n"
DATA = "build/.coverage"
FILE = "ONNXWIRE_TEST_FILE"
CONFIG = f"""\
[run]
source = onnxwire
parallel = true
patch = subprocess
context = ${{{FILE}}}
data_file = {Path(DATA).resolve()}
"""
IMPORTED = "import"  # the context of what importing reaches, beside its file's
# What starts browsers or clusters takes minutes, and reaches little that other tests of the same module do not.
LEFT_OUT = "not browser and not dask and not test_ray"
SECONDS = "ONNXWIRE_TEST_SECONDS"
MOST = 3  # files that are named of a module
ENOUGH = 0.9  # of the lines that any test reaches: no more files are named
NEARLY = 0.5  # of what the best file adds: one of the module's own room is named instead
Lines = set[tuple[str, int]]  # of a module's .pyx and .pxd, or .py


def main() -> None:
    """Run the tests, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", default="30", help="of CPU for a file, after which its other tests are skipped")
    parser.add_argument("--reuse", action="store_true", help="write the table of what ran before")
    options = parser.parse_args()
    files = [*(path.as_posix() for path in sorted(Path("tests").glob("*/test_*.py"))), "tests/test_varint.py"]
    if not options.reuse:
        run_tests(files, options.seconds)
    data = CoverageData(DATA)
    data.read()
    lost = [short(file) for file in files if file not in data.measured_contexts()]
    told = f"\nNot measured: {', '.join(lost)}.\n" if lost else ""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{table(data)}{told}{END}{after}")


# --- running


def run_tests(files: list[str], seconds: str) -> None:
    """Run test files, as many at a time as there are processors, and put together what they reach."""
    Path("coverage.ini").write_text(CONFIG)
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "erase", "--rcfile=coverage.ini"], check=True)
    command = [*coverage, "run", "--rcfile=coverage.ini", "-m", "pytest", "-q", "-p", Path(__file__).stem]
    path = os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(Path(__file__).parent)])
    # The tracer in C, as Cython's modules report to sys.settrace and not to sys.monitoring.
    environ = os.environ | {"COVERAGE_CORE": "ctrace", "PYTHONPATH": path, SECONDS: seconds}

    # Each in a process of its own, as some tests take the tracer away. Whether they pass is not the question here: some
    # count steps, which tracing adds to.
    def run(file: str) -> None:
        subprocess.run([*command, "-k", LEFT_OUT, file], env=environ | {FILE: file})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(run, files))
    subprocess.run([*coverage, "combine", "-q", "--rcfile=coverage.ini"], check=True)


# This module is a plugin of pytest there.
def pytest_sessionstart() -> None:
    """Import all there is, in a context of its own."""
    import onnxwire

    coverage = Coverage.current()
    coverage.switch_context(IMPORTED)
    for module in pkgutil.walk_packages(onnxwire.__path__, "onnxwire."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    coverage.switch_context("")


def pytest_runtest_setup() -> None:
    """Skip the tests of a file that took its time: walks over megabytes take long where each line is reported."""
    seconds = int(os.environ[SECONDS])
    if sum(os.times()[:4]) > seconds:
        pytest.skip("the time of its file is over")
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it took too long"))
    signal.alarm(4 * seconds)


# --- the table


def table(data: CoverageData) -> str:
    """A row for the modules of a room that the same files cover."""
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for module, reached in sorted(reached_lines(data).items()):
        room, _, name = module.rpartition("/")
        rows[room, named_files(room, reached)].append(name)
    lines = [
        f"| {f'{room}/' if room else ''} | {', '.join(names)} | {', '.join(files)} |"
        for (room, files), names in rows.items()
    ]
    return "\n".join(["| room | modules | tests |", "|---|---|---|", *lines, ""])


def reached_lines(data: CoverageData) -> dict[str, dict[str, Lines]]:
    """By module, and then by test file: the lines that it reaches and importing does not."""
    found: dict[str, dict[str, Lines]] = {}
    package = Path("onnxwire").resolve()
    for file in data.measured_files():
        by_context: dict[str, Lines] = defaultdict(set)
        for line, contexts in data.contexts_by_lineno(file).items():
            if not any(context.endswith(f"|{IMPORTED}") for context in contexts):
                for context in contexts:
                    by_context[context].add((file, line))
        if by_context:
            module = Path(file).relative_to(package).with_suffix("").as_posix()
            of_module = found.setdefault(module, defaultdict(set))
            for context, lines in by_context.items():
                of_module[context] |= lines
    return found


def named_files(room: str, reached: dict[str, Lines]) -> tuple[str, ...]:
    """The few files that together reach most lines, each the one that adds most to those before it."""
    left = set().union(*reached.values())
    few = len(left) * (1 - ENOUGH)
    named: list[str] = []
    while len(left) > few and len(named) < MOST:
        added = {file: len(lines & left) for file, lines in sorted(reached.items())}
        best = max(added.values())
        own = f"tests/{room.partition('/')[0]}/"
        nearly = [file for file, n in added.items() if n >= best * NEARLY]
        chosen = max(nearly, key=lambda file: (file.startswith(own), added[file]))
        named.append(chosen)
        left -= reached[chosen]
    return tuple(map(short, named))


def short(file: str) -> str:
    """A test file as the table names it."""
    return file.removeprefix("tests/").removesuffix(".py")


if __name__ == "__main__":
    main()
