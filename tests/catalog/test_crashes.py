"""Builds that are killed, fail on a full disk or are rejected: models have old or new rows, and no file is left over.

A catalog that is updated has changed, deleted, unreadable, new and unchanged models, groups of which some models are
removed, and files that were replaced before; in one scenario it also lacks a file, and models of that file may
have only a row in `failures` that reports it. Its folders also contain files of other programs.
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

build_module = sys.modules["onnxwire.catalog.build"]
FOREIGN_FILE = "f" * 32 + ".parquet"
# Replaced files are deleted at once, three groups are merged, and every change writes a new journal.
SMALL_LIMITS = {"GRACE_SECONDS": -1, "_FAN_IN": 3, "_JOURNAL_BYTES": -(1 << 20)}


class Scenario:
    """A folder of models, and its catalog before and after the build that is interrupted.

    zoo: the folder of models. out: the catalog. template: a copy of the catalog before the build, absent for the first
    build. The fixture sets the other attributes. old_rows, new_rows: the rows by model before and after the build.
    foreign_paths: files of other programs in the catalog's folder. is_damaged: whether a file of the catalog is missing
    before the build. stride: the number of steps between interruptions.
    """

    def __init__(self, base):
        self.base = base
        self.zoo, self.template, self.out = base / "zoo", base / "template", base / "copy" / "out"
        self.zoo.mkdir()

    def write_models(self, **op_types):
        """Replace the files by models with an operator of the given type; for a type of None, by a damaged file."""
        for path in self.zoo.iterdir():
            path.unlink()
        for name, op_type in op_types.items():
            # b"\x08" is a tag without a value.
            data = b"\x08" if op_type is None else small_model(int(name[1:]), op_type)
            path = self.zoo / f"{name}.onnx"
            path.write_bytes(data)
            # The modification time depends on the type.
            os.utime(path, ns=(0, sum(map(ord, op_type or ""))))

    def reset(self):
        """Restore the folder of the catalog as it is before the build."""
        shutil.rmtree(self.out.parent, ignore_errors=True)
        self.out.parent.mkdir()
        (self.out.parent / FOREIGN_FILE).write_text("beside")
        if self.template.exists():
            shutil.copytree(self.template, self.out)

    def build(self):
        """Bring the catalog up to date."""
        return catalog.build([self.zoo], self.out, prune=True)

    def rows(self):
        """Return the rows by model, or an empty dict if there is no catalog."""
        try:
            return rows_by_model(self.out)
        except onnxwire.SourceError as error:
            assert "contains no catalog" in str(error) or "No such file" in str(error)
            return {}

    def check_and_complete(self):
        """Check the catalog of an interrupted build. Assert that the next build completes the catalog.

        Returns how many models had their new rows before the next build.
        """
        rows_before = self.rows() if not self.is_damaged or self.is_complete() else {}
        for model, rows in rows_before.items():
            assert rows in (self.old_rows.get(model), self.new_rows.get(model)) or is_lost(rows), model
        if rows_before:
            assert self.old_rows.keys() & self.new_rows.keys() <= rows_before.keys()
        self.build()
        assert self.rows() == self.new_rows
        with Dataset(str(self.out)):  # deletes replaced files, since the tests set no grace period
            pass
        assert parquet_files(self.out) - valid_files(self.out) == set(self.foreign_paths)
        assert [path.name for path in self.out.glob("*.jsonl")] == [JOURNAL]
        for path in (*self.foreign_paths, self.out.parent / FOREIGN_FILE):
            assert path.read_text() in ("mine", "beside")
        return sum(rows == self.new_rows.get(model) for model, rows in rows_before.items())

    def is_complete(self):
        """Return whether the catalog refers to no missing file."""
        try:
            files_of(self.out)
        except onnxwire.SourceError as error:
            assert "is missing" in str(error)
            return False
        return True


def is_lost(rows):
    """Return whether a model has only rows in `failures`, the first of which reports a missing file."""
    return list(rows) == ["failures"] and "was missing" in rows["failures"][0]["reason"]


@pytest.fixture(params=["first", "update", "update of a damaged one"])
def scenario(request, tmp_path, monkeypatch):
    """Make a scenario: the first build, an update, or an update of a catalog without one of its files."""
    monkeypatch.setattr(build_module, "run_tasks", lambda tasks, *_: ((task, read_models(task)) for task in tasks))
    monkeypatch.setattr(build_module, "_TASK_MODELS", 1)
    monkeypatch.setattr(build_module, "_GROUP_MODELS", 3)
    for name, value in SMALL_LIMITS.items():
        monkeypatch.setattr(dataset, name, value)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # a kill does not lose unsynced data
    scenario = Scenario(tmp_path)
    scenario.old_rows, scenario.foreign_paths, scenario.is_damaged = {}, [], request.param == "update of a damaged one"
    # The build is interrupted at every stride-th step: at more steps of "update", because few of them replace rows.
    scenario.stride = 1 if IS_LONG else 7 if request.param == "update" else 17
    scenario.reset()
    if request.param != "first":
        old_op_types = {f"m{i}": "Abs" if i < 6 else None for i in range(8)}
        scenario.write_models(**old_op_types)
        scenario.build()
        scenario.write_models(**old_op_types | {"m3": "Neg"})
        scenario.build()  # the first version of m3 is in a file that is replaced here
        scenario.old_rows = scenario.rows()
        scenario.foreign_paths = [scenario.out / "notes.parquet", scenario.out / "models" / FOREIGN_FILE]
        for path in scenario.foreign_paths:
            path.write_text("mine")
        if scenario.is_damaged:
            os.unlink(next(file for file in files_of(scenario.out)["values"] if "m1.onnx" in str(pq.read_table(file))))
        shutil.copytree(scenario.out, scenario.template)
    scenario.write_models(m0="Neg", m1="Abs", m2=None, m3="Neg", m5="Neg", m6=None, m7="Abs", m8="Abs")
    shutil.rmtree(scenario.out.parent)
    scenario.out.parent.mkdir()
    catalog.build([scenario.zoo], scenario.out)
    scenario.new_rows = scenario.rows()
    return scenario


# A program that reads numbers of steps. For each, it forks a child whose build is killed at that step. The test process
# itself can't be forked, because it may have threads of pyarrow.
FORKING_PROGRAM = """\
import functools, importlib, os, signal, sys
sys.path.insert(0, sys.argv[3])
import catalogs
for name in sys.argv[5:]:
    importlib.import_module(name)  # so that no child has to import it
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


