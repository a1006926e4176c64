"""Worker processes: their import path, the results and errors of calls, and pools of workers."""

from __future__ import annotations

import operator
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import worker_functions
from catalogs import small_model

from onnxwire.catalog.workers import Worker, WorkerLost, WorkerPool, import_path
from onnxwire.errors import FieldValueError

pytest.importorskip("pyarrow")

# Modules that Python, multiprocessing or the imports of a worker might search in the working directory first.
MODULE_NAMES = (
    "struct", "pickle", "signal", "os", "site", "sitecustomize", "usercustomize", "encodings", "google",
    "multiprocessing", "threading",
    "queue", "socket", "numpy", "pyarrow", "onnxwire", "xxhash", "ml_dtypes", "json", "re",
    "ctypes",
)  # fmt: skip
ONNXWIRE_COMMAND = shutil.which("onnxwire", path=os.path.dirname(sys.executable))


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a model and with modules that create a file when they are imported."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "m.onnx").write_bytes(small_model(1))
    for name in MODULE_NAMES:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    return folder


@pytest.mark.skipif(ONNXWIRE_COMMAND is None, reason="the command is not installed")
def test_no_module_in_the_folder_of_models_is_imported(folder, tmp_path):
    command = [ONNXWIRE_COMMAND, "catalog", ".", "-o", "../out", "--hash", "--check", "--workers", "2"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    subprocess.run([ONNXWIRE_COMMAND, "sql", "../out", "from models"], cwd=folder, check=True, capture_output=True)
    assert not (tmp_path / "ran").exists()


def test_a_worker_imports_nothing_from_the_working_directory(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", ["", ".", str(folder), f"{folder}/", *sys.path])
    with Worker() as worker:
        path = worker.call(operator.attrgetter("path"), picklable_sys())
    assert not {"", ".", str(folder), f"{folder}/"} & set(path)
    assert not (tmp_path / "ran").exists()


def picklable_sys():
    """Return an object that becomes the module `sys` when it is pickled and unpickled."""

    class PickledAsSys:
        """An object that unpickling replaces by the module `sys`."""

        def __reduce__(self):
            return __import__, ("sys",)

    return PickledAsSys()


def test_the_working_directory_is_searched_last_if_it_contains_onnxwire(monkeypatch):
    import onnxwire

    package_parent = Path(onnxwire.__file__).parents[1]
    monkeypatch.chdir(package_parent)
    monkeypatch.setattr(sys, "path", [str(package_parent), *sys.path])
    assert import_path().index(str(package_parent)) == len(import_path()) - 1


def test_a_call_returns_the_result_or_raises_the_exception_of_its_function(capfd):
    with Worker() as worker:
        assert worker.call(len, "four") == 4
        with pytest.raises(ZeroDivisionError):
            worker.call(worker_functions.reciprocal, 0)
        worker.call(os.system, "echo no answer")  # the output must not be read as the result of a call
        assert worker.call(len, b"x" * 10_000_000) == 10_000_000
    assert "no answer" in capfd.readouterr().err


def test_a_call_that_cannot_be_pickled_is_an_error(monkeypatch):
    with Worker() as worker:
        with pytest.raises(FieldValueError, match="can't be sent to another process"):
            worker.call(len, threading.Lock())
        with monkeypatch.context() as context:
            context.setitem(sys.modules, "no_such_module", worker_functions)
            context.setattr(worker_functions.reciprocal, "__module__", "no_such_module")
            with pytest.raises(FieldValueError, match="can't be sent to another process"):
                worker.call(worker_functions.reciprocal, 1)
        assert worker.call(len, "x") == 1


def test_a_pool_repeats_the_call_of_a_worker_that_ended(tmp_path):
    with Worker() as worker, pytest.raises(WorkerLost):
        worker.call(os._exit, 3)
    with WorkerPool(size=2, attempts=3) as pool:
        with pytest.raises(WorkerLost):
            pool.submit(os._exit, 3).result()
        assert pool.submit(worker_functions.end_twice, str(tmp_path)).result() == 2
        assert [pool.submit(len, "x" * n).result() for n in range(5)] == list(range(5))


def test_leaving_a_pool_ends_its_calls():
    with WorkerPool(size=2, attempts=3) as pool:
        futures = [pool.submit(worker_functions.wait_forever, None) for _ in range(6)]
    assert all(future.done() for future in futures)
