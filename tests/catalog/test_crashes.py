"""Runs that are killed, or find the disk full, at each step: every model keeps its old or new rows, and no file leaks.

The catalog that is updated has changed, deleted, unreadable, new and unchanged models, groups that lose a part of their
models, files that were replaced before, and a missing file. Its folders also contain files of other programs.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import catalogs
import pytest
from budget import IS_LONG
from catalogs import parquet_files, rows_by_model, small_model, valid_files

import onnxwire
from onnxwire import catalog
from onnxwire.catalog import dataset, engines
from onnxwire.catalog.dataset import Dataset
from onnxwire.catalog.files import JOURNAL, files_of
from onnxwire.catalog.read import read_models

pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("fcntl")

module = sys.modules["onnxwire.catalog.build"]
FOREIGN_FILE = "f" * 32 + ".parquet"
# Replaced files are deleted at once, three groups are merged, and every change makes a new journal.
SMALL_LIMITS = {"GRACE_SECONDS": -1, "_FAN_IN": 3, "_JOURNAL_BYTES": -(1 << 20)}


class Scenario:
    """A folder of models in two states, and their catalogs."""

    def __init__(self, base):
        self.base = base
        self.zoo, self.template, self.out = base / "zoo", base / "template", base / "copy" / "out"
        self.zoo.mkdir()

    def models(self, **versions):
        """Make the folder of models: each has an operator of a type, or is None for a file that is not a model."""
        for path in self.zoo.iterdir():
            path.unlink()
        for name, version in versions.items():
            data = b"\x08" if version is None else small_model(int(name[1:]), version)
            path = self.zoo / f"{name}.onnx"
            path.write_bytes(data)
            os.utime(path, ns=(0, sum(map(ord, version or ""))))

    def copy(self):
        shutil.rmtree(self.out.parent, ignore_errors=True)
        self.out.parent.mkdir()
        (self.out.parent / FOREIGN_FILE).write_text("beside")
        if self.template.exists():
            shutil.copytree(self.template, self.out)

    def build(self):
        return catalog.build([self.zoo], self.out, prune=True)

    def rows(self):
        """Return the rows by model, or nothing without a catalog."""
        try:
            return rows_by_model(self.out)
        except onnxwire.SourceError as error:
            assert "contains no catalog" in str(error) or "No such file" in str(error)
            return {}

    def judge(self):
        """Check the files of an interrupted run, and that the next run completes the catalog."""
        seen = self.rows() if not self.is_damaged or self.is_healed() else {}
        for model, rows in seen.items():
            assert rows in (self.old.get(model), self.new.get(model)) or is_lost(rows), model
        if seen:
            assert self.old.keys() & self.new.keys() <= seen.keys()
        self.build()
        assert self.rows() == self.new
        with Dataset(str(self.out)):  # deletes replaced files, since the test has no grace period
            pass
        assert parquet_files(self.out) - valid_files(self.out) == set(self.foreign)
        assert [path.name for path in self.out.glob("*.jsonl")] == [JOURNAL]
        for path in (*self.foreign, self.out.parent / FOREIGN_FILE):
            assert path.read_text() in ("mine", "beside")
        return sum(rows == self.new.get(model) for model, rows in seen.items())

    def is_healed(self):
        """Return whether the missing file is no longer part of the catalog."""
        try:
            files_of(self.out)
        except onnxwire.SourceError as error:
            assert "is missing" in str(error)
            return False
        return True


def is_lost(rows):
    return list(rows) == ["failures"] and "was missing" in rows["failures"][0]["reason"]


@pytest.fixture(params=["first", "update", "update of a damaged one"])
def scenario(request, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "run_tasks", lambda tasks, *_: ((task, read_models(task)) for task in tasks))
    monkeypatch.setattr(module, "_TASK_MODELS", 1)
    monkeypatch.setattr(module, "_GROUP_MODELS", 3)
    for name, value in SMALL_LIMITS.items():
        monkeypatch.setattr(dataset, name, value)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill does not lose unsynced data
    scenario = Scenario(tmp_path)
    scenario.old, scenario.foreign, scenario.is_damaged = {}, [], request.param == "update of a damaged one"
    # Every stride-th step is tried: more of an update, because only a few of its steps replace rows.
    scenario.stride = 1 if IS_LONG else 7 if request.param == "update" else 17
    scenario.copy()
    if request.param != "first":
        old = {f"m{i}": "Abs" if i < 6 else None for i in range(8)}
        scenario.models(**old)
        scenario.build()
        scenario.models(**old | {"m3": "Neg"})
        scenario.build()  # the version of m3 before is in a file that was replaced
        scenario.old = scenario.rows()
        scenario.foreign = [scenario.out / "notes.parquet", scenario.out / "models" / FOREIGN_FILE]
        for path in scenario.foreign:
            path.write_text("mine")
        if scenario.is_damaged:
            os.unlink(next(file for file in files_of(scenario.out)["values"] if "m1.onnx" in str(pq.read_table(file))))
        shutil.copytree(scenario.out, scenario.template)
    scenario.models(m0="Neg", m1="Abs", m2=None, m3="Neg", m5="Neg", m6=None, m7="Abs", m8="Abs")
    shutil.rmtree(scenario.out.parent)
    scenario.out.parent.mkdir()
    catalog.build([scenario.zoo], scenario.out)
    scenario.new = scenario.rows()
    return scenario


# A process that forks a child for each run, which is killed at an event; the test process itself may have threads of
# pyarrow, which would not survive a fork.
RUNS = """\
import functools, importlib, os, signal, sys
sys.path.insert(0, sys.argv[3])
import catalogs
for name in sys.argv[5:]:
    importlib.import_module(name)  # imported here, so that no child imports it
