"""Functions that worker processes of a catalog import by name from this module."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

from onnxwire.catalog.read import read_models


def read_or_die(task):
    """Read models. Kill the process at a model called "poison" and at the first read of a model called "fragile"."""
    for model in map(Path, task.models):
        if model.stem == "poison" or (model.stem == "fragile" and not (mark := model.with_suffix(".died")).exists()):
            if model.stem == "fragile":
                mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return read_models(task)


def reciprocal(number):
    """Return the reciprocal of a number. Raises ZeroDivisionError for 0."""
    return 1 / number


def end_twice(folder):
    """End the process at the first two calls with a folder; later, return the number of ended processes.

    folder: empty at first; each ended process makes a folder in it.
    """
    n_ended = len(os.listdir(folder))
    if n_ended < 2:
        os.mkdir(os.path.join(folder, str(n_ended)))
        os._exit(1)
    return n_ended


def wait_forever(_):
    """Wait until the process is killed; ignore the argument."""
    threading.Event().wait()
