"""Fixtures of the tests of files and servers."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from onnxwire.io.remote import file


@pytest.fixture(autouse=True)
def lower_small_file_limit(monkeypatch) -> None:
    """Read files of more than 4 MiB in ranges, so that tests of ranges need no large files."""
    monkeypatch.setattr(file, "_SMALL_FILE_BYTES", 1 << 22)


@dataclass
class Trips:
    """The number of sequential batches of requests for files: the requests of a batch are sent together."""

    count: int = 0


@pytest.fixture
def trips(monkeypatch) -> Trips:
    """Count the batches of requests for files in the test."""
    counter = Trips()
    run = file.run

    def counting_run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        counter.count += 1
        return run(coroutine)

    monkeypatch.setattr(file, "run", counting_run)
    return counter