from onnxwire.catalog import build, dataset
from onnxwire.catalog.read import read_models
module = sys.modules["onnxwire.catalog.build"]
module._TASK_MODELS, module._GROUP_MODELS = 1, 3
vars(dataset).update(eval(sys.argv[4]))
module.run_tasks = lambda tasks, *_: ((task, read_models(task)) for task in tasks)
os.fsync = lambda descriptor: None  # a kill does not lose unsynced data
for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            catalogs.interrupt_at(int(line), functools.partial(signal.raise_signal, signal.SIGKILL))
            build([sys.argv[1]], sys.argv[2], prune=True)
            os._exit(0)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def test_a_run_that_is_killed_at_any_step_leaves_old_or_new_rows(scenario):
    used = [name for name in sys.modules if name.startswith(("onnxwire.", "pyarrow."))]
    words = [
        sys.executable,
        "-c",
        RUNS,
        str(scenario.zoo),
        str(scenario.out),
        str(Path(catalogs.__file__).parent),
        repr(SMALL_LIMITS),
        *used,
    ]
    found = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as runs:
        for event in itertools.count(0, scenario.stride):
            scenario.copy()
            print(event, file=runs.stdin)
            status = int(runs.stdout.readline())
            if status == 0:
                break
            assert status == -signal.SIGKILL
            found.append(scenario.judge())
        runs.stdin.close()
    assert len(found) > 50 / scenario.stride
    assert len(set(found)) > 2  # some of the kills left a part of the models in the new state


def test_a_full_disk_is_an_error_in_one_line_and_leaves_old_or_new_rows(scenario, monkeypatch):
    failed = []

    def fail():
        failed.append(step)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for step in itertools.count(0, scenario.stride):
        scenario.copy()
        with monkeypatch.context() as patch:
            for owner, name in catalogs.STEPS:
                patch.setattr(owner, name, getattr(owner, name))  # records the value, which is restored at the end
            catalogs.interrupt_at(step, fail)
            try:
                scenario.build()
            except onnxwire.SaveError as error:
                assert "No space left" in str(error)
                assert "\n" not in str(error)
            else:
                if step not in failed:
                    break
                assert step == 0  # makedirs of an existing folder
        scenario.judge()
    assert step > 50


@pytest.mark.parametrize(
    "scenario",
    ["update", *(pytest.param(name, marks=pytest.mark.long) for name in ("first", "update of a damaged one"))],
    indirect=True,
)
def test_runs_that_are_killed_at_random_moments_are_completed_by_the_next(scenario, monkeypatch):
    monkeypatch.setattr(module, "run_tasks", engines.run_tasks)
    code = (
        "import sys\nfrom onnxwire.catalog import build, dataset\nmodule = sys.modules['onnxwire.catalog.build']\n"
        "module._TASK_MODELS, module._GROUP_MODELS = 1, 3\nvars(dataset).update(eval(sys.argv[3]))\n"
        "print(flush=True)\nbuild([sys.argv[1]], sys.argv[2], prune=True, workers=1)\n"
    )
    words = [sys.executable, "-c", code, str(scenario.zoo), str(scenario.out), repr(SMALL_LIMITS)]
    chance = random.Random(1)
    longest = None
    for _ in range(40 if IS_LONG else 3):  # the first one is not killed
        scenario.copy()
        with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            start = time.monotonic()
            if longest is None:
                process.wait()
                longest = time.monotonic() - start
            else:
                time.sleep(chance.random() * longest)
                process.kill()
        scenario.judge()


def test_a_concurrent_run_is_refused_and_changes_nothing(scenario):
    scenario.copy()
    with Dataset(str(scenario.out)):
        before = scenario.rows()
        with pytest.raises(onnxwire.SaveError, match="another run"):
            scenario.build()
        assert scenario.rows() == before
    scenario.judge()
