"""Measures rows: runs both sides alternately in new processes, and computes medians."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER
from benchmarks.row import Row

REPOSITORY_ROOT = Path(__file__).parents[1]
WORKER_PROGRAM = "from benchmarks.worker import main; main()"


class WorkerError(Exception):
    """A process failed, or two processes of a row returned different results."""


@dataclass
class Samples:
    """The costs of one side, one value per process.

    seconds: elapsed times, or processor times if `Row.cpu_time`. extra, anonymous: the increases of the peak RSS and of
    anonymous memory in bytes; None if not measured.
    """

    seconds: list[float] = field(default_factory=list)
    extra: list[int | None] = field(default_factory=list)
    anonymous: list[int | None] = field(default_factory=list)

    def median(self, name: str) -> float | None:
        """Return the median of one of the lists, or None if nothing was measured."""
        values = [value for value in getattr(self, name) if value is not None]
        return statistics.median(values) if values else None


@dataclass
class Result:
    """A row with its measurements.

    benchmark: the name of the module with the row. skip: the reason why the row was not measured, or "".
    """

    benchmark: str
    row: Row
    ours: Samples = field(default_factory=Samples)
    official: Samples = field(default_factory=Samples)
    skip: str = ""

    @property
    def ratio(self) -> float | None:
        """The median time of the official side divided by that of onnxwire; None if one of them was not measured."""
        ours, official = self.ours.median("seconds"), self.official.median("seconds")
        return official / ours if ours and official else None

    @property
    def verdicts(self) -> dict[str, bool]:
        """Whether each goal that is set and measured is met, by name: "time", "memory", "anonymous memory"."""
        ratio, extra = self.ratio, self.ours.median("extra")
        verdicts = {}
        if self.row.goal is not None and ratio is not None:
            verdicts["time"] = ratio >= self.row.goal
        if self.row.memory_goal is not None and extra is not None:
            verdicts["memory"] = extra < self.row.memory_goal
        anonymous = self.ours.median("anonymous")
        if self.row.anonymous_goal is not None and anonymous is not None:
            verdicts["anonymous memory"] = anonymous < self.row.anonymous_goal
        return verdicts

    def to_json(self) -> dict[str, Any]:
        """Return all measurements and goals as a dict for a JSON file."""
        sides = {
            name: {key: samples.median(key) for key in asdict(samples)} | {"samples": asdict(samples)}
            for name, samples in (("ours", self.ours), ("official", self.official))
        }
        return {
            "benchmark": self.benchmark,
            "work": self.row.work,
            **sides,
            "ratio": self.ratio,
            "goal": self.row.goal,
            "memory_goal": self.row.memory_goal,
            "anonymous_goal": self.row.anonymous_goal,
            "goals_met": self.verdicts,
            "note": self.row.note,
            "compared_with": self.row.other_program or "onnx",
            "skip": self.skip,
        }


def rows_of(benchmark: str) -> list[Row]:
    """Return the rows of a benchmark, which is the name of a module in this package."""
    rows: list[Row] = import_module(f"benchmarks.{benchmark}").ROWS
    return rows


def worker_environment() -> dict[str, str]:
    """Return an environment in which both sides use compiled bytecode, as installed packages do."""
    # With PYTHONDONTWRITEBYTECODE set, every process would compile the modules of a checkout again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(FOLDER / "pycache")}


def run_worker(benchmark: str, index: int, side: str) -> dict[str, Any]:
    """Run `worker.main` in a new interpreter and return its report. Raises WorkerError if it fails.

    side: "ours", "official" or "prepare".
    """
    command = [sys.executable, "-c", WORKER_PROGRAM, benchmark, str(index), side]
    process = subprocess.run(command, cwd=REPOSITORY_ROOT, env=worker_environment(), capture_output=True, text=True)
    if process.returncode:
        reason = process.stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
        raise WorkerError(f"{benchmark}, row {index}, {side}: {reason[0]}")
    report: dict[str, Any] = json.loads(process.stdout)
    return report


def measure(benchmark: str, index: int, repeats: int | None, progress: Callable[[str], None]) -> Result:
    """Measure a row, unless its preparation skips it: one process per side as warm-up, then `repeats` per side.

    benchmark, index: the module and the index of the row in its ROWS. repeats: None for `Row.repeats`. progress: called
    with a text before the preparation and each run. Raises WorkerError if a process fails or results differ.
    """
    row = rows_of(benchmark)[index]
    result = Result(benchmark, row)
    progress(f"{row.work}: preparing")
    result.skip = run_worker(benchmark, index, "prepare")["skip"]
    if result.skip:
        return result
    count = repeats or row.repeats
    sides = ["ours"] if row.official is None else ["ours", "official"]
    fingerprints = []
    for run in range(count + 1):
        progress(f"{row.work}: {run} of {count}")
        # The sides alternate in running first, so that both benefit equally from warm caches.
        for side in sides if run % 2 else reversed(sides):
            report = run_worker(benchmark, index, side)
            fingerprints.append(report.pop("fingerprint"))
            if run:
                samples = getattr(result, side)
                for name, value in report.items():
                    getattr(samples, name).append(value)
    if any(fingerprint != fingerprints[0] for fingerprint in fingerprints):
        raise WorkerError(f"{benchmark}, row {index}: the processes returned different results")
    return result
