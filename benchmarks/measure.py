"""Runs both sides of a row alternately in new processes, and computes medians."""

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

ROOT = Path(__file__).parents[1]
WORKER = "from benchmarks.worker import main; main()"


class WorkerError(Exception):
    """A measuring process failed, or the two sides returned different results."""


@dataclass
class Samples:
    """The cost of one side, one value per process: seconds, additional bytes of peak RSS, additional bytes of anonymous
    memory."""

    seconds: list[float] = field(default_factory=list)
    extra: list[int | None] = field(default_factory=list)
    anonymous: list[int | None] = field(default_factory=list)

    def median(self, name: str) -> float | None:
        """Return the median of one of the lists, or None if nothing was measured."""
        values = [value for value in getattr(self, name) if value is not None]
        return statistics.median(values) if values else None


@dataclass
class Result:
    """A row with its measurements. skip: the reason why it was not measured, or ""."""

    piece: str
    row: Row
    ours: Samples = field(default_factory=Samples)
    official: Samples = field(default_factory=Samples)
    skip: str = ""

    @property
    def ratio(self) -> float | None:
        """The official runtime's time divided by ours."""
        ours, official = self.ours.median("seconds"), self.official.median("seconds")
        return official / ours if ours and official else None

    @property
    def verdicts(self) -> dict[str, bool]:
        """Return whether each goal that is set and measured is met: "time", "memory", "private memory"."""
        ratio, extra = self.ratio, self.ours.median("extra")
        verdicts = {}
        if self.row.goal is not None and ratio is not None:
            verdicts["time"] = ratio >= self.row.goal
        if self.row.memory_goal is not None and extra is not None:
            verdicts["memory"] = extra < self.row.memory_goal
        anonymous = self.ours.median("anonymous")
        if self.row.private_goal is not None and anonymous is not None:
            verdicts["private memory"] = anonymous < self.row.private_goal
        return verdicts

    def to_json(self) -> dict[str, Any]:
        """Return all data as a dict for a JSON file."""
        sides = {
            name: {key: samples.median(key) for key in asdict(samples)} | {"samples": asdict(samples)}
            for name, samples in (("ours", self.ours), ("official", self.official))
        }
        return {
            "piece": self.piece,
            "work": self.row.work,
            **sides,
            "ratio": self.ratio,
            "goal": self.row.goal,
            "memory_goal": self.row.memory_goal,
            "private_goal": self.row.private_goal,
            "goals_met": self.verdicts,
            "note": self.row.note,
            "beside": self.row.beside or "onnx",
            "skip": self.skip,
        }


def rows_of(piece: str) -> list[Row]:
    """Return the rows of a module of this package."""
    rows: list[Row] = import_module(f"benchmarks.{piece}").ROWS
    return rows


def worker_environment() -> dict[str, str]:
    """Return an environment in which both sides use compiled bytecode, as installed packages do."""
    # With PYTHONDONTWRITEBYTECODE set, every process would compile the modules of a checkout again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(FOLDER / "pycache")}


def run_worker(piece: str, index: int, side: str) -> dict[str, Any]:
    """Run `worker.main` in a new interpreter and return its report."""
    command = [sys.executable, "-c", WORKER, piece, str(index), side]
    done = subprocess.run(command, cwd=ROOT, env=worker_environment(), capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise WorkerError(f"{piece}, row {index}, {side}: {reason[0]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def measure(piece: str, index: int, repeats: int | None, progress: Callable[[str], None]) -> Result:
    """Measure a row: one process per side as warm-up, then `repeats` measured processes (None: the row's number).

    Raises WorkerError if a process fails or the results of the two sides differ.
    """
    row = rows_of(piece)[index]
    result = Result(piece, row)
    progress(f"{row.work}: preparing")
    result.skip = run_worker(piece, index, "prepare")["skip"]
    if result.skip:
        return result
    count = repeats or row.repeats
    sides = ["ours"] if row.official is None else ["ours", "official"]
    fingerprints = []
    for turn in range(count + 1):
        progress(f"{row.work}: {turn} of {count}")
        # The sides alternate in running first, so that both benefit from warm caches.
        for side in sides if turn % 2 else reversed(sides):
            answer = run_worker(piece, index, side)
            fingerprints.append(answer.pop("fingerprint"))
            if turn:
                samples = getattr(result, side)
                for name, value in answer.items():
                    getattr(samples, name).append(value)
    if any(fingerprint != fingerprints[0] for fingerprint in fingerprints):
        raise WorkerError(f"{piece}, row {index}: the two sides returned different results")
    return result
