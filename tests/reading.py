"""Readers that workers of a catalog are given in tests: their processes import it by name."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from onnxwire.catalog.read import read_models


def read_or_die(task):
    """Read as usual, but end the process at a model called poison, and the first time at one called fragile."""
    for model in map(Path, task.models):
        if model.stem == "poison" or (model.stem == "fragile" and not (mark := model.with_suffix(".died")).exists()):
            if model.stem == "fragile":
                mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    return read_models(task)
