"""Fixtures for tests of catalogs."""

import pickle
import sys

import pytest

from onnxwire.catalog.read import read_models


@pytest.fixture(autouse=True)
def one_worker_is_this_process(monkeypatch):
    """Read models in this process if a build has one worker, because a worker process takes half a second to start.

    Tests that need real worker processes request two workers, or start the build in another process.
    """
    module = sys.modules.get("onnxwire.catalog.build")
    if module is None:
        return
    run_tasks_in_workers = module.run_tasks

    def pickled_copy(value):
        return pickle.loads(pickle.dumps(value))

    def run_tasks(tasks, engine, address=None, workers=None):
        if (engine, workers) != ("local", 1):
            return run_tasks_in_workers(tasks, engine, address, workers)
        # Tasks and results are pickled, as between processes.
        return ((task, pickled_copy(read_models(pickled_copy(task)))) for task in tasks)

    monkeypatch.setattr(module, "run_tasks", run_tasks)
