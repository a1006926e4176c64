"""Functions for workers of a catalog. They are in a module because the worker processes import them by name."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from onnxwire.catalog.read import read_models


def read_or_die(task):
    """Read as usual, but kill the process at a model called poison, and at the first read of one called fragile."""
    for model in map(Path, task.models):
        if model.stem == "poison" or (model.stem == "fragile" and not (mark := model.with_suffix(".died")).exists()):
            if model.stem == "fragile":
                mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return read_models(task)


def reciprocal(number):
    """Return the reciprocal of a number; fail for 0."""
    return 1 / number


def end_twice(folder):
    """End the process the first two times."""
    done = len(os.listdir(folder))
    if done < 2:
        os.mkdir(os.path.join(folder, str(done)))
        os._exit(1)
    return done


def wait_for_ever(_):
    """Wait until the process is killed."""
    threading.Event().wait()