def test_a_build_that_is_killed_at_any_step_leaves_old_or_new_rows(scenario):
    module_names = [name for name in sys.modules if name.startswith(("onnxwire.", "pyarrow."))]
    command = [
        sys.executable,
        "-c",
        FORKING_PROGRAM,
        str(scenario.zoo),
        str(scenario.out),
        str(Path(catalogs.__file__).parent),
        repr(SMALL_LIMITS),
        *module_names,
    ]
    updated_model_counts = []
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as forking_process:
        for step in itertools.count(0, scenario.stride):
            scenario.reset()
            print(step, file=forking_process.stdin)
            status = int(forking_process.stdout.readline())
            if status == 0:
                break
            assert status == -signal.SIGKILL
            updated_model_counts.append(scenario.check_and_complete())
        forking_process.stdin.close()
    assert len(updated_model_counts) > 50 / scenario.stride
    assert len(set(updated_model_counts)) > 2  # some of the kills left a part of the models in the new state


def test_a_full_disk_is_a_one_line_error_and_leaves_old_or_new_rows(scenario, monkeypatch):
    failed_steps = []

    def raise_disk_full():
        failed_steps.append(step)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for step in itertools.count(0, scenario.stride):
        scenario.reset()
        with monkeypatch.context() as context:
            for owner, name in catalogs.WRITE_FUNCTIONS:
                context.setattr(owner, name, getattr(owner, name))  # records the value, which is restored afterwards
            catalogs.interrupt_at(step, raise_disk_full)
            try:
                scenario.build()
            except onnxwire.SaveError as error:
                assert "No space left" in str(error)
                assert "\n" not in str(error)
            else:
                if step not in failed_steps:
                    break
                assert step == 0  # step 0 is makedirs, whose error is ignored if the folder exists
        scenario.check_and_complete()
    assert step > 50


@pytest.mark.parametrize(
    "scenario",
    ["update", *(pytest.param(name, marks=pytest.mark.long) for name in ("first", "update of a damaged one"))],
    indirect=True,
)
def test_builds_that_are_killed_at_random_times_are_completed_by_the_next(scenario, monkeypatch):
    monkeypatch.setattr(build_module, "run_tasks", engines.run_tasks)
    code = (
        "import sys\nfrom onnxwire.catalog import build, dataset\nmodule = sys.modules['onnxwire.catalog.build']\n"
        "module._TASK_MODELS, module._GROUP_MODELS = 1, 3\nvars(dataset).update(eval(sys.argv[3]))\n"
        "print(flush=True)\nbuild([sys.argv[1]], sys.argv[2], prune=True, workers=1)\n"
    )
    command = [sys.executable, "-c", code, str(scenario.zoo), str(scenario.out), repr(SMALL_LIMITS)]
    rng = random.Random(1)
    total_seconds = None
    for _ in range(40 if IS_LONG else 3):  # the first build is not killed but measured
        scenario.reset()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            start = time.monotonic()
            if total_seconds is None:
                process.wait()
                total_seconds = time.monotonic() - start
            else:
                time.sleep(rng.random() * total_seconds)
                process.kill()
        scenario.check_and_complete()


def test_a_concurrent_build_is_rejected_and_changes_nothing(scenario):
    scenario.reset()
    with Dataset(str(scenario.out)):
        rows_before = scenario.rows()
        with pytest.raises(onnxwire.SaveError, match="another run"):
            scenario.build()
        assert scenario.rows() == rows_before
    scenario.check_and_complete()
